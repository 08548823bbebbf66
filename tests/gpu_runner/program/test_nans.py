"""A decision that hangs on NaN was not seen; one that asks for NaN was."""

from __future__ import annotations

import numpy as np
import pytest

from gpu_runner.contracts import CandidateSource, SourceFile
from gpu_runner.contracts.problem import parse_problem
from gpu_runner.messages import RunCase
from gpu_runner.program import nans
from gpu_runner.verify.answer import read_answer
from gpu_runner.verify.cases import Case, Content
from gpu_runner.verify.judge import prove
from gpu_runner.verify.opening import loaded
from gpu_runner.verify.proof import make_call
from tests.cheats.trial import surroundings

PROBLEM = """
import torch


def reference(x):
    return torch.relu(x)


INPUTS = {"x": {"dims": "T H", "grad": False}}
WORKLOADS = [{"T": 8, "H": 8}]
"""
CANDIDATE = """
import torch
import triton
import triton.language as tl


@triton.jit
def _kernel(x_ptr, y_ptr, flags_ptr, n, BLOCK: tl.constexpr, MODE: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * n + at, mask=at < n, other=0.0)
    {body}
    tl.store(y_ptr + row * n + at, tl.where(x >= 0.0, x, tl.where(x != x, x, 0.0)), mask=at < n)


def candidate(x):
    y, flags = torch.empty_like(x), torch.empty(x.shape, dtype=torch.int32)
    _kernel[(x.shape[0],)](x, y, flags, x.shape[1], triton.next_power_of_2(x.shape[1]), MODE=1)
    return y
"""


def outcome_of_last_line(body: str) -> int:
    """How the decision ended that the last line of a kernel's body makes, in a case where some rows hold NaN."""
    return outcomes(body)["`" + body.splitlines()[-1].removeprefix("found = ") + "`"]


def outcomes(body: str) -> dict[str, int]:
    """How the decisions of a kernel's body ended there, by their text."""
    case = Case("not finite", (("T", 10), ("H", 40)), "float32", 7, content=Content.odd)
    problem, context = parse_problem(PROBLEM), surroundings()
    (_, proof), _ = prove(problem, [Case("drawn", case.sizes, "float32", 5), case], context)
    text = CANDIDATE.replace("{body}", body.replace("\n", "\n    "))
    source = CandidateSource((SourceFile("candidate.py", text),))
    with loaded("candidate", source, proof.form, context) as session:
        call = make_call(proof, poison=True)
        decisions = read_answer(session.call(RunCase(call.call), call.tensors)).decisions
    return {decision.text: outcome for decision, outcome in decisions.items()}


@pytest.mark.parametrize(
    "body",
    [
        "up = (x < 100.0) | (x > 100.0)\nfound = tl.sum(tl.where(at < n, up, True).to(tl.int32), axis=0) < BLOCK",
        "bits = tl.where(x < 200.0, 0, tl.where(x > 200.0, 0, 1))\nfound = tl.max(bits, axis=0) == 1",
        "tl.store(flags_ptr + row * n + at, ((x < 100.0) | (x > 100.0)).to(tl.int32), mask=at < n)\n"
        "found = tl.load(flags_ptr + row * n + at, mask=at < n, other=1) == 0",
        "up = tl.reshape(((x < 100.0) | (x > 100.0)).to(tl.int32), (1, BLOCK))\n"
        "found = tl.cumsum(1 - tl.where((at < n)[None, :], up, 1), axis=1) > 0",
    ],
    ids=["sum", "max", "memory", "scan"],
)
def test_what_a_comparison_with_nan_makes_true_was_not_seen(body: str) -> None:
    assert outcome_of_last_line(body) == 2


@pytest.mark.parametrize(("limit", "outcome"), [(-100.0, 3), (-50.0, 1)])
def test_the_logarithm_of_zero_counts_below_all_other_logarithms(limit: float, outcome: int) -> None:
    body = f"p = tl.where(at < 5, 0.0, 1.0)\nfound = tl.log(p + 0.0 * n) >= {limit}"
    assert outcome_of_last_line(body) == outcome


@pytest.mark.parametrize("choice", ["tl.where(x != x, x, 0.0)", "tl.where(x == x, 0.0, x)"])
def test_a_choice_of_nan_is_seen(choice: str) -> None:
    assert not [text for text in outcomes(f"found = {choice}") if text.startswith(f"`{choice}`")]


def test_what_asks_for_nan_was_seen_both_ways() -> None:
    assert outcome_of_last_line("found = tl.sum((x != x).to(tl.int32), axis=0) > 0") == 3


def test_a_maximum_was_read_where_what_it_is_was_read() -> None:
    """As that over the blocks of a row is, of which the last ends early."""
    last = "last = tl.load(x_ptr + row * n + at, mask=at < 1, other=0.0)"
    best = "best = tl.maximum(x, last, propagate_nan=tl.PropagateNan.ALL)"
    assert outcome_of_last_line(f"{last}\n{best}\nfound = best != best") == 3
    assert outcome_of_last_line(f"{last}\nfound = tl.maximum(last, 0.5) < 0.75") == 3


def test_finite_rows_beside_others_count() -> None:
    assert outcome_of_last_line("found = x > 0.0") == 3


def test_addresses_of_many_stores_are_known_in_few_pieces() -> None:
    drawn = np.random.default_rng(5)
    nans.begin(has_some=True)
    stored: set[int] = set()
    for _ in range(100):
        addresses = drawn.integers(0, 2**16, 32).astype("uint64") * 4
        nans._remember(addresses, np)
        stored |= set(addresses.tolist())
        assert len(nans._PLACES) <= 2 + len(stored).bit_length()
        asked = drawn.integers(0, 2**16, (4, 8)).astype("uint64") * 4
        expected = np.isin(asked, list(stored))
        found = nans._stored_at(asked, np)
        assert (found is None and not expected.any()) or (found == expected).all()
    nans.begin(has_some=False)
