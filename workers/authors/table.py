"""The closed table of authors. Pure."""

from __future__ import annotations

from workers.authors.compiler import CompilerAuthor
from workers.authors.protocol import Author

AUTHORS: dict[str, Author] = {"compiler": CompilerAuthor()}
ALIASES = {"auto": "compiler"}


class UnknownAuthorError(LookupError):
    """No author has this name."""


def author_names() -> tuple[str, ...]:
    """The names that ``author_named`` knows, aliases too, sorted."""
    return tuple(sorted({*AUTHORS, *ALIASES}))


def author_named(name: str) -> Author:
    """The author of a name; ``auto`` is the author that needs no model.

    Raises:
        UnknownAuthorError: there is none of this name.
    """
    try:
        return AUTHORS[ALIASES.get(name, name)]
    except KeyError:
        known = ", ".join(author_names())
        raise UnknownAuthorError(f"there is no author `{name}`; known: {known}") from None
