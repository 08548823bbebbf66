"""What keeps the database or the artifacts from being read or written, in words that say what an operator does about it. Pure."""

from __future__ import annotations

import errno
import sqlite3
from dataclasses import dataclass

from sqlalchemy.exc import DBAPIError, InterfaceError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError


@dataclass(frozen=True)
class StoreTrouble:
    """Why a store cannot be used now; ``late``: it may only be busy, and is not known to be broken."""

    detail: str
    fix: str
    late: bool = False


FULL = StoreTrouble(
    "the disk is full", "free space on the disk of the database and the artifacts; waiting work resumes by itself"
)
LOCKED = StoreTrouble(
    "locked by another process", "wait; if it stays, end what else has opened the database", late=True
)
BUSY = StoreTrouble("all connections are in use", "wait; if it stays, restart", late=True)
READ_ONLY = StoreTrouble(
    "it cannot be written to", "see who owns the data folder, and whether its disk is mounted read-only"
)
DAMAGED = StoreTrouble("it is damaged", "stop everything and restore the backup")
UNREADABLE = StoreTrouble("the disk gives errors", "look at the disk (`dmesg`), free space on it")
DOWN = StoreTrouble("it gives no answer", "start the database; check DATABASE_URL, and that this host reaches it")

_SQLITE = {  # by primary result code
    sqlite3.SQLITE_FULL: FULL,
    sqlite3.SQLITE_BUSY: LOCKED,
    sqlite3.SQLITE_LOCKED: LOCKED,
    sqlite3.SQLITE_READONLY: READ_ONLY,
    sqlite3.SQLITE_PERM: READ_ONLY,
    sqlite3.SQLITE_CANTOPEN: READ_ONLY,
    sqlite3.SQLITE_CORRUPT: DAMAGED,
    sqlite3.SQLITE_NOTADB: DAMAGED,
    sqlite3.SQLITE_IOERR: UNREADABLE,
}
_POSTGRES = {  # by SQLSTATE
    "53100": FULL,
    "53300": BUSY,
    "55P03": LOCKED,
    "25006": READ_ONLY,
    "58030": UNREADABLE,
    "XX001": DAMAGED,
    "XX002": DAMAGED,
}
_SYSTEM = {
    errno.ENOSPC: FULL,
    errno.EDQUOT: FULL,
    errno.EFBIG: FULL,
    errno.EROFS: READ_ONLY,
    errno.EACCES: READ_ONLY,
    errno.EPERM: READ_ONLY,
    errno.EIO: UNREADABLE,
}


def trouble_of(error: BaseException) -> StoreTrouble | None:
    """What an error means for the database or the artifacts; None where it is a fault of another kind."""
    if isinstance(error, OSError):
        return _SYSTEM.get(error.errno or 0)
    if isinstance(error, PoolTimeoutError):
        return BUSY
    original = error.orig if isinstance(error, DBAPIError) else error
    code: int | None = getattr(original, "sqlite_errorcode", None)
    if code is not None:
        return _SQLITE.get(code & 0xFF)  # the rest of an extended code says where it happened
    state: str | None = getattr(original, "sqlstate", None)
    if isinstance(error, OperationalError | InterfaceError) and (state is None or state[:2] in ("08", "57")):
        return DOWN  # refused, cut off, or shut down
    return _POSTGRES.get(state or "")
