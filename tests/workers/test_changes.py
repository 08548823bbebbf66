"""What may be committed: text, and Python with one reading."""

from __future__ import annotations

import pytest

from workers.contracts import FileChange, unreadable


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("data.csv", "a\ud800,1\n"),
        ("data.csv", "a\0,1\n"),
        ("ops/x.py", "X = '\ud800'\n"),
        ("ops/x.py", "X = 'a\u202eb'\n"),
        ("ops/x.py", '"""Fixes it\ufe0f."""\n'),
    ],
)
def test_what_is_no_text_or_hides_something_is_refused_by_its_path(path: str, text: str) -> None:
    failure = unreadable((FileChange("ok.py", "x = 1\n"), FileChange("gone.csv", None), FileChange(path, text)))
    assert failure is not None
    assert f"`{path}`" in failure.message
    assert failure.fix


def test_what_is_text_is_committed() -> None:
    assert unreadable((FileChange("data.csv", "ä,👍\n"), FileChange("ops/x.py", '"""@octocat, #1."""\n'))) is None
