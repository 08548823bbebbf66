"""The status comment in every state of a job."""

# ruff: noqa: E501 (messages stand here as they are sent)
from __future__ import annotations

from dataclasses import replace

import pytest
from inline_snapshot import snapshot

from service.report.layout import find_marker
from service.report.status import RETRY, status_comment
from tests.service.report.facts import DONE, LINKS, STOPPED, WAITING, attempt, job
from workers.contracts import Failure, FailureCode, JobOptions, JobState, StageName, StageState, TimelineEvent


def test_a_queued_job_says_its_place_and_the_wait() -> None:
    queued = job(JobState.queued, queue_position=3, expected_wait_s=200.0)
    assert status_comment(queued, LINKS) == snapshot("""\
**`reglu` is queued.**

**Now:** number 3 in the queue, expected to start in about 3 minutes.

- ⬜ **analyze**: find and trace the problem, write the kernel profile
- ⬜ **generate**: write the kernel and prove it against the reference
- ⬜ **validate**: run the library's own checks and tests, benchmark, write the report

<sub>Job [`j7k2`](https://bot.example/jobs/j7k2) · [asked](https://github.com/octo-org/library/issues/12#issuecomment-34) for by `octocat`</sub>

<!-- kernelsmith:job=j7k2 kind=status -->\
""")


def test_a_running_job_says_what_runs_now() -> None:
    running = job(
        JobState.running,
        attempt(StageName.analyze, StageState.done),
        attempt(StageName.generate, StageState.revised),
        attempt(StageName.generate, StageState.running, 2, note="proving on 24 workloads"),
        head_sha="1" * 40,
        pull_number=13,
    )
    assert status_comment(running, LINKS) == snapshot("""\
**`reglu` is in generate.**

**Now:** proving on 24 workloads.

- ✅ **analyze**: find and trace the problem, write the kernel profile
- ⏳ **generate** (2 attempts): proving on 24 workloads
- ⬜ **validate**: run the library's own checks and tests, benchmark, write the report

<sub>Job [`j7k2`](https://bot.example/jobs/j7k2) · [asked](https://github.com/octo-org/library/issues/12#issuecomment-34) for by `octocat` · [pull request 13](https://github.com/octo-org/library/pull/13)</sub>

<!-- kernelsmith:job=j7k2 kind=status -->\
""")


@pytest.mark.parametrize(
    ("lost", "said"),
    [
        (True, "the GPU host that worked on this was lost, and no other has taken it since 2026-01-02 03:04 UTC."),
        (False, "no GPU host has taken it since 2026-01-02 03:04 UTC."),
    ],
)
def test_a_job_that_waits_for_a_gpu_host_says_so_and_what_to_do(lost: bool, said: str) -> None:
    runs = attempt(StageName.generate, StageState.running, note="proving on 24 workloads")
    waiting = job(
        JobState.running, runs, queue_position=1, no_host_since="2026-01-02T03:04:05.678+00:00", host_lost=lost
    )
    line = next(line for line in status_comment(waiting, LINKS).splitlines() if line.startswith("**Now:**"))
    assert line.startswith(f"**Now:** {said}")
    for fix in ("`kernelsmith work --only gpu` on a GPU host", "`/readyz`", "`/kernel cancel`"):
        assert fix in line
    named = replace(waiting, request=replace(waiting.request, options=JobOptions(gpu="sm_90")))
    assert "on a host of `sm_90`" in status_comment(named, LINKS)


def test_a_job_whose_gpu_host_is_unusable_says_which_and_why() -> None:
    runs = attempt(StageName.generate, StageState.running)
    since = "2026-01-02T03:04:05.678+00:00"
    waiting = job(JobState.running, runs, no_host_since=since, host_trouble="gpu-1/7: the disk is full")
    line = next(line for line in status_comment(waiting, LINKS).splitlines() if line.startswith("**Now:**"))
    assert "since 2026-01-02 03:04 UTC, and one declined it, `gpu-1/7: the disk is full`. Finished work is kept" in line
    assert "`/kernel cancel` ends it" in line


@pytest.mark.parametrize("times", [0, 1, 2, 3, 12])
def test_a_job_that_lost_its_hosts_again_and_again_says_how_often_and_what_to_do(times: int) -> None:
    runs = attempt(StageName.generate, StageState.running, note="proving on 24 workloads")
    text = status_comment(job(JobState.running, runs, losses=times), LINKS)
    assert "proving on 24 workloads" in text
    told = f"The host that worked on this was lost {times} times. Finished work is kept, and the rest is retried"
    assert (told in text) == (times >= 3)
    assert ("`/kernel cancel` ends it" in text) == (times >= 3)


