"""A planned restart, as systemd does it, is nobody's fault: what ran is given back, and every process ends with the service."""

from __future__ import annotations

import contextlib
import os
import signal
import sqlite3
import subprocess
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from tests.faults.creating import STAGES, ask, assert_one_of_everything
from tests.faults.installation import SECRET, Installation
from tests.faults.modelled import HANGS, OPTIMIZED, SAID, Modelled
from tests.faults.optimizing import at_the_second_variant, look
from tests.faults.processes import descendants, is_gone, parent_of, until
from tests.few import few
from tests.workers.stages.modelling import DIAGNOSIS
from workers import embedded, inbox
from workers.contracts import JobState

pytestmark = [pytest.mark.fault, pytest.mark.slow, pytest.mark.timeout(900)]

MOST_S = 40.0  # systemd waits for 90
KEY, PASSWORD, OTHER = "sk-ant-tests-" + 24 * "k", 24 * "p", 24 * "o"


def held() -> list[tuple[str | None, int]]:
    """Leases and tries of stages that have not ended, and of GPU requests without an answer."""
    with closing(sqlite3.connect(embedded.settings().database().removeprefix("sqlite:///"))) as database:
        stages = database.execute("SELECT lease_token, tries + losses FROM stage_attempts WHERE ended_at IS NULL")
        asked = database.execute(
            "SELECT lease_token, tries + losses + runner_kills FROM gpu_requests WHERE state IN ('pending', 'running')"
        )
        return [*stages.fetchall(), *asked.fetchall()]


def once(installation: Installation, name: str) -> None:
    installation.serving[name].send_signal(signal.SIGTERM)


def again_and_again(installation: Installation, name: str) -> None:
    serving = installation.serving[name]
    while serving.poll() is None:
        serving.send_signal(signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            serving.wait(0.3)


def everything_at_once(installation: Installation, name: str) -> None:
    """Signal every process of the command, as systemd does without KillMode=mixed."""
    serving = installation.serving[name]
    for pid in (serving.pid, *descendants(serving.pid)):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGTERM)


def stop(installation: Installation, name: str = "service", how: Callable[[Installation, str], None] = once) -> None:
    serving = installation.serving[name]
    ours = descendants(serving.pid)
    assert ours
    how(installation, name)
    assert serving.wait(MOST_S) == 0
    until(lambda: all(is_gone(pid) for pid in ours), "the workers to end", installation.story)


def interrupted(installation: Installation, name: str) -> None:
    """As by Ctrl-C three times in a row."""
    serving = installation.serving[name]
    for _ in range(3):
        serving.send_signal(signal.SIGINT)
        time.sleep(0.3)


def hung_up(installation: Installation, name: str) -> None:
    """As by a terminal that closes."""
    serving = installation.serving[name]
    for pid in (serving.pid, *descendants(serving.pid)):
        with contextlib.suppress(ProcessLookupError):
            if os.getsid(pid) == os.getsid(serving.pid):
                os.kill(pid, signal.SIGHUP)


# The stage in which a job comes to a place.
PLACES = {
    **dict.fromkeys(("runner.imports", "runner.capture"), "analyze"),
    **dict.fromkeys(("stage_claimed", "memo_computed", "stage_ran", "gpu_requested", "gpu_claimed"), "generate"),
    **dict.fromkeys(("gpu_ran", "gpu_answered", "runner.verify"), "generate"),
    "runner.tests": "validate",
}
STORED = ("gpu_requested", "gpu_answered")  # what was done there is in the database, and is not done again


# With three hosts lost a job fails.
@pytest.mark.parametrize(
    ("place", "times"), few([*((place, 1) for place in PLACES), ("runner.verify", 3)], [("memo_computed", 1)])
)
def test_what_runs_while_the_service_is_stopped_is_given_back_and_counts_as_no_try(
    installation: Installation, place: str, times: int
) -> None:
    first = STAGES.index(PLACES[place])
    if first == 0:
        installation.pause(place)
    issue = ask(installation)
    for stage in STAGES[:first]:
        installation.waits(stage)
        if stage == STAGES[first - 1]:
            installation.pause(place)
        installation.approve(stage)
    for _ in range(times):
        installation.paused(place)
        stop(installation)
        assert held()
        assert {lease for lease, _ in held()} == {None}
        assert {tries for _, tries in held()} == {0}
        installation.start()
        installation.ready()
    if place not in STORED:
        installation.paused(place)
    installation.release(place)
    for stage in STAGES[first:]:
        installation.approve(stage)
    assert_one_of_everything(installation, issue)


