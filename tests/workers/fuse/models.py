"""Models as problem files, small, and their traces made in this process."""

from __future__ import annotations

import types
from collections.abc import Sequence
from typing import Any

import torch

from gpu_runner.contracts import CaptureResult, Graph, Node, NodeRef, Problem, TensorMeta, parse_problem
from gpu_runner.tracing import whole
from gpu_runner.tracing.joint import make_inputs
from gpu_runner.tracing.raw import RawArg, RawGraph, Ref
from workers.fuse.traced import Traced, traced_of

HEAD = "import torch\nimport torch.nn.functional as F\n\n\n"


def problem(body: str, inputs: dict[str, Any]) -> str:
    lines = "".join(f"    {line}\n" for line in body.strip().splitlines())
    return f"{HEAD}def reference({', '.join(inputs)}):\n{lines}\n\nINPUTS = {inputs!r}\nWORKLOADS = [{{}}]\n"


MLP = problem(
    """
h = F.linear(F.layer_norm(x, (8,), g, b), w)
h = F.layer_norm(F.gelu(h) * 0.5 + 1.0, (12,), g2)
return x + F.relu(F.linear(h, w2)) * 2.0
""",
    {"x": "4 8", "g": "8", "b": "8", "w": "12 8", "g2": "12", "w2": "8 12"},
)
RESNET = problem(
    """
y = F.relu_(F.batch_norm(F.conv2d(x, w, padding=1), m, v, g, b))
y = F.batch_norm(F.conv2d(y, w, padding=1), m, v, g, b)
y += x
return F.relu_(y)
""",
    {
        "x": "2 3 4 5",
        "w": "3 3 3 3",
        "m": {"dims": "3", "grad": False},
        "v": {"dims": "3", "grad": False, "init": "uniform"},
        "g": "3",
        "b": "3",
    },
)
TRANSFORMER = problem(
    """
q, k, v = F.linear(F.layer_norm(x, (8,)), w).view(2, 5, 2, 3, 4).permute(3, 0, 2, 1, 4).unbind(0)
a = q @ k.transpose(-2, -1) * 0.5
a = a.masked_fill(mask == 0, float("-inf")).softmax(-1)
x = x + F.linear((a @ v).transpose(1, 2).reshape(2, 5, 8), o)
h = F.linear(F.layer_norm(x, (8,)), up)
return x + F.linear(0.5 * h * (1.0 + torch.tanh(0.79788456 * (h + 0.044715 * torch.pow(h, 3.0)))), down)
""",
    {
        "x": "2 5 8",
        "w": "24 8",
        "o": "8 8",
        "up": "16 8",
        "down": "8 16",
        "mask": {"dims": "5 5", "dtype": "bool"},
    },
)
BIASED = problem(
    """
h = F.gelu(F.linear(F.layer_norm(x, (8,), g, c), up, b))
y = F.linear(h, down, c).transpose(1, 2)
return x + F.linear(F.tanh(y.transpose(1, 2)), right, c), F.linear(x, right, c)
""",
    {"x": "2 4 8", "g": "8", "c": "8", "up": "12 8", "b": "12", "down": "8 12", "right": "8 8"},
)
SCALED = problem(
    "return F.linear(F.gelu(F.linear(x, up, b)) * 0.5, down)", {"x": "4 8", "up": "12 8", "b": "12", "down": "8 12"}
)
CHAIN = problem("\n".join(["y = x"] + ["y = torch.sin(y) * 1.1 + 0.1"] * 10 + ["return y"]), {"x": "6 8"})
SHARED = problem(
    "h = torch.tanh(F.linear(x, w)) * 2\nreturn F.linear(torch.tanh(F.linear(h, w)) * 2, w)", {"x": "4 8", "w": "8 8"}
)
TWICE = problem("return F.relu(x * x + x) * torch.sigmoid(x)", {"x": "4 8"})
INTEGER = problem(
    "return F.gelu(F.embedding(i, w) * 2 + 1)", {"i": {"dims": "4", "dtype": "int64", "low": 0, "high": 7}, "w": "7 8"}
)
TWO_OUTPUTS = problem(
    "h = torch.sigmoid(F.linear(x, w)) * 3\nreturn h, (h.detach() * 2 + 1).exp()", {"x": "4 8", "w": "8 8"}
)
VIEW = problem("h = torch.exp(x) * 2 + 1\nreturn h, h[:, :4], x.t()", {"x": "4 8"})
IN_PLACE = problem("h = F.linear(x, w)\nh.mul_(2).add_(1).relu_()\nreturn h * h", {"x": "4 8", "w": "8 8"})
NO_GRADIENT = problem("with torch.no_grad():\n    s = x.abs().mean() + 1\nreturn torch.tanh(x / s) * 2", {"x": "4 8"})
TRANSPOSED = problem(
    """
y = F.silu(F.linear(F.gelu(F.linear(x.transpose(1, 2), w, a)), u))
return x * 0.5 + torch.tanh(F.linear(y, v, b).transpose(-1, -2))
""",
    {"x": "2 128 130", "w": "129 128", "a": "129", "u": "131 129", "v": "128 131", "b": "128"},
)
EINSUMS = problem(
    """
y = torch.einsum("bcln,bcsn,bhcls,bcshp->bclhp", c, b, torch.exp(a), x)
z = torch.einsum("bcln, bhcl, bclhp -> bchpn", b, a[..., 0], x)
return torch.relu(y) + 1.0, torch.einsum("bcln,bchpn->bclhp", c, z)
""",
    {"c": "2 3 4 5", "b": "2 3 4 5", "a": "2 6 3 4 4", "x": "2 3 4 6 7"},
)

