"""Which block of an issue is its problem."""

from __future__ import annotations

from service.commands.command import Command
from service.commands.markdown import find_problem_block
from service.commands.parser import resolve_problem
from workers.contracts import ProblemKind, ProblemText, Verb

PROBLEM = "def reference(a):\n    return a\n"


def test_the_last_python_block_is_taken() -> None:
    assert find_problem_block("```python\na = 1\n```\n\n```py\nb = 2\n```\n") == "b = 2\n"


def test_a_block_with_a_reference_goes_before_a_later_example() -> None:
    assert find_problem_block(f"```python\n{PROBLEM}```\nuse:\n```python\ny = reference(x)\n```") == PROBLEM


def test_an_unlabelled_block_needs_a_reference_or_a_model() -> None:
    assert find_problem_block("```\nlog\n```") is None
    assert find_problem_block(f"```\n{PROBLEM}```") == PROBLEM
    assert find_problem_block("~~~\nclass Model(nn.Module):\n    pass\n~~~") == "class Model(nn.Module):\n    pass\n"


def test_a_quoted_block_is_somebody_elses() -> None:
    assert find_problem_block("> ```python\n> a = 1\n> ```") is None


def test_a_block_in_folded_details_is_found() -> None:
    body = f"<details><summary>code</summary>\n\n```python title=x\n{PROBLEM}```\n\n</details>"
    assert find_problem_block(body) == PROBLEM


def test_there_may_be_none() -> None:
    assert find_problem_block("") is None
    assert find_problem_block("please") is None


def test_the_issue_is_asked_only_where_the_command_has_no_code_of_its_own() -> None:
    issue = f"```python\n{PROBLEM}```"
    block = ProblemText(ProblemKind.block, "x = 1\n")
    words = ProblemText(ProblemKind.words, "please")
    assert resolve_problem(Command(Verb.create, "a", block), issue) == block
    assert resolve_problem(Command(Verb.create, "a", words), issue).text == PROBLEM
    assert resolve_problem(Command(Verb.create, "a", words), "no code") == words
    assert resolve_problem(Command(Verb.create, "a"), "no code").kind is ProblemKind.missing
