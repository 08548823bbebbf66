"""A local Messages API that counts tokens and keeps a prompt cache by the rules of Anthropic's documentation.

Source: https://docs.anthropic.com/en/docs/build-with-claude/prompt-caching: a prefix is read where it was marked before, tools
first, then system, then messages; what a thinking parameter or a tool choice changes is cached for messages only.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tests.recorded.models.jobs import RecordedCommand
from tests.workers.models.anthropic_server import REQUEST_ID, call_block, stream
from tests.workers.models.protocol_server import Asked, Reply

Count = Callable[[str], int]
CALL_TOKENS = 40  # of the envelope of a tool's call


@dataclass(frozen=True)
class Prefix:
    """The start of a request up to a mark: what it is known by, and its tokens."""

    key: str
    tokens: int


@dataclass
class Provider:
    """Answers the questions of one job. Of a round the first is asked alone, and those after it read the prefix that it wrote."""

    job: RecordedCommand
    count: Count
    asked: int = 0
    _cached: set[str] = field(default_factory=set)
    _guard: threading.Lock = field(default_factory=threading.Lock)

    def replies(self) -> list[Callable[[Asked], Reply]]:
        """Give a reply for each question that the job shall ask."""
        return [self._reply] * self.job.questions

    def _reply(self, asked: Asked) -> Reply:
        total, prefixes = measured(asked.body, self.count)
        with self._guard:
            number, self.asked = self.asked, self.asked + 1
            read = max((prefix.tokens for prefix in prefixes if prefix.key in self._cached), default=0)
            self._cached.update(prefix.key for prefix in prefixes)
        longest = max((prefix.tokens for prefix in prefixes), default=0)
        tool = asked.body["tools"][0]["name"]
        json_text = json.dumps(self.job.answers(tool, text_of(asked.body), number))
        pieces = stream(
            call_block(tool, json_text),
            reason="tool_use",
            output_tokens=self.count(json_text) + CALL_TOKENS,
            input_tokens=total - longest,
            cache_read_input_tokens=read,
            cache_creation_input_tokens=longest - read,
        )
        return Reply(pieces, headers={"request-id": REQUEST_ID})


def measured(body: dict[str, Any], count: Count) -> tuple[int, tuple[Prefix, ...]]:
    """Give the tokens of a request, and its marked prefixes, shortest first."""
    mode = json.dumps([body.get("thinking"), body.get("tool_choice")])
    seen, tokens = [json.dumps(body["tools"])], count(json.dumps(body["tools"]))
    prefixes = []
    of_messages = [block for message in body["messages"] for block in message["content"]]
    for block, kind in [*((b, "") for b in body.get("system", [])), *((b, mode) for b in of_messages)]:
        seen.append(block["text"])
        tokens += count(block["text"])
        if "cache_control" in block:
            prefixes.append(Prefix("\0".join((kind, *seen)), tokens))
    return tokens, tuple(prefixes)


def text_of(body: dict[str, Any]) -> str:
    """Give all that the messages of a request say."""
    return "\n".join(block["text"] for message in body["messages"] for block in message["content"])
