"""Designs as an author would leave them, written out by hand, so that the layouts are tested alone."""

from __future__ import annotations

from gpu_runner.contracts import Expr, Graph, KernelNames, Node, NodeRef, TensorMeta, parse_problem
from workers.authors.protocol import KernelPlan, KernelSketch
from workers.layouts.protocol import Design

REGLU_PROBLEM = '''\
"""ReGLU: a gated unit with ReLU on the gate."""
import torch
import torch.nn.functional as F


def reference(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return F.relu(a) * b


INPUTS = {"a": "T I", "b": "T I"}
WORKLOADS = [{"T": 4096, "I": 14336}, {"T": 2048, "I": 11008}]
'''

RMS_PROBLEM = '''\
"""A row scaled by its root mean square, with a weight."""
import torch


def reference(x: torch.Tensor, weight: torch.Tensor, eps: float = 1e-6) -> torch.Tensor:
    wide = x.float()
    scale = torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + eps)
    return (wide * scale).to(x.dtype) * weight


INPUTS = {"x": "T H", "weight": {"dims": "H", "init": "ones", "role": "parameter"}}
WORKLOADS = [{"T": 4096, "H": 4096}]
'''

REGLU_SOURCE = """\
import torch
import triton
import triton.language as tl

from liger_kernel.ops.utils import calculate_settings
from liger_kernel.ops.utils import device_context
from liger_kernel.ops.utils import ensure_contiguous


@triton.jit
def _reglu_forward_kernel(out_ptr, a_ptr, b_ptr, n_cols, BLOCK_SIZE: tl.constexpr):
    # out = relu(a) * b
    row = tl.program_id(0).to(tl.int64)
    cols = tl.arange(0, BLOCK_SIZE)
    inside = cols < n_cols
    start = row * n_cols
    a = tl.load(a_ptr + start + cols, mask=inside, other=0.0).to(tl.float32)
    b = tl.load(b_ptr + start + cols, mask=inside, other=0.0).to(tl.float32)
    tl.store(out_ptr + start + cols, tl.maximum(a, 0.0) * b, mask=inside)


@triton.jit
def _reglu_backward_kernel(da_ptr, db_ptr, dout_ptr, a_ptr, b_ptr, n_cols, BLOCK_SIZE: tl.constexpr):
    # da = dout * b where a > 0, db = dout * relu(a)
    row = tl.program_id(0).to(tl.int64)
    cols = tl.arange(0, BLOCK_SIZE)
    inside = cols < n_cols
    start = row * n_cols
    dout = tl.load(dout_ptr + start + cols, mask=inside, other=0.0).to(tl.float32)
    a = tl.load(a_ptr + start + cols, mask=inside, other=0.0).to(tl.float32)
    b = tl.load(b_ptr + start + cols, mask=inside, other=0.0).to(tl.float32)
    tl.store(da_ptr + start + cols, tl.where(a > 0.0, dout * b, 0.0), mask=inside)
    tl.store(db_ptr + start + cols, dout * tl.maximum(a, 0.0), mask=inside)


def reglu_forward(a, b):
    n_cols = a.shape[-1]
    out = torch.empty_like(a)
    BLOCK_SIZE, num_warps = calculate_settings(n_cols)
    with device_context(a.device):
        _reglu_forward_kernel[(a.numel() // n_cols,)](out, a, b, n_cols, BLOCK_SIZE=BLOCK_SIZE, num_warps=num_warps)
    return out


def reglu_backward(dout, a, b):
    n_cols = a.shape[-1]
    da, db = torch.empty_like(a), torch.empty_like(b)
    BLOCK_SIZE, num_warps = calculate_settings(n_cols)
    with device_context(a.device):
        _reglu_backward_kernel[(a.numel() // n_cols,)](
            da, db, dout, a, b, n_cols, BLOCK_SIZE=BLOCK_SIZE, num_warps=num_warps
        )
    return da, db


class LigerReGLUFunction(torch.autograd.Function):
    @staticmethod
    @ensure_contiguous
    def forward(ctx, a, b):
        ctx.save_for_backward(a, b)
        return reglu_forward(a, b)

    @staticmethod
    @ensure_contiguous
    def backward(ctx, dout):
        a, b = ctx.saved_tensors
        return reglu_backward(dout, a, b)
"""

