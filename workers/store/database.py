"""Connections, transactions and migrations, the same for SQLite and PostgreSQL."""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

from sqlalchemy import Connection, Engine, PoolProxiedConnection, create_engine, event, inspect, make_url, text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.orm import Session

from workers.errors import WorkersError
from workers.store.private import private_file, private_folder

MIGRATIONS = Path(__file__).parent / "migrations"
BUSY_TIMEOUT_MS = 30_000
LOCK_POLL_MS = 2
CONNECT_TIMEOUT_S = 10  # to PostgreSQL, which by itself waits as long as TCP does
MIGRATION_LOCK = 0x6B65726E  # an arbitrary number that all processes agree on


class SchemaError(WorkersError):
    """The database was made by a newer program."""


class Database:
    """A database by URL. Connections are made when they are needed, so that it may be built before a fork."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.engine = _engine(url)
        self._migrated = False
        self._guard = threading.Lock()
        self._turn = threading.Lock()

    @contextmanager
    def write(self) -> Iterator[Session]:
        """Open a transaction that may write; it commits at the end, and rolls back on an error."""
        self.migrate()
        with self.in_turn(), Session(self.engine, expire_on_commit=False) as session, session.begin():
            yield session

    @contextmanager
    def read(self) -> Iterator[Session]:
        """Open a transaction that only reads; on SQLite it does not wait for writers."""
        self.migrate()
        engine = self.engine.execution_options(kernelsmith_reads=True)
        with Session(engine, expire_on_commit=False) as session:
            yield session

    def migrate(self) -> None:
        """Bring the schema up to date, once a process; processes that start together wait for each other."""
        if self._migrated:
            return
        with self._guard:
            if not self._migrated:
                with self.engine.begin() as connection:
                    upgrade(connection)
                self._migrated = True

    @property
    def is_sqlite(self) -> bool:
        """Whether the database is a file of SQLite's."""
        return self.engine.dialect.name == "sqlite"

    def dispose(self) -> None:
        """Drop all connections."""
        self.engine.dispose()

    def forget(self) -> None:
        """Drop connections that belong to the process this one was forked from, without closing them there."""
        self.engine.dispose(close=False)
        self._turn = threading.Lock()

    @contextmanager
    def in_turn(self) -> Iterator[None]:
        """Serialize the writes of this process's threads to SQLite.

        They pass the lock on without a pause, and only one of them competes with other processes. After the busy timeout
        SQLite itself reports that the database is locked.
        """
        if not self.is_sqlite:
            yield
            return
        turn = self._turn
        is_mine = turn.acquire(timeout=BUSY_TIMEOUT_MS / 1000)
        try:
            yield
        finally:
            if is_mine:
                turn.release()


