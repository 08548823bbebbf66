"""The modules that the prompts show pass the runner's verdict, and keep every rule that they illustrate."""

from __future__ import annotations

import re

import pytest

from gpu_runner import verify
from gpu_runner.contracts import CandidateSource, SourceFile, Status, VerifyRequest
from tests.cheats.trial import surroundings
from tests.problems import problem_source
from tests.workers.compiler.captured import captured
from workers.authors.llm.prompts import prompt

SHOWN = {  # by prompt, the problems of its modules and the functions to call
    "examples": (("geglu_tanh", "geglu"), ("rms_norm", "rms_norm"), ("matmul", "matmul")),
    "cutile": (("reglu", "candidate"), ("rms_norm", "candidate")),
    "cutedsl": (("rms_norm", "candidate"),),
}


def modules(name: str) -> list[str]:
    return re.findall(r"^```python\n(.*?)^```$", prompt(name).text, re.DOTALL | re.MULTILINE)


EXAMPLES = {
    (name, *shown): module
    for name, all_shown in SHOWN.items()
    for shown, module in zip(all_shown, modules(name), strict=True)
}


@pytest.mark.parametrize("quick", [True, pytest.param(False, marks=[pytest.mark.long, pytest.mark.slow])])
@pytest.mark.parametrize("example", EXAMPLES, ids="-".join)
def test_example_of_the_prompts_passes(example: tuple[str, str, str], quick: bool) -> None:
    name, problem, symbol = example
    source = problem_source(problem) if name == "examples" else captured(problem)[0].source
    candidate = CandidateSource((SourceFile("candidate.py", EXAMPLES[example]),), symbol=symbol)
    verdict = verify.run(VerifyRequest(source, candidate, quick=quick), surroundings())
    assert verdict.evidence == ()
    assert verdict.status is Status.passed
    assert verdict.deterministic is True
