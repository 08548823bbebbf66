"""What CuTe DSL's compiler is asked, what it answers, and what a person reads of it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.workers.compiler.captured import captured
from tests.workers.compiler.test_cutedsl import emitted
from tests.workers.compiler.test_cutile import EMITTED
from tests.workers.targets.test_cutile import compile_to, python
from workers.targets import cutedsl, cutedsl_compiling
from workers.targets.compiling import device_functions
from workers.targets.cutedsl import compiled, launch_requests

SOURCE = """
@cute.kernel
def _kernel(x_tensor: cute.Tensor, SHAPE: cutlass.Constexpr):
    pass


@cute.jit
@other
def _decorated(x):
    pass


@cute.jit
def _default(x, n=print("runs when it is defined")):
    pass


@functools.cache
def _compiled(launch):
    pass
"""


def test_functions_that_run_something_where_they_are_defined_are_left_out() -> None:
    assert [function.name for function in device_functions(SOURCE, cutedsl_compiling.is_known)] == ["_kernel"]


def test_each_launcher_is_asked_for_in_each_dtype_with_the_vectors_of_the_most_columns() -> None:
    forward, _, backward, narrow = launch_requests(captured("rms_norm")[0], emitted("rms_norm"))
    vectors = {"dtype": "float32", "vector": 4}
    assert forward == {
        "name": "_rms_norm_forward_launch",
        "dtype": "float32",
        "tensors": [vectors, {"dtype": "float32", "vector": 1}, vectors, vectors],
        "numbers": ["Float32", "Int32", "Int32", "Int32"],
        "shape": [4, 4, 512, 8192],
    }
    # Sums over rows are float32, of which an access of 16 bytes has four, whatever the call's dtype.
    assert backward["shape"] == narrow["shape"] == [4, 4, 512, 8192]
    assert narrow["tensors"][1] == vectors  # type: ignore[index]
    assert narrow["tensors"][0] == {"dtype": "bfloat16", "vector": 4}  # type: ignore[index]


def test_what_compiles_is_written_and_no_verdict_is_claimed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    answer = {"kernels": [{"name": "k", "dtype": "float32", "bytes": 9}]}
    monkeypatch.setattr(cutedsl, "PYTHON", python(tmp_path, answer))
    code, words = compile_to(monkeypatch, "/nonexistent", tmp_path, to="cutedsl")
    assert code == 0
    assert words.endswith("reglu: compiled for sm_90a in float32 and bfloat16; values not verified on this host.\n")


@pytest.mark.parametrize(
    ("answer", "status", "code", "words"),
    [
        ({"missing": "CuTe DSL cannot be imported (none)"}, 0, 3, "CuTe DSL cannot be imported (none)\n" + cutedsl.FIX),
        ({"missing": "CuTe DSL is 5.0.0 here"}, 0, 3, "CuTe DSL is 5.0.0 here\n" + cutedsl.FIX),
        ({}, 1, 3, "CuTe DSL's compiler cannot be used\n" + cutedsl.FIX + "\nbroken"),
        (
            {"kernels": [{"name": "k", "dtype": "bfloat16", "error": "DSLUserCodeError: no"}]},
            0,
            2,
            "CuTe DSL does not compile `k` in bfloat16 for sm_90a\nNothing was written.\nDSLUserCodeError: no",
        ),
    ],
)
def test_what_is_missing_or_refused_is_a_sentence_and_leaves_nothing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, answer: object, status: int, code: int, words: str
) -> None:
    monkeypatch.setattr(cutedsl, "PYTHON", python(tmp_path, answer, status))
    assert compile_to(monkeypatch, "/nonexistent", tmp_path, to="cutedsl") == (code, words + "\n")


@pytest.mark.skipif("CUTEDSL_PYTHON" not in os.environ, reason="CUTEDSL_PYTHON names no Python with CuTe DSL")
@pytest.mark.parametrize("name", EMITTED)
def test_the_compiler_takes_what_is_emitted_and_refuses_what_is_not_its_language(name: str) -> None:
    named = os.environ["CUTEDSL_PYTHON"]
    proposal = emitted(name)
    requests = launch_requests(captured(name)[0], proposal)
    assert compiled(proposal.source, requests, named).startswith("compiled for sm_90a")
    with pytest.raises(Exception, match="does not compile"):
        compiled(proposal.source.replace("cute.copy(", "cute.no_copy("), requests, named)
