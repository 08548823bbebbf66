"""A kernel to write: its stores, its form, and the formulas it computes. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field

from gpu_runner.contracts import Pass
from workers.authors.compiler.axes import Chunk
from workers.authors.compiler.domain import FULL, ROW, SCALAR, Domain, Space
from workers.authors.compiler.expressions import COMPARE, FORMULA, ExpressionText
from workers.authors.compiler.host import HostNumber
from workers.authors.compiler.names import TensorNames
from workers.authors.compiler.rerolling import rerolled_loops
from workers.authors.compiler.statements import ScopeStatements, worth_naming, write_loop
from workers.authors.compiler.values import OFFSET, TileValue, topological, use_counts


@dataclass(frozen=True)
class KernelForm:
    """The form of a pass's kernels. ``streamed`` are the graph's names of tensors that are not read again soon.

    Of a ``tunable`` pass the launcher looks settings up and the kernels have constants for them; of one with ``tuned_tiles`` it
    looks the tile up, and the kernels are as they are.
    """

    tunable: bool = False
    tuned_pass: Pass = Pass.forward
    streamed: frozenset[str] = frozenset()
    target: str = "gpu"
    tuned_tiles: bool = False

    @property
    def strides_the_grid(self) -> bool:
        """Whether each program takes many tiles in turn, because the grid has one for each core and no more."""
        return self.target == "ascend"

    @property
    def last_rows_first(self) -> bool:
        """Whether rows are taken from the last one on, which forward left in the L2 cache."""
        return self.tunable and self.tuned_pass is Pass.backward


PLAIN = KernelForm()


@dataclass(frozen=True)
class Store:
    """A tensor that a kernel writes. ``space`` is the tensor's; where the value has rows and it has none, rows are summed."""

    name: str
    value: TileValue
    space: Space
    chunk: Chunk | None = None  # of the tensor that this is a chunk of; its ``node`` is the tensor's name in the module
    piece_names: tuple[str, ...] = ()  # of its chunks, where they have names of their own
    node: str | None = None  # the graph's name of it; None for what forward keeps besides its outputs

    @property
    def pieces(self) -> tuple[Store, ...]:
        """The chunks that a kernel writes one by one, or the tensor itself."""
        if self.value.op != "cat":
            return (self,)
        count = len(self.value.args)
        chunks = (Chunk(self.name, index, count, single=not self.space.cols) for index in range(count))
        values = zip(self.value.args, chunks, strict=True)
        names = self.piece_names or tuple(f"{self.name}_{index}" for index in range(count))
        return tuple(Store(names[chunk.index], value, self.space, chunk) for value, chunk in values)

    @property
    def summed(self) -> bool:
        """Whether programs leave partial sums."""
        return self.value.space.rows and not self.space.rows

    @property
    def buffer(self) -> str:
        """The name of the tensor that the kernel is handed."""
        whole = self.chunk.node if self.chunk else self.name
        return f"{whole}_partials" if self.summed else whole


@dataclass(frozen=True)
class KernelSource:
    """A kernel as source, and what its launch has to pass, in order."""

    name: str
    source: str
    tensors: tuple[str, ...]
    numbers: tuple[HostNumber, ...]
    sizes: tuple[str, ...]
    constants: tuple[str, ...]
    values: tuple[TileValue, ...] = field(repr=False, default=())


