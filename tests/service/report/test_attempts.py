"""What a model tried, as a reviewer sees it."""

from __future__ import annotations

from dataclasses import replace

from inline_snapshot import snapshot

from service.report.create import generated_sections, validated_sections
from service.report.job import checkpoint_comment
from service.report.verdicts import attempts_section
from tests.service.report.facts import CHECKPOINTS, GENERATED, LINKS, VALIDATED, WAITING
from workers.contracts import Attempt, GenerateSummary

TRIED = (
    Attempt(1, "generate", 0, 0, "candidate-1", "incorrect_gradient", "gradients: the gradient of a is off", 12_345),
    Attempt(2, "generate", 0, 1, "candidate-2", "overloaded", "the provider is overloaded"),
    Attempt(3, "repair", 1, 1, "repair-1", "passed", "", 9_876, chosen=True),
)


def test_attempts_are_a_folded_table() -> None:
    assert attempts_section(TRIED) == snapshot("""\
<details><summary>What was tried</summary>

| attempt | how | outcome | tokens |
| ---: | --- | --- | ---: |
| 1 | candidate, variation 1 | `incorrect_gradient`: gradients: the gradient of a is off | 12,345 |
| 2 | candidate, variation 2 | `overloaded`: the provider is overloaded | – |
| 3 | repair 1 | **`passed`, taken** | 9,876 |

</details>\
""")


def test_times_are_shown_where_the_fastest_was_looked_for() -> None:
    timed = (replace(TRIED[2], median_us=112.25), TRIED[0])
    assert "| both passes |" in attempts_section(timed)
    assert "| 112.2 µs | 9,876 |" in attempts_section(timed)


def test_where_no_model_was_asked_nothing_is_said_of_attempts() -> None:
    assert attempts_section(()) == ""


def test_what_a_model_says_cannot_call_people_or_leave_its_cell() -> None:
    evil = replace(
        TRIED[0], evidence="@octocat | x |\n| y <img src=x> https://evil.example #12 </details>", task="@all|"
    )
    section = attempts_section((evil,))
    assert "@octocat" not in section and "<img" not in section and "https://evil" not in section
    assert section.count("</details>") == 1
    assert len(section.splitlines()) == 7


def test_replies_to_a_review_stand_point_by_point_with_what_was_said_escaped() -> None:
    replies = ("`small/x.py:3`, “Why?”: Because @octocat said so; see <b>#12</b>.", "“Smaller blocks.”: They are.")
    told = generated_sections(replace(GENERATED, answered=replies))
    assert (
        snapshot("""\
To your last review:

- `small/x.py:3`, “Why?”: Because @&#8203;octocat said so; see &lt;b&gt;#&#8203;12&lt;/b&gt;.
- “Smaller blocks.”: They are.\
""")
        == told.partition("\n\n|")[0]
    )
    assert "To your last review" in validated_sections(replace(VALIDATED, answered=replies), {})
    update = replace(CHECKPOINTS["generate"], summary=replace(GENERATED, answered=replies, attempts=TRIED))
    assert isinstance(update.summary, GenerateSummary)
    comment = checkpoint_comment(update, WAITING, LINKS)
    assert comment.index("To your last review") < comment.index("What was tried") < comment.index("Proof")
