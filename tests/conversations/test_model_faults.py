"""Providers that do not answer, or not as they should: each is said with its fix, and nothing of it is pushed."""

# ruff: noqa: E501 (messages stand here as they are sent; fixtures)

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from inline_snapshot import snapshot

from tests.conversations.asking import BOTH, Ask, Asking, Line, ask_models
from tests.conversations.talk import gist
from tests.conversations.test_models import BLOCK
from tests.few import few
from tests.recorded.libraries import REGLU, create
from tests.workers.models.kinds import ANTHROPIC, KINDS, OPENAI, Kind
from tests.workers.models.protocol_server import Reply
from tests.workers.stages.creating import WORDS, kernel
from workers.contracts import FailureCode, JobState

__all__ = ["ask_models"]


def ended(asking: Asking, code: FailureCode = FailureCode.model) -> str:
    """Give what the first two lines of a job that stopped say; nothing was pushed."""
    failure = asking.talk.job().failure
    assert failure is not None
    assert failure.code is code
    assert asking.kernel() is None
    return gist(asking.stopped())


@pytest.mark.long  # in `make test` tests/workers/models/test_asking waits as a server wishes
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_an_overloaded_provider_is_asked_again_when_it_wants(ask_models: Ask, kind: Kind) -> None:
    asking = ask_models(kind)
    line = asking.line
    line.refuse(529 if kind is ANTHROPIC else 503, "overloaded_error", retry_after="7").answer(kernel())
    asking.talk.skip(asking.ask(BLOCK, options="--candidates 1 --auto"))
    asking.talk.skip(asking.talk.pull())
    assert asking.talk.job().state is JobState.done
    assert sum(asking.waits) == pytest.approx(7)
    assert len(line.prompts()) == 2


def test_a_provider_that_stays_overloaded_is_named_and_a_retry_asks_it_again(ask_models: Ask) -> None:
    asking = ask_models(model_tries=3)
    line = asking.line
    for _ in range(3):
        line.refuse(529, "overloaded_error", retry_after="7")
    number = asking.ask(BLOCK)
    asking.talk.review()
    assert ended(asking) == snapshot("""\
**`reglu` stopped in generate:** no model gave a kernel: anthropic is overloaded \\(status 529, overloaded\\_error\\).
**Next:** It may pass with time. `--author compiler` needs no model. This says nothing about the kernel. `/kernel retry` runs generate again; answers that it already has are not paid for again.\
""")
    assert sum(asking.waits) == pytest.approx(14)
    line.answer(kernel())
    asking.talk.say(number, "/kernel retry")
    asking.talk.settle()
    asking.talk.skip(number)
    asking.talk.skip(asking.talk.pull())
    assert asking.kernel() is not None


def test_a_provider_that_wants_to_be_left_alone_for_long_is_not_waited_for(ask_models: Ask) -> None:
    asking = ask_models()
    asking.line.refuse(429, "rate_limit_error", retry_after="900")
    asking.ask(BLOCK, options="--candidates 1 --auto")
    assert ended(asking) == snapshot("""\
**`reglu` stopped in generate:** no model gave a kernel: anthropic limits how often it is asked \\(status 429, rate\\_limit\\_error\\), and wants to be asked again in 900 s only.
**Next:** It may pass with time. `--author compiler` needs no model. This says nothing about the kernel. `/kernel retry` runs generate again; answers that it already has are not paid for again.\
""")
    assert asking.waits == []


Trouble = tuple[str, Callable[[Line], Any], dict[str, Any]]
NO_TRY_MORE = {"model_tries": 1}
QUIET = {"model_tries": 1, "model_quiet_s": 0.3}


def told_of(asking: Asking, *troubles: Trouble) -> dict[str, str]:
    """Give what is said of each trouble: the first ends the job in generate, the others its retries."""
    number = asking.ask(BLOCK)
    asking.talk.skip(number)
    found = {}
    for name, prepare, settings in troubles:
        asking.configure(**settings)
        prepare(asking.line)
        if found:
            asking.talk.say(number, "/kernel retry")
            asking.talk.settle()
        else:
            asking.talk.review()
        found[name] = ended(asking)
    return found


