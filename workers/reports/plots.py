"""Plots of a report: values against the truth, time against the floor, head against base. The same figure has the same bytes."""

from __future__ import annotations

import io
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from gpu_runner.contracts import BenchmarkResult, Check, Comparison, Verdict, Word, WorkloadTiming
from workers.contracts import Image, MeasuredKernel
from workers.engine.protocol import StageContext
from workers.nightly.series import Point


def store(context: StageContext, file_name: str, content: bytes, alt: str) -> Image:
    return Image(file_name, context.artifact(file_name, content, "image/png"), alt)


def figure_of(height: float) -> tuple[Any, Any]:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7.6, height), dpi=130, layout="constrained")
    axes = figure.subplots()
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(labelsize=8)
    return figure, axes


def png_of(figure: Any) -> bytes:
    buffer = io.BytesIO()
    # Without a fixed Software field the same figure would give other bytes with another matplotlib.
    figure.savefig(buffer, format="png", metadata={"Software": None})
    return buffer.getvalue()


COLOURS = {
    "candidate": "#1a7f5a",
    "original": "#7a5ac2",
    "eager": "#9aa4b2",
    "torch_compile": "#5b7fc7",
    "floor": "#c26a1a",
}
LABELS = {"candidate": "this kernel", "original": "before", "eager": "eager", "torch_compile": "torch.compile"}
MAX_GROUPS = 12
DTYPE = re.compile(r"\b(?:float32|bfloat16|float16)\b")


def draw_plots(context: StageContext, name: str, verdict: Verdict, measured: BenchmarkResult) -> tuple[Image, ...]:
    """Draw what there is to see, store it, and give the images with their text form."""
    images = []
    if any(check.error is not None for check in verdict.checks):
        images.append(
            store(context, f"{name}-accuracy.png", accuracy_plot(name, verdict), _accuracy_alt(name, verdict))
        )
    if measured.rows:
        images.append(store(context, f"{name}-speed.png", speed_plot(name, measured), _speed_alt(name, measured)))
    return tuple(images)


def draw_speed(context: StageContext, name: str, measured: BenchmarkResult) -> tuple[Image, ...]:
    """Draw the times; none where nothing was timed."""
    if not measured.rows:
        return ()
    return (store(context, f"{name}-speed.png", speed_plot(name, measured), _speed_alt(name, measured)),)


def accuracy_plot(name: str, verdict: Verdict) -> bytes:
    """Draw, for each output and dtype, the worst error as a share of what is allowed."""
    worst = sorted(worst_shares(verdict.checks).items())
    figure, axes = figure_of(max(2.4, 0.42 * len(worst) + 1.4))
    labels = [f"{output}, {dtype}" for (output, dtype), _ in worst]
    axes.barh(labels, [share for _, share in worst], color=COLOURS["candidate"], height=0.6)
    axes.axvline(1.0, color=COLOURS["floor"], linewidth=1.5, label="allowed")
    axes.set_xlabel("worst error, as a share of what is allowed")
    axes.set_title(f"{name}: error against the float64 reference", loc="left", fontsize=11)
    axes.invert_yaxis()
    axes.legend(frameon=False, loc="lower center", fontsize=8)
    return png_of(figure)


def worst_shares(checks: tuple[Check, ...]) -> dict[tuple[str, str], float]:
    """The worst error over its allowance for each output and dtype."""
    worst: dict[tuple[str, str], float] = {}
    for check in checks:
        if check.error is None or not check.allowed or check.output is None:
            continue
        dtype = DTYPE.search(check.workload)
        key = (check.output, dtype[0] if dtype else "any dtype")
        worst[key] = max(worst.get(key, 0.0), check.error / check.allowed)
    return worst


def speed_plot(name: str, measured: BenchmarkResult) -> bytes:
    """Draw the time of each contender against the floor, a group of bars for each workload and pass."""
    rows = measured.rows[:MAX_GROUPS]
    contenders = [c for c in COLOURS if any(_median(row, c) is not None for row in rows)]
    figure, axes = figure_of(max(2.6, 0.5 * len(rows) * max(1, len(contenders) * 0.55) + 1.4))
    step = 0.8 / max(1, len(contenders) + 1)
    for index, contender in enumerate([*contenders, "floor"]):
        places = [group + index * step for group in range(len(rows))]
        values = [row.floor_us if contender == "floor" else _median(row, contender) for row in rows]
        label = "least time the hardware allows" if contender == "floor" else LABELS[contender]
        axes.barh(places, [value or 0.0 for value in values], height=step * 0.9, color=COLOURS[contender], label=label)
    axes.set_yticks([g + 0.4 - step / 2 for g in range(len(rows))], [_row_label(row) for row in rows])
    axes.invert_yaxis()
    axes.set_xlabel(
        "microseconds" + (" (predicted from the roofline, nothing was timed)" if measured.predicted else "")
    )
    axes.set_title(f"{name} on {measured.gpu or 'an unknown GPU'}", loc="left", fontsize=11)
    axes.legend(frameon=False, fontsize=8)
    return png_of(figure)


def _row_label(row: WorkloadTiming) -> str:
    return f"{row.timed_pass.value}\n{row.workload.label()}"


def _median(row: WorkloadTiming, contender: str) -> float | None:
    return next((t.median_us for t in row.timings if t.contender == contender), None)


def _accuracy_alt(name: str, verdict: Verdict) -> str:
    shares = worst_shares(verdict.checks)
    worst = max(shares.values(), default=0.0)
    suffix = " beside what stands today" if verdict.excused else ""
    return f"Errors of {name} against the float64 reference; the worst is {worst:.2f} of what is allowed{suffix}"