def test_a_waiting_job_says_who_acts_next() -> None:
    assert status_comment(WAITING, LINKS) == snapshot("""\
**`reglu`: analyze is done and waits for your review** on [pull request 13](https://github.com/octo-org/library/pull/13).

**Next:** approve or request changes on commit `1f2e3d4c5b6a`; the checkpoint's comment says what each does.

- 👀 **analyze**: find and trace the problem, write the kernel profile
- ⬜ **generate**: write the kernel and prove it against the reference
- ⬜ **validate**: run the library's own checks and tests, benchmark, write the report

<sub>Job [`j7k2`](https://bot.example/jobs/j7k2) · [asked](https://github.com/octo-org/library/issues/12#issuecomment-34) for by `octocat` · [pull request 13](https://github.com/octo-org/library/pull/13)</sub>

<!-- kernelsmith:job=j7k2 kind=status -->\
""")


def test_a_stopped_job_says_why_and_what_retry_does() -> None:
    assert status_comment(STOPPED, LINKS) == snapshot("""\
**`reglu` stopped in validate:** the library's tests still fail after 3 attempts.

**Next:** Look at the first failing test. `/kernel retry` runs validate again, with a new set of attempts.

- ✅ **analyze**: find and trace the problem, write the kernel profile
- ✅ **generate**: write the kernel and prove it against the reference
- ❌ **validate**: the library's tests still fail after 3 attempts

What was tried:

- attempt 1: 2 failed
- attempt 2: 1 failed

<details><summary>Log</summary>

```text
E   AssertionError: 0.5 != 0.25
```

</details>

<sub>Job [`j7k2`](https://bot.example/jobs/j7k2) · [asked](https://github.com/octo-org/library/issues/12#issuecomment-34) for by `octocat` · [pull request 13](https://github.com/octo-org/library/pull/13)</sub>

<!-- kernelsmith:job=j7k2 kind=status -->\
""")


def test_a_finished_job_points_to_its_pull_request() -> None:
    assert status_comment(DONE, LINKS) == snapshot("""\
**`reglu` is done**: see [pull request 13](https://github.com/octo-org/library/pull/13).

**Next:** merge it when you are satisfied. The bot never merges.

- ✅ **analyze**: find and trace the problem, write the kernel profile
- ✅ **generate**: write the kernel and prove it against the reference
- ✅ **validate**: run the library's own checks and tests, benchmark, write the report

<sub>Job [`j7k2`](https://bot.example/jobs/j7k2) · [asked](https://github.com/octo-org/library/issues/12#issuecomment-34) for by `octocat` · [pull request 13](https://github.com/octo-org/library/pull/13)</sub>

<!-- kernelsmith:job=j7k2 kind=status -->\
""")


def test_a_cancelled_job_says_what_it_leaves() -> None:
    cancelled = job(JobState.cancelled, attempt(StageName.analyze, StageState.cancelled))
    retried = (TimelineEvent("2026-01-02T03:04:05.678+00:00", "retried", "retried by octocat"),)
    for pushed in ({"head_sha": "1" * 40}, {"timeline": retried}):
        assert "nothing; what was pushed stays." in status_comment(replace(cancelled, **pushed), LINKS)
    assert status_comment(cancelled, LINKS) == snapshot("""\
**`reglu` was cancelled.**

**Next:** nothing; nothing was pushed. `/kernel retry` resumes it, a new `/kernel create` starts over.

- ⏹️ **analyze**: find and trace the problem, write the kernel profile
- ⬜ **generate**: write the kernel and prove it against the reference
- ⬜ **validate**: run the library's own checks and tests, benchmark, write the report

<sub>Job [`j7k2`](https://bot.example/jobs/j7k2) · [asked](https://github.com/octo-org/library/issues/12#issuecomment-34) for by `octocat`</sub>

<!-- kernelsmith:job=j7k2 kind=status -->\
""")


@pytest.mark.parametrize("state", list(JobState))
def test_every_state_has_a_comment_that_is_found_again(state: JobState) -> None:
    for stages in ((), (attempt(StageName.analyze, StageState.running),)):
        found = find_marker(status_comment(job(state, *stages), LINKS))
        assert found is not None
        assert found.job_id == "j7k2"


@pytest.mark.parametrize("code", list(FailureCode))
def test_every_failure_says_what_a_retry_will_do(code: FailureCode) -> None:
    failure = Failure(code, "it does not work")
    text = status_comment(replace(STOPPED, failure=failure), LINKS)
    assert "/kernel" in RETRY[code]
    assert "{stage}" not in text
    assert "**Next:**" in text


def test_the_first_lines_are_the_verdict_and_the_next_action() -> None:
    for view in (STOPPED, DONE, WAITING):
        first, second = [line for line in status_comment(view, LINKS).split("\n") if line][:2]
        assert "reglu" in first
        assert second.startswith("**Next:**")
