"""Jobs that were recorded with a model's answers, repeated from the repository's recordings by the real runner, without a model."""

from __future__ import annotations

import json
import tarfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from service.cli import recordings
from service.local.checkout import Checkout
from tests.recorded.models import table
from tests.recorded.models.jobs import JOBS, RecordedCommand
from tests.recorded.models.library import make_library
from tests.service.local.checkouts import git, run
from tests.service.local.test_replay import trees
from tests.workers.models.anthropic_server import KEY
from workers.contracts import JobView
from workers.embedded import RecordedJob
from workers.models.recording import Recording

ANEW = "prompts, briefs, layouts or the library of the recorded jobs have changed: python -m tests.recorded.models {} records anew"


def recorded(job: RecordedCommand) -> dict[str, Any]:
    with tarfile.open(job.recording()) as archive:
        held = archive.extractfile("job.json")
        assert held is not None
        form: dict[str, Any] = json.load(held)
    return form


# In `make test` the conversations hold the stages of the others, with recorded answers too.
@pytest.mark.usefixtures("environment", "desk")
def test_a_recorded_job_is_repeated_by_recorded_answers_of_the_runner(tmp_path: Path) -> None:
    assert_repeated(next(job for job in JOBS if job.name == "words"), tmp_path)


@pytest.mark.long
@pytest.mark.usefixtures("environment")
@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("job", JOBS, ids=lambda job: job.name)
def test_a_recorded_job_is_repeated_without_a_model_and_gives_the_same_commits(
    job: RecordedCommand, tmp_path: Path
) -> None:
    assert_repeated(job, tmp_path)


def assert_repeated(job: RecordedCommand, tmp_path: Path) -> None:
    library, anew = tmp_path / "library", ANEW.format(job.name)
    make_library(library)
    form = recorded(job)
    assert git(library, "rev-parse", "HEAD") == form["base_sha"], anew
    again = run("replay", job.recording(), "--repo", library)
    assert again.exit_code == 0, f"{anew}\n{again.output}"
    assert trees(library) == form["trees"], anew
    assert form["trees"], "a job that commits nothing shows nothing"
    assert "with the same files as recorded" in again.output


@pytest.mark.parametrize("job", JOBS, ids=lambda job: job.name)
def test_a_recording_holds_the_questions_of_its_job_and_no_key(job: RecordedCommand) -> None:
    records = Recording.read(job.recording()).records
    assert len(records) == job.questions, ANEW.format(job.name)
    assert job.recording().stat().st_size < 200_000
    with tarfile.open(job.recording()) as archive:
        texts = [held.read().decode() for name in archive.getnames() if (held := archive.extractfile(name))]
    assert len(texts) == 2
    assert not any(KEY in text for text in texts)


def test_the_table_of_costs_is_what_the_recordings_tell() -> None:
    page = table.PAGE.read_text(encoding="utf-8")
    assert table.section(page) == table.table(), "python -m tests.recorded.models --table writes it anew"


def test_other_commits_than_recorded_are_told_and_fail(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    library = tmp_path / "library"
    make_library(library)
    base = git(library, "rev-parse", "HEAD")
    for number in range(2):
        (library / "new.py").write_text(f"NUMBER = {number}\n")
        git(library, "add", "-A")
        git(library, "commit", "-q", "-m", f"Change {number}")
    made = Checkout(library).trees(base, "HEAD")
    job = cast(
        JobView, SimpleNamespace(request=SimpleNamespace(base_sha=base), head_sha=git(library, "rev-parse", "HEAD"))
    )

    def same(wanted: tuple[str, ...] | None) -> bool:
        return recordings._same(library, cast(RecordedJob, SimpleNamespace(trees=wanted)), job)

    assert same(None), "an older recording does not say"
    assert same(made)
    assert not same((made[0], "0" * 40))
    assert not same((*made, "0" * 40))
    told = capsys.readouterr().err.splitlines()
    assert told == [
        "2 commits, with the same files as recorded.",
        "2 commits, 2 as recorded; the first with other files than then is number 2.",
        "2 commits, 3 as recorded; the first with other files than then is number 3.",
    ]
