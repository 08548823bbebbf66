"""Large inputs of a KernelBench problem, which every child draws by the problem's own code."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from gpu_runner import seeded
from gpu_runner.child.handlers import ChildState
from gpu_runner.child.input_sets import digests, given
from gpu_runner.contracts.problem import parse_problem
from gpu_runner.messages import CallForm, ModuleCall
from gpu_runner.verify.cases import Case
from gpu_runner.verify.truth import Oracle
from tests.gpu_runner.benchmark.child import Child

SOURCE = """import torch
import torch.nn as nn

ROWS, OTHER = 40, 3
COLUMNS = ROWS // 2


class Model(nn.Module):
    def __init__(self, count):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(count))

    def forward(self, x, labels, factor):
        return x * self.weight * factor


def drawn(rows):
    return torch.rand(rows, COLUMNS)


def get_inputs():
    return [drawn(ROWS), torch.randint(0, 5, (ROWS,)), 2.5]


def get_init_inputs():
    return [COLUMNS]
"""
CASE = Case("workload", (), "bfloat16", 77, measured=True)


def oracle(source: str = SOURCE) -> Oracle:
    """The reference in this process."""
    space: dict[str, Any] = {}
    exec(source, space)  # the test's own text
    child: Any = Child(space["Model"](20))
    child.state.values["problem"] = SimpleNamespace(get_inputs=space["get_inputs"])
    form = CallForm("kernelbench", (), (), ("weight",), (20,))
    return Oracle(parse_problem(source), child, form, {"weight": torch.ones(20)}, ("weight",))


def test_only_the_code_that_draws_is_handed_over() -> None:
    text = seeded.drawing_source(SOURCE)
    assert text is not None
    assert "class" not in text
    assert "OTHER" in text  # of one statement with ROWS
    assert seeded.drawing_source(SOURCE.replace("drawn(ROWS),", "Model(20)(drawn(ROWS)),")) is None


def test_children_draw_large_inputs_alike_and_none_are_sent(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    sent = seeded.seeded(oracle(), CASE, None)
    monkeypatch.setattr(seeded, "MOST_SENT", 100)
    made = seeded.seeded(oracle(), CASE, None)
    assert len(sent.call.tensors) == 3
    assert sent.input_bytes == made.input_bytes
    assert len(made.call.tensors) == 1

    state = ChildState(tmp_path, tmp_path, gpu=False)
    tensors = [buffer.to_torch() for buffer in made.call.tensors]
    mine = given(state, made.call.call, tensors)
    rows, labels, factor = mine.positional
    torch.manual_seed(CASE.seed)
    assert torch.equal(rows, torch.rand(40, 20).bfloat16())
    assert torch.equal(labels, torch.randint(0, 5, (40,)))
    assert factor == 2.5
    assert list(mine.parameters) == ["weight"]

    swapped = rows.clone()
    swapped[0], swapped[1] = rows[1], rows[0]
    before = digests(mine)
    mine.positional[0] = swapped
    assert digests(mine) != before


def test_inputs_that_differ_between_processes_are_found(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    monkeypatch.setattr(seeded, "MOST_SENT", 100)
    once = SOURCE.replace("torch.rand(rows, COLUMNS)", "torch.rand(rows, COLUMNS) + id(object())")
    call = seeded.seeded(oracle(once), CASE, None).call
    assert isinstance(call.call, ModuleCall)
    other = replace(call.call, source=call.call.source.replace("id(object())", "1e3"))
    with pytest.raises(ValueError, match="other values"):
        given(ChildState(tmp_path, tmp_path, gpu=False), other, [buffer.to_torch() for buffer in call.tensors])


def test_shapes_are_known_without_drawing() -> None:
    shapes = oracle().on_shapes(CASE)
    assert [(entry.name, list(entry.shape), entry.dtype) for entry in shapes.inputs] == [
        ("input 0", [40, 20], "bfloat16"),
        ("input 1", [40], "int64"),
        ("weight", [20], "bfloat16"),
    ]
    assert shapes.form.order == ("input 0", "input 1", "input 2")
    assert shapes.scalars == {"input 2": 2.5}
