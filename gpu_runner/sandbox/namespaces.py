"""Namespaces: a root of its own that shows only what the plan names, no network, no other processes."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import socket
import struct
from pathlib import Path

from gpu_runner.sandbox import kernel
from gpu_runner.sandbox.plan import SandboxPlan

_SETTINGS = ("sys", "sysrq-trigger", "irq", "bus", "fs", "acpi", "scsi", "driver", "mtrr", "kcore")
_SIOCSIFFLAGS = 0x8914
_IFF_UP = 1


def leave() -> None:
    """Leave the parent's namespaces; the next fork is the first process of the new ones.

    Raises:
        OSError: the host does not allow it.
    """
    user, group = os.getuid(), os.getgid()
    others = kernel.CLONE_NEWNS | kernel.CLONE_NEWPID | kernel.CLONE_NEWNET | kernel.CLONE_NEWIPC | kernel.CLONE_NEWUTS
    kernel.unshare(kernel.CLONE_NEWUSER | others)
    Path("/proc/self/setgroups").write_text("deny")
    Path("/proc/self/uid_map").write_text(f"{user} {user} 1")
    Path("/proc/self/gid_map").write_text(f"{group} {group} 1")


def raise_loopback() -> None:
    """Bring up the loopback of the new, otherwise empty network namespace: tests use it."""
    name_and_flags = struct.pack("16sh14x", b"lo", _IFF_UP)
    with contextlib.suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as handle:
        fcntl.ioctl(handle, _SIOCSIFFLAGS, name_and_flags)


def build_root(plan: SandboxPlan) -> None:
    """Build the root in an empty file system in memory and move into it; called by the first process of the namespaces.

    Raises:
        OSError: a mount was refused.
    """
    kernel.mount(None, "/", None, kernel.MS_REC | kernel.MS_PRIVATE)
    root = Path(plan.scratch).parent / "root"
    root.mkdir(exist_ok=True)
    kernel.mount("tmpfs", str(root), "tmpfs", kernel.MS_NOSUID | kernel.MS_NODEV, "size=16m,mode=755")
    for path in sorted(plan.readable, key=len):
        if path not in ("/proc", "/sys"):
            _show(root, path)
    for path in ("/sys", *plan.devices):
        _bind(root, path)
    _proc(root)
    _scratch(root, plan)
    kernel.pivot_root(str(root))


def _show(root: Path, path: str) -> None:
    source, target = Path(path), root / path.lstrip("/")
    if any((root / parent.as_posix().lstrip("/")).is_symlink() for parent in source.parents if parent != Path("/")):
        return  # it lies behind a link that is shown already
    if os.path.lexists(target):
        return  # a folder above it is shown already
    if source.is_symlink():
        target.parent.mkdir(parents=True, exist_ok=True)
        target.symlink_to(source.readlink())
        return
    _target(source, target)
    kernel.bind_read_only(path, str(target))


def _bind(root: Path, path: str) -> None:
    source, target = Path(path), root / path.lstrip("/")
    if not source.exists():
        return
    _target(source, target)
    if path == "/sys":
        kernel.bind_read_only(path, str(target))
    else:
        kernel.mount(path, str(target), None, kernel.MS_BIND | kernel.MS_REC)


def _proc(root: Path) -> None:
    target = root / "proc"
    target.mkdir()
    try:
        kernel.mount("proc", str(target), "proc", kernel.MS_NOSUID | kernel.MS_NODEV | kernel.MS_NOEXEC)
    except OSError:
        # Inside of a container parts of /proc are covered and a new one is refused; the old one still serves the child
        # its own entries, and Landlock keeps it from those of others.
        kernel.mount("/proc", str(target), None, kernel.MS_BIND | kernel.MS_REC)
    # To the kernel's settings a child of root is root, also in a namespace of its own.
    for name in _SETTINGS:
        if (target / name).exists():
            kernel.bind_read_only(str(target / name), str(target / name))


def _scratch(root: Path, plan: SandboxPlan) -> None:
    """Recreate the folder in a tmpfs of limited size that is gone with its last user; /dev/shm is in it."""
    target, shared = root / plan.scratch.lstrip("/"), root / "dev/shm"
    for folder in (target, shared):
        folder.mkdir(parents=True, exist_ok=True)
    limits = f"size={plan.limits.scratch_bytes},nr_inodes={plan.limits.scratch_files},mode=700"
    kernel.mount("tmpfs", str(target), "tmpfs", kernel.MS_NOSUID | kernel.MS_NODEV, limits)
    shutil.copytree(plan.scratch, target, symlinks=True, dirs_exist_ok=True)
    (target / "shm").mkdir(mode=0o1777)
    kernel.mount(str(target / "shm"), str(shared), None, kernel.MS_BIND)


def _target(source: Path, target: Path) -> None:
    if source.is_dir():
        target.mkdir(parents=True, exist_ok=True)
    else:
        target.parent.mkdir(parents=True, exist_ok=True)
        target.touch()
