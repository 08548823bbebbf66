"""One job on a local checkout: what it leaves there, what it refuses, and what an interruption costs."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from service.local.asking import LocalJob
from service.local.checkout import Checkout
from service.local.session import HELD, LocalSession
from service.local.terminal import Terminal, TerminalChoice
from tests.service.io.samples import PROBLEM
from tests.service.io.stages import Analyze, Validate, broken, stages
from workers import embedded, inbox, runtime
from workers.contracts import (
    Decision,
    Effect,
    FailureCode,
    JobOptions,
    JobState,
    JobView,
    StageName,
    UserFacingError,
)
from workers.embedded import close, configure, drive
from workers.engine.protocol import StageContext, StageResult

AUTO = LocalJob("reglu", PROBLEM, JobOptions(auto=True), fresh=False)


class KilledError(BaseException):
    """Stands for the end of the process."""


class Quiet(Terminal):
    """Says nothing aloud, and answers as it was told to."""

    def __init__(self) -> None:
        super().__init__()
        self.said: list[str] = []
        self.asked = 0

    def say(self, text: str) -> None:
        self.said.append(text)

    def show(self, markdown: str) -> None:
        self.said.append(markdown)

    def ask(self, job: JobView) -> TerminalChoice:
        self.asked += 1
        return TerminalChoice(Decision.approve)


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    folder = tmp_path / "library"
    (folder / "kernels").mkdir(parents=True)
    (folder / "kernels" / "geglu.py").write_text("import triton\n")
    git = ("git", "-C", str(folder), "-c", "user.name=somebody", "-c", "user.email=somebody@example.com")
    for command in (("init", "-q"), ("add", "-A"), ("commit", "-q", "-m", "start")):
        subprocess.run([*git, *command], check=True)
    return Checkout(folder)


@pytest.fixture
def analyze() -> Analyze:
    return Analyze()


@pytest.fixture(autouse=True)
def production(tmp_path: Path, analyze: Analyze) -> Iterator[None]:
    configure(tmp_path / "state")
    table = stages(analyze)
    runtime.install(replace(runtime.current(), stages=lambda: table))
    yield
    close()


def session(checkout: Checkout, out: Path) -> tuple[LocalSession, Quiet]:
    terminal = Quiet()
    return LocalSession(checkout, out, terminal), terminal


def purposes(checkout: Checkout, job: JobView) -> list[str]:
    lines = checkout.text("log", "--format=%s", f"{job.request.base_sha}..{job.branch}").splitlines()
    return list(reversed(lines))


def test_job_ends_with_a_branch_of_one_commit_for_each_purpose_and_its_papers(
    checkout: Checkout, tmp_path: Path
) -> None:
    job = session(checkout, tmp_path / "out")[0].run(AUTO)
    assert job.state is JobState.done
    assert purposes(checkout, job) == ["Add the reference of reglu and its tests", "Add the reglu kernel"]
    assert checkout.text("status", "--porcelain") == ""
    papers = {path.name for path in (tmp_path / "out").iterdir()}
    assert {"analyze-1.md", "generate-1.md", "validate-1.md", "pull_request.md", "speed.png"} <= papers
    assert "Requested on the command line" in (tmp_path / "out" / "pull_request.md").read_text()


def test_artifacts_of_the_job_lie_in_its_folder(
    checkout: Checkout, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = Validate.run

    def kept(self: Validate, context: StageContext) -> StageResult:
        context.artifact("models/validate-1/a.json", b"{}", "application/json")
        context.artifact("validate-1.md", b"an artifact", "text/markdown")
        context.artifact("../outside", b"", "text/plain")
        return run(self, context)

    monkeypatch.setattr(Validate, "run", kept)
    session(checkout, tmp_path / "out")[0].run(AUTO)
    assert (tmp_path / "out" / "models" / "validate-1" / "a.json").read_bytes() == b"{}"
    assert (tmp_path / "out" / "validate-1.md").read_text() != "an artifact", "what was shown is not overwritten"
    assert not (tmp_path / "outside").exists()


def test_same_command_again_changes_nothing(checkout: Checkout, tmp_path: Path) -> None:
    first = session(checkout, tmp_path / "out")[0].run(AUTO)
    second = session(checkout, tmp_path / "out")[0].run(AUTO)
    assert (second.job_id, second.head_sha) == (first.job_id, first.head_sha)
    assert len(purposes(checkout, second)) == 2


@pytest.mark.parametrize("name", ["../elsewhere", "a/b", "geglu", "no-name"])
def test_name_that_cannot_be_used_leaves_nothing_behind(checkout: Checkout, tmp_path: Path, name: str) -> None:
    with pytest.raises(UserFacingError) as refused:
        session(checkout, tmp_path / "out")[0].run(replace(AUTO, name=name))
    assert refused.value.failure.code in (FailureCode.name, FailureCode.exists)
    assert not (tmp_path / "out").exists()
    assert inbox.counts()["jobs"] == {}


def test_other_job_of_the_same_checkout_is_left_alone(checkout: Checkout, tmp_path: Path) -> None:
    other, _ = session(checkout, tmp_path / "other")
    other_id = inbox.submit(other._request(replace(AUTO, name="other"))).job_id
    session(checkout, tmp_path / "out")[0].run(AUTO)
    left = inbox.get_job(other_id)
    assert left is not None
    assert left.state is JobState.queued
    assert "other" not in (tmp_path / "out" / "analyze-1.md").read_text()


@pytest.mark.parametrize("steps", [0, 1, 2, 3])
def test_run_after_an_interruption_goes_on_where_it_was(
    checkout: Checkout, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, steps: int
) -> None:
    left = [steps]

    def drive_until_killed(max_steps: int | None = None, only: str | None = None) -> int:
        if not left[0]:
            raise KilledError
        left[0] -= 1
        return drive(max_steps, only)

    with monkeypatch.context() as patched:
        patched.setattr(embedded, "drive", drive_until_killed)
        with pytest.raises(KilledError):
            session(checkout, tmp_path / "out")[0].run(AUTO)
    job = session(checkout, tmp_path / "out")[0].run(AUTO)
    assert job.state is JobState.done
    assert len(inbox.find_jobs(job.request.origin.repository)) == 1
    assert purposes(checkout, job) == ["Add the reference of reglu and its tests", "Add the reglu kernel"]


def test_update_that_ctrl_c_interrupted_is_free_at_once(
    checkout: Checkout, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(_claimed: object) -> Effect:
        raise KeyboardInterrupt

    made, _ = session(checkout, tmp_path / "out")
    monkeypatch.setattr(made.effects, "apply", interrupted)
    with pytest.raises(KeyboardInterrupt):
        made.run(AUTO)
    going_on, terminal = session(checkout, tmp_path / "out")
    assert going_on.run(AUTO).state is JobState.done
    assert HELD not in terminal.said


def test_going_on_with_auto_asks_no_more(checkout: Checkout, tmp_path: Path) -> None:
    asked = LocalJob("reglu", PROBLEM, JobOptions(), fresh=False)
    begun, _ = session(checkout, tmp_path / "out")
    job_id = inbox.submit(begun._request(asked)).job_id
    drive(only=job_id)
    going_on, terminal = session(checkout, tmp_path / "out")
    job = going_on.run(AUTO)
    assert (job.job_id, job.state, terminal.asked) == (job_id, JobState.done, 0)


def test_other_layout_is_another_job(checkout: Checkout, tmp_path: Path) -> None:
    made, _ = session(checkout, tmp_path / "out")
    plain = replace(AUTO, options=JobOptions(auto=True, layout="plain"))
    assert made._request(AUTO).key != made._request(plain).key


def test_failed_job_says_what_to_do_in_words_of_the_command_line(
    checkout: Checkout, tmp_path: Path, analyze: Analyze
) -> None:
    analyze.fails.append(broken())
    made, terminal = session(checkout, tmp_path / "out")
    job = made.run(AUTO)
    assert job.state is JobState.failed
    assert job.stages[0].stage is StageName.analyze
    assert "/kernel" not in terminal.said[-1]
    assert "the problem does not run (line 3)" in terminal.said[-1]
    assert "Correct it." in (tmp_path / "out" / "report.md").read_text()


def test_failed_job_goes_on_when_the_command_is_given_again(
    checkout: Checkout, tmp_path: Path, analyze: Analyze
) -> None:
    analyze.fails.append(broken())
    session(checkout, tmp_path / "out")[0].run(AUTO)
    job = session(checkout, tmp_path / "out")[0].run(AUTO)
    assert job.state is JobState.done
