"""The iteration space of a graph: rows, columns, and where their elements lie in memory. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from gpu_runner.contracts.graph import Dim, Graph, Node
from workers.authors.compiler.axes import (
    Chunk,
    Chunking,
    Shape,
    find_chunking,
    infer_axes,
    moves_columns,
    reduced_dimensions,
)
from workers.authors.compiler.graph import GATHERS, REDUCTIONS, SCANS, CannotCompileError, Sizes


@dataclass(frozen=True)
class Space:
    """What a value varies over. ``full`` varies over both, ``row`` is one number a row, ``col`` one a column."""

    rows: bool
    cols: bool
    segments: bool = False  # of a tensor that has a number for each segment of a row, the same in all of some rows

    def joined(self, other: Space) -> Space:
        """The space of an operation on both."""
        return Space(self.rows or other.rows, self.cols or other.cols)


SCALAR, ROW, COL, FULL = Space(False, False), Space(True, False), Space(False, True), Space(True, True)
SEGMENT = Space(False, False, True)


@dataclass(frozen=True)
class WindowDim:
    """A dimension that windows are taken along: tap k of place o lies at ``(o * step + k * dilation + offset) / divisor``.

    ``place`` and ``tap`` are the axes, none where there is one. There are ``(size * divisor + end) // step + 1`` places; without
    an ``end`` their number follows from another tensor.
    """

    place: tuple[int, ...]
    tap: tuple[int, ...]
    step: int
    dilation: int
    offset: int
    divisor: int
    end: int | None


@dataclass(frozen=True)
class Window:
    """The windows of the last dimensions of a tensor; ``lowest``: outside of it is minus infinity, else zero."""

    source: str
    lead: tuple[tuple[int, ...], ...]
    dims: tuple[WindowDim, ...]
    lowest: bool

    @staticmethod
    def of(node: Node, shape: Shape) -> Window:
        """The windows that a node gives, whose dimensions have the axes ``shape``."""
        rules = [values for values in node.args[3:7] if isinstance(values, tuple)]
        ends = node.args[7] if isinstance(node.args[7], tuple) else ()
        count = len(rules[0])
        places, taps = shape[-2 * count : -count], shape[-count:]
        steps, dilations, offsets, divisors = [[int(str(value)) for value in values] for values in rules]
        dims = tuple(
            WindowDim(places[i], taps[i], steps[i], dilations[i], offsets[i], divisors[i], end=_end(ends[i]))
            for i in range(count)
        )
        return Window(node.operands[0], shape[: -2 * count], dims, node.args[8] is True)


def _end(value: object) -> int | None:
    return value if isinstance(value, int) else None


@dataclass(frozen=True)
class Domain:
    """Axes of the iteration space, outermost first, and the place of every node in it.

    ``row_axes`` is empty where a problem has only columns; it is then one row.
    """

    row_axes: tuple[int, ...]
    col_axes: tuple[int, ...]
    sizes: dict[int, Dim]
    shapes: dict[str, Shape]
    chunk_axes: frozenset[int] = frozenset()
    chunks: dict[str, Chunk] = field(
        default_factory=dict
    )  # what a kernel loads of a row that holds chunks, by a name of its own
    chunking: Chunking | None = None
    element_axes: frozenset[int] = frozenset()
    order: tuple[int, ...] = ()  # of the axes in memory where it is another than rows, then columns
    windows: Mapping[str, Window] = field(default_factory=dict)  # what is loaded as windows of a tensor, by its node
    numbered: tuple[int, ...] = ()  # the row axes of one matrix of a batch, in which rows are numbered; none: all are

    @property
    def is_strided(self) -> bool:
        """Whether rows and columns lie between each other in memory."""
        return bool(self.order)

    @property
    def memory(self) -> tuple[int, ...]:
        """The axes of a whole tensor as they lie in memory."""
        return self.order or (*self.row_axes, *self.col_axes)

    def axes_of(self, name: str) -> tuple[int, ...]:
        """The axes of a node, outermost first; the numbering of its chunks or elements is none of them."""
        numbering = self.chunk_axes | self.element_axes
        return tuple(axis for dim in self.shapes[name] for axis in dim if axis not in numbering)

    def is_chunked(self, name: str) -> bool:
        """Whether the rows of a tensor hold chunks."""
        return any(axis in self.chunk_axes for dim in self.shapes[name] for axis in dim)

    def base(self, name: str) -> str:
        """The tensor that a chunk belongs to, or that windows are of, or the tensor itself."""
        if name in self.windows:
            return self.windows[name].source
        return self.chunks[name].node if name in self.chunks else name

    def rows_of(self, name: str) -> tuple[int, ...]:
        """The row axes that a node varies over."""
        return tuple(axis for axis in self.axes_of(name) if axis in self.row_axes)

    def segments_of(self, name: str) -> tuple[int, ...] | None:
        """The leading column axes that a tensor has without the others; None where it has all or none."""
        segments = tuple(axis for axis in (self.axes_of(name) if name in self.shapes else ()) if axis in self.col_axes)
        return segments if segments and len(segments) < len(self.col_axes) else None

    @property
    def segment_axes(self) -> tuple[int, ...]:
        """The column axes that number the segments of a row: there are tensors that have one number for each segment."""
        candidates = {axes for name in self.shapes if (axes := self.segments_of(name)) is not None}
        return max(candidates, key=len, default=())

    def space_of(self, name: str) -> Space:
        """The space of a node; without row axes every vector is a row of its own."""
        cols = any(axis in self.col_axes for axis in self.axes_of(name))
        return Space(bool(self.rows_of(name)) or (cols and not self.row_axes), cols)


def find_domains(graph: Graph, dimensions: tuple[str, ...]) -> Iterator[Domain]:
    """The iteration spaces that a graph fits into, the simplest first; the last may need strides in memory.

    Raises:
        CannotCompileError: the nodes do not fit into one space of rows and columns.
    """
    try:
        chunking = find_chunking(graph, dimensions)
    except CannotCompileError:
        if not moves_columns(graph):
            raise
        chunking = None
    even = Sizes.divisible(dimensions, graph)
    shapes, unifier = infer_axes(graph, chunking.sizes if chunking else even, chunking)
    numbering = frozenset(unifier.find(axis) for axis in unifier.chunks)
    stored = _stored(graph)
    elements = frozenset(unifier.find(axis) for axis in unifier.elements)
    without = numbering | elements
    flat = {name: tuple(a for dim in shapes[name] for a in dim if a not in without) for name in shapes}
    moved = {unifier.find(axis) for axis in unifier.moved}
    if any(axis in moved for name in stored for axis in flat[name]):
        raise CannotCompileError("`slice` takes a run of columns that another tensor has as a dimension", "slice")
    for node in graph.nodes:
        if len(shapes[node.name]) > 1 and any(axis in elements for dim in shapes[node.name] for axis in dim):
            sentence = "`slice` takes elements out of a vector that other tensors have as a dimension"
            raise CannotCompileError(sentence, "slice")
    order = max((flat[name] for name in stored), key=len, default=())
    known = {axis for name in stored for axis in flat[name]}
    order = _merged_order(order, [flat[name] for name in stored], known)
    for name in stored:
        if [axis for axis in order if axis in flat[name]] != list(flat[name]):
            raise CannotCompileError(f"`{name}` has its dimensions in another order than the other tensors", "permute")
    sizes = {unifier.find(axis): unifier.size[unifier.find(axis)] for axis in range(len(unifier.parents))}
    fitting: list[Domain] = []
    for split in range(len(order) - 1, -1, -1):
        domain = Domain(
            order[:split], order[split:], sizes, shapes, numbering, chunking=chunking, element_axes=elements
        )
        # Segments of one length alone are numbered: the groups of a norm and their channels are two.
        lengths = {axes for name in stored if (axes := domain.segments_of(name)) is not None}
        if len(lengths) < 2 and _chunks_lead(domain) and all(_fits(domain, node) for node in graph.nodes):
            fitting.append(_with_chunks(domain, graph))
    if not order:
        fitting.append(_with_chunks(Domain((), (), sizes, shapes, element_axes=elements), graph))
    if chunking is None and not moved and not elements:
        fitting[1:1] = _strided(
            order, sizes, shapes, graph
        )  # before splits with longer rows, which fewer programs take
    yield from [domain for domain in fitting if all(_rows_adjoin(domain, name) for name in stored)] or fitting
    if fitting:
        return
    narrowest = Domain(order[:-1], order[-1:], sizes, shapes, numbering)
    worst = next((node for node in graph.nodes if not _fits(narrowest, node)), None)
    if worst is None:
        raise CannotCompileError("tensors have one number each for segments of a row that differ in length")
    sentence = f"`{worst.op}` runs over dimensions that are neither all of the leading nor all of the trailing ones"
    raise CannotCompileError(sentence, worst.op)


@dataclass(frozen=True)
class ProductAxes:
    """The axes of a product: of each matrix of a ``batch`` ``rows`` by ``inner`` times ``inner`` by ``cols``.

    ``left`` and ``right`` are the nodes of the operands, and ``domain`` is the space of the result.
    """

    node: str
    left: str
    right: str
    batch: tuple[int, ...]
    rows: tuple[int, ...]
    cols: tuple[int, ...]
    inner: tuple[int, ...]
    domain: Domain

    def operand(self, *, is_left: bool) -> Domain:
        """The space of an operand; its leading axes are the batch's."""
        rows, cols = (self.rows, self.inner) if is_left else (self.inner, self.cols)
        return replace(self.domain, row_axes=(*self.batch, *rows), col_axes=cols, numbered=rows)


