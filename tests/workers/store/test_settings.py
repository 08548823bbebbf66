from __future__ import annotations

import os
from pathlib import Path

import pytest
from pydantic import SecretStr

from gpu_runner.contracts import Isolation
from workers.settings import Settings, WrongSettingsError, environment_with, load_settings


def test_postgresql_urls_of_every_spelling_use_psycopg(monkeypatch: pytest.MonkeyPatch) -> None:
    for spelling in ("postgres://u:p@h/d", "postgresql://u:p@h/d", "postgresql+psycopg://u:p@h/d"):
        monkeypatch.setenv("DATABASE_URL", spelling)
        assert Settings().database() == "postgresql+psycopg://u:p@h/d"


def test_secrets_in_urls_are_not_printed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DATABASE_URL", "postgresql://u:hidden@h/d")
    monkeypatch.setenv("REDIS_URL", "redis://:hidden@h/0")
    assert "hidden" not in repr(Settings())


def test_process_started_with_settings_has_exactly_those(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DATABASE_URL", "postgresql://u:p@elsewhere/d")
    given = Settings(
        data_dir=tmp_path, lease_s=7, log_json=True, architecture="sm_90", require_isolation=(Isolation.landlock,)
    ).model_copy(update={"database_url": None, "redis_url": SecretStr("redis://:p@h/0")})
    environment = environment_with(given)
    assert "DATABASE_URL" not in environment
    for name in list(os.environ):
        monkeypatch.delenv(name)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert Settings() == given


def test_an_empty_variable_is_unset(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REDIS_URL", "")
    monkeypatch.setenv("KERNELSMITH_DATABASE_URL", "")
    monkeypatch.setenv("DATABASE_URL", "postgresql://u:p@h/d")
    monkeypatch.setenv("KERNELSMITH_LEASE_S", "")
    found = Settings()
    assert (found.broker(), found.database(), found.lease_s) == (None, "postgresql+psycopg://u:p@h/d", 60.0)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("REDIS_URL", "localhost:6379"),
        ("KERNELSMITH_REDIS_URL", "http://:hidden@cache/0"),
        ("DATABASE_URL", "mysql://u:hidden@h/d"),
        ("DATABASE_URL", "/var/lib/hidden.sqlite3"),
    ],
)
def test_an_address_of_another_kind_is_named_without_its_value(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(WrongSettingsError, match=f"{name.removeprefix('KERNELSMITH_')}: .*begins with") as refused:
        load_settings()
    assert "hidden" not in str(refused.value)
