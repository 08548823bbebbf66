"""The way of a create command, from the comment to the pull request that is ready."""

from __future__ import annotations

from tests.service.io.conftest import CREATE, Bench
from workers.contracts import JobState


def test_a_command_becomes_a_job_with_a_status_comment_and_eyes(bench: Bench) -> None:
    number = bench.issue()
    comment = bench.say(number, CREATE)
    assert bench.handle() >= 1
    assert [job.request.kernel for job in bench.jobs()] == ["reglu"]
    assert bench.reactions(number, comment) == ("eyes by smith[bot]",)
    assert bench.publish() == 1
    (status,) = bench.comments(number)
    assert "reglu" in status.body


def test_three_approvals_lead_to_a_pull_request_that_is_ready(bench: Bench) -> None:
    number = bench.issue()
    bench.say(number, CREATE)
    bench.settle()
    job = bench.job()
    assert job.state is JobState.waiting
    pull = job.pull_number
    assert pull is not None
    for _ in range(3):
        job = bench.job()
        assert bench.hub.head(bench.repository, job.branch) == job.head_sha
        bench.hub.review(bench.repository, pull, "maintainer", "APPROVE")
        bench.settle()
    assert bench.job().state is JobState.done
    opened = bench.hub.issue(bench.repository, pull).pull
    assert opened is not None
    assert not opened.draft
    assert bench.hub.read_file(bench.repository, job.branch, "ops/reglu.py") == b"KERNEL = 1\r\n"
    assert len(bench.comments(number)) == 1
    assert len(bench.comments(pull)) == 3
    assert [entry.minimized for entry in bench.comments(pull)] == ["outdated", "outdated", None]
