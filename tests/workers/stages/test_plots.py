"""Plots are PNG files of the same bytes for the same figures; that of errors never shows what passed beyond what was allowed."""

from __future__ import annotations

import io
from collections.abc import Callable

import pytest
from PIL import Image

from gpu_runner.contracts import BenchmarkResult, Check, Evidence, Status, Verdict
from tests.outlined import painted
from tests.service.report.kernels_facts import FASTER, LAYER, OPTIMIZED, RMS
from tests.workers.stages.answers import answers
from tests.workers.stages.context import optimizing
from workers.nightly.series import Point
from workers.reports.plots import (
    RangePlace,
    accuracy_plot,
    compared,
    comparison_plot,
    draw_plots,
    range_plot,
    series_plot,
    speed_plot,
    worst_shares,
)
from workers.reports.variants import variants_plot

CHECKS = (
    Check("gradient", "T=1 H=1 float32", True, "gradient of x", 3.9e-5, 4.1e-5),  # as what stands errs
    Check("gradient", "T=7 H=97 float32, rows apart", True, "gradient of x", 1e-6, 2e-6),
    Check("gradient", "T=7 H=97 bfloat16", True, "gradient of x", 2e-3, 8e-3),
    Check("inputs", "T=7 H=97 bfloat16", True),
)
REVISIONS = [letter * 40 for letter in "abc"]
PLACES = [RangePlace(0, 1.0), RangePlace(1, 1.01, 0.99, 1.03), RangePlace(2, 1.3, 1.2, 1.4, worse=True)]
NIGHTS = [Point(revision, at, 10.0 + at, 9.0, 12.0) for at, revision in enumerate(REVISIONS)]
EXCUSED = (Evidence("gradient", "", "T=1 H=1 float32", "gradient of x", error=3.9e-5, allowed=3.1e-7),)


def test_the_worst_of_each_output_and_dtype_is_a_share_of_what_was_allowed() -> None:
    shares = worst_shares(CHECKS)
    assert set(shares) == {("gradient of x", "float32"), ("gradient of x", "bfloat16")}
    assert round(shares["gradient of x", "float32"], 2) == 0.95
    assert max(shares.values()) <= 1.0


def test_the_words_of_the_plot_say_where_what_stands_allowed_it() -> None:
    context = optimizing(answers())
    for excused, words in ((EXCUSED, " beside what stands today"), ((), "")):
        verdict = Verdict(Status.passed, checks=CHECKS, excused=excused)
        (accuracy,) = draw_plots(context, "layer_norm", verdict, BenchmarkResult((), False, None, None))
        assert accuracy.alt.endswith(f"the worst is 0.95 of what is allowed{words}")


@pytest.mark.parametrize(
    "plot",
    [
        lambda: accuracy_plot("layer_norm", Verdict(Status.passed, checks=CHECKS)),
        lambda: speed_plot("layer_norm", FASTER),
        lambda: comparison_plot(compared([RMS, LAYER])),
        lambda: variants_plot("layer_norm", OPTIMIZED.variants),
        lambda: range_plot("geglu: time", REVISIONS, PLACES, [2]),
        lambda: series_plot("geglu: time", NIGHTS, REVISIONS[2]),
    ],
    ids=["accuracy", "speed", "comparison", "variants", "range", "series"],
)
def test_a_plot_is_a_picture_whose_bytes_repeat(plot: Callable[[], bytes]) -> None:
    with painted():
        first, again = plot(), plot()
    with Image.open(io.BytesIO(first)) as picture:
        picture.load()
        assert picture.format == "PNG" and picture.width > 900 and picture.height > 250
        assert len(picture.getcolors(picture.width * picture.height)) > 10
    assert again == first
    assert plot() != first and plot() == plot()  # an outline, as the other tests have it
