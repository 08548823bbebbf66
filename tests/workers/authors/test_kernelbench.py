import ast
from typing import Any

import pytest
import torch

from gpu_runner.contracts import parse_problem
from workers.authors.kernelbench import model_new, state_paths

REWRITTEN = """\
import torch


def reference(x, blocks_0_weight, running_mean, scale=2.0):
    state = {
        'blocks.0.weight': blocks_0_weight,
        'norm.running_mean': running_mean,
    }
    return torch.func.functional_call(_MODEL, state, (x, scale))


INPUTS = {
    'x': 'D0 8',
    'blocks_0_weight': {'dims': '8', 'role': 'parameter'},
    'running_mean': {'dims': '8', 'role': 'parameter', 'grad': False},
}
WORKLOADS = [{'D0': 4}]
"""


def test_parameters_and_buffers_keep_the_names_that_the_model_gives_them() -> None:
    namespace: dict[str, object] = {}
    source = "import torch\n\n\ndef candidate(*given):\n    return given\n" + model_new(parse_problem(REWRITTEN))
    exec(compile(source, "candidate.py", "exec"), namespace)
    module = namespace["ModelNew"](3, size=4)  # type: ignore[operator]
    assert {name: tuple(p.shape) for name, p in module.named_parameters()} == {"blocks.0.weight": (8,)}
    assert {name: tuple(b.shape) for name, b in module.named_buffers()} == {"norm.running_mean": (8,)}
    x, weight, mean, scale = module("x", 3.0)
    assert (x, scale) == ("x", 3.0)
    assert weight is module.get_parameter("blocks.0.weight")
    assert mean is module.get_buffer("norm.running_mean")


def test_a_problem_that_was_no_model_has_no_state() -> None:
    with pytest.raises(ValueError, match="no model"):
        state_paths("def reference(x):\n    return x\n")


def test_what_is_written_parses() -> None:
    assert ast.parse(model_new(parse_problem(REWRITTEN)))


def test_parts_within_parts_and_counters_are_built_whole_and_start_as_the_model_does() -> None:
    source = REWRITTEN.replace(
        "INPUTS = {",
        "_IDLE = {'norm.inner.count': ('int64', (), False, None), 'steps': ('int32', (3,), False, None)}\nINPUTS = {",
    )
    source = source.replace("'grad': False}", "'grad': False, 'init': 'zeros'}")
    source = source.replace(
        "{'dims': '8', 'role': 'parameter'},", "{'dims': '8', 'role': 'parameter', 'init': 'ones'},", 1
    )
    namespace: dict[str, Any] = {}
    text = "import torch\n\n\ndef candidate(*given):\n    return given\n" + model_new(parse_problem(source))
    exec(compile(text, "candidate.py", "exec"), namespace)
    module = namespace["ModelNew"]()
    held = dict(module.named_buffers())
    assert sorted(held) == ["norm.inner.count", "norm.running_mean", "steps"]
    assert (held["steps"].tolist(), held["norm.inner.count"].dtype, held["norm.inner.count"].item()) == (
        [0] * 3,
        torch.int64,
        0,
    )
    assert module.get_parameter("blocks.0.weight").tolist() == [1.0] * 8
    assert held["norm.running_mean"].tolist() == [0.0] * 8