def find_product(graph: Graph, dimensions: tuple[str, ...]) -> ProductAxes:
    """The axes of a graph that holds one product, the result's rows and columns in the order in which outputs are stored.

    Raises:
        CannotCompileError: the graph holds several, or what is around the product lies in another order.
    """
    products = [node for node in graph.nodes if node.op == "matmul"]
    if len(products) > 1:
        raise CannotCompileError("several products meet before anything is stored", "matmul")
    (node,) = products
    shapes, unifier = infer_axes(graph, Sizes.divisible(dimensions, graph))
    left, right = node.operands
    batch = tuple(axis for dim in shapes[node.name][:-2] for axis in dim)
    rows, cols, inner = shapes[node.name][-2], shapes[node.name][-1], shapes[left][-1]
    if not (rows and cols and inner):
        raise CannotCompileError("`matmul` is of a matrix that has one row or one column", "matmul")
    sizes = {unifier.find(axis): unifier.size[unifier.find(axis)] for axis in range(len(unifier.parents))}
    around = epilogue(graph)
    stored = [n.name for n in around if n.op == "input" or n.name in graph.outputs]
    for first, second, given in ((rows, cols, (left, right)), (cols, rows, (right, left))):
        windows = windows_of(graph, shapes)
        domain = Domain((*batch, *first), second, sizes, shapes, windows=windows, numbered=first)
        ordered = all(list(domain.axes_of(n)) == [a for a in domain.memory if a in domain.axes_of(n)] for n in stored)
        if ordered and all(_fits(domain, n) and domain.segments_of(n.name) is None for n in around):
            return ProductAxes(node.name, *given, batch, first, second, inner, domain)
    raise CannotCompileError("a product meets tensors whose dimensions lie in another order than its own", "matmul")


