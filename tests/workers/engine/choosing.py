"""A stage that takes the first of several answers that a GPU host proves, and a host that works beside it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial

from gpu_runner.contracts import Action, DoctorRequest
from tests.workers.engine.scripted import ask_for, trouble
from workers.engine.protocol import StageContext, StageResult
from workers.gpu_host.supervise import serve
from workers.models.protocol import Answer, ModelError, Question, Trouble, Usage
from workers.runtime import Runtime
from workers.store import gpu_work

LONGEST_S = 20.0
HEARD = Usage(input_tokens=7, output_tokens=3)  # of an answer that was ended


def choosing(context: StageContext, number: int = 3) -> StageResult:
    """Ask for candidates at once, prove each as it arrives, and take the first in their order of those that were answered."""
    questions = {f"candidate-{n}": ask_for(f"candidate {n}") for n in range(1, number + 1)}
    answers = context.ask_until(questions, lambda answered: proved(context, answered))
    chosen = next(key for key, it in answers.items() if isinstance(it, Answer))
    proof(context, chosen)
    told = {key: it.text if isinstance(it, Answer) else it.trouble.value for key, it in answers.items()}
    context.gpu("after", DoctorRequest(), Action.doctor)
    return StageResult({"told": told, "chosen": chosen})


def proved(context: StageContext, answered: Mapping[str, Answer | ModelError]) -> bool:
    keys = [key for key, it in answered.items() if isinstance(it, Answer)]
    # All are begun, whatever the first ones come to.
    ended = {key: context.meanwhile(key, partial(proof, context, key)) for key in keys}
    return any(ended.values())


def proof(context: StageContext, key: str) -> bool:
    return context.gpu(f"verify-{key}", DoctorRequest(), Action.doctor).payload is not None


def text_of(question: Question) -> str:
    return question.messages[0].parts[0].text


def waits(cancelled: Callable[[], bool], usage: Usage = HEARD) -> Answer:
    """Answer as a model does that is ended before it has said all."""
    until = time.monotonic() + LONGEST_S
    while not cancelled():
        assert time.monotonic() < until, "nobody ended the question"
        time.sleep(0.02)
    raise trouble(Trouble.cancelled, usage)


def serve_one(runtime: Runtime) -> bool:
    """Answer the oldest GPU request, if there is one."""
    with runtime.database.read() as session:
        request_id = gpu_work.next_gpu_request(session, runtime.clock())
    return request_id is not None and serve(runtime, request_id)


@contextmanager
def hosting(runtime: Runtime) -> Iterator[None]:
    """Answer GPU requests beside whatever else is done, until the end of the block."""
    end = threading.Event()

    def work() -> None:
        while not end.is_set():
            if not serve_one(runtime):
                time.sleep(0.02)

    thread = threading.Thread(target=work, name="gpu host")
    thread.start()
    try:
        yield
    finally:
        end.set()
        thread.join()
