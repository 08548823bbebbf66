"""A file that is no text gets a sentence and an exit code, whichever command it is given to."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from service.cli import app


@pytest.mark.parametrize("content", [b"X = '\xed\xa0\x80'\n", b"\xff\xfe\x00"])
@pytest.mark.parametrize("command", ["compile", "verify", "bench", "tune", "profile"])
def test_a_file_that_is_not_utf8_is_refused_with_its_name(tmp_path: Path, command: str, content: bytes) -> None:
    path = tmp_path / "problem.py"
    path.write_bytes(content)
    given = [command, str(path), *([] if command == "compile" else [str(path)])]
    given += ["--out", str(tmp_path / "out.py")] if command == "tune" else []
    ended = CliRunner().invoke(app, given)
    assert ended.exit_code == 2
    assert "problem.py is not UTF-8 at byte" in ended.stderr
