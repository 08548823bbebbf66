"""Reviews: who decides, for which commit, and what the words on the lines become."""

from __future__ import annotations

import json
import time

import pytest
from sqlalchemy import update

from deploy.localhub import pulls
from service.report.layout import MessageKind, find_marker
from tests.service.io.conftest import CREATE, Bench
from tests.service.io.stages import broken
from workers import runtime
from workers.contracts import JobState, JobView, StageName
from workers.store.models import StageAttempt


@pytest.fixture
def waiting(bench: Bench) -> JobView:
    """A job that waits at its first checkpoint."""
    bench.say(bench.issue(), CREATE)
    bench.settle()
    job = bench.job()
    assert job.state is JobState.waiting
    return job


def review(bench: Bench, job: JobView, state: str, by: str = "maintainer", **more: object) -> None:
    bench.hub.review(bench.repository, job.pull_number or 0, by, state, **more)  # type: ignore[arg-type]
    bench.settle()


def replies(bench: Bench, job: JobView) -> list[str]:
    found = [(find_marker(entry.body), entry.body) for entry in bench.comments(job.pull_number or 0)]
    return [body for marker, body in found if marker is not None and marker.kind is MessageKind.reply]


def stage(bench: Bench) -> tuple[StageName, int]:
    last = bench.job().stages[-1]
    return last.stage, last.attempt


def test_a_checkpoint_asks_the_commander_and_has_a_check_on_its_commit(bench: Bench, waiting: JobView) -> None:
    pull = bench.hub.issue(bench.repository, waiting.pull_number or 0).pull
    assert pull is not None
    assert pull.draft
    assert list(pull.requested_reviewers) == ["maintainer"]
    (check,) = bench.hub.check_runs(bench.repository)
    assert check.head_sha == waiting.head_sha
    assert check.external_id.startswith(f"{waiting.job_id}/")
    (comment,) = bench.comments(waiting.pull_number or 0)
    assert (waiting.head_sha or "")[:12] in comment.body


def test_an_approval_leads_to_the_next_stage_without_a_reply(bench: Bench, waiting: JobView) -> None:
    review(bench, waiting, "APPROVE")
    assert stage(bench) == (StageName.generate, 1)
    assert replies(bench, waiting) == []


def test_a_review_that_holds_a_secret_decides_nothing_and_is_not_repeated(bench: Bench, waiting: JobView) -> None:
    token = "ghp_" + "a1B2c3D4" * 5
    review(bench, waiting, "APPROVE", body=f"fine, use {token}")
    review(
        bench,
        waiting,
        "REQUEST_CHANGES",
        body="see",
        comments=[{"path": "test/test_reglu.py", "line": 1, "body": token}],
    )
    assert stage(bench) == (StageName.analyze, 1)
    assert bench.job().state is JobState.waiting
    assert len(replies(bench, waiting)) == 2
    assert all(
        "looks like a secret (GitHub token)" in reply and token not in reply for reply in replies(bench, waiting)
    )


def test_requested_changes_repeat_the_stage_with_the_words_and_the_lines(bench: Bench, waiting: JobView) -> None:
    lines = [{"path": "test/test_reglu.py", "line": 1, "body": "use eps here"}]
    review(bench, waiting, "REQUEST_CHANGES", body="name it differently", comments=lines)
    assert stage(bench) == (StageName.analyze, 2)
    text = (bench.hub.read_file(bench.repository, waiting.branch, "test/test_reglu.py") or b"").decode()
    assert "name it differently" in text
    assert "use eps here" in text


def test_a_comment_review_is_no_decision(bench: Bench, waiting: JobView) -> None:
    review(bench, waiting, "COMMENT", body="nice")
    assert stage(bench) == (StageName.analyze, 1)
    assert replies(bench, waiting) == []


def test_commands_in_a_review_are_carried_out(bench: Bench, waiting: JobView) -> None:
    review(bench, waiting, "COMMENT", body="/kernel status")
    assert len(replies(bench, waiting)) == 1


def test_a_review_of_somebody_without_write_permission_is_no_decision(bench: Bench, waiting: JobView) -> None:
    review(bench, waiting, "APPROVE", by="visitor")
    assert stage(bench) == (StageName.analyze, 1)
    (reply,) = replies(bench, waiting)
    assert "decide at a checkpoint" in reply


def test_a_review_of_an_old_commit_decides_nothing(bench: Bench, waiting: JobView) -> None:
    review(bench, waiting, "REQUEST_CHANGES", body="again")
    assert stage(bench) == (StageName.analyze, 2)
    review(bench, waiting, "APPROVE", commit_id=waiting.head_sha)
    assert stage(bench) == (StageName.analyze, 2)
    (reply,) = replies(bench, waiting)
    assert f"/kernel approve {(bench.job().head_sha or '')[:12]}" in reply


