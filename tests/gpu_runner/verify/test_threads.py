"""Candidates of CuTe DSL where there is no GPU: what passes, and what is found wrong."""

from __future__ import annotations

import json

import pytest

from gpu_runner import verify
from gpu_runner.contracts import CandidateSource, SourceFile, Status, Verdict, VerifyRequest
from tests.cheats.trial import surroundings
from tests.workers.compiler.captured import FOLDER
from tests.workers.compiler.test_cutedsl import emitted


def judged(name: str, *changes: tuple[str, str]) -> Verdict:
    """A quick verdict on what the compiler author emits for a problem, with changes to its source."""
    source = emitted(name).source
    for before, after in changes:
        assert before in source
        source = source.replace(before, after)
    problem = json.loads((FOLDER / f"{name}.json").read_text())["problem"]
    candidate = CandidateSource((SourceFile("candidate.py", source),))
    return verify.run(VerifyRequest(problem, candidate, dtypes=("float32",), quick=True), surroundings())


@pytest.mark.parametrize("name", ["swiglu", "softmax"])
def test_emitted_kernels_pass_and_are_seen_to_run(name: str) -> None:
    verdict = judged(name)
    assert verdict.status is Status.passed, verdict.evidence
    assert verdict.kernels == (f"_{name}_forward_launch", f"_{name}_backward_launch")
    assert (verdict.language, verdict.interpreted) == ("CuTe DSL", True)


# A quick verdict does not tell what was never decided in another way.
@pytest.mark.long
@pytest.mark.slow
@pytest.mark.parametrize("name", ["relu_squared", "layer_norm"])
def test_emitted_kernels_pass_a_whole_verdict_in_two_dtypes(name: str) -> None:
    candidate = CandidateSource((SourceFile("candidate.py", emitted(name).source),))
    problem = json.loads((FOLDER / f"{name}.json").read_text())["problem"]
    verdict = verify.run(VerifyRequest(problem, candidate, dtypes=("float32", "bfloat16")), surroundings())
    assert verdict.status is Status.passed, verdict.evidence


WRONG = {
    "a barrier left out": (("    cute.arch.sync_threads()\n    return slots", "    return slots"), Status.nondeterministic),
    "zeros beyond the last column": (('-float("inf")', "0.0"), Status.incorrect_values),
    "rows left out": (("x.view(-1), n_cols, n_rows, 1)", "x.view(-1), n_cols, max(1, n_rows - 1), 1)"), None),
    "what has no place in a kernel": (("cute.math.exp(x - max_x)", "cute.gemm(x, x - max_x)"), Status.refused),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_is_found(name: str) -> None:
    change, status = WRONG[name]
    verdict = judged("softmax", change)
    assert verdict.status is not Status.passed
    assert status in (None, verdict.status), verdict.evidence
