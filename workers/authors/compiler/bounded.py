"""Which kernels for wide rows a design needs, where calls with other sizes have code to fall back on. Pure."""

from __future__ import annotations

from dataclasses import replace

from gpu_runner.contracts import Workload
from gpu_runner.contracts.graph import Expr
from workers.authors.compiler.design import Design
from workers.authors.compiler.families import stages_of
from workers.authors.compiler.knobs import columns_of, other_widest
from workers.authors.compiler.launches import Pass
from workers.authors.compiler.refusals import CannotCompileError
from workers.authors.compiler.sizes import evaluate, numbers_of
from workers.authors.protocol import Limit


def bounded(design: Design, sizes: tuple[Workload, ...]) -> Design:
    """Give the design without the kernels for wide rows that no size needs; its passes then take rows up to a bound.

    A size needs what the rule chooses for it and what a value of the knob for the bound would. No sizes: every kernel stays.
    """
    columns = {_columns(design, workload) for workload in sizes}
    known = sorted(count for count in columns if count is not None)
    if not known or len(known) < len(columns):
        return design
    tuned = columns_of(design) if design.forward.form.tunable else []
    forward = _bounded(design.forward, known, tuned)
    backward = None if design.backward is None else _bounded(design.backward, known, tuned)
    return replace(design, forward=forward, backward=backward)


def limits_of(*designs: Design) -> tuple[Limit, ...]:
    """Give the bounds that designs set to the calls that they take, the least for each size."""
    least: dict[str, int] = {}
    for design in designs:
        for stage in stages_of(design):
            if stage.most is not None:
                size = _size(design)
                least[size] = min(stage.most, least.get(size, stage.most))
    return tuple(Limit(size, most) for size, most in least.items())


def _bounded(stage: Pass, columns: list[int], tuned: list[int]) -> Pass:
    if stage.wide is None or columns[-1] > stage.widest or other_widest(stage, tuned):
        return stage
    return replace(stage, wide=None, most=stage.widest)


def _columns(design: Design, workload: Workload) -> int | None:
    """Give how many columns a size has, None where it does not say."""
    given, product = numbers_of(design.program.problem, workload), 1
    try:
        for axis in design.program.domain.col_axes:
            size = design.program.domain.sizes[axis]
            product *= int(evaluate(size, given)) if isinstance(size, Expr) else size
    except CannotCompileError:
        return None
    return product


def _size(design: Design) -> str:
    """Give the number of columns as arithmetic over dimension names."""
    sizes = [design.program.domain.sizes[axis] for axis in design.program.domain.col_axes]
    texts = [size.text if isinstance(size, Expr) else str(size) for size in sizes]
    single = len(texts) == 1
    return " * ".join(text if single or text.isidentifier() or text.isdigit() else f"({text})" for text in texts)
