"""What a demo needs before it begins."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest
from typer.testing import CliRunner

from deploy.demo import library, theatre
from deploy.demo.table import DEMOS
from service.cli import app


@pytest.mark.parametrize("played", DEMOS)
def test_a_demo_that_shall_stay_up_where_its_port_is_taken_says_so_and_touches_nothing(
    played: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = tmp_path / "out" / "transcript.md"
    kept.parent.mkdir()
    kept.write_text("of a demo that still runs")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        monkeypatch.setattr(theatre, "KEPT_PORTS", (theatre.free_port(), port))
        ended = CliRunner().invoke(app, ["demo", played, "--keep", "--out", str(kept.parent)])
    assert ended.exit_code == 1
    assert ended.stderr.startswith(f"The demo stopped: port {port}: Address already in use. ")
    assert "`ss -ltnp`" in ended.stderr and "KEEP=1" in ended.stderr
    assert kept.exists()


@pytest.mark.parametrize("name", ["create", "nightly"])
def test_a_second_demo_in_one_folder_is_refused_and_touches_nothing(name: str, tmp_path: Path) -> None:
    out, archive = tmp_path / "demo", tmp_path / "archive"
    archive.touch()
    with theatre.empty_folder(out):
        (out / "there").touch()
        result = CliRunner().invoke(app, ["demo", name, "--out", str(out), "--source", str(archive)])
        assert (out / "there").exists()
    assert result.exit_code == 1
    assert f"another demo plays in {out}: wait for its end, or give this one another --out" in result.output


def test_the_tests_of_several_files_are_run_at_once_and_counted_apart(tmp_path: Path) -> None:
    (tmp_path / "test").mkdir()
    (tmp_path / "test/test_own.py").write_text(
        "import pytest\n\ndef test_right(): pass\n\ndef test_wrong(): assert 0\n\n"
        "@pytest.mark.skip\ndef test_left_out(): pass\n\n@pytest.mark.parametrize('x', '12')\ndef test_each(x): pass\n"
    )
    (tmp_path / "test/test_broken.py").write_text("import nowhere_to_be_found\n")
    paths = ("test/test_broken.py", "test/test_own.py", "test/test_missing.py")
    assert library._tests(tmp_path, paths[:2]) == [{"error": 1}, {"failed": 1, "passed": 3, "skipped": 1}]
    assert library._tests(tmp_path, paths) == [{}, {}, {}]
