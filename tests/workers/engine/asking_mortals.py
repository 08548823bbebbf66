"""Engines that kill themselves while a stage asks a model, which writes down in the data folder that it was asked."""

from __future__ import annotations

from collections.abc import Callable

from tests.workers.engine import mortals
from tests.workers.engine.fakes import fake_stages
from tests.workers.engine.scripted import USAGE, StageOf, ask_for
from workers import runtime
from workers.contracts import StageName
from workers.engine.protocol import StageContext, StageResult, Stages
from workers.models.ledger import Models
from workers.models.protocol import Answer, Question

ASKED = "asked"


class Counted:
    """Answers with how often it was asked, by whichever process."""

    name = "scripted"
    model = "model-1"

    def ask(self, question: Question, timeout_s: float, cancelled: Callable[[], bool]) -> Answer:
        asked = runtime.current().settings.data_dir / ASKED
        with asked.open("a") as handle:
            handle.write(f"{question.purpose}\n")
        return Answer(f"answer {len(asked.read_text().splitlines())}", None, USAGE, self.name, self.model)


def run(context: StageContext) -> StageResult:
    first = context.ask("first", ask_for("softmax")).text
    second = context.ask("second", ask_for(f"repair {first}", "repair")).text
    return StageResult({"answers": [first, second]})


def stages() -> Stages:
    return {**fake_stages(), StageName.analyze: StageOf(run)}


MODELS = Models((Counted(),))

if __name__ == "__main__":
    mortals.main(stages(), MODELS)
