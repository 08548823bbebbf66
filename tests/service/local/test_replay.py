"""A create by a model on a local checkout, recorded and repeated without one, with the answers that the real runner gave.

With the real runner itself the recorded jobs of the repository are repeated: ``test_recorded_jobs``.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tests.conversations.test_failures import WRONG as FOUND_WRONG
from tests.recorded import runner
from tests.recorded.libraries import PLAIN, REGLU
from tests.recorded.models.jobs import JOBS
from tests.service.local.checkouts import checked_out, git, run
from tests.workers.models.anthropic_server import KEY, MODEL, anthropic_server, call, error
from tests.workers.models.protocol_server import ProtocolServer
from tests.workers.stages.creating import RIGHT, WORDS, WRONG, kernel, problem
from workers import embedded, runtime
from workers.contracts import Outcome
from workers.store import gains
from workers.strategies.catalog import STRATEGIES
from workers.strategies.gains import Trial

pytestmark = pytest.mark.usefixtures("environment")
PROVIDER = ("ANTHROPIC_API_KEY", "ANTHROPIC_MODEL", "ANTHROPIC_BASE_URL")


@pytest.fixture
def library(tmp_path: Path) -> Path:
    return checked_out(tmp_path / "library", PLAIN)


def configured(monkeypatch: pytest.MonkeyPatch, provider: ProtocolServer) -> None:
    for name, value in zip(PROVIDER, (KEY, MODEL, provider.base_url), strict=True):
        monkeypatch.setenv(f"KERNELSMITH_{name}", value)


def unconfigured(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in PROVIDER:
        monkeypatch.delenv(f"KERNELSMITH_{name}")


def learn(folder: Path) -> None:
    """Have an earlier job of a checkout have measured every strategy."""
    embedded.configure(folder / ".git" / "kernelsmith")
    trials = {s.id: Trial(s.id, "sm_90", "lab/library other", Outcome.kept, ((0, 2.0),)) for s in STRATEGIES}
    with runtime.current().database.write() as session:
        gains.add(session, "earlier", trials)
    embedded.close()


def trees(folder: Path) -> list[str]:
    """Give the trees of the job's commits on the only branch beside main, oldest first."""
    branches = git(folder, "for-each-ref", "--format=%(refname)", "refs/heads").splitlines()
    (branch,) = [name for name in branches if name != "refs/heads/main"]
    return git(folder, "log", "--reverse", "--format=%T", f"main..{branch}").splitlines()


def test_a_recorded_create_from_words_is_repeated_without_a_model_and_gives_the_same_commits(
    library: Path, desk: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (desk / "answers" / "verify-1.json").write_text(json.dumps(runner.recorded("verify", REGLU) | FOUND_WRONG))
    wish, recording, other = tmp_path / "reglu.md", tmp_path / "recording.tar.gz", tmp_path / "other"
    wish.write_text(WORDS)
    shutil.copytree(library, other)
    with anthropic_server() as provider:
        provider.next(
            call("give_problem", problem(REGLU)), call("give_kernel", kernel(WRONG)), call("give_kernel", kernel(RIGHT))
        )
        configured(monkeypatch, provider)
        made = run(
            "create", wish, "--repo", library, "--author", "llm", "--candidates", "1", "--auto", "--record", recording
        )
    assert made.exit_code == 0, made.output
    assert "3 questions are recorded" in made.output
    unconfigured(monkeypatch)
    first = trees(library)
    assert len(first) == 2

    learn(other)  # what jobs measured since stands in no question of the repeated one
    again = run("replay", recording, "--repo", other)
    assert again.exit_code == 0, again.output
    assert trees(other) == first

    broken = tmp_path / "broken"
    shutil.unpack_archive(recording, broken)
    lines = (broken / "recording.jsonl").read_text().splitlines(keepends=True)
    (broken / "recording.jsonl").write_text("".join(lines[:-1]))
    missing = run("replay", broken, "--repo", library)
    assert missing.exit_code == 1
    told = " ".join(missing.output.split())
    assert "the recording does not hold this question for 'repair'; the nearest one" in told

    job = json.loads((broken / "job.json").read_text())
    assert (job["kernel"], job["problem"]["kind"], [held["action"] for held in job["held"]]) == (
        "reglu",
        "words",
        ["verify"],
    )
    assert KEY not in (broken / "recording.jsonl").read_text()


def test_what_is_no_recording_is_refused(library: Path, tmp_path: Path) -> None:
    refused = run("replay", tmp_path, "--repo", library)
    assert refused.exit_code == 2
    assert "there is no recording at" in " ".join(refused.output.split())
    (tmp_path / "job.json").write_text("{}")
    assert "is no recorded job" in " ".join(run("replay", tmp_path, "--repo", library).output.split())


def test_a_create_by_a_model_without_one_says_where_one_is_configured(library: Path, tmp_path: Path) -> None:
    wish = tmp_path / "reglu.md"
    wish.write_text(WORDS)
    refused = run("create", wish, "--repo", library, "--author", "llm", "--auto")
    assert refused.exit_code == 2
    assert "words need a model author, and none is configured" in " ".join(refused.output.split())


def test_a_setting_that_cannot_be_used_is_told_without_the_key(
    library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wish = tmp_path / "reglu.md"
    wish.write_text(WORDS)
    monkeypatch.setenv("KERNELSMITH_ANTHROPIC_API_KEY", KEY)
    refused = run("create", wish, "--repo", library, "--author", "llm", "--auto")
    assert refused.exit_code == 3
    assert "KERNELSMITH_ANTHROPIC_MODEL is needed with KERNELSMITH_ANTHROPIC_API_KEY" in refused.output
    assert "Traceback" not in refused.output
    assert KEY not in refused.output


def test_a_recording_with_a_damaged_question_is_refused(library: Path, tmp_path: Path) -> None:
    broken = tmp_path / "broken"
    shutil.unpack_archive(JOBS[0].recording(), broken)
    (broken / "recording.jsonl").write_text("{}\n")
    refused = run("replay", broken, "--repo", library)
    assert refused.exit_code == 2
    assert "line 1 of the recording" in " ".join(refused.output.split())


def test_a_job_that_nobody_answered_is_recorded_without_a_question(
    library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wish, recording = tmp_path / "reglu.md", tmp_path / "recording"
    wish.write_text(WORDS)
    with anthropic_server() as provider:
        provider.next(error(401, "authentication_error", "invalid x-api-key"))
        configured(monkeypatch, provider)
        stopped = run("create", wish, "--repo", library, "--author", "llm", "--auto", "--record", recording)
    assert stopped.exit_code == 1
    assert f"{recording} has the job and no questions: no model was asked." in stopped.output
    assert (recording / "recording.jsonl").read_bytes() == b""
