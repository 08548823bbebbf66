"""Reads a target's TOML files. Pure."""

from __future__ import annotations

import tomllib
from typing import Any

MOST_CHARACTERS, MOST_DOTS = (
    2**20,
    1000,
)  # of a file; dots of its lines, squared and added up, count as those of ten such lines


def read_toml(text: str) -> dict[str, Any] | None:
    """A document; None where it is none, or nested or long beyond what can be read: the tool whose it is says so better."""
    # tomllib takes the square of the parts of a key.
    if len(text) > MOST_CHARACTERS or sum(line.count(".") ** 2 for line in text.split("\n")) > 10 * MOST_DOTS**2:
        return None
    try:
        return tomllib.loads(text.removeprefix("\ufeff"))
    except (ValueError, RecursionError):  # a number of many thousand digits is a ValueError alone
        return None


def table_in(document: object, *names: str) -> dict[str, Any]:
    """The table under a path of names; an empty one where there is none."""
    for name in names:
        document = document.get(name) if isinstance(document, dict) else None
    return document if isinstance(document, dict) else {}
