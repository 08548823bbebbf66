"""Problems of every shape that a layout must write tests and modules for, with sources that compute by torch."""

from __future__ import annotations

from gpu_runner.contracts import Expr, Graph, KernelNames, Node, NodeRef, TensorMeta, parse_problem
from tests.workers.layouts.designs import plan
from workers.layouts.naming import camel_case
from workers.layouts.protocol import Design

SOURCE = """\
import math

import torch
import torch.nn.functional as F


{reference}


class {function}(torch.autograd.Function):
    @staticmethod
    def forward(ctx, *arguments):
        leaves = [a.detach().requires_grad_(a.requires_grad) if torch.is_tensor(a) else a for a in arguments]
        with torch.enable_grad():
            outputs = reference(*leaves)
        ctx.leaves, ctx.outputs = leaves, outputs if isinstance(outputs, tuple) else (outputs,)
        detached = tuple(output.detach() for output in ctx.outputs)
        ctx.mark_non_differentiable(*[d for d, o in zip(detached, ctx.outputs) if not o.requires_grad])
        return detached if isinstance(outputs, tuple) else detached[0]

    @staticmethod
    def backward(ctx, *gradients):
        pairs = [(o, g) for o, g in zip(ctx.outputs, gradients) if o.requires_grad]
        wanted = [leaf for leaf in ctx.leaves if torch.is_tensor(leaf) and leaf.requires_grad]
        found = iter(torch.autograd.grad([o for o, _ in pairs], wanted, [g for _, g in pairs]))
        return tuple(next(found) if torch.is_tensor(leaf) and leaf.requires_grad else None for leaf in ctx.leaves)
"""

LOSS = '''\
"""Cross entropy of each row, with a floor."""
import torch
import torch.nn.functional as F

SMALLEST = 1e-3


def floor(value: torch.Tensor) -> torch.Tensor:
    return torch.clamp(value, min=SMALLEST)


def reference(logits: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    return floor(F.cross_entropy(logits.float(), target, reduction="none")).mean().to(logits.dtype)


INPUTS = {"logits": "T V", "target": {"dims": "T", "dtype": "int64", "high": "V"}}
WORKLOADS = [{"T": 2048, "V": 32000}]
'''

PAIR = '''\
"""The sum of two rows, and the sum scaled by a column vector."""
import torch


def reference(x: torch.Tensor, residual: torch.Tensor, gain: torch.Tensor, offset: torch.Tensor):
    total = x + residual
    return total * gain + offset, total


INPUTS = {"x": "B T H", "residual": "B T H", "gain": {"dims": "H", "role": "parameter", "init": "ones"},
          "offset": {"dims": "B", "grad": False}}
WORKLOADS = [{"B": 4, "T": 2048, "H": 4096}]
'''
PAIR = PAIR.replace("gain + offset", "gain + offset[:, None, None]")

SCALARS = '''\
"""A row that is bent and moved."""
import torch


def reference(input: torch.Tensor, power: float, *, shift: torch.Tensor, mode: str = "wide", bias: float = 0.5):
    bent = torch.tanh(input * power) + shift
    return bent + bias if mode == "wide" else bent


INPUTS = {"input": "T I", "shift": {"dims": "", "role": "parameter", "init": "zeros"}}
WORKLOADS = [{"T": 4096, "I": 11008, "power": 2.0}]
'''

MASK = '''\
"""Rows that are masked, without a gradient, and how many elements were left."""
import torch


def reference(x: torch.Tensor, keep: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.where(keep, x, 0.0), keep.sum(-1)


INPUTS = {"x": {"dims": "N D", "grad": False}, "keep": {"dims": "N D", "dtype": "bool"}}
WORKLOADS = [{"N": 4096, "D": 128}]
DTYPES = ["float32"]
'''

BUFFER = '''\
"""A row of probabilities times a fixed table of weights."""
import torch


def reference(p: torch.Tensor, table: torch.Tensor, eps: float = 1e-6) -> torch.Tensor:
    return torch.log(p.float() + eps).to(p.dtype) * table.to(p.dtype)


INPUTS = {"p": {"dims": "O V", "init": "softmax"},
          "table": {"dims": "V", "dtype": "float32", "init": "uniform", "role": "parameter"}}
WORKLOADS = [{"O": 2048, "V": 32000}]
NAMES = {"module": "LigerWeighedLogs"}
'''

SINGLE = """\
import torch


def reference(atol: torch.Tensor) -> torch.Tensor:
    return torch.sin(atol)


INPUTS = {"atol": "l"}
WORKLOADS = [{"l": 65536}]
"""


def _graph(inputs: tuple[str, ...], outputs: tuple[tuple[str, str, bool], ...], *, as_tuple: bool = False) -> Graph:
    names = tuple(f"out{i}" for i in range(len(outputs)))
    nodes = [Node(name, "input", (), TensorMeta((Expr("T"),), "float32")) for name in inputs]
    for name, (op, dtype, _) in zip(names, outputs, strict=True):
        args = (NodeRef(inputs[0]), *(((0,), True) if op == "sum" else ()))
        nodes.append(Node(name, op, args, TensorMeta((Expr("T"),), dtype)))
    upstream = tuple(
        f"d{name}" if differentiable else None for name, (_, _, differentiable) in zip(names, outputs, strict=True)
    )
    return Graph(tuple(nodes), inputs, names, upstream, (), tuple_output=as_tuple)


def _design(name: str, problem: str, graph: Graph, tier: int, prefix: str = "Liger") -> Design:
    parsed = parse_problem(problem)
    written = camel_case(name)
    functional = f"{prefix.lower()}_{name}".lstrip("_")
    module = parsed.names.module or f"{prefix}{written}"
    names = KernelNames(f"{prefix}{written}Function", module, functional)
    body = problem[problem.index("import torch") :].partition("\nINPUTS")[0]
    definitions = "\n".join(line for line in body.splitlines() if not line.startswith("import "))
    # A class method gets its arguments by position, so that keyword-only parameters become plain ones here.
    definitions = definitions.strip().replace("*, ", "").replace("shift: torch.Tensor, mode", "shift, mode")
    source = SOURCE.format(reference=definitions, function=names.function)
    return Design(name, names, parsed, graph, plan(tier), source)


def variants(prefix: str = "Liger") -> tuple[Design, ...]:
    float_out = ("mul", "float32", True)
    return (
        _design("row_loss", LOSS, _graph(("logits", "target"), (("log", "float32", True),)), 3, prefix),
        _design("add_gain", PAIR, _graph(("x", "residual"), (float_out, float_out), as_tuple=True), 1, prefix),
        _design("bent", SCALARS, _graph(("input",), (("tanh", "float32", True),)), 1, prefix),
        _design(
            "masked",
            MASK,
            _graph(("x",), (("where", "float32", False), ("sum", "int64", False)), as_tuple=True),
            1,
            prefix,
        ),
        _design("weighed", BUFFER, _graph(("p",), (("log", "float32", True),)), 1, prefix),
        _design("wave", SINGLE, _graph(("atol",), (("sin", "float32", True),)), 1, prefix),
    )
