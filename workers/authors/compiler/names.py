"""Names that a reader would have chosen: tensors after the reference, values after what they are. Pure."""

from __future__ import annotations

import ast
import copy
import functools
import keyword
import re

from gpu_runner.contracts import Graph, Problem
from gpu_runner.contracts.reading import UNPARSABLE
from workers.authors.compiler.domain import ROW
from workers.authors.compiler.values import TileValue

# Words that the emitted kernels and launchers use themselves.
RESERVED = frozenset(
    [
        "n_rows",
        "n_cols",
        "n_elements",
        "rows",
        "cols",
        "row",
        "row_mask",
        "col_mask",
        "mask",
        "offsets",
        "packed_offset",
        "packed_offsets",
        "start",
        "first",
        "segments",
        "segment_turn",
        "elements",
        "tile",
        "program",
        "torch",
        "triton",
        "tl",
        "ct",
        "ctx",
        "grid",
        "shape",
        "device",
        "num_warps",
        "n_programs",
        "n_tiles",
        "n_blocks",
        "tile_bytes",
        "NUM_STAGES",
        "LOOP_STAGES",
        "block_bytes",
        "BLOCK_SEGMENTS",
        "EVEN",
        "PERSISTENT",
        "EVICT_FIRST",
        "STREAMED",
        "ROUNDED",
        "TUNED",
        "tuned",
        "turn",
        "BLOCK_ROWS",
        "BLOCK_SIZE",
        "col_block",
        "inner",
        "inner_mask",
        "outer",
        "n_outer",
        "n_blocks",
        "n_turns",
        "split",
        "n_splits",
        "partials",
        "WIDE",
        "INDEX",
        "BLOCK_COLS",
        "batch",
        "row_tile",
        "col_tile",
        "n_row_tiles",
        "n_col_tiles",
        "n_batch_tiles",
        "n_batches",
        "n_inner",
        "BLOCK_M",
        "BLOCK_N",
        "BLOCK_K",
        "GROUP_M",
        "BLOCK_D",
        "BLOCK_E",
        "width",
        "width_2",
        "part",
        "end",
        "whole_end",
        "begin",
        "whole_begin",
        "PRECISION",
        "DESCRIBED",
        "n_described",
        "half",
        "num_stages",
        "candidate",
        "calculate_settings",
        "ensure_contiguous",
        "device_context",
    ]
)
_NOUNS = {
    "sigmoid": "sig",
    "tanh": "tanh",
    "libdevice_tanh": "tanh_of",
    "exp": "exp",
    "erf": "erf",
    "maximum": "relu",
    "log": "log",
    "abs": "abs",
    "cos": "cos",
    "sin": "sin",
    "neg": "neg",
}
_ROLES = {
    "add": "total",
    "sub": "difference",
    "mul": "product",
    "div": "ratio",
    "rsqrt": "rstd",
    "sqrt": "root",
    "maximum": "upper",
    "minimum": "clamped",
    "where": "chosen",
    "reciprocal": "inverse",
    "pow": "power",
    "logical_and": "inside",
    "logical_or": "either",
    "dot": "product",
}
AGAIN = " as "  # after an input's name in the name of another node for it, which the graph meets in another role


