"""Where the elements of a tensor lie whose dimensions are not all of rows, then all of columns: by the index of each axis. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field

from workers.authors.compiler.domain import Domain, WindowDim
from workers.authors.compiler.graph import CannotCompileError
from workers.authors.compiler.host import HostScope
from workers.authors.compiler.names import TensorNames
from workers.authors.compiler.statements import ScopeStatements

# Triton passes a number in 64 bits where 32 do not hold it, so that its dtype is one that holds every index.
ADDRESSED = "n_addressed"
INDEX_LINE = f"    INDEX: tl.constexpr = {ADDRESSED}.dtype"


def addressed(counts: Iterable[str]) -> str:
    """The argument that indices take their dtype of, at least all that tensors have elements; what is 1 would be a constant."""
    return f"{' + '.join(counts)} + 2"


@dataclass
class SpacePart:
    """A part of the iteration space: what numbers its elements, and the scope in which that is known.

    ``turn``: it differs from turn to turn of the loop. ``expand`` makes a tile of what is one-dimensional there.
    """

    name: str
    axes: tuple[int, ...]
    index: str
    scope: ScopeStatements
    turn: bool = False
    expand: str = ""
    parts: dict[int, str] = field(default_factory=dict)


@dataclass
class OffsetTerms:
    """What an element's offset is the sum of, and under which conditions it exists: before the loop, and in each turn."""

    before: list[str] = field(default_factory=list)
    turn: list[str] = field(default_factory=list)
    masks: list[str] = field(default_factory=list)
    roles: list[SpacePart] = field(default_factory=list)


