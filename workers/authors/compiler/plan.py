"""The plan of a design: its formulas, kernels and what they move, for people and for the layouts. Pure."""

from __future__ import annotations

from gpu_runner.contracts.graph import Expr
from workers.authors.compiler.design import Design
from workers.authors.compiler.domain import COL, FULL, ROW, SCALAR, SEGMENT, Space
from workers.authors.compiler.families import family_of, stages_of
from workers.authors.compiler.formulas import formula
from workers.authors.compiler.kernels import Store
from workers.authors.compiler.launches import Pass
from workers.authors.compiler.operators import PRECISION_SENSITIVE
from workers.authors.protocol import KernelPlan, KernelSketch

FLOAT32_BYTES = "4"


def plan_of(design: Design) -> KernelPlan:
    """Give the plan of a design."""
    program, names, family = design.program, design.names, family_of(design)
    outputs = tuple(Store(text, r.value, r.space) for text, r in zip(names.outputs, program.outputs, strict=True))
    ops = {value.op for stage in stages_of(design) for value in stage.task.values}
    sums = any(
        value.op == "over_cols" and value.datum == "sum" for stage in stages_of(design) for value in stage.task.values
    )
    return KernelPlan(
        family=family.name,
        tier=family.tier,
        kernels=tuple(sketch for stage in stages_of(design) for sketch in _sketches(design, stage)),
        forward_formula="; ".join(f"{store.name} = {formula(names, store)}" for store in outputs),
        gradient_formulas=tuple((name, _gradient(design, name)) for name, _ in program.gradients),
        saved_tensors=tuple(names.tensors[node] for node in design.saved_nodes),
        recomputed=_recomputed(design),
        precision_sensitive_ops=tuple(op for op in PRECISION_SENSITIVE if op in ops)
        + (("sum over a row",) if sums else ()),
        grid_dimensions=_grid(design.forward)[0],
        grid_description=_grid(design.forward)[1],
        block_size_source="calculate_settings",
        needs_sm_parallelism=any(stage.task.sums_rows for stage in stages_of(design)),
        forward_bytes=_bytes(design, design.forward),
        backward_bytes=_bytes(design, design.backward) if design.backward else "0",
        forward_flops=_flops(design, design.forward),
        backward_flops=_flops(design, design.backward) if design.backward else "0",
        notes=_notes(design),
    )


def _gradient(design: Design, name: str) -> str:
    result = dict(design.program.gradients)[name]
    return formula(design.names, Store(design.names.gradients[name], result.value, result.space))


def _sketches(design: Design, stage: Pass) -> list[KernelSketch]:
    timed = "forward" if stage is design.forward else "backward"
    domain = design.program.domain
    space = f"rows {_product(design, domain.row_axes)}, columns {_product(design, domain.col_axes)}"
    sketches = [KernelSketch(stage.kernel.name, timed, "elements" if stage.is_flat else space, _grid(stage)[1])]
    if stage.wide is not None:
        wide = f"a row a program, in blocks, for more than {stage.widest} columns"
        sketches.append(KernelSketch(stage.wide.name, timed, space, wide))
    return sketches


def _grid(stage: Pass) -> tuple[str, str]:
    if stage.is_flat:
        return "1D", "a block of elements a program"
    if stage.task.sums_rows and stage.task.reduces_cols:
        return "1D", "a program a multiprocessor, each over many tiles of rows, with partial sums of its own"
    if stage.task.sums_rows:
        return "2D", "a program a multiprocessor and block of columns, each over many tiles of rows, with partial sums"
    if stage.task.reduces_cols:
        return "1D", "a tile of whole rows a program"
    return "2D", "a tile of rows and a block of columns a program"


