"""Attacks on a kernel that stands, in whole conversations: whatever a model answers, nothing of it is pushed."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gpu_runner.contracts import to_json
from tests.adversarial.rewrites import LIBRARY, UNPROVED, UNREAD, WITHOUT_NAN, Ending, Rewrite
from tests.conversations import modifying
from tests.conversations.asking import Ask, Asking
from tests.conversations.optimizing import searched, so_fast
from tests.conversations.talk import REPOSITORY
from tests.workers.stages.modelling import DIAGNOSIS, change
from workers import artifacts
from workers.contracts import FailureCode, JobState

OPTIMIZE = "/kernel optimize geglu --author llm --goal speed --variants 1 --auto"
MODIFY = "/kernel modify geglu make it smaller --candidates 1"


def edits(rewrite: Rewrite) -> list[dict[str, str]]:
    return [{"path": path, "old": old, "new": new} for path, old, new in rewrite.edits]


def undone(rewrite: Rewrite) -> list[dict[str, str]]:
    return [{"path": path, "old": new, "new": old} for path, old, new in reversed(rewrite.edits)]


def variant(rewrite: Rewrite) -> dict[str, Any]:
    return change("", "") | {"edits": edits(rewrite)}


def modification(rewrite: Rewrite, before: Rewrite | None = None) -> dict[str, Any]:
    """Give the answer; a repair starts from what the proposal ``before`` it made of the files."""
    back = [] if before is None else undone(before)
    return {"summary": "It is smaller.", "edits": [*back, *edits(rewrite)], "replies": []}


def assert_ended(asking: Asking, stage: str, *endings: Ending) -> None:
    """Assert how each proposal of a stage ended, and that its reason is in the job's record."""
    kept = next(item for item in asking.talk.job().artifacts if item.name == f"attempts-{stage}-1.json")
    found = json.loads(artifacts.get(kept.digest))["attempts"]
    assert [attempt["outcome"] for attempt in found] == [outcome for outcome, _ in endings], found
    for attempt, (_, words) in zip(found, endings, strict=True):
        assert words in attempt["evidence"], attempt


def assert_nothing_was_pushed(asking: Asking) -> None:
    """Assert that there is no branch but that of the plots, no pull request, and no changed file."""
    hub = asking.talk.hub
    assert set(hub.branches(REPOSITORY)) <= {"main", "kernelsmith-assets"}
    assert hub.pull_numbers(REPOSITORY) == []
    assert all(hub.read_file(REPOSITORY, "main", path) == text for path, text in LIBRARY.items())


def test_no_variant_that_reading_stops_reaches_a_runner(ask_models: Ask) -> None:
    asking = ask_models(files=LIBRARY)
    searched(asking.talk)
    asking.talk.answer("benchmark", to_json(so_fast(1.0)), always=True)
    asking.line.answer(DIAGNOSIS, *map(variant, UNREAD.values()))
    number = asking.talk.ask(f"{OPTIMIZE} --repairs {len(UNREAD) - 1}")
    asking.talk.skip(number)
    assert_ended(asking, "optimize", *(rewrite.optimize for rewrite in UNREAD.values()))
    assert asking.talk.asked() == ["imports", "capture", "record", "verify", "benchmark", "profile", "script", "tune"]
    assert asking.talk.job().state is JobState.done
    assert_nothing_was_pushed(asking)


def test_no_modification_that_reading_stops_reaches_a_runner(ask_models: Ask) -> None:
    asking = ask_models(files=LIBRARY)
    modifying.answers(asking.talk)
    # Its place is looked at when the answer has been read, so that the next one starts from it.
    placed, following = UNREAD["a_function_beside"], UNREAD["a_function_in_its_file"]
    asking.line.answer(*(modification(each, placed if each is following else None) for each in UNREAD.values()))
    number = asking.talk.ask(f"{MODIFY} --repairs {len(UNREAD) - 1}")
    asking.talk.skip(number)
    assert_ended(asking, "modify", *(rewrite.modify for rewrite in UNREAD.values()))
    assert asking.talk.asked() == ["imports", "verify"]  # of what stands
    assert asking.talk.job().state is JobState.failed
    assert_nothing_was_pushed(asking)


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.timeout(900)
def test_the_real_runner_stops_variants_that_cheat_or_are_wrong_somewhere(ask_models: Ask) -> None:
    asking = ask_models(files=LIBRARY, real_runner=True)
    talk, line = asking.talk, asking.line
    # The last one passes a quick look, so that it is taken up: then the whole verdict refuses it.
    line.answer(DIAGNOSIS, *map(variant, UNPROVED.values()), variant(WITHOUT_NAN)).refuse(400, "invalid_request_error")
    number = talk.ask(f"{OPTIMIZE} --repairs {len(UNPROVED)}")
    reports = "\n".join(talk.heard(number))
    assert_ended(asking, "optimize", *(rewrite.optimize for rewrite in UNPROVED.values()), ("passed", ""))
    assert talk.job().state is JobState.done, talk.job().failure
    assert "the full verdict is " + WITHOUT_NAN.optimize[0].replace("_", r"\_") in reports, reports
    assert_nothing_was_pushed(asking)


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.timeout(900)
def test_the_real_runner_stops_modifications_that_cheat_or_are_wrong_somewhere(ask_models: Ask) -> None:
    asking = ask_models(files=LIBRARY, real_runner=True)
    talk, line = asking.talk, asking.line
    attacks = (*UNPROVED.values(), WITHOUT_NAN)
    line.answer(*map(modification, attacks, (None, *attacks)))
    number = talk.ask(f"{MODIFY} --repairs {len(attacks) - 1}")
    talk.skip(number)
    assert_ended(asking, "modify", *(rewrite.modify for rewrite in attacks))
    failure = talk.job().failure
    assert failure is not None and failure.code is FailureCode.verdict, failure
    assert_nothing_was_pushed(asking)