class Places:
    """Writes offsets. ``sizes`` are the parameters that it asks for, and their values in the launcher."""

    def __init__(self, domain: Domain, names: TensorNames, host: HostScope) -> None:
        self.sizes: dict[str, str] = {}
        self._given_names: dict[tuple[str, str], str] = {}
        self._domain, self._names, self._host = domain, names, host

    def terms(self, load: str, tensor: str, roles: Iterable[SpacePart], loop: ScopeStatements) -> OffsetTerms:
        """Where the elements of a tensor lie that is loaded as ``load``; ``loop`` is the scope of a turn."""
        roles, terms = list(roles), OffsetTerms()
        window = self._domain.windows.get(load)
        shape = self._domain.shapes[load] if window is None else window.lead
        rank = len(shape) + (len(window.dims) if window else 0)
        for place, dim in enumerate(shape):
            stride = ""
            for number, axis in enumerate(dim):
                role = self._role(axis, roles)
                inner = self._product(dim[number + 1 :])
                stride = stride or self._given(f"{tensor}_stride_{place}", f"{tensor}.stride({place - rank})")
                text = f"{self.index(axis, role)} * {stride}" + (f" * {inner}" if inner != "1" else "")
                (terms.turn if role.turn else terms.before).append(text)
                terms.roles.append(role)
        for number, along in enumerate(window.dims if window else ()):
            place = len(shape) + number
            stride = self._given(f"{tensor}_stride_{place}", f"{tensor}.stride({place - rank})")
            if not along.place and not along.tap:
                terms.before += self._fixed(along, stride)
                continue
            sizes = [self._domain.sizes[axis] for axis in self._domain.shapes[window.source][place]] if window else []
            known = math.prod(size for size in sizes if isinstance(size, int))
            fixed = all(isinstance(size, int) for size in sizes)
            size = str(known) if fixed else self._given(f"{tensor}_size_{place}", f"{tensor}.shape[{place - rank}]")
            self._window(along, f"{tensor}_at_{number}", stride, size, roles, loop, terms)
        return terms

    @staticmethod
    def _fixed(dim: WindowDim, stride: str) -> list[str]:
        """The offset of the only element that the only window has along a dimension."""
        if dim.offset < 0 or dim.offset % dim.divisor:
            raise CannotCompileError("a window has no element that exists", "windows")
        at = dim.offset // dim.divisor
        return [f"{at} * {stride}"] if at else []

    def _window(
        self,
        dim: WindowDim,
        name: str,
        stride: str,
        size: str,
        roles: list[SpacePart],
        loop: ScopeStatements,
        terms: OffsetTerms,
    ) -> None:
        """The offset along a dimension that windows are taken of, and the condition that it is inside."""
        place, tap = ([(axis, self._role(axis, roles)) for axis in axes] for axes in (dim.place, dim.tap))
        own = [role for _, role in (*place, *tap)]
        terms.roles += own
        # Each element is a window of its own, and there are no more windows than elements.
        if not tap and (dim.step, dim.offset, dim.divisor) == (1, 0, 1) and dim.end is not None and dim.end < 0:
            for (_, role), text in zip(place, self._parts(place), strict=True):
                (terms.turn if role.turn else terms.before).append(f"{text} * {stride}")
            return
        turns = any(role.turn for role in own)
        starts = _sum([*(_times(text, dim.step) for text in self._parts(place)), *_number(dim.offset)])
        reach = _sum([_times(text, dim.dilation) for text in self._parts(tap)])
        if turns and place and not place[0][1].turn and not starts.isidentifier():
            first = self._names.free(f"{name}_first")
            place[0][1].scope.line(f"{first} = {starts}")
            starts = first
        at, mask = self._names.free(name), self._names.free(f"{name}_inside")
        scope = loop if turns else own[0].scope
        scope.line(f"{at} = {_sum([part for part in (starts, reach) if part])}")
        inside = f"({at} >= 0) & ({at} < {size if dim.divisor == 1 else f'{size} * {dim.divisor}'})"
        scope.line(f"{mask} = {f'({at} % {dim.divisor} == 0) & ' if dim.divisor > 1 else ''}{inside}")
        terms.masks.append(mask)
        where = at if dim.divisor == 1 else f"{at} // {dim.divisor}"
        (terms.turn if turns else terms.before).append(f"{where} * {stride}")

    def _parts(self, axes: list[tuple[int, SpacePart]]) -> list[str]:
        """The terms of an index along a dimension that is cut into axes, outermost first."""
        within = [self._product(tuple(axis for axis, _ in axes[number + 1 :])) for number in range(len(axes))]
        texts = [self.index(axis, role) for axis, role in axes]
        return [text if inner == "1" else f"{text} * {inner}" for text, inner in zip(texts, within, strict=True)]

    def index(self, axis: int, role: SpacePart) -> str:
        """The text of an axis's index, which is part of a role's."""
        if role.axes == (axis,):
            return f"{role.index}{role.expand}"
        place = role.axes.index(axis)
        if place not in role.parts:
            name = self._names.free(f"{role.name}_{place}")
            text, after = role.index, self._product(role.axes[place + 1 :])
            if after != "1":
                text = f"{text} // {after if after.isalnum() or after.isidentifier() else f'({after})'}"
            if place:
                text = f"{text} % {self._axis(axis)}" if after == "1" else f"({text}) % {self._axis(axis)}"
            role.scope.line(f"{name} = {text}")
            role.parts[place] = name
        return f"{role.parts[place]}{role.expand}"

    def _role(self, axis: int, roles: list[SpacePart]) -> SpacePart:
        return next(role for role in roles if axis in role.axes)

    def _product(self, axes: tuple[int, ...]) -> str:
        product, texts = 1, list[str]()
        for axis in axes:
            text = self._axis(axis)
            product, texts = (product * int(text), texts) if text.isdigit() else (product, [*texts, text])
        return " * ".join([*([str(product)] if product > 1 else []), *texts]) or "1"

    def _axis(self, axis: int) -> str:
        """The size of an axis in the kernel: a number, or a parameter."""
        size = self._domain.sizes[axis]
        if isinstance(size, int):
            return str(size)
        return self._given(f"n_{axis}", self._host.axis(axis))

    def _given(self, name: str, value: str) -> str:
        """The parameter of a value, under this name or one like it."""
        if (name, value) not in self._given_names:
            own = self._given_names[name, value] = self._names.free(name)
            self.sizes[own] = value
        return self._given_names[name, value]


def _times(text: str, factor: int) -> str:
    return text if factor == 1 else f"-{text}" if factor == -1 else f"{text} * {factor}"


def _number(number: int) -> list[str]:
    return [str(number)] if number else []


def _sum(parts: list[str]) -> str:
    return " + ".join(parts).replace("+ -", "- ")
