"""Optimize: decided where it was asked for until there is a pull request, then there."""

from __future__ import annotations

import pytest

from service.report.layout import MessageKind, find_marker
from tests.service.io.conftest import Bench
from workers import inbox
from workers.contracts import Failure, FailureCode, Goal, JobState, ProblemKind, StageName, Verb

OPTIMIZE = '/kernel optimize geglu --goal speed --variants 3 --target "forward < 1 ms"'


@pytest.fixture(autouse=True)
def nothing_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inbox, "look_over_optimize", lambda kernel, *_: kernel)


def kinds(bench: Bench, number: int) -> list[str]:
    found = [find_marker(entry.body) for entry in bench.comments(number)]
    return [marker.kind.value for marker in found if marker is not None]


def last(bench: Bench, number: int, kind: MessageKind) -> str:
    found = [(find_marker(entry.body), entry.body) for entry in bench.comments(number)]
    return [body for marker, body in found if marker is not None and marker.kind is kind][-1]


def asked(bench: Bench, body: str = OPTIMIZE) -> int:
    number = bench.issue()
    bench.say(number, body)
    bench.settle()
    return number


def approve(bench: Bench, number: int, by: str = "maintainer") -> None:
    bench.later(10)
    checkpoint = bench.job().checkpoint
    assert checkpoint is not None
    bench.say(number, f"/kernel approve {(checkpoint.sha or '')[:12]}", by)
    bench.settle()


def test_a_command_becomes_a_job_with_its_options(bench: Bench) -> None:
    asked(bench)
    request = bench.job().request
    assert (request.verb, request.kernel, request.problem.kind) == (Verb.optimize, "geglu", ProblemKind.missing)
    options = request.options
    assert (options.goal, options.variants, options.target) == (Goal.speed, 3, "forward < 1 ms")


def test_the_first_checkpoints_are_decided_where_the_command_was_given(bench: Bench) -> None:
    number = asked(bench)
    job = bench.job()
    assert job.state is JobState.waiting
    assert (job.pull_number, job.head_sha) == (None, None)
    assert job.checkpoint is not None and job.checkpoint.sha == job.request.base_sha
    body = last(bench, number, MessageKind.checkpoint)
    assert f"/kernel approve {job.request.base_sha[:12]}" in body
    assert "today.png" not in body
    assert not bench.hub.check_runs(bench.repository)
    approve(bench, number)
    assert bench.job().stages[-1].stage is StageName.optimize
    approve(bench, number)
    job = bench.job()
    assert job.stages[-1].stage is StageName.finalize
    assert job.pull_number is not None
    assert "kernels/geglu.py" in bench.hub.as_patch(bench.repository, job.pull_number)
    assert kinds(bench, job.pull_number) == ["checkpoint"]
    bench.later(10)
    bench.hub.review(bench.repository, job.pull_number, "maintainer", "APPROVE")
    bench.settle()
    assert bench.job().state is JobState.done


def test_one_approval_decides_one_checkpoint_though_both_name_the_same_commit(bench: Bench) -> None:
    number = asked(bench)
    sha = bench.job().request.base_sha[:12]
    bench.say(number, f"/kernel approve {sha}")
    bench.say(number, f"/kernel approve {sha}")
    bench.settle()
    assert bench.job().stages[-1].stage is StageName.optimize
    assert bench.job().state is JobState.waiting


def test_words_repeat_the_stage(bench: Bench) -> None:
    number = asked(bench)
    approve(bench, number)
    bench.later(10)
    bench.say(number, "/kernel revise use v3")
    bench.settle()
    assert (bench.job().stages[-1].stage, bench.job().stages[-1].attempt) == (StageName.optimize, 2)


def test_nobody_without_write_permission_decides(bench: Bench) -> None:
    number = asked(bench)
    approve(bench, number, by="visitor")
    assert bench.job().stages[-1].stage is StageName.profile


def test_the_kernel_is_worked_on_by_one_job_at_a_time(bench: Bench) -> None:
    asked(bench)
    number = asked(bench)
    assert len(bench.jobs()) == 1
    assert "already" in last(bench, number, MessageKind.reply)


def test_all_that_is_missing_is_named_at_once_and_nothing_is_left(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    failure = Failure(FailureCode.missing, "there is no test file; there is no benchmark script", "Add both.")
    monkeypatch.setattr(inbox, "look_over_optimize", lambda *_: failure)
    number = asked(bench)
    assert "here is no test file; there is no benchmark script" in last(bench, number, MessageKind.reply)
    assert bench.jobs() == ()


def test_a_cancelled_job_goes_on_by_retry(bench: Bench) -> None:
    number = asked(bench)
    bench.say(number, "/kernel cancel")
    bench.settle()
    assert bench.job().state is JobState.cancelled
    assert "`/kernel retry` resumes" in last(bench, number, MessageKind.report)
    bench.say(number, "/kernel retry")
    bench.settle()
    assert bench.job().state is JobState.waiting


def test_with_auto_nobody_is_asked_until_the_pull_request_stands(bench: Bench) -> None:
    number = asked(bench, "/kernel optimize geglu --auto")
    job = bench.job()
    assert job.state is JobState.done
    assert job.pull_number is not None
    assert "checkpoint" in kinds(bench, number)


def test_a_dry_run_says_what_would_be_done_and_starts_nothing(bench: Bench) -> None:
    before = dict(bench.hub.branches(bench.repository))
    number = asked(bench, "/kernel optimize geglu --variants 3 --dry-run")
    told = last(bench, number, MessageKind.reply)
    assert "**Nothing was started.**" in told
    assert f"commit `{before['main'][:12]}`" in told
    assert "a pull request onto `main`" in told
    assert "at most 11 GPU minutes" in told
    assert "Language models: none is used." in told
    assert bench.jobs() == ()
    assert dict(bench.hub.branches(bench.repository)) == before


MODEL = "```python\nimport torch\n\n\nclass Model(torch.nn.Module):\n    def forward(self, x):\n        return x\n\n\n"
MODEL += "def get_inputs():\n    return [torch.rand(4, 4)]\n\n\ndef get_init_inputs():\n    return []\n```\n"


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (f"/kernel fuse --dry-run\n{MODEL}", "GPU: at most 2 GPU minutes of timing"),
        ("/kernel verify geglu --dry-run", "GPU: nothing is timed; proofs and tests run there."),
    ],
)
def test_a_dry_run_names_gpu_time_where_something_is_timed(bench: Bench, command: str, said: str) -> None:
    bench.hub.push(bench.repository, "topic", "maintainer", {"kernels/geglu.py": b"x = 1\n"})
    number = bench.hub.open_pull(bench.repository, "maintainer", "topic", "Another way").number
    bench.say(number, command)
    bench.settle()
    assert said in last(bench, number, MessageKind.reply)
    assert bench.jobs() == ()


def test_a_dry_run_of_a_bench_starts_nothing(bench: Bench) -> None:
    bench.hub.push(bench.repository, "topic", "maintainer", {"kernels/geglu.py": b"x = 1\n"})
    number = bench.hub.open_pull(bench.repository, "maintainer", "topic", "Another way").number
    bench.say(number, "/kernel bench geglu --dry-run")
    bench.settle()
    told = last(bench, number, MessageKind.reply)
    assert "nothing is pushed" in told
    assert "at most 2 GPU minutes" in told, "79 s are more than one"
    assert bench.jobs() == ()
