"""Many siblings, slow, refused or broken off: under budgets of every size no job stops with money left."""

from __future__ import annotations

import random
import time
from collections.abc import Callable

import pytest

from tests.few import few
from tests.workers.engine.scripted import Scripted, ask_for, ledger, outcomes, script, set_to, trouble
from tests.workers.store.worlds import World
from workers import embedded
from workers.contracts import FailureCode, JobState
from workers.engine.protocol import StageContext
from workers.models.ledger import most_of
from workers.models.protocol import Answer, ModelError, Question, Trouble, Usage

READ = most_of(ask_for("softmax a"), None).input_tokens
MOST, LIKELY = READ + 1000, READ + 250
USAGE, CUT_OFF = Usage(input_tokens=READ, output_tokens=200), Usage(input_tokens=READ, output_tokens=40)
ENDS = (
    None,  # an answer
    trouble(Trouble.refused, USAGE),
    trouble(Trouble.truncated, USAGE),
    trouble(Trouble.unreachable, CUT_OFF),  # its stream broke off
    trouble(Trouble.malformed, CUT_OFF),  # an error in the middle of the stream
    trouble(Trouble.unreachable, Usage()),
    trouble(Trouble.overloaded, Usage()),
)


def slow(provider: Scripted, chance: random.Random) -> Callable[[Question, Callable[[], bool]], Answer]:
    """A reply that takes a while, and ends in some way."""
    end, wait_s = chance.choices(ENDS, (6, 1, 1, 1, 1, 1, 1))[0], chance.random() * 0.15

    def reply(_question: Question, _cancelled: Callable[[], bool]) -> Answer:
        time.sleep(wait_s)
        if end is not None:
            raise trouble(end.trouble, end.usage)
        return provider.answer("done")

    return reply


@pytest.mark.parametrize("seed", few(range(40), range(3)))
def test_what_is_left_out_had_no_room_and_what_was_paid_for_is_there(
    local: World, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("workers.engine.questions.WAIT_S", 0.02)
    chance = random.Random(seed)
    limit = chance.choice((LIKELY - 1, LIKELY, MOST - 1, MOST, 2 * MOST - 1, 3 * MOST, 7 * MOST, 40 * MOST))
    set_to(local, model_tokens_per_job=limit)
    provider = Scripted(usage=USAGE)
    questions = {f"candidate-{n}": ask_for(f"softmax {chr(97 + n)}") for n in range(chance.randint(2, 14))}
    provider.replies = [slow(provider, chance) for _ in questions]
    found: dict[str, Answer | ModelError] = {}

    def run(context: StageContext) -> None:
        found.update(context.ask_all(questions))

    job_id = script(local, provider, run)
    embedded.drive()
    job, spent = local.job(job_id), sum(amount for _, amount in ledger(local))
    left_out = [it for it in found.values() if isinstance(it, ModelError) and it.trouble is Trouble.out_of_budget]
    assert spent <= limit
    if job.state is JobState.failed or left_out:
        assert spent + LIKELY > limit, "there was room for one more"
    if job.state is JobState.failed:
        assert job.failure is not None
        assert job.failure.code is FailureCode.budget
        assert "answered" not in outcomes(local), "what was paid for is judged"
    else:
        assert set(found) == set(questions)
        assert sum(isinstance(it, Answer) for it in found.values()) == outcomes(local).count("answered")
    assert None not in outcomes(local)
