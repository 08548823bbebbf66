"""Axes of every dimension of a graph, and the chunks that rows are cut into. Pure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from gpu_runner.contracts.graph import Dim, Expr, Graph, Node, NodeRef
from workers.authors.compiler.graph import (
    FIRST_STAND_IN,
    POINTWISE,
    REDUCTIONS,
    SCANS,
    CannotCompileError,
    Sizes,
    integers_of,
    names_in,
)

# A vector of written-out length with at most this many elements may be taken apart: each is a number of its own then.
MOST_ELEMENTS = 16


@dataclass(frozen=True)
class Chunk:
    """A chunk of a tensor: ``index`` of ``count``, in order."""

    node: str
    index: int
    count: int
    single: bool = False  # a chunk is one number: an element of a short vector

    @property
    def width(self) -> str:
        """The columns of a whole row of the tensor, in a kernel."""
        return str(self.count) if self.single else f"({self.count} * n_cols)"

    @property
    def shift(self) -> str:
        """What comes before the chunk in a row, as a term that is added."""
        if self.single:
            return f" + {self.index}" if self.index else ""
        return "" if self.index == 0 else " + n_cols" if self.index == 1 else f" + {self.index} * n_cols"


@dataclass(frozen=True)
class Chunking:
    """The last dimensions that a graph cuts or joins: how many chunks each has, and the length of one."""

    count: int
    lengths: dict[Dim, Dim]
    sizes: Sizes  # stand-ins that the count divides

    def index(self, node: Node) -> int:
        """Which chunk a slice takes.

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


def find_chunking(graph: Graph, dimensions: tuple[str, ...]) -> Chunking | None:
    """How a graph cuts the rows, None where it leaves them whole.

    Raises:
        CannotCompileError: it cuts them into parts of different lengths, or cuts something else.
    """
    nodes = {node.name: node for node in graph.nodes}
    sizes, lengths, counts = Sizes.of(dimensions, graph.multiples), dict[Dim, Dim](), set[int]()
    for node in graph.nodes:
        if node.op not in {"slice", "cat"} or is_whole_slice(node, nodes) or takes_elements(node, nodes):
            continue
        whole, length = _cut(node, nodes)
        count = sizes.value(whole) // sizes.value(length)
        if count < 2 or sizes.value(whole) // count != sizes.value(length) or lengths.get(whole, length) != length:
            raise CannotCompileError(f"`{node.op}` meets parts of a row that may differ in length", node.op)
        lengths[whole] = length
        counts.add(count)
        if len(counts) > 1:
            raise CannotCompileError(f"`{node.op}` cuts rows into another number of parts than before", node.op)
    if not counts:
        return None
    count = counts.pop()
    return Chunking(count, lengths, sizes.times(count))


def _cut(node: Node, nodes: Mapping[str, Node]) -> tuple[Dim, Dim]:
    """The whole and one chunk of the dimension that a node cuts or joins."""
    rank, dim = len(node.meta.shape), node.args[1]
    if not isinstance(dim, int) or dim % max(1, rank) != rank - 1:
        raise CannotCompileError(f"`{node.op}` is along a dimension that is not the last", node.op)
    if node.op == "cat":
        pieces = node.args[0] if isinstance(node.args[0], tuple) else ()
        shapes = [nodes[piece.name].meta.shape for piece in pieces if isinstance(piece, NodeRef)]
        if len(shapes) != len(pieces) or len({shape[-1:] for shape in shapes}) != 1 or len(shapes[0]) != rank:
            raise CannotCompileError("`cat` joins parts that differ in length", "cat")
        whole, chunk = node.meta.shape[-1], shapes[0][-1]
    else:
        if len(node.args) > 4 and node.args[4] not in {None, 1}:
            raise CannotCompileError("`slice` takes some elements and leaves others between them", "slice")
        operand = node.args[0]
        assert isinstance(operand, NodeRef)
        whole, chunk = nodes[operand.name].meta.shape[-1], node.meta.shape[-1]
    if chunk == 1:
        raise CannotCompileError(f"`{node.op}` takes single elements of a vector apart", node.op)
    return whole, chunk


def moves_columns(graph: Graph) -> bool:
    """Whether all that is cut out of rows or put together to rows is whole runs of columns, of whatever lengths."""
    nodes = {node.name: node for node in graph.nodes}
    moved = [n for n in graph.nodes if n.op in {"slice", "cat"}]
    moved = [n for n in moved if not is_whole_slice(n, nodes) and not takes_elements(n, nodes)]
    last = [
        isinstance(n.args[1], int) and n.args[1] % max(1, len(n.meta.shape)) == len(n.meta.shape) - 1 for n in moved
    ]
    steps = [n.op == "cat" or (*n.args[4:5], 1)[0] in (None, 1) for n in moved]
    return bool(moved) and all(last) and all(steps)


