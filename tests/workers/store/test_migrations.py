from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import insert, inspect, select, text

from tests.done_once import undone
from tests.workers.store.servers import Postgres
from workers.store.database import MIGRATIONS, Database, SchemaError
from workers.store.models import Base, Job, StageAttempt


@pytest.fixture(autouse=True)
def _undone() -> Iterator[None]:
    with undone():
        yield


@pytest.fixture(params=["sqlite", "postgresql"])
def empty_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'empty.sqlite3'}"
    server: Postgres = request.getfixturevalue("postgres_server")
    return server.new_database().replace("postgresql://", "postgresql+psycopg://", 1)


def test_migrations_make_exactly_the_tables_of_the_models(empty_url: str) -> None:
    database = Database(empty_url)
    database.migrate()
    with database.engine.begin() as connection:
        differences = compare_metadata(MigrationContext.configure(connection), Base.metadata)
    database.dispose()
    assert differences == []


def test_the_newest_migration_is_known_by_its_name_and_alembic_is_not_loaded_again(
    empty_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    database = Database(empty_url)
    database.migrate()
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS))
    with database.engine.begin() as connection:
        newest = connection.scalar(text("SELECT version_num FROM alembic_version"))
    assert newest == ScriptDirectory.from_config(config).get_current_head()
    database.dispose()
    monkeypatch.setattr(command, "upgrade", lambda *_: pytest.fail("there is nothing to do"))
    later = Database(empty_url)
    later.migrate()
    later.dispose()


def test_a_summary_that_an_earlier_version_stored_is_read_after_the_upgrade(empty_url: str) -> None:
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS))
    database = Database(empty_url)
    database.migrate()
    summary = {"$": "OptimizeSummary", "search": "greedy", "notes": ["search"]}
    with database.engine.begin() as connection:
        config.attributes["connection"] = connection
        command.downgrade(config, "0006")
        job = {"job_id": "job", "key": "k", "repository": "acme/kernels", "number": 7, "kernel": "geglu", "request": {}}
        job |= {"state": "waiting", "generation": 1, "created_at": 0.0, "updated_at": 0.0, "branch": "b"}
        connection.execute(insert(Job).values(job))
        row = {"job_id": "job", "generation": 1, "stage": "optimize", "attempt": 1, "state": "waiting"}
        row |= {"note": "", "notes": 0, "feedback": [], "tries": 0, "not_before": 0.0, "notified_at": 0.0}
        connection.execute(insert(StageAttempt).values(row | {"output": {"summary": summary, "search": 1}}))
        command.upgrade(config, "head")
        kept = connection.scalar(select(StageAttempt.output))
    database.dispose()
    assert kept == {"summary": {"$": "OptimizeSummary", "notes": ["search"]}, "search": 1}


def test_downgrade_leaves_nothing_behind(empty_url: str) -> None:
    database = Database(empty_url)
    database.migrate()
    with database.engine.begin() as connection:
        config = Config()
        config.set_main_option("script_location", str(MIGRATIONS))
        config.attributes["connection"] = connection
        command.downgrade(config, "base")
        left = inspect(connection).get_table_names()
    database.dispose()
    assert left == ["alembic_version"]


def test_processes_that_start_together_migrate_once(empty_url: str) -> None:
    databases = [Database(empty_url) for _ in range(4)]
    errors: list[BaseException] = []

    def migrate(database: Database) -> None:
        try:
            database.migrate()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=migrate, args=(database,)) for database in databases]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for database in databases:
        database.dispose()
    assert errors == []


def test_database_of_a_newer_program_is_refused_with_the_fix(empty_url: str) -> None:
    database = Database(empty_url)
    database.migrate()
    with database.engine.begin() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    database.dispose()
    older = Database(empty_url)
    with pytest.raises(SchemaError, match=r"9999.*newer one"):
        older.migrate()
    older.dispose()


def test_sqlite_keeps_a_write_ahead_log_that_outlives_a_power_cut(tmp_path: Path) -> None:
    database = Database(f"sqlite:///{tmp_path / 'a' / 'new.sqlite3'}")
    with database.engine.connect() as connection:
        mode = connection.exec_driver_sql("PRAGMA journal_mode").scalar()
        durability = connection.exec_driver_sql("PRAGMA synchronous").scalar()
    database.dispose()
    assert (mode, durability) == ("wal", 2)
