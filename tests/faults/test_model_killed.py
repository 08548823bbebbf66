"""An optimize job whose variants a model writes may be interrupted anywhere: it comes to the same, and no answer is paid twice."""

from __future__ import annotations

import pytest

from tests.faults.modelled import (
    HANGS,
    MENDED,
    OPTIMIZED,
    QUESTIONS,
    REQUESTS,
    SAID,
    SECOND,
    WRONG,
    Modelled,
    answered,
    busy,
    gains_nothing,
)
from tests.faults.optimizing import (
    PROFILE,
    Undisturbed,
    assert_the_same,
    comments,
    look,
    requested,
    retried,
    run_again,
    untouched,
    variants,
)
from tests.faults.processes import parent_of, until
from tests.workers.stages.modelling import DIAGNOSIS
from workers.contracts import FailureCode, JobState

# In `make test`, tests/workers/engine/test_killed_asking.py kills what asks a model, at every boundary and without an installation.
pytestmark = [pytest.mark.fault, pytest.mark.slow, pytest.mark.long, pytest.mark.timeout(900)]

DIAGNOSED, FIRST, REPAIR, LAST = QUESTIONS


LAST_WORDS_S = 20.0  # until a server sees that its client is gone


def test_the_worker_is_killed_while_a_model_is_asked_and_between_its_answer_and_the_verdict(
    asking: Modelled, undisturbed_asking: Undisturbed
) -> None:
    installation, line = asking.installation, asking.line
    line.answer(DIAGNOSIS).reply(HANGS).answer(WRONG, WRONG, MENDED, SECOND)
    issue = asking.ask("model_reserved")
    worker = installation.paused("model_reserved")
    # The answer is there and not kept; kept and not read; its verdict is asked for; there, and nobody knows.
    places = ("model_answered", "model_kept", "gpu_requested", "stage_claimed")
    installation.pause(places[0])
    installation.release("model_reserved")
    asking.hears(2)
    assert untouched(installation)
    installation.kill(worker, "pool process while a model is asked")
    assert line.server.asked[1].left.wait(LAST_WORDS_S)
    for number, place in enumerate(places):
        pid = installation.paused(place)
        assert untouched(installation)
        for name in places[number + 1 : number + 2]:
            installation.pause(name)
        victim, what = (pid, "pool process") if number % 2 else (parent_of(pid), "worker")
        installation.kill(victim, f"{what} at {place}")
        installation.release(place)
    assert look(installation, issue, OPTIMIZED) == undisturbed_asking
    assert requested(installation) == REQUESTS
    assert run_again(installation) == {}
    # Whether a provider charges for what it was asked when its client died is not known, so it counts (decision 0013).
    assert asking.paid() == [*answered(DIAGNOSED), *[(FIRST, "lost")] * 2, *answered(FIRST, REPAIR, LAST)]


def test_the_runner_and_the_gpu_host_are_killed_while_they_judge_and_time_what_a_model_wrote(
    asking: Modelled, undisturbed_asking: Undisturbed
) -> None:
    installation = asking.installation
    asking.line.answer(*SAID)
    issue = asking.ask("runner.verify")
    runner = installation.paused("runner.verify")
    assert untouched(installation)
    installation.kill(runner, "runner in verify")
    runner = installation.paused("runner.verify")
    installation.pause("runner.benchmark")
    installation.kill(parent_of(runner), "pool process in verify")
    installation.release("runner.verify")
    runner = installation.paused("runner.benchmark")
    assert untouched(installation)
    installation.kill(parent_of(parent_of(runner)), "worker in benchmark")
    installation.release("runner.benchmark")
    assert look(installation, issue, OPTIMIZED) == undisturbed_asking
    assert requested(installation) == REQUESTS
    assert run_again(installation) == {"verify": 2, "benchmark": 1}
    assert asking.paid() == answered(*QUESTIONS)


