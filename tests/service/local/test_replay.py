"""A create by a model on a local checkout, recorded and repeated without one: the real runner in Triton's interpreter."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from service.cli import app
from tests.recorded.libraries import PLAIN, REGLU
from tests.workers.models.anthropic_server import KEY, MODEL, anthropic_server, call
from tests.workers.models.protocol_server import ProtocolServer
from tests.workers.stages.creating import RIGHT, WORDS, WRONG, kernel, problem
from workers.embedded import close

SMALL = REGLU.replace('"T": 4096, "I": 14336', '"T": 64, "I": 256')
GIT = ("-c", "user.name=somebody", "-c", "user.email=somebody@example.com")
PROVIDER = ("ANTHROPIC_API_KEY", "ANTHROPIC_MODEL", "ANTHROPIC_BASE_URL")


def git(folder: Path, *arguments: str) -> str:
    done = subprocess.run(["git", "-C", str(folder), *GIT, *arguments], check=True, capture_output=True, text=True)
    return done.stdout.strip()


@pytest.fixture
def library(tmp_path: Path) -> Path:
    folder = tmp_path / "library"
    for path, content in PLAIN.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(content)
    git(tmp_path, "init", "-q", "-b", "main", str(folder))
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", "start")
    return folder


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name in os.environ:
        if name.startswith("KERNELSMITH_"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("KERNELSMITH_ARCHITECTURE", "interpreter")
    monkeypatch.setenv("COLUMNS", "400")
    yield
    close()


def configured(monkeypatch: pytest.MonkeyPatch, provider: ProtocolServer) -> None:
    for name, value in zip(PROVIDER, (KEY, MODEL, provider.base_url), strict=True):
        monkeypatch.setenv(f"KERNELSMITH_{name}", value)


def unconfigured(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in PROVIDER:
        monkeypatch.delenv(f"KERNELSMITH_{name}")


def run(*arguments: str | Path) -> Result:
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    close()
    return result


def trees(folder: Path) -> list[str]:
    """Give the trees of the job's commits on the only branch beside main, oldest first."""
    branches = git(folder, "for-each-ref", "--format=%(refname)", "refs/heads").splitlines()
    (branch,) = [name for name in branches if name != "refs/heads/main"]
    return git(folder, "log", "--reverse", "--format=%T", f"main..{branch}").splitlines()


@pytest.mark.slow
def test_a_recorded_create_from_words_is_repeated_without_a_model_and_gives_the_same_commits(
    library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wish, recording, other = tmp_path / "reglu.md", tmp_path / "recording.tar.gz", tmp_path / "other"
    wish.write_text(WORDS)
    shutil.copytree(library, other)
    with anthropic_server() as provider:
        provider.next(
            call("give_problem", problem(SMALL)), call("give_kernel", kernel(WRONG)), call("give_kernel", kernel(RIGHT))
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
