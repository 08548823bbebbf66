"""Training steps of fused models in Triton's interpreter beside the originals.

``python -m tests.workers.fuse.wholes.steps NAME...`` needs TRITON_INTERPRET=1 and prints JSON: by model and way to call it, what
each output and gradient loses beside the original in float64, as shares, the original's loss first. The output comes first, then
gradients of inputs and of parameters by name.
"""

from __future__ import annotations

import copy
import json
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import nn
from triton.runtime.interpreter import GridExecutor

from gpu_runner.child.interpreter import teach_interpreter
from tests.workers.compiler.interpreted import loaded
from tests.workers.fuse.wholes import cut_model, source_of
from workers.fuse.program import composed_of

COMPILED = ("gru_cell",)  # the interpreter breaks the graph at every kernel, which takes longer than all the rest
Losses = list[tuple[float, float]]


def modules(name: str) -> tuple[nn.Module, nn.Module, list[torch.Tensor]]:
    """The original with other weights than it begins with, the fused module with the same, and inputs."""
    torch.manual_seed(3)
    own = loaded(f"{name}_original", source_of(name))
    original = own.Model(*own.get_init_inputs())
    with torch.no_grad():
        for value in original.state_dict().values():
            if value.is_floating_point():
                value.add_(torch.rand_like(value) * 0.1)
    model, chosen, bodies = cut_model(name)
    fused = loaded(name, composed_of(model, chosen, bodies).source).ModelNew(*own.get_init_inputs())
    fused.load_state_dict(original.state_dict())
    return original, fused, own.get_inputs()


def step(called: Callable[..., torch.Tensor], module: nn.Module, given: list[torch.Tensor]) -> list[torch.Tensor]:
    """The output and the gradients."""
    leaves = [x.detach().clone().requires_grad_(x.is_floating_point()) for x in given]
    output = called(*leaves)
    torch.manual_seed(4)
    upstream = torch.randn(output.shape, dtype=torch.float64).to(output.dtype)
    wanted = [x for x in leaves if x.requires_grad] + [value for _, value in sorted(module.named_parameters())]
    return [output, *torch.autograd.grad(output, wanted, upstream)]


def losses(name: str) -> dict[str, Any]:
    """What a model loses, by way to call it; and whether its parameters go to the original and back."""
    original, fused, given = modules(name)
    exact = copy.deepcopy(original).double()
    truths = step(exact, exact, [x.double() if x.is_floating_point() else x for x in given])

    def beside(called: Callable[..., torch.Tensor], context: AbstractContextManager[Any], dtype: torch.dtype) -> Losses:
        sides = [original.to(dtype), fused.to(dtype)]
        inputs = [x.to(dtype) if x.is_floating_point() else x for x in given]
        with context:
            theirs, ours = step(sides[0], sides[0], inputs), step(called, sides[1], inputs)
        assert all(torch.promote_types(x.dtype, y.dtype) == y.dtype for x, y in zip(theirs, ours, strict=True)), name
        return [
            (_loss(one, truth), _loss(other, truth)) for one, other, truth in zip(theirs, ours, truths, strict=True)
        ]

    compiled: Any = torch.compile(fused, backend="aot_eager")
    found: dict[str, Any] = {
        "plain": beside(fused, nullcontext(), torch.float32),
        "compiled": beside(compiled, nullcontext(), torch.float32) if name in COMPILED else [],
        "autocast": beside(fused, torch.autocast("cpu", torch.bfloat16), torch.float32),
    }
    back = copy.deepcopy(original)
    back.load_state_dict(fused.state_dict())
    same = [torch.equal(one, other) for one, other in zip(original.parameters(), back.parameters(), strict=True)]
    found["state"] = all(same) and list(fused.state_dict()) == list(original.state_dict())
    found["bfloat16"] = beside(fused, nullcontext(), torch.bfloat16)
    return found


def _loss(value: torch.Tensor, truth: torch.Tensor) -> float:
    return float((value.double() - truth).norm() / truth.norm())


def main() -> None:
    """Print what models lose."""
    teach_interpreter()
    # What is compiled is the program around the kernels: Python that interprets them is none of it.
    GridExecutor.__call__ = torch.compiler.disable(GridExecutor.__call__)
    torch.set_num_threads(1)
    print(json.dumps({name: losses(name) for name in sys.argv[1:]}))


if __name__ == "__main__":
    main()