def windows_of(graph: Graph, shapes: Mapping[str, Shape]) -> dict[str, Window]:
    """The windows of a graph by their nodes."""
    return {node.name: Window.of(node, shapes[node.name]) for node in graph.nodes if node.op == "windows"}


def find_windows(graph: Graph, dimensions: tuple[str, ...]) -> Domain:
    """The space of a graph that reduces windows: its rows are the elements of what is stored, its columns what is reduced.

    Raises:
        CannotCompileError: its reductions run over different dimensions, or what is stored has different ones.
    """
    shapes, unifier = infer_axes(graph, Sizes.divisible(dimensions, graph))
    sizes = {unifier.find(axis): unifier.size[unifier.find(axis)] for axis in range(len(unifier.parents))}
    windows = windows_of(graph, shapes)
    reduced = [node for node in graph.nodes if node.op in REDUCTIONS]
    orders = {tuple(a for dim in shapes[n.operands[0]] for a in dim if a in _gone(shapes, n)) for n in reduced}
    rows = {tuple(axis for dim in shapes[name] for axis in dim) for name in graph.outputs}
    lacking = next((n for n in graph.nodes if n.op in GATHERS | SCANS | {"slice", "cat", "matmul"}), None)
    if lacking is not None:
        raise CannotCompileError(f"`{lacking.op}` is of the windows of a tensor", lacking.op)
    if len(orders) != 1 or len(rows) != 1:
        what = reduced[0].op if reduced else "windows"
        raise CannotCompileError(f"`{what}` of the windows of a tensor meets another one of other dimensions", what)
    domain = Domain(rows.pop(), orders.pop(), sizes, shapes, windows=windows)
    known = {*domain.row_axes, *domain.col_axes}
    for node in graph.nodes:
        if node.op != "input" and not known.issuperset(domain.axes_of(node.name)):
            raise CannotCompileError(
                f"`{node.op}` is of dimensions that neither its result nor a reduction has", node.op
            )
    return domain


