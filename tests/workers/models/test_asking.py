"""Who is asked, how often, and after what wait; with providers that are told what to do and a clock that is moved."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import pytest

from tests.workers.models.kinds import ANTHROPIC, DATA, OPENAI, question
from workers.models.asking import AskContext, Asked, NobodyAnsweredError, RetryPolicy, ask
from workers.models.protocol import Answer, Message, ModelError, Part, Question, Role, Trouble, Usage


@dataclass
class Told:
    """A provider that does what it is told."""

    name: str
    replies: list[Trouble | ModelError | None]
    time: Time
    seconds: float = 1.0
    asked: list[Question] = field(default_factory=list)
    timeouts: list[float] = field(default_factory=list)
    model: str = "m"

    def ask(self, question: Question, timeout_s: float, cancelled: Callable[[], bool]) -> Answer:
        self.asked.append(question)
        self.timeouts.append(timeout_s)
        self.time.now += self.seconds
        reply = self.replies.pop(0)
        if reply is None:
            return Answer("yes", None, Usage(10, 5), self.name, "m-1", "req_1")
        if isinstance(reply, ModelError):
            raise reply
        raise ModelError(reply, f"{self.name}: {reply}", provider=self.name, usage=Usage(3, 1))


@dataclass
class Time:
    now: float = 0.0
    slept: list[float] = field(default_factory=list)

    def clock(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds


@pytest.fixture
def time() -> Time:
    return Time()


def asking(time: Time, *providers: Told, patience: RetryPolicy | None = None, **fields: object) -> Asked:
    around = AskContext(clock=time.clock, sleep=time.sleep, chance=lambda: 1.0)
    for name, value in fields.items():
        setattr(around, name, value)
    return ask(question(None), providers, patience, around)


def refused(time: Time, *providers: Told, patience: RetryPolicy | None = None, **fields: object) -> NobodyAnsweredError:
    with pytest.raises(NobodyAnsweredError) as told:
        asking(time, *providers, patience=patience, **fields)
    return told.value


def test_the_first_provider_that_answers_is_taken(time: Time) -> None:
    first, second = Told("a", [None], time), Told("b", [], time)
    found = asking(time, first, second)
    assert found.answer.provider == "a"
    assert [(it.provider, it.model, it.trouble, it.usage, it.seconds) for it in found.tries] == [
        ("a", "m-1", None, Usage(10, 5), 1.0)
    ]
    assert time.slept == []


@pytest.mark.parametrize(
    "trouble", [Trouble.overloaded, Trouble.rate_limited, Trouble.failing, Trouble.unreachable, Trouble.overdue]
)
def test_what_passes_is_waited_for_twice_as_long_each_time_and_then_left(time: Time, trouble: Trouble) -> None:
    first, second = Told("a", [trouble] * 4, time), Told("b", [None], time)
    found = asking(time, first, second)
    assert sum(time.slept) == 2 + 4 + 8
    assert max(time.slept) <= 1.0, "a long sleep would not see that the job was cancelled"
    assert [it.trouble for it in found.tries] == [trouble] * 4 + [None]
    assert len({repr(it) for it in first.asked}) == 1


def test_half_of_a_wait_is_chance(time: Time) -> None:
    asking(time, Told("a", [Trouble.overloaded, None], time), chance=lambda: 0.0)
    assert sum(time.slept) == 1.0


def test_a_wait_has_an_end(time: Time) -> None:
    patience = RetryPolicy(most_tries=9, longest_wait_s=10.0)
    asking(time, Told("a", [Trouble.overloaded] * 6 + [None], time), patience=patience)
    assert sum(time.slept) == 2 + 4 + 8 + 10 + 10 + 10


def test_the_wish_of_the_server_comes_before_our_own_wait(time: Time) -> None:
    later = ModelError(Trouble.rate_limited, "later", retry_after_s=33.5)
    asking(time, Told("a", [later, None], time))
    assert sum(time.slept) == 33.5


def test_a_server_that_wants_too_long_a_wait_is_left(time: Time) -> None:
    later = ModelError(Trouble.rate_limited, "a limits", retry_after_s=90.0)
    found = asking(time, Told("a", [later], time), Told("b", [None], time))
    assert found.answer.provider == "b"
    assert time.slept == []
    error = refused(time, Told("a", [later], time))
    assert str(error) == "a limits, and wants to be asked again in 90 s only"
    assert error.retry_after_s == 90.0


@pytest.mark.parametrize("trouble", [Trouble.refused, Trouble.too_long, Trouble.unauthorised, Trouble.rejected])
def test_what_does_not_pass_is_not_tried_again(time: Time, trouble: Trouble) -> None:
    first, second = Told("a", [trouble], time), Told("b", [trouble], time)
    error = refused(time, first, second)
    assert (error.trouble, error.provider) == (trouble, "b")
    assert str(error) == f"a: {trouble}; b: {trouble}"
    assert [it.provider for it in error.tries] == ["a", "b"]
    assert error.usage == Usage(6, 2)
    assert time.slept == []


@pytest.mark.parametrize(
    ("trouble", "word"), [(Trouble.malformed, "Keep exactly to the form"), (Trouble.truncated, "Be much shorter")]
)
def test_an_answer_that_cannot_be_used_is_told_once_with_its_fault(time: Time, trouble: Trouble, word: str) -> None:
    first, second = Told("a", [trouble, trouble], time), Told("b", [None], time)
    asking(time, first, second)
    plain, told = first.asked
    assert told.messages[0].parts[0] == plain.messages[0].parts[0]
    assert f"a: {trouble}" in told.messages[0].parts[1].text
    assert word in told.messages[0].parts[1].text
    assert second.asked == [plain], "another model did not make that fault"


def test_a_fault_and_a_passing_trouble_do_not_add_up_to_more_tries(time: Time) -> None:
    replies = [Trouble.overloaded, Trouble.malformed, Trouble.overloaded, Trouble.malformed]
    first = Told("a", [*replies], time)
    error = refused(time, first)
    assert [it.trouble for it in error.tries] == replies
    assert len(first.asked[3].messages[0].parts) == 2


def test_a_fault_after_the_models_own_words_is_a_turn_of_its_own(time: Time) -> None:
    own = replace(question(None), messages=(*question(None).messages, Message(Role.assistant, (Part("So:"),))))
    provider = Told("a", [Trouble.malformed, None], time)
    ask(own, (provider,), None, AskContext(clock=time.clock, sleep=time.sleep))
    assert [message.role for message in provider.asked[1].messages] == [Role.user, Role.assistant, Role.user]


@pytest.mark.parametrize("trouble", [Trouble.cancelled, Trouble.out_of_budget])
def test_nobody_else_is_asked_after_an_end_of_ours(time: Time, trouble: Trouble) -> None:
    second = Told("b", [], time)
    error = refused(time, Told("a", [trouble], time), second)
    assert error.trouble is trouble
    assert second.asked == []


def test_cancelling_ends_a_wait(time: Time) -> None:
    error = refused(
        time, Told("a", [Trouble.overloaded, None], time), Told("b", [], time), cancelled=lambda: time.now >= 2
    )
    assert error.trouble is Trouble.cancelled
    assert time.now <= 3
    assert [it.trouble for it in error.tries] == [Trouble.overloaded]


def test_what_is_cancelled_before_is_not_asked(time: Time) -> None:
    provider = Told("a", [], time)
    assert refused(time, provider, cancelled=lambda: True).trouble is Trouble.cancelled
    assert provider.asked == []


def test_all_tries_together_have_an_end(time: Time) -> None:
    patience = RetryPolicy(most_tries=10, request_s=60.0, whole_s=100.0)
    first = Told("a", [Trouble.overdue] * 10, time, seconds=60.0)
    second = Told("b", [None], time)
    error = refused(time, first, second, patience=patience)
    assert first.timeouts == [60.0, 38.0]
    assert error.trouble is Trouble.overdue
    assert second.asked == []


def test_nobody_is_configured(time: Time) -> None:
    error = refused(time)
    assert (error.trouble, str(error)) == (Trouble.rejected, "no provider of language models is configured")


def test_no_provider_sees_a_secret(time: Time) -> None:
    provider = Told("a", [Trouble.malformed, None], time)
    secret = "correct horse battery"
    said = (Message(Role.user, (Part(f"the key is {secret}, or ghp_{'a' * 36}"), Part("fine", stable=True))),)
    asked = Question("x", (Part(f"postgresql://bot:{secret.replace(' ', '')}@db/x"),), said)
    found = ask(asked, (provider,), None, AskContext(clock=time.clock, sleep=time.sleep, secrets=(secret,)))
    assert found.redacted == {"configured secret": 1, "GitHub token": 1, "password in a URL": 1}
    for seen in provider.asked:
        assert "horse" not in repr(seen)
        assert "ghp_" not in repr(seen)
        assert seen.messages[0].parts[1] == Part("fine", stable=True)


def test_no_secret_of_an_answer_is_kept(time: Time) -> None:
    secret, token = "correct horse battery", f"ghp_{'a' * 36}"
    data = {"hypothesis": f"as {token} says", "edits": [{"old": secret, "count": 2}], "note": None}

    class Leaking(Told):
        def ask(self, question: Question, timeout_s: float, cancelled: Callable[[], bool]) -> Answer:
            return replace(super().ask(question, timeout_s, cancelled), text=f"{secret}, {token}", data=data)

    answer = asking(time, Leaking("a", [None], time), secrets=(secret,)).answer
    assert "horse" not in repr(answer)
    assert "ghp_" not in repr(answer)
    assert answer.data is not None
    assert (answer.data["edits"][0]["count"], answer.data["note"]) == (2, None)


def test_two_real_providers_one_of_them_down(time: Time) -> None:
    with ANTHROPIC.serve() as first, OPENAI.serve() as second:
        first.next(*[ANTHROPIC.error(529, "overloaded_error", headers={"retry-after": "3"})] * 4)
        second.next(OPENAI.call("propose", {"path": "a"}), OPENAI.call("propose", DATA))
        providers = (ANTHROPIC.provider(first.base_url), OPENAI.provider(second.base_url))
        around = AskContext(clock=time.clock, sleep=time.sleep)
        found = ask(question(), providers, None, around)
    assert found.answer.data == DATA
    assert [(it.provider, it.trouble) for it in found.tries] == [
        *[("anthropic", Trouble.overloaded)] * 4,
        ("openai", Trouble.malformed),
        ("openai", None),
    ]
    assert sum(time.slept) == 9.0
    assert "at $ there is no text" in second.asked[1].body["messages"][-1]["content"]
