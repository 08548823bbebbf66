"""Problems out of words, and out of code that does not stand alone."""

from __future__ import annotations

from typing import Any

import pytest

from gpu_runner.contracts import CaptureResult
from tests.recorded.libraries import REGLU
from tests.workers.compiler.captured import captured
from tests.workers.stages.context import FakeContext
from tests.workers.stages.creating import WORDS, answers, creating, problem
from workers.contracts import (
    AnalyzeSummary,
    AuthorName,
    CheckpointUpdate,
    CommitUpdate,
    FailureCode,
    ProblemKind,
    ProblemText,
    UserFacingError,
)
from workers.models.protocol import ModelError, Question, Trouble
from workers.stages.analyze import Analyze

ASKED = ProblemText(ProblemKind.words, WORDS)
UNIT = '''\
import torch
from torch import nn

from small.gates import gate

SCALE = 2.0


def unused(x):
    return x


def positive(x):
    """Keep what is positive."""
    return torch.relu(x) * SCALE


class Gated(nn.Module):
    def forward(self, a, b):
        return gate(positive(a), b)
'''
GATES = "import torch\n\n\ndef gate(a, b):\n    return a * b\n\n\ndef other(a):\n    return a\n"


def analyzed(context: FakeContext) -> AnalyzeSummary:
    result = context.run(Analyze())
    (checkpoint,) = [update for update in result.updates if isinstance(update, CheckpointUpdate)]
    assert isinstance(checkpoint.summary, AnalyzeSummary)
    return checkpoint.summary


def failure(context: FakeContext) -> Any:
    with pytest.raises(UserFacingError) as caught:
        context.run(Analyze())
    return caught.value.failure


def text(question: Question) -> str:
    return "\n".join(part.text for message in question.messages for part in message.parts)


def test_words_become_a_problem_that_is_traced_and_the_compiler_still_writes_the_kernel() -> None:
    assumed = ("Both inputs have the same shape.", "T=4096 and I=14336 are typical.")
    context = creating([problem(assumptions=assumed)], given=ASKED)
    summary = analyzed(context)
    assert WORDS in text(context.questions["problem-1"])
    assert (summary.author, summary.problem_source) == ("compiler", REGLU)
    assert [note for note in summary.notes if note.startswith("Assumed")] == [f"Assumed: {it}" for it in assumed]
    assert context.order == ["tests environment", "capture capture-1"]


def test_what_is_wrong_with_a_problem_is_told_in_the_next_round() -> None:
    untraced = CaptureResult(None, "relu takes no lists", 7, "Give a tensor.")
    context = creating(
        [problem("def reference(:"), problem(REGLU.replace("a) * b", "[a]) * b")), problem()],
        answers() | {"capture capture-2": untraced},
        given=ASKED,
    )
    assert analyzed(context).problem_source == REGLU
    assert "parse" in text(context.questions["problem-2"])
    third = text(context.questions["problem-3"])
    assert "relu takes no lists" in third and "line 7" in third and "Give a tensor." in third
    assert context.order == ["tests environment", "capture capture-2", "capture capture-3"]


def test_after_three_rounds_the_failure_says_what_each_came_to() -> None:
    context = creating([problem("x = 1\n"), problem("x = 2\n"), problem("x = 3\n")], given=ASKED)
    told = failure(context)
    assert (told.code, len(told.attempts)) == (FailureCode.problem, 3)
    assert "no problem that can be used" in told.message


def test_a_model_that_does_not_answer_is_named() -> None:
    context = creating([ModelError(Trouble.overloaded, "scripted is overloaded")], given=ASKED)
    told = failure(context)
    assert (told.code, told.message) == (FailureCode.model, "no model gave a problem: scripted is overloaded")


@pytest.mark.parametrize("author", [AuthorName.auto, AuthorName.compiler])
def test_without_a_model_words_are_refused_as_before(author: AuthorName) -> None:
    told = failure(creating(None, given=ASKED, author=author))
    assert told.message == "words need a model author, and none is configured"


def test_the_compiler_author_alone_asks_no_model_even_where_there_is_one() -> None:
    context = creating([problem()], given=ASKED, author=AuthorName.compiler)
    assert failure(context).code is FailureCode.problem
    assert context.questions == {}


def test_a_problem_that_stands_alone_asks_nobody() -> None:
    context = creating([])
    assert analyzed(context).problem_source == REGLU
    assert context.questions == {}


