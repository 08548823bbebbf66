"""Target libraries as small as they can be: one without conventions, and problems to ask for."""

from __future__ import annotations

from tests.workers.layouts import miniature
from tests.workers.layouts.standing import NORM
from tests.workers.stages import library

SCALE = '''\
"""Scaling of rows."""

import torch
import triton
import triton.language as tl


@triton.jit
def _scale_kernel(x_ptr, y_ptr, n, factor, BLOCK_SIZE: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    mask = offsets < n
    tl.store(y_ptr + offsets, tl.load(x_ptr + offsets, mask=mask) * factor, mask=mask)


def scale(x, factor):
    y = torch.empty_like(x)
    n = x.numel()
    _scale_kernel[(triton.cdiv(n, 256),)](x, y, n, factor, BLOCK_SIZE=256)
    return y
'''

PYPROJECT = """\
[project]
name = "small"
version = "1.0"

[tool.ruff]
line-length = 120
"""

REGLU = '''\
"""ReGLU: a gated unit with ReLU on the gate."""
import torch
import torch.nn.functional as F


def reference(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return F.relu(a) * b


INPUTS = {"a": "T I", "b": "T I"}
WORKLOADS = [{"T": 4096, "I": 14336}]
'''

SWIGLU = REGLU.replace("ReGLU", "SwiGLU").replace("with ReLU", "with SiLU").replace("relu", "silu")

STACK = '''\
"""A residual block of two layers, and a gated head."""

import torch
import torch.nn.functional as F
from torch import nn


class Stack(nn.Module):
    def __init__(self, width, hidden):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up = nn.Linear(width, hidden)
        self.down = nn.Linear(hidden, width)
        self.head = nn.Linear(width, 24)

    def forward(self, x):
        h = F.gelu(self.up(self.norm(x))) * 0.5
        return torch.sigmoid(self.head(x + F.relu(self.down(h)) * 2.0)) * 3.0


def get_inputs():
    return [torch.randn(6, 32)]


def get_init_inputs():
    return [32, 48]
'''
FUSED = f'{STACK}\n\nclass Model(Stack):\n    """The model that is fused."""\n'
# A model between whose products is an operator that the compiler refuses.
FLIPPED = '''\
"""Two layers, the columns between them in the opposite order."""

import torch
import torch.nn.functional as F
from torch import nn


class Model(nn.Module):
    def __init__(self, width, hidden):
        super().__init__()
        self.up = nn.Linear(width, hidden)
        self.down = nn.Linear(hidden, 24)

    def forward(self, x):
        h = torch.flip(F.relu(self.up(x)) * 2.0, [1])
        return torch.sigmoid(self.down(h)) * 3.0


def get_inputs():
    return [torch.randn(6, 32)]


def get_init_inputs():
    return [32, 48]
'''

PLAIN: dict[str, bytes] = {
    "README.md": b"# A small library\n",
    "pyproject.toml": PYPROJECT.encode(),
    "small/__init__.py": b"",
    "small/kernels/__init__.py": b"",
    "small/kernels/scale.py": SCALE.encode(),
    "tests/test_scale.py": b"def test_nothing():\n    assert True\n",
    "problems/reglu.py": REGLU.encode(),
}

LIGER: dict[str, bytes] = {path: text.encode() for path, text in miniature.files().items()}

# With a kernel that there is something to gain on, and a norm that says in a file of its own how it is called.
STANDING: dict[str, bytes] = {path: text.encode() for path, text in library.files().items()}
STANDING |= {".kernelsmith/problems/rms_norm.py": NORM.encode()}


def create(name: str, problem: str, options: str = "") -> str:
    """Give the comment that asks for a kernel."""
    return f"/kernel create {name} {options}".rstrip() + f"\n\n```python\n{problem}```\n"


def fuse(model: str, options: str = "") -> str:
    """Give the comment that asks to fuse a model."""
    return f"/kernel fuse {options}".rstrip() + f"\n\n```python\n{model}```\n"
