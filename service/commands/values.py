"""The values of options: read, checked, and put together. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from service.commands.command import GivenOptions
from service.commands.grammar import REF, Option, ValueKind, architecture
from workers.contracts import AuthorName, Choose, Goal, parse_scope, parse_target, written_scope

ANY_GPU = ("auto", "any", "auto-detect")


def read_value(option: Option, text: str) -> str:
    """Give a value as it is meant.

    Raises:
        ValueError: it is none for this option; the text says what would be, in one sentence.
    """
    return READERS[option.kind](option, text)


def given_options(values: Mapping[str, str]) -> GivenOptions:
    """Give the options of a command from their values, which were read before."""
    return GivenOptions(
        author=AuthorName(values["author"]) if "author" in values else None,
        layout=values.get("layout"),
        auto=bool(values.get("auto")),
        gpu=values.get("gpu") or None,
        goal=Goal(values["goal"]) if "goal" in values else None,
        scope=values.get("scope"),
        variants=int(values["variants"]) if "variants" in values else None,
        target=values.get("target"),
        against=values.get("against"),
        candidates=int(values["candidates"]) if "candidates" in values else None,
        repairs=int(values["repairs"]) if "repairs" in values else None,
        choose=Choose(values["choose"]) if "choose" in values else None,
        dry_run=bool(values.get("dry-run")),
        profile=bool(values.get("profile")),
    )


def _choice(option: Option, text: str) -> str:
    if text.lower() not in option.choices:
        raise ValueError("")
    return text.lower()


def _architecture(_option: Option, text: str) -> str:
    if text.lower() in ANY_GPU:
        return ""
    found = architecture(text)
    if found is None:
        raise ValueError("An architecture is written like `sm_90`, `h100` or `hopper`.")
    return found


def _count(option: Option, text: str) -> str:
    # int() would take digits of every script, and underscores.
    if not (text.isascii() and text.isdigit() and len(text) <= 6 and 1 <= int(text) <= option.most):
        raise ValueError(f"It is a whole number from 1 to {option.most}.")
    return str(int(text))


def _target(_option: Option, text: str) -> str:
    parse_target(text)
    return " ".join(text.split())


def _scope(_option: Option, text: str) -> str:
    return written_scope(*parse_scope(text))


def _ref(_option: Option, text: str) -> str:
    if not REF.fullmatch(text):
        raise ValueError(
            "It is the name of a branch or tag of this repository, or a commit, such as `main` or `v1.2.0`."
        )
    return text


READERS: dict[ValueKind, Callable[[Option, str], str]] = {
    ValueKind.choice: _choice,
    ValueKind.architecture: _architecture,
    ValueKind.number: _count,
    ValueKind.target: _target,
    ValueKind.scope: _scope,
    ValueKind.ref: _ref,
}
