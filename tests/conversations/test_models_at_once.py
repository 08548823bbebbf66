"""Several candidates at once, over real HTTP: the first one that is proved ends the others, while a GPU host works beside them."""

from __future__ import annotations

import json

import pytest
from inline_snapshot import snapshot
from sqlalchemy import select

from tests.conversations.asking import Ask, ask_models
from tests.conversations.test_models import BLOCK, tried
from tests.recorded.models.jobs import angle_of
from tests.recorded.models.provider import text_of
from tests.workers.models.anthropic_server import call, call_block, stream, thought_block
from tests.workers.models.protocol_server import Asked, Reply
from tests.workers.stages.creating import OTHER, RIGHT, kernel
from workers import runtime
from workers.authors.llm import questions
from workers.contracts import JobState
from workers.engine import at_once
from workers.gpu_host.standby import Standby
from workers.gpu_host.supervise import EmbeddedHost
from workers.store.models import LedgerEntry, ModelRequest

__all__ = ["ask_models"]


def is_second(asked: Asked) -> bool:
    return angle_of(questions.KERNEL, text_of(asked.body)) == 1


def second_at_once(asked: Asked) -> Reply:
    """Answer the second candidate; the others begin to think, and never end."""
    if is_second(asked):
        return call("give_kernel", kernel(OTHER))
    pieces = stream(thought_block(), call_block("give_kernel", json.dumps(kernel(RIGHT)), 1))
    return Reply(pieces, hang_after=3)


@pytest.mark.long  # in `make test` test_enough of the engine ends what is no longer needed
def test_the_first_kernel_that_is_proved_ends_the_requests_for_the_others(
    ask_models: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    asking = ask_models()
    monkeypatch.setattr(at_once, "LOOK_S", 0.05)
    talk, line = asking.talk, asking.line
    line.reply(*[second_at_once] * 3)
    # For the questions alone: a host that took other requests too could let the conversation look settled before its time.
    runtime.current().hosting = EmbeddedHost(Standby()).working
    number = asking.ask(BLOCK, options="--candidates 3 --auto")
    talk.settle()
    talk.skip(number)
    assert talk.job().state is JobState.done
    assert [asked.left.wait(10) for asked in line.server.asked if not is_second(asked)] == [True, True]
    proved = next(body for body in talk.heard(talk.pull()) if "What was tried" in body)
    assert tried(proved) == snapshot("""\
| attempt | how | outcome | tokens |
| ---: | --- | --- | ---: |
| 1 | candidate, variation 1 | `not needed`: its answer was not waited for, since another one had decided | 12,104 |
| 2 | candidate, variation 2 | **`passed`, taken** | 142 |
| 3 | candidate, variation 3 | `not needed`: its answer was not waited for, since another one had decided | 12,104 |\
""")
    assert "BLOCK_SIZE=512" in (asking.kernel() or "")
    with runtime.current().database.read() as session:
        ended = sorted(session.scalars(select(ModelRequest.outcome)))
        written = list(session.scalars(select(LedgerEntry.amount).where(LedgerEntry.unit == "output_tokens")))
    assert ended == ["answered", "cancelled", "cancelled"]
    # All that the two were allowed to think, since nobody knows how much of it they did; and what was heard.
    assert sorted(written) == [42, 12_004, 12_004]