class TensorNames:
    """Gives each tensor and value one name, and no name twice."""

    def __init__(
        self,
        problem: Problem,
        graph: Graph,
        outputs: tuple[str, ...] = (),
        inputs: tuple[tuple[str, str], ...] = (),
    ) -> None:
        wanted = dict(inputs)
        self._taken = set(RESERVED) | set(keyword.kwlist)
        self.tensors: dict[str, str] = {}
        self.scalars: dict[str, str] = {}
        self.values: dict[TileValue, str] = {}
        for tensor in problem.inputs:
            original, again, _ = tensor.name.partition(AGAIN)
            own = tensor.name.replace(" ", "_")  # of a copy that a step is given
            text = self.tensors[original] if again else self.free(wanted.get(tensor.name, own))
            self.tensors[tensor.name] = text
        self.products: dict[str, str] = {}  # the formula of each product's node
        for scalar in problem.scalars:
            self.scalars[scalar.name] = self.free(scalar.name)
        self.outputs = tuple(self.free(name) for name in outputs or output_names(problem, graph))
        for upstream, output in zip(graph.upstream, self.outputs, strict=True):
            if upstream is not None:
                self.tensors[upstream] = self.free(f"d{output}")
        self.gradients = {
            name: self.free(f"d{self.tensors[name]}") for name, node in graph.gradients if node is not None
        }

    def fork(self) -> TensorNames:
        """Names for one kernel: what is taken stays taken, and what the kernel takes is free for the next."""
        fork = copy.copy(self)
        fork._taken, fork.values = set(self._taken), dict(self.values)  # noqa: SLF001 -- its own copy
        return fork

    def save(self, key: str, value: TileValue) -> str:
        """Name a row number that forward saves; it is a tensor of this name from then on."""
        self.tensors[key] = self.of(value)
        return self.tensors[key]

    def free(self, wanted: str) -> str:
        """A name, with a number appended where it is taken."""
        candidate, number = wanted, 2
        if candidate in RESERVED or keyword.iskeyword(candidate):
            candidate = f"{wanted}_value"
        while candidate in self._taken:
            candidate, number = f"{wanted}_{number}", number + 1
        self._taken.add(candidate)
        return candidate

    def of(self, value: TileValue) -> str:
        """The name of a value, chosen once."""
        if value not in self.values:
            self.values[value] = self.free(self._read(value) or self._wanted(value))
        return self.values[value]

    def _known(self, value: TileValue) -> str | None:
        if value.op == "load":
            return self.tensors.get(str(value.datum))
        return self.values.get(value)

    def _read(self, value: TileValue) -> str | None:
        if value.op == "over_rows":
            return "kept_rows" if _counts(value.args[0]) else "total"
        if value.op == "float":  # no variable may be called that: kernels write infinity with it
            known = self._known(value.args[0])
            return f"{known}_number" if known else "number"
        if value.op == "rounded":
            known = self._known(value.args[0])
            return f"{known}_rounded" if known else self._wanted(value.args[0])
        return f"picked_{self.tensors.get(str(value.datum), 'element')}" if value.op == "pick" else None

    def _wanted(self, value: TileValue) -> str:
        if value.op == "over_cols":
            return self._reduction(value)
        known = [self._known(arg) for arg in value.args]
        if value.op == "rsqrt":
            return "rstd" if value.space == ROW else "inverse_root"
        if (
            value.op == "div"
            and value.space == ROW
            and value.args[0].op == "over_cols"
            and value.args[0].datum == "sum"
        ):
            squares = value.args[0].args[0]
            if squares.op == "mul" and squares.args[0] is squares.args[1]:
                return "variance" if squares.args[0].op == "sub" else "mean_square"
            if squares.op == "load":
                return "mean"
            inner = self.of(value.args[0]) if value.args[0] in self.values else "row"
            return f"mean_{inner.removeprefix('dot_').removeprefix('sum_')}"
        if value.op == "mul" and known[1] and known[1].startswith("rstd"):
            return self._normalised(value.args[0], known[0])
        if value.op in {"gt", "ge", "lt", "le", "eq", "ne"}:
            return (
                f"{known[0]}_is_{'positive' if value.op == 'gt' and value.args[1].number == 0 else value.op}"
                if known[0]
                else "holds"
            )
        if value.op == "mul" and all(known) and value.args[0] is value.args[1]:
            return f"{known[0]}_squared"
        if value.op == "mul" and all(known) and sum(len(str(name)) for name in known) < 20:
            return self._product(value, [str(name) for name in known])
        if value.op == "sub" and known[0] and known[1] and known[1].startswith("mean"):
            return f"{known[0]}_centered"
        if value.op == "maximum" and value.args[1].number != 0:
            return f"{known[0]}_clamped" if known[0] else "clamped"
        if value.op == "minimum" and known[0]:
            return f"{known[0]}_clamped" if not known[0].endswith("clamped") else known[0]
        if value.op in _NOUNS:
            return f"{_NOUNS[value.op]}_{known[0]}" if known[0] and len(known[0]) < 16 else _NOUNS[value.op]
        return _ROLES.get(value.op, value.op)

    def _normalised(self, value: TileValue, known: str | None) -> str:
        source = value.args[0] if value.op == "sub" else value
        name = known.removesuffix("_centered") if known else self._known(source)
        return f"{name}_hat" if name else "normalised"

    def _product(self, value: TileValue, known: list[str]) -> str:
        if value.args[0].op == "const":
            return f"scaled_{known[1]}"
        return "_".join(known)

    def _reduction(self, value: TileValue) -> str:
        inner = value.args[0]
        if value.datum in {"max", "min", "argmax"}:
            name = self._known(inner)
            return f"{value.datum}_{name}" if name else f"row_{value.datum}"
        if inner.op == "exp":
            return "denominator"
        if inner.op == "mul":
            known = [self._known(arg) for arg in inner.args]
            if inner.args[0] is inner.args[1]:
                return "sum_of_squares"
            return (
                "dot_" + "_".join(str(n) for n in known)
                if all(known) and sum(map(len, map(str, known))) < 16
                else "dot"
            )
        name = self._known(inner)
        return f"sum_{name}" if name else "row_sum"