@pytest.mark.long
@pytest.mark.parametrize(
    "how", [again_and_again, everything_at_once, interrupted, hung_up], ids=lambda how: str(how.__name__)
)
@pytest.mark.parametrize("place", ["memo_computed", "runner.verify"])
def test_a_stop_is_no_try_however_the_signal_comes(
    installation: Installation, place: str, how: Callable[[Installation, str], None]
) -> None:
    issue = ask(installation)
    installation.waits("analyze")
    installation.pause(place)
    installation.approve("analyze")
    installation.paused(place)
    stop(installation, how=how)
    assert held()
    assert set(held()) == {(None, 0)}
    installation.release(place)
    installation.start()
    for stage in STAGES[1:]:
        installation.approve(stage)
    assert_one_of_everything(installation, issue)


@pytest.mark.long
@pytest.mark.parametrize("operation", ["create_git_commit", "create_pull", "create_issue_comment"])
def test_what_is_published_while_the_service_is_stopped_is_there_once(
    installation: Installation, operation: str
) -> None:
    issue = ask(installation)
    until(lambda: installation.job() is not None, "the job to be there", installation.story)
    installation.hub.faults.delay_next(operation, 12.0)
    until(lambda: not installation.hub.faults.waiting(), "GitHub to be asked", installation.story)
    stop(installation)
    assert inbox.counts()["updates"].get("leased", 0) == 0
    installation.start()
    for stage in STAGES:
        installation.approve(stage)
    assert_one_of_everything(installation, issue)


@pytest.mark.long
def test_a_worker_that_is_killed_while_the_service_stops_is_lost_alone(installation: Installation) -> None:
    issue = ask(installation)
    installation.waits("analyze")
    installation.pause("runner.verify")
    installation.approve("analyze")
    runner = installation.paused("runner.verify")

    def and_killed(installation: Installation, name: str) -> None:
        once(installation, name)
        os.kill(parent_of(parent_of(runner)), signal.SIGKILL)

    stop(installation, how=and_killed)
    assert held()[0] == (None, 0), "the stage only waited"
    installation.release("runner.verify")
    installation.start()
    for stage in STAGES[1:]:
        installation.approve(stage)
    assert_one_of_everything(installation, issue)


@pytest.mark.long
def test_a_question_to_a_model_ends_with_the_service_and_is_asked_again(asking: Modelled) -> None:
    installation, line = asking.installation, asking.line
    line.answer(DIAGNOSIS).reply(HANGS).answer(*SAID[1:])
    issue = asking.ask()
    asking.hears(2)
    stop(installation)
    assert set(held()) == {(None, 0)}
    assert [outcome for _, outcome in asking.paid()] == ["answered", "cancelled"]
    installation.start()
    look(installation, issue, OPTIMIZED)
    assert [outcome for _, outcome in asking.paid()] == ["answered", "cancelled", *["answered"] * 3]


@pytest.mark.long
def test_a_worker_that_is_told_to_end_alone_gives_back_what_it_holds_and_is_started_again(
    installation: Installation,
) -> None:
    issue = ask(installation)
    installation.waits("analyze")
    for place in ("memo_computed", "runner.verify"):
        installation.pause(place)
    installation.approve("analyze")
    for place, above in (("memo_computed", 0), ("runner.verify", 1)):
        pool = installation.paused(place)
        for _ in range(above):
            pool = parent_of(pool)
        os.kill(pool, signal.SIGTERM)
        until(lambda pool=pool: is_gone(pool), "the process to end", installation.story)
        # Whoever follows comes to the same place, and nobody had to wait for a lease to run out.
        os.kill(parent_of(installation.paused(place)), 0)
        assert {tries for _, tries in held()} <= {0, 1}, "a request that is at work is at its first try"
        installation.release(place)
    for stage in STAGES[1:]:
        installation.approve(stage)
    assert_one_of_everything(installation, issue)


