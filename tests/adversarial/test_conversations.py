"""The set in whole conversations: whatever a model answers, the repository has the reference and nothing else."""

from __future__ import annotations

import pytest

from tests.adversarial.table import ATTACKS, Stop
from tests.conversations.asking import KERNEL_PATH, Ask, Asking
from tests.conversations.talk import REPOSITORY, gist
from tests.conversations.test_models import BLOCK
from tests.recorded.libraries import LIGER, PLAIN
from tests.workers.stages.creating import RIGHT, WRONG, kernel
from workers.contracts import FailureCode, JobState

AT_ONCE = 6  # a candidate and five repairs
READ = [attack for name, attack in ATTACKS.items() if attack.stop is Stop.reading and name != "a_million_lines"]


def pushed(asking: Asking) -> dict[str, list[str]]:
    """Give the commits of each branch that the bot made, by their first lines."""
    hub = asking.talk.hub
    branch = asking.talk.job().branch
    assert set(hub.branches(REPOSITORY)) <= {"main", branch}
    rows = asking.talk.page(asking.talk.pull()).splitlines()
    return {branch or "": [row.partition(": ")[2] for row in rows if " committed: " in row]}


def untouched(asking: Asking) -> bool:
    """Tell whether every file that stood is as it was, on the job's branch too."""
    hub, branch = asking.talk.hub, asking.talk.job().branch or "main"
    return all(
        hub.read_file(REPOSITORY, place, path) == text for place in ("main", branch) for path, text in PLAIN.items()
    )


def test_what_reading_stops_never_reaches_a_runner_or_a_branch(ask_models: Ask) -> None:
    asking = ask_models()
    talk, line = asking.talk, asking.line
    number = asking.ask(BLOCK, options=f"--candidates 1 --repairs {AT_ONCE - 1}")
    talk.skip(number)
    for at in range(0, len(READ), AT_ONCE):
        attacks = READ[at : at + AT_ONCE]
        extra = [line.kind.error(400, "invalid_request_error")] * (len(attacks) < AT_ONCE)
        line.answer(*[kernel(attack.source) for attack in attacks]).reply(*extra)
        if at == 0:
            talk.review()
        else:
            talk.say(number, "/kernel retry")
            talk.settle()
        talk.skip(number)
        talk.skip(talk.pull())
        failure = talk.job().failure
        assert failure is not None
        assert failure.code in (FailureCode.verdict, FailureCode.model)
        for attack, told in zip(attacks, failure.attempts, strict=False):
            assert f"ended as `{attack.ends.value}`" in told
            assert attack.words in told
    assert talk.asked() == ["imports", "capture"]
    assert list(pushed(asking).values()) == [["Add the reference of reglu and its tests"]]
    assert untouched(asking)
    assert asking.kernel() is None


def test_an_answer_without_end_is_cut_and_not_read(ask_models: Ask) -> None:
    asking = ask_models()
    asking.line.answer(*[kernel(ATTACKS["a_million_lines"].source)] * 2)
    asking.talk.skip(asking.ask(BLOCK))
    asking.talk.review()
    assert "the answer is longer than 2000000 characters" in gist(asking.stopped())
    assert asking.kernel() is None


@pytest.mark.long  # in `make test` the same answers are judged in `test_answers`
@pytest.mark.slow
def test_the_real_runner_stops_the_rest_and_passes_what_is_right(ask_models: Ask) -> None:
    asking = ask_models(real_runner=True)
    talk = asking.talk
    names = ("compiled", "decoy")
    asking.line.answer(*[kernel(ATTACKS[name].source) for name in names], kernel(RIGHT))
    number = asking.ask(BLOCK, options="--candidates 1 --repairs 2")
    talk.skip(number)
    talk.review()
    talk.skip(number)
    (body,) = talk.heard(talk.pull())[-1:]
    rows = [row for row in body.splitlines() if row.startswith(("| 1 ", "| 2 ", "| 3 "))]
    assert [row.split("`")[1] for row in rows] == [*(ATTACKS[name].ends.value for name in names), "passed"]
    prompts = asking.line.prompts()
    assert "The last proposal failed" in prompts[1]
    assert RIGHT[RIGHT.index("@triton.jit") :] in (asking.kernel() or "")
    assert list(pushed(asking).values()) == [["Add the reference of reglu and its tests", "Add the reglu kernel"]]
    assert untouched(asking)
    assert talk.job().state is not JobState.failed
    assert KERNEL_PATH in body


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_wrong_kernel_for_the_liger_layout_ends_with_its_verdict_and_is_repaired(ask_models: Ask) -> None:
    asking = ask_models(real_runner=True, files=LIGER)
    talk = asking.talk
    wrong, right = (text.replace("class ReGLUFunction", "class LigerReGLUFunction") for text in (WRONG, RIGHT))
    asking.line.answer(kernel(wrong), kernel(right))
    number = asking.ask(BLOCK, options="--candidates 1 --repairs 1")
    talk.review()
    talk.skip(number)
    body = talk.heard(talk.pull())[-1]
    rows = [row for row in body.splitlines() if row.startswith(("| 1 ", "| 2 "))]
    assert [row.split("`")[1] for row in rows] == ["incorrect_gradient", "passed"]
    assert "The last proposal failed" in asking.line.prompts()[1] and "gradient of a" in asking.line.prompts()[1]
    assert talk.job().state is JobState.waiting
    assert list(pushed(asking).values()) == [["Add the reference of reglu and its tests", "Add the reglu kernel"]]
    branch = talk.job().branch or ""
    made = talk.hub.read_file(REPOSITORY, branch, "src/liger_kernel/ops/reglu.py") or b""
    assert right[right.index("@triton.jit") :].encode() in made
    standing = [path for path in LIGER if path.startswith("src/liger_kernel/ops/") and not path.endswith("__init__.py")]
    assert standing and all(talk.hub.read_file(REPOSITORY, branch, path) == LIGER[path] for path in standing)
