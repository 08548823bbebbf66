"""What a proposal says besides its source: the plan for people, knobs, the signature, the sizes that it takes. Pure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from gpu_runner.contracts import Knob, Pass
from gpu_runner.contracts.graph import Expr
from workers.authors.compiler.design import ProgramDesign, columns_of
from workers.authors.compiler.domain import COL, FULL, ROW, SCALAR, SEGMENT, Space
from workers.authors.compiler.graph import PRECISION_SENSITIVE
from workers.authors.compiler.kernels import Store, formula
from workers.authors.compiler.programs import Programs
from workers.authors.compiler.schedules.base import Schedule
from workers.authors.compiler.values import TileValue
from workers.authors.protocol import KernelPlan, KernelSketch, Limit, Signature


@dataclass(frozen=True)
class Family:
    """A kind of program; ``tier`` is 1 for element-wise, 2 for reductions, 3 for fused ones."""

    name: str
    tier: int
    holds: Callable[[ProgramDesign], bool]


def _values_of(design: ProgramDesign) -> list[TileValue]:
    return [value for schedule in design.passes for value in schedule.task.values]


def _reduces(design: ProgramDesign, kind: str) -> bool:
    return any(value.op == "over_cols" and value.datum == kind for value in design.forward.task.values)


def _several_uses(design: ProgramDesign) -> bool:
    full = [r for r in design.program.outputs if r.space.rows and r.space.cols]
    return len(full) > 1


FAMILIES = (
    Family("product", 3, lambda design: design.program.multiplies),
    Family("windows", 2, lambda design: bool(design.program.domain.windows)),
    Family(
        "element-wise",
        1,
        lambda design: all(schedule.task.is_flat(design.program.domain) for schedule in design.passes),
    ),
    Family("softmax", 2, lambda design: _reduces(design, "max") and any(v.op == "exp" for v in _values_of(design))),
    Family(
        "fused row norm",
        3,
        lambda d: _several_uses(d) and _reduces(d, "sum") and any(v.op == "rsqrt" for v in _values_of(d)),
    ),
    Family("row norm", 2, lambda design: _reduces(design, "sum") and any(v.op == "rsqrt" for v in _values_of(design))),
    Family("row reduction", 2, lambda design: any(v.op in {"over_cols", "scan"} for v in _values_of(design))),
    Family("broadcast element-wise", 1, lambda design: True),
)


def family_of(design: ProgramDesign) -> Family:
    """The family of a design."""
    return next(family for family in FAMILIES if family.holds(design))


FLOAT32_BYTES = "4"


def _plan(design: ProgramDesign) -> KernelPlan:
    program, names, family = design.program, design.names, family_of(design)
    outputs = tuple(Store(text, r.value, r.space) for text, r in zip(names.outputs, program.outputs, strict=True))
    ops = {value.op for schedule in design.passes for value in schedule.task.values}
    sums = any(
        value.op == "over_cols" and value.datum == "sum" for schedule in design.passes for value in schedule.task.values
    )
    return KernelPlan(
        family=family.name,
        tier=family.tier,
        kernels=tuple(sketch for schedule in design.passes for sketch in _sketches(design, schedule)),
        forward_formula="; ".join(f"{store.name} = {formula(names, store)}" for store in outputs),
        gradient_formulas=tuple((name, _gradient(design, name)) for name, _ in program.gradients),
        saved_tensors=tuple(names.tensors[node] for node in design.saved_nodes),
        recomputed=_recomputed(design),
        precision_sensitive_ops=tuple(op for op in PRECISION_SENSITIVE if op in ops)
        + (("sum over a row",) if sums else ()),
        grid_dimensions=design.forward.grid[0],
        grid_description=design.forward.grid[1],
        block_size_source="calculate_settings",
        needs_sm_parallelism=any(schedule.task.sums_rows for schedule in design.passes),
        forward_bytes=_bytes(design, design.forward),
        backward_bytes=_bytes(design, design.backward) if design.backward else "0",
        forward_flops=_flops(design, design.forward),
        backward_flops=_flops(design, design.backward) if design.backward else "0",
        notes=_notes(design),
    )


def _gradient(design: ProgramDesign, name: str) -> str:
    result = dict(design.program.gradients)[name]
    return formula(design.names, Store(design.names.gradients[name], result.value, result.space))


def _sketches(design: ProgramDesign, schedule: Schedule) -> list[KernelSketch]:
    timed = "forward" if schedule is design.forward else "backward"
    domain = design.program.domain
    space = f"rows {_product(design, domain.row_axes)}, columns {_product(design, domain.col_axes)}"
    space = "elements" if schedule.task.is_flat(domain) else space
    return [KernelSketch(name, timed, space, grid) for name, grid in schedule.sketches]


def _recomputed(design: ProgramDesign) -> str:
    if design.backward is None:
        return "nothing: there is no backward"
    saved = [design.names.tensors[key] for key, _ in design.program.saved]
    if not tuple(design.saved_nodes):
        return "nothing: the gradients need no value of forward"
    kept = (
        f"; {', '.join(saved)} {'is' if len(saved) == 1 else 'are'} saved in float32, a number a row" if saved else ""
    )
    return f"element-wise values are recomputed in backward from what is saved{kept}"


def _notes(design: ProgramDesign) -> tuple[str, ...]:
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


def _product(design: ProgramDesign, axes: tuple[int, ...]) -> str:
    sizes = [design.program.domain.sizes[axis] for axis in axes]
    texts = [size.text if isinstance(size, Expr) else str(size) for size in sizes]
    return " * ".join(text if text.isidentifier() or text.isdigit() else f"({text})" for text in texts) or "1"


def _elements(design: ProgramDesign, space: Space) -> str:
    domain = design.program.domain
    whole = (*domain.row_axes, *domain.col_axes)
    axes = {FULL: whole, ROW: domain.row_axes, COL: domain.col_axes, SCALAR: (), SEGMENT: domain.segment_axes}[space]
    return _product(design, axes)


def _bytes(design: ProgramDesign, schedule: Schedule) -> str:
    """Each tensor once; partial sums of programs do not count, being small."""
    domain, saved = design.program.domain, {key for key, _ in design.program.saved}
    terms: dict[tuple[str, str], int] = {}
    for value in (*design.program.operands, *schedule.task.values):
        if value.op == "load":
            name = str(value.datum)
            size = _elements(design, ROW) if name in saved else _product(design, domain.axes_of(domain.base(name)))
            width = FLOAT32_BYTES if name in saved else _width(design, name)
            terms[size, width] = terms.get((size, width), 0) + 1
    own = {design.names.tensors[key]: FLOAT32_BYTES for key in saved} if schedule is design.forward else {}
    if schedule is design.forward:
        outputs = zip(design.names.outputs, design.program.graph.outputs, strict=True)
        own.update({text: _width(design, node) for text, node in outputs})
    for store in schedule.task.stores:
        key = (_elements(design, store.space), own.get(store.name, "E"))
        terms[key] = terms.get(key, 0) + len(store.pieces)
    ordered = sorted(terms.items(), key=lambda item: (-item[0][0].count("*"), item[0]))
    return " + ".join(" * ".join([*([str(n)] if n > 1 else []), size, width]) for (size, width), n in ordered)


def _width(design: ProgramDesign, name: str) -> str:
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


def _flops(design: ProgramDesign, schedule: Schedule) -> str:
    counts: dict[str, int] = {}
    if design.program.product is not None:
        axes = design.program.product.axes
        counts[_product(design, (*axes.batch, *axes.rows, *axes.cols, *axes.inner))] = 2
    if (chained := design.program.chained) is not None:
        widths = [score.rows.features for score in chained.scores.values()]
        for features in (*widths, *(result.right.features for result in chained.results.values())):
            size = _product(design, (*chained.batch, *chained.rows, *chained.inner, *features))
            counts[size] = counts.get(size, 0) + 2
    for value in schedule.task.values:
        if value.args:
            space = value.args[0].space if value.op == "over_cols" else value.space
            counts[_elements(design, space)] = counts.get(_elements(design, space), 0) + 1
    for store in schedule.task.stores:
        if store.summed:
            counts[_elements(design, store.value.space)] = counts.get(_elements(design, store.value.space), 0) + 1
    ordered = sorted(counts.items(), key=lambda item: (-item[0].count("*"), item[0]))
    return " + ".join(f"{count} * {size}" for size, count in ordered if size != "1") or "1"


def plan_of(programs: Programs) -> KernelPlan:
    """The plan of all programs together."""
    plans = [_plan(design) for design in programs.designs]
    if len(plans) == 1 and programs.members[0].step_of is None:
        return plans[0]
    if programs.members[0].step_of is not None:
        return _plan_of_series(programs, plans)
    shared = len({member.forward for member in programs.members}) < len(plans)
    return replace(
        plans[0],
        tier=max(plan.tier for plan in plans),
        kernels=tuple(sketch for plan in plans for sketch in plan.kernels),
        forward_formula="; ".join(dict.fromkeys(plan.forward_formula for plan in plans)),
        gradient_formulas=tuple(formula for plan in plans for formula in plan.gradient_formulas),
        saved_tensors=tuple(
            dict.fromkeys(
                m.table[n] for m, plan in zip(programs.members, plans, strict=True) for n in plan.saved_tensors
            )
        ),
        precision_sensitive_ops=tuple(dict.fromkeys(op for plan in plans for op in plan.precision_sensitive_ops)),
        needs_sm_parallelism=any(plan.needs_sm_parallelism for plan in plans),
        forward_bytes=" + ".join(plan.forward_bytes for plan in plans),
        backward_bytes=" + ".join(plan.backward_bytes for plan in plans),
        forward_flops=" + ".join(plan.forward_flops for plan in plans),
        backward_flops=" + ".join(plan.backward_flops for plan in plans),
        notes=(
            "outputs that share no computation have kernels of their own, started one after the other",
            *(["those that compute the same of other tensors share them"] if shared else []),
            *dict.fromkeys(note for plan in plans for note in plan.notes),
        ),
    )


def _plan_of_series(programs: Programs, plans: list[KernelPlan]) -> KernelPlan:
    """The plan of steps: each is the forward pass of its own design, whichever pass it is a step of."""
    pairs = list(zip(programs.members, plans, strict=True))
    steps = {t: [plan for member, plan in pairs if member.step_of is t] for t in (Pass.forward, Pass.backward)}
    kernels = tuple(replace(k, timed_pass=str(m.step_of)) for m, plan in pairs for k in plan.kernels)
    made = "; ".join(plan.forward_formula for plan in steps[Pass.backward])
    kept = [name for name in programs.backward_arguments if name not in programs.upstream]
    named = [plan for family in ("product", "windows") for plan in plans if plan.family == family]
    # A product with a vector, of which nothing else follows, is a reduction.
    first = named[0] if named else plans[0]
    return replace(
        first,
        kernels=kernels,
        forward_formula="; ".join(plan.forward_formula for plan in steps[Pass.forward]),
        gradient_formulas=tuple((name, f"{text}, where {made}") for name, text in programs.gradients.items()),
        saved_tensors=tuple(kept),
        recomputed="what backward computes element by element from what is saved",
        precision_sensitive_ops=tuple(dict.fromkeys(op for plan in plans for op in plan.precision_sensitive_ops)),
        block_size_source={"product": "_product_settings", "windows": "_window_settings"}.get(
            first.family, first.block_size_source
        ),
        needs_sm_parallelism=any(plan.needs_sm_parallelism for plan in plans),
        forward_bytes=" + ".join(plan.forward_bytes for plan in steps[Pass.forward]),
        backward_bytes=" + ".join(plan.forward_bytes for plan in steps[Pass.backward]) or "0",
        forward_flops=" + ".join(plan.forward_flops for plan in steps[Pass.forward]),
        backward_flops=" + ".join(plan.forward_flops for plan in steps[Pass.backward]) or "0",
        notes=("a pass is a series of kernels; what one needs of another is stored between them",),
    )


def knobs_of(programs: Programs) -> tuple[Knob, ...]:
    """Knobs of both passes, those that matter most first, at most 30 values for a pass; programs share their settings."""
    values: dict[tuple[Pass, str], set[int]] = {}
    for design in programs.designs:
        for schedule in (one for one in design.passes if one.form.tunable or one.form.tuned_tiles):
            for setting, own in schedule.knobs(columns_of(design)):
                values.setdefault((schedule.form.tuned_pass, setting), set()).update(own)
    return tuple(Knob(*key, tuple(sorted(own))) for key, own in values.items() if own)


def signature_of(programs: Programs) -> Signature:
    """How the two functions are called; inputs and scalars by the problem's own names."""
    names, graph = programs.names, programs.graph
    own = {text: name for name, text in names.scalars.items()}
    own |= {names.tensors[spec.name]: spec.name for spec in programs.problem.inputs}
    return Signature(
        forward_arguments=programs.problem.parameters,
        outputs=names.outputs,
        saved=tuple(programs.saved),
        backward_arguments=tuple(own.get(text, text) for text in programs.backward_arguments),
        upstream=tuple(names.tensors[node] if node is not None else "" for node in graph.upstream),
        gradients=tuple(programs.gradients),
    )


def limits_of(programs: Programs) -> tuple[Limit, ...]:
    """The bounds that programs set to the calls that they take, the least for each size."""
    least: dict[str, int] = {}
    for design in programs.designs:
        for schedule in design.passes:
            if schedule.most is not None:
                size = _columns_text(design)
                least[size] = min(schedule.most, least.get(size, schedule.most))
    return tuple(Limit(size, most) for size, most in least.items())


def _columns_text(design: ProgramDesign) -> str:
    """The number of columns as arithmetic over dimension names."""
    sizes = [design.program.domain.sizes[axis] for axis in design.program.domain.col_axes]
    texts = [size.text if isinstance(size, Expr) else str(size) for size in sizes]
    single = len(texts) == 1
    return " * ".join(text if single or text.isidentifier() or text.isdigit() else f"({text})" for text in texts)
