"""What cuTile's compiler is asked, what it answers, and what a person reads of it."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path

import pytest
from typer.testing import CliRunner

from service.cli import app
from tests.workers.compiler.captured import captured
from tests.workers.compiler.test_cutile import EMITTED, PRODUCTS, emitted
from workers.contracts import FailureCode, UserFacingError
from workers.targets import cutile, cutile_compiling
from workers.targets.compiling import device_functions
from workers.targets.cutile import compiled, kernel_requests

SOURCE = """
@ct.kernel
def _kernel(x_array, BLOCK_SIZE: ct.Constant[int]):
    pass


@ct.kernel
@other
def _decorated_kernel(x_array):
    pass


@ct.function
def _default(x, n=print("runs when it is defined")):
    pass
"""
PROBLEM = Path(__file__).parents[2] / "problems" / "reglu.py"


def test_functions_that_run_something_where_they_are_defined_are_left_out() -> None:
    assert [function.name for function in device_functions(SOURCE, cutile_compiling.is_known)] == ["_kernel"]


def test_each_kernel_is_asked_for_as_its_launcher_calls_it_at_the_most_columns() -> None:
    forward, backward = kernel_requests(captured("rms_norm")[0], emitted("rms_norm"))
    assert forward == {
        "name": "_rms_norm_forward_kernel",
        "parameters": [
            {"ndim": 2, "dtype": None},
            {"ndim": 2, "dtype": "float32"},
            {"ndim": 2, "dtype": None},
            {"ndim": 2, "dtype": None},
            {"dtype": "float32"},
            {"dtype": "int32"},
            {"constant": {"float32": 1, "bfloat16": 1}},
            {"constant": {"float32": 8192, "bfloat16": 8192}},
        ],
        "occupancy": {"float32": 2, "bfloat16": 2},
    }
    assert backward["occupancy"] is None
    partials, rstd = backward["parameters"][1], backward["parameters"][5]  # type: ignore[index]
    assert partials == rstd == {"ndim": 2, "dtype": "float32"}


def python(folder: Path, answer: object, status: int = 0) -> str:
    """A stand-in for the Python of an environment with cuTile."""
    script = folder / "python"
    script.write_text(f"#!/bin/sh\ncat > /dev/null\necho '{json.dumps(answer)}'\necho broken >&2\nexit {status}\n")
    script.chmod(script.stat().st_mode | stat.S_IXUSR)
    return str(script)


def compile_to(monkeypatch: pytest.MonkeyPatch, python: str, folder: Path, to: str = "cutile") -> tuple[int, str]:
    """What the command ends with, and says; no file is left where it fails."""
    monkeypatch.setattr(cutile, "PYTHON", python)
    out = folder / "candidate.py"
    done = CliRunner().invoke(app, ["compile", str(PROBLEM), "--to", to, "--out", str(out)])
    assert out.exists() == (done.exit_code == 0)
    return done.exit_code, done.stderr


def test_what_compiles_is_written_and_no_verdict_is_claimed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    one = {"kernels": [{"name": "k", "dtype": "float32", "bytes": 9}]}
    code, words = compile_to(monkeypatch, python(tmp_path, one), tmp_path)
    assert code == 0
    assert words.endswith("reglu: compiled for sm_90 in float32 and bfloat16; values not verified on this host.\n")


@pytest.mark.parametrize(
    ("answer", "status", "code", "words"),
    [
        ({"missing": "cuTile cannot be imported (none)"}, 0, 3, "cuTile cannot be imported (none)\n" + cutile.FIX),
        ({}, 1, 3, "cuTile's compiler cannot be used\n" + cutile.FIX + "\nbroken"),
        (
            {"kernels": [{"name": "k", "dtype": "bfloat16", "error": "TileTypeError: no"}]},
            0,
            2,
            "cuTile does not compile `k` in bfloat16 for sm_90\nNothing was written.\nTileTypeError: no",
        ),
    ],
)
def test_what_is_missing_or_refused_is_a_sentence_and_leaves_nothing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, answer: object, status: int, code: int, words: str
) -> None:
    assert compile_to(monkeypatch, python(tmp_path, answer, status), tmp_path) == (code, words + "\n")


def test_an_unknown_target_is_refused_before_anything_runs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    code, words = compile_to(monkeypatch, "/nonexistent", tmp_path, to="cuda")
    assert (code, words) == (2, "`compile` has no target `cuda`\nTargets: `gpu`, `cutile`, `cutedsl`.\n")


def test_a_python_that_is_not_there_is_the_environments_fault() -> None:
    with pytest.raises(UserFacingError) as raised:
        compiled("", [], "/nonexistent/python")
    assert raised.value.failure.code is FailureCode.environment and raised.value.failure.fix == cutile.FIX


@pytest.mark.skipif("CUTILE_PYTHON" not in os.environ, reason="CUTILE_PYTHON names no Python with cuTile")
@pytest.mark.parametrize("architecture", ["sm_80", "sm_90", "sm_100"])
@pytest.mark.parametrize("name", [*EMITTED, *PRODUCTS])
def test_the_real_compiler_takes_every_kernel(name: str, architecture: str) -> None:
    proposal = emitted(name)
    requests = kernel_requests(captured(name)[0], proposal)
    assert compiled(proposal.source, requests, os.environ["CUTILE_PYTHON"], architecture)


@pytest.mark.skipif("CUTILE_PYTHON" not in os.environ, reason="CUTILE_PYTHON names no Python with cuTile")
def test_the_real_compiler_refuses_a_kernel_that_is_none() -> None:
    proposal = emitted("reglu")
    source = proposal.source.replace("ct.maximum(", "ct.no_such_function(")
    with pytest.raises(UserFacingError) as raised:
        compiled(source, kernel_requests(captured("reglu")[0], proposal), os.environ["CUTILE_PYTHON"])
    assert "no_such_function" in (raised.value.failure.log or "")


@pytest.mark.parametrize(
    ("version", "sentence"),
    [("1.7.0", None), ("2.0.0", "cuTile is 2.0.0 here, and kernels are written for 1.x")],
)
def test_another_version_is_named(monkeypatch: pytest.MonkeyPatch, version: str, sentence: str | None) -> None:
    monkeypatch.setattr(cutile_compiling.importlib.metadata, "version", lambda name: version)
    monkeypatch.setattr(cutile_compiling.importlib, "import_module", lambda name: None)
    assert cutile_compiling.unusable() == sentence
