"""The schedule of rows in registers: some rows a tile, a whole row of columns or a block of them. Pure."""

from __future__ import annotations

from workers.authors.compiler.axes import Part
from workers.authors.compiler.domain import COL, FULL, ROW, SCALAR, Space, place_of, run_sizes
from workers.authors.compiler.host import row_index
from workers.authors.compiler.kernels import KernelSource, Store
from workers.authors.compiler.repetition import Repetition
from workers.authors.compiler.schedules.base import NEUTRAL, KernelWriter
from workers.authors.compiler.schedules.reductions import argmax_lines, loses_nan, with_nan
from workers.authors.compiler.statements import INDENT, Statements, write_loop
from workers.authors.compiler.values import Value

_PLACES = {FULL: ("offsets", "mask"), ROW: ("rows", "row_mask"), COL: ("cols", "col_mask")}


class TileKernel(KernelWriter):
    """One pass over tiles of rows; with sums over rows, few programs take many tiles each and keep the sums in registers."""

    def write(self) -> KernelSource:
        """Give the kernel's source."""
        head, columns, body = self.scope(), self.scope(), self.scope(2 if self._loops else 1)
        self._columns(head)
        for load in self.loads:
            if not load.space.rows:
                self._load(columns, load)
        columns.env.update({value: "cols" for value in self.task.values if value.op == "column"})
        self._hoist(columns)
        body.env.update(columns.env)
        late = self._loops and not self.task.sums_rows and bool(columns.lines)
        head.lines += self._only_if("PERSISTENT", columns) if late else columns.lines
        self._rows(body)
        for load in self.loads:
            if load.space.rows:
                self._load(body, load)
        if late:
            # Columns that wait in registers for the program's only tile would leave room for fewer programs.
            body.lines += [INDENT + line for line in self._only_if("not PERSISTENT", columns)]
        for value in self.picks:
            self._pick(body, value)
        body.line("")
        self._results(body)
        hints = self.hint_lines(head.lines + body.lines)
        lines = hints + self.scalar_lines() + head.lines
        if self._loops:
            lines += self._accumulators() + self._loop() + body.lines + self._partials()
        else:
            lines += body.lines
        sizes = (*self.extra_sizes(), "n_rows", "n_cols")
        more = {"PERSISTENT": late, "EVEN": self.task.form.tunable, "EVICT_FIRST": bool(hints)}
        constants = ["BLOCK_ROWS", "BLOCK_SIZE", *(["NUM_STAGES"] if self._loops else [])]
        return self.finish(lines, sizes, (*constants, *(name for name, wanted in more.items() if wanted)))

    @staticmethod
    def _only_if(condition: str, scope: Statements) -> list[str]:
        return [f"{INDENT}if {condition}:", *(INDENT + line for line in scope.lines)]

    @property
    def _loops(self) -> bool:
        """Whether programs take several tiles is a setting where settings are tuned."""
        return self.task.sums_rows or self.task.form.tunable

    def extra_sizes(self) -> tuple[str, ...]:
        """Give the sizes that tensors with fewer rows need."""
        partial = (size for load in (*self.loads, *self.picks) for size in row_index(self.program, self.names, load)[1])
        return tuple(dict.fromkeys([*partial, *run_sizes(self.program.domain)]))

    @property
    def _blocks(self) -> bool:
        return not self.task.reduces_cols

    def _columns(self, head: Statements) -> None:
        if self._loops:
            head.line("program = tl.program_id(0)")
        start = "tl.program_id(1) * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)"
        head.line(f"cols = ({start})[None, :]" if self._blocks else "cols = tl.arange(0, BLOCK_SIZE)[None, :]")
        head.line(f"col_mask = {self._unless_even('cols < n_cols')}")

    def _unless_even(self, mask: str) -> str:
        """Masks fall away where rows and columns come out even, which the launch says."""
        return f"({mask}) | EVEN" if self.task.form.tunable else mask

    def _rows(self, body: Statements) -> None:
        tile = "tile" if self._loops else "tl.program_id(0)"
        if self.task.form.last_rows_first:
            body.line("tile = n_tiles - 1 - turn")
        body.line(f"rows = ({tile} * BLOCK_ROWS + tl.arange(0, BLOCK_ROWS))[:, None]")
        body.line(f"row_mask = {self._unless_even('rows < n_rows')}")
        body.line("mask = row_mask & col_mask")
        widths = self._widths()
        domain = self.program.domain
        if domain.is_strided:
            body.line(f"row_offsets = {place_of(domain, 'rows', rows=True)}")
            body.line(f"offsets = row_offsets + {place_of(domain, 'cols', rows=False)}")
        elif None in widths or len(widths) == 0:
            body.line("offsets = rows.to(tl.int64) * n_cols + cols")
        for part in widths - {None}:
            body.line(f"packed_offsets = rows.to(tl.int64) * {part} + cols")

    def _widths(self) -> set[str | None]:
        """Give the widths of the rows that are loaded and stored, None for one of ``n_cols``."""
        parts = [self.part(load) for load in self.loads if load.space == FULL and not self.partial_rows(load)]
        parts += [piece.part for piece in self.task.pieces if piece.space == FULL]
        return {part.width if part else None for part in parts}

    @staticmethod
    def _place(space: Space, part: Part | None) -> str:
        place = _PLACES[space][0]
        return f"packed_offsets{part.shift}" if part and space == FULL else f"{place}{part.shift if part else ''}"

    def _load(self, scope: Statements, load: Value) -> None:
        name, part = self.tensor(load), self.part(load)
        base = self.names.tensors[self.program.domain.base(str(load.datum))]
        scope.env[load] = name
        if load.space == SCALAR:
            text = f"tl.load({base}_ptr{part.shift if part else ''})"
        else:
            place, mask = self._place(load.space, part), _PLACES[load.space][1]
            if self.partial_rows(load):
                index = row_index(self.program, self.names, load)[0]
                place = index
                if load.space == FULL:
                    width = part.width if part else "n_cols"
                    if part is None or f"{base}_offsets" not in "".join(scope.lines):
                        scope.line(f"{base}_offsets = ({index}).to(tl.int64) * {width} + cols")
                    place = f"{base}_offsets{part.shift if part else ''}"
            text = f"tl.load({base}_ptr + {place}, mask={mask}, other={self.fill(load)}{self.hint(load)})"
        scope.line(f"{name} = {self.converted(text, load)}")

    def _pick(self, body: Statements, value: Value) -> None:
        rows = row_index(self.program, self.names, value)[0]
        if value.space.cols:
            self._moved(body, value)
            return
        rows = f"{rows if rows == 'rows' else f'({rows})'}.to(tl.int64) * n_cols"
        tensor, place, further = self.pick_place(body, value, rows, "row_mask")
        name = self.names.of(value)
        body.line(f"{name}_offsets = {place}")
        text = f"tl.load({tensor}_ptr + {name}_offsets{further})"
        body.line(f"{name} = {self.converted(text, value)}")
        body.env[value] = name

    def _moved(self, body: Statements, value: Value) -> None:
        """Load the elements of each row at other columns."""
        name, tensor = self.names.of(value), self.names.tensors[str(value.datum)]
        rows, whole = row_index(self.program, self.names, value)[0], self.program.domain.space_of(str(value.datum)).rows
        body.line(f"{name}_cols = {body.fitted(value.args[0])}")
        body.line(f"{name}_mask = mask & ({name}_cols >= 0) & ({name}_cols < n_cols)")
        rows = rows if rows == "rows" else f"({rows})"
        place = f"{rows}.to(tl.int64) * n_cols + {name}_cols" if whole else f"{name}_cols"
        body.line(f"{name}_offsets = {place}")
        text = f"tl.load({tensor}_ptr + {name}_offsets, mask={name}_mask, other={self.fill(value)})"
        body.line(f"{name} = {self.converted(text, value)}")
        body.env[value] = name

    def _hoist(self, head: Statements) -> None:
        """What no row changes is computed once, before the rows."""
        for value in self.task.values:
            if value.args and not value.space.rows and any(arg.space.cols or arg.op == "load" for arg in value.args):
                users = [user for user in self.task.values if value in user.args]
                if any(user.space.rows for user in users):
                    head.assign(value)

    def _results(self, body: Statements) -> None:
        loops = {value: loop for loop in self.loops if self._is_even(loop) for value in loop.values}
        for value in self.task.values:
            if value in loops:
                self._repeat(body, loops[value])
            elif value.op == "over_cols" and value not in body.env:
                self._reduce(body, value)
            elif value.op == "scan" and value not in body.env:
                self._scan(body, value)
        stored: list[tuple[Store, str]] = []
        for store in self.task.pieces:
            if store.summed:
                body.line(f"{store.name} += {self._masked(body, store.value, 'sum', True)}")
            else:
                known = body.env.get(store.value)
                stored.append((store, known or body.assign(store.value, store.name)))
        for store, text in stored:
            place, mask = self._place(store.space, store.part), _PLACES[store.space][1]
            body.line(f"tl.store({store.buffer}_ptr + {place}, {text}, mask={mask})")

    def _repeat(self, body: Statements, loop: Repetition) -> None:
        if not any(value in body.env for value in loop.ends if value is not None):
            write_loop(body, self.scope(body.depth + 1), loop, self._turns(loop), self._reduce)

    def _turns(self, loop: Repetition) -> str:
        """A loop of tiles that are on their way must hold no other loop: Triton pipelines the innermost one alone."""
        if not self._loops:
            return f"for _ in range({loop.count}):"
        return f"for _ in tl.range({loop.count}, loop_unroll_factor={loop.count} if NUM_STAGES > 1 else 1):"

    def _is_even(self, loop: Repetition) -> bool:
        """Tell whether every turn reduces alike."""
        for reductions in zip(*loop.turns, strict=True):
            ways = {
                (self.neutral_outside(value.args[0], str(value.datum), False), loses_nan(value, self.task.values))
                for value in reductions
                if value is not None and value.op == "over_cols"
            }
            if len(ways) > 1:
                return False
        return True

    def _reduce(self, body: Statements, value: Value) -> None:
        kind = str(value.datum)
        inner = self._masked(body, value.args[0], kind, False)
        name = self.names.of(value)
        if kind == "argmax":
            body.line(f"{name}_of = {inner}")
            body.lines += [INDENT * body.depth + line for line in argmax_lines(name, f"{name}_of")]
        elif kind == "prod":
            body.line(f"{name} = tl.reduce({inner}, 1, _multiplied, keep_dims=True)")
        else:
            body.line(f"{name} = tl.{kind}({inner}, axis=1, keep_dims=True)")
        if loses_nan(value, self.task.values):
            body.line(with_nan(name, inner, ", axis=1, keep_dims=True"))
        body.env[value] = name

    def _scan(self, body: Statements, value: Value) -> None:
        kind, _, reverse = str(value.datum).partition(" ")
        name = self.names.of(value)
        inner = self._masked(body, value.args[0], kind, False)
        body.line(f"{name} = tl.cum{kind}({inner}, axis=1{', reverse=True' if reverse else ''})")
        body.env[value] = name

    def _masked(self, body: Statements, value: Value, kind: str, over_rows: bool) -> str:
        text = body.reduced(value)
        if self.neutral_outside(value, kind, over_rows):
            return text
        return f"tl.where({'mask' if value.space.cols else 'row_mask'}, {text}, {NEUTRAL[kind]})"

    def _accumulators(self) -> list[str]:
        lines = []
        for store in self.task.pieces:
            if store.summed:
                shape = "(BLOCK_ROWS, BLOCK_SIZE)" if store.value.space.cols else "(BLOCK_ROWS, 1)"
                lines.append(f"    {store.name} = tl.zeros({shape}, dtype=tl.float32)")
        return lines

    def _loop(self) -> list[str]:
        tiles = "tl.cdiv(n_rows, BLOCK_ROWS)"
        if not self.task.form.last_rows_first:
            return ["", f"    for tile in tl.range(program, {tiles}, tl.num_programs(0), num_stages=NUM_STAGES):"]
        return [
            "",
            "    # The last rows first: forward left them in the L2 cache.",
            f"    n_tiles = {tiles}",
            "    for turn in tl.range(program, n_tiles, tl.num_programs(0), num_stages=NUM_STAGES):",
        ]

    def _partials(self) -> list[str]:
        lines = [""] if self.task.sums_rows else []
        for store in self.task.pieces:
            if store.summed and store.space == COL:
                total, place = f"tl.sum({store.name}, axis=0, keep_dims=True)", "program * n_cols + cols"
                if store.part:
                    lines.append(f"    {store.name} = {total}")
                    total, place = store.name, f"program * {store.part.width} + cols{store.part.shift}"
                lines.append(f"    tl.store({store.buffer}_ptr + {place}, {total}, mask=col_mask)")
            elif store.summed:
                place = "program * tl.num_programs(1) + tl.program_id(1)" if self._blocks else "program"
                if store.part:
                    place = f"{f'({place})' if self._blocks else place} * {store.part.width}{store.part.shift}"
                lines.append(f"    tl.store({store.buffer}_ptr + {place}, tl.sum({store.name}))")
        return lines
