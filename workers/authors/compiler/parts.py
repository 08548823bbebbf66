"""Rows that hold several parts of one length side by side, such as a gate and what it gates. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from gpu_runner.contracts.graph import Dim, Expr, Graph, Node, NodeRef
from workers.authors.compiler.refusals import CannotCompileError
from workers.authors.compiler.sizes import Sizes

# A vector of written-out length with at most this many elements may be taken apart: each is a number of its own then.
MOST_ELEMENTS = 16


@dataclass(frozen=True)
class Part:
    """One part of a tensor: ``index`` of ``count``, in order."""

    node: str
    index: int
    count: int
    single: bool = False  # a part is one number: an element of a short vector

    @property
    def width(self) -> str:
        """Give the columns of a whole row of the tensor, in a kernel."""
        return str(self.count) if self.single else f"({self.count} * n_cols)"

    @property
    def shift(self) -> str:
        """Give what comes before the part in a row, as a term that is added."""
        if self.single:
            return f" + {self.index}" if self.index else ""
        return "" if self.index == 0 else " + n_cols" if self.index == 1 else f" + {self.index} * n_cols"


@dataclass(frozen=True)
class Parting:
    """The last dimensions that a graph cuts or joins: how many parts each has, and the length of one."""

    count: int
    lengths: dict[Dim, Dim]
    sizes: Sizes  # stand-ins that the count divides

    def index(self, node: Node) -> int:
        """Give which part a slice takes.

        Raises:
            CannotCompileError: it takes none of them whole.
        """
        start = self._value(node.args[2] if len(node.args) > 2 else None, 0)
        length = self.sizes.value(node.meta.shape[-1])
        if start % length or not 0 <= start // length < self.count:
            raise CannotCompileError("`slice` takes columns that begin inside of a part", "slice")
        return start // length

    def _value(self, number: object, default: int) -> int:
        return self.sizes.value(number) if isinstance(number, int | Expr) else default


def find_parting(graph: Graph, dimensions: tuple[str, ...]) -> Parting | None:
    """Give how a graph cuts the rows, None where it leaves them whole.

    Raises:
        CannotCompileError: it cuts them into parts of different lengths, or cuts something else.
    """
    nodes = {node.name: node for node in graph.nodes}
    odd, lengths, counts = Sizes.of(dimensions, graph.multiples), dict[Dim, Dim](), set[int]()
    for node in graph.nodes:
        if node.op not in {"slice", "cat"} or is_whole_slice(node, nodes) or takes_elements(node, nodes):
            continue
        whole, length = _cut(node, nodes)
        count = odd.value(whole) // odd.value(length)
        if count < 2 or odd.value(whole) // count != odd.value(length) or lengths.get(whole, length) != length:
            raise CannotCompileError(f"`{node.op}` meets parts of a row that may differ in length", node.op)
        lengths[whole] = length
        counts.add(count)
        if len(counts) > 1:
            raise CannotCompileError(f"`{node.op}` cuts rows into another number of parts than before", node.op)
    if not counts:
        return None
    count = counts.pop()
    return Parting(count, lengths, odd.times(count))


def _cut(node: Node, nodes: Mapping[str, Node]) -> tuple[Dim, Dim]:
    """Give the whole and one part of the dimension that a node cuts or joins."""
    rank, dim = len(node.meta.shape), node.args[1]
    if not isinstance(dim, int) or dim % max(1, rank) != rank - 1:
        raise CannotCompileError(f"`{node.op}` is along a dimension that is not the last", node.op)
    if node.op == "cat":
        pieces = node.args[0] if isinstance(node.args[0], tuple) else ()
        shapes = [nodes[piece.name].meta.shape for piece in pieces if isinstance(piece, NodeRef)]
        if len(shapes) != len(pieces) or len({shape[-1:] for shape in shapes}) != 1 or len(shapes[0]) != rank:
            raise CannotCompileError("`cat` joins parts that differ in length", "cat")
        whole, part = node.meta.shape[-1], shapes[0][-1]
    else:
        if len(node.args) > 4 and node.args[4] not in {None, 1}:
            raise CannotCompileError("`slice` takes some elements and leaves others between them", "slice")
        operand = node.args[0]
        assert isinstance(operand, NodeRef)
        whole, part = nodes[operand.name].meta.shape[-1], node.meta.shape[-1]
    if part == 1:
        raise CannotCompileError(f"`{node.op}` takes single elements of a vector apart", node.op)
    return whole, part


def moves_columns(graph: Graph) -> bool:
    """Tell whether all that is cut out of rows or put together to rows is whole runs of columns, of whatever lengths."""
    nodes = {node.name: node for node in graph.nodes}
    moved = [n for n in graph.nodes if n.op in {"slice", "cat"}]
    moved = [n for n in moved if not is_whole_slice(n, nodes) and not takes_elements(n, nodes)]
    last = [
        isinstance(n.args[1], int) and n.args[1] % max(1, len(n.meta.shape)) == len(n.meta.shape) - 1 for n in moved
    ]
    steps = [n.op == "cat" or (*n.args[4:5], 1)[0] in (None, 1) for n in moved]
    return bool(moved) and all(last) and all(steps)


def takes_elements(node: Node, nodes: Mapping[str, Node]) -> bool:
    """Tell whether a node takes elements out of a short vector, or puts them together to one."""
    if node.op not in {"slice", "cat"} or len(node.meta.shape) != 1:
        return False
    pieces = node.args[0] if isinstance(node.args[0], tuple) else (node.args[0],)
    shapes = [nodes[piece.name].meta.shape for piece in pieces if isinstance(piece, NodeRef)]
    lengths = [dim for shape in (*shapes, node.meta.shape) for dim in shape]
    return all(isinstance(dim, int) and 1 <= dim <= MOST_ELEMENTS for dim in lengths)


def elements_taken(node: Node) -> slice:
    """Give which elements a slice of a short vector takes."""
    bounds = [arg if isinstance(arg, int) else None for arg in (*node.args[2:5], None, None, None)[:3]]
    return slice(*bounds)


def is_whole_slice(node: Node, nodes: Mapping[str, Node]) -> bool:
    """Tell whether a slice takes all there is."""
    if node.op != "slice" or not isinstance(node.args[0], NodeRef):
        return False
    start, step = (*node.args[2:3], None)[0], (*node.args[4:5], None)[0]
    return start in (None, 0) and step in (None, 1) and node.meta.shape == nodes[node.args[0].name].meta.shape
