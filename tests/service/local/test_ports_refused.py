"""Ports and kernels for a target that cannot be made, on the command line: the fix in a sentence, and nothing is left behind."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from gpu_runner.contracts import CaptureResult, to_json
from tests.conversations.test_porting import LIBRARY
from tests.recorded.libraries import PLAIN, REGLU
from tests.service.local.checkouts import checked_out, git, run
from tests.service.report.facts import VERDICT
from tests.workers.compiler.captured import captured
from tests.workers.stages.test_port import API_PASSES, OWN_LIBRARY
from tests.workers.targets.test_cutile import python
from workers.targets.ascend import ASCEND
from workers.targets.liger_cutile import CUTILE

pytestmark = pytest.mark.usefixtures("environment")
EXPORTED = {CUTILE.exports: OWN_LIBRARY.files[CUTILE.exports]}
THERE = {ASCEND.port_path("geglu"): b"x = 1\n"}


def answered(desk: Path) -> None:
    """Have the runner trace the problem and find the port right."""
    answers = {"capture": CaptureResult(captured("geglu_tanh")[1]), "verify": VERDICT, "tests": API_PASSES}
    for action, answer in answers.items():
        (desk / "answers" / f"{action}-always.json").write_text(json.dumps(to_json(answer)))


def refused(
    checkout: Path, monkeypatch: pytest.MonkeyPatch, words: Sequence[str | Path], code: int, *sentences: str
) -> None:
    """Give a command that is refused: it says the sentences, no traceback, and leaves no file, branch or folder behind."""
    temporary = checkout.parent / "temporary"
    temporary.mkdir()
    monkeypatch.setenv("TMPDIR", str(temporary))
    monkeypatch.setattr("tempfile.tempdir", str(temporary))
    before = git(checkout, "for-each-ref")
    done = run(*words, "--repo", checkout, "--auto")
    told = done.stderr
    assert done.exit_code == code, told
    assert all(sentence in told for sentence in sentences), told
    assert "Traceback" not in told
    assert git(checkout, "status", "--porcelain") == "" and git(checkout, "for-each-ref") == before
    assert not (checkout / ".git" / "kernelsmith" / "geglu").exists() or code == 3, "only a job that was begun reports"
    left = [path for path in temporary.rglob("*") if path.is_file()]
    assert left == [], left


@pytest.mark.parametrize(
    ("files", "words", "sentences"),
    [
        ({}, ["--to", "ascent"], ("there is no target `ascent`", "Did you mean `ascend`?")),
        ({}, ["--from", "cutlie"], ("there is no implementation `cutlie`", "Did you mean `cutile`?")),
        ({}, ["--from", "ascend"], ("cannot be ported from `ascend` to itself", "Leave out `--from`")),
        ({}, ["--from", "cutile"], ("has no implementation `cutile` to port from", "Leave out `--from`")),
        (THERE, [], ("`geglu` is already ported", "remove it and its exports first")),
        ({}, ["--to", "cutile"], (f"the repository has no `{CUTILE.exports}`", "since 0.8")),
        ({}, ["--layout", "plain"], ("geglu",)),
    ],
)
def test_a_port_that_cannot_be_begun(
    tmp_path: Path,
    desk: Path,
    monkeypatch: pytest.MonkeyPatch,
    files: dict[str, bytes],
    words: list[str],
    sentences: tuple[str, ...],
) -> None:
    checkout = checked_out(tmp_path / "library", LIBRARY | files)
    refused(checkout, monkeypatch, ["port", "geglu", *words], 2, *sentences)
    assert not (desk / "asked").exists()


@pytest.mark.parametrize(
    ("words", "sentences"),
    [
        (["--to", "ascend"], ("launchers for `ascend` choose their tiles at run time", "`kernelsmith port geglu")),
        (["--to", "cutile"], (f"the repository has no `{CUTILE.exports}`", "since 0.8")),
        (["--to", "cutile", "--scope", "backward"], ("does nothing else", "Leave out `--scope`")),
        (["--to", "cutle"], ("there is no target `cutle`", "Did you mean `cutile`?")),
    ],
)
def test_an_implementation_in_another_language_that_cannot_be_optimized(
    tmp_path: Path, desk: Path, monkeypatch: pytest.MonkeyPatch, words: list[str], sentences: tuple[str, ...]
) -> None:
    checkout = checked_out(tmp_path / "library", LIBRARY)
    refused(checkout, monkeypatch, ["optimize", "geglu", *words], 2, *sentences)
    assert not (desk / "asked").exists()


@pytest.mark.parametrize("missing", ["cuTile cannot be imported (none)", "cuTile is 2.0.0 here, and kernels are"])
def test_a_compiler_of_cutile_that_is_missing_or_of_another_version(
    tmp_path: Path, desk: Path, monkeypatch: pytest.MonkeyPatch, missing: str
) -> None:
    answered(desk)
    monkeypatch.setenv("KERNELSMITH_CUTILE_PYTHON", python(tmp_path, {"missing": missing}))
    checkout = checked_out(tmp_path / "library", LIBRARY | EXPORTED)
    words = ["port", "geglu", "--to", "cutile"]
    refused(checkout, monkeypatch, words, 3, missing, "pip install 'kernelsmith[cutile]'")


@pytest.mark.parametrize(
    ("name", "sentence"),
    [("/nonexistent/python", "Triton-Ascend cannot be started"), ("", "Triton-Ascend is 4.0.0 here")],
)
def test_a_triton_ascend_that_is_missing_or_of_another_version(
    tmp_path: Path, desk: Path, monkeypatch: pytest.MonkeyPatch, name: str, sentence: str
) -> None:
    answered(desk)
    other = name or python(tmp_path, {"missing": "Triton-Ascend is 4.0.0 here, and kernels are lowered with 3.2.x"})
    monkeypatch.setenv("KERNELSMITH_ASCEND_PYTHON", other)
    checkout = checked_out(tmp_path / "library", LIBRARY)
    refused(checkout, monkeypatch, ["port", "geglu"], 3, sentence, "pip install triton-ascend==3.2.0")


@pytest.mark.parametrize(
    ("words", "sentences"),
    [
        (["--to", "cutle"], ("there is no target `cutle`", "Did you mean `cutile`?")),
        (["--to", "ascend"], ("a new kernel for `ascend` has no place", "Create it without `--to`")),
        (["--to", "cutile", "--name", "scale"], ("`scale`", "another name")),
    ],
)
def test_a_new_kernel_for_a_target_that_cannot_be_begun(
    tmp_path: Path, desk: Path, monkeypatch: pytest.MonkeyPatch, words: list[str], sentences: tuple[str, ...]
) -> None:
    checkout = checked_out(tmp_path / "library", PLAIN)
    problem = tmp_path / "reglu.py"
    problem.write_text(REGLU)
    refused(checkout, monkeypatch, ["create", problem, *words], 2, *sentences)
    assert not (desk / "asked").exists()
