"""A process that has no GPU host beside it: it works on what is proved meanwhile in a thread of its own."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from itertools import pairwise
from pathlib import Path

import pytest
from sqlalchemy import select

from tests.workers.engine import choosing
from tests.workers.engine.choosing import waits
from tests.workers.engine.scripted import Scripted, ask_for, outcomes, script
from tests.workers.engine.test_enough import SECOND, gpu_states, only, output
from tests.workers.engine.test_gpu_host import PROLOGUE, _runs, _wait_for_pid
from tests.workers.store.worlds import World
from workers import embedded, runtime
from workers.contracts import JobState
from workers.engine import at_once
from workers.engine.advance import advance
from workers.engine.protocol import StageContext, StageResult
from workers.gpu_host.standby import Standby
from workers.gpu_host.supervise import EmbeddedHost
from workers.models.protocol import Answer, ModelError, Question
from workers.store.models import GpuWork, StageAttempt

ANSWER = "target.write_text(json.dumps(result))\n"


@pytest.fixture(autouse=True)
def look_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(at_once, "LOOK_S", 0.05)


@pytest.fixture
def alone(local: World) -> Iterator[World]:
    """A world whose process is the GPU host of its jobs while models are asked for them."""
    local.runtime.hosting = EmbeddedHost(Standby()).working
    yield local
    assert not [thread for thread in threading.enumerate() if thread.name.startswith(("question", "lease"))]


def runner(world: World, folder: Path, text: str) -> None:
    place = folder / "runner.py"
    place.write_text(PROLOGUE + text)
    world.runtime.runner_command = (sys.executable, "-S", str(place))


def attempt(world: World) -> tuple[str, int]:
    with world.runtime.database.read() as session:
        row = session.scalars(select(StageAttempt)).one()
        return row.state, row.tries


def test_one_that_is_proved_ends_those_that_are_still_asked(alone: World) -> None:
    provider = only("candidate 2")
    job_id = script(alone, provider, choosing.choosing)
    embedded.drive()
    assert alone.job(job_id).state is JobState.waiting
    assert output(alone) == {"told": SECOND, "chosen": "candidate-2"}
    assert len(provider.asked) == 3
    assert sorted(str(it) for it in outcomes(alone)) == ["answered", "cancelled", "cancelled"]


def test_no_request_runs_beside_another(alone: World, tmp_path: Path) -> None:
    times = tmp_path / "times"
    note = f"began = time.time()\ntime.sleep(0.3)\nopen({str(times)!r}, 'a').write(f'{{began}} {{time.time()}}\\n')\n"
    runner(alone, tmp_path, note + ANSWER)
    job_id = script(alone, Scripted(), choosing.choosing)
    embedded.drive()
    assert alone.job(job_id).state is JobState.waiting
    spans = [tuple(map(float, line.split())) for line in times.read_text().splitlines()]
    assert len(spans) >= 2
    assert all(one[1] <= other[0] for one, other in pairwise(sorted(spans)))


def test_ctrl_c_ends_the_proof_that_is_at_work_and_gives_it_back(alone: World, tmp_path: Path) -> None:
    pid_file = tmp_path / "pid"
    runner(alone, tmp_path, f"open({str(pid_file)!r}, 'w').write(str(os.getpid()))\ntime.sleep(60)")
    script(alone, only("candidate 2"), lambda context: interrupted(context, pid_file))
    began = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        embedded.drive()
    assert time.monotonic() - began < 20
    assert not _runs(_wait_for_pid(pid_file))
    assert gpu_states(alone) == {"verify-candidate-2": "pending"}
    with alone.runtime.database.read() as session:
        work = session.scalars(select(GpuWork)).one()
        assert (work.tries, work.lease_token) == (0, None)
    assert attempt(alone) == ("running", 0)


def interrupted(context: StageContext, pid_file: Path) -> StageResult:
    """Ask for candidates, and be interrupted once a proof is at work."""

    def enough(answered: Mapping[str, Answer | ModelError]) -> bool:
        assert not choosing.proved(context, answered)
        if pid_file.exists() and pid_file.read_text():
            raise KeyboardInterrupt
        return False

    context.ask_until({f"candidate-{n}": ask_for(f"candidate {n}") for n in (1, 2)}, enough)
    raise AssertionError


def test_a_host_that_breaks_breaks_the_stage_which_is_tried_again(alone: World) -> None:
    broken = [True]

    def once(name: str) -> None:
        if name == "gpu_claimed" and broken and threading.current_thread().name.startswith("gpu host"):
            broken.clear()
            raise OSError("no room on the disk")

    def reply(_question: Question, cancelled: Callable[[], bool]) -> Answer:
        # Not before the host has broken.
        with pytest.raises(ModelError):
            waits(lambda: cancelled() or not broken)
        return provider.answer("said late")

    provider = Scripted(["said at once", reply, reply])
    alone.runtime.at_boundary = once
    job_id = script(alone, provider, choosing.choosing)
    assert advance(alone.runtime, job_id)
    assert attempt(alone) == ("running", 1)
    assert outcomes(alone) == ["answered"] * 3


def test_a_job_on_a_checkout_is_its_own_host_and_a_process_with_a_broker_is_not(tmp_path: Path) -> None:
    embedded.configure(tmp_path / "checkout")
    assert runtime.current().hosting == embedded.EMBEDDED_HOST.working
    embedded.configure(tmp_path / "worker", redis_url=f"redis+socket://{tmp_path / 'nobody.sock'}")
    assert runtime.current().hosting is runtime.hosts_elsewhere
    embedded.close()