def test_code_that_does_not_stand_alone_is_told_with_all_that_it_uses_and_no_more() -> None:
    files = {"small/unit.py": UNIT.encode(), "small/gates.py": GATES.encode()}
    given = ProblemText(ProblemKind.path, path="small/unit.py", symbol="Gated")
    context = creating([problem()], given=given, files=files)
    analyzed(context)
    told = text(context.questions["problem-1"])
    for held in (
        "class Gated",
        "def positive",
        "SCALE = 2.0",
        "from torch import nn",
        "def gate(a, b)",
        "small/gates.py",
    ):
        assert held in told
    assert "unused" not in told and "def other" not in told


def test_a_symbol_that_is_not_there_is_refused_before_anybody_is_asked() -> None:
    given = ProblemText(ProblemKind.path, path="small/unit.py", symbol="Gate")
    context = creating([], given=given, files={"small/unit.py": UNIT.encode()})
    told = failure(context)
    assert told.message == "`small/unit.py` defines no `Gate`"
    assert "`Gated`" in (told.fix or "")


def test_lines_behind_a_link_are_code_for_a_model_and_need_one() -> None:
    lines = "\n".join(UNIT.splitlines()[12:15])
    given = ProblemText(ProblemKind.permalink, lines, path="x.py", url="https://github.com/o/r/blob/main/x.py#L13-L15")
    context = creating([problem()], given=given)
    analyzed(context)
    assert "torch.relu(x) * SCALE" in text(context.questions["problem-1"])
    assert failure(creating(None, given=given)).code is FailureCode.problem


def test_a_component_of_the_installed_transformers_is_read_and_not_imported() -> None:
    import sys

    known = {name for name in sys.modules if name.startswith("transformers.models")}
    given = ProblemText(ProblemKind.path, path="transformers", symbol="llama.LlamaMLP")
    context = creating([problem()], given=given)
    analyzed(context)
    told = text(context.questions["problem-1"])
    assert "class LlamaMLP" in told and "class LlamaAttention" not in told
    assert "transformers/models/llama/modeling_llama.py:LlamaMLP" in told
    assert {name for name in sys.modules if name.startswith("transformers.models")} == known


@pytest.mark.parametrize("symbol", ["llama.LlamaNothing", "nowhere.Thing", "Nothing"])
def test_a_component_that_transformers_does_not_have_is_refused(symbol: str) -> None:
    context = creating([], given=ProblemText(ProblemKind.path, path="transformers", symbol=symbol))
    assert failure(context).code is FailureCode.problem


def test_a_review_of_the_problem_is_acted_on_by_the_model_and_answered_point_by_point() -> None:
    swiglu = REGLU.replace("relu", "silu")
    context = creating([problem(assumptions=("T is rows.",))], given=ASKED)
    analyzed(context)
    again = context.again("Use SiLU as the gate.", "And say so in the docstring.")
    again.speaks = [problem(swiglu, replies=("The gate is SiLU now.", "The docstring names @everyone it."))]
    again.answers = answers() | {"capture": CaptureResult(captured("swiglu")[1])}
    summary = analyzed(again)
    assert summary.problem_source == swiglu
    assert summary.answered == (
        "“Use SiLU as the gate.”: The gate is SiLU now.",
        "“And say so in the docstring.”: The docstring names @everyone it.",
    )
    told = text(again.questions["problem-1"])
    assert WORDS in told and "F.relu(a) * b" in told and "Use SiLU as the gate." in told


def test_a_python_block_in_a_review_replaces_the_problem_without_a_model() -> None:
    context = creating([problem()], given=ASKED)
    analyzed(context)
    again = context.again(f"Take this:\n\n```python\n{REGLU.replace('14336', '8192')}```\n")
    again.speaks = []
    assert "8192" in analyzed(again).problem_source
    assert again.questions == {}


def test_the_problem_is_committed_as_the_models_reference() -> None:
    context = creating([problem()], given=ASKED)
    result = context.run(Analyze())
    (commit,) = [update for update in result.updates if isinstance(update, CommitUpdate)]
    assert "F.relu(a) * b" in (commit.changes[0].text or "")


def test_a_file_that_does_not_parse_is_told_and_no_model_is_asked_about_it() -> None:
    given = ProblemText(ProblemKind.path, path="small/unit.py")
    context = creating([], given=given, files={"small/unit.py": b"def reference(:\n"})
    assert failure(context).code is FailureCode.problem
    assert context.questions == {}
