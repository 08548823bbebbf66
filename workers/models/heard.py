"""What is gathered while an answer streams in, the same for every provider: bounded text, tool calls, tokens. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from workers.models.budgets import CHARACTERS_A_TOKEN, most_of
from workers.models.forms import MOST_CHARACTERS, FormError, found_in, parsed
from workers.models.protocol import Form, ModelError, Question, Trouble, Usage

MOST_CALLS = 8
MOST_TOKENS = 10**9


class HeardError(Exception):
    """The stream is not what the protocol says; the text is ours."""


@dataclass
class ToolCall:
    """A call of a tool as far as it was heard: ``pieces`` of its JSON input."""

    name: str = ""
    pieces: list[str] = field(default_factory=list)
    id: str | None = None


@dataclass
class Heard:
    """What a provider said until now."""

    model: str = ""
    pieces: list[str] = field(default_factory=list)
    calls: dict[int, ToolCall] = field(default_factory=dict)
    usage: Usage = field(default_factory=Usage)
    characters: int = 0
    error: Mapping[str, Any] | None = (
        None  # what the provider said in place of an answer, within a stream that began well
    )
    ended: Trouble | None = None  # why the provider stopped, where that is no whole answer
    whole: bool = False  # the provider said that the answer is at its end
    counted: bool = False  # and how long it became: before that its counts are of a part
    begun: bool = False  # the provider took the request: it has read the question, or is about to

    def say(self, text: str) -> str:
        """Count a piece of the answer.

        Raises:
            HeardError: the answer is larger than any that can be used.
        """
        self.characters += len(text)
        if self.characters > MOST_CHARACTERS:
            raise HeardError(f"the answer is longer than {MOST_CHARACTERS} characters")
        return text

    def call(self, index: object) -> ToolCall:
        """Give the call of a tool at a place of the answer.

        Raises:
            HeardError: the place is none, or there are more calls than any answer has.
        """
        if not isinstance(index, int) or isinstance(index, bool):
            raise HeardError("a tool is called at no place of the answer")
        if index not in self.calls and len(self.calls) >= MOST_CALLS:
            raise HeardError(f"the answer has more than {MOST_CALLS} calls")
        return self.calls.setdefault(index, ToolCall())

    @property
    def text(self) -> str:
        """Give the text of the answer."""
        return "".join(self.pieces)


def text_of(value: object) -> str:
    """Give a value of the stream that must be a text.

    Raises:
        HeardError: it is none.
    """
    if not isinstance(value, str):
        raise HeardError("what must be a text in the stream is none")
    return value


def spelled(value: object) -> str:
    """Give the input of a tool as JSON; some servers send the object itself.

    Raises:
        HeardError: it is neither.
    """
    return json.dumps(value) if isinstance(value, dict) else text_of(value)


def tokens(value: object) -> int:
    """Give a count of tokens, 0 where a server says none or nonsense."""
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MOST_TOKENS else 0


def billed(heard: Heard, question: Question) -> Usage:
    """Give what a provider will bill for a request of which something was heard: what it counted, and where it did not, the most.

    The length of an answer is told at its end alone. Until then it is what was heard, and all the thinking that there was room for:
    how much of that was done is told by nobody. What was read is told by some at the start, by others at the end.
    """
    used = heard.usage
    if not used.input_tokens + used.cache_read_tokens + used.cache_written_tokens:
        used = replace(used, input_tokens=most_of(question, None).input_tokens)
    if heard.counted and used.output_tokens:
        return used
    said = min(-(-heard.characters // CHARACTERS_A_TOKEN), question.most_tokens) + question.thinking_tokens
    return replace(used, output_tokens=max(used.output_tokens, said))


def concluded(heard: Heard, question: Question, provider: str) -> dict[str, Any] | None:
    """Give the form's object out of what was heard, None for an answer in text.

    Raises:
        ModelError: it broke off, was cut off or declined, or is not what was asked for; without usage, which is its caller's.
    """
    if heard.ended is Trouble.refused:
        raise ModelError(Trouble.refused, f"{provider} declined to answer", provider=provider)
    if heard.ended is Trouble.truncated:
        room = f"{question.most_tokens} tokens"
        room += f" and {question.thinking_tokens} of thinking" if question.thinking_tokens else ""
        sentence = f"the answer was cut off at {room}"
        raise ModelError(Trouble.truncated, sentence, provider=provider)
    if heard.ended is not None:
        raise ModelError(heard.ended, "the model stopped before its answer was whole", provider=provider)
    if not heard.whole:
        raise ModelError(Trouble.unreachable, f"the answer of {provider} broke off", provider=provider)
    try:
        return _data(heard, question.form)
    except FormError as error:
        fault = str(error)
    # Outside of the handler: the parser's error, which would hang on it, quotes the answer.
    raise ModelError(Trouble.malformed, f"the answer cannot be used: {fault}", provider=provider)


def _data(heard: Heard, form: Form | None) -> dict[str, Any] | None:
    calls = list(heard.calls.values())
    if form is None:
        if calls:
            raise FormError("it calls a tool, and none was offered")
        if not heard.text.strip():
            raise FormError("it is empty")
        return None
    if not calls:
        # Some local models write the call as text.
        return found_in(heard.text, form)
    if len(calls) > 1:
        raise FormError(f"it calls {len(calls)} tools; one call of {form.name} is the answer")
    if calls[0].name != form.name:
        raise FormError(f"it calls another tool than {form.name}")
    return parsed("".join(calls[0].pieces), form)
