"""The numbers on the page about measuring are those of the program."""

from __future__ import annotations

from pathlib import Path

import torch

from gpu_runner.benchmark import estimate, gpus, measure
from gpu_runner.benchmark.roofline import FAULT_SHARE
from gpu_runner.roles import timing
from gpu_runner.verify import compare, judge, mutants, poison, sizes

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "measuring.md").read_text()


def row(first: str) -> str:
    """The table row that begins with a cell."""
    return next(line for line in PAGE.splitlines() if line.startswith(f"| {first} |"))


def test_the_allowed_errors_are_told() -> None:
    for name in ("float32", "float16", "bfloat16"):
        floor = compare.FLOORS[getattr(torch, name)]
        told = [float(cell) for cell in row(name).strip("| ").split(" | ")[1:]]
        assert told == [floor.tensor, floor.row, floor.element]
    assert f"{compare.ERROR_RATIO:.0f} x own + floor x scale" in row("whole tensor")
    assert f"+ {compare.PEAK_RATIO:.0f} x typical own" in row("each element")


def test_the_cases_are_told_with_their_sizes() -> None:
    for recipe in (*sizes.RECIPES, sizes.WIDE):
        line = next(line for line in PAGE.splitlines() if line.startswith("| ") and recipe.name in line)
        assert f"{recipe.rows} x {recipe.columns}" in line


def test_the_mutants_are_told() -> None:
    told = PAGE.split("**Mutants**", 1)[1].split("4. **", 1)[0].lower()
    for words in ("zeros", "ones", "the mean everywhere", "an input", "only the first columns", "the last answer"):
        assert words in told
        assert words in mutants.MUTANTS
    assert len(mutants.MUTANTS) == 6


def test_the_protocol_is_told() -> None:
    for text in (
        f"{poison.GUARD_ELEMENTS} elements before and after",
        f"{measure.WARM_UP} runs that do\n  not count and {measure.SAMPLES} that do",
        f"At least {measure.LEAST_ROUNDS} rounds, at most {measure.MOST_ROUNDS}",
        f"{estimate.RESAMPLES} resamples",
        f"lies beyond {estimate.MARGIN:.0%}",
        f"under {FAULT_SHARE:.0%} of the floor",
        f"({gpus.DEFAULT.name}) times {gpus.COPY_SHARE}",
        f"{timing.COLD_LEAST_BYTES >> 20} MiB at least",
        f"{timing.BANDWIDTH_BYTES >> 30} GiB copy",
        f"more than 2^{sizes.GPU_ELEMENTS.bit_length() - 1} elements",
    ):
        assert text in PAGE, text
    assert judge.MOST_EVIDENCE == 5
    assert "it stops after five findings" in PAGE
