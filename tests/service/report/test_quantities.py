"""Numbers as people read them."""

from __future__ import annotations

import pytest

from service.report.layout import counted, duration_us, geometric_mean, percent, ratio, size_bytes, small, wait


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.0, "0 µs"), (1.234, "1.23 µs"), (83.26, "83.3 µs"), (999.0, "999 µs"), (1480.0, "1.48 ms"), (2.5e6, "2.50 s")],
)
def test_a_time_has_the_unit_that_fits(value: float, text: str) -> None:
    assert duration_us(value) == text


@pytest.mark.parametrize("value", [None, float("nan"), float("inf"), -1.0])
def test_what_was_not_measured_is_a_dash(value: float | None) -> None:
    assert [duration_us(value), size_bytes(value), ratio(value), percent(value)] == ["–"] * 4


def test_sizes_ratios_and_shares() -> None:
    assert [size_bytes(512), size_bytes(3 * 2**20), size_bytes(2**31)] == ["512 B", "3.00 MiB", "2.00 GiB"]
    assert [ratio(1.254), percent(0.905), small(2e-6), small(None)] == ["1.25×", "90%", "2e-06", "–"]


def test_a_wait_is_told_as_roughly_as_it_is_known() -> None:
    assert [wait(5), wait(60), wait(200), wait(7300)] == [
        "less than a minute",
        "about 1 minute",
        "about 3 minutes",
        "about 2 hours",
    ]


def test_a_mean_of_nothing_is_nothing() -> None:
    assert geometric_mean([]) is None
    assert geometric_mean([0.0, float("nan"), 4.0, 1.0]) == pytest.approx(2.0)


def test_one_is_not_many() -> None:
    assert [counted(1, "check"), counted(2, "check")] == ["1 check", "2 checks"]
