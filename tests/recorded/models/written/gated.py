"""A gated unit that stands in the library: a change of what it computes, and one that shall make it faster."""

from __future__ import annotations

from typing import Any

from tests.conversations.modifying import ADDED, SLOPE, change
from tests.workers.stages.library import PATH, SUITE

WORDS = "let the caller choose the slope of the gate, 1.702 by default"
SUMMARY = (
    "`LigerGELUMulFunction.apply(a, b, slope)` takes the slope of the gate; the default of 1.702 gives what it gave before. The "
    "gradient is of the same slope, and `slope` itself gets none."
)
SLOPED_PROBLEM = '''\
"""A gated unit with a sigmoid of any slope on the gate."""

import torch


def reference(a: torch.Tensor, b: torch.Tensor, slope: float = 1.702) -> torch.Tensor:
    return (a.float() * torch.sigmoid(slope * a.float())).to(b.dtype) * b


INPUTS = {"a": "T I", "b": "T I"}
WORKLOADS = [{"T": 4096, "I": 11008, "slope": 2.0}, {"T": 16, "I": 11008, "slope": 1.702}]
DTYPES = ["float32"]
CALL = "LigerGELUMulFunction.apply(a, b, slope)"
'''
SLOPED: tuple[tuple[str, str], ...] = SLOPE
INNER = ("dc * b * (gate * (1 + 1.702 * a * (1 - gate)))", "dc * b * (gate * (1 + slope * a * (1 - gate)))")
# The slope is forgotten where the gate itself is derived.
HALF = tuple(pair for pair in SLOPED if pair != INNER)


def sloped(edits: tuple[tuple[str, str], ...], **more: Any) -> dict[str, Any]:
    """Give a change with its tests and the problem as it is afterwards."""
    return change(PATH, edits, SUMMARY, suite=SUITE, tests=ADDED, problem=SLOPED_PROBLEM, **more)


def weakened() -> dict[str, Any]:
    """Give the right change, which also takes away from a test that stands."""
    right = sloped(SLOPED)
    weaker = {
        "path": SUITE,
        "old": "a, b = torch.randn(4, 8), torch.randn(4, 8)",
        "new": "a, b = torch.zeros(4, 8), torch.zeros(4, 8)",
    }
    return right | {"edits": [*right["edits"], weaker]}


def elsewhere() -> dict[str, Any]:
    """Give the right change, which also edits a file that it was not given."""
    right = sloped(SLOPED)
    other = {
        "path": "src/liger_kernel/ops/utils.py",
        "old": "import functools\n",
        "new": "import functools\nimport os\n",
    }
    return right | {"edits": [*right["edits"], other]}


REPAIR = change(PATH, (INNER,), SUMMARY)

DIAGNOSIS: dict[str, Any] = {
    "bottleneck": "Both kernels are bound by memory: a program walks one whole row in blocks of 1024 columns, so that at "
    "16 rows there are 16 programs for a whole GPU.",
    "evidence": [
        "A few operations an element against 3 (forward) or 5 (backward) elements through memory: far left of the ridge.",
        "The grid is (rows,), and the loop over 1024 columns runs one after the other in each program.",
        "Nothing is read twice, and only a and b are saved: there are no bytes to save.",
    ],
    "steps": [
        "Give the blocks of a row to a second axis of the grid: more programs, no loop.",
        "Several short rows a program below 1024 columns.",
        "Eight warps a program in backward, which holds five rows of values.",
    ],
}
LOOP = """\
    for start in range(0, n_cols, BLOCK_SIZE):
        offsets = start + tl.arange(0, BLOCK_SIZE)
        mask = offsets < n_cols
"""
FORWARD = """\
        a = tl.load(a_ptr + row + offsets, mask=mask, other=0).to(tl.float32)
        b = tl.load(b_ptr + row + offsets, mask=mask, other=0)
        tl.store(c_ptr + row + offsets, (a * tl.sigmoid(1.702 * a)).to(b.dtype) * b, mask=mask)
"""
BACKWARD = """\
        dc = tl.load(dc_ptr + row + offsets, mask=mask, other=0)
        a = tl.load(a_ptr + row + offsets, mask=mask, other=0).to(tl.float32)
        b = tl.load(b_ptr + row + offsets, mask=mask, other=0)
        gate = tl.sigmoid(1.702 * a)
        tl.store(da_ptr + row + offsets, dc * b * (gate * (1 + 1.702 * a * (1 - gate))).to(b.dtype), mask=mask)
        tl.store(db_ptr + row + offsets, dc * (a * gate).to(b.dtype), mask=mask)
"""
AT_ONCE = """\
    offsets = tl.program_id(1) * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    mask = offsets < n_cols
"""


def _unrolled(body: str) -> tuple[str, str]:
    return LOOP + body, AT_ONCE + body.replace("        ", "    ")


BLOCKS = (
    _unrolled(FORWARD),
    _unrolled(BACKWARD),
    ("_geglu_forward_kernel[(a.shape[0],)](", "_geglu_forward_kernel[(a.shape[0], triton.cdiv(n_cols, BLOCK_SIZE))]("),
    (
        "    _geglu_backward_kernel[(dc.shape[0],)](dc, a, b, da, db, a.stride(0), n_cols, BLOCK_SIZE=BLOCK_SIZE, num_warps=4)",
        "    _geglu_backward_kernel[(dc.shape[0], triton.cdiv(n_cols, BLOCK_SIZE))](\n"
        "        dc, a, b, da, db, a.stride(0), n_cols, BLOCK_SIZE=BLOCK_SIZE, num_warps=4\n"
        "    )",
    ),
)
VARIANT: dict[str, Any] = {
    "hypothesis": "A program that walks a whole row leaves most of the GPU idle where rows are few, and waits for each block.",
    "change": "The blocks of a row are programs on a second axis of the grid, in both kernels.",
    "expected": "5 to 15% in both passes at few rows, nothing at many; no other memory, and no guardrail in reach.",
    "edits": [{"path": PATH, "old": old, "new": new} for old, new in BLOCKS],
    "replies": [],
}
