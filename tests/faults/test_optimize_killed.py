"""An optimize job in a whole installation may be interrupted anywhere, and comes to what it would have come to."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.faults.installation import REPOSITORY, Installation
from tests.faults.optimizing import (
    REQUESTS,
    Undisturbed,
    ask,
    assert_the_same,
    at_the_second_variant,
    comments,
    look,
    requested,
    retried,
    run_again,
    untouched,
    variants,
)
from tests.faults.processes import is_gone, parent_of, until
from workers import inbox
from workers.contracts import JobState

pytestmark = [pytest.mark.fault, pytest.mark.long, pytest.mark.slow, pytest.mark.timeout(900)]


def test_the_worker_of_stages_is_killed_between_variants_and_in_finalize(
    standing: Installation, undisturbed: Undisturbed
) -> None:
    standing.pause("runner.tune")
    issue = ask(standing)
    standing.paused("runner.tune")
    # v1 was answered; what v2 needs was asked for; all was answered, and nobody knows; the same in the last stage.
    places = ("stage_claimed", "gpu_requested", "stage_ran", "memo_kept", "stage_ran")
    standing.pause(places[0])
    standing.release("runner.tune")
    for number, place in enumerate(places):
        pid = standing.paused(place)
        assert untouched(standing)
        following = places[number + 1 : number + 2]
        for name in following:
            standing.pause(name)
        # In turns the process that does the work, and the one that gives it its work and outlives it.
        victim, what = (pid, "pool process") if number % 2 == 0 else (parent_of(pid), "worker")
        standing.kill(victim, f"{what} at {place}")
        standing.release(place)
    assert look(standing, issue) == undisturbed
    assert requested(standing) == REQUESTS
    assert run_again(standing) == {}


def test_the_runner_and_the_gpu_host_are_killed_in_the_middle_of_variants_and_of_finalize(
    standing: Installation, undisturbed: Undisturbed
) -> None:
    order = ("tune", "verify", "benchmark", "tests", "benchmark")
    standing.pause(f"runner.{order[0]}")
    issue = ask(standing)
    for number, action in enumerate(order):
        runner = standing.paused(f"runner.{action}")
        assert untouched(standing)
        kind = number % 3
        pid = (runner, parent_of(runner), parent_of(parent_of(runner)))[kind]
        for name in order[number + 1 : number + 2]:
            standing.pause(f"runner.{name}")
        standing.kill(pid, f"{('runner', 'pool process', 'worker')[kind]} in {action}")
        standing.release(f"runner.{action}")
    assert look(standing, issue) == undisturbed
    assert requested(standing) == REQUESTS
    # What a runner was at when it died, and nothing else.
    assert run_again(standing) == dict(Counter(order))


def test_the_service_is_killed_in_a_variant_and_between_the_commit_and_the_pull_request_and_redis_in_the_tests(
    standing: Installation, undisturbed: Undisturbed
) -> None:
    issue = at_the_second_variant(standing, "benchmark")
    standing.paused("runner.benchmark")
    standing.pause("runner.tests")
    standing.kill_service()
    standing.release("runner.benchmark")
    standing.paused("runner.tests")
    assert untouched(standing)
    standing.kill_redis()
    found: list[set[str]] = []

    def between() -> None:
        found.append(set(standing.hub.branches(REPOSITORY)))
        standing.kill_service()

    standing.hub.faults.before_next("create_pull", between)
    standing.release("runner.tests")
    assert look(standing, issue) == undisturbed
    assert [len(branches) for branches in found] == [3], "the commit was there, and no pull request"
    assert requested(standing) == REQUESTS
    assert run_again(standing) == {"benchmark": 1}


def test_a_job_that_is_cancelled_in_a_variant_leaves_nothing_and_retry_goes_on_from_the_last_finished_one(
    standing: Installation, undisturbed: Undisturbed
) -> None:
    issue = at_the_second_variant(standing, "benchmark")
    runner = standing.paused("runner.benchmark")
    standing.say(issue, "/kernel cancel")
    stopped = standing.ended(JobState.cancelled)
    until(lambda: is_gone(runner), "the runner to be ended", standing.story)
    until(lambda: "gpu_request_abandoned" in standing.logged(), "the log to say so", standing.story)
    assert untouched(standing)
    asked = [*requested(standing)]
    done = variants(stopped)
    assert done.items() <= undisturbed.artifacts.items() and "v1.json" in done
    assert inbox.counts()["gpu_requests"] == {"done": len(asked) - 1, "cancelled": 1}
    told = comments(standing, issue)
    assert "was cancelled** by `maintainer`; nothing was pushed." in told["report"]
    assert "`/kernel retry` resumes it" in told["report"]
    standing.release("runner.benchmark")
    standing.retry(issue)
    ending = retried(undisturbed, {"done": len(REQUESTS), "cancelled": 1})
    assert_the_same(look(standing, issue, ending), undisturbed)
    assert requested(standing) == (*asked, *REQUESTS[len(asked) - 1 :])
    assert run_again(standing) == {}


def test_a_job_that_loses_its_worker_again_and_again_says_so_and_goes_on_with_one_that_lives(
    standing: Installation, undisturbed: Undisturbed
) -> None:
    issue = at_the_second_variant(standing, "benchmark")
    standing.paused("runner.benchmark")
    standing.pause("stage_claimed")
    standing.release("runner.benchmark")
    # v2 is measured by now; whoever takes the stage dies before anything new is done.
    for _ in range(4):
        standing.kill(standing.paused("stage_claimed"), "pool process at stage_claimed")
    standing.paused("stage_claimed")
    until(lambda: "was lost 4 times" in told_of(standing, issue), "the comment to say so", standing.story)
    assert "`/kernel cancel` ends it" in comments(standing, issue)["status"]
    assert untouched(standing)
    standing.release("stage_claimed")
    assert look(standing, issue) == undisturbed
    assert "workers_lost" in standing.logged()
    assert requested(standing) == REQUESTS
    assert run_again(standing) == {}


def test_a_gpu_host_that_stays_away_is_told_and_the_job_goes_on_once_it_is_back(
    machines: Installation, undisturbed: Undisturbed
) -> None:
    issue = at_the_second_variant(machines, "benchmark")
    machines.paused("runner.benchmark")
    assert machines.readiness()["gpu"] == {"ok": True, "detail": "1 at work, 0 waiting"}
    machines.lose("gpu")
    until(lambda: "was lost" in comments(machines, issue)["status"], "the comment to say so", machines.story)
    status = comments(machines, issue)["status"]
    for part in ("and no other has taken it since", "`kernelsmith work --only gpu`", "`/kernel cancel` ends it"):
        assert part in status
    gpu = machines.readiness()["gpu"]
    assert not gpu["ok"] and "no host at work" in str(gpu["detail"]) and "kernelsmith doctor" in str(gpu["fix"])
    assert "no_gpu_host" in machines.logged()
    assert inbox.counts()["gpu_requests"]["lost"] == 1
    assert untouched(machines)
    # It comes back, and is lost again and again over the same request; then one lives.
    for _ in range(3):
        machines.start("gpu")
        machines.paused("runner.benchmark")
        assert "no other has taken it" not in told_of(machines, issue)
        machines.lose("gpu")
    until(lambda: "was lost 4 times" in comments(machines, issue)["status"], "the comment to say so", machines.story)
    assert untouched(machines)
    machines.release("runner.benchmark")
    machines.start("gpu")
    assert look(machines, issue) == undisturbed
    assert "gpu_hosts_lost" in machines.logged()
    assert run_again(machines) == {"benchmark": 4}


def told_of(installation: Installation, issue: int) -> str:
    """Give the status comment once everything is published."""
    until(lambda: not installation.busy(), "everything to be published", installation.story)
    return comments(installation, issue)["status"]