RMS_SOURCE = """\
import torch
import triton
import triton.language as tl

from liger_kernel.ops.utils import calculate_settings
from liger_kernel.ops.utils import ensure_contiguous


@triton.jit
def _rms_scale_forward_kernel(out_ptr, scale_ptr, x_ptr, weight_ptr, eps, n_cols, BLOCK_SIZE: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    cols = tl.arange(0, BLOCK_SIZE)
    inside = cols < n_cols
    x = tl.load(x_ptr + row * n_cols + cols, mask=inside, other=0.0)
    wide = x.to(tl.float32)
    weight = tl.load(weight_ptr + cols, mask=inside, other=0.0)
    scale = tl.rsqrt(tl.sum(wide * wide, axis=0) / n_cols + eps)
    tl.store(scale_ptr + row, scale)
    tl.store(out_ptr + row * n_cols + cols, (wide * scale).to(x.dtype) * weight, mask=inside)


@triton.jit
def _rms_scale_backward_kernel(
    dx_ptr, dweight_ptr, dout_ptr, x_ptr, weight_ptr, scale_ptr, n_cols, BLOCK_SIZE: tl.constexpr
):
    row = tl.program_id(0).to(tl.int64)
    cols = tl.arange(0, BLOCK_SIZE)
    inside = cols < n_cols
    dout = tl.load(dout_ptr + row * n_cols + cols, mask=inside, other=0.0).to(tl.float32)
    x = tl.load(x_ptr + row * n_cols + cols, mask=inside, other=0.0).to(tl.float32)
    weight = tl.load(weight_ptr + cols, mask=inside, other=0.0).to(tl.float32)
    scale = tl.load(scale_ptr + row)
    normed = x * scale
    inner = tl.sum(dout * weight * normed, axis=0) / n_cols
    tl.store(dx_ptr + row * n_cols + cols, (dout * weight - normed * inner) * scale, mask=inside)
    tl.store(dweight_ptr + row * n_cols + cols, dout * normed, mask=inside)


def rms_scale_forward(x, weight, eps):
    n_cols = x.shape[-1]
    n_rows = x.numel() // n_cols
    out = torch.empty_like(x)
    scale = torch.empty(n_rows, dtype=torch.float32, device=x.device)
    BLOCK_SIZE, num_warps = calculate_settings(n_cols)
    _rms_scale_forward_kernel[(n_rows,)](out, scale, x, weight, eps, n_cols, BLOCK_SIZE=BLOCK_SIZE, num_warps=num_warps)
    return out, scale


def rms_scale_backward(dout, x, weight, scale):
    n_cols = x.shape[-1]
    n_rows = x.numel() // n_cols
    dx = torch.empty_like(x)
    partial = torch.empty(n_rows, n_cols, dtype=torch.float32, device=x.device)
    BLOCK_SIZE, num_warps = calculate_settings(n_cols)
    _rms_scale_backward_kernel[(n_rows,)](
        dx, partial, dout, x, weight, scale, n_cols, BLOCK_SIZE=BLOCK_SIZE, num_warps=num_warps
    )
    return dx, partial.sum(dim=0).to(weight.dtype)


class LigerRMSScaleFunction(torch.autograd.Function):
    @staticmethod
    @ensure_contiguous
    def forward(ctx, x, weight, eps=1e-6):
        out, scale = rms_scale_forward(x, weight, eps)
        ctx.save_for_backward(x, weight, scale)
        return out

    @staticmethod
    @ensure_contiguous
    def backward(ctx, dout):
        x, weight, scale = ctx.saved_tensors
        dx, dweight = rms_scale_backward(dout, x, weight, scale)
        return dx, dweight, None
"""


