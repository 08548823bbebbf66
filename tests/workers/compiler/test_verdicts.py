"""What the compiler writes passes a whole verdict: right, and nothing decided of which one side was never seen."""

from __future__ import annotations

import pytest

from gpu_runner.contracts import CandidateSource, SourceFile, Status, VerifyRequest
from gpu_runner.verify.judge import judge
from kernelsmith import create
from tests.cheats.trial import source_of_problem, surroundings
from tests.workers.compiler.formed import formed, tunable_style

NAMES = [
    "add_rms_norm",
    "column_sum",
    "cross_entropy",  # with guards of what memory gives
    "cross_entropy_ignore",
    "group_norm",
    "jsd",
    "label_smoothing",
    "layer_norm",
    "matmul",
    "rope_halves",
    "row_extremes",
    "row_max",
    "row_sum",
    "softmax",
    "swiglu",
]


# In `make test` tests/workers/test_problem_set has whole verdicts on compiled kernels, and so has test_real_runner.
@pytest.mark.long
@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_a_compiled_kernel_passes_a_whole_verdict(name: str) -> None:
    text = source_of_problem(name)
    source = create(text, name=name, prove=False).source
    assert source is not None
    passes(name, text, source)


# In `make test` test_tuning holds that no branch asks for such a setting.
@pytest.mark.long
@pytest.mark.slow
def test_a_kernel_whose_settings_may_be_tuned_passes_a_whole_verdict() -> None:
    passes("softmax", source_of_problem("softmax"), formed("softmax", tunable_style("softmax")).source)


def passes(name: str, text: str, source: str) -> None:
    dtypes = () if name == "matmul" else ("float32",)  # the settings of a product hang on the size of an element
    verdict = judge(
        VerifyRequest(text, CandidateSource((SourceFile("candidate.py", source),)), dtypes=dtypes), surroundings()
    )
    assert verdict.status is Status.passed, verdict.evidence
