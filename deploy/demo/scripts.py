"""What is played: who says what, what is approved with which words, and what the library's own checks are run on afterwards."""

from __future__ import annotations

from dataclasses import dataclass

REGLU = '''\
The gated unit with ReLU on the gate is missing beside GEGLU and SwiGLU.

```python
"""ReGLU: a gated unit with ReLU on the gate."""
import torch
import torch.nn.functional as F


def reference(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return F.relu(a) * b


INPUTS = {"a": "T I", "b": "T I"}
WORKLOADS = [{"T": 4096, "I": 14336}, {"T": 2048, "I": 11008}]
```
'''


@dataclass(frozen=True)
class Script:
    """One play. ``approvals`` are words by stage; ``encore`` is said on the pull request once the job has ended."""

    issue_title: str
    issue_body: str
    command: str
    approvals: dict[str, str]
    kernel_tests: str
    neighbours: tuple[str, ...]
    encore: str | None = None


SCRIPTS: dict[str, Script] = {
    "create": Script(
        "A fused ReGLU",
        REGLU,
        "/kernel create reglu",
        {
            "analyze": "That is the operation we want.",
            "generate": "Reads like the rest of the library.",
            "validate": "Thank you, this can go in.",
        },
        "test/transformers/test_reglu.py",
        ("test/transformers/test_relu_squared.py", "test/transformers/test_softmax.py"),
    ),
    "optimize": Script(
        "Is there anything left in softmax?",
        "Where does its time go, and can it be faster?",
        "/kernel optimize softmax --goal speed --variants 3",
        {
            "profile": "Go ahead.",
            "optimize": "Take it.",
            "finalize": "Thank you, this can go in.",
        },
        "test/transformers/test_softmax.py",
        ("test/transformers/test_relu_squared.py",),
        "/kernel bench",
    ),
}
