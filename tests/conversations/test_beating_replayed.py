"""A create in which times decided who wrote the kernel, recorded and repeated: what was measured then decides again."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conversations.asking import KERNEL_PATH, Ask, Asking, ask_models
from tests.conversations.optimizing import so_fast
from tests.conversations.talk import REPOSITORY
from tests.conversations.test_beating import MODELS, on_a_gpu
from tests.few import few
from tests.recorded.libraries import REGLU, create
from tests.workers.stages.creating import kernel
from workers import embedded, inbox
from workers.contracts import JobState

__all__ = ["ask_models"]


@pytest.mark.slow
@pytest.mark.parametrize(("speedup", "taken"), few([(1.5, True), (1.0, False)], [(1.5, True)]))
def test_a_replay_without_a_gpu_comes_to_the_same_kernel(
    ask_models: Ask, tmp_path: Path, speedup: float, taken: bool
) -> None:
    asking = ask_models()
    on_a_gpu(asking, so_fast(speedup))
    asking.line.answer(kernel())
    first = done(asking)
    assert (MODELS in pushed(asking, first)) is taken
    assert embedded.record(first, tmp_path / "recording.tar.gz") == 1

    (asking.talk.desk / "answers" / "verify-always.json").unlink()
    embedded.answer_from(tmp_path / "recording.tar.gz")
    known = len(asking.talk.asked())
    again = done(asking)
    assert pushed(asking, again) == pushed(asking, first)
    assert asking.talk.asked()[known:].count("benchmark") == 1  # for the report; what decided is not measured again
    assert len(asking.line.prompts()) == 1


@pytest.mark.long  # in `make test` one that was answered is replayed, above
@pytest.mark.slow
def test_a_replay_of_a_try_that_nobody_answered_keeps_the_compilers_kernel(ask_models: Ask, tmp_path: Path) -> None:
    asking = ask_models(model_tries=1)
    on_a_gpu(asking)
    asking.line.refuse(529, "overloaded_error")
    first = done(asking)
    embedded.record(first, tmp_path / "recording")
    embedded.answer_from(tmp_path / "recording")
    on_a_gpu(asking)
    asking.talk.desk.joinpath("answers", "benchmark-00.json").unlink()
    assert pushed(asking, done(asking)) == pushed(asking, first)


def done(asking: Asking) -> str:
    """Have a job of its own issue carried out to its end, and give its id."""
    known = {job.job_id for job in inbox.find_jobs(REPOSITORY)}
    number = asking.talk.ask(create("reglu", REGLU, "--candidates 1 --repairs 1 --auto"))
    (job,) = [job for job in inbox.find_jobs(REPOSITORY) if job.job_id not in known]
    assert job.state is JobState.done and job.pull_number is not None
    asking.talk.skip(number)
    asking.talk.skip(job.pull_number)
    return job.job_id


def pushed(asking: Asking, job_id: str) -> str:
    job = inbox.get_job(job_id)
    assert job is not None and job.branch is not None
    return (asking.talk.hub.read_file(REPOSITORY, job.branch, KERNEL_PATH) or b"").decode()
