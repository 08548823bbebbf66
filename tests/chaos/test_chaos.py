"""A short trial with a fault of every kind, and the audit that it is judged by."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.chaos import trial
from tests.chaos.audit import audit
from tests.chaos.kinds import KINDS
from tests.faults.creating import STAGES, ask
from tests.faults.installation import REPOSITORY, Installation
from workers.contracts import JobState


@pytest.fixture
def said() -> list[str]:
    return []


@pytest.mark.fault
@pytest.mark.long
@pytest.mark.slow
@pytest.mark.timeout(900)
def test_nothing_is_lost_or_doubled_by_a_fault_of_every_kind(tmp_path: Path, said: list[str]) -> None:
    assert trial.run(tmp_path, len(KINDS), 7, 1.0, said.append), "\n".join(said)
    (table,) = [text for text in said if "| fault |" in text]
    for kind in KINDS:
        assert f"| {kind} | 1 | " in table


@pytest.mark.fault
@pytest.mark.long
@pytest.mark.slow
@pytest.mark.timeout(900)
def test_the_audit_finds_what_is_lost_and_what_is_doubled(install: Callable[..., Installation]) -> None:
    installation = install()
    issue = ask(installation)
    for stage in STAGES:
        assert audit(installation.hub, REPOSITORY, issue).lost
        installation.approve(stage)
    installation.ended(JobState.done)
    assert audit(installation.hub, REPOSITORY, issue) == trial.Audit((), ())
    own = next(e for e in installation.hub.conversation(REPOSITORY, issue) if getattr(e, "by", "").endswith("[bot]"))
    installation.hub.comment(REPOSITORY, issue, own.by, own.body)
    assert any(text.startswith("comment ") for text in audit(installation.hub, REPOSITORY, issue).doubled)