@pytest.mark.long
def test_a_start_that_is_stopped_at_any_moment_leaves_no_process_and_no_lease(installation: Installation) -> None:
    issue = ask(installation)
    installation.waits("analyze")
    installation.pause("memo_computed")
    installation.approve("analyze")
    installation.paused("memo_computed")
    stop(installation)
    for tenths in (2, 5, 10, 15, 20, 25, 30, 35, 40, 50, 60):
        installation.start()
        serving = installation.serving["service"]
        time.sleep(tenths / 10)
        ours = descendants(serving.pid)
        serving.send_signal(signal.SIGTERM)
        # Before it has taken the signal over, the system ends it, which has started nothing yet then.
        assert serving.wait(MOST_S) in (0, -signal.SIGTERM), f"stopped after {tenths / 10} s"
        until(lambda ours=ours: all(is_gone(pid) for pid in ours), "all of it to end", installation.story)
        assert set(held()) == {(None, 0)}, f"stopped after {tenths / 10} s"
    installation.release("memo_computed")
    installation.start()
    for stage in STAGES[1:]:
        installation.approve(stage)
    assert_one_of_everything(installation, issue)


@pytest.mark.long
def test_a_gpu_host_alone_that_is_told_to_end_twice_gives_its_request_back(machines: Installation) -> None:
    at_the_second_variant(machines, "benchmark")
    machines.paused("runner.benchmark")
    stop(machines, "gpu", again_and_again)
    assert set(held()) == {(None, 0)}
    machines.release("runner.benchmark")
    machines.start("gpu")
    machines.ended(JobState.done)


@pytest.mark.long  # in `make test` tests/workers/test_environment, process by process
def test_each_process_holds_the_secrets_that_it_works_with_and_no_others(
    install: Callable[..., Installation],
) -> None:
    more = {"PAGES_PASSWORD": PASSWORD, "ANTHROPIC_API_KEY": KEY, "ANTHROPIC_MODEL": "a-model"}
    installation = install(
        {f"KERNELSMITH_{name}": value for name, value in more.items()}
        | dict.fromkeys(("OTHERS_TOKEN", "NVIDIA_API_KEY", "DB_PASS", "SENTRY_DSN", "PIP_INDEX_URL"), OTHER)
    )
    installation.pause("runner.capture")
    ask(installation)
    runner = installation.paused("runner.capture")
    service = installation.serving["service"].pid
    assert OTHER not in environment_of(service)
    seen = {pid: environment_of(pid) for pid in descendants(service)}
    assert runner in seen
    commands = {pid: Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode() for pid in seen}
    stages = {pid for pid, command in commands.items() if "stages@" in command}
    assert stages
    assert any("redis" in command for command in commands.values())
    assert any("gpu@" in command for command in commands.values())
    for pid, text in seen.items():
        told = [name for name, secret in (("webhook", SECRET), ("other", OTHER), ("pages", PASSWORD)) if secret in text]
        assert told == [], commands[pid]
        assert "PRIVATE_KEY" not in text, commands[pid]
        assert (KEY in text) == (pid in stages), commands[pid]
    installation.release("runner.capture")
    installation.waits("analyze")


def environment_of(pid: int) -> str:
    return Path(f"/proc/{pid}/environ").read_bytes().decode()


@pytest.mark.long
def test_no_kill_leaves_anything_behind_in_the_temporary_directory(
    install: Callable[..., Installation], tmp_path: Path
) -> None:
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    installation = install({"TMPDIR": str(temporary)})
    installation.pause("runner.capture")
    ask(installation)
    for _ in range(3):
        installation.paused("runner.capture")
        (ours,) = (path for path in temporary.iterdir() if path.is_dir())
        assert any(path.name.startswith("kernelsmith-gpu-") for path in ours.iterdir())
        (ours / "pymp-left").mkdir()
        installation.kill_service()
        installation.ready()
    installation.paused("runner.capture")
    assert not (ours / "pymp-left").exists()
    stop(installation)
    assert not list(temporary.iterdir())
