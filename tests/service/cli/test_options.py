"""The options of the command line: each is on its page, and reaches what it sets."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command
from typer.testing import CliRunner

from service.cli import app
from service.cli.options import options_page
from tests.problems import problem_source
from workers import byhand, embedded
from workers.contracts import AuthorName

ROOT = Path(__file__).parents[3]
HOW = {
    "compile --name other --to cutile": {"name": "other", "target": "cutile"},
    "bench --dtype float16 --budget 7 --compiled": {"dtype": "float16", "budget_s": 7.0, "compiled": True},
    "bench": {"dtype": "bfloat16", "budget_s": 60.0, "compiled": False},
    "tune --out tuned.py --budget 7": {"budget_s": 7.0},
    "profile --gpu H100": {"gpu": "H100"},
    "calibrate --comparisons 3 --tries 5 --slowdown 0.1": {"trials": byhand.Trials(3, 5, 0.1)},
    "calibrate": {"trials": byhand.Trials(200, 40, 0.03)},
    "doctor --quick --target ascend": {"quick": True, "npu": True},
    "suite --out results --jobs 3 --limit 9": {"out": Path("results"), "jobs": 3, "limit_s": 9.0},
    "fuse --out run --jobs 3 --rounds 2 --compose-author compiler --fresh": {
        "out": Path("run"),
        "jobs": 3,
        "fresh": True,
        "authors": byhand.Authors(AuthorName.auto, AuthorName.auto, AuthorName.compiler, 2),
    },
}
CALLED = {"compile": "compile_problem", "bench": "benchmark"}
GIVEN = {"bench": 2, "tune": 2, "profile": 2, "compile": 1, "fuse": 1}


@pytest.mark.parametrize("line", HOW)
def test_an_option_reaches_what_it_sets(line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    command, *options = line.split()
    function = getattr(byhand, CALLED.get(command, command))
    asked: dict[str, Any] = {}

    def instead(*positional: Any, **named: Any) -> None:
        asked.update(zip(function.__code__.co_varnames, positional, strict=False))
        asked.update(named)
        raise KeyboardInterrupt

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(byhand, CALLED.get(command, command), instead)
    (tmp_path / "problem.py").write_text(problem_source("reglu"))
    given = ["."] if command == "suite" else ["problem.py"] * GIVEN.get(command, 0)
    CliRunner().invoke(app, [command, *given, *options])
    assert {name: asked[name] for name in HOW[line]} == HOW[line]


def test_the_page_of_options_is_what_the_program_takes() -> None:
    page = (ROOT / "docs" / "options.md").read_text(encoding="utf-8")
    assert page == options_page(), "run: python -m service.cli.options > docs/options.md"


def test_every_option_and_argument_says_what_it_is() -> None:
    commands = get_command(app).commands  # type: ignore[attr-defined]
    assert [(name, it.name) for name, command in commands.items() for it in command.params if not it.help] == []


@pytest.mark.parametrize(
    ("line", "code", "words"),
    [
        ("compile problem.py --out missing/candidate.py", 2, "folder 'missing' does not exist"),
        ("tune problem.py problem.py --out .", 2, "is a directory"),
        ("bench problem.py problem.py", 2, "the candidate has no `candidate`"),
        ("profile problem.py problem.py --gpu H300", 2, "no GPU 'H300' is known\nKnown: NVIDIA H200"),
        ("suite empty", 2, "empty has no problem"),
        ("create problem.py --record missing/answers.tar.gz", 2, "folder 'missing' does not exist"),
        ("fuse problem.py --out problem.py/run", 3, "problem.py/run/orchestrator: Not a directory\nName another place"),
        ("compile problem.py --out /dev/full", 3, "No space left on device\nFree some, or name another place"),
        ("bench problem.py problem.py --dtype int7", 2, "'int7' is not one of"),
    ],
)
def test_what_cannot_be_used_ends_in_a_sentence_and_leaves_nothing(
    line: str, code: int, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "problem.py").write_text(problem_source("reglu"))
    (tmp_path / "empty").mkdir()
    done = CliRunner().invoke(app, line.split(), env={"COLUMNS": "200"})
    assert (done.exit_code, done.exception.__class__) == (code, SystemExit)
    assert words in done.output
    assert sorted(path.name for path in tmp_path.iterdir()) == ["empty", "problem.py"]


@pytest.mark.parametrize(
    ("variable", "value", "words"),
    [
        (
            "DATABASE_URL",
            "postgresql://someone@127.0.0.1:9/none",
            "the database cannot be used: (psycopg.OperationalError)",
        ),
        ("KERNELSMITH_DATA_DIR", "/dev/null/data", "/dev/null/data: Not a directory\nName another place"),
    ],
)
@pytest.mark.parametrize("line", ["prune-history", "import-jobs --repository octo/kernels"])
def test_a_database_that_cannot_be_used_is_named(
    line: str, variable: str, value: str, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, value)
    done = CliRunner().invoke(app, line.split())
    embedded.close()
    assert (done.exit_code, done.exception.__class__) == (3, SystemExit)
    assert words in done.output