def takes_elements(node: Node, nodes: Mapping[str, Node]) -> bool:
    """Whether a node takes elements out of a short vector, or puts them together to one."""
    if node.op not in {"slice", "cat"} or len(node.meta.shape) != 1:
        return False
    pieces = node.args[0] if isinstance(node.args[0], tuple) else (node.args[0],)
    shapes = [nodes[piece.name].meta.shape for piece in pieces if isinstance(piece, NodeRef)]
    lengths = [dim for shape in (*shapes, node.meta.shape) for dim in shape]
    return all(isinstance(dim, int) and 1 <= dim <= MOST_ELEMENTS for dim in lengths)


def elements_taken(node: Node) -> slice:
    """Which elements a slice of a short vector takes."""
    bounds = [arg if isinstance(arg, int) else None for arg in (*node.args[2:5], None, None, None)[:3]]
    return slice(*bounds)


def is_whole_slice(node: Node, nodes: Mapping[str, Node]) -> bool:
    """Whether a slice takes all there is."""
    if node.op != "slice" or not isinstance(node.args[0], NodeRef):
        return False
    start, step = (*node.args[2:3], None)[0], (*node.args[4:5], None)[0]
    return start in (None, 0) and step in (None, 1) and node.meta.shape == nodes[node.args[0].name].meta.shape


Axes = tuple[int, ...]
Shape = tuple[Axes, ...]  # for each dimension its axes, outermost first: none for a dimension of size one


@dataclass
class Unifier:
    """Axes that must run together share a root; ``size`` is the size of a root as the graph wrote it."""

    parents: list[int] = field(default_factory=list)
    size: list[Dim] = field(default_factory=list)
    chunks: list[int] = field(default_factory=list)  # axes that number the chunks of a row
    moved: list[int] = field(default_factory=list)  # axes of runs of columns that were cut out of a row
    cut_out_of: dict[int, int] = field(default_factory=dict)  # by such an axis, the row's
    elements: list[int] = field(default_factory=list)  # axes that number the elements of a vector that is taken apart

    splits: dict[int, Axes] = field(default_factory=dict)  # what an axis that was cut consists of, outermost first
    sizes: Sizes | None = None

    def fresh(self, size: Dim) -> int:
        """A new axis."""
        self.parents.append(len(self.parents))
        self.size.append(size)
        return len(self.parents) - 1

    def row_of_chunks(self, count: int, length: Dim) -> Axes:
        """The axes of a dimension that consists of chunks."""
        self.chunks.append(self.fresh(count))
        return (self.chunks[-1], self.fresh(length))

    def find(self, axis: int) -> int:
        """The root of an axis."""
        while self.parents[axis] != axis:
            axis = self.parents[axis]
        return axis

    def leaves(self, axes: Axes) -> Axes:
        """Axes with those that were cut replaced by what they consist of."""
        below: list[int] = []
        for axis in axes:
            root = self.find(axis)
            below += self.leaves(self.splits[root]) if root in self.splits else [root]
        return tuple(below)

    def join(self, left: int, right: int) -> None:
        """Unify two axes; the older root stays."""
        first, second = sorted((self.find(left), self.find(right)))
        self.parents[second] = first

    def cut(self, axis: int, outer: Dim, inner: Dim | None = None) -> Axes:
        """Cut an axis in two, the outer one of a size that divides it; the size of the ``inner`` one follows, or is known."""
        whole = self.size[self.find(axis)]
        halves = (self.fresh(outer), self.fresh(_over(whole, outer) if inner is None else inner))
        self.splits[self.find(axis)] = halves
        return halves


def _over(whole: Dim, divisor: Dim) -> Dim:
    if isinstance(whole, int) and isinstance(divisor, int):
        return whole // divisor
    text, by = (dim.text if isinstance(dim, Expr) else str(dim) for dim in (whole, divisor))
    left, factors = _factors(text), _factors(by)
    if left and factors and not Counter(factors) - Counter(left):
        rest = list((Counter(left) - Counter(factors)).elements())
        return int(rest[0]) if len(rest) == 1 and rest[0].isdigit() else Expr(" * ".join(rest) or "1")
    return Expr(f"({text}) // ({by})")


