"""Engines that kill themselves while a stage chooses among answers; the threads that ask answer the GPU requests as well."""

from __future__ import annotations

import time
from collections.abc import Callable

from tests.workers.engine import mortals
from tests.workers.engine.asking_mortals import ASKED
from tests.workers.engine.choosing import HEARD, LONGEST_S, choosing, serve_one, text_of
from tests.workers.engine.fakes import fake_stages
from tests.workers.engine.scripted import USAGE, StageOf, trouble
from workers import runtime
from workers.contracts import StageName
from workers.engine import at_once
from workers.engine.protocol import Stages
from workers.models.ledger import Models
from workers.models.protocol import Answer, Question, Trouble

LOOK_S = 0.05


class Thinking:
    """Has an answer to the second candidate at once, and none to the others before it is ended."""

    name = "scripted"
    model = "model-1"

    def ask(self, question: Question, timeout_s: float, cancelled: Callable[[], bool]) -> Answer:
        current, text = runtime.current(), text_of(question)
        with (current.settings.data_dir / ASKED).open("a") as handle:
            handle.write(f"{text}\n")
        if text == "candidate 2":
            return Answer(f"said to {text}", None, USAGE, self.name, self.model)
        until = time.monotonic() + LONGEST_S
        while not cancelled():
            assert time.monotonic() < until, "nobody ended the question"
            if not serve_one(current):
                time.sleep(0.01)
        raise trouble(Trouble.cancelled, HEARD)


def stages() -> Stages:
    return {**fake_stages(), StageName.analyze: StageOf(choosing)}


MODELS = Models((Thinking(),))

if __name__ == "__main__":
    at_once.LOOK_S = LOOK_S
    mortals.main(stages(), MODELS)
