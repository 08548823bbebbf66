"""What nearly every test of a job would do anew with the same result: done once in a process.

A process that a test starts does all of it itself, and ``undone`` is for tests of these very things.
"""

from __future__ import annotations

import contextlib
import functools
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from jwt.algorithms import RSAAlgorithm
from sqlalchemy import Dialect, Engine, event

from workers.store import database
from workers.store.database import Database

COMPILED: dict[str, dict[Any, Any]] = {}
DIALECTS: dict[str, Dialect] = {}  # each has been connected: some of what it knows it asked a server for
_init, _keep_private, _prepare_key = Database.__init__, database._keep_private, RSAAlgorithm.prepare_key


@functools.cache
def keys() -> tuple[str, str]:
    """An App's private and public key."""
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    public = key.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    return private.decode(), public.decode()


@functools.cache
def _migrated() -> bytes:
    """A SQLite database with the newest schema and no rows."""
    with tempfile.TemporaryDirectory() as folder, undone():
        path = Path(folder) / "migrated.sqlite3"
        made = Database(f"sqlite:///{path}")
        made.migrate()
        made.dispose()
        return path.read_bytes()


def _copy_migrated(path: Path) -> None:
    """Begin a database as a copy of a migrated one, whole as it appears: another process may connect to it, too."""
    if path.exists():
        return
    with tempfile.NamedTemporaryFile(dir=path.parent) as copy, contextlib.suppress(FileExistsError):
        copy.write(_migrated())
        copy.flush()
        os.link(copy.name, path)


def _keep_private_fast(engine: Engine, path: Path) -> None:
    event.listen(engine, "do_connect", lambda *_: _copy_migrated(path))
    _keep_private(engine, path)


def _init_fast(self: Database, url: str) -> None:
    """Share what SQLAlchemy has compiled, which it keys by the dialect, and spare the disk: a test survives no power cut."""
    _init(self, url)
    own, name = self.engine.dialect, self.engine.dialect.name
    event.listen(self.engine, "connect", lambda *_: DIALECTS.setdefault(name, own))
    self.engine.dialect = DIALECTS.get(name, own)
    self.engine = self.engine.execution_options(compiled_cache=COMPILED.setdefault(name, {}))
    if name == "sqlite":
        event.listen(self.engine, "connect", lambda made, _: made.execute("PRAGMA synchronous=OFF").close())


@functools.cache
def _parsed(key: str | bytes) -> Any:
    return _prepare_key(RSAAlgorithm(RSAAlgorithm.SHA256), key)


def _prepared(self: RSAAlgorithm, key: Any) -> Any:
    """OpenSSL proves the primes of a private key whenever it reads one."""
    return _parsed(key) if isinstance(key, str | bytes) else _prepare_key(self, key)


def _use(init: Any, keep_private: Any, prepare_key: Any) -> None:
    Database.__init__, database._keep_private = init, keep_private  # type: ignore[method-assign]
    RSAAlgorithm.prepare_key = prepare_key  # type: ignore[method-assign]


def do_once() -> None:
    """Share from here on."""
    _use(_init_fast, _keep_private_fast, _prepared)


@contextmanager
def undone() -> Iterator[None]:
    """Share nothing, as the product does."""
    before = Database.__init__, database._keep_private, RSAAlgorithm.prepare_key
    _use(_init, _keep_private, _prepare_key)
    try:
        yield
    finally:
        _use(*before)