def _recomputed(design: Design) -> str:
    if design.backward is None:
        return "nothing: there is no backward"
    saved = [design.names.tensors[key] for key, _ in design.program.saved]
    if not tuple(design.saved_nodes):
        return "nothing: the gradients need no value of forward"
    kept = (
        f"; {', '.join(saved)} {'is' if len(saved) == 1 else 'are'} saved in float32, a number a row" if saved else ""
    )
    return f"element-wise values are recomputed in backward from what is saved{kept}"


def _notes(design: Design) -> tuple[str, ...]:
    notes = []
    upstream = [name for name, result in design.program.gradients if design.program.is_upstream(result)]
    if upstream:
        notes.append(
            f"the gradient of {', '.join(upstream)} is the upstream gradient itself, which is handed on uncopied"
        )
    summed = [name for name, result in design.program.gradients if result.summed]
    if summed and len(design.program.gradients) > 1:
        notes.append(
            f"the gradient of {', '.join(summed)} is summed in the same pass over the rows, whether it is wanted or not"
        )
    results = [result for _, result in design.program.gradients]
    if len({design.program.key(result) for result in results}) < len(results):
        notes.append("inputs with the same gradient share one tensor")
    return tuple(notes)


def _product(design: Design, axes: tuple[int, ...]) -> str:
    sizes = [design.program.domain.sizes[axis] for axis in axes]
    texts = [size.text if isinstance(size, Expr) else str(size) for size in sizes]
    return " * ".join(text if text.isidentifier() or text.isdigit() else f"({text})" for text in texts) or "1"


def _elements(design: Design, space: Space) -> str:
    domain = design.program.domain
    whole = (*domain.row_axes, *domain.col_axes)
    axes = {FULL: whole, ROW: domain.row_axes, COL: domain.col_axes, SCALAR: (), SEGMENT: domain.segment_axes}[space]
    return _product(design, axes)


def _bytes(design: Design, stage: Pass) -> str:
    """Each tensor once; partial sums of programs do not count, being small."""
    domain, saved = design.program.domain, {key for key, _ in design.program.saved}
    terms: dict[tuple[str, str], int] = {}
    for value in stage.task.values:
        if value.op == "load":
            name = str(value.datum)
            size = _elements(design, ROW) if name in saved else _product(design, domain.axes_of(name))
            width = FLOAT32_BYTES if name in saved else _width(design, name)
            terms[size, width] = terms.get((size, width), 0) + 1
    own = {design.names.tensors[key]: FLOAT32_BYTES for key in saved} if stage is design.forward else {}
    if stage is design.forward:
        outputs = zip(design.names.outputs, design.program.graph.outputs, strict=True)
        own.update({text: _width(design, node) for text, node in outputs})
    for store in stage.task.stores:
        key = (_elements(design, store.space), own.get(store.name, "E"))
        terms[key] = terms.get(key, 0) + len(store.pieces)
    ordered = sorted(terms.items(), key=lambda item: (-item[0][0].count("*"), item[0]))
    return " + ".join(" * ".join([*([str(n)] if n > 1 else []), size, width]) for (size, width), n in ordered)


def _width(design: Design, name: str) -> str:
    widths = {
        "int64": "8",
        "float64": "8",
        "int32": "4",
        "float32": "4",
        "int16": "2",
        "int8": "1",
        "uint8": "1",
        "bool": "1",
    }
    fixed = design.program.fixed_dtype(name)
    return widths.get(fixed, "2") if fixed else "E"


def _flops(design: Design, stage: Pass) -> str:
    counts: dict[str, int] = {}
    for value in stage.task.values:
        if value.args:
            space = value.args[0].space if value.op == "over_cols" else value.space
            counts[_elements(design, space)] = counts.get(_elements(design, space), 0) + 1
    for store in stage.task.stores:
        if store.summed:
            counts[_elements(design, store.value.space)] = counts.get(_elements(design, store.value.space), 0) + 1
    ordered = sorted(counts.items(), key=lambda item: (-item[0].count("*"), item[0]))
    return " + ".join(f"{count} * {size}" for size, count in ordered if size != "1") or "1"
