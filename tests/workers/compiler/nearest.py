"""What ``_nearest_tf32`` makes of float32 and bfloat16 in Triton's interpreter; its file is written beside the results."""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path

import torch

from workers.authors.compiler.schedules.product import NEAREST_TF32

KERNEL = """


@triton.jit
def kernel(x_ptr, y_ptr, N: tl.constexpr, PRECISION: tl.constexpr):
    places = tl.arange(0, N)
    tl.store(y_ptr + places, _nearest_tf32(tl.load(x_ptr + places), PRECISION))
"""


def main() -> None:
    """Round the numbers whose bits are given, and say the bits of the results."""
    cases, results = map(Path, sys.argv[1:3])
    (results.parent / "rounding.py").write_text(
        f"import triton\nimport triton.language as tl\n\n\n{NEAREST_TF32}{KERNEL}"
    )
    sys.path.insert(0, str(results.parent))
    kernel = importlib.import_module("rounding").kernel
    found = {}
    for name, (kind, precision, bits) in json.loads(cases.read_text()).items():
        whole = torch.int32 if kind == "float32" else torch.int16
        x = torch.tensor(bits, dtype=whole).view(getattr(torch, kind))
        y = torch.empty_like(x)
        kernel[(1,)](x, y, len(bits), precision)
        found[name] = y.view(whole).tolist()
    results.write_text(json.dumps(found))
