"""Right answers to the twenty-two tasks pass, usual wrong ones end as they must, and the question holds the rule against them."""

from __future__ import annotations

import functools

import pytest

from gpu_runner import verify
from gpu_runner.contracts import CandidateSource, SourceFile, Status, Verdict, VerifyRequest
from tests.cheats.trial import surroundings
from tests.few import few
from tests.honest.table import problem_of
from tests.workers.authors.llm.tasks import (
    ANSWERED,
    KERNEL_TASKS,
    kernel_brief_of,
    right_source,
    wrong_source,
)
from workers.authors.llm import kernel_question
from workers.authors.llm.protocol import Task, UnusableAnswer
from workers.models.protocol import Question

# Every sixth of those of which a quick verdict is enough is judged by `make test`.
JUDGED = few(KERNEL_TASKS, [name for name, task in KERNEL_TASKS.items() if task.quick][::6])


@functools.cache
def verdict_of(name: str, source: str) -> Verdict:
    candidate = CandidateSource((SourceFile("candidate.py", source),))
    return verify.run(VerifyRequest(problem_of(name), candidate, quick=KERNEL_TASKS[name].quick), surroundings())


def whole(question: Question) -> str:
    parts = (*question.system, *(part for message in question.messages for part in message.parts))
    return "".join(part.text for part in parts)


def test_tasks_are_twenty_two_and_of_every_kind() -> None:
    assert len(KERNEL_TASKS) + len(ANSWERED) == 22
    assert {answered.task for answered in ANSWERED.values()} == set(Task)


@pytest.mark.parametrize("name", JUDGED)
def test_right_kernel_passes(name: str) -> None:
    verdict = verdict_of(name, right_source(name))
    assert (verdict.status, verdict.evidence) == (Status.passed, ())


@pytest.mark.parametrize("name", JUDGED)
def test_kernel_with_a_usual_mistake_ends_as_it_must(name: str) -> None:
    assert verdict_of(name, wrong_source(name)).status is KERNEL_TASKS[name].ending


@pytest.mark.parametrize("name", KERNEL_TASKS)
def test_the_question_says_the_rule_against_a_usual_mistake(name: str) -> None:
    assert KERNEL_TASKS[name].rule in whole(kernel_question(kernel_brief_of(name)))


@pytest.mark.parametrize("name", ANSWERED)
def test_right_answer_is_used(name: str) -> None:
    answered = ANSWERED[name]
    assert answered.read(answered.right) is not None


@pytest.mark.parametrize("name", ANSWERED)
def test_wrong_answer_ends_as_it_must_and_the_question_says_the_rule(name: str) -> None:
    answered = ANSWERED[name]
    with pytest.raises(UnusableAnswer) as refused:
        answered.read(answered.wrong)
    assert refused.value.fault is answered.ending
    assert answered.rule in whole(answered.question)
