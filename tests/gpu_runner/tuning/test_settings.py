"""Settings that cannot run are not compiled, and neighbours are counted from where one stands."""

from __future__ import annotations

import pytest

from gpu_runner.contracts import Knob, Pass
from gpu_runner.tuning.settings import Settings, SettingSpace, refused, space_of, text

SPACE = space_of(
    (
        Knob(Pass.forward, "num_warps", (16, 4, 8, 4)),
        Knob(Pass.backward, "num_warps", (1,)),
        Knob(Pass.forward, "num_stages", (1, 2)),
    ),
    Pass.forward,
    {"num_warps": 8, "other": 3},
)


def test_a_space_holds_the_values_of_its_pass_rising_and_once() -> None:
    assert SPACE.values == (("num_warps", (4, 8, 16)), ("num_stages", (1, 2)))
    assert SPACE.defaults == (("num_warps", 8),)


def test_neighbours_go_out_from_the_default() -> None:
    assert SPACE.line("num_warps", ()) == ((4,), (16,))
    assert SPACE.line("num_warps", (("num_warps", 4),)) == ((), (8, 16))
    assert SPACE.line("num_stages", ()) == ((), (1, 2))


def test_what_says_the_default_says_nothing() -> None:
    assert SPACE.canonical((("num_stages", 2), ("num_warps", 8))) == (("num_stages", 2),)


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ((("num_warps", 64),), "no power of two"),
        ((("num_warps", 6),), "no power of two"),
        ((("BLOCK_M", 2048), ("BLOCK_N", 1024)), "larger than Triton's limit"),
        ((("num_stages", 0),), "no size"),
    ],
)
def test_what_cannot_run_is_refused(settings: Settings, reason: str) -> None:
    found = refused(settings)
    assert found is not None
    assert reason in found


def test_blocks_that_are_left_to_the_candidate_count_too() -> None:
    space = SettingSpace((("BLOCK_ROWS", (1, 64)),), (("BLOCK_ROWS", 1), ("BLOCK_SIZE", 2**15)))
    assert space.refused((("BLOCK_ROWS", 64),)) is not None
    assert space.refused((("BLOCK_ROWS", 32),)) is None


def test_what_can_run_is_not_refused() -> None:
    assert refused((("PROGRAMS", 0),)) is None
    assert refused((("BLOCK_M", 1024), ("BLOCK_N", 1024), ("num_warps", 32))) is None
    assert text(()) == "default"
    assert text((("num_stages", 2), ("num_warps", 8))) == "num_stages=2 num_warps=8"
