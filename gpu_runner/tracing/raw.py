"""A traced graph with plain numbers, in the form in which the child hands it over; the parent checks it here. Pure."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Any

MAX_NODES = 20_000
MAX_RANK = 16
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,99}")
_OP = re.compile(r"[a-z_][A-Za-z0-9_.]{0,99}")
_TEXT = re.compile(r"[A-Za-z0-9_.:, ()\[\]>-]{0,100}")


@dataclass(frozen=True)
class Ref:
    """The value of another node."""

    name: str


RawAtom = Ref | int | float | bool | str | None
RawArg = RawAtom | tuple[RawAtom, ...]


@dataclass(frozen=True)
class RawNode:
    """One operation with the sizes of one trace."""

    name: str
    op: str
    args: tuple[RawArg, ...]
    shape: tuple[int, ...]
    dtype: str
    kwargs: tuple[tuple[str, RawArg], ...] = ()


@dataclass(frozen=True)
class RawGraph:
    """One trace."""

    nodes: tuple[RawNode, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    upstream: tuple[str | None, ...]
    gradients: tuple[tuple[str, str | None], ...]
    tuple_output: bool


def to_plain(graph: RawGraph) -> dict[str, Any]:
    """A graph as plain values, as it is sent to the parent."""
    return {
        "nodes": [
            [n.name, n.op, [_plain(a) for a in n.args], list(n.shape), n.dtype, [[k, _plain(a)] for k, a in n.kwargs]]
            for n in graph.nodes
        ],
        "inputs": list(graph.inputs),
        "outputs": list(graph.outputs),
        "upstream": list(graph.upstream),
        "gradients": [list(pair) for pair in graph.gradients],
        "tuple_output": graph.tuple_output,
    }


def from_plain(form: Any) -> RawGraph:
    """Read what a child handed over and believe none of it unseen.

    Raises:
        ValueError: it is not of the form, names what is not there, or is too large.
    """
    try:
        if len(form["nodes"]) > MAX_NODES:
            raise ValueError(f"the graph has more than {MAX_NODES} operations")
        nodes = tuple(_node(row) for row in form["nodes"])
        graph = RawGraph(
            nodes,
            tuple(_name(n) for n in form["inputs"]),
            tuple(_name(n) for n in form["outputs"]),
            tuple(None if n is None else _name(n) for n in form["upstream"]),
            tuple((_name(a), None if b is None else _name(b)) for a, b in form["gradients"]),
            form["tuple_output"] is True,
        )
    except (TypeError, KeyError) as error:
        raise ValueError("the trace is not of its form") from error
    _check_references(graph)
    return graph


def references(node: RawNode) -> list[str]:
    """The names of the nodes that a node reads."""
    values = [*node.args, *(value for _, value in node.kwargs)]
    flat = [item for value in values for item in (value if isinstance(value, tuple) else (value,))]
    return [item.name for item in flat if isinstance(item, Ref)]


def _check_references(graph: RawGraph) -> None:
    known: set[str] = set()
    for node in graph.nodes:
        if node.name in known or any(name not in known for name in references(node)):
            raise ValueError(f"node {node.name} is there twice, or reads what is not there yet")
        known.add(node.name)
    ends = [*graph.inputs, *graph.outputs, *graph.upstream, *(node for _, node in graph.gradients)]
    if any(name is not None and name not in known for name in ends):
        raise ValueError("the trace names a node that is not there")


def _plain(value: RawArg) -> Any:
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    return {"ref": value.name} if isinstance(value, Ref) else value


def _node(row: Any) -> RawNode:
    name, op, args, shape, dtype, kwargs = row
    if not isinstance(op, str) or not _OP.fullmatch(op) or not isinstance(dtype, str) or not _TEXT.fullmatch(dtype):
        raise ValueError("an operation is not of its form")
    if len(shape) > MAX_RANK or any(type(size) is not int or size < 0 for size in shape):
        raise ValueError("a shape is not of its form")
    pairs = tuple((_name(key), _arg(value)) for key, value in kwargs)
    return RawNode(_name(name), op, tuple(_arg(a) for a in args), tuple(shape), dtype, pairs)


def _arg(value: Any) -> RawArg:
    if isinstance(value, list):
        return tuple(_atom(item) for item in value)
    return _atom(value)


def _atom(value: Any) -> RawAtom:
    if isinstance(value, dict):
        return Ref(_name(value["ref"]))
    if isinstance(value, str):
        if not _TEXT.fullmatch(value):
            raise ValueError("a text argument is not of its form")
        return value
    if value is None or isinstance(value, bool | float) or (type(value) is int and abs(value) < 2**63):
        return value
    raise ValueError("an argument is not of its form")


def _name(value: Any) -> str:
    if not isinstance(value, str) or not _NAME.fullmatch(value):
        raise ValueError("a name is not of its form")
    return value


def same_number(a: RawAtom, b: RawAtom) -> bool:
    """Whether two plain values are the same, nan being the same as nan."""
    if isinstance(a, float) and isinstance(b, float) and math.isnan(a) and math.isnan(b):
        return True
    return type(a) is type(b) and a == b
