"""Parts of a problem that compute the same of other tensors, such as queries and keys: names that serve for all of them. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from workers.authors.compiler.components import Component
from workers.authors.compiler.design import Design
from workers.authors.compiler.families import stages_of
from workers.authors.compiler.functions import backward_launcher, forward_launcher
from workers.authors.protocol import SourceStyle

TENSORS, VECTORS = ("x", "z", "u", "v"), ("w", "b", "s", "t")  # what inputs of most dimensions are called, and others
PLAIN = SourceStyle("", "forward", "backward", section=True)


@dataclass(frozen=True)
class CommonNames:
    """What to call inputs (by the problem's names) and outputs; ``group`` tells parts apart that are not alike."""

    group: int
    inputs: tuple[tuple[str, str], ...]
    outputs: tuple[str, ...]


def common_names(components: Sequence[Component]) -> list[CommonNames | None]:
    """Give names for each part that looks like another one, None for a part that looks like none."""
    kinds = [_kind(part) for part in components]
    distinct = list(dict.fromkeys(kinds))
    pairs = list(zip(components, kinds, strict=True))
    return [_names(distinct.index(kind), [p for p, other in pairs if other == kind], part) for part, kind in pairs]


def are_alike(designs: Iterable[Design]) -> bool:
    """Tell whether designs are written as the same kernels and the same functions."""
    return len({_text(design) for design in designs}) == 1


def _kind(part: Component) -> tuple[object, ...]:
    inputs = tuple(replace(spec, name="", dims=("",) * len(spec.dims)) for spec in part.problem.inputs)
    operators = tuple(node.op for node in part.graph.nodes)
    return inputs, operators, len(part.outputs), part.problem.scalars, part.graph.specialised


def _names(group: int, alike: list[Component], part: Component) -> CommonNames | None:
    if len(alike) < 2:
        return None
    rows = [[spec.name for spec in other.problem.inputs] for other in alike]
    own = [spec.name for spec in part.problem.inputs]
    places = [place for place, names in enumerate(zip(*rows, strict=True)) if len(set(names)) > 1]
    kept = {name for names in rows for place, name in enumerate(names) if place not in places}
    most = max(len(spec.dims) for spec in part.problem.inputs)
    free = [[name for name in names if name not in kept] for names in (TENSORS, VECTORS)]
    inputs = []
    for place in places:
        left = free[len(part.problem.inputs[place].dims) < most]
        if not left:
            return None
        inputs.append((own[place], left.pop(0)))
    count = len(part.outputs)
    outputs = ("y",) if count == 1 else tuple(f"y_{index}" for index in range(count))
    return CommonNames(group, tuple(inputs), outputs)


def _text(design: Design) -> tuple[str, ...]:
    kernels = [kernel.source for stage in stages_of(design) for kernel in stage.kernels]
    launchers = [forward_launcher(design, PLAIN)]
    launchers += [backward_launcher(design, PLAIN)] if design.program.gradients else []
    return (*kernels, *launchers)