class SQLiteWriter:
    """Transactions of one thread on a connection of SQLite's own driver, which stays open between them.

    For what is small and waited for: SQLAlchemy's part of such a transaction takes as long as the database's.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._pooled: PoolProxiedConnection | None = None

    @contextmanager
    def write(self) -> Iterator[sqlite3.Connection]:
        """Open a transaction; it commits at the end. After an error it is rolled back, and the next one has a new connection."""
        self._database.migrate()
        with self._database.in_turn():
            try:
                connection = self._connection()
                _begin_in_turn(connection)
                yield connection
                connection.execute("COMMIT")
            except BaseException:
                self.close()
                raise

    def close(self) -> None:
        """Close the connection; one whose wait for locks is short must not go back to the pool."""
        pooled, self._pooled = self._pooled, None
        if pooled is not None:
            pooled.invalidate()

    def _connection(self) -> sqlite3.Connection:
        if self._pooled is None:
            self._pooled = self._database.engine.raw_connection()
            _wait_for_locks(self._pooled.dbapi_connection, LOCK_POLL_MS)
        connection: Any = self._pooled.dbapi_connection
        return cast("sqlite3.Connection", connection)


def upgrade(connection: Connection) -> None:
    """Run the migrations that are missing, in the connection's own transaction.

    Raises:
        SchemaError: the database was made by a newer program.
    """
    if connection.dialect.name == "postgresql":
        connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": MIGRATION_LOCK})
    if _is_up_to_date(connection):
        return
    from alembic import command
    from alembic.config import Config
    from alembic.util import CommandError

    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
    config.attributes["connection"] = connection
    try:
        command.upgrade(config, "head")
    except CommandError as error:
        fix = "run the version of the program that made it, or a newer one"
        raise SchemaError(f"the database's schema is not known to this program ({error}); {fix}") from error


def _is_up_to_date(connection: Connection) -> bool:
    """By the name of the newest migration: loading Alembic takes every process of an installation a tenth of a second."""
    if not inspect(connection).has_table("alembic_version"):
        return False
    newest = max(path.name for path in (MIGRATIONS / "versions").glob("r*.py")).removeprefix("r").partition("_")[0]
    return connection.scalars(text("SELECT version_num FROM alembic_version")).all() == [newest]


def _engine(url: str) -> Engine:
    parsed = make_url(url)
    if parsed.get_backend_name() != "sqlite":
        return create_engine(
            url, pool_pre_ping=True, pool_size=5, max_overflow=20, connect_args={"connect_timeout": CONNECT_TIMEOUT_S}
        )
    engine = create_engine(url, connect_args={"timeout": BUSY_TIMEOUT_MS / 1000})
    if parsed.database and not parsed.database.startswith((":memory:", "file:")):
        _keep_private(engine, Path(parsed.database))
    event.listen(engine, "connect", _prepare_sqlite)
    event.listen(engine, "begin", _begin_sqlite)
    return engine


def _keep_private(engine: Engine, path: Path) -> None:
    if not path.parent.exists():
        private_folder(path.parent)

    def make(*_: object) -> None:
        # SQLite gives its own files beside it the rights of this one.
        for name in (path, Path(f"{path}-wal"), Path(f"{path}-shm")):
            if name == path or name.exists():
                private_file(name)

    event.listen(engine, "do_connect", make)


def _prepare_sqlite(connection: Any, _record: object) -> None:
    # The driver must not open transactions by itself: _begin_sqlite decides which kind.
    connection.isolation_level = None
    cursor = connection.cursor()
    _wait_for_locks(connection, BUSY_TIMEOUT_MS)
    cursor.execute("PRAGMA journal_mode=WAL")
    # A delivery that was answered must outlive a power cut, which NORMAL does not promise in WAL mode.
    cursor.execute("PRAGMA synchronous=FULL")
    cursor.execute("PRAGMA foreign_keys=ON")
    cursor.close()


def _begin_sqlite(connection: Connection) -> None:
    # A deferred transaction that writes after it has read fails at once when another one wrote meanwhile; an immediate one waits.
    if connection.get_execution_options().get("kernelsmith_reads", False):
        connection.exec_driver_sql("BEGIN")
        return
    raw: Any = connection.connection.dbapi_connection
    _wait_for_locks(raw, LOCK_POLL_MS)
    try:
        _begin_in_turn(raw)
    except sqlite3.Error as error:
        raise DBAPIError.instance("BEGIN IMMEDIATE", {}, error, sqlite3.Error) from error
    finally:
        _wait_for_locks(raw, BUSY_TIMEOUT_MS)


def _begin_in_turn(connection: sqlite3.Connection) -> None:
    # SQLite's own wait sleeps for up to 100 ms at a time, and whoever asks more often goes first: so all ask often.
    end_s = time.monotonic() + BUSY_TIMEOUT_MS / 1000
    while True:
        try:
            connection.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_BUSY or time.monotonic() > end_s:
                raise
        else:
            return


def _wait_for_locks(connection: Any, at_most_ms: int) -> None:
    connection.execute(f"PRAGMA busy_timeout={at_most_ms}").close()
