"""What a kernel computes and decides is seen, by whatever operation of Triton's language it does so."""

from __future__ import annotations

import pytest

from gpu_runner.contracts import CandidateSource, SourceFile
from gpu_runner.contracts.problem import parse_problem
from gpu_runner.program.coverage import BOTH
from gpu_runner.verify.answer import read_answer
from gpu_runner.verify.cases import Case
from gpu_runner.verify.judge import prove
from gpu_runner.verify.opening import loaded
from gpu_runner.verify.proof import make_call
from tests.cheats.trial import surroundings
from tests.gpu_runner.program.test_nans import CANDIDATE, PROBLEM

LARGE = "tl.full((BLOCK,), 1e9, tl.float32)"
# Each hides a comparison with a number beyond all that a case holds.
HIDDEN = {
    "the high half of a product": "tl.umulhi(row, row)",
    "an entry of a block": "tl.gather(tl.full((BLOCK,), 1.0, tl.float32), at ^ row, axis=0)",
    "the place of the largest": "tl.argmax(tl.where(at == 0, 1e9, x), axis=0)",
    "the largest of two that are joined": f"tl.max(tl.join(x, {LARGE}), axis=1)",
    "the least of two that are joined": f"tl.min(tl.join(x, {LARGE}), axis=1)",
    "a function of a reduction": "tl.reduce(x, 0, _pick)",
    "what programs tell each other": "tl.atomic_add(flags_ptr, row) > 1000",
}
HELPER = """
@triton.jit
def _pick(a, b):
    return tl.where(a > 1e9, a, b)


@triton.jit
def _kernel("""


@pytest.fixture(scope="module")
def one_sided() -> dict[str, set[str]]:
    """The decisions of one outcome on the line of each, all in one kernel."""
    body = "\n    ".join(f"_{at} = {text}" for at, text in enumerate(HIDDEN.values()))
    text = CANDIDATE.replace("{body}", body).replace("\n@triton.jit\ndef _kernel(", HELPER)
    text = text.replace("torch.empty(x.shape, dtype=torch.int32)", "torch.zeros(x.shape, dtype=torch.int32)")
    problem, context = parse_problem(PROBLEM), surroundings()
    (proof,), _ = prove(problem, [Case("drawn", (("T", 10), ("H", 40)), "float32", 5)], context)
    source = CandidateSource((SourceFile("candidate.py", text),))
    with loaded("candidate", source, proof.form, context) as session:
        call = make_call(proof, poison=True)
        decisions = read_answer(session.call("run", call.meta, call.tensors)).decisions
    lines = text.splitlines()
    return {
        name: {
            decision.text
            for decision, outcome in decisions.items()
            if outcome != BOTH and ("a > 1e9" if "_pick" in text else text) in lines[decision.line - 1]
        }
        for name, text in HIDDEN.items()
    }


@pytest.mark.slow
@pytest.mark.parametrize("name", HIDDEN)
def test_what_a_kernel_hides_is_seen(name: str, one_sided: dict[str, set[str]]) -> None:
    assert one_sided[name]
