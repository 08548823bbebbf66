"""A variant's page of the lab notebook as markdown, and what was measured of it as CSV. Pure."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence

from gpu_runner.contracts import WorkloadTiming
from workers.contracts import Outcome, Variant

HEADER = (
    "sizes",
    "pass",
    "contender",
    "median_us",
    "p20_us",
    "p80_us",
    "peak_bytes",
    "floor_us",
    "speedup_over_v0",
    "speedup_low",
    "speedup_high",
    "error",
)
PROPOSED = "proposed: proved, and not timed, since no GPU took part"
NOT_RUN = "It has not been run yet."


def notes_page(variant: Variant) -> str:
    """The notes: what is supposed, changed and expected, and, once it has been run, what came of it."""
    notes = variant.notes
    settings = "\n".join(f"- {_line(name)}: {_line(value)}" for name, value in variant.settings)
    ran = variant.status is not None or variant.reason is not None or variant.rows
    score = f", {variant.score:.3f} times as good as v0 by the goal" if variant.score is not None else ""
    outcome = PROPOSED if variant.outcome is Outcome.proposed else variant.outcome.value
    result = f"{outcome}{score}. {variant.reason or ''}".rstrip() if ran else NOT_RUN
    parts = (
        f"# {variant.name}: {_line(variant.title)}",
        f"Made from {variant.parent}.",
        f"## Hypothesis\n\n{_line(notes.hypothesis)}",
        f"## Change\n\n{_line(notes.change)}" if notes.change else "",
        f"## Settings\n\n{settings}" if settings else "",
        f"## Expected\n\n{_line(notes.expected)}",
        f"## Result\n\n{_line(result)}",
        f"## Learned\n\n{_line(notes.learnings)}" if notes.learnings else "",
    )
    return "\n\n".join(part for part in parts if part) + "\n"


def results_csv(rows: Sequence[WorkloadTiming]) -> str:
    """A row for each contender, size and pass; what was not measured is empty."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(HEADER)
    for row in rows:
        compared = {each.contender: each for each in row.comparisons if each.baseline == "original"}
        for timing in row.timings:
            comparison = compared.get(timing.contender)
            against = (
                ("", "", "")
                if comparison is None
                else (comparison.speedup, comparison.speedup_low, comparison.speedup_high)
            )
            times = (timing.median_us, timing.low_us, timing.high_us, timing.peak_bytes, row.floor_us)
            known = ("" if value is None else value for value in times)
            writer.writerow(
                (row.workload.label(), row.timed_pass.value, timing.contender, *known, *against, _cell(timing.error))
            )
    return out.getvalue()


def _cell(text: str | None) -> str:
    """Keep what a candidate raised from being a formula in a spreadsheet."""
    plain = _line(text or "")
    return f"'{plain}" if plain[:1] in ("=", "+", "-", "@") else plain


def _line(text: str) -> str:
    return " ".join(text.split())