def _factors(text: str) -> list[str]:
    """The factors of a product of names and numbers, none of other arithmetic."""
    return text.split(" * ") if re.fullmatch(r"\w+( \* \w+)*", text) else []


def infer_axes(graph: Graph, sizes: Sizes, chunking: Chunking | None = None) -> tuple[dict[str, Shape], Unifier]:
    """The axes of every node's dimensions, as roots.

    Raises:
        CannotCompileError: an operator moves elements in a way that axes do not follow.
    """
    unifier = Unifier(sizes=sizes)
    shapes: dict[str, Shape] = {}
    inference = Inference(unifier, sizes, chunking, {node.name: node for node in graph.nodes})
    for node in graph.nodes:
        shapes[node.name] = _shape_of(node, shapes, inference)
        if len(shapes[node.name]) != len(node.meta.shape):
            raise CannotCompileError(f"`{node.op}` gives a tensor of another rank than the graph says", node.op)
    for output, upstream in zip(graph.outputs, graph.upstream, strict=True):
        if upstream is not None:
            _align([shapes[output], shapes[upstream]], unifier, "upstream")
    for name, gradient in graph.gradients:
        if gradient is not None:
            _align([shapes[name], shapes[gradient]], unifier, "gradient")
    for axis in unifier.chunks[1:]:
        unifier.join(unifier.chunks[0], axis)  # chunks of all tensors are numbered alike
    resolved = {name: tuple(unifier.leaves(dim) for dim in shape) for name, shape in shapes.items()}
    for node in graph.nodes:
        flat = [axis for dim in resolved[node.name] for axis in dim]
        if len(set(flat)) != len(flat):
            sentence = f"`{node.op}` meets a tensor with its own transpose, which the compiler cannot express"
            raise CannotCompileError(sentence, node.op)
        _require_whole_chunks(node, resolved[node.name], {unifier.find(axis) for axis in unifier.chunks})
    return resolved, unifier


def _require_whole_chunks(node: Node, shape: Shape, chunks: set[int]) -> None:
    inside = [axis for dim in shape for axis in dim if axis in chunks]
    if inside and not (len(inside) == 1 and len(shape[-1]) == 2 and shape[-1][0] == inside[0]):
        raise CannotCompileError(f"`{node.op}` takes the parts of a row as a dimension of their own", node.op)


@dataclass(frozen=True)
class Inference:
    """What the axes of a node are inferred with."""

    unifier: Unifier
    sizes: Sizes
    chunking: Chunking | None
    nodes: Mapping[str, Node]

    def fresh(self, dim: Dim, last: bool) -> Axes:
        """New axes for a dimension."""
        if dim == 1:
            return ()
        if last and self.chunking is not None and dim in self.chunking.lengths:
            return self.unifier.row_of_chunks(self.chunking.count, self.chunking.lengths[dim])
        return (self.unifier.fresh(dim),)


def _shape_of(node: Node, shapes: Mapping[str, Shape], inference: Inference) -> Shape:
    operands, unifier = [shapes[operand] for operand in node.operands], inference.unifier
    if node.op in {"input", "upstream", "full", "arange"}:
        rank = len(node.meta.shape)
        return tuple(inference.fresh(dim, place == rank - 1) for place, dim in enumerate(node.meta.shape))
    if node.op in POINTWISE:
        return _align(operands, unifier, node.op) if operands else ()
    if node.op == "expand":
        return _expanded(operands[0], node, inference)
    if node.op == "reshape":
        return _reshaped(operands[0], node, unifier, inference.sizes)
    if node.op == "permute":
        dims = integers_of(node.args[1])
        return tuple(operands[0][dim] for dim in dims)
    if node.op in SCANS:
        return operands[0]
    if node.op in {"matmul", "windows"}:
        return (
            _multiplied(operands[0], operands[1], unifier)
            if node.op == "matmul"
            else _windowed(operands, node, inference)
        )
    if node.op in REDUCTIONS:
        return _reduced(operands[0], node)
    if node.op in {"gather", "index_select"}:
        return _gathered(operands, node, unifier)
    if is_whole_slice(node, inference.nodes):
        return operands[0]
    if takes_elements(node, inference.nodes):
        unifier.elements += [axis for shape in operands for dim in shape for axis in dim]
        result = inference.fresh(node.meta.shape[0], False)
        unifier.elements += result
        return (result,)
    if node.op in {"slice", "cat"} and inference.chunking is not None:
        return _chunked(operands, node, inference.chunking.count, unifier)
    if node.op in {"slice", "cat"}:
        return _moved(operands, node, unifier)
    raise CannotCompileError(f"it has no way to express `{node.op}` yet", node.op)


