"""The capture action with its sandbox: what a problem's author is told, and the KernelBench form."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpu_runner.capture import run
from gpu_runner.context import RunContext
from gpu_runner.contracts import CaptureRequest, CaptureResult, Expr, Isolation, Limits, parse_problem
from tests.gpu_runner.core.problems import full, rows

LIMITS = Limits(time_s=100, step_s=30)

MODEL = '''"""A small network."""
import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, wide, slope):
        super().__init__()
        self.linear = nn.Linear(wide, 24)
        self.norm = nn.LayerNorm(24)
        self.slope = slope

    def forward(self, x, scale):
        return torch.relu(self.norm(self.linear(x))) * self.slope * scale


def get_inputs():
    return [torch.randn(40, 12), 2.0]


def get_init_inputs():
    return [12, 0.5]
'''


def capture(source: str) -> CaptureResult:
    context = RunContext(Path(), LIMITS)
    result = run(CaptureRequest(source), context)
    if result.graph is not None:
        assert Isolation.process in context.levels()
    return result


def test_a_problem_is_captured_in_the_sandbox() -> None:
    result = capture(rows("torch.softmax(x, -1)"))
    assert result.error is None
    assert result.graph is not None
    assert result.operators == ("amax", "div", "exp", "mul", "sub", "sum")
    assert result.graph.nodes[0].meta.shape == (Expr("T"), Expr("H"))


@pytest.mark.parametrize(
    ("source", "message", "line"),
    [
        ("import os\n", "the problem imports `os`", 1),
        (rows("x.undefined()"), "does not run: AttributeError", 6),
        (
            rows("x").replace("import math", "import math\nraise ValueError('at import')"),
            "does not run: ValueError: at import",
            2,
        ),
        (rows("'text'"), "must return a tensor", None),
        (rows("[][0]"), "does not run: IndexError", 6),
        (rows("x @ x"), "does not run: RuntimeError", 6),
        (rows("x").replace("import math", "import math\nopen('/etc/shadow').read()"), "does not run:", 2),
    ],
)
def test_what_is_wrong_is_said_with_the_line(source: str, message: str, line: int | None) -> None:
    result = capture(source)
    assert result.graph is None
    assert message in (result.error or "")
    assert result.line == line
    assert result.fix


def test_a_reference_that_ends_the_process_is_the_problems_fault() -> None:
    result = capture(rows("x").replace("import math", "import torch\ntorch.os._exit(0)"))
    assert "the child ended before it answered (exit code 0)" in (result.error or "")
    assert "it may only compute" in (result.fix or "")


def test_a_kernelbench_model_is_rewritten_with_its_parameters_as_inputs() -> None:
    result = capture(MODEL)
    assert result.error is None
    assert result.graph is not None
    problem = parse_problem(result.problem_source or "")
    assert [(i.name, i.dims, i.parameter) for i in problem.inputs] == [
        ("x", ("D0", "12"), False),
        ("linear_weight", ("24", "12"), True),
        ("linear_bias", ("24",), True),
        ("norm_weight", ("24",), True),
        ("norm_bias", ("24",), True),
    ]
    assert [(s.name, s.default) for s in problem.scalars] == [("scale", 2.0)]
    assert dict(problem.workloads[0].sizes) == {"D0": 40}
    assert [name for name, node in result.graph.gradients if node] == [i.name for i in problem.inputs]
    assert result.graph.specialised == ()


def test_a_model_that_runs_at_its_own_sizes_alone_keeps_them() -> None:
    fixed = MODEL.replace("return torch.relu(", "assert x.shape[0] == 40\n        return torch.relu(")
    result = capture(fixed)
    assert result.error is None
    assert parse_problem(result.problem_source or "").inputs[0].dims == ("40", "12")


def test_a_model_with_a_hidden_tensor_is_refused() -> None:
    result = capture(MODEL.replace("self.slope = slope", "self.slope = torch.randn(24)"))
    assert result.graph is None
    assert "`slope`, which is neither a parameter nor a buffer" in (result.error or "")
    assert "register_buffer" in (result.fix or "")


def model(forward: str, inputs: str, init: str = "", given: str = "", takes: str = "x") -> str:
    """Give a KernelBench problem; ``init`` are the further lines of ``__init__``."""
    return (
        "import torch\nimport torch.nn as nn\nimport torch.nn.functional as F\n\n\nclass Model(nn.Module):\n"
        f"    def __init__(self, *given):\n        super().__init__()\n{init}\n\n"
        f"    def forward(self, {takes}):\n        {forward}\n\n\n"
        f"def get_inputs():\n    return [{inputs}]\n\n\ndef get_init_inputs():\n    return [{given}]\n"
    )


@pytest.mark.parametrize(
    ("source", "dims"),
    [
        # A batch that is as large as a parameter, and rows and columns that are as large as each other.
        (
            model("return self.norm(x)", "torch.rand(6, 6, 40, 40)", "        self.norm = nn.BatchNorm2d(6)"),
            [("D0", "6", "D1", "D2")],
        ),
        # The area of what a window leaves follows no rule of the sizes: first dimensions alone have names.
        (
            model("return self.layer(x)", "torch.rand(16, 8, 24, 24)", "        self.layer = nn.Conv2d(8, 16, 3)"),
            [("D0", "8", "24", "24")],
        ),
        # Sizes that have to be one have one name.
        (model("return x @ y", "torch.rand(40, 40), torch.rand(40, 40)", takes="x, y"), [("D0", "D0"), ("D0", "D0")]),
        (model("return x + y", "torch.rand(40, 40), torch.rand(40, 40)", takes="x, y"), [("D0", "D1"), ("D0", "D1")]),
    ],
)
def test_sizes_of_a_call_are_named_by_their_places(source: str, dims: list[tuple[str, ...]]) -> None:
    result = capture(source)
    assert result.error is None
    problem = parse_problem(result.problem_source or "")
    assert [spec.dims for spec in problem.inputs if not spec.parameter] == dims


@pytest.mark.parametrize(
    "source",
    [
        model("return torch.softmax(x, dim=1)", "torch.rand(4096, 393216)"),
        model("return x[:, ::2].reshape(4096, 196608)", "torch.rand(4096, 393216)"),
        model("return self.norm(x)", "torch.rand(64, 64, 512, 512)", "        self.norm = nn.BatchNorm2d(64)"),
        model("return self.linear(x)", "torch.rand(1024, 32768)", "        self.linear = nn.Linear(32768, 32768)"),
        full("    return torch.softmax(x, -1)", "x", '{"x": "65536 65536"}', "{}"),
    ],
)
def test_a_problem_that_is_larger_than_memory_is_captured_by_its_shapes(source: str) -> None:
    context = RunContext(Path(), Limits(time_s=60, step_s=30, memory_bytes=3 * 2**30))
    result = run(CaptureRequest(source), context)
    assert (result.error, result.graph is None) == (None, False)


def test_a_model_that_autograd_refuses_is_captured_forward_alone() -> None:
    body = "y = torch.relu(self.linear(x))\n        y += x\n        return y"
    result = capture(model(body, "torch.rand(6, 8)", "        self.linear = nn.Linear(8, 8)"))
    assert result.graph is not None and result.graph.gradients == ()
    assert not any(spec.grad for spec in parse_problem(result.problem_source or "").inputs)


def test_own_sizes_are_kept_where_others_need_an_operator_outside_of_the_vocabulary() -> None:
    divides = capture(model("return F.adaptive_avg_pool2d(x, (4, 3))", "torch.rand(3, 4, 12, 15)"))
    assert divides.operators == ("div", "sum", "windows")
    does_not = capture(model("return F.adaptive_avg_pool2d(x, (4, 7))", "torch.rand(3, 4, 12, 15)"))
    assert does_not.operators == ("aten._adaptive_avg_pool2d.default", "aten._adaptive_avg_pool2d_backward.default")
    assert does_not.graph is not None
    assert Expr("D2") in does_not.graph.nodes[0].meta.shape


def test_the_range_of_whole_numbers_is_known_without_making_them() -> None:
    inputs = "torch.rand(65536, 16384), torch.randint(3, 16384, (65536,)).long()"
    result = capture(model("return F.cross_entropy(x, target)", inputs, takes="x, target"))
    assert result.error is None
    target = parse_problem(result.problem_source or "").inputs[1]
    assert (target.low, target.high) == (3, 16384)


def test_whole_numbers_of_a_range_that_only_making_them_would_tell_are_refused() -> None:
    inputs = "torch.rand(65536, 16384), torch.randint(0, 9, (65536,)) * 7"
    result = capture(model("return F.cross_entropy(x, target)", inputs, takes="x, target"))
    assert result.graph is None
    assert "between which values the whole numbers of `target` lie" in (result.error or "")


@pytest.mark.parametrize("shape", ["(8, 16)", "(65536, 65536)"])
def test_what_draws_random_numbers_is_named_with_the_line_of_forward(shape: str) -> None:
    result = capture(model("return F.dropout(x, 0.2)", f"torch.rand{shape}"))
    assert result.graph is None
    assert result.error == (
        "the reference gives different values on two runs with the same inputs: `aten.bernoulli.p` draws random numbers"
    )
    assert result.line == 11


def test_dropout_in_eval_buffers_and_nested_modules_with_several_results_are_captured() -> None:
    init = (
        "        self.block = nn.Sequential(nn.LayerNorm(24), nn.Sequential(nn.GELU(), nn.Dropout(0.5))).eval()\n"
        '        self.register_buffer("shift", torch.arange(24.0))'
    )
    forward = "h = self.block(x) + self.shift\n        return h * scale, (h > 0) if flag else h"
    result = capture(model(forward, "torch.rand(40, 24), 0.5, True", init, takes="x, scale, flag"))
    assert result.error is None
    assert result.graph is not None
    assert len(result.graph.outputs) == 2
    problem = parse_problem(result.problem_source or "")
    assert [i.name for i in problem.inputs] == ["x", "block_0_weight", "block_0_bias", "shift"]
    assert [(s.name, s.default) for s in problem.scalars] == [("scale", 0.5), ("flag", True)]


def test_a_model_that_asks_for_values_while_it_is_built_gets_them() -> None:
    init = "        self.rates = [r.item() for r in torch.linspace(0, 0.5, 3)]"
    result = capture(model("return x * self.rates[2]", "torch.rand(40, 24)", init))
    assert result.error is None


@pytest.mark.parametrize("shape", ["(8, 16)", "(65536, 65536)"])
def test_a_branch_on_a_value_is_refused_with_its_line_and_at_once(shape: str) -> None:
    result = capture(model("return x * 2 if x.sum() > 0 else x", f"torch.rand{shape}"))
    assert result.graph is None
    assert "ReadsValues: `aten._local_scalar_dense.default` takes the values of a tensor" in (result.error or "")
    assert result.line == 12


def test_an_unrolled_recurrence_over_many_steps_is_refused_with_its_line_before_it_is_traced() -> None:
    forward = "for step in range(1200): x = torch.tanh(x * 0.5) + x[:, :1]\n        return x"
    result = capture(model(forward, "torch.rand(8, 16)"))
    assert result.error == "the reference calls more than 2000 operators, as a recurrence over many steps does"
    assert result.line == 12
    assert "one step" in (result.fix or "")
