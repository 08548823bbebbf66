"""What nearly every test of a job would do anew with the same result: done once in a process.

A process that a test starts does all of it itself, and ``undone`` is for tests of these very things.
"""

from __future__ import annotations

import functools
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from jwt.algorithms import RSAAlgorithm
from sqlalchemy import Connection, Dialect, event, inspect

from workers.store import database
from workers.store.database import Database

COMPILED: dict[str, dict[Any, Any]] = {}
DIALECTS: dict[str, Dialect] = {}  # each has been connected: some of what it knows it asked a server for
_init, _upgrade, _prepare_key = Database.__init__, database.upgrade, RSAAlgorithm.prepare_key


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
def _schema() -> tuple[str, ...]:
    """What an empty SQLite database runs to be like a migrated one."""
    with tempfile.TemporaryDirectory() as folder, undone():
        made = Database(f"sqlite:///{Path(folder) / 'template.sqlite3'}")
        with made.engine.begin() as connection:
            _upgrade(connection)
            (version,) = connection.exec_driver_sql("SELECT version_num FROM alembic_version").scalars()
            rows = connection.exec_driver_sql("SELECT sql FROM sqlite_master WHERE sql IS NOT NULL ORDER BY rowid")
            statements = (*rows.scalars(), f"INSERT INTO alembic_version VALUES ('{version}')")
        made.dispose()
        return statements


def _upgraded(connection: Connection) -> None:
    if connection.dialect.name == "sqlite" and not inspect(connection).get_table_names():
        for statement in _schema():
            connection.exec_driver_sql(statement)
    _upgrade(connection)


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


def do_once() -> None:
    """Share from here on."""
    Database.__init__, database.upgrade = _init_fast, _upgraded  # type: ignore[method-assign]
    RSAAlgorithm.prepare_key = _prepared  # type: ignore[method-assign]


@contextmanager
def undone() -> Iterator[None]:
    """Share nothing, as the product does."""
    before = Database.__init__, database.upgrade, RSAAlgorithm.prepare_key
    Database.__init__, database.upgrade, RSAAlgorithm.prepare_key = _init, _upgrade, _prepare_key  # type: ignore[method-assign]
    try:
        yield
    finally:
        Database.__init__, database.upgrade, RSAAlgorithm.prepare_key = before  # type: ignore[method-assign]
