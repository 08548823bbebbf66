"""The modules that the prompts show pass the runner's verdict, and keep every rule that they illustrate."""

from __future__ import annotations

import re

import pytest

from gpu_runner import verify
from gpu_runner.contracts import CandidateSource, SourceFile, Status, VerifyRequest
from tests.cheats.trial import surroundings
from tests.problems import problem_source
from workers.authors.llm.prompts import prompt

MODULES = re.findall(r"^```python\n(.*?)^```$", prompt("examples").text, re.DOTALL | re.MULTILINE)
EXAMPLES = dict(zip((("geglu_tanh", "geglu"), ("rms_norm", "rms_norm"), ("matmul", "matmul")), MODULES, strict=True))


@pytest.mark.parametrize("quick", [True, pytest.param(False, marks=[pytest.mark.long, pytest.mark.slow])])
@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example[1])
def test_example_of_the_prompts_passes(example: tuple[str, str], quick: bool) -> None:
    problem, symbol = example
    candidate = CandidateSource((SourceFile("candidate.py", EXAMPLES[example]),), symbol=symbol)
    verdict = verify.run(VerifyRequest(problem_source(problem), candidate, quick=quick), surroundings())
    assert verdict.evidence == ()
    assert verdict.status is Status.passed
    assert verdict.deterministic is True