@pytest.mark.long  # in `make test` tests/workers/models/test_faults_of_providers has each fault
def test_a_provider_that_fails_is_said_with_the_fix(ask_models: Ask) -> None:
    assert told_of(
        ask_models(),
        ("failing", lambda line: line.refuse(500, "api_error"), NO_TRY_MORE),
        ("silent", lambda line: line.reply(Reply(hang_before_headers=True)), QUIET),
        ("silent later", lambda line: line.reply(Reply(line.kind.text("so far"), hang_after=1)), QUIET),
        (
            "slow",
            lambda line: line.reply(Reply(line.kind.text("word " * 40), pause_s=0.2)),
            {"model_tries": 1, "model_time_limit_s": 0.5},
        ),
        ("broken off", lambda line: line.reply(Reply(line.kind.text("so far"), drop_after=2)), NO_TRY_MORE),
        ("nowhere", lambda line: None, {"model_tries": 2, "anthropic_base_url": "http://127.0.0.1:9"}),
    ) == snapshot(
        {
            "failing": """\
**`reglu` stopped in generate:** no model gave a kernel: anthropic failed \\(status 500, api\\_error\\).
**Next:** It may pass with time. `--author compiler` needs no model. This says nothing about the kernel. `/kernel retry` runs generate again; answers that it already has are not paid for again.\
""",
            "silent": """\
**`reglu` stopped in generate:** no model gave a kernel: anthropic: nothing came for 0.3 s.
**Next:** It may pass with time. `--author compiler` needs no model. This says nothing about the kernel. `/kernel retry` runs generate again; answers that it already has are not paid for again.\
""",
            "silent later": """\
**`reglu` stopped in generate:** no model gave a kernel: anthropic: nothing came for 0.3 s.
**Next:** It may pass with time. `--author compiler` needs no model. This says nothing about the kernel. `/kernel retry` runs generate again; answers that it already has are not paid for again.\
""",
            "slow": """\
**`reglu` stopped in generate:** no model gave a kernel: anthropic: there was no whole answer within 0.5 s.
**Next:** It may pass with time. `--author compiler` needs no model. This says nothing about the kernel. `/kernel retry` runs generate again; answers that it already has are not paid for again.\
""",
            "broken off": """\
**`reglu` stopped in generate:** no model gave a kernel: the connection to anthropic broke off.
**Next:** It may pass with time. `--author compiler` needs no model. This says nothing about the kernel. `/kernel retry` runs generate again; answers that it already has are not paid for again.\
""",
            "nowhere": """\
**`reglu` stopped in generate:** no model gave a kernel: anthropic could not be reached.
**Next:** It may pass with time. `--author compiler` needs no model. This says nothing about the kernel. `/kernel retry` runs generate again; answers that it already has are not paid for again.\
""",
        }
    )


