"""Landlock: rules on files, network and signals that a process lays on itself without any privilege.

Source: Documentation/userspace-api/landlock.rst of the Linux kernel; numbers from include/uapi/linux/landlock.h.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Sequence
from pathlib import Path

from gpu_runner.sandbox.kernel import prctl, syscall

_SYS_CREATE, _SYS_ADD, _SYS_RESTRICT = 444, 445, 446
_RULE_PATH_BENEATH = 1
_CREATE_VERSION = 1
_PR_SET_NO_NEW_PRIVS = 38

EXECUTE, WRITE_FILE, READ_FILE, READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
_ALL_V1 = (1 << 13) - 1
REFER, TRUNCATE, IOCTL_DEV = 1 << 13, 1 << 14, 1 << 15
_FILE_ONLY = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | IOCTL_DEV
_READ = EXECUTE | READ_FILE | READ_DIR
_DEVICE = READ_FILE | WRITE_FILE | READ_DIR | IOCTL_DEV
_BIND_TCP, _CONNECT_TCP = 1, 2
_SCOPE_ABSTRACT_SOCKETS, _SCOPE_SIGNALS = 1, 2


class _Ruleset(ctypes.Structure):
    _fields_ = (("fs", ctypes.c_uint64), ("net", ctypes.c_uint64), ("scoped", ctypes.c_uint64))


class _PathBeneath(ctypes.Structure):
    _pack_ = 1
    _layout_ = "ms"
    _fields_ = (("allowed", ctypes.c_uint64), ("parent_fd", ctypes.c_int32))


def abi() -> int:
    """The kernel's Landlock version, 0 for none."""
    try:
        return syscall(_SYS_CREATE, None, ctypes.c_size_t(0), ctypes.c_uint32(_CREATE_VERSION))
    except OSError:
        return 0


def handled(version: int) -> tuple[int, int, int]:
    """What a ruleset of this version restricts: file rights, network rights, scopes."""
    files = _ALL_V1
    files |= REFER if version >= 2 else 0
    files |= TRUNCATE if version >= 3 else 0
    files |= IOCTL_DEV if version >= 5 else 0
    network = _BIND_TCP | _CONNECT_TCP if version >= 4 else 0
    scopes = _SCOPE_ABSTRACT_SOCKETS | _SCOPE_SIGNALS if version >= 6 else 0
    return files, network, scopes


def restrict(
    readable: Sequence[str],
    writable: Sequence[str],
    devices: Sequence[str],
    overwritable: Sequence[str] = (),
    network: bool = False,
) -> int:
    """Restrict this thread and all that it starts; returns the version in force.

    In ``overwritable`` folders existing files may be written, none made. ``network`` leaves TCP alone, for a child
    that has an empty network namespace of its own.

    Raises:
        OSError: the kernel has no Landlock.
    """
    version = abi()
    files, sockets, scopes = handled(version)
    ruleset = _Ruleset(files, 0 if network else sockets, scopes)
    size = 24 if version >= 6 else 16 if version >= 4 else 8
    handle = syscall(_SYS_CREATE, ctypes.byref(ruleset), ctypes.c_size_t(size), ctypes.c_uint32(0))
    try:
        rules = ((readable, _READ), (devices, _DEVICE), (overwritable, WRITE_FILE | TRUNCATE), (writable, files))
        for paths, rights in rules:
            for path in paths:
                _allow(handle, path, rights & files)
        prctl(_PR_SET_NO_NEW_PRIVS, 1)
        syscall(_SYS_RESTRICT, ctypes.c_int(handle), ctypes.c_uint32(0))
    finally:
        os.close(handle)
    return version


def _allow(ruleset: int, path: str, rights: int) -> None:
    try:
        handle = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    try:
        rule = _PathBeneath(rights if Path(path).is_dir() else rights & _FILE_ONLY, handle)
        syscall(
            _SYS_ADD, ctypes.c_int(ruleset), ctypes.c_int(_RULE_PATH_BENEATH), ctypes.byref(rule), ctypes.c_uint32(0)
        )
    finally:
        os.close(handle)
