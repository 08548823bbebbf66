"""Whole models as the runner traces them: sizes with names, tied weights, and what is refused in one sentence."""

from __future__ import annotations

import pytest

from gpu_runner import capture
from gpu_runner.contracts import CaptureRequest, CaptureResult, Expr, parse_problem
from tests.cheats.trial import surroundings
from tests.workers.fuse.models import module_of
from workers.fuse.cut import cut
from workers.fuse.program import program
from workers.fuse.traced import Traced

HEAD = """import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.up = nn.Linear(8, 8)
        self.down = nn.Linear(8, 8)
        self.norm = nn.BatchNorm1d(8)
        self.eval()
{init}
    def forward(self, x):
        return {forward}


def get_inputs():
    return [torch.randn(5, 8)]


def get_init_inputs():
    return []
"""
FORWARD = "self.norm(self.down(F.relu(self.up(x)) * 2 + 1))"


def captured(forward: str = FORWARD, init: str = "") -> CaptureResult:
    source = HEAD.format(forward=forward, init=f"        {init}\n" if init else "")
    return capture.run(CaptureRequest(source, whole=True), surroundings())


def test_sizes_have_names_and_tied_weights_stay_tied() -> None:
    result = captured(init="self.down.weight = self.up.weight")
    assert result.graph is not None and result.problem_source is not None
    operators = [node.op for node in result.graph.nodes if node.op != "input"]
    assert operators == [
        "aten.linear.default",
        "aten.relu.default",
        "aten.mul.Tensor",
        "aten.add.Tensor",
        "aten.linear.default",
        "aten.batch_norm.default",
    ]
    assert result.graph.nodes[-1].meta.shape == (Expr("D0"), 8)
    assert result.tied == (("down.weight", "up.weight"),)
    model = Traced(result.graph, parse_problem(result.problem_source), True, result.tied)
    chosen = cut(model, lambda _: None)
    bodies = {name: f"import torch\n\n\n{part.function}" for name, part in chosen.parts.items()}
    module = module_of(program(model, chosen, bodies, "It.").source).ModelNew()
    original = module_of(result.problem_source).Model()
    assert module.state_dict().keys() == original.state_dict().keys()
    assert module.down.weight is module.up.weight
    module.load_state_dict(original.state_dict())


@pytest.mark.parametrize(
    ("forward", "message"),
    [
        ("self.up(x) if x.sum() > 0 else x", "takes the values of a tensor"),
        (f"F.dropout({FORWARD}, 0.5, True)", "`aten.dropout.default` draws random numbers"),
        (FORWARD.replace("(x)", "(x.mul_(2))"), "`aten.mul_.Tensor` changes `x` in place, which the caller sees"),
    ],
)
def test_what_cannot_be_fused_is_refused(forward: str, message: str) -> None:
    result = captured(forward)
    assert result.graph is None and result.error is not None
    assert message in result.error
