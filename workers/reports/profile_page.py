"""The page ``profile.md``: what stands today against its limits and what would be tried, as it lies in the repository. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from workers.contracts import PlannedStrategy, ProfileSummary, Scope, written_scope
from workers.strategies.evidence import standing_us

MOST_ROWS = 60


def profile_path(kernel: str) -> str:
    """Give where the page of a kernel lies."""
    return f"optimization/{kernel}/profile.md"


def profile_page(kernel: str, summary: ProfileSummary) -> str:
    """Give the page."""
    gpu = summary.profile.gpu
    measured = "predicted, no GPU took part" if summary.benchmark.predicted else "measured"
    scope = written_scope(summary.scope, summary.regime)
    bounds = [f"- {timed_pass.value}: {bound.value}" for timed_pass, bound in summary.profile.bounds]
    parts = (
        f"# Profile of {_cell(kernel)}",
        f"GPU: {_cell(gpu.name)}, {gpu.bandwidth_gbps:.0f} GB/s ({'measured' if gpu.measured else _cell(gpu.source)})",
        f"Goal: {summary.goal}; scope: {scope if scope != Scope.general.value else 'all passes and sizes'}"
        + (f"; target: {_cell(summary.target)}" if summary.target else ""),
        "## What bounds it\n\n" + "\n".join(bounds or ["- not known"]),
        f"## Times ({measured})\n\n"
        + _table(("sizes", "pass", "time (us)", "floor (us)", "of the floor"), _times(summary)),
        "## Strategies, in the order in which they are tried\n\n"
        + _table(("", "strategy", "because", "expected gain"), _strategies(summary.strategies)),
        "\n".join(f"- {_cell(note)}" for note in summary.notes),
    )
    return "\n\n".join(part for part in parts if part) + "\n"


def _times(summary: ProfileSummary) -> list[tuple[str, ...]]:
    rows = list[tuple[str, ...]]()
    for row in summary.benchmark.rows[:MOST_ROWS]:
        time_us, floor_us = standing_us(row), row.floor_us
        share = f"{floor_us / time_us:.0%}" if time_us and floor_us else "-"
        rows.append((row.workload.label(), row.timed_pass.value, _number(time_us), _number(floor_us), share))
    return rows


def _strategies(planned: Sequence[PlannedStrategy]) -> list[tuple[str, ...]]:
    return [
        (str(number), item.title, item.trigger, f"{item.gain_low:.2f} to {item.gain_high:.2f}")
        for number, item in enumerate(planned, 1)
    ]


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.1f}"


def _table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(_cell(cell) for cell in line)} |" for line in lines)


def _cell(text: str) -> str:
    """Keep text of any origin on its line and in its cell, and as text."""
    plain = " ".join(text.split())
    return plain.replace("\\", "\\\\").replace("|", "\\|").replace("<", "&lt;").replace("@", "@\u200b")
