"""Each operation of Triton's language over bfloat16 in the interpreter, against torch in bfloat16 or in float32 and rounded."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from gpu_runner.buffers import Buffer
from gpu_runner.contracts import Limits
from gpu_runner.messages import CallMain
from gpu_runner.session import ChildSession, has_gpu

pytestmark = pytest.mark.skipif(has_gpu(), reason="on a GPU nothing is interpreted")

COUNT = 64
NAN, INF = float("nan"), float("inf")

# Name: kernel expression over the blocks a, b, c; what torch gives over a, b, c of the same name; dtype of the result.
POINTWISE: dict[str, tuple[str, str, str]] = {
    **{
        f"{word} {kind}": (f"(a {sign} b).to(tl.{kind})", f"(a {sign} b)", kind)
        for word, sign in (
            ("less", "<"), ("less or equal", "<="), ("greater", ">"), ("greater or equal", ">="),
            ("equal", "=="), ("unequal", "!="),
        )
        for kind in ("float32", "bfloat16", "int32", "int8", "float16", "int64")
    },
    "compared and stored": ("a < b", "a < b", "int8"),
    "compared with a constant": ("(a > 0.5).to(tl.float32)", "a > 0.5", "float32"),
    "compared with zero": ("(a == 0).to(tl.int32)", "a == 0", "int32"),
    "compared, times": ("(a < b) * c", "(a < b) * c", "bfloat16"),
    "compared, times float32": ("(a < b).to(tl.float32) * c.to(tl.float32)", "(a < b).float() * c.float()", "float32"),
    "both": ("((a < b) & (b < c)).to(tl.float32)", "(a < b) & (b < c)", "float32"),
    "either": ("((a < b) | (b < c)).to(tl.float32)", "(a < b) | (b < c)", "float32"),
    "one alone": ("((a < b) ^ (b < c)).to(tl.int32)", "(a < b) ^ (b < c)", "int32"),
    "not": ("(~(a < b)).to(tl.int32)", "~(a < b)", "int32"),
    "compared twice": ("((a < b) == (b < c)).to(tl.int32)", "(a < b) == (b < c)", "int32"),
    "where": ("tl.where(a < b, b, c)", "torch.where(a < b, b, c)", "bfloat16"),
    "where not": ("tl.where(a != b, b, 1.5)", "torch.where(a != b, b, 1.5)", "bfloat16"),
    "where of a sum": ("tl.where((a < b).to(tl.int32) + (b < c).to(tl.int32) > 1, a, c)",
                       "torch.where((a < b) & (b < c), a, c)", "bfloat16"),
    "add": ("a + b", "a + b", "bfloat16"),
    "subtract": ("a - b", "a - b", "bfloat16"),
    "multiply": ("a * b", "a * b", "bfloat16"),
    "divide": ("a / b", "a / b", "bfloat16"),
    "remainder": ("a % 3.0", "torch.fmod(a.float(), 3.0).bfloat16()", "bfloat16"),
    "negate": ("-a", "0 - a", "bfloat16"),
    "absolute": ("tl.abs(a)", "a.abs()", "bfloat16"),
    "float constant": ("a * 1.703125", "a * torch.tensor(1.703125, dtype=torch.bfloat16)", "bfloat16"),
    "constant that is rounded": ("a * 0.1", "a * torch.tensor(0.1, dtype=torch.bfloat16)", "bfloat16"),
    "constant first": ("1 - a", "1 - a", "bfloat16"),
    "whole constant": ("a + 257", "a + torch.tensor(257.0, dtype=torch.bfloat16)", "bfloat16"),
    "block of a constant": ("a + tl.full((64,), 1.5, tl.bfloat16)", "a + 1.5", "bfloat16"),
    "block of zeros": ("a + tl.zeros((64,), tl.bfloat16)", "a + 0", "bfloat16"),
    "maximum": ("tl.maximum(tl.where(a == a, a, 0.0), tl.where(b == b, b, 0.0))",
                "torch.maximum(a.nan_to_num(0, INF, -INF), b.nan_to_num(0, INF, -INF)).float()", "float32"),
    "minimum": ("tl.minimum(tl.where(a == a, a, 0.0), tl.where(b == b, b, 0.0))",
                "torch.minimum(a.nan_to_num(0, INF, -INF), b.nan_to_num(0, INF, -INF)).float()", "float32"),
    "clamp": ("tl.clamp(tl.where(a == a, a, 0.0), -0.5, 0.75)",
              "a.nan_to_num(0, INF, -INF).clamp(-0.5, 0.75).float()", "float32"),
    "fused": ("tl.fma(a, b, c)", "(a.double() * b.double() + c.double()).float().bfloat16()", "bfloat16"),
    "mixed with float32": ("a + c.to(tl.float32)", "a.float() + c.float()", "float32"),
    "mixed with float16": ("a.to(tl.float16).to(tl.bfloat16)", "a.half().bfloat16()", "bfloat16"),
    "mixed with int": ("a * tl.arange(0, 64)", "a * torch.arange(64)", "bfloat16"),
    "to float64": ("a.to(tl.float64)", "a.double()", "float64"),
    "from float64": ("(a.to(tl.float64) * 1.00390625).to(tl.bfloat16)", "(a.double() * 1.00390625).bfloat16()", "bfloat16"),
    "to int": ("tl.where(tl.abs(a) < 1000, a, 0.0).to(tl.int32)", "torch.where(a.abs() < 1000, a, 0.0).int()", "int32"),
    "from int": ("(tl.arange(0, 64) * 1021).to(tl.bfloat16)", "(torch.arange(64) * 1021).bfloat16()", "bfloat16"),
    "from bool": ("(tl.arange(0, 64) > 7).to(tl.bfloat16)", "(torch.arange(64) > 7).bfloat16()", "bfloat16"),
    "to bool": ("a.to(tl.int1).to(tl.float32)", "a.bool()", "float32"),
    "rounded to the nearest": ("(a.to(tl.float32) * 1.001).to(tl.bfloat16)", "(a.float() * 1.001).bfloat16()", "bfloat16"),
    "rounded to zero": ("(c.to(tl.float32) * 1.001).to(tl.bfloat16, fp_downcast_rounding='rtz')",
                        "((c.float() * 1.001).view(torch.int32) & -65536).view(torch.float32).bfloat16()", "bfloat16"),
    "bits": ("a.to(tl.int16, bitcast=True)", "a.view(torch.int16)", "int16"),
    "from bits": ("(a.to(tl.int16, bitcast=True) & 0x7fff).to(tl.bfloat16, bitcast=True)", "a.abs()", "bfloat16"),
    "float8 e5m2 and back": (
        "c.to(tl.float8e5).to(tl.bfloat16)",
        "c.clamp(-57344, 57344).to(torch.float8_e5m2).bfloat16()",
        "bfloat16",
    ),
    "float8 e4m3 and back": (
        "c.to(tl.float8e4nv).to(tl.bfloat16)",
        "c.clamp(-448, 448).to(torch.float8_e4m3fn).bfloat16()",
        "bfloat16",
    ),
    "float8 of float32": (
        "c.to(tl.float32).to(tl.float8e4nv).to(tl.float32)",
        "c.clamp(-448, 448).to(torch.float8_e4m3fn).float()",
        "float32",
    ),
    "cumulative sum": ("tl.cumsum(c, 0)", "c.float().cumsum(0)", "float32"),
    "cumulative product": (
        "tl.cumprod(tl.where(tl.abs(c) < 3, c, 1.0), 0)",
        "torch.where(c.abs() < 3, c, 1.0).float().cumprod(0)",
        "float32",
    ),
    "reversed sum": ("tl.cumsum(c, 0, reverse=True)", "c.float().flip(0).cumsum(0).flip(0)", "float32"),
    "scan of the maximum": ("tl.associative_scan(c, 0, larger)", "c.cummax(0).values", "bfloat16"),
    "scan that rounds": ("tl.associative_scan(c, 0, total)", "rounded_scan(c)", "bfloat16"),
    "scan of a select": ("tl.associative_scan(c, 0, chosen)", "c.cummin(0).values", "bfloat16"),
    "sort": ("tl.sort(c)", "c.sort().values", "bfloat16"),
    "sort downwards": ("tl.sort(c, descending=True)", "c.sort(descending=True).values", "bfloat16"),
    "flip": ("tl.flip(a, 0)", "a.flip(0)", "bfloat16"),
    "gather": ("tl.gather(a, (tl.arange(0, 64) * 7) % 64, 0)", "a[(torch.arange(64) * 7) % 64]", "bfloat16"),
    "joined and split": ("tl.split(tl.join(a, b))[1]", "b", "bfloat16"),
    "interleaved": ("tl.reshape(tl.trans(tl.reshape(a, (8, 8))), (64,))", "a.reshape(8, 8).t().reshape(64)", "bfloat16"),
    "product": (
        "tl.broadcast_to(tl.reshape(tl.dot(tl.reshape(c, (1, 64)), tl.reshape(c, (64, 1))), (1,)), (64,))",
        "(c.reshape(1, 64).float() @ c.reshape(64, 1).float()).expand(1, 64).reshape(64)",
        "float32",
    ),
    "product in bfloat16": (
        "tl.broadcast_to(tl.reshape(tl.dot(tl.reshape(c, (1, 64)), tl.reshape(c, (64, 1))).to(tl.bfloat16), (1,)), (64,))",
        "(c.reshape(1, 64).float() @ c.reshape(64, 1).float()).bfloat16().expand(1, 64).reshape(64)",
        "bfloat16",
    ),
    "random": ("tl.rand(3, tl.arange(0, 64)).to(tl.bfloat16) < a", "drawn < a", "int8"),
    "load of what is not there": (
        "tl.load(x + at, mask=at < 7, other=1.5)",
        "torch.where(torch.arange(64) < 7, a, 1.5)",
        "bfloat16",
    ),
    "load of a compared mask": ("tl.load(x + at, mask=b < c, other=0.0)", "torch.where(b < c, a, 0.0)", "bfloat16"),
    "sum": ("tl.sum(c, 0) + tl.zeros((64,), tl.float32)", "rounded_sum(c).float().expand(64)", "float32"),
    "largest": ("tl.max(c, 0) + tl.zeros((64,), tl.float32)", "c.float().max().expand(64)", "float32"),
    "smallest": ("tl.min(c, 0) + tl.zeros((64,), tl.float32)", "c.float().min().expand(64)", "float32"),
    "place of the largest": ("tl.argmax(c, 0) + tl.zeros((64,), tl.int32)", "c.argmax().int().expand(64)", "int32"),
    "place of the smallest": ("tl.argmin(c, 0) + tl.zeros((64,), tl.int32)", "c.argmin().int().expand(64)", "int32"),
    "largest with its place": (
        "tl.max(c, 0, return_indices=True)[1] + tl.zeros((64,), tl.int32)",
        "c.argmax().int().expand(64)",
        "int32",
    ),
    "reduced by the maximum": ("tl.reduce(c, 0, larger) + tl.zeros((64,), tl.bfloat16)", "c.max().expand(64)", "bfloat16"),
    "reduced by a select": ("tl.reduce(c, 0, chosen) + tl.zeros((64,), tl.bfloat16)", "c.min().expand(64)", "bfloat16"),
    "reduced and rounded": ("tl.reduce(c, 0, total) + tl.zeros((64,), tl.bfloat16)", "rounded_sum(c).expand(64)", "bfloat16"),
    "count of a comparison": (
        "tl.sum((a < b).to(tl.int32), 0) + tl.zeros((64,), tl.int32)",
        "(a < b).sum().int().expand(64)",
        "int32",
    ),
    "any of a comparison": (
        "tl.max((a < b).to(tl.int32), 0) + tl.zeros((64,), tl.int32)",
        "(a < b).any().int().expand(64)",
        "int32",
    ),
    "a helper that compares": ("is_smaller(a, b)", "(a < b).float()", "float32"),
    "a helper that chooses": ("chosen(a, b)", "torch.where(a < b, a, b)", "bfloat16"),
    "scalar argument": ("a * s", "a.float() * 0.3", "float32"),
    "block pointer padded by NaN": (
        "tl.load(tl.make_block_ptr(x, (60,), (1,), (0,), (64,), (0,)), boundary_check=(0,), padding_option='nan')",
        "torch.where(torch.arange(64) < 60, a, NAN)", "bfloat16"),
    "block pointer padded by zero": (
        "tl.load(tl.make_block_ptr(x, (60,), (1,), (0,), (64,), (0,)), boundary_check=(0,), padding_option='zero')",
        "torch.where(torch.arange(64) < 60, a, 0.0)", "bfloat16"),
    "descriptor padded by NaN": (
        "tl.make_tensor_descriptor(x, (60,), (1,), (64,), padding_option='nan').load([0])",
        "torch.where(torch.arange(64) < 60, a, NAN)", "bfloat16"),
}  # fmt: skip
# Name: a statement that changes the memory at o, which holds b before; what is there afterwards.
ATOMIC: dict[str, tuple[str, str]] = {
    "added": ("tl.atomic_add(o + at, c)", "b + c"),
    "added by a mask": ("tl.atomic_add(o + at, c, mask=a < c)", "torch.where(a < c, b + c, b)"),
    "swapped where equal": ("tl.atomic_cas(o + at, b, c)", "c"),
    "stored by a descriptor of whole 16 bytes": (
        "tl.make_tensor_descriptor(o, (48,), (1,), (64,)).store([0], a)", "torch.where(torch.arange(64) < 48, a, b)"),
    "stored by a descriptor that ends within 16 bytes": (
        "tl.make_tensor_descriptor(o, (50,), (1,), (64,)).store([0], a)", "torch.where(torch.arange(64) < 56, a, b)"),
    "stored by a descriptor into the last of its blocks": (
        "tl.make_tensor_descriptor(o, (50,), (1,), (32,)).store([32], tl.full((32,), 1, tl.bfloat16))",
        "torch.where((torch.arange(64) >= 32) & (torch.arange(64) < 56), torch.ones_like(b), b)"),
}  # fmt: skip

HEAD = """import torch
import triton
import triton.language as tl
from gpu_runner.child.interpreter import teach_interpreter