def epilogue(graph: Graph) -> list[Node]:
    """The nodes that outputs are computed from, up to the product, which is one of them."""
    return nodes_behind(graph, graph.outputs, beyond_products=False)


def nodes_behind(graph: Graph, ends: Iterable[str], *, beyond_products: bool = True) -> list[Node]:
    """The nodes that others are computed from, these included, in the graph's order."""
    needed = set(ends)
    for node in reversed(graph.nodes):
        if node.name in needed and (beyond_products or node.op != "matmul"):
            needed.update(node.operands)
    return [node for node in graph.nodes if node.name in needed]


def _strided(order: tuple[int, ...], sizes: dict[int, Dim], shapes: dict[str, Shape], graph: Graph) -> Iterator[Domain]:
    """Spaces whose columns are the dimensions of a reduction, or that a tensor is repeated along, wherever they lie in memory."""
    reduced = [gone for node in graph.nodes if node.op in REDUCTIONS | SCANS and (gone := _gone(shapes, node))]
    held = [{axis for dim in shapes[name] for axis in dim} for name in _stored(graph)]
    repeated = [set(order) - axes for axes in held if axes]
    candidates = dict.fromkeys(tuple(axis for axis in order if axis in axes) for axes in (*reduced, *repeated))
    for cols in sorted(candidates, key=len):
        rows = tuple(axis for axis in order if axis not in cols)
        domain = Domain(rows, cols, sizes, shapes, order=order)
        if rows and cols and (*rows, *cols) != order and all(_fits_strided(domain, node) for node in graph.nodes):
            stored = [set(domain.axes_of(name)) for name in _stored(graph)]
            # A tensor with columns has all rows, or none: only then one rule says where its elements lie.
            if all(not axes & set(cols) or axes in (set(order), set(cols)) for axes in stored):
                yield domain


def _chunks_lead(domain: Domain) -> bool:
    """Whether chunks are outermost in the columns of a row, which kernels find them by: their columns are all there are."""
    behind = {domain.shapes[name][-1][1:] for name in domain.shapes if domain.is_chunked(name)}
    return all(columns == domain.col_axes for columns in behind)


def _rows_adjoin(domain: Domain, name: str) -> bool:
    """Whether the row axes of a tensor follow each other, so that one rule says where a row of it lies."""
    places = [domain.row_axes.index(axis) for axis in domain.rows_of(name)]
    return places == list(range(places[0], places[-1] + 1)) if places else True


def _gone(shapes: dict[str, Shape], node: Node) -> set[int]:
    operand = shapes[node.operands[0]]
    return {axis for dim in reduced_dimensions(node, len(operand)) for axis in operand[dim]} if operand else set()


def _fits_strided(domain: Domain, node: Node) -> bool:
    axes = domain.axes_of(node.name)
    if (
        node.op in GATHERS
        or (node.op == "arange" and axes != domain.col_axes)
        or not _all_or_none(axes, domain.col_axes)
    ):
        return False
    if node.op not in REDUCTIONS | SCANS:
        return True
    gone = tuple(_gone(domain.shapes, node))
    if node.op in SCANS:
        return set(gone) == set(domain.col_axes)
    operand = node.operands[0]
    return _all_or_none(gone, domain.col_axes) and _all_or_none(gone, domain.rows_of(operand))


def _with_chunks(domain: Domain, graph: Graph) -> Domain:
    """The domain with a name and a shape for each chunk of a tensor that kernels may load."""
    shapes, chunks = dict(domain.shapes), dict[str, Chunk]()
    for node in graph.nodes:
        chunked = [axis for dim in shapes[node.name] for axis in dim if axis in domain.element_axes]
        if node.op in {"input", "upstream"} and chunked:
            count = domain.sizes[chunked[0]]
            for index in range(count if isinstance(count, int) else 0):
                name = f"{node.name} element {index}"
                chunks[name] = Chunk(node.name, index, int(str(count)), single=True)
                shapes[name] = ()
        elif node.op in {"input", "upstream"} and domain.chunking is not None and domain.is_chunked(node.name):
            for index in range(domain.chunking.count):
                name = f"{node.name} part {index}"
                chunks[name] = Chunk(node.name, index, domain.chunking.count)
                shapes[name] = (*shapes[node.name][:-1], shapes[node.name][-1][1:])
    return replace(domain, shapes=shapes, chunks=chunks)


