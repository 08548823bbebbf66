"""The kinds of fault, each of them something that happens to a running installation; False where it found nothing to strike."""

from __future__ import annotations

import contextlib
import os
import random
import resource
import signal
import sqlite3
import time
from collections.abc import Callable
from pathlib import Path

from redis import Redis
from redis.exceptions import RedisError

from tests.faults import clock
from tests.faults.installation import Installation
from tests.faults.processes import descendants, is_gone, parent_of, until
from workers import embedded
from workers.broker import socket_path

# Longer than a lease, so that work is taken over by others meanwhile.
LOCKED_S = 3.0
FULL_S = 3.0
ROOM_BYTES = 1024  # less than a page of the database, and than any artifact of a job
JUMPS_S = (-86_400.0, -7200.0, 7200.0, 86_400.0)  # back, and forward
JUMPED_S = 3.0
LOOK_S = 1.0

OPERATIONS = (
    *(
        "create_issue_comment",
        "update_issue_comment",
        "list_issue_comments",
        "create_comment_reaction",
        "minimize_comment",
    ),
    *("create_blob", "create_tree", "create_git_commit", "create_ref", "update_ref", "get_archive", "get_repo"),
    *("create_pull", "update_pull", "mark_ready_for_review", "create_check_run", "list_check_runs"),
)

Strike = Callable[[Installation, random.Random], bool]


def kill_service(installation: Installation, _chance: random.Random) -> bool:
    installation.kill_service()
    return True


def stop_service(installation: Installation, _chance: random.Random) -> bool:
    """A planned restart, as systemd does it."""
    serving = installation.serving["service"]
    ours = descendants(serving.pid)
    serving.send_signal(signal.SIGTERM)
    serving.wait(60)
    until(lambda: all(is_gone(pid) for pid in ours), "the workers to end with the service", installation.story)
    installation.start()
    return True


def _kill(words: str, *, pool: bool = False) -> Strike:
    """Kill a process by its command line: the one that the service started, or one of its pool."""

    def strike(installation: Installation, chance: random.Random) -> bool:
        deadline = time.monotonic() + LOOK_S
        while time.monotonic() < deadline:
            top = installation.serving["service"].pid
            found = []
            for pid in descendants(top):
                with contextlib.suppress(OSError):
                    command = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                    is_pool = parent_of(pid) != top
                    if words in command and (pool == is_pool or "runner.py" in words):
                        found.append(pid)
            if found:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(chance.choice(sorted(found)), signal.SIGKILL)
                    return True
            time.sleep(0.02)
        return False

    return strike


def flush_redis(installation: Installation, _chance: random.Random) -> bool:
    with (
        contextlib.suppress(RedisError, OSError),
        Redis(unix_socket_path=str(socket_path(installation.folder / "state"))) as client,
    ):
        return bool(client.flushall())
    return False


def lock_database(_installation: Installation, _chance: random.Random) -> bool:
    path = embedded.settings().database().removeprefix("sqlite:///")
    with contextlib.closing(sqlite3.connect(path, timeout=30, isolation_level=None)) as database:
        database.execute("BEGIN IMMEDIATE")
        time.sleep(LOCKED_S)
        database.execute("ROLLBACK")
    return True


def fill_disk(installation: Installation, _chance: random.Random) -> bool:
    """No process can write a file beyond a kibibyte for a while; those that are started meanwhile cannot either."""
    limited: set[int] = set()
    try:
        _limit(installation, ROOM_BYTES, limited)
        time.sleep(FULL_S)
    finally:
        # A process that was started meanwhile inherited the limit, and may start others before it is lifted there.
        for _ in range(3):
            _limit(installation, resource.RLIM_INFINITY, limited)
            time.sleep(0.05)
    return bool(limited)


def _limit(installation: Installation, most_bytes: int, limited: set[int]) -> None:
    top = installation.serving["service"].pid
    for pid in (top, *descendants(top)):
        with contextlib.suppress(ProcessLookupError):
            _, hard = resource.prlimit(pid, resource.RLIMIT_FSIZE)
            resource.prlimit(pid, resource.RLIMIT_FSIZE, (most_bytes, hard))
            limited.add(pid)


def jump_clock(installation: Installation, chance: random.Random) -> bool:
    clock.put(installation.desk, chance.choice(JUMPS_S))
    time.sleep(JUMPED_S)
    clock.put(installation.desk, 0.0)
    return True


def spoil_github(installation: Installation, chance: random.Random) -> bool:
    faults, operation = installation.hub.faults, chance.choice(OPERATIONS)
    strikes: tuple[Callable[[], None], ...] = (
        lambda: faults.fail_next(operation, 502, chance.randint(1, 3)),
        lambda: faults.missing_then_found(operation),
        lambda: faults.drop_response_next(operation),
        lambda: faults.drop_response_next(operation, how="disconnect"),
        lambda: faults.rate_limit_next(operation, "secondary", retry_after=1),
        lambda: faults.rate_limit_next(operation, "primary", retry_after=1),
    )
    chance.choice(strikes)()
    return True


def refuse_token(installation: Installation, chance: random.Random) -> bool:
    """Every token given so far is refused; and in half of the cases the App's next ones too, for a request or a few."""
    installation.hub.revoke_installation_tokens()
    if chance.random() < 0.5:
        operation = chance.choice((*OPERATIONS, "create_installation_token"))
        installation.hub.faults.fail_next(operation, 401, chance.randint(1, 3), body={"message": "Bad credentials"})
    return True


# By name, with how often each is chosen: most of them are kills, and what stops everything for seconds is rarer.
KINDS: dict[str, tuple[Strike, int]] = {
    "kill: service and all workers": (kill_service, 2),
    "kill: worker of stages": (_kill("stages@"), 6),
    "kill: process of a stage": (_kill("stages@", pool=True), 10),
    "kill: worker of the GPU": (_kill("gpu@"), 6),
    "kill: process of a GPU request": (_kill("gpu@", pool=True), 10),
    "kill: runner": (_kill("recorded/runner.py"), 10),
    "kill: Redis": (_kill("redis"), 6),
    "SIGTERM and start": (stop_service, 1),
    "FLUSHALL": (flush_redis, 3),
    "GitHub fails": (spoil_github, 8),
    "GitHub refuses the token": (refuse_token, 4),
    "database locked": (lock_database, 1),
    "disk full": (fill_disk, 1),
    "clock jumps": (jump_clock, 1),
}
