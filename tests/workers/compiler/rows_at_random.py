"""Problems of element-wise operators, reductions, parts, views and products drawn at random, in KernelBench form, each judged as
those of tests/suite are.

``python -m tests.workers.compiler.rows_at_random FIRST COUNT RESULTS``: a JSON file with what each came to, by its number.
"""

from __future__ import annotations

import math
import random
import re
from typing import Any

from tests.workers.compiler.windows_at_random import judge_drawn

UNARY = (
    "torch.tanh({x})",
    "torch.sigmoid({x})",
    "F.gelu({x})",
    "F.silu({x})",
    "{x} * {x}",
    "torch.exp(-{x} * {x})",
    "torch.sqrt({x} * {x} + 1.0)",
    "F.softplus({x})",
    "1.5 * {x} - 0.25",
    "torch.relu({x})",
    "torch.clamp({x}, -1.0, 1.5)",
    "torch.where({x} > 0.3, {x}, 0.1 * {x})",
    "F.hardswish({x})",
    "F.elu({x}, 0.7)",
    "F.leaky_relu({x}, 0.2)",
    "torch.log1p({x}.abs())",
    "torch.sin({x}) + torch.erf({x})",
    "({x} * 0.5) ** 3",
    "1.0 - {x}",
    "F.mish({x})",
)
BINARY = (
    "{x} + {y}",
    "{x} - {y}",
    "{x} * {y}",
    "{x} / (1.0 + {y} * {y})",
    "torch.maximum({x}, {y})",
    "torch.lerp({x}, {y}, 0.3)",
    "torch.where({y} > 0, {x}, {y})",
)
SUMS = ("{x}.sum(dim={dims}, keepdim={keep})", "{x}.mean(dim={dims}, keepdim={keep})")
REDUCTIONS = (
    *SUMS,
    "torch.amax({x}, dim={dims}, keepdim={keep})",
    "torch.logsumexp({x}, dim={dims}, keepdim={keep})",
    "{x}.var(dim={dims}, keepdim={keep}, unbiased=False)",
    "torch.linalg.vector_norm({x}, dim={dims}, keepdim={keep})",
    "torch.amin({x}, dim={dims}, keepdim={keep})",
    "{x}.std(dim={dims}, keepdim={keep})",
    "{x}.abs().sum(dim={dims}, keepdim={keep})",
)
ALONG = (
    "torch.softmax({x}, dim={dim})",
    "torch.log_softmax({x}, dim={dim})",
    "torch.cumsum({x}, dim={dim})",
    "F.normalize({x}, dim={dim})",
)

Shape = tuple[int, ...]


