"""Problems of convolutions and pools drawn at random, in KernelBench form, each judged as those of tests/suite are.

``python -m tests.workers.compiler.windows_at_random FIRST COUNT RESULTS``: a JSON file with what each came to, by its number.
"""

from __future__ import annotations

import json
import random
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.workers.compiler import suited

TAILS = (
    "torch.relu(y)",
    "torch.tanh(y) * 2.0",
    "F.gelu(y)",
    "torch.clamp(y + self.shift, -1.0, 1.5)",
    "F.leaky_relu(y * self.shift, 0.1)",
    "F.hardswish(y) / 3.0",
    "torch.sigmoid(y) * y",
    "y - 0.5",
)
ENDS = (
    "y.mean(dim={dims})",
    "torch.softmax(y, dim=1)",
    "y.sum(dim=1, keepdim=True)",
    "torch.amax(y, dim=1)",
)


class Draw:
    """One problem, and the shape that its tensor has so far."""

    def __init__(self, number: int) -> None:
        self._random = random.Random(number)
        self.n = self._random.choice((1, 2, 2, 2, 3))
        self.batch, self.channels = self._pick(1, 2, 3), self._pick(1, 2, 3, 4, 6, 8, 18)
        self.sizes = [self._random.randint(4, {1: 40, 2: 14, 3: 7}[self.n]) for _ in range(self.n)]
        self.start = (self.batch, self.channels, *self.sizes)
        self.modules: list[str] = []
        self.lines: list[str] = []

    def _pick(self, *values: Any) -> Any:
        return self._random.choice(values)

    def _each(self, *values: int) -> list[int]:
        same = self._random.random() < 0.4
        drawn = [self._pick(*values) for _ in range(self.n)]
        return [drawn[0]] * self.n if same else drawn

    def _add(self, module: str) -> None:
        name = f"part_{len(self.modules)}"
        self.modules.append(f"self.{name} = {module}")
        self.lines.append(f"y = self.{name}(y)")

    def convolution(self) -> bool:
        """A convolution whose windows fit."""
        taps, stride, dilation = self._each(1, 2, 3, 3, 5), self._each(1, 1, 2, 3), self._each(1, 1, 1, 2)
        padding = [self._random.randint(0, d * (k - 1) // 2 + 1) for k, d in zip(taps, dilation, strict=True)]
        reach = [d * (k - 1) + 1 for k, d in zip(taps, dilation, strict=True)]
        if any(r > size + 2 * p for r, size, p in zip(reach, self.sizes, padding, strict=True)):
            return False
        out, groups = self._wide()
        bias = self._pick(True, True, False)
        self._add(
            f"nn.Conv{self.n}d({self.channels}, {out}, {tuple(taps)}, {tuple(stride)}, {tuple(padding)}, {tuple(dilation)}, "
            f"{groups}, {bias})"
        )
        geometry = zip(self.sizes, padding, reach, stride, strict=True)
        self.sizes, self.channels = [(size + 2 * p - r) // s + 1 for size, p, r, s in geometry], out
        return True

    def transposed(self) -> bool:
        """A transposed convolution whose result has elements."""
        taps, stride, dilation = self._each(1, 2, 3, 4), self._each(1, 1, 2, 3), self._each(1, 1, 1, 2)
        reach = [d * (k - 1) for k, d in zip(taps, dilation, strict=True)]
        padding = [self._random.randint(0, max(0, r // 2)) for r in reach]
        more = [self._random.randint(0, max(s, d) - 1) if s > 1 else 0 for s, d in zip(stride, dilation, strict=True)]
        more = [min(m, s - 1) for m, s in zip(more, stride, strict=True)]
        geometry = list(zip(self.sizes, padding, reach, stride, more, strict=True))
        sizes = [(size - 1) * s - 2 * p + r + m + 1 for size, p, r, s, m in geometry]
        if min(sizes) < 1 or max(sizes) > 40:
            return False
        out, groups = self._wide()
        self._add(
            f"nn.ConvTranspose{self.n}d({self.channels}, {out}, {tuple(taps)}, {tuple(stride)}, {tuple(padding)}, {tuple(more)}, "
            f"{groups}, {self._pick(True, False)}, {tuple(dilation)})"
        )
        self.sizes, self.channels = sizes, out
        return True

    def _wide(self) -> tuple[int, int]:
        groups = self._pick(*[g for g in (1, 1, 2, 3, self.channels) if self.channels % g == 0])
        return groups * self._pick(1, 2, 3, 5), groups

    def pool(self) -> bool:
        """A pool whose windows fit."""
        kind = self._pick("Max", "Max", "Avg", "Adaptive")
        if kind == "Adaptive":
            sizes = [self._pick(*[d for d in range(1, size + 1) if size % d == 0]) for size in self.sizes]
            self._add(f"nn.AdaptiveAvgPool{self.n}d({tuple(sizes) if self.n > 1 else sizes[0]})")
            self.sizes = sizes
            return True
        taps, stride = self._each(2, 2, 3), self._each(1, 2, 2, 3)
        dilation = self._each(1, 1, 2) if kind == "Max" else [1] * self.n
        padding = [self._random.randint(0, k // 2) for k in taps]
        reach = [d * (k - 1) + 1 for k, d in zip(taps, dilation, strict=True)]
        if any(r > size + 2 * p for r, size, p in zip(reach, self.sizes, padding, strict=True)):
            return False
        if kind == "Avg" and self.n == 3:
            return False  # torch has none in bfloat16 on the CPU
        ceiling = kind == "Max" and self._pick(True, False)
        more = f", dilation={tuple(dilation)}" if kind == "Max" else ""
        self._add(
            f"nn.{kind}Pool{self.n}d({tuple(taps)}, {tuple(stride)}, {tuple(padding)}{more}, ceil_mode={ceiling})"
        )
        sizes = []
        for size, p, r, s in zip(self.sizes, padding, reach, stride, strict=True):
            places = -(-(size + 2 * p - r) // s) + 1 if ceiling else (size + 2 * p - r) // s + 1
            sizes.append(places - (ceiling and (places - 1) * s >= size + p))
        self.sizes = sizes
        return True

    def tail(self) -> None:
        """One or two operators on each element."""
        for _ in range(self._pick(0, 1, 1, 2)):
            line = self._pick(*TAILS)
            if "shift" in line:
                name = f"shift_{len(self.modules)}"
                self.modules.append(f"self.{name} = nn.Parameter(torch.randn({self.channels}{', 1' * self.n}))")
                line = line.replace("shift", name)
            self.lines.append(f"y = {line}")

    def end(self) -> None:
        """A reduction, or none."""
        if self._random.random() < 0.3:
            dims = tuple(range(2, 2 + self.n))
            self.lines.append(f"y = {self._pick(*ENDS).format(dims=dims)}")

    def source(self) -> str:
        """The problem as a file."""
        done = 0
        while done < self._pick(1, 1, 2):
            done += self._pick(self.convolution, self.convolution, self.transposed, self.pool)()
            self.tail()
        self.end()
        modules = "\n        ".join(self.modules) or "pass"
        lines = "\n        ".join(self.lines)
        return (
            "import torch\nimport torch.nn as nn\nimport torch.nn.functional as F\n\n\nclass Model(nn.Module):\n"
            f"    def __init__(self):\n        super().__init__()\n        {modules}\n\n"
            f"    def forward(self, x):\n        y = x\n        {lines}\n        return y\n\n\n"
            f"def get_inputs():\n    return [torch.randn{self.start}]\n\n\ndef get_init_inputs():\n    return []\n"
        )


def judge_drawn(draw: Callable[[int], Any]) -> None:
    """Judge the problems that the command line numbers, each the source of a draw."""
    from gpu_runner.child.interpreter import teach_interpreter

    teach_interpreter()
    first, count = int(sys.argv[1]), int(sys.argv[2])
    suited.FOLDER = Path(tempfile.mkdtemp())
    results: dict[str, Any] = {}
    for number in range(first, first + count):
        (suited.FOLDER / f"at_random_{number}.py").write_text(draw(number).source())
        try:
            results[str(number)] = suited.judged(f"at_random_{number}")
        except Exception as error:
            results[str(number)] = {"complaints": [f"{type(error).__name__}: {error}"[:2000]]}
    Path(sys.argv[3]).write_text(json.dumps(results))


def main() -> None:
    """Judge some of them."""
    judge_drawn(Draw)


if __name__ == "__main__":
    main()
