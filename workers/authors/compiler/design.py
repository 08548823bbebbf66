"""From a program to its two passes: names, kernels, what is kept between them. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from gpu_runner.contracts import Graph, Problem
from gpu_runner.contracts.graph import Expr
from workers.authors.compiler.domain import FULL
from workers.authors.compiler.flat_kernel import FlatKernel
from workers.authors.compiler.formulas import formula_lines
from workers.authors.compiler.hand import Hand
from workers.authors.compiler.kernels import KernelSource, KernelTask, Store
from workers.authors.compiler.launches import Pass
from workers.authors.compiler.looped_kernel import LoopedKernel
from workers.authors.compiler.naming import Names, part_names
from workers.authors.compiler.program import Program, Result, build_program
from workers.authors.compiler.scalars import Scalars
from workers.authors.compiler.tile_kernel import TileKernel

# A row wider than this does not stay in registers: 32 warps have 65536 of them, and every tensor of the row takes its share.
# Measured: H200, bfloat16: softmax backward at 32000 columns takes 487 us in registers and 590 us in blocks.
WIDEST_ALONE, WIDEST_TOGETHER, WIDEST_WITH_SUMS = 65536, 32768, 16384


@dataclass(frozen=True)
class Design:
    """A program with its names and kernels. ``saved_nodes`` are the tensors that backward is handed, besides upstream ones."""

    program: Program
    names: Names
    scalars: Scalars
    forward: Pass
    backward: Pass | None
    saved_nodes: tuple[str, ...]


def build_design(name: str, problem: Problem, graph: Graph) -> Design:
    """Give the design of a problem's kernels.

    Raises:
        CannotCompileError: the graph is beyond what the schedules express.
    """
    program = build_program(problem, graph)
    names = Names(problem, graph)
    for node, text in zip(graph.outputs, names.outputs, strict=True):
        names.tensors.setdefault(node, text)
    for key, value in program.saved:
        names.save(key, value)
    for key, part in program.domain.parts.items():
        own = part_names(problem.source, part.node, part.count)
        names.tensors[key] = names.free(own[part.index] if own else f"{names.tensors[part.node]}_{part.index}")
        names.gradients[key] = names.free(f"d{names.tensors[key]}")
    inputs = tuple((names.tensors[spec.name], spec.name) for spec in problem.inputs)
    scalars = Scalars(program, names, Hand(program, inputs))
    forward = _pass(f"_{name}_forward_kernel", program, names, scalars, _forward_stores(program, names), inputs)
    backward: Pass | None = None
    saved_nodes: tuple[str, ...] = ()
    if program.gradients:
        stores = tuple(_gradient_store(program, names, result) for result in program.backward_results)
        saved_nodes = _saved_nodes(program, stores)
        at_hand = tuple((names.tensors[node], node) for node in graph.upstream if node is not None)
        at_hand += tuple((names.tensors[node], node) for node in saved_nodes if node in program.domain.shapes)
        if stores:
            backward = _pass(f"_{name}_backward_kernel", program, names, scalars, stores, at_hand)
    return Design(program, names, scalars, forward, backward, saved_nodes)


def _forward_stores(program: Program, names: Names) -> tuple[Store, ...]:
    stores = [Store(text, r.value, r.space) for text, r in zip(names.outputs, program.outputs, strict=True)]
    saved = [Store(names.tensors[key], value, value.space) for key, value in program.saved]
    return (*stores, *saved)


def _gradient_store(program: Program, names: Names, result: Result) -> Store:
    owner = next(name for name, other in program.gradients if other is result)
    parts = [key for key, part in program.domain.parts.items() if part.node == owner]
    own = tuple(names.gradients[key] for key in parts)
    return Store(names.gradients[owner], result.value, result.space, piece_names=own)


def _saved_nodes(program: Program, stores: tuple[Store, ...]) -> tuple[str, ...]:
    """Loaded tensors, then inputs without which a launcher would not know a size."""
    graph, domain = program.graph, program.domain
    loads = {domain.base(str(v.datum)) for v in KernelTask("", stores, ()).values if v.op == "load"}
    order = [*graph.inputs, *graph.outputs, *(key for key, _ in program.saved)]
    saved = [node for node in dict.fromkeys(order) if node in loads]
    known = [n for n in (*saved, *graph.upstream) if n is not None and n in domain.shapes]
    axes = {dim for node in known for dim in domain.shapes[node]}
    for node in graph.inputs:
        if any(dim not in axes for dim in domain.shapes[node]):
            saved.append(node)
            axes |= set(domain.shapes[node])
    if all(program.fixed_dtype(node) is not None for node in known):
        saved.append(next(spec.name for spec in program.problem.inputs if spec.dtype is None))
    return tuple(dict.fromkeys(saved))


def _part_lines(program: Program, names: Names, stores: tuple[Store, ...]) -> list[str]:
    """Say which parts the tensors that are loaded hold."""
    parts = program.domain.parts
    loaded = [str(v.datum) for v in KernelTask("", stores, ()).values if v.op == "load" and v.datum in parts]
    lines = []
    for node in dict.fromkeys(parts[name].node for name in loaded):
        texts = [names.tensors[name] for name, part in parts.items() if part.node == node]
        lines.append(f"[{', '.join(texts)}] = {names.tensors[node]}")
    return lines


def _pass(
    kernel_name: str,
    program: Program,
    names: Names,
    scalars: Scalars,
    stores: tuple[Store, ...],
    at_hand: tuple[tuple[str, str], ...],
) -> Pass:
    hand = Hand(program, at_hand)
    scalars.hand = hand
    size = program.domain.sizes[program.domain.col_axes[0]] if len(program.domain.col_axes) == 1 else None
    columns = size.text if isinstance(size, Expr) else None
    task = KernelTask(
        kernel_name, stores, (*_part_lines(program, names, stores), *formula_lines(names, stores, columns))
    )
    if task.is_flat(program.domain):
        return Pass(program, task, FlatKernel(program, names, scalars, task).write(), None, 0, hand)
    kernel = TileKernel(program, names, scalars, task).write()
    wide: KernelSource | None = None
    if task.reduces_cols:
        doc = (*task.docstring, "", "For rows that are wider than one block.")
        wide_task = KernelTask(f"{kernel_name}_wide", stores, doc)
        wide = LoopedKernel(program, names, scalars, wide_task).write()
    several = sum(v.op == "load" and v.space == FULL for v in task.values) > 1
    widest = WIDEST_WITH_SUMS if task.sums_rows else WIDEST_TOGETHER if several else WIDEST_ALONE
    return Pass(program, task, kernel, wide, widest, hand)
