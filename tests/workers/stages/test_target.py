from __future__ import annotations

import pytest

from workers.contracts import Target, parse_target


@pytest.mark.parametrize(
    ("text", "target"),
    [
        ("forward < 0.3 ms @ H=4096", Target("forward", 300.0, (("H", 4096),))),
        ("FULL under 250us", Target("full", 250.0)),
        ("backward<=1ms@T=8, H=16", Target("backward", 1000.0, (("T", 8), ("H", 16)))),
    ],
)
def test_target_is_read_as_people_write_it(text: str, target: Target) -> None:
    assert parse_target(text) == target


@pytest.mark.parametrize("text", ["", "fast", "forward < 0 ms", "forward < 3", "sideways < 3 ms", "forward < 3 ms @ H"])
def test_target_of_another_form_is_refused_with_the_cure(text: str) -> None:
    with pytest.raises(ValueError, match="Write it as"):
        parse_target(text)
