"""A plot of head against base: the ratio of times of each kernel, size and pass, with its interval."""

from __future__ import annotations

from collections.abc import Sequence

from gpu_runner.contracts import Comparison, Word, WorkloadTiming
from workers.contracts import Image, MeasuredKernel
from workers.engine.protocol import StageContext
from workers.reports.figures import figure_of, png_of, store

COLOURS = {Word.faster: "#1a7f5a", Word.slower: "#b3372f", Word.same: "#9aa4b2", Word.undecided: "#c9a227"}
MOST_ROWS = 40


def draw_comparison(context: StageContext, kernels: Sequence[MeasuredKernel]) -> tuple[Image, ...]:
    """Draw what was compared; nothing where nothing was."""
    rows = compared(kernels)
    if not rows:
        return ()
    words = [comparison.word for _, comparison in rows]
    alt = f"Head against base on {len(rows)} measurements: " + ", ".join(
        f"{words.count(word)} {word.value}" for word in Word if word in words
    )
    return (store(context, "comparison.png", comparison_plot(rows[:MOST_ROWS]), alt),)


def compared(kernels: Sequence[MeasuredKernel]) -> list[tuple[str, Comparison]]:
    """Each comparison of head with base, with its label."""
    found = []
    for kernel in kernels:
        for row in kernel.benchmark.rows if kernel.benchmark else ():
            comparison = against_original(row)
            if comparison is not None:
                found.append((f"{kernel.kernel} {row.timed_pass.value}, {row.workload.label()}", comparison))
    return found


def against_original(row: WorkloadTiming) -> Comparison | None:
    """The comparison of the candidate with the original."""
    return next((c for c in row.comparisons if c.contender == "candidate" and c.baseline == "original"), None)


def comparison_plot(rows: Sequence[tuple[str, Comparison]]) -> bytes:
    """Draw a point and an interval for each comparison, coloured by its word."""
    figure, axes = figure_of(max(2.2, 0.28 * len(rows) + 1.3))
    for place, (_, found) in enumerate(rows):
        around = [[found.speedup - found.speedup_low], [found.speedup_high - found.speedup]]
        axes.errorbar(found.speedup, place, xerr=around, fmt="o", markersize=4, color=COLOURS[found.word])
    for word in Word:
        axes.plot([], [], "o", color=COLOURS[word], label=word.value)
    axes.axvline(1.0, color="#444444", linewidth=1.0)
    axes.set_yticks(range(len(rows)), [label for label, _ in rows])
    axes.invert_yaxis()
    axes.set_xlabel("times as fast as the base (95% interval); right of the line is faster")
    axes.set_title("head against base", loc="left", fontsize=11)
    axes.legend(frameon=False, fontsize=8)
    return png_of(figure)
