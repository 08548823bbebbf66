"""A planned restart, as systemd does it, is nobody's fault: what ran is given back, and every process ends with the service."""

from __future__ import annotations

import signal
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from tests.faults.creating import STAGES, ask, assert_one_of_everything
from tests.faults.installation import SECRET, Installation
from tests.faults.processes import descendants, is_gone
from workers import embedded

pytestmark = [pytest.mark.fault, pytest.mark.slow, pytest.mark.timeout(900)]

MOST_S = 40.0  # systemd waits for 90
KEY, PASSWORD, OTHER = "sk-ant-tests-" + 24 * "k", 24 * "p", 24 * "o"


def held() -> list[tuple[str | None, int]]:
    """Leases and tries of stages that have not ended, and of GPU requests without an answer."""
    with closing(sqlite3.connect(embedded.settings().database().removeprefix("sqlite:///"))) as database:
        stages = database.execute("SELECT lease_token, tries FROM stage_attempts WHERE ended_at IS NULL").fetchall()
        asked = database.execute("SELECT lease_token, tries FROM gpu_requests WHERE state IN ('pending', 'running')")
        return [*stages, *asked.fetchall()]


def stop(installation: Installation) -> None:
    serving = installation.serving["service"]
    ours = descendants(serving.pid)
    assert ours
    serving.send_signal(signal.SIGTERM)
    assert serving.wait(MOST_S) == 0
    assert all(is_gone(pid) for pid in ours)


# With three hosts lost a job fails.
@pytest.mark.parametrize(("place", "times"), [("memo_computed", 1), ("runner.verify", 3)])
def test_what_runs_while_the_service_is_stopped_is_given_back_and_counts_as_no_try(
    installation: Installation, place: str, times: int
) -> None:
    issue = ask(installation)
    installation.waits("analyze")
    installation.pause(place)
    installation.approve("analyze")
    for _ in range(times):
        installation.paused(place)
        stop(installation)
        assert held()
        assert {lease for lease, _ in held()} == {None}
        assert {tries for _, tries in held()} == {0}
        installation.start()
        installation.ready()
    installation.paused(place)
    installation.release(place)
    for stage in STAGES[1:]:
        installation.approve(stage)
    assert_one_of_everything(installation, issue)


def test_each_process_holds_the_secrets_that_it_works_with_and_no_others(
    install: Callable[..., Installation],
) -> None:
    more = {"PAGES_PASSWORD": PASSWORD, "ANTHROPIC_API_KEY": KEY, "ANTHROPIC_MODEL": "a-model"}
    installation = install(
        {f"KERNELSMITH_{name}": value for name, value in more.items()}
        | {"OTHERS_TOKEN": OTHER, "NVIDIA_API_KEY": OTHER}
    )
    installation.pause("runner.capture")
    ask(installation)
    runner = installation.paused("runner.capture")
    seen = {pid: environment_of(pid) for pid in descendants(installation.serving["service"].pid)}
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