@triton.jit
def larger(p, q):
    return tl.where(p > q, p, q)


@triton.jit
def chosen(p, q):
    return tl.where(p < q, p, q)


@triton.jit
def total(p, q):
    return p + q


@triton.jit
def is_smaller(p, q):
    return (p < q).to(tl.float32)
"""
KERNEL = """

@triton.jit
def kernel_{number}(x, y, z, o, s, N: tl.constexpr):
    at = tl.arange(0, N)
    a, b, c = tl.load(x + at), tl.load(y + at), tl.load(z + at)
    {statement}
"""
MAIN = """

def main(state, tensors):
    teach_interpreter()
    failed, given = {}, []
    for name, number, dtype in TABLE:
        x, y, z = (tensor.clone() for tensor in tensors)
        o = y.clone() if dtype == "atomic" else torch.zeros(64, dtype=getattr(torch, dtype))
        try:
            globals()[f"kernel_{number}"][(1,)](x, y, z, o, 0.3, N=64)
        except Exception as error:
            failed[name] = f"{type(error).__name__}: {error} {error.__cause__}"[:500]
        given.append(o)
    return {"failed": failed}, given
"""


def inputs() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    stream = torch.Generator().manual_seed(5)
    a, b, c = (torch.randn(COUNT, generator=stream) * 2 for _ in range(3))
    a[:12] = torch.tensor([0.0, -0.0, 1.0, -1.0, NAN, INF, -INF, 3e38, 1e-39, 100.0, 0.5, -3.0])
    b[:12] = torch.tensor([-0.0, 0.0, 1.0, 1.0, 1.0, INF, INF, 3e38, -1e-39, NAN, 0.25, -2.0])
    b[20:30] = a[20:30]
    c[3], c[9], c[40] = 1000.0, -700.0, 1e-6
    return a.bfloat16(), b.bfloat16(), c.bfloat16()


def rounded_scan(c: torch.Tensor) -> torch.Tensor:
    """A running sum by doubling, of which every step is rounded to bfloat16, as each call of a combine function gives it."""
    found, step = c, 1
    while step < len(c):
        found = torch.cat([found[:step], found[:-step] + found[step:]])
        step *= 2
    return found


def rounded_sum(c: torch.Tensor) -> torch.Tensor:
    """A sum of neighbours, of their sums, and so on, each rounded to bfloat16."""
    while len(c) > 1:
        c = c[::2] + c[1::2]
    return c


@pytest.fixture(scope="module")
def results() -> Iterator[dict[str, torch.Tensor | str]]:
    table = [(name, row[2]) for name, row in POINTWISE.items()] + [(name, "atomic") for name in ATOMIC]
    statements = [f"tl.store(o + at, {row[0]})" for row in POINTWISE.values()] + [row[0] for row in ATOMIC.values()]
    statements += ["tl.store(o + at, tl.rand(3, at))"]
    rows = [(name, number, dtype) for number, (name, dtype) in enumerate([*table, ("drawn", "float32")])]
    source = HEAD + "".join(KERNEL.format(number=n, statement=text) for n, text in enumerate(statements))
    source += f"\n\nTABLE = {rows!r}\n" + MAIN
    with ChildSession("echo", Limits(time_s=300, step_s=200), gpu=False, files={"thing.py": source}) as session:
        reply = session.call(CallMain("thing"), [Buffer.from_torch(tensor) for tensor in inputs()])
    found: dict[str, torch.Tensor | str] = {
        row[0]: buffer.to_torch() for row, buffer in zip(rows, reply.tensors, strict=True)
    }
    yield found | reply.message["failed"]


def expected(text: str, results: dict[str, torch.Tensor | str]) -> torch.Tensor:
    a, b, c = inputs()
    names = {
        "a": a,
        "b": b,
        "c": c,
        "torch": torch,
        "NAN": NAN,
        "INF": INF,
        "rounded_scan": rounded_scan,
        "rounded_sum": rounded_sum,
    }
    drawn = results["drawn"]
    assert isinstance(drawn, torch.Tensor)
    found: torch.Tensor = eval(text, names | {"drawn": drawn.bfloat16()})
    return found


@pytest.mark.parametrize("name", POINTWISE)
def test_an_operation_over_bfloat16_is_torchs(name: str, results: dict[str, torch.Tensor | str]) -> None:
    _, text, dtype = POINTWISE[name]
    got, want = results[name], expected(text, results).to(getattr(torch, dtype))
    assert isinstance(got, torch.Tensor), got
    # Where a sum is taken in another order, float32 may differ in its last bits.
    tolerance = 1e-5 if dtype == "float32" and ("cum" in text or "sum" in text or "@" in text) else 0.0
    torch.testing.assert_close(got, want, rtol=tolerance, atol=tolerance, equal_nan=True)


@pytest.mark.parametrize("name", ATOMIC)
def test_an_atomic_operation_over_bfloat16_is_torchs(name: str, results: dict[str, torch.Tensor | str]) -> None:
    got = results[name]
    assert isinstance(got, torch.Tensor), got
    torch.testing.assert_close(got, expected(ATOMIC[name][1], results), rtol=0, atol=0, equal_nan=True)