def _moved(operands: list[Shape], node: Node, unifier: Unifier) -> Shape:
    """A run of columns has an axis of its own; runs side by side have a row's that one was cut out of, or may meet it later."""
    length = node.meta.shape[-1]
    rows = [unifier.cut_out_of.get(dim[0]) for dim in (shape[-1] for shape in operands) if len(dim) == 1]
    whole = next((axis for axis in rows if axis is not None and unifier.size[unifier.find(axis)] == length), None)
    axis = unifier.fresh(length) if whole is None or node.op == "slice" else whole
    if node.op == "slice":
        unifier.moved.append(axis)
        if len(operands[0][-1]) == 1:
            unifier.cut_out_of[axis] = operands[0][-1][0]
    lead = _align([shape[:-1] for shape in operands], unifier, node.op) if len(operands[0]) > 1 else ()
    return (*lead, (axis,))


def _gathered(operands: list[Shape], node: Node, unifier: Unifier) -> Shape:
    """One element of a row for each index, the dimension that is looked up in being gone."""
    source, index = operands
    dim = reduced_dimensions(node, len(source))[0]
    if node.op == "gather":
        if index[dim]:
            raise CannotCompileError("`gather` takes several elements of a row at once", "gather")
        return _align([(*source[:dim], (), *source[dim + 1 :]), index], unifier, "gather")
    if len(source) != 1:
        raise CannotCompileError("`index_select` takes whole rows of a table, not single elements", "index_select")
    return index


def _multiplied(left: Shape, right: Shape, unifier: Unifier) -> Shape:
    """Rows of the left operand and columns of the right one, for each matrix of a batch."""
    _align([(left[-1],), (right[-2],)], unifier, "matmul")
    batch = _align([left[:-2], right[:-2]], unifier, "matmul") if len(left) + len(right) > 4 else ()
    return (*batch, left[-2], right[-1])


def _windowed(operands: list[Shape], node: Node, inference: Inference) -> Shape:
    """The leading dimensions are the tensor's; the places and the taps have axes of their own, or the places those of a tensor."""
    taps = node.args[2]
    count = len(taps) if isinstance(taps, tuple) else 0
    lead, sizes = operands[0][:-count], node.meta.shape
    places = [inference.fresh(dim, False) for dim in sizes[-2 * count : -count]]
    if len(operands) > 1:
        _align([operands[1][-count:], tuple(places)], inference.unifier, "windows")
    return (*lead, *places, *(inference.fresh(dim, False) for dim in sizes[-count:]))


def _chunked(operands: list[Shape], node: Node, count: int, unifier: Unifier) -> Shape:
    """A slice takes one chunk of a row that has them; as many chunks as a row has are put side by side."""
    if node.op == "slice":
        last = operands[0][-1]
        if len(last) != 2 or last[0] not in unifier.chunks:
            raise CannotCompileError("`slice` takes a part of a dimension that was flattened", "slice")
        return (*operands[0][:-1], last[1:])
    joined = _align(operands, unifier, node.op)
    if len(operands) != count or len(joined[-1]) != 1:
        raise CannotCompileError("`cat` joins another number of parts than a row has", "cat")
    numbered = unifier.row_of_chunks(count, unifier.size[joined[-1][0]])
    return (*joined[:-1], (numbered[0], *joined[-1]))


def _align(shapes: Iterable[Shape], unifier: Unifier, operator: str) -> Shape:
    shapes = list(shapes)
    rank = max(len(shape) for shape in shapes)
    result: list[Axes] = []
    for position in range(rank):
        dims = [s[position - rank + len(s)] for s in shapes if position - rank + len(s) >= 0]
        dims = [dim for dim in dims if dim]
        dims = [unifier.leaves(dim) for dim in dims]
        for dim in dims[1:]:
            if len(dim) != len(dims[0]) and 1 in (len(dim), len(dims[0])):
                single, cut = sorted((dim, dims[0]), key=len)
                if single[0] in cut or {unifier.find(chunk) for chunk in unifier.chunks} & set(cut):
                    raise CannotCompileError(f"`{operator}` joins dimensions that were flattened differently", operator)
                unifier.splits[unifier.find(single[0])] = cut
                dim = dims[0] = cut
            if len(dim) != len(dims[0]):
                dim = dims[0] = _cut_alike(dims[0], dim, unifier)
            if not dim:
                raise CannotCompileError(f"`{operator}` joins dimensions that were flattened differently", operator)
            for left, right in zip(dims[0], dim, strict=True):
                unifier.join(left, right)
        result.append(dims[0] if dims else ())
    return tuple(result)


