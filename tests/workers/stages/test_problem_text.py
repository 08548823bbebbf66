"""A problem from a file of the repository: what cannot be read is refused with its reason, and nothing breaks."""

from __future__ import annotations

import pytest

from tests.recorded.libraries import REGLU
from workers.contracts import FailureCode, ProblemKind, ProblemText, UserFacingError
from workers.stages.problem import problem_source, revised_source
from workers.tree import Tree

PATH = "problems/unit.py"


def read(text: str, symbol: str | None = "reference") -> str:
    return problem_source(ProblemText(ProblemKind.path, path=PATH, symbol=symbol), Tree({PATH: text.encode()}))


@pytest.mark.parametrize("symbol", [None, "reference"])
def test_a_problem_file_is_taken_as_it_is(symbol: str | None) -> None:
    assert read(REGLU, symbol) == REGLU


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("x = 1\ndef reference(:\n", "does not parse: invalid syntax on line 2"),
        (f"x = {'-' * 5000}1\n", "does not parse: it nests too deeply"),
        (f"x = {'lambda:' * 3000}1\n", "does not parse: it nests too deeply"),
        ("def other(a):\n    return a\n", "defines no `reference`"),
    ],
    ids=["syntax", "recursion", "memory", "another name"],
)
def test_a_file_that_cannot_be_read_is_refused_with_its_reason(text: str, told: str) -> None:
    with pytest.raises(UserFacingError) as refused:
        read(text)
    assert refused.value.failure.code is FailureCode.problem
    assert refused.value.failure.message == f"`{PATH}` {told}"
    assert refused.value.failure.fix


@pytest.mark.parametrize(
    "text",
    [
        "- like so:\n\n  ```python\n  def reference(a):\n      return a\n  ```\n",
        " ```py3\n def reference(a):\n     return a\n ```\n",
        "```Python\r\ndef reference(a):\r\n    return a\r\n```\r\n",
        "~~~\ndef reference(a):\n    return a\n~~~~\n",
        "```python\ndef reference(a):\n    return a\n",
    ],
)
def test_a_block_is_found_as_github_shows_it(text: str) -> None:
    assert revised_source((text,), "before") == "def reference(a):\n    return a\n"


@pytest.mark.parametrize(
    "text",
    [
        "````md\n```python\ndef reference(a):\n    return a\n```\n````\n",
        "    ```python\n    def reference(a):\n    ```\n",
        "```text\ndef reference(a):\n    return a\n```\n",
    ],
)
def test_what_only_looks_like_a_block_is_none(text: str) -> None:
    assert revised_source((text,), "before") == "before"