def test_a_second_approval_of_the_same_commit_does_not_approve_the_next_stage(bench: Bench, waiting: JobView) -> None:
    for _ in range(2):
        review(bench, waiting, "APPROVE")
    assert stage(bench) == (StageName.validate, 1)
    job = bench.job()
    assert job.head_sha == next(c.head_sha for c in bench.hub.check_runs(bench.repository)[::-1])
    # The last stage made no commit of its own, so both checkpoints stand on one. This approval was given before it began.
    bench.hub.review(bench.repository, job.pull_number or 0, "second", "APPROVE")
    (delivery,) = bench.hub.deliveries.waiting()
    payload = json.loads(delivery.payload)
    payload["review"]["submitted_at"] = "2020-01-01T00:00:00Z"
    delivery.payload = json.dumps(payload)
    bench.settle()
    assert bench.job().state is JobState.waiting


def test_an_approval_counts_of_a_stage_that_began_before_the_clock_was_put_back(bench: Bench, waiting: JobView) -> None:
    with runtime.current().database.write() as session:
        ahead = {"started_at": time.time() + 7200, "ended_at": time.time() + 7201}
        session.execute(update(StageAttempt).values(**ahead))
    review(bench, waiting, "APPROVE")
    assert stage(bench) == (StageName.generate, 1)


def test_an_approval_can_be_a_command_where_github_refuses_a_review(bench: Bench, waiting: JobView) -> None:
    bench.say(waiting.pull_number or 0, f"/kernel approve {(waiting.head_sha or '')[:8]}")
    bench.settle()
    assert stage(bench) == (StageName.generate, 1)
    (reply,) = replies(bench, waiting)
    assert reply.startswith("Approved")


def test_an_approval_by_command_of_an_old_commit_is_answered(bench: Bench, waiting: JobView) -> None:
    bench.say(waiting.pull_number or 0, "/kernel approve 0123456789")
    bench.settle()
    assert stage(bench) == (StageName.analyze, 1)
    (reply,) = replies(bench, waiting)
    assert "Nothing was decided" in reply


def test_words_of_a_revise_command_reach_the_stage(bench: Bench, waiting: JobView) -> None:
    bench.say(waiting.request.origin.number, "/kernel revise use another name")
    bench.settle()
    text = (bench.hub.read_file(bench.repository, waiting.branch, "test/test_reglu.py") or b"").decode()
    assert "use another name" in text


def test_a_review_of_a_pull_request_that_is_not_the_bots_is_left_alone(bench: Bench) -> None:
    bench.hub.push(bench.repository, "topic", "second", {"x.txt": "x\n"})
    number = bench.hub.open_pull(bench.repository, "second", "topic", "A change").number
    bench.hub.review(bench.repository, number, "maintainer", "APPROVE")
    bench.handle()
    assert bench.comments(number) == []


def test_a_review_of_a_finished_job_is_left_alone(bench: Bench, waiting: JobView) -> None:
    for _ in range(4):
        review(bench, waiting, "APPROVE")
    assert bench.job().state is JobState.done
    assert replies(bench, waiting) == []


def test_the_rerun_button_retries_a_job_that_stopped(bench: Bench, waiting: JobView) -> None:
    bench.analyze.fails.append(broken())
    review(bench, waiting, "REQUEST_CHANGES", body="again")
    assert bench.job().state is JobState.failed
    failed = bench.hub.check_runs(bench.repository)[-1]
    assert failed.conclusion == "failure"
    bench.hub.rerequest_check(bench.repository, failed.id, "visitor")
    bench.settle()
    assert bench.job().state is JobState.failed
    bench.hub.rerequest_check(bench.repository, failed.id, "maintainer")
    bench.settle()
    assert bench.job().state is JobState.waiting


def on_line(bench: Bench, job: JobView, body: str, to: int | None = None, by: str = "maintainer") -> int:
    """Comment on the first line of the test file, or reply to a comment there; give its id."""
    with bench.hub.world.lock:
        world, repository = bench.hub.world, bench.hub.world.repository(bench.repository)
        issue, actor = world.issue(repository, job.pull_number or 0), world.actor(by)
        if to is None:
            given = {"path": "test/test_reglu.py", "line": 1, "body": body}
            note = pulls.note_on_line(world, repository, issue, actor, given)
        else:
            note = pulls.reply(world, repository, issue, pulls.find_note(repository, to)[1], actor, body)
    bench.settle()
    return note.id


def test_a_command_on_a_line_is_answered(bench: Bench, waiting: JobView) -> None:
    first = on_line(bench, waiting, "Which one is this?\n/kernel status")
    assert len(replies(bench, waiting)) == 1
    assert waiting.job_id in replies(bench, waiting)[0]
    on_line(bench, waiting, "/kernel stat", to=first)
    assert "Did you mean" in replies(bench, waiting)[1]
    on_line(bench, waiting, "no command", to=first)
    assert len(replies(bench, waiting)) == 2


def test_a_decision_on_a_line_counts_in_a_reply_alone(bench: Bench, waiting: JobView) -> None:
    approval = f"/kernel approve {(waiting.head_sha or '')[:12]}"
    first = on_line(bench, waiting, approval)
    assert stage(bench) == (StageName.analyze, 1)
    on_line(bench, waiting, approval, to=first)
    assert stage(bench) == (StageName.generate, 1)


def test_who_may_not_command_may_not_on_a_line(bench: Bench, waiting: JobView) -> None:
    bench.hub.add_user("stranger")
    on_line(bench, waiting, "/kernel cancel", by="stranger")
    assert bench.job().state is JobState.waiting
    assert len(replies(bench, waiting)) == 1
