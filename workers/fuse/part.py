"""A part of a model as an ordinary problem file, whose text is also what makes two parts one. Pure."""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from gpu_runner.contracts import Expr, Node, NodeRef
from gpu_runner.contracts.expressions import ExpressionError, evaluate_expression
from gpu_runner.contracts.graph import Arg, Dim
from workers.authors.protocol import KernelPlan, SourceStyle
from workers.fuse.operators import PASSES_GRADIENT, OperatorKind, bytes_of, packet_of
from workers.fuse.traced import Traced, arguments, names_in

_MOST_NAMED = 3
MOST_OF_FLOOR = 2  # times one kernel's; a backward of two kernels, each of which reads all, has 1.9
MOST_BYTES = 1.1  # times torch's, which are an estimate; of what moves as many a kernel is faster at sums over rows


@dataclass(frozen=True)
class Occurrence:
    """Where a part is in the model: its nodes, what it reads and what is read of it, in the order of its reference."""

    nodes: tuple[str, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


@dataclass(frozen=True)
class Part:
    """Parts of the same text are one. Bytes and FLOPs are of one forward call at the first workload."""

    name: str
    source: str  # its problem file
    function: str  # the reference in it, under the part's name
    operators: tuple[str, ...]
    shapes: tuple[tuple[tuple[int, ...], str], ...]  # of its inputs, with their dtypes
    parameters: int  # how many of its inputs are the model's parameters
    has_backward: bool
    bytes_apart: int  # moved where each operator is torch's (``Traced.bytes_apart``)
    bytes_fused: int  # moved by one kernel: the floor
    flops: int
    backward_apart: int = 0  # moved by torch's backward
    backward_fused: int = 0  # moved by one kernel: gradients of the outputs, inputs that want one, and theirs
    sizes: tuple[tuple[str, int], ...] = ()  # of its named dimensions

    @cached_property
    def digest(self) -> str:
        """By which it is known again."""
        return digest_of(self.source)

    @property
    def saved_bytes(self) -> int:
        """What one kernel does not move."""
        return self.bytes_apart - self.bytes_fused


def digest_of(text: str) -> str:
    """A digest of a text."""
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def style_of(name: str) -> SourceStyle:
    """The style of a part's file: every name in it is the part's own, so that files can be put together."""
    camel = "".join(word.capitalize() for word in name.split("_"))
    names = f"{camel}Function", f"{name}_forward", f"{name}_backward"
    return SourceStyle(*names, entry=name, prefix=f"_{name}_", once_differentiable=True)


def occurrence_of(traced: Traced, nodes: Iterable[str]) -> Occurrence:
    """What a group of nodes reads, and what is read of it."""
    ordered = traced.in_order(nodes)
    inside = set(ordered)
    inputs = dict.fromkeys(s for name in ordered for s in traced.nodes[name].operands if s not in inside)
    ends = set(traced.graph.outputs)
    outputs = [n for n in ordered if n in ends or any(user not in inside for user in traced.users[n])]
    return Occurrence(ordered, tuple(inputs), tuple(outputs))


def part_of(traced: Traced, where: Occurrence) -> Part:
    """The part that stands at an occurrence."""
    computed = [name for name in where.nodes if traced.kind(name) is not OperatorKind.view]
    packets = [packet_of(traced.nodes[name].op) for name in computed]
    text = _Text.of(traced, where)
    title = ", ".join(packets[:12]) + (f" and {len(packets) - 12} more" if len(packets) > 12 else "")
    source = f'"""A part of a model: {title}."""\n\nimport torch\n\n\n{text.function("reference")}\n\n{text.tables()}'
    stem = "_".join(dict.fromkeys(packet.strip("_") for packet in packets[:_MOST_NAMED]))
    name = f"{stem}_{digest_of(source)[:6]}"
    parameters = {spec.name for spec in traced.problem.inputs if spec.parameter}
    wanted = [value for value in where.inputs if value in traced.differentiable]
    return Part(
        name,
        source,
        text.function(name),
        tuple(packets),
        tuple((traced.shape(value), traced.nodes[value].meta.dtype) for value in where.inputs),
        sum(value in parameters for value in where.inputs),
        bool(wanted),
        _bytes_apart(traced, computed),
        sum(map(traced.bytes, (*where.inputs, *where.outputs))),
        sum(map(traced.flops, computed)),
        sum(map(traced.backward_apart, computed)),
        sum(map(traced.bytes, (*where.outputs, *wanted, *wanted))) if wanted else 0,
        text.workload(),
    )


def _bytes_apart(traced: Traced, computed: Iterable[str]) -> int:
    """Where all operators hand their gradient on, that of a bias is a sum over what is given, which a kernel would read as well."""
    nodes = list(computed)
    hands_on = all(packet_of(traced.nodes[name].op) in PASSES_GRADIENT for name in nodes)
    return sum(traced.bytes_apart(name) for name in nodes if not (hands_on and name in traced.biased))


def moves_more(part: Part, plan: KernelPlan) -> str | None:
    """Why a part is torch's although it can be written: its kernels would move more bytes than torch's operators do, or so many
    more than one kernel that ``torch.compile`` comes nearer to that.
    """
    values = dict(part.sizes) | {"E": bytes_of((), "float32")}
    try:
        planned = sum(
            evaluate_expression(term, values) for term in _terms(f"{plan.forward_bytes} + {plan.backward_bytes}")
        )
    except ExpressionError:
        return None
    most, least = part.bytes_apart + part.backward_apart, part.bytes_fused + part.backward_fused
    if planned > MOST_BYTES * most:
        return f"its kernels would move {planned / most:.2g} times as many bytes as torch's operators"
    if planned > MOST_OF_FLOOR * least:
        return f"its kernels would move {planned / least:.2g} times as many bytes as one that fuses all of it"
    return None


def _terms(text: str) -> Iterator[str]:
    """The terms of a sum: as a whole it may be longer than an expression is."""
    term = ""
    for piece in text.split(" + "):
        term = f"{term} + {piece}" if term else piece
        if term.count("(") == term.count(")"):
            yield term
            term = ""


@dataclass(frozen=True)
class _Text:
    """Names of values and sizes in a part's reference; ``sizes`` is None where they are numbers."""

    traced: Traced
    where: Occurrence
    values: Mapping[str, str]
    sizes: Mapping[str, str] | None  # the text of a size -> its name in the part

    @staticmethod
    def of(traced: Traced, where: Occurrence) -> _Text:
        values = {name: f"x{i}" for i, name in enumerate(where.inputs)}
        values |= {name: f"v{i}" for i, name in enumerate(where.nodes)}
        dims = [d for name in where.inputs for d in traced.nodes[name].meta.shape if isinstance(d, Expr)]
        sizes = {text: f"N{i}" for i, text in enumerate(dict.fromkeys(dim.text for dim in dims))}
        used = [a for name in where.nodes for a in arguments(traced.nodes[name])]
        known = all(_is_known(argument, sizes) for argument in used)
        return _Text(traced, where, values, sizes if known else None)

    def function(self, name: str) -> str:
        lines, used = [], set[str]()
        for node in (self.traced.nodes[name] for name in self.where.nodes):
            for argument in arguments(node):
                used |= set() if self.sizes is None else {self.sizes[n] for n in _texts(argument, self.sizes)}
            lines.append(f"    {self.values[node.name]} = {call_of(node, self.values, self._size)}")
        taken = [f"    {own} = {self._place(text)}" for text, own in (self.sizes or {}).items() if own in used]
        given = ", ".join(self.values[value] for value in self.where.inputs)
        results = ", ".join(self.values[value] for value in self.where.outputs)
        return "\n".join([f"def {name}({given}):", *taken, *lines, f"    return {results}", ""])

    def tables(self) -> str:
        inputs = "".join(f"    {self.values[name]!r}: {self._spec(name)!r},\n" for name in self.where.inputs)
        return f'INPUTS = {{\n{inputs}}}\nWORKLOADS = [{dict(self.workload())!r}]\nDTYPES = ["float32"]\n'

    def workload(self) -> tuple[tuple[str, int], ...]:
        return tuple((own, self.traced.size(Expr(text))) for text, own in (self.sizes or {}).items())

    def _spec(self, name: str) -> dict[str, Any] | str:
        node = self.traced.nodes[name]
        dims = " ".join(str(self._dim(dim)) for dim in node.meta.shape)
        spec: dict[str, Any] = {"dims": dims}
        if node.meta.dtype != "float32":
            spec["dtype"] = node.meta.dtype
        elif name not in self.traced.differentiable:
            spec["grad"] = False
        return spec if len(spec) > 1 else dims

    def _dim(self, dim: Dim) -> str | int:
        return dim if isinstance(dim, int) else self.traced.size(dim) if self.sizes is None else self.sizes[dim.text]

    def _size(self, text: str) -> str:
        if self.sizes is None:
            return str(self.traced.size(Expr(text)))
        return renamed_size(text, self.sizes)

    def _place(self, text: str) -> str:
        for name in self.where.inputs:
            for place, dim in enumerate(self.traced.nodes[name].meta.shape):
                if dim == Expr(text):
                    return f"{self.values[name]}.shape[{place}]"
        raise AssertionError("a size is one of an input's")


def renamed_size(text: str, sizes: Mapping[str, str]) -> str:
    """A size in other names: as a whole where it has one, else by its own names."""
    return sizes[text] if text in sizes else re.sub(r"[A-Za-z_]\w*", lambda found: sizes[found.group()], text)


def _is_known(argument: Arg, sizes: Mapping[str, str]) -> bool:
    items = argument if isinstance(argument, tuple) else (argument,)
    return all(item.text in sizes or names_in(item) <= sizes.keys() for item in items if isinstance(item, Expr))


def _texts(argument: Arg, sizes: Mapping[str, str]) -> set[str]:
    """The sizes that an argument is written with."""
    items = argument if isinstance(argument, tuple) else (argument,)
    found: set[str] = set()
    for item in items:
        if isinstance(item, Expr):
            found |= {item.text} if item.text in sizes else names_in(item)
    return found


def call_of(node: Node, values: Mapping[str, str], size: Callable[[str], str], device: str | None = None) -> str:
    """A node as an expression of Python; ``device`` is that of what it makes."""

    def atom(value: Arg) -> str:
        if isinstance(value, tuple):
            return f"[{', '.join(map(atom, value))}]"
        if isinstance(value, NodeRef):
            return values[value.name]
        if isinstance(value, Expr):
            return size(value.text)
        if isinstance(value, float) and not math.isfinite(value):
            return f'float("{value}")'
        return value if isinstance(value, str) and value.startswith("torch.") else repr(value)

    if node.op == "getitem":
        return f"{atom(node.args[0])}[{atom(node.args[1])}]"
    given = [*map(atom, node.args), *(f"{key}={atom(value)}" for key, value in node.kwargs)]
    given += [f"device={device}"] if device is not None else []
    return f"torch.ops.{node.op}({', '.join(given)})"
