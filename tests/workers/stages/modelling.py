"""Optimize jobs with a model in memory: what it says, as answers of its forms."""

from __future__ import annotations

from typing import Any

from tests.workers.stages.answers import answers
from tests.workers.stages.context import Answers, FakeContext, Said, Spoken, optimizing
from tests.workers.stages.library import GEGLU, PATH
from workers.contracts import AuthorName
from workers.models.protocol import ModelError, Question, Trouble
from workers.stages.profiling import Profile

DIAGNOSIS: dict[str, Any] = {
    "bottleneck": "One program walks a whole row <img src=x> @everybody.",
    "evidence": ["backward runs at 0.50 of its floor"],
    "steps": ["Let a program take a block of a row.", "Use eight warps."],
}
DOWN = ModelError(Trouble.overloaded, "scripted is overloaded, after 3 tries")
WARPS = "BLOCK_SIZE=BLOCK_SIZE, num_warps=4"


def change(old: str, new: str, change: str = "Eight warps a program.", **more: Any) -> dict[str, Any]:
    """Give a variant that puts one text of the file in the place of another; ``replies`` are texts in order."""
    replies = [{"number": number, "text": text} for number, text in enumerate(more.pop("replies", ()), 1)]
    notes = {"hypothesis": "Too few warps hide the loads.", "change": change, "expected": "5% at all sizes."}
    return {**notes, "edits": [{"path": PATH, "old": old, "new": new}], "replies": replies} | more


def blocks(size: int, before: int = 1024, **more: Any) -> dict[str, Any]:
    """Give a variant with other blocks in backward."""
    place = "    db = torch.empty_like(b)\n    BLOCK_SIZE = {}\n"
    return change(place.format(before), place.format(size), f"Blocks of {size} in backward.", **more)


def whole(text: str, **more: Any) -> dict[str, Any]:
    """Give a variant by its whole file."""
    given = change("a", "b", **more)
    return {key: value for key, value in given.items() if key != "edits"} | {"source": text}


def added(line: str, **more: Any) -> dict[str, Any]:
    """Give a variant with one more line of code."""
    return whole(f"{GEGLU}\n\n{line}\n", **more)


def asked(context: FakeContext, key: str) -> str:
    """Give all that a question said."""
    return text(context.questions[key])


def text(question: Question) -> str:
    """Give a question's text."""
    return "\n".join(part.text for message in question.messages for part in message.parts)


def modelled(
    speaks: list[Said] | Spoken | None, made: Answers | None = None, author: AuthorName = AuthorName.llm, **options: Any
) -> FakeContext:
    """Give a job whose profile stands, with what its model will say in optimize."""
    context = optimizing(answers() if made is None else made, author=author, **options)
    context.speaks = [DIAGNOSIS]
    context.run(Profile())
    context.speaks = speaks
    again = context.again()
    again.attempt = 1
    return again
