"""Each answer of the set is stopped where the table says, with its reason, and nothing of it would be committed."""

from __future__ import annotations

import pytest

from gpu_runner.contracts import Status
from tests.adversarial.table import ATTACKS, Stop
from tests.adversarial.trial import SHORT_S, STEP_S, created, screened
from tests.few import few
from tests.workers.authors.llm.briefs import answer
from tests.workers.stages.creating import RIGHT, creating, kernel
from workers.authors.llm import read_kernel
from workers.authors.llm.protocol import KernelBrief, UnusableAnswer
from workers.stages.analyze import Analyze
from workers.stages.bench import reopen_create
from workers.stages.briefs import kernel_brief


@pytest.fixture(scope="module")
def brief() -> KernelBrief:
    """Give the brief of the kernel that all of them pretend to be."""
    context = creating(None)
    context.run(Analyze())
    return kernel_brief(reopen_create(context))


def test_the_set_is_large_enough_and_reaches_every_gate() -> None:
    assert len(ATTACKS) >= 25
    assert {attack.stop for attack in ATTACKS.values()} == set(Stop)


def test_the_right_kernel_passes_every_gate(brief: KernelBrief) -> None:
    assert read_kernel(answer(kernel()), brief).source == RIGHT
    _, failure, commits = created(RIGHT)
    assert failure is None
    assert len(commits) == 1


@pytest.mark.parametrize("name", ATTACKS)
def test_reading_stops_what_a_text_shows_and_no_more(name: str, brief: KernelBrief) -> None:
    attack = ATTACKS[name]
    if attack.stop is not Stop.reading:
        assert read_kernel(answer(kernel(attack.source)), brief).source.strip() == attack.source.strip()
        return
    with pytest.raises(UnusableAnswer) as caught:
        read_kernel(answer(kernel(attack.source)), brief)
    assert caught.value.fault is attack.ends
    assert attack.words in str(caught.value)


# Each way to be stopped, with each status once.
FEW = {(attack.stop, attack.ends): name for name, attack in ATTACKS.items() if name != "loops_in_forward"}.values()


@pytest.mark.parametrize("name", few(ATTACKS, FEW))
def test_nothing_of_it_is_committed_and_the_failure_says_why(name: str) -> None:
    attack = ATTACKS[name]
    context, failure, commits = created(attack.source, SHORT_S if attack.ends is Status.timeout else STEP_S)
    assert failure is not None
    assert commits == []
    assert f"`{attack.ends.value}`" in failure.attempts[0], failure.attempts
    judged = [request for place, request in context.asked if place.startswith("verify")]
    if attack.stop is Stop.reading:
        assert judged == []
        assert attack.words in failure.attempts[0]
        return
    objection = screened(judged[0].candidate)
    if attack.stop is Stop.run:
        assert objection is None
        assert attack.words in failure.attempts[0]
        return
    assert objection is not None
    assert (objection.status, objection.rule) == (attack.ends, attack.words)
