"""The test of a composed program, which replays the original model. Pure."""

from __future__ import annotations

from gpu_runner.contracts import InputSpec
from workers.fuse.program import ENTRY
from workers.fuse.traced import Traced
from workers.layouts.dimensions import MAKERS, METHODS

_HEAD = '''"""The fused program against the model that it was composed from: values, and gradients of inputs and parameters."""

import torch

from {module}.composed_kernel import {own}
{imports}

# Without a GPU the kernels run in Triton's interpreter: set TRITON_INTERPRET=1.
device = "cuda" if torch.cuda.is_available() else "cpu"


def results(function, given, parameters=()):
    leaves = [x.detach().clone().requires_grad_(x.requires_grad) if isinstance(x, torch.Tensor) else x for x in given]
    found = function(*leaves)
    outputs = list(found) if isinstance(found, (tuple, list)) else [found]
    wanted = [x for x in (*leaves, *parameters) if isinstance(x, torch.Tensor) and x.requires_grad]
    ends = [output for output in outputs if output.requires_grad]
    torch.manual_seed(1)
    gradients = torch.autograd.grad(ends, wanted, [torch.randn_like(x) for x in ends], allow_unused=True) if ends else ()
    return [*outputs, *gradients]


def assert_match(expected, actual):
    assert len(expected) == len(actual)
    for index, one in enumerate(expected):
        other = actual[index]
        assert (one is None) == (other is None), f"[result {{index}}]"
        if one is not None and one.is_floating_point():
            largest = one.nan_to_num(0.0, 0.0, 0.0).abs().max().item() if one.numel() else 0.0
            same = dict(atol=1e-4 * max(largest, 1e-3), rtol=1e-3, equal_nan=True)
            torch.testing.assert_close(other, one, **same, msg=lambda text: f"[result {{index}}] {{text}}")
        elif one is not None:
            assert torch.equal(one, other), f"[result {{index}}]"
'''
_MODEL = """

def test_values_and_gradients():
    torch.manual_seed(0)
    original = Model(*get_init_inputs()).to(device)
    fused = ModelNew(*get_init_inputs()).to(device)
    fused.load_state_dict(original.state_dict())
    given = [x.to(device) if isinstance(x, torch.Tensor) else x for x in get_inputs()]
    given = [x.requires_grad_(x.is_floating_point()) if isinstance(x, torch.Tensor) else x for x in given]
    names = [name for name, _ in original.named_parameters()]
    sides = [(side, [dict(side.named_parameters())[name] for name in names]) for side in (original, fused)]
    assert_match(*(results(side, given, parameters) for side, parameters in sides))
"""
_FUNCTION = """

def test_values_and_gradients():
    torch.manual_seed(0)
    given = [
{given}
    ]
    assert_match(results(reference, given), results(candidate, given))
"""


def suite_source(traced: Traced, module: str) -> str:
    """The test file; ``module`` is the import name of the package with the program and the original."""
    if traced.is_model:
        names = "\n".join(
            f"from {module}.original import {name}" for name in ("Model", "get_init_inputs", "get_inputs")
        )
        return _HEAD.format(module=module, own="ModelNew", imports=names) + _MODEL
    problem = traced.problem
    values = {spec.name: repr(spec.default) for spec in problem.scalars}
    values |= {name: repr(value) for name, value in problem.workloads[0].scalars}
    values |= {spec.name: _made(traced, spec) for spec in problem.inputs}
    given = "\n".join(f"        {values[name]}," for name in problem.parameters)
    names = f"from {module}.original import reference"
    return _HEAD.format(module=module, own=ENTRY, imports=names) + _FUNCTION.format(given=given)


def _made(traced: Traced, spec: InputSpec) -> str:
    shape = tuple(int(dim) if dim.isdigit() else traced.sizes[dim] for dim in spec.dims)
    if spec.dtype == "bool" or spec.high is not None:
        high = 2 if spec.dtype == "bool" else traced.sizes.get(str(spec.high), spec.high)
        return f"torch.randint({spec.low or 0}, {high}, {shape}, device=device).to(torch.{spec.dtype or 'float32'})"
    call = f"{MAKERS.get(spec.init, 'torch.randn')}({shape}, device=device, dtype=torch.{spec.dtype or 'float32'})"
    wanted = ".requires_grad_()" if spec.grad and spec.dtype in (None, "float32", "float64") else ""
    return f"{call}{METHODS.get(spec.init, '')}{wanted}"