MODELS = {
    "mlp": MLP,
    "resnet": RESNET,
    "transformer": TRANSFORMER,
    "biased": BIASED,
    "chain": CHAIN,
    "shared": SHARED,
    "twice": TWICE,
    "integer": INTEGER,
    "two_outputs": TWO_OUTPUTS,
    "view": VIEW,
    "in_place": IN_PLACE,
    "no_gradient": NO_GRADIENT,
    "transposed": TRANSPOSED,
    "einsums": EINSUMS,
}


def module_of(source: str) -> Any:
    module = types.ModuleType("model")
    exec(compile(source, "model.py", "exec"), module.__dict__)
    return module


def inputs_of(known: Problem, seed: int = 1) -> list[torch.Tensor]:
    specs = list(known.inputs)
    return make_inputs(specs, {}, seed)


def traced(source: str) -> Traced:
    return traced_of(source, captured(source))


def captured(source: str) -> CaptureResult:
    known = parse_problem(source)
    reference = module_of(source).reference
    names = [spec.name for spec in known.inputs]
    raw = whole.trace(lambda given: reference(*given), inputs_of(known), names)
    return CaptureResult(graph_of(raw))


def graph_of(raw: RawGraph) -> Graph:
    nodes = tuple(
        Node(
            n.name,
            n.op,
            tuple(map(plain, n.args)),
            TensorMeta(n.shape, n.dtype),
            tuple((k, plain(v)) for k, v in n.kwargs),
        )
        for n in raw.nodes
    )
    return Graph(nodes, raw.inputs, raw.outputs, raw.upstream, raw.gradients, (), raw.tuple_output)


def plain(value: RawArg) -> Any:
    if isinstance(value, tuple):
        return tuple(map(plain, value))
    return NodeRef(value.name) if isinstance(value, Ref) else value


def results(call: Any, given: Sequence[torch.Tensor], wanted: Sequence[int]) -> list[torch.Tensor]:
    """The outputs, and the gradients of what is wanted."""
    leaves = [x.clone().requires_grad_(i in wanted) for i, x in enumerate(given)]
    found = call(*leaves)
    outputs = list(found) if isinstance(found, tuple) else [found]
    ends = [out for out in outputs if out.requires_grad]
    torch.manual_seed(0)
    upstream = [torch.randn_like(out) for out in ends]
    gradients = torch.autograd.grad(ends, [leaves[i] for i in wanted], upstream, allow_unused=True)
    return [*outputs, *(torch.zeros(()) if g is None else g for g in gradients)]
