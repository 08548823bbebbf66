"""A job that makes a kernel faster by what a model writes: what the model says, what it was asked, and what was paid."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy import select

from gpu_runner.contracts import Evidence, Status, to_json
from tests.conversations.asking import Line
from tests.conversations.optimizing import so_fast
from tests.faults import optimizing
from tests.faults.installation import Installation
from tests.faults.processes import until
from tests.service.report.facts import VERDICT
from tests.workers.models.protocol_server import Reply
from tests.workers.stages.modelling import DIAGNOSIS, blocks
from workers import runtime
from workers.store.models import ModelRequest

COMMAND = "/kernel optimize geglu --author llm --goal speed --variants 2 --auto"
# The model's first change is wrong, its repair is right, and its second change gains nothing.
WRONG, MENDED, SECOND = blocks(512), blocks(2048), blocks(4096, before=2048)
SAID = (DIAGNOSIS, WRONG, MENDED, SECOND)
QUESTIONS = ("diagnosis", "variant-v2", "variant-v2-repair-1", "variant-v3")
REFUTED = replace(
    VERDICT, status=Status.incorrect_gradient, evidence=(Evidence("gradients", "the gradient of a is off by 0.3"),)
)
VARIANTS = (
    "tune: v1-tune",
    "verify: v2-verify",
    *(f"{what}: v2-repair-1-{what}" for what in ("verify", "benchmark")),
    "tests: v2-script",  # the one that is kept
    *(f"{what}: v3-{what}" for what in ("verify", "benchmark")),
)
REQUESTS = (*optimizing.PROFILE, *VARIANTS, *optimizing.FINALIZE)
OPTIMIZED = replace(optimizing.OPTIMIZED, gpu_requests={"done": len(REQUESTS)})
HANGS = Reply(hang_before_headers=True)  # until its client goes away


@dataclass(frozen=True)
class Modelled:
    """An installation whose jobs may ask a model, and that model."""

    installation: Installation
    line: Line

    def ask(self, *places: str) -> int:
        """Ask for a faster kernel, have the first variant's verdict be wrong, and give the issue's number.

        A process waits at each of ``places`` from then on, after the profile and before the model is asked for a variant.
        """
        self.installation.pause("runner.tune")
        issue = self.installation.ask("geglu is slow", COMMAND)
        self.installation.paused("runner.tune")
        self.refute()
        for place in places:
            self.installation.pause(place)
        self.installation.release("runner.tune")
        return issue

    def refute(self) -> None:
        """Have the next verdict be that a gradient is wrong."""
        answer = self.installation.desk / "answers" / "verify-00.json"
        draft = answer.with_suffix(".draft")
        draft.write_text(json.dumps(to_json(REFUTED)))
        draft.replace(answer)

    def hears(self, count: int) -> None:
        """Wait until the model has been asked so many times."""
        until(lambda: len(self.line.server.asked) >= count, f"question {count}", self.installation.story)

    def paid(self) -> list[tuple[str, str]]:
        """Give every request to the model in order: the key of its question, and how it ended, as the ledger has it."""
        with runtime.current().database.read() as session:
            rows = session.scalars(select(ModelRequest).order_by(ModelRequest.id))
            return [(row.key, row.outcome or row.state) for row in rows]


def gains_nothing(installation: Installation) -> None:
    """Have the next variant that is measured be as fast as what stands."""
    answer = installation.desk / "answers" / "benchmark-00.json"
    answer.write_text(json.dumps(to_json(so_fast(1.0))))


def answered(*keys: str) -> list[tuple[str, str]]:
    """Give the requests of questions that were answered at once."""
    return [(key, "answered") for key in keys]


def settings(line: Line) -> dict[str, str]:
    """Give the variables under which an installation asks this model, which it asks twice where it is busy."""
    return {
        "KERNELSMITH_ANTHROPIC_API_KEY": line.kind.key,
        "KERNELSMITH_ANTHROPIC_MODEL": line.kind.model,
        "KERNELSMITH_ANTHROPIC_BASE_URL": line.server.base_url,
        "KERNELSMITH_MODEL_TRIES": "2",
    }


def busy(line: Line, retry_after_s: int = 0) -> Reply:
    """Give the answer of a provider that is overloaded, and wants to be asked again after a while."""
    found: Any = line.kind.error(529, "overloaded_error", headers={"retry-after": str(retry_after_s)})
    assert isinstance(found, Reply)
    return found
