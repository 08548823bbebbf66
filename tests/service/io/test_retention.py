"""What GitHub says of pull requests decides how long a job's files are kept, and a job without them starts over."""

from __future__ import annotations

import math

import pytest

from tests.service.io.conftest import CREATE, Bench
from workers import embedded, inbox, runtime, upkeep
from workers.contracts import JobState
from workers.store import retention

LONG_S = 91 * 86_400.0


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    # The files of the store have the system's time, which no test moves.
    monkeypatch.setattr(upkeep, "YOUNG_S", 0.0)
    monkeypatch.setattr(retention, "MOST_S", math.inf)  # months without a pass in between


def cancelled(bench: Bench) -> int:
    """Have a job cancelled that has a pull request, and give the issue's number."""
    number = bench.issue()
    bench.say(number, CREATE)
    bench.persist()
    bench.say(number, "/kernel cancel")
    bench.persist()
    assert bench.job().state is JobState.cancelled
    assert bench.job().pull_number is not None
    return number


def test_a_job_keeps_its_files_while_its_pull_request_is_open_and_gives_them_up_long_after_it_was_closed(
    bench: Bench,
) -> None:
    cancelled(bench)
    pull = bench.job().pull_number or 0
    bench.later(LONG_S)
    assert embedded.collect().jobs == ()
    bench.hub.set_issue_state(bench.repository, pull, "maintainer", "closed")
    bench.handle()
    bench.later(LONG_S)
    bench.hub.set_issue_state(bench.repository, pull, "maintainer", "open")
    bench.handle()
    assert embedded.collect().jobs == ()
    bench.hub.set_issue_state(bench.repository, pull, "maintainer", "closed")
    bench.handle()
    assert embedded.collect().jobs == ()
    bench.later(LONG_S)
    assert embedded.collect().jobs == (bench.job().job_id,)
    assert bench.job().artifacts_removed


def test_retry_of_a_job_whose_files_were_removed_starts_over(bench: Bench) -> None:
    number = cancelled(bench)
    inbox.pull_closed(bench.repository, bench.job().pull_number or 0, closed=True)
    before = bench.job().request.snapshot
    bench.later(LONG_S)
    assert embedded.collect().artifacts > 0
    bench.say(number, "/kernel retry")
    bench.persist()
    assert bench.job().state is JobState.waiting
    assert "starts over" in bench.comments(number)[-1].body
    assert runtime.current().blobs.get(before)
