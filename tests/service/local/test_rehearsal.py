"""Decisions of a recorded job, made again in the order in which they were made."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from service.local.asking import LocalJob
from service.local.checkout import Checkout
from service.local.session import LocalSession, Rehearsal
from service.local.terminal import TerminalChoice
from tests.service.io.samples import PROBLEM
from tests.service.io.stages import Analyze, stages
from tests.service.local.test_session import Quiet, checkout
from workers import embedded, runtime
from workers.authors.protocol import Feedback
from workers.contracts import Decision, JobOptions, JobState, JobView, LineComment, ProblemKind, StageName
from workers.embedded import close, configure

__all__ = ["checkout"]

LINE = LineComment("kernels/geglu.py", 1, "Why this import?")
CHOICES = (
    TerminalChoice(Decision.revise, "Name it otherwise.", (LINE,)),
    TerminalChoice(Decision.approve),
    TerminalChoice(Decision.revise, "Shorter."),
)


class Deciding(Quiet):
    """Decides as it is told, then approves."""

    def __init__(self) -> None:
        super().__init__()
        self.left = list(CHOICES)

    def ask(self, job: JobView) -> TerminalChoice:
        return self.left.pop(0) if self.left else TerminalChoice(Decision.approve)


class Silent(Rehearsal):
    """Says nothing aloud."""

    def say(self, text: str) -> None:
        assert text

    def show(self, markdown: str) -> None:
        assert markdown


@pytest.fixture(autouse=True)
def production(tmp_path: Path) -> Iterator[None]:
    configure(tmp_path / "state")
    table = stages(Analyze())
    runtime.install(replace(runtime.current(), stages=lambda: table))
    yield
    close()


def attempts(job: JobView) -> list[tuple[StageName, int]]:
    return [(stage.stage, stage.attempt) for stage in job.stages]


def test_decisions_are_recorded_with_their_words_and_lines_and_made_again(checkout: Checkout, tmp_path: Path) -> None:
    asked = LocalJob("reglu", PROBLEM, JobOptions())
    first = LocalSession(checkout, tmp_path / "out", Deciding()).run(asked)
    assert first.state is JobState.done
    embedded.record(first.job_id, tmp_path / "recording")

    job = embedded.recorded(tmp_path / "recording")
    assert (job.kernel, job.problem.kind, job.base_sha) == ("reglu", ProblemKind.block, checkout.head())
    assert [(it.decision, it.feedback) for it in job.decisions] == [
        (Decision.revise, (Feedback("Name it otherwise."), Feedback(LINE.body, LINE.path, LINE.line))),
        (Decision.approve, ()),
        (Decision.revise, (Feedback("Shorter."),)),
        (Decision.approve, ()),
        (Decision.approve, ()),
    ]

    again = replace(asked, problem="", given=job.problem, fresh=True, base=job.base_sha)
    second = LocalSession(checkout, tmp_path / "again", Silent(job.decisions)).run(again)
    assert second.job_id != first.job_id
    assert (second.state, attempts(second)) == (JobState.done, attempts(first))
    embedded.record(second.job_id, tmp_path / "second")
    assert embedded.recorded(tmp_path / "second").decisions == job.decisions
