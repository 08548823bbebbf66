"""A problem on which a trivial answer passes is found out."""

from __future__ import annotations

from dataclasses import replace

import torch

from gpu_runner.messages import CallForm
from gpu_runner.numerics.compare import Truth
from gpu_runner.verify.cases import Case
from gpu_runner.verify.inputs import lay
from gpu_runner.verify.mutants import MUTANTS, survivors
from gpu_runner.verify.proof import Expected, Proof


def proof_of(output: torch.Tensor, x: torch.Tensor, seed: int) -> Proof:
    truth = Truth(output.double(), output)
    item = Expected("output 0", truth, tuple(output.shape), tuple(output.stride()), "float32")
    laid = {"x": lay(x)}
    return Proof(
        Case(f"case {seed}", (), "float32", seed), CallForm("reference", ("x",)), {"x": x}, laid, (), (), (item,)
    )


def test_of_a_large_output_the_rows_that_are_known_tell_the_same() -> None:
    inputs, rows = [torch.randn(64, 16) for _ in range(3)], torch.tensor([3, 40])

    def proof(x: torch.Tensor, seed: int, output: torch.Tensor) -> Proof:
        whole = proof_of(output, x, seed)
        (item,) = whole.outputs
        return replace(whole, outputs=(replace(item, truth=Truth(output[rows].double(), output[rows]), rows=rows),))

    doubled = [proof(x, seed, torch.relu(x) * 2) for seed, x in enumerate(inputs)]
    assert survivors(doubled) == []
    assert torch.equal(doubled[0].outputs[0].known(torch.relu(inputs[0]) * 2), doubled[0].outputs[0].truth.own)
    assert [survivor.mutant for survivor in survivors([proof(x, seed, x) for seed, x in enumerate(inputs)])] == [
        "an input"
    ]


def test_a_problem_that_depends_on_its_input_lets_no_trivial_answer_pass() -> None:
    inputs = [torch.randn(4, 16) for _ in range(3)]
    assert survivors([proof_of(torch.relu(x) * 2, x, seed) for seed, x in enumerate(inputs)]) == []


def test_each_trivial_answer_survives_where_it_is_right() -> None:
    x = torch.randn(4, 16)
    half = torch.randn(4, 16)
    half[:, 8:] = 0
    outputs = {
        "zeros": torch.zeros(4, 16),
        "ones": torch.ones(4, 16),
        "the mean everywhere": torch.full((4, 16), 0.3),
        "an input": x,
        "only the first columns": half,
        "the last answer": torch.randn(4, 16),
    }
    assert set(outputs) == set(MUTANTS)
    for name, output in outputs.items():
        found = {survivor.mutant for survivor in survivors([proof_of(output, x, 1), proof_of(output, x, 2)])}
        assert name in found


def test_one_case_that_rejects_a_trivial_answer_is_enough() -> None:
    x = torch.randn(4, 16)
    assert survivors([proof_of(torch.zeros(4, 16), x, 1), proof_of(torch.randn(4, 16), x, 2)]) == []


def test_an_input_is_no_answer_where_its_shape_is_another() -> None:
    table = torch.randn(1, 16)
    one_row = proof_of(table.clone(), table, 1)
    more_rows = proof_of(torch.randn(5, 16), torch.randn(3, 16), 2)
    assert "an input" in {survivor.mutant for survivor in survivors([one_row])}
    assert "an input" not in {survivor.mutant for survivor in survivors([one_row, more_rows])}
