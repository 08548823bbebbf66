"""Which processes a host runs."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from service.cli import app
from workers.processes import HostPart, commands
from workers.settings import Settings


@pytest.mark.parametrize(
    ("only", "names"),
    [(None, {"stages", "gpu"}), (HostPart.stages, {"stages"}), (HostPart.gpu, {"gpu"})],
)
def test_a_host_runs_everything_or_one_part(tmp_path: Path, only: HostPart | None, names: set[str]) -> None:
    settings = Settings(data_dir=tmp_path, architecture="sm_90")
    assert {command.name for command in commands(settings, only=only)} == names


@pytest.mark.parametrize(("part", "told"), [("gpu", "set DATABASE_URL and REDIS_URL"), ("everything", "is not one of")])
def test_a_part_alone_says_what_it_lacks(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, part: str, told: str) -> None:
    for name in ("REDIS_URL", "KERNELSMITH_REDIS_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("KERNELSMITH_DATA_DIR", str(tmp_path))
    done = CliRunner().invoke(app, ["work", "--only", part])
    assert done.exit_code == 2
    assert told in done.output


def test_a_data_folder_that_is_served_is_told_in_one_line(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    import fcntl

    monkeypatch.setenv("KERNELSMITH_DATA_DIR", str(tmp_path))
    from workers import embedded

    embedded.close()
    with (tmp_path / "serve.lock").open("wb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        done = CliRunner().invoke(app, ["work"])
    embedded.close()
    assert done.exit_code == 3
    assert "another process serves" in done.output
    assert "KERNELSMITH_DATA_DIR" in done.output


def test_a_data_folder_that_cannot_be_written_is_told_in_one_line(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("KERNELSMITH_DATA_DIR", str(tmp_path / "file" / "below"))
    from workers import embedded

    embedded.close()
    done = CliRunner().invoke(app, ["work"])
    embedded.close()
    assert done.exit_code == 3
    assert "the data folder cannot be used" in done.output


@pytest.mark.parametrize(
    ("name", "value", "told"),
    [
        ("KERNELSMITH_LEASE_S", "soon", "KERNELSMITH_LEASE_S: "),
        ("KERNELSMITH_REQUIRE_ISOLATION", "landlock", "KERNELSMITH_REQUIRE_ISOLATION is no JSON: a list is written as"),
        ("KERNELSMITH_LEASE_S", "inf", "KERNELSMITH_LEASE_S: Input should be a finite number"),
        ("KERNELSMITH_REQUIRE_ISOLATION", '["walls"]', "KERNELSMITH_REQUIRE_ISOLATION: "),
    ],
)
def test_a_setting_that_cannot_be_used_is_named(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str, told: str
) -> None:
    monkeypatch.setenv(name, value)
    done = CliRunner().invoke(app, ["work"])
    assert done.exit_code == 2
    assert told in done.output