def test_the_machine_that_asks_and_the_one_that_judges_lose_their_power(
    asking_machines: Modelled, undisturbed_asking: Undisturbed
) -> None:
    machines, line = asking_machines.installation, asking_machines.line
    line.answer(DIAGNOSIS).reply(HANGS).answer(WRONG, MENDED, SECOND)
    issue = asking_machines.ask("runner.verify")
    asking_machines.hears(2)
    machines.lose("stages")
    assert line.server.asked[1].left.wait(LAST_WORDS_S)
    machines.start("stages")
    machines.paused("runner.verify")
    machines.lose("gpu")
    assert untouched(machines)
    machines.start("gpu")
    machines.paused("runner.verify")
    machines.release("runner.verify")
    assert look(machines, issue, OPTIMIZED) == undisturbed_asking
    assert requested(machines) == REQUESTS
    assert run_again(machines) == {"verify": 1}
    assert asking_machines.paid() == [*answered(DIAGNOSED), (FIRST, "lost"), *answered(FIRST, REPAIR, LAST)]


def test_a_provider_that_is_down_ends_the_job_with_nothing_better_and_retry_comes_to_the_same_when_it_is_well(
    asking: Modelled, undisturbed_asking: Undisturbed
) -> None:
    installation, line = asking.installation, asking.line
    line.answer(DIAGNOSIS).reply(busy(line), busy(line))
    gains_nothing(installation)
    issue = asking.ask()
    failed = installation.ended(JobState.failed)
    assert failed.failure is not None and failed.failure.code is FailureCode.model
    report = comments(installation, issue)["report"]
    assert "anthropic is overloaded" in report and "`/kernel retry`" in report
    assert untouched(installation)
    without = requested(installation)
    assert without == (*PROFILE, "tune: v1-tune", "verify: v2-verify", "verify: v3-verify", "benchmark: v3-benchmark")
    # It is down again, and the worker that waits for it is killed; then it is well but for a moment.
    line.reply(busy(line, retry_after_s=60)).answer(WRONG, MENDED).reply(busy(line)).answer(SECOND)
    asking.refute()
    installation.pause("model_reserved")
    installation.retry(issue)
    worker = installation.paused("model_reserved")
    installation.release("model_reserved")
    down, again = (FIRST, "overloaded"), (LAST, "overloaded")
    until(lambda: asking.paid().count(down) == 3, "the provider to be down", installation.story)
    installation.kill(worker, "pool process that waits for a provider")
    asked = (*without, *REQUESTS[len(PROFILE) + 1 :])
    found = look(installation, issue, retried(undisturbed_asking, {"done": len(asked)}))
    assert_the_same(found, undisturbed_asking)
    assert requested(installation) == asked
    assert run_again(installation) == {}
    assert asking.paid() == [*answered(DIAGNOSED), *[down] * 3, *answered(FIRST, REPAIR), again, *answered(LAST)]


def test_a_job_that_is_cancelled_while_a_model_is_asked_leaves_nothing_and_retry_asks_that_alone_again(
    asking: Modelled, undisturbed_asking: Undisturbed
) -> None:
    installation, line = asking.installation, asking.line
    line.answer(DIAGNOSIS, WRONG, MENDED).reply(HANGS).answer(SECOND)
    issue = asking.ask()
    asking.hears(4)
    installation.say(issue, "/kernel cancel")
    stopped = installation.ended(JobState.cancelled)
    assert line.server.asked[3].left.wait(LAST_WORDS_S)
    assert untouched(installation)
    done = variants(stopped)
    assert done.items() <= undisturbed_asking.artifacts.items() and {"v1.json", "v2.json"} <= set(done)
    asked = requested(installation)
    installation.retry(issue)
    found = look(installation, issue, retried(undisturbed_asking, OPTIMIZED.gpu_requests))
    assert_the_same(found, undisturbed_asking)
    assert requested(installation) == REQUESTS and asked == REQUESTS[: len(asked)]
    assert run_again(installation) == {}
    assert asking.paid() == [*answered(DIAGNOSED, FIRST, REPAIR), (LAST, "cancelled"), *answered(LAST)]
