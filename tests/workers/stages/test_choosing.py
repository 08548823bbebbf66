from __future__ import annotations

import pytest

from workers.stages.optimize import choice_in


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("use v3", "v3"),
        ("Use `v3`, please", "v3"),
        ("I would take variant **v12**", "v12"),
        ("v2", "v2"),
        ("V02 it is", "v2"),
        ("use v2, not v3", "v2"),
        ("v3 is faster but I want to apply v1", "v1"),
        ("don't use v3, v1 is enough", "v1"),
        ("do not use v3", None),
        ("v2 or v3?", None),
        ("use v2 or use v3", None),
        ("why is the last one slower?", None),
        ("mind sm_90v3 and v345", None),
        ("", None),
    ],
)
def test_a_review_chooses_the_one_variant_that_it_says_to_use(text: str, name: str | None) -> None:
    assert choice_in(text) == name
