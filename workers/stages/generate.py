"""Generate: have the kernel written and proved, and a model try to beat the compiler's where that is far from its floor."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import geometric_mean
from typing import Any

from gpu_runner.contracts import BenchmarkResult, Comparison, Pass, Word, WorkloadTiming, from_json, to_json
from workers.authors.protocol import AuthorRefusal
from workers.contracts import (
    AuthorName,
    CheckpointUpdate,
    CommitPurpose,
    CommitUpdate,
    GenerateSummary,
    KernelProfile,
    PullRequestUpdate,
    StageName,
    Update,
    UserFacingError,
)
from workers.engine.protocol import StageContext, StageResult
from workers.stages.bench import CreateBench, changes_from_json, merged, only_new, own_result, reopen_create
from workers.stages.briefs import HEARD, kernel_brief, new_points
from workers.stages.compiling import NOT_COMPILED, compiled_by_target
from workers.stages.gate import ORIGINAL_ALONE, PAIRED_S, timing_budget_s
from workers.stages.headroom import room, time_of
from workers.stages.search import AttemptLog
from workers.stages.writing import COMPILER, GIVES_WAY, ProvedKernel, kept_kernel, searched, terms_of, write
from workers.strategies.search import OTHER_METRIC, VARIANT, comparison_with_original

PREFIX = "better-"
# How a launcher calls its kernels is known of the compiler author's alone.
BY_MODEL = "The target's compiler is asked of the compiler author's kernels alone: a verdict on a GPU compiles these."
LEAST = 1.01  # as the runner's words: what is not beyond 1% is not worth one
Z_95 = 1.959964  # of a 95% interval of the normal distribution


class Generate:
    """The second stage of ``create``."""

    name = StageName.generate

    def run(self, context: StageContext) -> StageResult:
        """A kernel in the library's form whose verdict is passed, committed."""
        bench = reopen_create(context)
        analyzed = context.result_of(StageName.analyze)
        earlier = own_result(context, self.name)
        before = changes_from_json((earlier or analyzed)["changes"])
        log = AttemptLog(context, self.name)
        points = new_points(context.feedback, earlier)
        made = write(bench, log, points, earlier, bench.tree.overlaid(before))
        made, compared = beaten(bench, log, made)
        new = only_new(made.changes, bench.tree, before)
        profile = from_json(KernelProfile, analyzed["profile"])
        purpose = CommitPurpose.kernel if earlier is None else CommitPurpose.revision
        plan = made.design.plan
        summary = GenerateSummary(
            made.verdict,
            tuple(change.path for change in made.changes),
            made.author,
            plan.forward_formula,
            plan.gradient_formulas,
            _answered(context, earlier, made),
            (*compared, *_compiled(bench, made), *plan.notes),
            log.attempts,
        )
        commit = (CommitUpdate(purpose, new, self.name, context.attempt),) if new else ()
        updates: tuple[Update, ...] = (
            *commit,
            PullRequestUpdate(profile, bench.problem.source, made.verdict),
            CheckpointUpdate(self.name, context.attempt, summary, not context.request.options.auto),
        )
        output: dict[str, Any] = kept_kernel(made) | {
            "changes": to_json(merged(before, made.changes)),
            "style": to_json(made.style),
            HEARD: len(context.feedback),
        }
        context.artifact(f"{bench.name}.py", (made.design.source or "").encode(), "text/x-python")
        return StageResult(output, updates)


def _compiled(bench: CreateBench, made: ProvedKernel) -> tuple[str, ...]:
    """What the target's own compiler says, which is asked once a verdict has passed."""
    to = bench.context.request.options.to
    if to is None:
        return ()
    if made.author != COMPILER:
        return (BY_MODEL,) if made.verdict.interpreted else ()
    proposal = bench.compiled()
    assert not isinstance(proposal, AuthorRefusal), "the compiler wrote what was proved"
    return (compiled_by_target(to, bench.context, [(bench.problem, proposal)]) or NOT_COMPILED[to],)


def _answered(context: StageContext, earlier: dict[str, Any] | None, made: ProvedKernel) -> tuple[str, ...]:
    if made.author != COMPILER:
        return made.answered
    if not context.feedback or earlier is None:
        return ()
    if earlier["source"] == made.design.source:
        return ("The compiler author cannot act on words: it wrote the same kernel from the same problem.",)
    return ("The kernel was written again.",)


# Whether a model's kernel beats the compiler's; whatever comes of it, a proved kernel is kept.


