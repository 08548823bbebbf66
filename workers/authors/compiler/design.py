"""From a program to its two passes: names, schedules, what is kept between them. Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace

from gpu_runner.contracts import Graph, Problem, Workload
from gpu_runner.contracts import Pass as TimedPass
from gpu_runner.contracts.graph import Expr
from workers.authors.compiler.domain import FULL
from workers.authors.compiler.host import HostScope, Scalars
from workers.authors.compiler.kernels import LOADS, KernelForm, KernelTask, Store, formula_lines
from workers.authors.compiler.names import TensorNames, chunk_names
from workers.authors.compiler.program import (
    Result,
    ValueProgram,
    allowed_nodes,
    build_program,
    overwritten,
    with_short_polynomials,
    with_sigmoid_for_tanh,
)
from workers.authors.compiler.schedules import SCHEDULES
from workers.authors.compiler.schedules.base import Schedule
from workers.authors.compiler.schedules.chained import chained_formula
from workers.authors.compiler.schedules.product import product_formula
from workers.authors.compiler.values import TileValue

USUAL_COLS = 4096  # where a problem has no workloads
MOST_ELEMENTS = 2**30  # of a tensor whose rows and columns are one size: 4 GB of float32


@dataclass(frozen=True)
class ProgramDesign:
    """A program with its names and kernels. ``saved_nodes`` are the tensors that backward is handed, besides upstream ones."""

    program: ValueProgram
    names: TensorNames
    scalars: Scalars
    forward: Schedule
    backward: Schedule | None
    saved_nodes: tuple[str, ...]

    @property
    def passes(self) -> list[Schedule]:
        """Forward, and backward where there is one."""
        return [schedule for schedule in (self.forward, self.backward) if schedule is not None]


def build_design(
    name: str,
    problem: Problem,
    graph: Graph,
    tunable: bool = False,
    may_overwrite: tuple[str, ...] = (),
    outputs: tuple[str, ...] = (),
    inputs: tuple[tuple[str, str], ...] = (),
    sizes: tuple[Workload, ...] = (),
    step_of: TimedPass | None = None,
    target: str = "gpu",
) -> ProgramDesign:
    """The design of a problem's kernels; see ``SourceStyle.tunable``, ``Brief.may_overwrite`` and ``Brief.sizes``.

    ``outputs`` are names to give to the outputs, and ``inputs`` to inputs, in place of those that the reference has for them.
    ``step_of`` is the pass of which the problem is a step, where it is one.

    Raises:
        CannotCompileError: the graph is beyond what the schedules express.
    """
    program = build_program(problem, graph)
    if not program.numbering.in_order:
        program = with_short_polynomials(with_sigmoid_for_tanh(program))
    names = TensorNames(problem, graph, outputs, inputs)
    for node, text in zip(graph.outputs, names.outputs, strict=True):
        names.tensors.setdefault(node, text)
    names.tensors |= {key: names.tensors[window.source] for key, window in program.domain.windows.items()}
    for key, value in (*program.saved, *program.sums):
        names.save(key, value)
    for key, chunk in program.domain.chunks.items():
        own = chunk_names(problem.source, chunk.node, chunk.count)
        names.tensors[key] = names.free(own[chunk.index] if own else f"{names.tensors[chunk.node]}_{chunk.index}")
        names.gradients[key] = names.free(f"d{names.tensors[key]}")
    inputs = tuple((names.tensors[spec.name], spec.name) for spec in problem.inputs)
    scalars = Scalars(program, names, HostScope(program, inputs, names.scalars))
    stores = tuple(_gradient_store(program, names, result) for result in program.backward_results)
    read_again = _read(program, stores)
    kept = _forward_stores(program, names)
    tuned_tiles = tunable and target in {"cutile", "cutedsl"}
    tunable = tunable and target == "gpu"
    hints = tunable or target == "ascend"
    streamed = _read(program, kept) - read_again if hints and step_of is None else frozenset()
    form = KernelForm(tunable, step_of or TimedPass.forward, streamed, target, tuned_tiles)
    kernel_name = f"_{name}_kernel" if step_of else f"_{name}_forward_kernel"
    forward = _scheduled(kernel_name, program, names, scalars, kept, inputs, form)
    backward: Schedule | None = None
    saved_nodes: tuple[str, ...] = ()
    if program.gradients:
        saved_nodes = _saved_nodes(program, stores)
        available = tuple((names.tensors[node], node) for node in graph.upstream if node is not None)
        available += tuple((names.tensors[node], node) for node in saved_nodes if node in program.domain.shapes)
        if stores:
            form = KernelForm(tunable, TimedPass.backward, read_again if hints else frozenset(), target, tuned_tiles)
            backward = _scheduled(f"_{name}_backward_kernel", program, names, scalars, stores, available, form)
            allowed = allowed_nodes(program, may_overwrite)
            taken = overwritten(program, allowed, tuple(node for _, node in available), backward.task.values)
            memory = tuple((s.name, names.tensors[taken[s.node]]) for s in stores if s.node in taken)
            backward = replace(backward, overwrites=memory)
    return _bounded(ProgramDesign(program, names, scalars, forward, backward, saved_nodes), sizes)


def _read(program: ValueProgram, stores: tuple[Store, ...]) -> frozenset[str]:
    """The tensors that stores are computed from."""
    values = KernelTask("", stores, ()).values
    return frozenset(program.domain.base(str(value.datum)) for value in values if value.op in LOADS)


def _forward_stores(program: ValueProgram, names: TensorNames) -> tuple[Store, ...]:
    named = zip(names.outputs, program.outputs, strict=True)
    stores = [Store(text, r.value, r.space, node=r.node) for text, r in named if not program.on_host(r)]
    return (*stores, *(_kept_store(names.tensors[key], value) for key, value in (*program.saved, *program.sums)))


def _kept_store(name: str, value: TileValue) -> Store:
    """A number of each row is stored as it is; of a sum over rows, each program leaves its part."""
    if value.op != "over_rows":
        return Store(name, value, value.space)
    inner = value.args[0]
    whole = not value.space.cols and inner.op == "over_cols" and inner.datum == "sum"
    return Store(name, inner.args[0] if whole else inner, value.space)


def _gradient_store(program: ValueProgram, names: TensorNames, result: Result) -> Store:
    owner = next(name for name, other in program.gradients if other is result)
    chunks = [key for key, chunk in program.domain.chunks.items() if chunk.node == owner]
    own = tuple(names.gradients[key] for key in chunks)
    return Store(names.gradients[owner], result.value, result.space, piece_names=own, node=result.node)


def _saved_nodes(program: ValueProgram, stores: tuple[Store, ...]) -> tuple[str, ...]:
    """What is loaded, or gives its gradient its dtype; then inputs without which a launcher would not know a size."""
    graph, domain = program.graph, program.domain
    loads = {domain.base(str(v.datum)) for v in KernelTask("", stores, ()).values if v.op in LOADS}
    order = [*graph.inputs, *graph.outputs, *(key for key, _ in program.saved)]
    owners = {program.key(result): name for name, result in reversed(program.gradients)}
    summed = {owners[program.key(result)] for result in program.backward_results if result.space != FULL}
    free = {spec.name for spec in program.problem.inputs if spec.dtype is None}
    saved = [node for node in dict.fromkeys(order) if node in loads | (summed & free)]
    known = [n for n in (*saved, *graph.upstream) if n is not None and n in domain.shapes]
    axes = {dim for node in known for dim in domain.shapes[node]}
    for node in graph.inputs:
        if any(dim not in axes for dim in domain.shapes[node]):
            saved.append(node)
            axes |= set(domain.shapes[node])
    if all(program.fixed_dtype(node) is not None for node in known):
        saved.append(next(spec.name for spec in program.problem.inputs if spec.dtype is None))
    return tuple(dict.fromkeys(saved))


def _chunk_lines(program: ValueProgram, names: TensorNames, stores: tuple[Store, ...]) -> list[str]:
    """Comments on which chunks the loaded tensors contain."""
    chunks = program.domain.chunks
    loaded = [str(v.datum) for v in KernelTask("", stores, ()).values if v.op == "load" and v.datum in chunks]
    lines = []
    for node in dict.fromkeys(chunks[name].node for name in loaded):
        texts = [names.tensors[name] for name, chunk in chunks.items() if chunk.node == node]
        lines.append(f"[{', '.join(texts)}] = {names.tensors[node]}")
    return lines


def _scheduled(
    kernel_name: str,
    program: ValueProgram,
    names: TensorNames,
    scalars: Scalars,
    stores: tuple[Store, ...],
    available: tuple[tuple[str, str], ...],
    form: KernelForm,
) -> Schedule:
    host = HostScope(program, available, names.scalars)
    scalars.host = host
    size = program.domain.sizes[program.domain.col_axes[0]] if len(program.domain.col_axes) == 1 else None
    columns = size.text if isinstance(size, Expr) else None
    names.products.update({**product_formula(program, names), **chained_formula(program, names)})
    task = KernelTask(
        kernel_name, stores, (*_chunk_lines(program, names, stores), *formula_lines(names, stores, columns)), form
    )
    schedule = next(schedule for schedule in SCHEDULES[form.target] if schedule.fits(task, program))
    return schedule.of(program, names, scalars, task, host)


def columns_of(design: ProgramDesign) -> list[int]:
    """Columns that the workloads have, rising."""
    workloads = design.program.problem.workloads
    return sorted({n for one in workloads if (n := _columns(design, one)) is not None}) or [USUAL_COLS]


def _bounded(design: ProgramDesign, sizes: tuple[Workload, ...]) -> ProgramDesign:
    """The design without the kernels for wide rows that no size needs; its passes then take rows up to a bound.

    A size needs what the rule chooses for it and what a value of the knob for the bound would. No sizes: every kernel stays that
    some size needs of which memory holds the elements.
    """
    columns = {_columns(design, workload) for workload in sizes}
    known = sorted(count for count in columns if count is not None)
    if not known or len(known) < len(columns):
        most = _most_columns(design)
        if most is None:
            return design
        known = [most]
    tuned = columns_of(design) if design.forward.form.tunable else []
    forward = design.forward.within(known, tuned)
    backward = None if design.backward is None else design.backward.within(known, tuned)
    return replace(design, forward=forward, backward=backward)


def _most_columns(design: ProgramDesign) -> int | None:
    """The columns of which memory holds as many rows, as scores of attention have them; None where rows are another size."""
    domain = design.program.domain
    if len(domain.col_axes) != 1 or isinstance(size := domain.sizes[domain.col_axes[0]], int):
        return None
    alike = sum(domain.sizes[axis] == size for axis in domain.memory)
    return int(MOST_ELEMENTS ** (1.0 / alike)) if alike > 1 else None


def _columns(design: ProgramDesign, workload: Workload) -> int | None:
    """How many columns a size has, None where it does not say."""
    return design.program.elements(design.program.domain.col_axes, workload)
