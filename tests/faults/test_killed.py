"""Any process may be killed at any moment: the job goes on, and there is one of everything in the end."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.faults.creating import STAGES, ask, assert_one_of_everything
from tests.faults.installation import REPOSITORY, Installation
from tests.faults.processes import parent_of
from workers import inbox

pytestmark = [pytest.mark.fault, pytest.mark.slow, pytest.mark.timeout(900)]

# A place where a stage has done half of its work. It begins at stage_claimed, and at stage_ran it has ended and nobody knows.
INSIDE = {"analyze": "gpu_requested", "generate": "memo_computed", "validate": "memo_kept"}
ACTIONS = {"analyze": ("capture",), "generate": ("verify",), "validate": ("tests", "benchmark")}


@pytest.mark.long
def test_the_worker_of_stages_is_killed_at_every_boundary_and_inside_of_every_stage(
    installation: Installation,
) -> None:
    installation.pause("stage_claimed")
    issue, kills = ask(installation), 0
    for stage in STAGES:
        places = ("stage_claimed", INSIDE[stage], "stage_ran")
        for place, following in zip(places, (*places[1:], None), strict=True):
            pid = installation.paused(place)
            if following is not None:
                installation.pause(following)
            # In turns the process that does the work, and the one that gives it its work and outlives it.
            victim, what = (pid, "pool process") if kills % 2 else (parent_of(pid), "worker")
            installation.kill(victim, f"{what} at {place} of {stage}")
            installation.release(place)
            kills += 1
        installation.waits(stage)
        if stage != STAGES[-1]:
            installation.pause("stage_claimed")
        installation.approve(stage)
    assert_one_of_everything(installation, issue)


def test_the_runner_and_its_worker_are_killed_in_the_middle_of_every_action(installation: Installation) -> None:
    victims = {"capture": (0, 1), "verify": (2, 0), "tests": (1, 2), "benchmark": (0, 1)}
    names = ("runner", "pool process", "worker")
    installation.pause("runner.capture")
    issue = ask(installation)
    for stage in STAGES:
        for action in ACTIONS[stage]:
            for kind in victims[action]:
                runner = installation.paused(f"runner.{action}")
                pid = (runner, parent_of(runner), parent_of(parent_of(runner)))[kind]
                installation.kill(pid, f"{names[kind]} in {action}")
                if kind == 2:
                    # What the worker's pool was at is finished by it; there is no second try to wait for.
                    break
            installation.release(f"runner.{action}")
            if action == "tests":
                installation.pause("runner.benchmark")
        if stage != "validate":
            installation.pause("runner.verify" if stage == "analyze" else "runner.tests")
        installation.approve(stage)
    assert_one_of_everything(installation, issue)


@pytest.mark.long
def test_redis_is_killed_at_every_boundary_and_inside_of_every_stage(installation: Installation) -> None:
    installation.pause("stage_claimed")
    issue = ask(installation)
    for stage in STAGES:
        installation.paused("stage_claimed")
        installation.pause(f"runner.{ACTIONS[stage][0]}")
        installation.kill_redis()
        installation.release("stage_claimed")
        installation.paused(f"runner.{ACTIONS[stage][0]}")
        installation.kill_redis()
        installation.release(f"runner.{ACTIONS[stage][0]}")
        installation.waits(stage)
        installation.kill_redis()
        if stage != "validate":
            installation.pause("stage_claimed")
        installation.approve(stage)
    assert_one_of_everything(installation, issue)


def test_a_gpu_host_that_is_back_with_its_machine_is_not_said_to_be_gone(
    install: Callable[..., Installation],
) -> None:
    installation = install({"KERNELSMITH_RENOTIFY_AFTER_S": "60"})
    installation.pause("runner.capture")
    ask(installation)
    installation.paused("runner.capture")
    installation.kill_service()
    installation.release("runner.capture")
    installation.waits("analyze")
    assert "gpu_host_lost" in {event.kind for event in inbox.find_jobs(REPOSITORY)[0].timeline}
    assert "no_gpu_host" not in installation.logged()


# In `make test` the same strikes a night: test_night_killed.
@pytest.mark.long
@pytest.mark.parametrize("stages", ["analyze, validate", "generate"])
def test_the_service_and_all_workers_are_killed_inside_and_at_the_end_of_a_stage(
    installation: Installation, stages: str
) -> None:
    places = {stage: f"runner.{ACTIONS[stage][0]}" for stage in stages.split(", ")}
    for place in places.values():
        installation.pause(place)
    issue = ask(installation)
    for stage in STAGES:
        if stage in places:
            installation.paused(places[stage])
            installation.kill_service()
            installation.release(places[stage])
            installation.waits(stage)
            installation.kill_service()
        installation.approve(stage)
    assert_one_of_everything(installation, issue)


@pytest.mark.long
@pytest.mark.parametrize(
    "operations",
    [
        ("create_comment_reaction", "create_ref", "update_pull", "minimize_comment"),
        ("get_archive", "create_git_commit", "create_pull", "create_check_run"),
    ],
    ids=lambda operations: str(operations[0]),
)
def test_the_service_is_killed_in_the_middle_of_an_effect(
    installation: Installation, operations: tuple[str, ...]
) -> None:
    for operation in operations:
        installation.hub.faults.before_next(operation, installation.kill_service)
    issue = ask(installation)
    for stage in STAGES:
        installation.approve(stage)
    assert_one_of_everything(installation, issue)
    assert installation.killed == ["service"] * len(operations)