def beaten(bench: CreateBench, log: AttemptLog, compiled: ProvedKernel) -> tuple[ProvedKernel, tuple[str, ...]]:
    """A model's kernel that is proved and faster than the compiler's, else the compiler's; and a sentence if one was asked.

    A model is asked with ``auto`` alone, where the compiler's kernel was timed and is above its floor. A replay uses the recorded
    measurements, so that it decides the same.

    Raises:
        UserFacingError: the GPU host failed.
    """
    context = bench.context
    asks = compiled.author == COMPILER and context.request.options.author is AuthorName.auto
    if not asks or not bench.has_models():
        return compiled, ()
    context.note("measuring how far the compiler's kernel is from its floor")
    sizes = max(1, len(bench.problem.workloads))
    form = bench.form(compiled.design, compiled.changes)
    measured = bench.gate.benchmark(f"{PREFIX}alone", bench.problem, form, budget_s=timing_budget_s(sizes))
    factor = room(measured)
    if factor is None:
        return compiled, ()
    asked = f"The compiler's kernel takes {factor:.2f} times the reachable time, so a model was asked for a faster one"
    try:
        terms = replace(terms_of(context), prefix=PREFIX)
        other = searched(bench, log, kernel_brief(bench, measured=measured), terms)
    except UserFacingError as error:
        if error.failure.code not in GIVES_WAY:
            raise
        return compiled, (f"{asked}; the compiler's stays, since {error.failure.message.rstrip('.')}.",)
    context.note("measuring a model's kernel against the compiler's")
    pair = bench.gate.benchmark(
        f"{PREFIX}beside",
        bench.problem,
        bench.form(other.design, other.changes),
        budget_s=timing_budget_s(sizes, PAIRED_S),
        original=form,
        contenders=ORIGINAL_ALONE,
    )
    compared = weighed(pair)
    _write_down(log, compared)
    if compared.taken:
        return other, (f"{asked}; its kernel is taken, by a run of both: {compared.reason}.",)
    return compiled, (f"{asked}; its kernel is proved and not taken, by a run of both: {compared.reason}.",)


def _write_down(log: AttemptLog, compared: Weighed) -> None:
    number = next(attempt.number for attempt in log.attempts if attempt.chosen)
    if compared.median_us is not None:
        log.measured(number, compared.median_us)
    if compared.taken:
        log.keep()
    else:
        log.left(number, compared.reason)


@dataclass(frozen=True)
class Weighed:
    """Whether a model's kernel replaces the compiler's; ``reason`` is part of a sentence."""

    taken: bool
    reason: str
    median_us: float | None = None  # of both passes, over all sizes


def weighed(measured: BenchmarkResult) -> Weighed:
    """Whether the candidate takes the original's place, by the runner's words in a run of both.

    It must have been timed at every size, be faster over all sizes with its whole interval, and slower at none in any pass.
    """
    median_us, lacking = _median_us(measured.rows), _lacking(measured)
    if lacking is not None:
        return Weighed(False, lacking, median_us)
    aimed = _aimed(measured.rows)
    compared = [pair for row in aimed if (pair := comparison_with_original(row)) is not None]
    times = f"{_times(*_over_sizes(compared))} {_sizes(aimed)}"
    against = _against(measured.rows)
    if against is not None:
        return Weighed(False, f"{times}, {against}", median_us)
    _, low, _ = _over_sizes(compared)
    if low <= LEAST or not any(pair.word is Word.faster for pair in compared):
        return Weighed(False, f"{times}, which is not faster beyond noise", median_us)
    return Weighed(True, times, median_us)


def _aimed(rows: Sequence[WorkloadTiming]) -> list[WorkloadTiming]:
    """Rows of both passes together; all rows where the two were not timed together, as where nothing has a gradient."""
    return [row for row in rows if row.timed_pass is Pass.full] or list(rows)


def _lacking(measured: BenchmarkResult) -> str | None:
    """Why the run does not compare the two."""
    if measured.predicted or not measured.rows:
        return "no GPU took part"
    for row in measured.rows:
        place = f"{row.timed_pass.value} at {row.workload.label()}"
        failed = [t.error for t in row.timings if t.contender == VARIANT and t.error is not None]
        if failed:
            return f"{place} failed while it was timed: {failed[0]}"
        if row.fault is not None:
            return f"the times of {place} cannot be right: {row.fault}"
        if comparison_with_original(row) is None:
            return f"{place} was not timed within the time"
    return None if measured.complete else "not all sizes were timed within the time"


def _against(rows: Sequence[WorkloadTiming]) -> str | None:
    """The first size at which it is worse."""
    for row in rows:
        comparison, place = comparison_with_original(row), f"{row.timed_pass.value} at {row.workload.label()}"
        if comparison is not None and comparison.word is Word.slower:
            return (
                f"and slower in {place}: {_times(comparison.speedup, comparison.speedup_low, comparison.speedup_high)}"
            )
        if row.memory_ratio is not None and row.memory_ratio > OTHER_METRIC:
            return f"and needs {row.memory_ratio:.2f} times the memory in {place}"
    return None


def _sizes(rows: Sequence[WorkloadTiming]) -> str:
    count = len({row.workload for row in rows})
    return f"over {count} sizes" if count > 1 else "at the one size"


def _times(speedup: float, low: float, high: float) -> str:
    return f"{speedup:.2f} times as fast ({low:.2f} to {high:.2f})"


def _over_sizes(compared: Sequence[Comparison]) -> tuple[float, float, float]:
    """The geometric mean with its 95% interval, taking the sizes as measured independently of each other."""
    if len(compared) == 1:
        return compared[0].speedup, compared[0].speedup_low, compared[0].speedup_high
    mean = geometric_mean([pair.speedup for pair in compared])
    errors = [math.log(pair.speedup_high / pair.speedup_low) / (2 * Z_95) for pair in compared]
    half = Z_95 * math.sqrt(sum(error**2 for error in errors)) / len(errors)
    return mean, mean * math.exp(-half), mean * math.exp(half)


def _median_us(rows: Sequence[WorkloadTiming]) -> float | None:
    times = [time_of(row) for row in _aimed(rows)]
    known = [time_us for time_us in times if time_us]
    return geometric_mean(known) if known and len(known) == len(times) else None
