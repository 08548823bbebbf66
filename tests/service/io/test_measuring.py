"""Bench and verify: bound to commits when they are asked for, run for those who may, and nothing is pushed."""

from __future__ import annotations

from service.report.layout import MessageKind, find_marker
from tests.service.io.conftest import Bench
from tests.service.io.standing_stages import Measure
from workers.contracts import JobState, Verb

FASTER = b"def geglu(a, b):\n    return b * a\n"


def replies(bench: Bench, number: int, kind: MessageKind = MessageKind.reply) -> list[str]:
    found = [(find_marker(entry.body), entry.body) for entry in bench.comments(number)]
    return [body for marker, body in found if marker is not None and marker.kind is kind]


def head(bench: Bench, branch: str = "main") -> str:
    return bench.hub.branches(bench.repository)[branch]


def pull(bench: Bench, branch: str = "faster") -> int:
    base = head(bench)
    bench.hub.push(bench.repository, branch, "maintainer", {"kernels/geglu.py": FASTER})
    assert head(bench) == base
    return bench.hub.open_pull(bench.repository, "maintainer", branch, "Faster").number


def fork(bench: Bench) -> int:
    bench.hub.add_user("contributor")
    bench.hub.fork(bench.repository, "contributor")
    push_to_fork(bench, "one")
    return bench.hub.open_pull(bench.repository, "contributor", "contributor:mine", "Mine").number


def push_to_fork(bench: Bench, text: str) -> str:
    name = bench.repository.split("/")[1]
    change = {"kernels/geglu.py": f"# {text}\n"}
    return bench.hub.push(f"contributor/{name}", "mine", "contributor", change, text)


def say(bench: Bench, number: int, body: str, by: str = "maintainer") -> None:
    bench.later(10)
    bench.say(number, body, by)
    bench.settle()


def test_the_head_is_compared_with_the_merge_base_and_nothing_is_pushed(bench: Bench) -> None:
    merge_base = head(bench)
    number = pull(bench)
    bench.hub.push(bench.repository, "main", "maintainer", {"README.md": "# new\n"})
    before = dict(bench.hub.branches(bench.repository))
    say(bench, number, "/kernel bench")
    job = bench.job()
    assert (job.request.verb, job.request.kernel, job.request.kernels) == (Verb.bench, f"pull-{number}", ())
    assert (job.request.base_sha, job.request.head_sha) == (merge_base, before["faster"])
    assert job.request.snapshot != job.request.head_snapshot
    assert job.state is JobState.done
    assert dict(bench.hub.branches(bench.repository)) == before
    (report,) = replies(bench, number, MessageKind.report)
    assert "**Compared with the merge base with main:**" in report
    (check,) = bench.hub.check_runs(bench.repository)
    assert (check.head_sha, check.conclusion) == (before["faster"], "neutral")


def test_the_same_command_again_is_a_new_job(bench: Bench) -> None:
    number = pull(bench)
    say(bench, number, "/kernel bench geglu")
    say(bench, number, "/kernel bench geglu")
    assert [job.request.kernels for job in bench.jobs()] == [("geglu",), ("geglu",)]


def test_a_delivery_that_comes_twice_is_one_job(bench: Bench) -> None:
    bench.twice = True
    say(bench, pull(bench), "/kernel verify geglu, swiglu")
    assert bench.job().request.kernel == "geglu,swiglu"


def test_another_branch_can_be_compared_with(bench: Bench) -> None:
    number = pull(bench)
    bench.hub.push(bench.repository, "main", "maintainer", {"README.md": "# new\n"})
    say(bench, number, "/kernel bench --against main")
    assert bench.job().request.base_sha == head(bench)


def test_on_an_issue_the_default_branch_is_compared_with_a_reference(bench: Bench) -> None:
    old = head(bench)
    bench.hub.push(bench.repository, "main", "maintainer", {"README.md": "# new\n"})
    number = bench.issue()
    say(bench, number, f"/kernel bench geglu --against {old[:12]}")
    request = bench.job().request
    assert (request.base_sha, request.head_sha) == (old, head(bench))
    assert not bench.hub.check_runs(bench.repository)


def test_what_cannot_be_compared_gets_one_reply_and_leaves_nothing(bench: Bench) -> None:
    number = bench.issue()
    for body, expected in (
        ("/kernel bench", "--against v1.2.0`"),
        ("/kernel verify", "Give it on the pull request"),
        ("/kernel bench --against nowhere", "cannot be compared"),
        ("/kernel bench --against main", "nothing to compare"),
    ):
        say(bench, number, body)
        assert expected in replies(bench, number)[-1], body
    assert bench.jobs() == ()


def test_a_forks_code_runs_when_a_maintainer_asks(bench: Bench) -> None:
    number = fork(bench)
    say(bench, number, "/kernel bench")
    job = bench.job()
    assert job.state is JobState.done
    assert job.request.head_snapshot is not None


def test_a_forks_code_runs_for_nobody_else(bench: Bench) -> None:
    allowed = {".github/kernelsmith.toml": 'allow = ["visitor"]\n'}
    bench.hub.push(bench.repository, "main", "maintainer", allowed)
    number = fork(bench)
    for by in ("visitor", "contributor"):
        say(bench, number, "/kernel bench", by)
    told = replies(bench, number)
    assert "a fork's code runs only when somebody with write permission" in told[0]
    assert "commands need write permission" in told[1]
    own = pull(bench)
    say(bench, own, f"/kernel bench --against {head(bench)}", "visitor")
    assert "may be a commit of a fork" in replies(bench, own)[-1]
    assert bench.jobs() == ()
    say(bench, own, "/kernel bench", "visitor")
    assert bench.job().state is JobState.done


def test_a_fork_that_was_pushed_to_after_the_command_is_not_run(bench: Bench) -> None:
    number = fork(bench)
    bench.later(10)
    bench.say(number, "/kernel bench")
    bench.later(10)
    push_to_fork(bench, "evil")
    bench.settle()
    assert "moved" in replies(bench, number)[-1]
    assert bench.jobs() == ()


def test_a_command_in_a_review_is_for_the_commit_that_was_reviewed(bench: Bench) -> None:
    number = pull(bench)
    seen = head(bench, "faster")
    bench.hub.push(bench.repository, "faster", "maintainer", {"README.md": "# more\n"})
    bench.hub.review(bench.repository, number, "second", "COMMENT", "/kernel bench", commit_id=seen)
    bench.settle()
    assert f"moved from `{seen[:12]}`" in replies(bench, number)[-1]
    assert bench.jobs() == ()


def test_the_report_says_that_the_pull_request_moved_meanwhile(bench: Bench, measure: Measure) -> None:
    number = pull(bench)
    seen = head(bench, "faster")
    measure.before.append(lambda: bench.hub.push(bench.repository, "faster", "maintainer", {"README.md": "# more\n"}))
    say(bench, number, "/kernel bench")
    (report,) = replies(bench, number, MessageKind.report)
    assert "**The pull request has changed:**" in report
    assert seen[:12] in report and head(bench, "faster")[:12] in report


def test_a_retry_compares_the_same_commits(bench: Bench, measure: Measure) -> None:
    number = pull(bench)
    bench.later(10)
    bench.say(number, "/kernel bench")
    bench.handle()
    before = bench.job().request
    bench.say(number, "/kernel cancel")
    bench.settle()
    bench.hub.push(bench.repository, "main", "maintainer", {"README.md": "# new\n"})
    say(bench, number, "/kernel retry")
    job = bench.job()
    assert (job.request.base_sha, job.request.head_sha) == (before.base_sha, before.head_sha)
    assert job.state is JobState.done