@dataclass(frozen=True)
class KernelTask:
    """A kernel to write."""

    name: str
    stores: tuple[Store, ...]
    docstring: tuple[str, ...]
    form: KernelForm = PLAIN

    @property
    def pieces(self) -> tuple[Store, ...]:
        """What the kernel writes, chunk by chunk."""
        return tuple(piece for store in self.stores for piece in store.pieces)

    @property
    def values(self) -> list[TileValue]:
        """Everything the kernel computes, operands first."""
        return topological(piece.value for piece in self.pieces)

    @property
    def reduces_cols(self) -> bool:
        """Whether a row must be seen whole."""
        return (
            self.sums_segments
            or any(value.op in {"over_cols", "scan"} for value in self.values)
            or any(store.summed and store.value.space == ROW for store in self.stores)
        )

    @property
    def sums_rows(self) -> bool:
        """Whether programs keep partial sums over rows."""
        return any(store.summed for store in self.stores)

    @property
    def is_persistent(self) -> bool:
        """Whether few programs take many rows each; sums of whole rows to one number are left a tile at a time instead."""
        return self.sums_rows and (
            not self.reduces_cols or any(store.summed and store.space != SCALAR for store in self.stores)
        )

    @property
    def sums_segments(self) -> bool:
        """Whether segments of rows are summed."""
        return any(store.space.segments for store in self.stores)

    def is_flat(self, domain: Domain) -> bool:
        """Whether the kernel is elementwise, so that rows and columns do not matter."""
        if self.reduces_cols or any(store.space != FULL or store.chunk for store in self.pieces):
            return False
        if any(value.op == "load" and value.datum in domain.chunks for value in self.values):
            return False
        if any(value.op in {"pick", "dot", "row", "column"} for value in self.values):
            return False
        if any(value.space not in {FULL, SCALAR} for value in self.values):
            return False
        loads = [str(value.datum) for value in self.values if value.op == "load" and value.space.rows]
        return all(
            set(domain.rows_of(name)) == set(domain.row_axes) and domain.segments_of(name) is None for name in loads
        )


LOADS = frozenset({"load", "pick"})
FORMULA_WIDTH = 96


def formula_lines(names: TensorNames, stores: tuple[Store, ...], columns: str | None = None) -> tuple[str, ...]:
    """One line for each tensor, after the lines that define what is used more than once.

    ``columns`` is the size that reads ``n_cols``.
    """
    fork = names.fork()
    roots = [store.value for store in stores]
    weights = _weights(topological(roots))
    heavy = {value for value in worth_naming(use_counts(roots)) if weights[value] > 2}

    def scalar(text: str) -> ExpressionText:
        text = text.removeprefix(OFFSET)
        text = "n_cols" if text == columns else text
        return ExpressionText(text) if text.isidentifier() else ExpressionText(text, COMPARE)

    writer = ScopeStatements(fork, scalar, heavy, 0, FORMULA)
    for value in topological(roots):
        if value.op == "load":
            writer.env[value] = names.tensors[str(value.datum)]
        elif value.op in {"column", "row"}:
            writer.env[value] = value.op
        elif value.op in {"dot", "logsumexp", "corrected"}:
            alone = any(store.value is value for store in stores)
            text = names.products.get(str(value.datum), "product")
            writer.env[value] = text if alone else f"({text})"
        elif value.op == "pick":
            writer.env[value] = f"{names.tensors[str(value.datum)]}[{writer.written(value.args[0])}]"
    for loop in rerolled_loops(roots):
        inner = ScopeStatements(fork, scalar, heavy, 1, FORMULA)
        write_loop(writer, inner, loop, f"{loop.count} times:", lambda *_: None)
    for store in stores:
        writer.prepare(store.value)
        if writer.env.get(store.value) == store.name:
            continue
        text = writer.env.get(store.value) or writer.fitted(store.value, FORMULA_WIDTH)
        writer.line(f"{store.name} = sum_rows({text})" if store.summed else f"{store.name} = {text}")
        if not store.summed:
            writer.env.setdefault(store.value, store.name)
    return tuple(writer.lines)


def formula(names: TensorNames, store: Store) -> str:
    """One tensor's formula in one line."""
    lines = formula_lines(names, (store,))
    result = lines[-1].removeprefix(f"{store.name} = ")
    return result if len(lines) == 1 else f"{result} where {', '.join(line.strip() for line in lines[:-1])}"


def _weights(values: list[TileValue]) -> dict[TileValue, int]:
    weights: dict[TileValue, int] = {}
    for value in values:
        weights[value] = 1 + sum(weights[arg] for arg in value.args if arg.args)
    return weights
