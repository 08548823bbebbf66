"""The schedule of chained products: what several products give stays on the chip, where another one takes it. Pure.

Attention is the reason for it. Forward keeps the running maximum and sum of each row; backward has the probabilities again from
what forward left of them, and computes the gradients of rows and of columns in kernels of their own, without atomics.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Self

from workers.authors.compiler.attention import EXACT, HIGHEST
from workers.authors.compiler.chained import (
    NO_BOUNDS,
    Axes,
    Chained,
    InnerRows,
    OuterProduct,
    Tensor,
    bounds_of,
    inside,
    powers_of,
    vanishes,
    with_factor,
)
from workers.authors.compiler.domain import ROW
from workers.authors.compiler.expressions import COMPARE, FORMULA, ExpressionText
from workers.authors.compiler.graph import CannotCompileError
from workers.authors.compiler.host import HostScope, Scalars
from workers.authors.compiler.kernels import KernelSource, KernelTask
from workers.authors.compiler.names import TensorNames
from workers.authors.compiler.program import ValueProgram
from workers.authors.compiler.schedules.base import KernelWriter, Knobs, Schedule, started
from workers.authors.compiler.schedules.product import nearest
from workers.authors.compiler.statements import INDENT, ScopeStatements, worth_naming
from workers.authors.compiler.values import TileValue, ValueNumbering, topological, use_counts

# Measured: H200, bfloat16, 8 x 12 heads of 64, 1024 tokens, a mask: 123 us forward, 397 us for all gradients with blocks of 64 x 64
# and 4 warps; 137 and 456 us with 128 rows, and 8 warps for the gradients.
CHAINED_SETTINGS = '''def _chained_settings(device, n_rows, n_inner, width, dtype, n_scores):
    """Blocks of rows and of inner rows that registers hold, and as many stages as shared memory does, by the width of a row.

    A first guess that tuning is to better; n_scores is how many products a block is computed from.
    """
    if width > 65536:
        raise ValueError(f"{width} elements of a row are more than one block holds")
    capacity = 98304
    if device.type == "cuda":
        capacity = torch.cuda.get_device_properties(device).shared_memory_per_block_optin
    if width <= 64:
        whole, half = (64, 32, 4, 2), (64, 64, 4, 3 if n_scores == 1 else 2)
    elif width <= 128:
        whole, half = (64, 32, 4, 2), (128, 64, 8, 3 if n_scores == 1 else 2)
    else:
        whole, half = (32, 16, 4, 1), (64, 32, 4, 2) if n_scores == 1 else (64, 16, 8, 1)
    tiles = {torch.float32: whole, torch.bfloat16: half, torch.float16: half}
    BLOCK_M, BLOCK_N, num_warps, num_stages = tiles[dtype]
    BLOCK_M = min(BLOCK_M, max(16, triton.next_power_of_2(n_rows)))
    BLOCK_N = min(BLOCK_N, max(16, triton.next_power_of_2(n_inner)))
    row_bytes = triton.next_power_of_2(width) * dtype.itemsize
    left = capacity - n_scores * BLOCK_M * row_bytes
    num_stages = max(1, min(num_stages, left // (2 * BLOCK_N * row_bytes)))
    return BLOCK_M, BLOCK_N, num_warps, num_stages'''

TILE = ("BLOCK_M", "BLOCK_N")
WIDTHS = ("BLOCK_D", "BLOCK_E")
INFINITE = '-float("inf")'


@dataclass(frozen=True)
class ChainedSchedule(Schedule):
    """A program computes a block of rows of the results, and goes through the inner rows block by block."""

    SOURCES: ClassVar = {"_chained_settings(": CHAINED_SETTINGS}

    sizes: Mapping[str, Axes] = field(
        default_factory=dict
    )  # sizes and strides of the kernel: products of the sizes of axes

    @staticmethod
    def fits(task: KernelTask, program: ValueProgram) -> bool:
        return program.chained is not None

    @classmethod
    def of(cls, program: ValueProgram, names: TensorNames, scalars: Scalars, task: KernelTask, host: HostScope) -> Self:
        """Writes the kernel."""
        writer = ChainedKernel(program, names, scalars, task)
        kernel = writer.write()
        return cls(program, task, kernel, host, sizes=writer.sizes)

    @property
    def _chained(self) -> Chained:
        assert self.program.chained is not None
        return self.program.chained

    @property
    def _widths(self) -> list[str]:
        return [name for name in self.sizes if name.startswith("width")]

    @property
    def settings(self) -> dict[str, str]:
        """The blocks, warps and stages."""
        return {name: name for name in (*TILE, "num_warps", "num_stages")}

    def setting_lines(self) -> list[str]:
        """Lines that choose the settings by the sizes."""
        chosen = (*TILE, "num_warps", "num_stages")
        widest = self._widths[0] if len(self._widths) == 1 else f"max({', '.join(self._widths)})"
        arguments = f"{self.source}.device, n_rows, n_inner, {widest}, {self.source}.dtype, {len(self._chained.scores)}"
        lines = [f"{', '.join(chosen)} = _chained_settings({arguments})"]
        return [*lines, *(self.tuned_lines("n_rows * n_inner", "BLOCK_M", "BLOCK_N") if self.form.tunable else [])]

    def size_lines(self) -> list[str]:
        """Lines that compute the sizes that the launch asks for."""
        chained = self._chained
        lines = [f"n_rows = {self.host.product(chained.rows)}", f"n_inner = {self.host.product(chained.inner)}"]
        lines += [f"{name} = {self.host.product(self.sizes[name])}" for name in self._widths]
        kept = tuple(axis for axis in chained.batch if axis not in chained.summed)
        lines += [f"n_batches = {self.host.product(kept)}"] if kept else []
        return [*lines, *([f"n_cols = {self.host.cols}"] if "n_cols" in self.kernel.sizes else [])]

    def launch_lines(self) -> list[str]:
        """Lines that start a program for each block of rows."""
        own = {n: f'tuned["{n}"]' if self.form.tunable else n for n in ("num_warps", "num_stages")}
        constants = {name: name for name in TILE} | {"PRECISION": f"_precision({self.source}.device)"}
        constants |= {
            block: f"max(16, triton.next_power_of_2({width}))"
            for block, width in zip(WIDTHS, self._widths, strict=False)
        }
        tiles = "triton.cdiv(n_rows, BLOCK_M)"
        grid = f"(n_batches * {tiles},)" if {*self._chained.batch} - {*self._chained.summed} else f"({tiles},)"
        lines = started(self.kernel, grid, constants, own["num_warps"], own["num_stages"])
        values = {n: self.host.product(axes) for n, axes in self.sizes.items() if n not in self._widths}
        return [line.replace(name, values[name]) if (name := line.strip(" ,")) in values else line for line in lines]

    def knobs(self, cols: list[int]) -> Knobs:
        """The blocks first, then what hides loads."""
        return [("BLOCK_M", (64, 128)), ("BLOCK_N", (32, 64, 128)), ("num_warps", (4, 8)), ("num_stages", (2, 3, 4))]

    @property
    def grid(self) -> tuple[str, str]:
        """One dimension, the blocks of a matrix one after the other."""
        return "1D", "a block of rows of the results a program, which goes through what they are summed over"


@dataclass(frozen=True)
class AxisRole:
    """Axes that one index of a kernel runs over, and how the strides along them are called."""

    axes: Axes
    index: str
    suffix: str


class ChainedKernel(KernelWriter):
    """Computes scores of a block of rows and of inner rows, what follows from them, and multiplies it on."""

    def __init__(self, program: ValueProgram, names: TensorNames, scalars: Scalars, task: KernelTask) -> None:
        super().__init__(program, names, scalars, task)
        assert program.chained is not None
        self.chained: Chained = program.chained
        self.operands = self.chained.operands
        self.sizes: dict[str, Axes] = {}
        self._widths: dict[Axes, tuple[str, str, str]] = {}  # index, mask and block of features
        self._tiles: dict[tuple[str, bool], str] = {}
        self._used: set[str] = set()
        self._left = {str(v.datum): v.args[0] for v in task.values if v.op == "dot" and v.args}
        self._numbering = ValueNumbering()
        roots = list(self._left.values())
        self.bounds, self._complete = self._find_bounds(roots)
        scaled = {name: with_factor(self._numbering, root) for name, root in self._left.items()}
        self._factors = {name: factor for name, (factor, _) in scaled.items()}
        self._left = {name: value for name, (_, value) in scaled.items()}
        self._by: dict[str, str] = {}  # " * " and the number that scores, or a result, are multiplied by
        self._deltas: dict[TileValue, str] = {}
        self._rest: list[str] = []  # lines of the loop that computes what a sum over the inner rows lacks

    @property
    def read(self) -> tuple[TileValue, ...]:
        """The operands' tensors, then the others."""
        return (*self.operands, *self.loads)

    def _find_bounds(self, roots: list[TileValue]) -> tuple[InnerRows, str]:
        """Which inner rows are met, and the condition under which no row is without one, where sizes decide that.

        A row of which nothing is left has NaN for its gradients, and gives it to all of the others: none may be passed over.
        """
        if self.chained.is_softmax:
            return bounds_of(roots[0]), ""
        powers = powers_of(roots)
        if len(powers) != 1 or not all(vanishes(root, frozenset(powers)) for root in roots):
            return NO_BOUNDS, ""
        logarithm = powers[0].args[0].args[1]
        bounds = bounds_of(powers[0].args[0].args[0])
        least, most, sizes = bounds.least, bounds.most, ("n_rows", "n_inner")
        if not {*self.chained.rows} & {*self._axes(str(logarithm.datum))}:  # the program's rows are the scores' columns
            least, most, sizes = None if most is None else -most, None if least is None else -least, sizes[::-1]
        if (most is not None and most < 0) or (least is not None and most is not None and least > most):
            return NO_BOUNDS, ""
        return bounds, f"{sizes[0]} + {least} <= {sizes[1]}" if least is not None else ""

    def write(self) -> KernelSource:
        """The kernel as source."""
        chained, head, body = self.chained, self.scope(), self.scope()
        self._roles = self._batch_roles()
        self._find_widths()
        self._begin(head)
        loop, depth = self._loop()
        depth += bool(chained.summed)
        turn = ScopeStatements(self.names, self.scalars.written, set(), depth)
        before = self.scope()
        turn.line("inner = start + tl.arange(0, BLOCK_N)")
        turn.line(f"inner_mask = inner < n_inner if {self._cut} else tl.full((BLOCK_N,), True, dtype=tl.int1)")
        totals = {name: self.names.free("product") for name in self._left}
        for name, factor in self._factors.items():
            if factor.number != 1:
                text = before.operand(factor).text
                self._by[name] = f" * {text if text.isidentifier() or factor.number else f'({text})'}"
        state = self._turn(before, turn, totals)
        for name, total in totals.items():
            before.line(f"{total} = tl.zeros((BLOCK_M, {self._block(chained.results[name])}), dtype=tl.float32)")
        once, again = before.lines + self._corrected(loop), list[str]()
        if chained.summed:
            again = [INDENT + line for line in once if re.search(r"\bmember\b", line)]
            once = [line for line in once if not re.search(r"\bmember\b", line)]
            once += [f"{INDENT}for number in range(0, n_members):", f"{INDENT * 2}member = tl.cast(number, tl.int64)"]
            loop = [INDENT + line for line in loop]
        lines = [*head.lines, *once, *again, *loop, *turn.lines, ""]
        self._finish(body, totals, state)
        partial = ("n_cols",) if self.scalars.needs_n_cols else ()
        batch = tuple(name for name in self.sizes if name.startswith(("n_batch_", "n_members")))
        widths = tuple(name for name in self.sizes if name.startswith("width"))
        strides = tuple(name for name in self.sizes if name not in (*batch, *widths))
        constants = (*TILE, *WIDTHS[: len(widths)], "PRECISION")
        sizes = ("n_rows", "n_inner", *widths, *batch, *strides, *partial)
        return self.finish([*self.scalar_lines(), *lines, *body.lines], sizes, constants)

    def _axes(self, node: str) -> Axes:
        return tuple(axis for dim in self.chained.shapes[node] for axis in dim)

    @property
    def _stored(self) -> list[str]:
        return [str(store.node) for store in self.task.stores]

    def _batch_roles(self) -> list[AxisRole]:
        """The batch in runs of axes that each tensor has side by side, or not at all; ``member`` is added up over."""
        tensors = [self._axes(str(load.datum)) for load in self.read] + [self._axes(node) for node in self._stored]
        runs: list[Axes] = []
        for axis in self.chained.batch:
            last = runs[-1] if runs else ()
            joined = bool(last) and all(
                (axis in axes) == (last[-1] in axes)
                and (axis not in axes or axes.index(axis) == axes.index(last[-1]) + 1)
                for axes in tensors
            )
            joined = joined and (axis in self.chained.summed) == (last[-1] in self.chained.summed)
            runs[len(runs) - joined :] = [(*last, axis) if joined else (axis,)]
        summed = [run for run in runs if run[0] in self.chained.summed]
        if len(summed) > 1:
            raise CannotCompileError("products of products are summed over several dimensions", "matmul")
        for run in summed:
            self.sizes["n_members"] = run
        kept = [run for run in runs if run not in summed]
        names = ["batch"] if len(kept) == 1 else [f"batch_{index}" for index in range(len(kept))]
        members = [AxisRole(run, "member", "member") for run in summed]
        return [*(AxisRole(run, name, name) for run, name in zip(kept, names, strict=True)), *members]

    def _find_widths(self) -> None:
        tensors = [tensor for score in self.chained.scores.values() for tensor in (score.rows, score.inner)]
        tensors += [result.right for result in self.chained.results.values()]
        for features in dict.fromkeys(tensor.features for tensor in tensors):
            number = len(self._widths)
            if number == len(WIDTHS):
                raise CannotCompileError("products of products are of rows of many widths", "matmul")
            end = f"_{number + 1}" if number else ""
            names = (self.names.free(f"features{end}"), self.names.free(f"features{end}_mask"), WIDTHS[number])
            self._widths[features] = names
            self.sizes[f"width{end}"] = features

    def _block(self, result: OuterProduct) -> str:
        return self._widths[result.right.features][2]

    def _begin(self, head: ScopeStatements) -> None:
        head.line("n_tiles = tl.cdiv(n_rows, BLOCK_M)")
        if self.bounds.most is not None:
            head.line("# The last rows meet most, and begin first.")
            head.line("tile = n_tiles - 1 - tl.program_id(0) % n_tiles")
        else:
            head.line("tile = tl.program_id(0) % n_tiles")
        kept = [role for role in self._roles if role.suffix != "member"]
        if kept:
            head.line("batch = (tl.program_id(0) // n_tiles).to(tl.int64)")
        for place in range(len(kept) - 1, 0, -1):
            self.sizes[f"n_batch_{place}"] = kept[place].axes
            head.line(f"batch_{place} = batch % n_batch_{place}")
            head.line(f"{'batch' if place > 1 else 'batch_0'} = batch // n_batch_{place}")
        head.line("rows = (tile * BLOCK_M + tl.arange(0, BLOCK_M)).to(tl.int64)[:, None]")
        head.line("row_mask = rows < n_rows")
        for (index, mask, block), name in zip(
            self._widths.values(), [n for n in self.sizes if n.startswith("width")], strict=True
        ):
            head.line(f"{index} = tl.arange(0, {block})[None, :]")
            head.line(f"{mask} = {index} < {name}")

    def _loop(self) -> tuple[list[str], int]:
        """The lines that open the loop over the inner rows, and the depth of what is in it.

        Blocks of which every element counts need no mask; they have a part of the loop of their own.
        """
        least, most = self.bounds.least, self.bounds.most

        def plus(number: int) -> str:
            return f" + {number}" if number > 0 else f" - {-number}" if number else ""

        lines = ["end = n_inner", "whole_end = n_inner // BLOCK_N * BLOCK_N"]
        if most is not None:
            lines = [
                f"end = max(0, min(n_inner, (tile + 1) * BLOCK_M{plus(most)}))",
                f"whole_end = max(0, min(n_inner, tile * BLOCK_M{plus(most + 1)})) // BLOCK_N * BLOCK_N",
            ]
        spans = [("0", "whole_end"), ("whole_end", "end")]
        if least is not None:
            lines += [
                f"begin = max(0, tile * BLOCK_M{plus(least)}) // BLOCK_N * BLOCK_N",
                f"whole_begin = tl.cdiv(max(0, (tile + 1) * BLOCK_M{plus(least - 1)}), BLOCK_N) * BLOCK_N",
                "whole_end = max(whole_begin, whole_end)",
            ]
            spans = [("begin", "min(whole_begin, end)"), ("whole_begin", "whole_end"), ("whole_end", "end")]
        if self._complete:
            ends = [name for name, bound in (("begin", least), ("end", most)) if bound is not None]
            lines.append(
                "# A row that a mask leaves nothing has NaN for its gradients, and nothing may be passed over."
            )
            lines.append(f"complete = {self._complete}")
            lines += [f"{n} = tl.where(complete, {n}, {'0' if n == 'begin' else 'n_inner'})" for n in ends]
        lines.append(f"for part in tl.static_range({len(spans)}):")
        texts = [spans[0][0], spans[0][1]]
        for place in (0, 1):
            text = spans[-1][place]
            for index in range(len(spans) - 2, -1, -1):
                text = f"{spans[index][place]} if part == {index} else {text}"
            texts[place] = text
        lines.append(f"{INDENT}for start in range({texts[0]}, {texts[1]}, BLOCK_N):")
        return [INDENT + line for line in lines], 3

    @property
    def _cut(self) -> str:
        """The condition under which a mask may cut into a block."""
        return "part == 1" if self.bounds.least is None else "part != 1"

    def _terms(self, node: str, roles: list[AxisRole]) -> list[str]:
        """What indices add to a tensor's offset."""
        axes, tensor, terms, known = self._axes(node), self.names.tensors[node], list[str](), set[int]()
        for role in roles:
            if not {*role.axes} & {*axes}:
                continue
            first = axes.index(role.axes[0]) if role.axes[0] in axes else -1
            if axes[first : first + len(role.axes)] != role.axes:
                raise CannotCompileError(
                    f"`matmul` takes `{tensor}`, whose dimensions do not lie side by side", "matmul"
                )
            known |= {*role.axes}
            behind = axes[first + len(role.axes) :]
            stride = f"{tensor}_stride_{role.suffix}"
            if self.sizes.get(stride, behind) != behind:
                stride = self.names.free(stride)
            if behind:
                self.sizes[stride] = behind
            terms.append(f"{role.index} * {stride}" if behind else role.index)
        if known != {*axes}:
            raise CannotCompileError(f"products of products meet `{tensor}`, which has other dimensions", "matmul")
        return terms

    def _name(self, tensor: str) -> str:
        """A tensor's own name the first time, then names like it."""
        name = self.names.free(tensor) if tensor in self._used else tensor
        self._used.add(tensor)
        return name

    def _tile(self, before: ScopeStatements, turn: ScopeStatements, tensor: Tensor, *, is_inner: bool) -> str:
        """The rows of an operand, loaded once: before the loop, or in every turn."""
        key = (tensor.node, is_inner)
        if key in self._tiles:
            return self._tiles[key]
        name = self._name(self.names.tensors[tensor.node])
        pointer = f"{self.names.tensors[tensor.node]}_ptr"
        index, mask, _ = self._widths[tensor.features]
        features = AxisRole(tensor.features, index, "feature")
        if not is_inner:
            terms = self._terms(tensor.node, [*self._roles, AxisRole(self.chained.rows, "rows", "row"), features])
            before.line(f"{name} = tl.load({' + '.join([pointer, *terms])}, mask=row_mask & {mask}, other=0.0)")
        else:
            own = self._terms(tensor.node, [*self._roles, AxisRole(self.chained.inner, "#", "inner"), features])
            place = next(index for index, term in enumerate(own) if term.startswith("#"))
            step = own[place].removeprefix("#").removeprefix(" * ")
            stride = f" * {step}" if step else ""
            first, offsets = self.names.free(f"{name}_first"), self.names.free(f"{name}_offsets")
            before.line(f"{first} = {' + '.join([pointer, *own[:place]])}")
            inner = [f"tl.arange(0, BLOCK_N)[:, None]{stride}", *own[place + 1 :]]
            fixed = [term for term in inner if term.startswith(("batch", "member"))]
            if fixed:  # of a tensor whose batch lies within its rows
                before.lines[-1] += "".join(f" + {term}" for term in fixed)
            before.line(f"{offsets} = {' + '.join(term for term in inner if term not in fixed)}")
            turn.line(
                f"{name} = tl.load({first} + tl.cast(start, tl.int64){stride} + {offsets}, "
                f"mask=inner_mask[:, None] & {mask}, other=0.0)"
            )
        self._tiles[key] = name
        return name

    def _turn(self, before: ScopeStatements, turn: ScopeStatements, totals: Mapping[str, str]) -> tuple[str, str]:
        """A block of scores, what follows from it, and its products; returns the names of the running maximum and sum."""
        chained, state = self.chained, ("", "")
        if chained.is_softmax:
            state = (self.names.free("row_max"), self.names.free("denominator"))
            before.line(f"{state[0]} = tl.full((BLOCK_M, 1), {INFINITE}, dtype=tl.float32)")
            # Without keys a row is zero: its sum begins at one, of which the first block, wherever there is one, leaves nothing.
            # A row of which a mask's bounds leave no block is NaN, or what its guard says.
            bounded = self.bounds.least is not None or self.bounds.most is not None
            before.line(f"{state[1]} = tl.full((BLOCK_M, 1), {0.0 if bounded else 1.0}, dtype=tl.float32)")
        order = sorted(self._left, key=lambda name: sum(v.op == "dot" for v in topological([self._left[name]])))
        corrected = {str(v.datum): v for v in self.task.values if v.op == "corrected"}
        whole = self._left | {name: value.args[0] for name, value in corrected.items()}
        free = dict(zip(whole, inside(self._numbering, list(whole.values()), self.bounds), strict=True))
        turn.env |= {value: "inner[None, :]" for value in topological(whole.values()) if value.op == "column"}
        turn.env |= {value: "rows" for value in topological(whole.values()) if value.op == "row"}
        for name, value in corrected.items():
            self._load(before, turn, whole[name])
            weights = self._weights(turn, whole[name], free[name])
            self._deltas[value] = turn.env[value.args[1]]
            self._rest = [*turn.lines, f"{INDENT * turn.depth}rest += tl.sum({weights}, axis=1, keep_dims=True)"]
        for name in order:
            self._load(before, turn, whole[name])
            weights = self._weights(turn, whole[name], free[name])
            right = self._tile(before, turn, chained.results[name].right, is_inner=True)
            if chained.is_softmax:
                weights = self._online(turn, weights, totals[name], state, self._by.get(name, ""))
            both = f"{nearest(f'{weights}.to({right}.dtype)')}, {nearest(right)}"
            turn.line(f"{totals[name]} = tl.dot({both}, {totals[name]}, input_precision=PRECISION)")
        return state

    def _corrected(self, loop: list[str]) -> list[str]:
        """The lines that add to a sum over the inner rows what it lacks, in float32; halves round more than that."""
        if not self._rest:
            return []
        ((_, delta),) = self._deltas.items()
        tile = next(name for (_, is_inner), name in self._tiles.items() if not is_inner)
        lines = [
            f"{INDENT}rest = tl.zeros((BLOCK_M, 1), dtype=tl.float32)",
            *loop,
            *self._rest,
            f"{INDENT}{delta} += rest",
        ]
        return [f"{INDENT}if {tile}.dtype == tl.float32:", *(INDENT + line for line in lines)]

    def _load(self, before: ScopeStatements, turn: ScopeStatements, value: TileValue) -> None:
        """Load what a value is computed from, and multiply it."""
        for one in topological([value]):
            if one in turn.env:
                continue
            if one.op == "dot":
                score = self.chained.scores[str(one.datum)]
                left = self._tile(before, turn, score.rows, is_inner=False)
                right = self._tile(before, turn, score.inner, is_inner=True)
                kinds = {self.program.fixed_dtype(tensor.node) for tensor in (score.rows, score.inner)}
                cast = ".to(tl.float32)" if len(kinds) > 1 else ""
                turn.env[one] = self.names.of(one)
                both = f"{nearest(f'{left}{cast}')}, tl.trans({nearest(f'{right}{cast}')})"
                turn.line(f"{turn.env[one]} = tl.dot({both}, input_precision=PRECISION)")
            elif one.op == "load":
                turn.env[one] = self._element(before, turn, one)

    def _element(self, before: ScopeStatements, turn: ScopeStatements, load: TileValue) -> str:
        """A tensor that meets the scores element by element."""
        node, tensor = str(load.datum), self.tensor(load)
        name = self._name(tensor)
        rows, inner = (
            AxisRole(self.chained.rows, "rows", "row"),
            AxisRole(self.chained.inner, "inner[None, :].to(tl.int64)", "inner"),
        )
        terms = self._terms(node, [*self._roles, rows, inner])
        moving = [term for term in terms if term.startswith("inner")]
        masks = ["row_mask"] if any(term.startswith("rows") for term in terms) else []
        masks += ["inner_mask[None, :]"] if moving else []
        given = f", mask={' & '.join(masks)}, other={self.fill(load)}" if masks else ""
        place = " + ".join([f"{tensor}_ptr", *(term for term in terms if term not in moving)])
        if moving:
            pointer = self.names.free(f"{name}_rows")
            before.line(f"{pointer} = {place}")
            place = " + ".join([pointer, *moving])
        scope = turn if moving else before
        text = f"tl.load({place}{given})"
        is_float32 = self.program.fixed_dtype(node) == "float32"
        scope.line(f"{name} = {text if is_float32 else self.converted(text, load)}")
        return name

    def _weights(self, turn: ScopeStatements, value: TileValue, free: TileValue) -> str:
        """What the inner rows are multiplied by: of blocks that a mask may cut, with the mask."""
        outside = INFINITE if self.chained.is_softmax else "0.0"
        wanted = self.names.free("scores" if self.chained.is_softmax else "weights")
        shared = worth_naming(use_counts([value]))

        def branch(of: TileValue, text: str, head: str) -> None:
            scope = ScopeStatements(self.names, self.scalars.written, worth_naming(use_counts([of])), turn.depth + 1)
            scope.env = dict(turn.env)
            turn.line(head)
            turn.lines += [*self._assigned(scope, of, wanted, text)]

        masked = "tl.where(inner_mask[None, :], {}, " + outside + ")"
        if free is value:
            scope = ScopeStatements(self.names, self.scalars.written, shared, turn.depth)
            scope.env = dict(turn.env)
            turn.lines += self._assigned(scope, value, wanted, "{}")
            turn.line(f"if {self._cut}:")
            turn.line(f"{INDENT}{wanted} = {masked.format(wanted)}")
        else:
            branch(value, masked, f"if {self._cut}:")
            branch(free, "{}", "else:")
        turn.env[value] = turn.env[free] = wanted
        return wanted

    @staticmethod
    def _assigned(scope: ScopeStatements, value: TileValue, name: str, form: str) -> list[str]:
        text = scope.env.get(value) or scope.fitted(value)
        scope.line(f"{name} = {form.format(text)}")
        return scope.lines

    def _online(self, turn: ScopeStatements, scores: str, total: str, state: tuple[str, str], by: str) -> str:
        """The powers of a block of scores; what was added up is scaled to a maximum that may have risen."""
        top, denominator = state
        new, shift, rescale, powers = (self.names.free(name) for name in (f"next_{top}", "shift", "rescale", "powers"))
        turn.line(f"{new} = tl.maximum({top}, tl.max({scores}, axis=1, keep_dims=True))")
        turn.line("# A row of which a mask has left nothing so far stays at zero.")
        turn.line(f"{shift} = tl.where({new} == {INFINITE}, 0.0, {new})")
        form = f"tl.exp2(({{}} - {shift}){by})" if by else f"tl.exp2({{}} - {shift})"
        turn.line(f"{powers} = {form.format(scores)}")
        turn.line(f"{rescale} = {form.format(top)}")
        turn.line(f"{denominator} = {denominator} * {rescale} + tl.sum({powers}, axis=1, keep_dims=True)")
        turn.line(f"{total} = {total} * {rescale}")
        turn.line(f"{top} = {new}")
        return powers

    def _finish(self, body: ScopeStatements, totals: Mapping[str, str], state: tuple[str, str]) -> None:
        """What follows from the results, and the stores."""
        top, denominator = state
        finished: set[str] = set()  # outputs have a value each for a product that they share
        for value in self.task.values:
            if value.op == "dot" and value.args:
                total = body.env[value] = totals[str(value.datum)]
                if total in finished:
                    continue
                finished.add(total)
                if denominator and self.chained.is_safe:
                    body.line("# A row of which a mask leaves nothing is zero.")
                    body.line(f"{total} = tl.where({denominator} == 0.0, 0.0, {total} / {denominator})")
                elif denominator:
                    body.line(f"{total} = {total} / {denominator}")
                elif str(value.datum) in self._by:
                    body.line(f"{total} = {total}{self._by[str(value.datum)]}")
            elif value.op == "logsumexp":
                is_top = str(value.datum).endswith(HIGHEST)
                text, empty = (top, "0.0") if is_top else (f"tl.log2({denominator})", 'float("inf")')
                safe = f"tl.where({denominator} == 0.0, {empty}, {text})"
                body.env[value] = safe if self.chained.is_safe else text
            elif value.op == "corrected":
                body.env[value] = self._deltas[value]
        outer = self._results_loads()
        for load, tensor in outer.items():
            body.env[load] = self._epilogue(body, load, tensor)
        for store in self.task.stores:
            text = body.env.get(store.value) or body.assign(store.value, self.names.free(store.name))
            node = str(store.node)
            own = next(
                (self.chained.results[str(v.datum)] for v in topological([store.value]) if v.op == "dot" and v.args),
                None,
            )
            roles = [*self._roles, AxisRole(self.chained.rows, "rows", "row")]
            mask = "row_mask"
            if own is not None and store.value.space != ROW:
                index, features_mask, _ = self._widths[own.right.features]
                roles.append(AxisRole(own.right.features, index, "feature"))
                mask = f"row_mask & {features_mask}"
            self.names.tensors.setdefault(node, store.buffer)
            place = " + ".join([f"{store.buffer}_ptr", *self._terms(node, roles)])
            if node.endswith(EXACT):  # in float32 that of the result itself
                rounded = next(o.buffer for o in self.task.stores if o.node == node.removesuffix(EXACT))
                body.line(f"if {store.buffer}_ptr.dtype.element_ty != {rounded}_ptr.dtype.element_ty:")
                body.line(f"{INDENT}tl.store({place}, {text}, mask={mask})")
            else:
                body.line(f"tl.store({place}, {text}, mask={mask})")

    def _results_loads(self) -> dict[TileValue, Tensor]:
        """What results meet after the loop, with a tensor of the same features."""
        found: dict[TileValue, Tensor] = {}
        for store in self.task.stores:
            waiting, seen, tensors = [store.value], set[TileValue](), list[Tensor]()
            loads = list[TileValue]()
            while waiting:
                value = waiting.pop()
                if value in seen:
                    continue
                seen.add(value)
                if value.op == "dot" and value.args:
                    tensors.append(self.chained.results[str(value.datum)].right)
                elif value.op == "load":
                    loads.append(value)
                elif value.space != ROW:
                    waiting += value.args
            found |= {load: tensor for load in loads for tensor in tensors[:1]}
        return found

    def _epilogue(self, body: ScopeStatements, load: TileValue, tensor: Tensor) -> str:
        name, (index, mask, _) = self._name(self.tensor(load)), self._widths[tensor.features]
        roles = [*self._roles, AxisRole(self.chained.rows, "rows", "row"), AxisRole(tensor.features, index, "feature")]
        terms = self._terms(str(load.datum), roles)
        masks = ["row_mask"] if any(term.startswith("rows") for term in terms) else []
        masks += [mask] if any(term.startswith(index) for term in terms) else []
        given = f", mask={' & '.join(masks)}, other={self.fill(load)}" if masks else ""
        place = " + ".join([f"{self.tensor(load)}_ptr", *terms])
        body.line(f"{name} = {self.converted(f'tl.load({place}{given})', load)}")
        return name


