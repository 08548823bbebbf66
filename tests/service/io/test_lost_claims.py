"""A delivery that takes longer than its lease: the worker that lost it leaves it to the one that has it by then."""

from __future__ import annotations

from typing import Any

import pytest

from service import deliveries
from service.github.errors import TransientError
from service.metrics import DELIVERIES
from tests.service.io.conftest import Bench
from workers import inbox

SLOW = "GitHub answered 502, late"


@pytest.mark.parametrize("most_tries", [200, 1], ids=["to be tried again", "to be given up"])
def test_a_failure_after_the_lease_has_run_out_is_no_word_on_the_claim_that_followed(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, most_tries: int
) -> None:
    monkeypatch.setattr(deliveries, "TRANSIENT_TRIES", most_tries)
    taken: list[Any] = []

    def slow(*_: object) -> str:
        bench.later(bench.parts.processor.lease_s + 1)
        taken.append(inbox.claim_delivery("another process", 300))
        raise TransientError(SLOW, 502)

    bench.say(bench.issue(), "/kernel help")
    bench.hub.deliver_all()
    (first, *_) = names = waiting()
    monkeypatch.setattr(deliveries, "handle", slow)
    before = lost()
    assert bench.parts.processor.step()
    assert taken[0].delivery_id == first
    assert lost() == before + 1
    # The other one has it still, and says what becomes of it.
    assert waiting() == names[1:]
    assert inbox.release_delivery(first, taken[0].tries, "an outage", bench.clock[0], refused=False) is True
    assert waiting()[0] == first


def waiting() -> list[str]:
    """Give the deliveries that anybody could take now, by taking them and putting them back."""
    found = []
    while (claimed := inbox.claim_delivery("look", 1)) is not None:
        found.append(claimed)
    for claimed in found:
        assert inbox.release_delivery(claimed.delivery_id, claimed.tries, "", 0.0, refused=False)
    return [claimed.delivery_id for claimed in found]


def lost() -> float:
    return sum(
        sample.value
        for metric in DELIVERIES.collect()
        for sample in metric.samples
        if sample.name.endswith("_total") and sample.labels["outcome"] == "lost"
    )