def _stored(graph: Graph) -> list[str]:
    gradients = [gradient for _, gradient in graph.gradients if gradient is not None]
    upstream = [name for name in graph.upstream if name is not None]
    read = {name for node in graph.nodes for name in node.operands} | {name for name, _ in graph.gradients}
    # One that nothing reads tells a step the call's dtype, and has no place in its space.
    inputs = [name for name in graph.inputs if name in read or name in graph.outputs]
    return [*inputs, *upstream, *graph.outputs, *gradients]


def _merged_order(order: tuple[int, ...], others: list[tuple[int, ...]], known: set[int]) -> tuple[int, ...]:
    """Axes that the largest tensor lacks are put where the tensors that have them say."""
    result = list(order)
    for axes in sorted(others, key=len, reverse=True):
        for position, axis in enumerate(axes):
            if axis not in result and axis in known:
                after = [result.index(a) for a in axes[:position] if a in result]
                result.insert(max(after) + 1 if after else 0, axis)
    return tuple(result)


def _fits(domain: Domain, node: Node) -> bool:
    columns = tuple(axis for axis in domain.axes_of(node.name) if axis in domain.col_axes)
    if columns != domain.col_axes[: len(columns)]:
        return False
    if node.op not in REDUCTIONS | GATHERS | SCANS:
        return True
    operand = domain.shapes[node.operands[0]]
    gone = (
        [
            axis
            for dim in reduced_dimensions(node, len(operand))
            for axis in operand[dim]
            if axis not in domain.chunk_axes | domain.element_axes
        ]
        if operand
        else []
    )
    rows = [axis for dim in operand for axis in dim if axis in domain.row_axes]
    if node.op in GATHERS | SCANS:
        return tuple(gone) == domain.col_axes
    return is_segment_sum(domain, tuple(gone), node.op) or (
        _all_or_none(tuple(gone), domain.col_axes) and _all_or_none(tuple(gone), tuple(rows))
    )


def is_segment_sum(domain: Domain, gone: tuple[int, ...], operator: str) -> bool:
    """Whether a sum runs over the first of the row axes and the last of the column axes, as for a weight of each channel."""
    rows = tuple(axis for axis in gone if axis in domain.row_axes)
    cols = tuple(axis for axis in gone if axis in domain.col_axes)
    first, last = rows == domain.row_axes[: len(rows)], cols == domain.col_axes[len(domain.col_axes) - len(cols) :]
    partly = 0 < len(rows) < len(domain.row_axes) or (len(rows) > 0 and 0 < len(cols) < len(domain.col_axes))
    return operator == "sum" and first and last and partly and len(cols) > 0


def _all_or_none(axes: tuple[int, ...], wanted: tuple[int, ...]) -> bool:
    present = [axis for axis in wanted if axis in axes]
    return not present or len(present) == len(wanted)


@dataclass(frozen=True)
class Run:
    """Dimensions that lie side by side in memory and are all of rows, or all of columns."""

    is_row: bool
    axes: tuple[int, ...]


def runs_of(domain: Domain) -> tuple[Run, ...]:
    """The runs of a whole tensor, outermost first."""
    runs: list[Run] = []
    for axis in domain.order:
        is_row = axis in domain.row_axes
        if runs and runs[-1].is_row == is_row:
            runs[-1] = Run(is_row, (*runs[-1].axes, axis))
        else:
            runs.append(Run(is_row, (axis,)))
    return tuple(runs)


def run_sizes(domain: Domain) -> tuple[str, ...]:
    """The names of the sizes that a kernel needs to find an element: of every run but the outermost."""
    return tuple(f"run_{place}" for place in range(1, len(runs_of(domain)))) if domain.is_strided else ()


def place_of(domain: Domain, index: str, rows: bool) -> str:
    """The offset of the row, or the column, of number ``index`` from the tensor's first element."""
    runs = runs_of(domain)
    own = [place for place, run in enumerate(runs) if run.is_row == rows]
    terms = []
    for place in own:
        inner = [f"run_{other}" for other in own if other > place]
        text = f"{index} // {_product_of(inner)}" if inner else index
        if place != own[0]:
            text = f"({text}) % run_{place}" if inner else f"{text} % run_{place}"
        stride = [f"run_{other}" for other in range(place + 1, len(runs))]
        wide = " * ".join([f"tl.cast({stride[0]}, tl.int64)", *stride[1:]]) if stride else ""
        text = f"({text})" if " " in text else text
        terms.append(f"{text} * ({wide})" if len(stride) > 1 else f"{text} * {wide}" if wide else text)
    return " + ".join(terms)


def _product_of(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"({' * '.join(names)})"