def _cut_alike(left: Axes, right: Axes, unifier: Unifier) -> Axes:
    """The axes of a dimension that two tensors flattened from axes, some cut further in one; none if they do not fit."""
    waiting, result = [list(left), list(right)], list[int]()

    def size(axis: int) -> int:
        return unifier.sizes.value(unifier.size[unifier.find(axis)]) if unifier.sizes else 0

    while waiting[0] and waiting[1]:
        sizes = [size(side[0]) for side in waiting]
        whole = int(sizes[0] < sizes[1])  # the side whose axis is longer
        axis, parts, count = waiting[whole].pop(0), list[int](), 1
        while count < sizes[whole] and waiting[1 - whole]:
            parts.append(waiting[1 - whole].pop(0))
            count *= size(parts[-1])
        if count != sizes[whole] or axis in parts[1:] or {*unifier.chunks} & {axis, *parts}:
            return ()
        if len(parts) > 1:
            unifier.splits[unifier.find(axis)] = tuple(parts)
        else:
            unifier.join(axis, parts[0])
        result += parts
    return () if waiting[0] or waiting[1] else tuple(result)


def _expanded(operand: Shape, node: Node, inference: Inference) -> Shape:
    rank = len(node.meta.shape)
    padded = ((),) * (rank - len(operand)) + operand
    pairs = enumerate(zip(padded, node.meta.shape, strict=True))
    return tuple(old or inference.fresh(new, place == rank - 1) for place, (old, new) in pairs)


def _reshaped(operand: Shape, node: Node, unifier: Unifier, sizes: Sizes) -> Shape:
    """Dimensions may be merged, and ones may come and go; a dimension is split only where it was merged before."""
    waiting = list(unifier.leaves(tuple(axis for dim in operand for axis in dim)))
    result: list[Axes] = []
    for dim, after in zip(node.meta.shape, (*node.meta.shape, 1)[1:], strict=True):
        wanted, taken = sizes.value(dim), 1
        axes: list[int] = []
        while taken < wanted and waiting:
            size = sizes.value(unifier.size[waiting[0]])
            if taken == 1 and wanted < size and size % wanted == 0 and waiting[0] not in unifier.chunks:
                # What is left of it may be a scalar, such as the length of a block, and is then not to be divided out again.
                scalar = _names(after) and set(_names(after)) <= sizes.scalars and sizes.value(after) == size // wanted
                waiting[:1] = unifier.cut(waiting[0], dim, after if scalar else None)
            rest = wanted // taken
            # What is left of a dimension may begin the next one, as heads do beside a batch: one of the two halves is a number.
            if taken > 1 and wanted % taken == 0 and rest > 1 and waiting[0] not in unifier.chunks:
                whole = unifier.size[waiting[0]]
                inner = sizes.value(whole) // rest
                if inner > 1 and sizes.value(whole) == rest * inner and min(rest, inner) < FIRST_STAND_IN:
                    outer = rest if rest < FIRST_STAND_IN else _over(whole, inner)
                    waiting[:1] = unifier.cut(waiting[0], outer, inner if outer != rest else None)
            axes.append(waiting.pop(0))
            taken *= sizes.value(unifier.size[axes[-1]])
        if taken != wanted:
            raise CannotCompileError("`reshape` splits a dimension, which it cannot express yet", "reshape")
        result.append(tuple(axes))
    return tuple(result)


def _names(dim: Dim) -> tuple[str, ...]:
    return names_in(dim.text) if isinstance(dim, Expr) else ()


def _reduced(operand: Shape, node: Node) -> Shape:
    dims = reduced_dimensions(node, len(operand))
    keep = bool(node.args[2]) if len(node.args) > 2 else False
    kept = [(() if position in dims else dim, position in dims) for position, dim in enumerate(operand)]
    return tuple(dim for dim, gone in kept if keep or not gone)


def reduced_dimensions(node: Node, rank: int) -> tuple[int, ...]:
    """The dimensions that a reduction runs over, counted from the front; all of them where it names none."""
    dims = integers_of(node.args[1]) if len(node.args) > 1 and node.args[1] is not None else tuple(range(rank))
    return tuple(dim % rank for dim in dims) if dims and rank else tuple(range(rank))
