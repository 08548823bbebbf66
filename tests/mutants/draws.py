"""Cases on which a mutant that passed is held against its original: other sizes, layouts and values than a verdict draws."""

from __future__ import annotations

import ast
import math
import random
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import torch

from gpu_runner.contracts.problem import Problem
from gpu_runner.errors import ChildFailed
from gpu_runner.verify.cases import Case, MemoryLayout, Scalar, columns_of, fallbacks
from gpu_runner.verify.laying import Laid, Placement, lay
from gpu_runner.verify.proof import Proof, Scale
from gpu_runner.verify.truth import Oracle

ELEMENTS = 2**16
MOST_ROWS = 5001  # a program a row takes the interpreter half a millisecond
LAYOUTS = ("dense", "dense", "apart", "offset", "transposed", "expanded")
VALUES = (
    "normal",
    "normal",
    "normal",
    "small",
    "large",
    "equal rows",
    "zero rows",
    "one large",
    "positive",
    "repeated",
)


@dataclass(frozen=True)
class Drawer:
    """Draws cases of a problem in the dtypes that a verdict ran; ``oracle`` is its reference."""

    problem: Problem
    dtypes: tuple[str, ...]
    oracle: Oracle
    scale: Scale

    def proofs(self, stream: random.Random, count: int, known: Iterable[int]) -> Iterator[Proof]:
        """Cases at random sizes, some of them at the numbers that stand in a candidate, with their truth."""
        near = [number + step for number in sorted(known) if 4 < number <= 9000 for step in (-1, 0, 1)]
        for _ in range(count):
            proof = self._proof(stream, self._sizes(stream, near))
            if proof is not None:
                yield proof

    def at(self, stream: random.Random, numbers: Iterable[int]) -> Iterator[Proof]:
        """Cases in which each dimension has these sizes, and those next to them; the others stay small."""
        for number in numbers:
            for dim in self._dimensions():
                is_column = dim in columns_of(self.problem)
                for size in (number, number + 1) if is_column else (number,):
                    if size <= (9000 if is_column else MOST_ROWS):
                        sizes = {other: stream.randint(2, 5) for other in self._dimensions()} | {dim: size}
                        proof = self._proof(stream, sizes)
                        if proof is not None:
                            yield proof

    def _dimensions(self) -> list[str]:
        named = [*self.problem.dimensions, *(s.high for s in self.problem.inputs if isinstance(s.high, str))]
        return list(dict.fromkeys(named))

    def _sizes(self, stream: random.Random, near: list[int]) -> dict[str, int]:
        along = columns_of(self.problem)
        sizes = {dim: _logarithmic(stream, 3000 if dim in along else 40) for dim in self._dimensions()}
        dim = stream.choice(list(sizes)) if sizes else ""
        fitting = [size for size in near if size <= (9000 if dim in along else 300)]
        if fitting and dim and stream.random() < 0.4:
            sizes[dim] = stream.choice(fitting)
        while math.prod(sizes.values()) > ELEMENTS and max(sizes.values()) > 1:
            widest = max(sizes, key=lambda dim: sizes[dim] if dim not in along else sizes[dim] / 64)
            sizes[widest] = max(1, sizes[widest] * 2 // 3)
        return sizes

    def _proof(self, stream: random.Random, sizes: dict[str, int]) -> Proof | None:
        case = Case(
            name="drawn",
            sizes=tuple(sizes.items()),
            dtype=stream.choice(self.dtypes),
            seed=stream.getrandbits(48),
            scalars=self._scalars(stream),
            upstream=stream.choice((MemoryLayout.dense, MemoryLayout.dense, MemoryLayout.apart, MemoryLayout.expanded)),
        )
        for attempt in (case, *fallbacks(case)):
            try:
                asked = _varied(self.oracle.asked(attempt), self.problem, stream)
                return replace(self.oracle.with_truth(asked, None), scale=self.scale)
            except ChildFailed:
                continue
        return None

    def _scalars(self, stream: random.Random) -> tuple[tuple[str, Scalar], ...]:
        chosen = dict(stream.choice(self.problem.workloads).scalars) if self.problem.workloads else {}
        for spec in self.problem.scalars:
            if isinstance(spec.default, float) and spec.name not in chosen and stream.random() < 0.4:
                small = abs(spec.default) < 1e-2
                chosen[spec.name] = 10 ** stream.uniform(-7, -1) if small else spec.default * stream.uniform(0.5, 1.6)
        return tuple(chosen.items())


def numbers_in(text: str) -> set[int]:
    """The whole numbers of a file."""
    values = [node.value for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Constant)]
    return {abs(value) for value in values if type(value) is int}


def _logarithmic(stream: random.Random, most: int) -> int:
    return round(math.exp(stream.uniform(0, math.log(most))))


def _varied(proof: Proof, problem: Problem, stream: random.Random) -> Proof:
    """The same case with other values and layouts, and gradients for some of its inputs."""
    inputs, laid = dict(proof.inputs), dict(proof.laid)
    specs = {spec.name: spec for spec in problem.inputs}
    for name, tensor in proof.inputs.items():
        spec = specs.get(name)
        if spec is None:
            continue
        if tensor.is_floating_point() and spec.init == "normal" and not spec.parameter:
            tensor = _valued(tensor, stream.choice(VALUES), stream)
        layout = stream.choice([layout for layout in LAYOUTS if layout != "expanded" or name not in problem.mutates])
        laid[name] = _laid(tensor, layout if tensor.dim() > 1 or layout == "offset" else "dense", stream)
        inputs[name] = laid[name].view().clone()
    wanted = proof.wanted
    if stream.random() < 0.3:
        wanted = tuple(name for name in wanted if stream.random() < 0.6)
    return replace(proof, inputs=inputs, laid=laid, wanted=wanted)


def _valued(tensor: torch.Tensor, kind: str, stream: random.Random) -> torch.Tensor:
    tensor = tensor.clone()
    if kind == "small":
        tensor *= 2.0 ** -stream.randint(4, 12)
    elif kind == "large":
        tensor *= 2.0 ** stream.randint(3, 6)
    elif kind == "positive":
        tensor = tensor.abs()
    elif kind == "one large" and tensor.numel():
        tensor.view(-1)[stream.randrange(tensor.numel())] = stream.choice((50.0, -50.0, 300.0))
    elif kind == "repeated":
        tensor = (tensor * 2).round() / 2
    elif tensor.dim() > 1 and kind != "normal":
        rows = torch.tensor([stream.random() < 0.5 for _ in range(tensor.shape[0])])
        tensor[rows] = 0.0 if kind == "zero rows" else 1.25
    return tensor


def _laid(tensor: torch.Tensor, layout: str, stream: random.Random) -> Laid:
    rank = tensor.dim()
    places = {
        "apart": Placement(gap=32),
        "offset": Placement(shift=stream.randint(1, 5)),
        "transposed": Placement(order=(*range(rank - 2), rank - 1, rank - 2)),
        "expanded": Placement(broadcast=0),
    }
    place = places.get(layout, Placement())
    return lay(place.repeated(tensor).contiguous(), place)
