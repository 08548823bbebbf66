"""``profile.md``, a kernel against its limits and what would be tried, and ``report.md``, what came of it. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from gpu_runner.contracts import BenchmarkResult, ProfileResult, WorkloadTiming
from workers.contracts import FinalizeSummary, PlannedStrategy, ProfileSummary, Scope, Variant, format_scope
from workers.strategies.evidence import original_us

MOST_ROWS = 60
CANDIDATE = "candidate"
ORIGINAL = "original"


def profile_path(kernel: str) -> str:
    """Where the page of a kernel lies."""
    return f"optimization/{kernel}/profile.md"


def profile_page(kernel: str, summary: ProfileSummary) -> str:
    """The page of an existing kernel, with the strategies that would be tried."""
    scope = format_scope(summary.scope, summary.regime)
    parts = (
        _title(kernel),
        _gpu(summary.profile),
        f"Goal: {summary.goal}; scope: {scope if scope != Scope.general.value else 'all passes and sizes'}"
        + (f"; target: {_cell(summary.target)}" if summary.target else ""),
        _bounds(summary.profile),
        _times(summary.benchmark),
        "## Strategies, in the order in which they are tried\n\n"
        + _table(("", "strategy", "because", "expected gain"), _strategies(summary.strategies)),
        "\n".join(f"- {_cell(note)}" for note in summary.notes),
    )
    return _joined(parts)


def kernel_page(kernel: str, profile: ProfileResult, benchmark: BenchmarkResult) -> str:
    """The page of a new or changed kernel: ``benchmark`` timed it as the candidate."""
    return _joined(
        (
            _title(kernel),
            _gpu(profile),
            _bounds(profile),
            _findings(profile),
            _counters(profile),
            _times(benchmark, CANDIDATE),
        )
    )


def report_page(kernel: str, summary: FinalizeSummary) -> str:
    """The report of an optimize job: what is applied, before and after, all variants, the checks and how to repeat it."""
    winner = summary.winner
    applied = f"{winner.name}: {_cell(winner.title)}." if winner is not None else "None: the original stands."
    verdict = "" if summary.verdict is None else f"- verdict: {summary.verdict.status.value}"
    tests = "" if summary.tests is None else f"- the library's tests: {_cell(summary.tests.summary)}"
    style = (
        ""
        if summary.style is None
        else f"- the library's style check: {'passed' if summary.style.passed else 'failed'}"
    )
    script = "" if summary.script is None else f"- the library's benchmark script: {_cell(summary.script.summary)}"
    checks = "\n".join(line for line in (verdict, tests, style, script) if line)
    header = ("variant", "from", "strategy", "outcome", "score", "result")
    return _joined(
        (
            f"# Report of {_cell(kernel)}",
            f"Applied variant: {applied}",
            "\n".join(f"- {_cell(note)}" for note in summary.notes),
            _compared(summary.benchmark) if summary.benchmark is not None else "",
            f"## Variants\n\n{_table(header, [_variant(item) for item in summary.variants])}"
            if summary.variants
            else "",
            f"## Checks\n\n{checks}" if checks else "",
            "## Conditions\n\n" + "\n".join(f"- {_cell(name)}: {_cell(value)}" for name, value in summary.provenance),
            f"Repeat it with `{_cell(summary.reproduce)}`.",
        )
    )


def _compared(benchmark: BenchmarkResult) -> str:
    """Before and after, with eager and torch.compile."""
    if benchmark.predicted:
        return _times(benchmark, ORIGINAL, CANDIDATE)
    header = (
        "sizes",
        "pass",
        "before (us)",
        "after (us)",
        "speedup (interval)",
        "eager (us)",
        "torch.compile (us)",
        "floor (us)",
    )
    rows = [_before_and_after(row) for row in benchmark.rows[:MOST_ROWS]]
    return f"## Before and after (measured)\n\n{_table(header, rows)}"


def _before_and_after(row: WorkloadTiming) -> tuple[str, ...]:
    times = {timing.contender: _number(timing.median_us) for timing in row.timings}
    comparison = next(
        (each for each in row.comparisons if (each.contender, each.baseline) == (CANDIDATE, ORIGINAL)), None
    )
    speedup = (
        "-"
        if comparison is None
        else f"{comparison.speedup:.3f} ({comparison.speedup_low:.3f} to {comparison.speedup_high:.3f})"
    )
    before, after, *others = (times.get(name, "-") for name in (ORIGINAL, CANDIDATE, "eager", "torch_compile"))
    return (row.workload.label(), row.timed_pass.value, before, after, speedup, *others, _number(row.floor_us))


def _variant(variant: Variant) -> tuple[str, ...]:
    score = "-" if variant.score is None else f"{variant.score:.3f}"
    return (
        variant.name,
        variant.parent,
        variant.title,
        variant.outcome.value,
        score,
        variant.reason or variant.notes.learnings,
    )


def _joined(parts: Iterable[str]) -> str:
    return "\n\n".join(part for part in parts if part) + "\n"


def _title(kernel: str) -> str:
    return f"# Profile of {_cell(kernel)}"


def _gpu(profile: ProfileResult) -> str:
    gpu = profile.gpu
    return (
        f"GPU: {_cell(gpu.name)}, {gpu.bandwidth_gbps:.0f} GB/s ({'measured' if gpu.measured else _cell(gpu.source)})"
    )


def _bounds(profile: ProfileResult) -> str:
    lines = [f"- {timed_pass.value}: {bound.value}" for timed_pass, bound in profile.bounds]
    return "## What bounds it\n\n" + "\n".join(lines or ["- not known"])


def _findings(profile: ProfileResult) -> str:
    rows = [
        (finding.subject, finding.metric, f"{finding.value:.3g}", f"{finding.threshold:.3g}", finding.rule)
        for finding in profile.findings[:MOST_ROWS]
    ]
    return f"## Evidence\n\n{_table(('of', 'metric', 'value', 'threshold', 'rule'), rows)}" if rows else ""


def _counters(profile: ProfileResult) -> str:
    """What Nsight Compute measured of each launch, or why it was not used."""
    rows = [
        (
            launch.kernel,
            launch.timed_pass.value,
            _number(launch.duration_us),
            *(_share(value) for value in (launch.dram_share, launch.sm_share, launch.occupancy)),
        )
        for launch in profile.counters[:MOST_ROWS]
    ]
    header = ("kernel", "pass", "time (us)", "memory", "multiprocessors", "occupancy")
    why = f"Nsight Compute was not used: {_cell(profile.counters_error)}" if profile.counters_error else ""
    return f"## Nsight Compute\n\n{_table(header, rows)}" if rows else why


def _times(benchmark: BenchmarkResult, *contenders: str) -> str:
    measured = "predicted, no GPU took part" if benchmark.predicted else "measured"
    rows = list[tuple[str, ...]]()
    for row in benchmark.rows[:MOST_ROWS]:
        time_us, floor_us = original_us(row, *contenders), row.floor_us
        share = f"{floor_us / time_us:.0%}" if time_us and floor_us else "-"
        rows.append((row.workload.label(), row.timed_pass.value, _number(time_us), _number(floor_us), share))
    return f"## Times ({measured})\n\n{_table(('sizes', 'pass', 'time (us)', 'floor (us)', 'of the floor'), rows)}"


def _strategies(planned: Sequence[PlannedStrategy]) -> list[tuple[str, ...]]:
    return [(str(number), item.title, item.trigger, item.gain or "not known") for number, item in enumerate(planned, 1)]


def _share(value: float | None) -> str:
    return "-" if value is None else f"{value:.0%}"


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.1f}"


def _table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(_cell(cell) for cell in line)} |" for line in lines)


def _cell(text: str) -> str:
    """Keep text of any origin on its line and in its cell, and as text."""
    plain = " ".join(text.split())
    return plain.replace("\\", "\\\\").replace("|", "\\|").replace("<", "&lt;").replace("@", "@\u200b")
