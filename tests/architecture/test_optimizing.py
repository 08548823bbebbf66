"""The pages about optimizing say the numbers and words of the program."""

from __future__ import annotations

import math
from pathlib import Path

from service.commands.grammar import MAX_VARIANTS
from service.report.measure import LARGER
from service.report.optimize import OUTCOME_WORDS
from workers.contracts import JobOptions, JobRequest, Origin, ProblemKind, ProblemText, Verb
from workers.pipelines.transitions import MAX_STAGE_ATTEMPTS
from workers.stages import estimate, finalize, gate, headroom, variants
from workers.strategies import catalog, search
from workers.strategies.catalog import STRATEGIES

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGE = (DOCS / "optimizing.md").read_text()
FLAT = " ".join(PAGE.split())  # a phrase may go on in the next line


def test_the_bounds_of_a_job_are_told() -> None:
    count, other_metric, other_pass = JobOptions().variants, search.OTHER_METRIC - 1, search.OTHER_PASS - 1
    for text in (
        f"{count} by default, {MAX_VARIANTS} at most",
        f"at up to {headroom.MOST_SIZES} sizes",
        f"at least {variants.LEAST_GAIN - 1:.0%} better by the goal than what it changes",
        f"more than {other_metric:.0%} worse on a metric that is not the goal, or more than {other_pass:.0%} on another pass",
        f"within {headroom.NOTHING_OVER_ALL - 1:.0%} of what can be reached over all sizes, and within "
        f"{headroom.NOTHING_AT_ONE - 1:.0%} at each",
        f"more than {LARGER - 1:.0%} larger is named",
        f"One run measures {gate.MOST_KERNELS} kernels",
    ):
        assert text in FLAT, text
    assert search.SearchLimits().patience == 2
    assert "when two measured ones in a row are less than 1% better" in FLAT
    assert finalize.MOST_TRIES - 1 == 2
    assert "the next best of the kept ones is tried, twice at most" in FLAT
    assert MAX_STAGE_ATTEMPTS == 5
    assert "A stage has five attempts." in FLAT


def test_when_a_model_is_asked_is_told() -> None:
    room = f"at least {catalog.LEAST_ROOM:.1f} times as fast"
    document = " ".join((DOCS / "knowledge" / "optimizations" / catalog.ModelChange.document).read_text().split())
    assert room in FLAT and room in document
    assert f"{JobOptions().repairs} by default" in FLAT


def test_sizes_that_are_left_out_are_told() -> None:
    told = " ".join((DOCS / "measuring.md").read_text().split())
    assert f"more than 2^{headroom.MOST_ELEMENTS.bit_length() - 1} elements are left out" in told
    assert f"At most {headroom.MOST_SIZES} sizes are measured" in told


def test_every_outcome_is_told_in_the_words_of_the_comment() -> None:
    for words in OUTCOME_WORDS.values():
        assert f"| {words} |" in PAGE


def test_every_strategy_has_a_page_that_the_index_links() -> None:
    index = (DOCS / "knowledge" / "index.md").read_text()
    for strategy in STRATEGIES:
        assert f"[{strategy.id}](optimizations/{strategy.document})" in index
        assert (DOCS / "knowledge" / "optimizations" / strategy.document).is_file()


def test_the_bounds_of_gpu_time_are_those_of_the_program() -> None:
    page = (DOCS / "configuration.md").read_text()
    for text, seconds in (
        ("profile: benchmark and profiler", estimate.PROFILED_S),
        ("each variant: benchmark against v0", estimate.VARIANT_S),
        ("each tuning of launch settings, three in a job", estimate.SWEPT_S),
        ("final benchmark, also of a `fuse`, or a kernel of `bench`", estimate.MEASURED_S),
    ):
        assert f"| {text} | {seconds:.0f} |" in page
    assert estimate.SWEEPS == 3
    request = JobRequest(
        "k", Verb.optimize, "x", Origin("o/r", 1, "a", 1), "main", "a" * 40, "", ProblemText(ProblemKind.missing)
    )
    assert f"bounded by {math.ceil(estimate.gpu_seconds(request) / 60)} minutes" in page