def chained_formula(program: ValueProgram, names: TensorNames) -> dict[str, str]:
    """The formulas of the program's chained products, by their nodes."""
    chained = program.chained
    if chained is None:
        return {}
    found: dict[str, str] = {}
    for name, score in chained.scores.items():
        found[name] = f"{names.tensors[score.rows.node]} @ {names.tensors[score.inner.node]}.T"
    for name, result in chained.results.items():
        writer = ScopeStatements(names.fork(), _scalar, set(), 0, FORMULA)
        _, bare = with_factor(ValueNumbering(), result.left)
        for value in topological([result.formula, bare]):
            if value.op == "load":
                writer.env[value] = names.tensors[str(value.datum)]
            elif value.op in {"column", "row"}:
                writer.env[value] = value.op
            elif value.op == "dot":
                writer.env[value] = f"({found[str(value.datum)]})"
        text = writer.written(result.formula)
        found[name] = f"{'softmax' if chained.is_softmax else ''}({text}) @ {names.tensors[result.right.node]}"
        for output in program.outputs:
            if output.value.op == "corrected":
                rest, delta = output.value.args
                writer.env |= {v: names.tensors[str(v.datum)] for v in topological([rest]) if v.op == "load"}
                found[str(output.value.datum)] = f"{writer.written(delta)} + sum({writer.written(rest)})"
            elif output.value.op == "logsumexp":
                is_top = str(output.value.datum).endswith(HIGHEST)
                logarithm = f"(logsumexp({text}) - max({text})) / log(2)"
                found[str(output.value.datum)] = f"max({writer.written(bare)})" if is_top else logarithm
    return found


def _scalar(text: str) -> ExpressionText:
    return ExpressionText(text) if text.isidentifier() else ExpressionText(text, COMPARE)
