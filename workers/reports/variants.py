"""A plot of an optimize job's variants: how many times as fast as what stands, by pass."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence
from statistics import geometric_mean

from gpu_runner.contracts import Pass, WorkloadTiming
from workers.contracts import Image, Variant
from workers.engine.protocol import StageContext
from workers.reports.pages import CANDIDATE, ORIGINAL
from workers.reports.plots import figure_of, png_of, store

COLOURS = {Pass.forward: "#5b7fc7", Pass.backward: "#c26a1a", Pass.full: "#1a7f5a"}
REJECTED_ALPHA = 0.35


def draw_variants(context: StageContext, name: str, variants: Sequence[Variant]) -> tuple[Image, ...]:
    """Draw the variants that were timed; none where none was."""
    timed = [variant for variant in variants if any(speedups(variant.rows, item) for item in Pass)]
    if not timed:
        return ()
    kept = [v for v in timed if v.accepted and v.score is not None]
    best = max(kept, key=lambda v: v.score or 0.0, default=None)
    suffix = f"; the best is {best.name} at {best.score:.2f}" if best is not None and best.score else ""
    alt = f"Speedup of {len(timed)} variants of {name} over what stands, by pass{suffix}"
    return (store(context, f"{name}-variants.png", variants_plot(name, timed), alt),)


def variants_plot(name: str, variants: Sequence[Variant]) -> bytes:
    """Draw, for each variant and pass, the geometric mean of the speedup over sizes with its range; rejected ones pale."""
    figure, axes = figure_of(max(2.4, 0.75 * len(variants) + 1.4))
    step = 0.8 / len(Pass)
    for index, timed_pass in enumerate(Pass):
        for place, variant in enumerate(variants):
            ratios = speedups(variant.rows, timed_pass)
            if not ratios:
                continue
            mean = geometric_mean(ratios)
            axes.barh(
                place + index * step,
                mean,
                height=step * 0.9,
                color=COLOURS[timed_pass],
                alpha=1.0 if variant.accepted else REJECTED_ALPHA,
                xerr=[[mean - min(ratios)], [max(ratios) - mean]],
                error_kw={"linewidth": 0.8},
            )
    for timed_pass in Pass:
        axes.barh(0, 0, color=COLOURS[timed_pass], label=timed_pass.value)
    axes.axvline(1.0, color="#444444", linewidth=1.0)
    axes.set_yticks([place + 0.4 - step / 2 for place in range(len(variants))], [_label(v) for v in variants])
    axes.invert_yaxis()
    axes.set_xlabel("times as fast as what stands today; lines go from the worst to the best size")
    axes.set_title(f"{name}: variants", loc="left", fontsize=11)
    axes.legend(frameon=False, fontsize=8)
    return png_of(figure)


def _label(variant: Variant) -> str:
    return f"{variant.name}\n{textwrap.fill(variant.title, 22)}"


def speedups(rows: Iterable[WorkloadTiming], timed_pass: Pass) -> tuple[float, ...]:
    """How many times as fast as the original, on each size of a pass that was compared."""
    return tuple(
        comparison.speedup
        for row in rows
        if row.timed_pass is timed_pass
        for comparison in row.comparisons
        if comparison.contender == CANDIDATE and comparison.baseline == ORIGINAL
    )