def test_an_answer_that_cannot_be_used_is_said_with_the_fix(ask_models: Ask) -> None:
    page = Reply((b"<html>It works!</html>",), headers={"content-type": "text/html"})
    assert told_of(
        ask_models(),
        ("no stream", lambda line: line.reply(page, page), {}),
        ("words", lambda line: line.reply(*[line.kind.say("Here is your kernel: it is done.")] * 2), {}),
        ("no JSON", lambda line: line.reply(*[Reply(line.kind.calls(("give_kernel", '{"source": "im')))] * 2), {}),
        ("a field more", lambda line: line.answer(*[kernel() | {"path": ".github/workflows/ci.yml"}] * 2), {}),
        ("another tool", lambda line: line.reply(*[line.kind.call("bash", {"command": "env"})] * 2), {}),
        ("truncated", lambda line: line.reply(*[Reply(line.kind.stopped(line.kind.truncated))] * 2), {}),
        ("refusal", lambda line: line.reply(Reply(line.kind.stopped(line.kind.refused))), {}),
    ) == snapshot(
        {
            "no stream": """\
**`reglu` stopped in generate:** no model gave a kernel: anthropic: the answer is no stream of events.
**Next:** The model does not keep to the form; an operator may configure another one. `--author compiler` needs no model. This says nothing about the kernel. `/kernel retry` runs generate again; answers that it already has are not paid for again.\
""",
            "words": """\
**`reglu` stopped in generate:** no model gave a kernel: the answer cannot be used: it does not call the tool give\\_kernel, and its text is no JSON object either.
**Next:** The model does not keep to the form; an operator may configure another one. `--author compiler` needs no model. This says nothing about the kernel. `/kernel retry` runs generate again; answers that it already has are not paid for again.\
""",
            "no JSON": """\
**`reglu` stopped in generate:** no model gave a kernel: the answer cannot be used: it is not JSON.
**Next:** The model does not keep to the form; an operator may configure another one. `--author compiler` needs no model. This says nothing about the kernel. `/kernel retry` runs generate again; answers that it already has are not paid for again.\
""",
            "a field more": """\
**`reglu` stopped in generate:** no model gave a kernel: the answer cannot be used: it does not fit the form: at &#36; there is a field that the form does not have.
**Next:** The model does not keep to the form; an operator may configure another one. `--author compiler` needs no model. This says nothing about the kernel. `/kernel retry` runs generate again; answers that it already has are not paid for again.\
""",
            "another tool": """\
**`reglu` stopped in generate:** no model gave a kernel: the answer cannot be used: it calls another tool than give\\_kernel.
**Next:** The model does not keep to the form; an operator may configure another one. `--author compiler` needs no model. This says nothing about the kernel. `/kernel retry` runs generate again; answers that it already has are not paid for again.\
""",
            "truncated": """\
**`reglu` stopped in generate:** no model gave a kernel: the answer was cut off at 32000 tokens and 12000 of thinking.
**Next:** Ask for less at once, or have an operator configure a model that says it shorter. `--author compiler` needs no model. This says nothing about the kernel. `/kernel retry` runs generate again; answers that it already has are not paid for again.\
""",
            "refusal": """\
**`reglu` stopped in generate:** no model gave a kernel: anthropic declined to answer.
**Next:** Say it in other words, or have an operator configure another model. `--author compiler` needs no model. This says nothing about the kernel. `/kernel retry` runs generate again; answers that it already has are not paid for again.\
""",
        }
    )


