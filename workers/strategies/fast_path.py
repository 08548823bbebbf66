"""The fast path: the compiler's kernels behind the same autograd Function, for all calls or from a size on. Pure."""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Sequence
from dataclasses import replace

from gpu_runner.contracts import TABLE, Problem, Workload, WorkloadTiming
from gpu_runner.contracts.reading import walk
from workers.authors.protocol import AuthorRefusal, Brief, Proposal
from workers.contracts import Notes, PlannedStrategy, Variant
from workers.layouts.python_source import Import, read_imports, with_import
from workers.strategies.conditions import UncallableError, bound_call, scalar_sentence, sentence
from workers.strategies.evidence import bound_of, floor_share, share_sentence
from workers.strategies.protocol import DoesNotApply, Proposed, Situation
from workers.strategies.search import GOAL_PASSES, comparison_with_original
from workers.strategies.source import parsed
from workers.strategies.splicing import Splice, SpliceNames, loosened
from workers.tuned_table import with_tuned

# Shares of the floor that compiled kernels were seen to reach on an H200, docs/measurements.
REACHED_LOW, REACHED_HIGH = 0.75, 0.95
LEAST_WORTH = 1.03
UNKNOWN_GAIN = (1.0, 2.0)


class CompiledFastPath:
    """Fuses, streams and tunes what the problem computes, and nothing else."""

    id = "compiled_fast_path"
    title = "Compiled kernels as a fast path"
    document = "compiled-fast-path.md"
    needs_kernel = True

    def plan(self, situation: Situation) -> PlannedStrategy | None:
        """It is worth a try where the passes are farther from their floor than compiled kernels were seen to be."""
        if situation.graph is None or situation.problem.call is None:
            return None
        share = floor_share(situation.benchmark, GOAL_PASSES[situation.scope])
        low, high = UNKNOWN_GAIN if share is None else (max(1.0, REACHED_LOW / share), REACHED_HIGH / share)
        if high < LEAST_WORTH:
            return None
        reason = share_sentence(situation) or "how far it is from its floor was not measured"
        trigger = f"The problem's graph can be compiled, and {reason}."
        return PlannedStrategy(self.id, self.title, trigger, low, high, bound_of(situation))

    def propose(self, situation: Situation) -> Proposed | DoesNotApply:
        """The file with the fast path in it."""
        return proposed(situation)


def proposed(situation: Situation, least_elements: int = 0) -> Proposed | DoesNotApply:
    """The file with a fast path for calls of at least so many elements of the largest input."""
    if situation.graph is None:
        return DoesNotApply("The problem could not be traced, so that there is nothing to compile.")
    try:
        # A table that a sweep has put there would be looked up by two kinds of kernels.
        tabled = re.search(rf"^{TABLE}\b", situation.source, re.MULTILINE) is not None
        file = parsed(situation.original if tabled else situation.source)
        called = bound_call(file, situation.problem)
        # Callers compare the Function with what eager mode gives, which rounds after every operator.
        style = replace(situation.style, section=True, tunable=True, rounds_as_reference=True)
        style = replace(style, function_class=called.owner.name)
        names = (situation.kernel.name, situation.problem, situation.graph, style)
        sizes = _sizes(situation)
        answer = situation.author.propose(Brief(*names, may_overwrite=situation.overwrites, sizes=sizes))
        if isinstance(answer, AuthorRefusal):
            return DoesNotApply(f"The {situation.author.name} author cannot: {answer.sentence}")
        if answer.signature is None:
            return DoesNotApply(f"The {situation.author.name} author writes no sections of existing files.")
        free = TABLE not in {n.id for n in walk(file.tree) if isinstance(n, ast.Name)}
        section = _with_free_table(answer.source, style.prefix) if free else answer.source
        loose = loosened(file, called, situation.problem, section, SpliceNames(style, answer.signature))
        parts = (
            situation.problem,
            situation.graph,
            style,
            loose.section,
            answer.signature,
            situation.overwrites,
            least_elements,
            loose.loose,
            loose.dtype_inputs,
            answer.limits,
        )
        text = _with_imports(Splice(file, called, *parts).result(), answer.imports)
    except UncallableError as error:
        return DoesNotApply(str(error))
    except ValueError as error:
        return DoesNotApply(f"The source was not understood: {error}.")
    scalars = scalar_sentence(situation.problem, situation.graph)
    return Proposed(
        text, _notes(answer, least_elements, scalars), answer.knobs if free else (), with_tuned if free else None
    )


def _sizes(situation: Situation) -> tuple[Workload, ...]:
    """All sizes that matter: the problem's own, and those of the library's benchmark script, at which v0 was measured."""
    measured = (row.workload for row in situation.benchmark.rows)
    return tuple(dict.fromkeys((*situation.problem.workloads, *measured)))


def _with_free_table(section: str, prefix: str) -> str:
    """The runner tunes what a module calls TUNED, so that the section's table takes that name where it is free."""
    return re.sub(rf"(?<!\w){re.escape(prefix)}{TABLE}\b", TABLE, section)


