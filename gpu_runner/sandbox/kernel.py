"""The few system calls that Python does not have, by ctypes."""

from __future__ import annotations

import ctypes
import os

_libc = ctypes.CDLL(None, use_errno=True)

CLONE_NEWNS = 0x00020000
CLONE_NEWUTS = 0x04000000
CLONE_NEWIPC = 0x08000000
CLONE_NEWUSER = 0x10000000
CLONE_NEWPID = 0x20000000
CLONE_NEWNET = 0x40000000

MS_NOSUID = 0x2
MS_NODEV = 0x4
MS_NOEXEC = 0x8
MS_BIND = 0x1000
MS_REC = 0x4000
MS_PRIVATE = 1 << 18
MNT_DETACH = 2

MOUNT_ATTR_RDONLY = 0x1
MOUNT_ATTR_NOSUID = 0x2
_AT_FDCWD = -100
_AT_RECURSIVE = 0x8000
# The same numbers on x86-64 and on 64-bit Arm, except for pivot_root.
_SYS_MOUNT_SETATTR = 442
_SYS_PIVOT_ROOT = {"x86_64": 155, "aarch64": 41}

PR_SET_PDEATHSIG = 1
_PR_CAPBSET_DROP = 24
PR_SET_CHILD_SUBREAPER = 36
_PR_SET_NO_NEW_PRIVS = 38
_CAPABILITY_VERSION_3 = 0x20080522


class _MountAttr(ctypes.Structure):
    _fields_ = (
        ("attr_set", ctypes.c_uint64),
        ("attr_clr", ctypes.c_uint64),
        ("propagation", ctypes.c_uint64),
        ("userns_fd", ctypes.c_uint64),
    )


def _check(result: int, what: str) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
    return result


def syscall(number: int, *arguments: object) -> int:
    """A raw system call.

    Raises:
        OSError: with the call's errno.
    """
    ctypes.set_errno(0)
    return _check(_libc.syscall(ctypes.c_long(number), *arguments), f"system call {number}")


def unshare(flags: int) -> None:
    """Leave the namespaces of the parent.

    Raises:
        OSError: the host does not allow it.
    """
    _check(_libc.unshare(flags), "unshare")


def mount(source: str | None, target: str, kind: str | None, flags: int, data: str | None = None) -> None:
    """Mount.

    Raises:
        OSError: with the path.
    """
    coded = [None if text is None else text.encode() for text in (source, target, kind, data)]
    result = _libc.mount(coded[0], coded[1], coded[2], ctypes.c_ulong(flags), coded[3])
    _check(result, f"mount {target}")


def bind_read_only(source: str, target: str) -> None:
    """Show ``source``, with all that is mounted below it, at ``target``, read-only.

    Raises:
        OSError: with the path.
    """
    mount(source, target, None, MS_BIND | MS_REC)
    wanted = _MountAttr(MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID, 0, 0, 0)
    size = ctypes.c_size_t(ctypes.sizeof(wanted))
    path = ctypes.c_char_p(target.encode())
    syscall(_SYS_MOUNT_SETATTR, ctypes.c_int(_AT_FDCWD), path, ctypes.c_uint(_AT_RECURSIVE), ctypes.byref(wanted), size)


def pivot_root(new: str) -> None:
    """Make ``new`` the root and unmount the old one.

    Raises:
        OSError: the host does not allow it.
    """
    os.chdir(new)
    syscall(_SYS_PIVOT_ROOT[os.uname().machine], ctypes.c_char_p(b"."), ctypes.c_char_p(b"."))
    _check(_libc.umount2(b".", MNT_DETACH), "umount2")
    os.chdir("/")


def prctl(option: int, value: int) -> None:
    """Set a property of this process.

    Raises:
        OSError: the kernel does not know it.
    """
    _check(_libc.prctl(option, ctypes.c_ulong(value), 0, 0, 0), f"prctl {option}")


def forswear_privileges() -> None:
    """Drop every capability, for this process and all that it starts."""
    prctl(_PR_SET_NO_NEW_PRIVS, 1)
    for capability in range(64):
        try:
            prctl(_PR_CAPBSET_DROP, capability)
        except OSError:
            break  # behind the last one, or never had
    header = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION_3, 0)
    no_capabilities = (ctypes.c_uint32 * 6)()
    _check(_libc.capset(ctypes.byref(header), ctypes.byref(no_capabilities)), "capset")
