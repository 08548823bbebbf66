"""The table of authors."""

from __future__ import annotations

import pytest

from workers.authors.compiler import CompilerAuthor
from workers.authors.table import UnknownAuthorError, author_named, author_names


def test_auto_is_the_author_that_needs_no_model() -> None:
    assert isinstance(author_named("auto"), CompilerAuthor)
    assert author_named("compiler").name == "compiler"


def test_unknown_author_is_refused_with_the_known_ones() -> None:
    with pytest.raises(UnknownAuthorError, match="auto, compiler"):
        author_named("replay_of_nobody")
    assert author_names() == ("auto", "compiler")