def _with_imports(source: str, lines: tuple[str, ...]) -> str:
    bound = _bound_by_imports(source)
    for wanted in (statement.imported for line in lines for statement in read_imports(line)):
        if wanted.bound in bound:
            continue
        try:
            source = with_import(source, wanted)
        except ValueError:
            source = _with_first_import(source, wanted)
    return source


def _bound_by_imports(source: str) -> set[str]:
    """The names that the module's imports bind, those under a condition or in a ``try`` too."""
    bound: set[str] = set()
    left: list[ast.stmt] = list(ast.parse(source).body)
    while left:
        node = left.pop()
        if isinstance(node, ast.Import | ast.ImportFrom):
            bound |= {alias.asname or alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.If | ast.Try):
            handlers = node.handlers if isinstance(node, ast.Try) else []
            left += [*node.body, *node.orelse, *(line for handler in handlers for line in handler.body)]
    return bound


def _with_first_import(source: str, wanted: Import) -> str:
    """An import of a package that the file has nothing of: among the plain ones of its kind, behind them, or before all."""
    statements = read_imports(source)
    lines = source.splitlines(keepends=True)
    plain = [s for s in statements if s.imported.name is None and s.imported.module < wanted.module]
    standard = [s for s in plain if s.imported.module.split(".")[0] not in ("torch", "triton")]
    if standard and wanted.name is None:
        lines.insert(standard[-1].last, wanted.line() + "\n")
    elif wanted.name is not None and all(s.imported.name is None for s in statements) and statements:
        lines.insert(statements[-1].last, "\n" + wanted.line() + "\n")
    else:
        at = statements[0].first - 1 if statements else 0
        lines.insert(at, wanted.line() + "\n\n")
    return "".join(lines)


def _notes(answer: Proposal, least_elements: int, scalars: str) -> Notes:
    bound = f" of at least {least_elements} elements" if least_elements else ""
    kernels = ", ".join(dict.fromkeys(f"`{kernel.name}` ({kernel.grid})" for kernel in answer.plan.kernels))
    return Notes(
        "One pass over memory for what the problem computes, with launch settings found by measuring, comes nearer to the floor.",
        f"A guard at the start of forward and backward sends the calls{bound} that are covered to compiled kernels: {kernels}. "
        f"{sentence(answer.limits)}{scalars}Every other call runs the code that stands there, unchanged.",
        "Near the floor on every size where the kernels stream; the same results within the verdict's tolerances.",
    )


UNTRIED = "The fast path for all sizes was not measured, so that nothing tells where it is slower."
EVEN = "The fast path is not slower at small sizes and faster at larger ones."


class FastPathBySize:
    """Mends a fast path that a guardrail rejected for what it does to small sizes."""

    id = "fast_path_by_size"
    title = "Fast path from a size on"
    document = "fast-path-by-size.md"
    needs_kernel = True

    def plan(self, situation: Situation) -> PlannedStrategy | None:
        """It may be worth a try wherever the fast path is; whether it is, the fast path's own rows will tell."""
        whole = CompiledFastPath().plan(situation)
        if whole is None:
            return None
        trigger = (
            "The fast path may be slower at small sizes, where its launches weigh more than the bytes that it saves."
        )
        # It comes after the fast path itself, whose gain it keeps at most.
        return replace(whole, strategy=self.id, title=self.title, trigger=trigger, gain_low=1.0)

    def propose(self, situation: Situation) -> Proposed | DoesNotApply:
        """The file with the fast path bounded by what was measured."""
        tried = [v for v in situation.earlier if v.strategy == CompiledFastPath.id and v.rows]
        if not tried:
            return DoesNotApply(UNTRIED)
        least = least_elements(situation.problem, tried[-1])
        return DoesNotApply(EVEN) if least is None else proposed(situation, least)


def least_elements(problem: Problem, variant: Variant) -> int | None:
    """The number of elements of the largest input from which on no pass was slower; None where there is no such bound.

    It lies at the geometric mean between the largest size that was slower and the smallest above it.
    """
    sizes = sorted({elements(problem, row.workload) for row in variant.rows})
    slower = [elements(problem, row.workload) for row in variant.rows if _slower(row)]
    above = [size for size in sizes if slower and size > max(slower)]
    if not above or not any(_faster(variant.rows, problem, size) for size in above):
        return None
    return 1 << round(math.log2(math.sqrt(max(slower) * above[0])))


def elements(problem: Problem, workload: Workload) -> int:
    """The number of elements of a workload's largest input."""
    sizes = dict(workload.sizes)
    return max(math.prod(int(d) if d.isdigit() else sizes[d] for d in spec.dims) for spec in problem.inputs)


def _slower(row: WorkloadTiming) -> bool:
    comparison = comparison_with_original(row)
    return comparison is not None and comparison.speedup_high < 1.0


def _faster(rows: Sequence[WorkloadTiming], problem: Problem, size: int) -> bool:
    comparisons = [comparison_with_original(row) for row in rows if elements(problem, row.workload) == size]
    return any(comparison is not None and comparison.speedup_low > 1.0 for comparison in comparisons)
