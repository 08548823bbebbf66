"""A stage with work at the hosts of several GPUs: each in the queue of its own, and the first answer wakes the stage."""

from __future__ import annotations

from functools import partial

import pytest

from gpu_runner.contracts import Action, DoctorRequest
from tests.workers.engine.fakes import fake_stages, request
from tests.workers.engine.test_advance import Scripted
from tests.workers.store.worlds import World
from workers import inbox
from workers.contracts import JobState, StageName
from workers.engine.advance import advance
from workers.engine.protocol import StageContext, StageResult
from workers.gpu_host.supervise import serve
from workers.processes import commands
from workers.settings import Settings

GPUS = ("GPU-fdca637e-f0af-0b10-ea32-3ad92da0525f", "GPU-a26a721c-93b1-988f-8f2e-490e412d6242")


def test_a_stage_goes_on_with_the_first_answer_whichever_host_gives_it(world: World) -> None:
    seen: list[list[bool]] = []

    def run(context: StageContext) -> StageResult:
        def ask(gpu: str) -> str:
            return context.gpu(gpu, DoctorRequest(), Action.doctor, gpu_uuid=gpu).request_id

        seen.append([context.meanwhile(gpu, partial(ask, gpu)) is not None for gpu in GPUS])
        for gpu in GPUS:
            ask(gpu)
        return StageResult()

    world.runtime.stages = lambda: {**fake_stages(), StageName.analyze: Scripted(run)}
    job = inbox.submit(request()).job_id
    advance(world.runtime, job)
    sent = {queue: request_id for request_id, queue in world.messages.gpu_requests}
    assert set(sent) == set(GPUS), "each waits in the queue of its GPU"
    assert serve(world.runtime, sent[GPUS[1]])  # the stage waits for the other one
    advance(world.runtime, job)
    assert seen[-1] == [False, True]
    assert serve(world.runtime, sent[GPUS[0]])
    advance(world.runtime, job)
    assert (seen[-1], world.job(job).state) == ([True, True], JobState.waiting)


def test_a_host_serves_the_queue_of_the_gpu_that_it_has(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("workers.processes.detect_uuid", lambda: GPUS[0])
    (gpu,) = (one for one in commands(Settings(architecture="sm_90")) if one.name == "gpu")
    assert f"gpu.sm_90,gpu.any,gpu.{GPUS[0]}" in gpu.arguments