def _counts(value: TileValue) -> bool:
    return value.op == "where" and (value.args[1].number, value.args[2].number) == (1, 0)


def output_names(problem: Problem, graph: Graph) -> tuple[str, ...]:
    """The outputs' names: those that the reference returns them by, else y, or c after a and b."""
    returned = _returned(problem.source)
    if len(returned) == len(graph.outputs) and all(returned) and len(set(returned)) == len(returned):
        return tuple(str(name) for name in returned)
    inputs = [spec.name for spec in problem.inputs]
    single = chr(ord(inputs[-1]) + 1) if inputs[:2] == ["a", "b"] and re.fullmatch("[a-y]", inputs[-1]) else "y"
    if single in inputs:
        single = "out"
    return (single,) if len(graph.outputs) == 1 else tuple(f"{single}_{i}" for i in range(len(graph.outputs)))


@functools.lru_cache(maxsize=8)  # each step of a series has the problem's source
def _returned(source: str) -> list[str | None]:
    try:
        tree = ast.parse(source)
    except UNPARSABLE:
        return []
    for function in tree.body:
        if isinstance(function, ast.FunctionDef) and function.name == "reference":
            parameters = {argument.arg for argument in function.args.args}
            returns = [node.value for node in ast.walk(function) if isinstance(node, ast.Return)]
            if len(returns) != 1 or returns[0] is None:
                return []
            items = returns[0].elts if isinstance(returns[0], ast.Tuple) else [returns[0]]
            return [item.id if isinstance(item, ast.Name) and item.id not in parameters else None for item in items]
    return []


def chunk_names(source: str, tensor: str, count: int) -> tuple[str, ...]:
    """The reference's names for the chunks of a tensor, as in ``gate, up = x.chunk(2, dim=-1)``; empty where it has none."""
    try:
        tree = ast.parse(source)
    except UNPARSABLE:
        return ()
    for node in ast.walk(tree):
        if not isinstance(node, ast.Assign) or not isinstance(node.targets[0], ast.Tuple):
            continue
        targets = [target.id for target in node.targets[0].elts if isinstance(target, ast.Name)]
        call = node.value
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr in {"chunk", "split"}:
            owners = [operand.id for operand in (call.func.value, *call.args[:1]) if isinstance(operand, ast.Name)]
            if tensor in owners and len(set(targets)) == count == len(node.targets[0].elts):
                return tuple(targets)
    return ()
