"""A module is given a workload's parameters by ``torch.compile`` too, which puts a name of its own before theirs."""

from __future__ import annotations

from typing import Any, cast

import pytest
import torch

from gpu_runner.child.calls import Arguments


def test_a_compiled_module_takes_the_parameters_of_a_workload() -> None:
    module = torch.nn.Linear(5, 3)
    compiled = cast(Any, torch.compile(module, backend="eager", dynamic=False))
    x, weight, bias = torch.randn(4, 5), torch.randn(3, 5), torch.randn(3)
    arguments = Arguments(positional=[x], named={}, parameters={"weight": weight, "bias": bias})
    assert torch.equal(arguments.call(compiled), torch.nn.functional.linear(x, weight, bias))
    assert torch.equal(arguments.call(compiled), arguments.call(module))


def test_a_parameter_that_a_module_lacks_is_named() -> None:
    arguments = Arguments(positional=[torch.zeros(4, 5)], named={}, parameters={"scale": torch.zeros(3)})
    with pytest.raises(KeyError, match="no parameter or buffer scale"):
        arguments.call(torch.nn.Linear(5, 3))