def plan(tier: int = 1, formula: str = "out = relu(a) * b") -> KernelPlan:
    sketch = KernelSketch("_forward_kernel", "forward", "rows T, columns I", "one program per row")
    return KernelPlan(
        family="gated activation",
        tier=tier,
        kernels=(sketch,),
        forward_formula=formula,
        gradient_formulas=(("a", "da = dout * b where a > 0"), ("b", "db = dout * relu(a)")),
        saved_tensors=("a", "b"),
        recomputed="relu(a)",
        precision_sensitive_ops=(),
        grid_dimensions="1D",
        grid_description="one program per row",
        block_size_source="calculate_settings(n_cols)",
        needs_sm_parallelism=False,
        forward_bytes="3*T*I*E",
        backward_bytes="5*T*I*E",
        forward_flops="2*T*I",
        backward_flops="4*T*I",
    )


def node(name: str, op: str, *args: object, shape: tuple[str, ...], dtype: str = "float32") -> Node:
    return Node(name, op, tuple(args), TensorMeta(tuple(Expr(d) for d in shape), dtype))  # type: ignore[arg-type]


def reglu_graph() -> Graph:
    wide = ("T", "I")
    a, b, d, gate = (NodeRef(n) for n in ("a", "b", "d", "gate"))
    nodes = (
        node("a", "input", shape=wide),
        node("b", "input", shape=wide),
        node("gate", "relu", a, shape=wide),
        node("out", "mul", gate, b, shape=wide),
        node("d", "upstream", shape=wide),
        node("db", "mul", d, gate, shape=wide),
        node("dgate", "mul", d, b, shape=wide),
        node("open", "gt", a, 0, shape=wide, dtype="bool"),
        node("da", "where", NodeRef("open"), NodeRef("dgate"), 0.0, shape=wide),
    )
    return Graph(nodes, ("a", "b"), ("out",), ("d",), (("a", "da"), ("b", "db")))


def rms_graph() -> Graph:
    wide, row = ("T", "H"), ("T", "1")
    nodes = (
        node("x", "input", shape=wide),
        node("weight", "input", shape=("H",)),
        node("square", "mul", NodeRef("x"), NodeRef("x"), shape=wide),
        node("total", "sum", NodeRef("square"), (1,), True, shape=row),
        node("mean", "div", NodeRef("total"), Expr("H"), shape=row),
        node("moved", "add", NodeRef("mean"), Expr("eps"), shape=row),
        node("scale", "rsqrt", NodeRef("moved"), shape=row),
        node("normed", "mul", NodeRef("x"), NodeRef("scale"), shape=wide),
        node("out", "mul", NodeRef("normed"), NodeRef("weight"), shape=wide),
        node("d", "upstream", shape=wide),
        node("dx", "mul", NodeRef("d"), NodeRef("scale"), shape=wide),
        node("dproduct", "mul", NodeRef("d"), NodeRef("normed"), shape=wide),
        node("dweight", "sum", NodeRef("dproduct"), (0,), False, shape=("H",)),
    )
    return Graph(nodes, ("x", "weight"), ("out",), ("d",), (("x", "dx"), ("weight", "dweight")))


def reglu() -> Design:
    names = KernelNames("LigerReGLUFunction", "LigerReGLU", "liger_reglu")
    return Design("reglu", names, parse_problem(REGLU_PROBLEM), reglu_graph(), plan(), REGLU_SOURCE)


def rms_scale() -> Design:
    names = KernelNames("LigerRMSScaleFunction", "LigerRMSScale", "liger_rms_scale")
    formula = "out = x * rsqrt(mean(x^2) + eps) * weight"
    return Design("rms_scale", names, parse_problem(RMS_PROBLEM), rms_graph(), plan(2, formula), RMS_SOURCE)