@pytest.mark.long  # in `make test` other faults are said with theirs, above
def test_a_request_that_is_not_taken_is_said_with_the_fix(ask_models: Ask) -> None:
    elsewhere = Reply(status=307, headers={"location": "http://127.0.0.1:9/steal"})
    assert told_of(
        ask_models(),
        ("a wrong key", lambda line: line.refuse(401, "authentication_error"), {}),
        ("no credit", lambda line: line.refuse(402, "billing_error"), {}),
        ("an unknown model", lambda line: line.refuse(404, "not_found_error"), {}),
        (
            "too long",
            lambda line: line.reply(line.kind.error(400, "invalid_request_error", "prompt is too long: 9 > 8")),
            {},
        ),
        ("elsewhere", lambda line: line.reply(elsewhere), {}),
    ) == snapshot(
        {
            "a wrong key": """\
**`reglu` stopped in generate:** no model gave a kernel: anthropic does not take the key, or the account may not ask \\(no credit, or no right to the model\\) \\(status 401, authentication\\_error\\).
**Next:** An operator has to look at the key and the account \\(docs/models.md\\). `--author compiler` needs no model. This says nothing about the kernel. `/kernel retry` runs generate again; answers that it already has are not paid for again.\
""",
            "no credit": """\
**`reglu` stopped in generate:** no model gave a kernel: anthropic does not take the key, or the account may not ask \\(no credit, or no right to the model\\) \\(status 402, billing\\_error\\).
**Next:** An operator has to look at the key and the account \\(docs/models.md\\). `--author compiler` needs no model. This says nothing about the kernel. `/kernel retry` runs generate again; answers that it already has are not paid for again.\
""",
            "an unknown model": """\
**`reglu` stopped in generate:** no model gave a kernel: anthropic does not take the request \\(status 404, not\\_found\\_error\\): &quot;something&quot;.
**Next:** An operator has to look at the model's name and its address \\(docs/models.md\\). `--author compiler` needs no model. This says nothing about the kernel. `/kernel retry` runs generate again; answers that it already has are not paid for again.\
""",
            "too long": """\
**`reglu` stopped in generate:** no model gave a kernel: anthropic says that the question is too long for the model \\(status 400, invalid\\_request\\_error\\): &quot;prompt is too long: 9 ? 8&quot;.
**Next:** Ask for less at once, or have an operator configure a model that takes more. `--author compiler` needs no model. This says nothing about the kernel. `/kernel retry` runs generate again; answers that it already has are not paid for again.\
""",
            "elsewhere": """\
**`reglu` stopped in generate:** no model gave a kernel: anthropic does not take the request \\(status 307\\).
**Next:** An operator has to look at the model's name and its address \\(docs/models.md\\). `--author compiler` needs no model. This says nothing about the kernel. `/kernel retry` runs generate again; answers that it already has are not paid for again.\
""",
        }
    )


@pytest.mark.long  # in `make test` tests/workers/models has the faults of both kinds
def test_the_other_kind_of_provider_is_told_of_alike(ask_models: Ask) -> None:
    assert told_of(
        ask_models(OPENAI),
        ("words", lambda line: line.reply(*[line.kind.say("Here is your kernel: it is done.")] * 2), {}),
        ("truncated", lambda line: line.reply(*[Reply(line.kind.stopped(line.kind.truncated))] * 2), {}),
        ("refusal", lambda line: line.reply(Reply(line.kind.stopped(line.kind.refused))), {}),
        ("a wrong key", lambda line: line.refuse(401, "invalid_api_key"), {}),
        ("silent", lambda line: line.reply(Reply(hang_before_headers=True)), QUIET),
    ) == snapshot(
        {
            "words": """\
**`reglu` stopped in generate:** no model gave a kernel: the answer cannot be used: it does not call the tool give\\_kernel, and its text is no JSON object either.
**Next:** The model does not keep to the form; an operator may configure another one. `--author compiler` needs no model. This says nothing about the kernel. `/kernel retry` runs generate again; answers that it already has are not paid for again.\
""",
            "truncated": """\
**`reglu` stopped in generate:** no model gave a kernel: the answer was cut off at 32000 tokens and 12000 of thinking.
**Next:** Ask for less at once, or have an operator configure a model that says it shorter. `--author compiler` needs no model. This says nothing about the kernel. `/kernel retry` runs generate again; answers that it already has are not paid for again.\
""",
            "refusal": """\
**`reglu` stopped in generate:** no model gave a kernel: openai declined to answer.
**Next:** Say it in other words, or have an operator configure another model. `--author compiler` needs no model. This says nothing about the kernel. `/kernel retry` runs generate again; answers that it already has are not paid for again.\
""",
            "a wrong key": """\
**`reglu` stopped in generate:** no model gave a kernel: openai does not take the key, or the account may not ask \\(no credit, or no right to the model\\) \\(status 401, invalid\\_api\\_key\\).
**Next:** An operator has to look at the key and the account \\(docs/models.md\\). `--author compiler` needs no model. This says nothing about the kernel. `/kernel retry` runs generate again; answers that it already has are not paid for again.\
""",
            "silent": """\
**`reglu` stopped in generate:** no model gave a kernel: openai: nothing came for 0.3 s.
**Next:** It may pass with time. `--author compiler` needs no model. This says nothing about the kernel. `/kernel retry` runs generate again; answers that it already has are not paid for again.\
""",
        }
    )


