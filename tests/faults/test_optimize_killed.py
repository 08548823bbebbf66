"""An optimize job in a whole installation may be interrupted anywhere, and comes to what it would have come to."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.faults.installation import Installation
from tests.faults.optimizing import REQUESTS, Undisturbed, ask, look, requested, run_again, untouched
from tests.faults.processes import parent_of

pytestmark = [pytest.mark.fault, pytest.mark.slow]


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
