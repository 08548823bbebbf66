"""The text of a question as providers take it: no blank piece, no half character, no two turns of one speaker. Pure."""

from __future__ import annotations

from workers.models.protocol import Message, ModelError, Part, Question, Trouble


def sendable(text: str) -> str:
    """Give the text with every half of a surrogate pair replaced, which UTF-8 cannot spell."""
    return text.encode("utf-8", "replace").decode("utf-8")


def spoken(parts: tuple[Part, ...]) -> tuple[Part, ...]:
    """Give the parts that say something; the mark of a blank part falls back on the part before it."""
    kept: list[Part] = []
    for part in parts:
        if part.text.strip():
            kept.append(Part(sendable(part.text), part.stable))
        elif part.stable and kept:
            kept[-1] = Part(kept[-1].text, stable=True)
    return tuple(kept)


def turns(question: Question, provider: str) -> tuple[Message, ...]:
    """Give the messages that say something, those of one speaker in a row as one, since some servers refuse them otherwise.

    Raises:
        ModelError: nothing is asked.
    """
    merged: list[Message] = []
    for message in question.messages:
        parts = spoken(message.parts)
        if not parts:
            continue
        if merged and merged[-1].role is message.role:
            merged[-1] = Message(message.role, merged[-1].parts + parts)
        else:
            merged.append(Message(message.role, parts))
    if not merged:
        raise ModelError(Trouble.rejected, "the question is empty", provider=provider)
    return tuple(merged)
