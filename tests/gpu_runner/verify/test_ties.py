"""Elements at a bend of the function, of which bfloat16 has many: float32 may see them on either side."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path

import torch

from gpu_runner.child.calls import Arguments
from gpu_runner.context import RunContext
from gpu_runner.contracts import parse_problem
from gpu_runner.numerics.compare import compare
from gpu_runner.verify.cases import Case, Special
from gpu_runner.verify.judge import prove
from gpu_runner.verify.proof import Expected

BEND = """import torch


def reference(x: torch.Tensor) -> torch.Tensor:
    return (x - 0.5).clamp(min=0.0)


INPUTS = {"x": "T H"}
WORKLOADS = [{"T": 64, "H": 512}]
"""


def gradient(dtype: str) -> tuple[torch.Tensor, Expected]:
    """Give the input and what its gradient is held against."""
    case = Case("workload", (("T", 64), ("H", 512)), dtype, 3)
    proofs, _ = prove(parse_problem(BEND), [case], RunContext(Path(tempfile.mkdtemp())))
    item = proofs[0].gradients["x"]
    assert item is not None
    return proofs[0].inputs["x"], item


def test_at_a_bend_either_slope_passes_and_nowhere_else() -> None:
    x, item = gradient("bfloat16")
    tie = x == 0.5
    assert int(tie.sum()) > 10
    right = item.truth.exact.bfloat16()
    assert bool((right[tie] != 0).all())
    assert compare(right, item.truth).passed
    other = torch.where(tie, torch.zeros_like(right), right)
    assert compare(other, item.truth).passed
    assert not compare(other, replace(item.truth, shaken=())).passed
    beside = torch.where((x > 0.5) & (x < 0.51), torch.zeros_like(right), right)
    assert bool((beside != right).any())
    assert not compare(beside, item.truth).passed


ROUNDING = BEND.replace("(x - 0.5).clamp(min=0.0)", "torch.round(x * 2) / 2")


def test_of_halves_and_quarters_a_tie_is_rounded_as_the_reference_rounds_it() -> None:
    case = Case("ties", (("T", 9), ("H", 40)), "float32", 3, special=Special.ties)
    proofs, _ = prove(parse_problem(ROUNDING), [case], RunContext(Path(tempfile.mkdtemp())))
    x, truth = proofs[0].inputs["x"], proofs[0].outputs[0].truth
    assert compare(torch.round(x * 2) / 2, truth).passed
    assert not compare(torch.floor(x * 2 + 0.5) / 2, truth).passed


BYTES = ROUNDING.replace("torch.round(x * 2) / 2", "torch.round(x * 8).clamp(-128, 127).to(torch.int8)")


def test_of_whole_numbers_of_8_bits_a_tie_is_none_of_both_sides() -> None:
    case = Case("ties", (("T", 9), ("H", 40)), "float32", 3, special=Special.ties)
    problem = parse_problem(BYTES.replace('"x": "T H"', '"x": {"dims": "T H", "grad": False}'))
    proofs, _ = prove(problem, [case], RunContext(Path(tempfile.mkdtemp())))
    x, truth = proofs[0].inputs["x"] * 8, proofs[0].outputs[0].truth
    assert compare(torch.round(x).clamp(-128, 127).to(torch.int8), truth).passed
    assert not compare(torch.ceil(x - 0.5).clamp(-128, 127).to(torch.int8), truth).passed


def test_full_precision_is_held_to_the_truth_and_the_noise_of_its_own_arithmetic() -> None:
    _, item = gradient("float32")
    assert len(item.truth.shaken) == 2
    for noisy in item.truth.shaken:
        assert torch.allclose(noisy, item.truth.exact, rtol=1e-5, atol=1e-5 * float(item.truth.exact.abs().max()))


def test_an_opposite_step_moves_every_element_to_the_other_side() -> None:
    x = torch.randn(9, 33, dtype=torch.float64)
    given = Arguments(positional=[x, 3], named={}, parameters={}, leaves={}, upstream=[])
    up, down = (given.shaken(step).positional[0] for step in (1e-3, -1e-3))
    assert torch.allclose((up - x) / x, -(down - x) / x, atol=1e-9)
    assert {round(float(value), 6) for value in ((up - x) / x).flatten()} == {1e-3, -1e-3}
    assert given.shaken(1e-3).positional[1] == 3


def test_equal_elements_are_moved_alike_where_their_value_draws_it() -> None:
    x = torch.tensor([0.5, 1.25, -3.0, 7.5] * 64, dtype=torch.float64)
    given = Arguments(positional=[x], named={}, parameters={}, leaves={}, upstream=[])
    up, down = (given.shaken(step, by_value=True).positional[0] for step in (1e-3, -1e-3))
    assert torch.allclose((up - x) / x, -(down - x) / x, atol=1e-9)
    assert len(up.unique()) == len(x.unique())
    many = torch.randn(4096, dtype=torch.float64, generator=torch.Generator().manual_seed(4))
    given = Arguments(positional=[many], named={}, parameters={}, leaves={}, upstream=[])
    raised = (given.shaken(1e-3, by_value=True).positional[0] / many > 1).double().mean()
    assert 0.45 < float(raised) < 0.55


TIES = """import torch


def reference(x: torch.Tensor) -> torch.Tensor:
    return torch.clamp(x - (x.sum(-1, keepdim=True) - 1) / 4, min=0)


INPUTS = {"x": "T H"}
WORKLOADS = [{"T": 4, "H": 4}]
"""


def test_of_several_ties_a_kernel_takes_all_or_none() -> None:
    problem = parse_problem(TIES)
    case = Case("workload", (("T", 512), ("H", 4)), "bfloat16", 3)
    oracle_proofs, _ = prove(problem, [case], RunContext(Path(tempfile.mkdtemp())))
    proof = oracle_proofs[0]
    x, item = proof.inputs["x"].double(), proof.gradients["x"]
    assert item is not None
    laid = proof.upstream[0]
    assert laid is not None
    upstream = laid.view().double()
    apart = x - (x.sum(-1, keepdim=True) - 1) / 4
    inside = torch.where(apart > 0, upstream, 0.0)  # a tie is left out, which eager mode takes
    other = (inside - inside.sum(-1, keepdim=True) / 4).bfloat16()
    assert compare(other, item.truth).passed