def _speed_alt(name: str, measured: BenchmarkResult) -> str:
    kind = "Predicted least times" if measured.predicted else "Measured times"
    return f"{kind} of {name} on {measured.gpu or 'an unknown GPU'}, by workload and pass"


WORD_COLOURS = {Word.faster: "#1a7f5a", Word.slower: "#b3372f", Word.same: "#9aa4b2", Word.undecided: "#c9a227"}
MOST_ROWS = 40


def draw_comparison(context: StageContext, kernels: Sequence[MeasuredKernel]) -> tuple[Image, ...]:
    """Draw the comparisons; none where there were none."""
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
    comparisons = []
    for kernel in kernels:
        for row in kernel.benchmark.rows if kernel.benchmark else ():
            comparison = against_original(row)
            if comparison is not None:
                comparisons.append((f"{kernel.kernel} {row.timed_pass.value}, {row.workload.label()}", comparison))
    return comparisons


def against_original(row: WorkloadTiming) -> Comparison | None:
    """The comparison of the candidate with the original."""
    return next((c for c in row.comparisons if c.contender == "candidate" and c.baseline == "original"), None)


def comparison_plot(rows: Sequence[tuple[str, Comparison]]) -> bytes:
    """Draw a point and an interval for each comparison, coloured by its verdict."""
    figure, axes = figure_of(max(2.2, 0.28 * len(rows) + 1.3))
    for place, (_, comparison) in enumerate(rows):
        around = [[comparison.speedup - comparison.speedup_low], [comparison.speedup_high - comparison.speedup]]
        axes.errorbar(
            comparison.speedup, place, xerr=around, fmt="o", markersize=4, color=WORD_COLOURS[comparison.word]
        )
    for word in Word:
        axes.plot([], [], "o", color=WORD_COLOURS[word], label=word.value)
    axes.axvline(1.0, color="#444444", linewidth=1.0)
    axes.set_yticks(range(len(rows)), [label for label, _ in rows])
    axes.invert_yaxis()
    axes.set_xlabel("times as fast as the base (95% interval); right of the line is faster")
    axes.set_title("head against base", loc="left", fontsize=11)
    axes.legend(frameon=False, fontsize=8)
    return png_of(figure)


@dataclass(frozen=True)
class RangePlace:
    """One commit of a range that was compared: new over old, chained over the good commits, with its 95% interval."""

    place: int
    level: float
    low: float | None = None
    high: float | None = None
    worse: bool = False


def draw_range(
    context: StageContext, what: str, labels: Sequence[str], places: Sequence[RangePlace], culprits: Sequence[int]
) -> tuple[Image, ...]:
    """Draw what a bisection measured of one row over the commits of its range; none where nothing could be compared."""
    if len(places) < 2:
        return ()
    named = ", ".join(str(place + 1) for place in culprits) or "none"
    alt = f"{what} over {len(labels)} commits, {len(places)} of them compared; worse from number {named} on"
    return (store(context, "bisect.png", range_plot(what, labels, places, culprits), alt),)


def range_plot(what: str, labels: Sequence[str], places: Sequence[RangePlace], culprits: Sequence[int]) -> bytes:
    """Draw a point and an interval for each compared commit; a line where it became worse."""
    figure, axes = figure_of(3.4)
    for one in places:
        colour = WORD_COLOURS[Word.slower] if one.worse else WORD_COLOURS[Word.same]
        around = None if one.low is None or one.high is None else [[one.level - one.low], [one.high - one.level]]
        axes.errorbar(one.place, one.level, yerr=around, fmt="o", markersize=5, capsize=2, color=colour)
    for place in culprits:
        axes.axvline(place - 0.5, color=COLOURS["floor"], linewidth=1.2, linestyle="--")
    shown = sorted({one.place for one in places} | set(culprits))
    axes.set_xticks(shown, [labels[place] for place in shown], rotation=60, ha="right", fontsize=7)
    axes.set_xlim(-0.7, len(labels) - 0.3)
    axes.set_ylabel("new over old (95% interval)")
    axes.set_title(what, loc="left", fontsize=11)
    return png_of(figure)


MOST_NIGHTS = 60


def draw_series(context: StageContext, file_name: str, what: str, points: Sequence[Point], bad: str) -> Image:
    """Draw the newest nights of a series, with a line before the bad commit."""
    shown = points[-MOST_NIGHTS:]
    changed = [point.revision for point in shown].index(bad)
    alt = f"{what}: {len(shown)} nights, changed in number {changed + 1}"
    return store(context, file_name, series_plot(what, shown, bad), alt)


def series_plot(what: str, points: Sequence[Point], bad: str) -> bytes:
    """Draw numbers over the commits in the order of the nights, with their 20th to 80th percentile."""
    figure, axes = figure_of(3.0)
    places = range(len(points))
    axes.plot(places, [point.value for point in points], ".-", color=COLOURS["candidate"], linewidth=1.2)
    lows = [point.value if point.low is None else point.low for point in points]
    highs = [point.value if point.high is None else point.high for point in points]
    axes.fill_between(places, lows, highs, color=COLOURS["candidate"], alpha=0.2, linewidth=0)
    changed = next((place for place, point in enumerate(points) if point.revision == bad), None)
    if changed is not None:
        axes.axvline(changed - 0.5, color=COLOURS["floor"], linewidth=1.2, linestyle="--")
    step = max(1, len(points) // 10)
    axes.set_xticks(
        places[::step], [point.revision[:8] for point in points[::step]], rotation=60, ha="right", fontsize=7
    )
    axes.set_title(what, loc="left", fontsize=11)
    return png_of(figure)