class Draw:
    """One problem: lines that compute values, of which each has a name and a shape."""

    def __init__(self, number: int) -> None:
        self._random = random.Random(number)
        rank = self._pick(2, 2, 3, 3, 4)
        self.shape = tuple(self._random.sample((2, 3, 4, 5, 6, 8, 10, 12, 14, 16), rank))
        self.values: dict[str, Shape] = {}
        self.inputs: list[str] = []
        self.parameters: list[str] = []
        self.lines: list[str] = []
        for _ in range(self._pick(1, 1, 2)):
            self._input(self.shape)

    def _pick(self, *values: Any) -> Any:
        return self._random.choice(values)

    def _input(self, shape: Shape) -> str:
        name = f"x{len(self.inputs)}"
        self.inputs.append(f"torch.randn{self._tuple(shape)}")
        self.values[name] = shape
        return name

    @staticmethod
    def _tuple(shape: Shape) -> str:
        return f"({', '.join(map(str, shape))}{',' if len(shape) == 1 else ''})"

    def _let(self, text: str, shape: Shape) -> str:
        name = f"v{len(self.lines)}"
        self.lines.append(f"{name} = {text}")
        self.values[name] = shape
        return name

    def _value(self) -> str:
        """A value, more likely one of the last."""
        names = list(self.values)
        return str(self._pick(*names, *names[-2:], names[-1]))

    def _other(self, shape: Shape) -> str:
        """What has some of the dimensions: a value, a parameter or an input."""
        fitting = [name for name, own in self.values.items() if _broadcast(own, shape) == shape]
        if fitting and self._random.random() < 0.5:
            return str(self._pick(*fitting))
        own = tuple(size if self._random.random() < 0.6 else 1 for size in shape)
        while own[:1] == (1,) and len(own) > 1 and self._random.random() < 0.7:
            own = own[1:]
        if self._random.random() < 0.3:
            return self._input(own)
        name = f"p{len(self.parameters)}"
        self.parameters.append(f"{name} = nn.Parameter(torch.randn{self._tuple(own)})")
        self.values[f"self.{name}"] = own
        return f"self.{name}"

    def unary(self) -> None:
        """An operator on each element."""
        x = self._value()
        self._let(self._pick(*UNARY).format(x=x), self.values[x])

    def binary(self) -> None:
        """An operator on two values, of which one may be broadcast."""
        x = self._value()
        y = self._other(self.values[x])
        text = self._pick(*BINARY)
        pair = (x, y) if self._random.random() < 0.7 else (y, x)
        self._let(text.format(x=pair[0], y=pair[1]), self.values[x])

    def reduction(self) -> None:
        """A reduction over some dimensions."""
        x = self._value()
        shape = self.values[x]
        dims = tuple(sorted(self._random.sample(range(len(shape)), self._random.randint(1, len(shape)))))
        if math.prod(shape[dim] for dim in dims) < 2:
            return
        keep = self._random.random() < 0.7 or len(dims) == len(shape)
        rest = tuple(1 if dim in dims else size for dim, size in enumerate(shape))
        if not keep:
            rest = tuple(size for dim, size in enumerate(shape) if dim not in dims)
        self._let(self._pick(*REDUCTIONS).format(x=x, dims=self._tuple(dims), keep=keep), rest)

    def along(self) -> None:
        """An operator along one dimension."""
        x = self._value()
        dim = self._pick(-1, -1, *range(len(self.values[x])))
        if self.values[x][dim] == 1:
            return  # what is one by definition has no gradient but rounding
        self._let(self._pick(*ALONG).format(x=x, dim=dim), self.values[x])

    def parts(self) -> None:
        """Halves of a dimension, each on its own, or turned and put together again."""
        x = self._value()
        shape = self.values[x]
        dim = self._pick(len(shape) - 1, len(shape) - 1, *range(len(shape)))
        if shape[dim] % 2 or shape[dim] < 4:
            return
        half = (*shape[:dim], shape[dim] // 2, *shape[dim + 1 :])
        if self._random.random() < 0.5:
            left, right = self._let(f"{x}.chunk(2, dim={dim})[0]", half), self._let(f"{x}.chunk(2, dim={dim})[1]", half)
        else:
            every, n = ":, " * dim, half[dim]
            left, right = self._let(f"{x}[{every}:{n}]", half), self._let(f"{x}[{every}{n}:]", half)
        if self._random.random() < 0.6:
            self._let(f"torch.cat((-{right}, {left}), dim={dim})", shape)
        else:
            self._let(f"{left} * torch.sigmoid({right})", half)

    def view(self) -> None:
        """Another order of dimensions, or two of them as one."""
        x = self._value()
        shape = self.values[x]
        if len(shape) < 2:
            return
        first, second = sorted(self._random.sample(range(len(shape)), 2))
        if self._random.random() < 0.5:
            turned = list(shape)
            turned[first], turned[second] = shape[second], shape[first]
            self._let(f"{x}.transpose({first}, {second})", tuple(turned))
        else:
            merged = (*shape[:first], shape[first] * shape[first + 1], *shape[first + 2 :])
            self._let(f"{x}.flatten({first}, {first + 1})", merged)

    def norm(self) -> None:
        """A norm over the last dimensions, with a weight or without."""
        x = self._value()
        shape = self.values[x][-self._pick(1, 1, 2) :]
        if math.prod(shape) < 3:
            return
        weight = ""
        if self._random.random() < 0.5:
            weight = f"p{len(self.parameters)}"
            self.parameters.append(f"{weight} = nn.Parameter(torch.randn{self._tuple(shape)})")
            self.values[f"self.{weight}"] = shape
            weight = f", self.{weight}"
        self._let(f"F.{self._pick('layer', 'rms')}_norm({x}, {self._tuple(shape)}{weight})", self.values[x])

    def mask(self) -> None:
        """What lies on one side of the diagonal, or repeated rows."""
        x = self._value()
        shape = self.values[x]
        if len(shape) < 2:
            return
        if self._random.random() < 0.5:
            self._let(f"torch.tril({x}, {self._pick(-1, 0, 1)})", shape)
        else:
            dim = self._random.randrange(len(shape))
            repeated = (*shape[:dim], 2 * shape[dim], *shape[dim + 1 :])
            self._let(f"{x}.repeat_interleave(2, dim={dim})", repeated)

    def product(self) -> None:
        """A product with a matrix of parameters."""
        x = self._value()
        shape = self.values[x]
        if len(shape) < 2 or shape[-1] < 2:
            return
        name, width = f"p{len(self.parameters)}", self._pick(3, 8, 20)
        self.parameters.append(f"{name} = nn.Parameter(torch.randn({shape[-1]}, {width}) / {shape[-1] ** 0.5:.3f})")
        self._let(f"{x} @ self.{name}", (*shape[:-1], width))

    def source(self) -> str:
        """The problem as a file."""
        often = (self.unary, self.unary, self.binary, self.binary, self.binary, self.reduction, self.along)
        steps = (
            *often,
            self.parts,
            self.view,
            self.norm,
            self.mask,
            *([self.product] if self._random.random() < 0.3 else []),
        )
        wanted = self._random.randint(2, 7)
        while len(self.lines) < wanted:
            self._pick(*steps)()
        last = list(self.values)[-1]
        results = [last]
        if self._random.random() < 0.25:
            results.append(self._pick(*[name for name in self.values if name.startswith("v")]))
        needed, lines = set(results), list[str]()
        for line in reversed(self.lines):
            name, text = line.split(" = ", 1)
            if name in needed:
                lines.insert(0, line)
                needed |= set(re.findall(r"(?:self\.)?\b[vxp]\d+\b", text))
        given = {f"x{place}": text for place, text in enumerate(self.inputs) if f"x{place}" in needed}
        own = [f"self.{line}" for line in self.parameters if f"self.{line.split()[0]}" in needed]
        if not lines or not given:
            return Draw(self._random.randrange(10**9)).source()
        body, init = "\n        ".join(lines), "\n        ".join(own) or "pass"
        return (
            "import torch\nimport torch.nn as nn\nimport torch.nn.functional as F\n\n\nclass Model(nn.Module):\n"
            f"    def __init__(self):\n        super().__init__()\n        {init}\n\n"
            f"    def forward(self, {', '.join(given)}):\n        {body}\n        return {', '.join(dict.fromkeys(results))}\n\n\n"
            f"def get_inputs():\n    return [{', '.join(given.values())}]\n\n\ndef get_init_inputs():\n    return []\n"
        )


def _broadcast(left: Shape, right: Shape) -> Shape | None:
    """The shape of both together; None where they do not fit."""
    longer = max(len(left), len(right))
    padded = [(1,) * (longer - len(shape)) + shape for shape in (left, right)]
    if any(a != b and 1 not in (a, b) for a, b in zip(*padded, strict=True)):
        return None
    return tuple(max(pair) for pair in zip(*padded, strict=True))


def main() -> None:
    """Judge some of them."""
    judge_drawn(Draw)


if __name__ == "__main__":
    main()