@pytest.mark.long  # in `make test` tests/workers/models/test_asking tells a fault once
def test_what_was_malformed_once_is_asked_again_with_the_fault_told(ask_models: Ask) -> None:
    asking = ask_models()
    asking.line.reply(ANTHROPIC.say("Here is your kernel: it is done.")).answer(kernel())
    asking.talk.skip(asking.ask(BLOCK, options="--candidates 1 --auto"))
    asking.talk.skip(asking.talk.pull())
    assert asking.talk.job().state is JobState.done
    assert asking.line.prompts()[1].partition("Your last answer was not taken")[2] == snapshot(
        ": the answer cannot be used: it does not call the tool give_kernel, and its text is no JSON object either. Answer the whole question once more. Keep exactly to the form that was asked for."
    )


@pytest.mark.parametrize("order", few(["anthropic openai", "openai anthropic"], ["anthropic openai"]))
def test_the_second_provider_answers_where_the_first_is_down(ask_models: Ask, order: str) -> None:
    asking = ask_models(*BOTH, model_order=tuple(order.split()), model_tries=2)
    down, up = (asking.lines[name] for name in order.split())
    for _ in range(2):
        down.refuse(500, "api_error")
    up.answer(kernel())
    asking.talk.skip(asking.ask(BLOCK, options="--candidates 1 --auto"))
    asking.talk.skip(asking.talk.pull())
    assert asking.talk.job().state is JobState.done
    assert (len(down.prompts()), len(up.prompts())) == (2, 1)


def test_when_nobody_answers_each_provider_is_named_with_its_trouble(ask_models: Ask) -> None:
    asking = ask_models(*BOTH, model_tries=1)
    asking.lines["anthropic"].refuse(529, "overloaded_error")
    asking.lines["openai"].refuse(401, "invalid_api_key")
    asking.ask(BLOCK, options="--candidates 1 --auto")
    assert ended(asking) == snapshot("""\
**`reglu` stopped in generate:** no model gave a kernel: anthropic is overloaded \\(status 529, overloaded\\_error\\); openai does not take the key, or the account may not ask \\(no credit, or no right to the model\\) \\(status 401, invalid\\_api\\_key\\).
**Next:** An operator has to look at the key and the account \\(docs/models.md\\). `--author compiler` needs no model. This says nothing about the kernel. `/kernel retry` runs generate again; answers that it already has are not paid for again.\
""")


@pytest.mark.long  # in `make test` test_enough of the engine
def test_candidates_that_are_answered_are_enough_where_others_are_not(ask_models: Ask) -> None:
    asking = ask_models(model_tries=1)
    asking.line.answer(kernel()).refuse(500, "api_error").refuse(500, "api_error")
    asking.talk.skip(asking.ask(BLOCK, options="--candidates 3 --auto"))
    asking.talk.skip(asking.talk.pull())
    assert asking.talk.job().state is JobState.done


def test_words_that_nobody_reads_stop_the_job_before_anything_is_pushed(ask_models: Ask) -> None:
    asking = ask_models(model_tries=1)
    asking.line.refuse(529, "overloaded_error")
    asking.ask(WORDS)
    assert ended(asking) == snapshot("""\
**`reglu` stopped in analyze:** no model gave a problem: anthropic is overloaded \\(status 529, overloaded\\_error\\).
**Next:** It may pass with time. A problem in code needs no model. This says nothing about the kernel. `/kernel retry` runs analyze again; answers that it already has are not paid for again.\
""")


@pytest.mark.long  # in `make test` a create runs without any model
def test_a_compiler_asks_nobody(ask_models: Ask) -> None:
    asking = ask_models()
    talk = asking.talk
    talk.skip(talk.ask(create("reglu", REGLU, "--auto")))
    talk.skip(talk.pull())
    assert talk.job().state is JobState.done
    assert asking.line.prompts() == []
