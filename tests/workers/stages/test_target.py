from __future__ import annotations

import pytest

from workers.contracts import (
    MeasuredPart,
    Regime,
    Scope,
    Target,
    format_scope,
    named_dimensions,
    parse_scope,
    parse_target,
)


@pytest.mark.parametrize(
    ("text", "target"),
    [
        ("forward < 0.3 ms @ H=4096", Target("forward", 300.0, (("H", 4096),))),
        ("FULL under 250us", Target("full", 250.0)),
        ("forward under 0.3ms at hidden_size=4096", Target("forward", 300.0, (("hidden_size", 4096),))),
        ("fwd in 20 us for H=4k and T=8", Target("forward", 20.0, (("H", 4096), ("T", 8)))),
        ("forward pass below 1 s", Target("forward", 1e6)),
        ("forward < 5 \u00b5s", Target("forward", 5.0)),
        ("forward < 5 \u03bcs", Target("forward", 5.0)),
        ("forward \u2264 0,25 ms", Target("forward", 250.0)),
        ("backward under 300 microseconds at H=8", Target("backward", 300.0, (("H", 8),))),
        ("forward < 2 msec", Target("forward", 2000.0)),
        ("\uff46\uff57\uff44 < \uff13\uff4d\uff53", Target("forward", 3000.0)),
        ("backward<=1ms@T=8, H=16", Target("backward", 1000.0, (("T", 8), ("H", 16)))),
    ],
)
def test_target_is_read_as_people_write_it(text: str, target: Target) -> None:
    assert parse_target(text) == target


@pytest.mark.parametrize(
    "text",
    [
        "",
        "fast",
        "forward < 0 ms",
        "forward < 3",
        "forward < 1,000 us",
        "forward < 3 mss",
        "forward < " + 400 * "9" + " s",
        "sideways < 3 ms",
        "forward < 3 ms @ H",
        "forward < 3 ms at",
        "full < 1 ms @ H=8 H=9",
        "full < 1 ms @ H=4096.5",
    ],
)
def test_target_of_another_form_is_refused_with_the_fix(text: str) -> None:
    with pytest.raises(ValueError, match="Write it as"):
        parse_target(text)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("forward", (Scope.forward, Regime())),
        ("small", (Scope.general, Regime(MeasuredPart.small))),
        ("large backward", (Scope.backward, Regime(MeasuredPart.large))),
        ("H=4096 and T=8", (Scope.general, Regime(None, (("H", 4096), ("T", 8))))),
    ],
)
def test_a_scope_is_read_and_written_again(text: str, found: tuple[Scope, Regime]) -> None:
    assert parse_scope(text) == found
    assert parse_scope(format_scope(*found)) == found


@pytest.mark.parametrize("text", ["", "tiny", "forward backward", "small large", "small H=3", "H=3 H=4", "H"])
def test_a_scope_of_another_form_is_refused_with_the_fix(text: str) -> None:
    with pytest.raises(ValueError, match="It is a pass"):
        parse_scope(text)


@pytest.mark.parametrize(
    ("name", "dimensions", "found"),
    [
        ("H", ("T", "H"), "H"),
        ("h", ("T", "H"), "H"),
        ("hidden_size", ("T", "H"), "H"),
        ("hidden_size", ("M", "N"), "N"),
        ("vocab_size", ("T", "V"), "V"),
        ("seq_len", ("B", "S", "D"), "S"),
        ("head_dim", ("B", "S", "D"), "D"),
    ],
)
def test_a_dimension_is_found_by_what_people_call_it(name: str, dimensions: tuple[str, ...], found: str) -> None:
    assert named_dimensions(((name, 8),), dimensions) == ((found, 8),)


def test_a_dimension_that_a_problem_has_not_is_refused_with_those_that_it_has() -> None:
    with pytest.raises(ValueError, match="no dimension `vocab_size`; its dimensions are `B`, `H`"):
        named_dimensions((("vocab_size", 8),), ("B", "H"))
