"""What jobs measured becomes lines of the strategies' pages, for and against, and replaces those of the month before."""

from __future__ import annotations

from pathlib import Path

import pytest

from workers.contracts import Outcome
from workers.strategies import measured
from workers.strategies.gains import LATEST, Trial
from workers.strategies.measured import DOCUMENTS, FAILED, LEAST_KERNELS, LEAST_TRIALS, proposals
from workers.strategies.pages import read_page

ROOT = Path(__file__).resolve().parents[3]
PAGES = {path: (ROOT / path).read_text() for path in measured.PAGES}
HINTS = DOCUMENTS["eviction_hints"]


def trials(gain: float | None, kernels: int = 4, each: int = 3, architecture: str = "sm_90") -> list[Trial]:
    outcome, gains = (Outcome.incorrect, ()) if gain is None else (Outcome.kept, ((2, gain),))
    names = [f"secret/library kernel_{number}" for number in range(kernels)]
    return [Trial("eviction_hints", architecture, name, outcome, gains) for name in names for _ in range(each)]


def proposed(known: list[Trial], pages: dict[str, str] = PAGES) -> str:
    page, *failed = proposals(pages, known)
    assert page.path == HINTS and all(other.path == FAILED for other in failed)
    return page.text


def test_without_trials_no_page_changes() -> None:
    assert proposals(PAGES, ()) == ()


def test_a_gain_is_evidence_with_its_spread_and_says_of_which_gpu() -> None:
    text = proposed([*trials(1.1), *trials(1.2)])
    page, old = read_page(text), read_page(PAGES[HINTS])
    line = "- Jobs on sm_90 tried it 20 times on 4 kernels: 1.14 times as fast, four of five between "
    assert line in page.sections["Evidence"] and page.sections["Evidence"].startswith(old.sections["Evidence"])
    assert {name: body for name, body in page.sections.items() if name != "Evidence"} == {
        name: body for name, body in old.sections.items() if name != "Evidence"
    }
    assert list(page.sections) == list(old.sections) and text.endswith("\n") and "\n\n\n" not in text
    assert "secret" not in text and "kernel_1" not in text
    assert LATEST == 5, "the newest five of six trials of a kernel count"


@pytest.mark.parametrize(("gain", "words"), [(0.97, "0.97 times as fast"), (None, "12 of the variants were wrong")])
def test_what_gains_nothing_or_is_wrong_is_counter_evidence(gain: float | None, words: str) -> None:
    page = read_page(proposed(trials(gain)))
    assert words in page.sections["Counter-evidence"] and "Jobs on" not in page.sections["Evidence"]


def test_what_did_not_pay_stands_on_the_page_of_such_changes_until_trials_speak_for_it() -> None:
    _, failed = proposals(PAGES, trials(0.97))
    line = (
        "- Jobs on sm_90 tried [eviction hints](../optimizations/eviction-hints.md) 12 times on 4 kernels: 0.97 times"
    )
    assert failed.path == FAILED and line in failed.text and failed.lines[0].startswith(line)
    assert read_page(failed.text).sections.keys() == read_page(PAGES[FAILED]).sections.keys()
    again = {page.path: page.text for page in proposals(PAGES | {FAILED: failed.text}, trials(1.2))}
    assert again[FAILED] == PAGES[FAILED]


def test_another_month_replaces_the_lines_and_the_same_one_changes_nothing() -> None:
    first = proposed(trials(1.2))
    assert proposals(PAGES | {HINTS: first}, trials(1.2)) == ()
    second = proposed([*trials(0.9, each=5), *trials(1.2)], PAGES | {HINTS: first})
    assert second.count("- Jobs on sm_90") == 1 and "Jobs on" in second.partition("## Counter-evidence")[2]
    assert proposed([], PAGES | {HINTS: second}) == PAGES[HINTS]


@pytest.mark.parametrize(
    "known",
    [
        trials(1.2, kernels=LEAST_KERNELS, each=2),
        trials(1.2, kernels=LEAST_KERNELS - 1, each=LEAST_TRIALS),
        trials(1.2, architecture="Some GPU](http://elsewhere)"),
    ],
)
def test_too_few_trials_or_a_gpu_of_no_known_architecture_say_nothing(known: list[Trial]) -> None:
    assert proposals(PAGES, known) == ()
