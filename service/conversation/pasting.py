"""What a person pastes so that a kernel can be written: a problem that works as it stands. Pure."""

from __future__ import annotations

EXAMPLE_PROBLEM = '''"""ReGLU: a gated unit with ReLU on the gate."""
import torch
import torch.nn.functional as F


def reference(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return F.relu(a) * b


INPUTS = {"a": "T I", "b": "T I"}
WORKLOADS = [{"T": 4096, "I": 14336}, {"T": 2048, "I": 11008}]
'''
EXPLANATION = (
    "`reference` computes in plain PyTorch what the kernel should; `INPUTS` names each tensor's dimensions, outermost first; "
    "`WORKLOADS` gives the sizes to measure. A KernelBench file (`class Model`, `get_inputs()`, `get_init_inputs()`) works too, "
    "and so does `from PATH` for a file of this repository."
)


def paste_this(name: str) -> str:
    """Give a whole comment to copy, for a kernel whose name was checked."""
    return f"````markdown\n/kernel create {name}\n```python\n{EXAMPLE_PROBLEM}```\n````\n\n{EXPLANATION}"
