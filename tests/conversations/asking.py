"""Conversations in which models are asked: local servers that speak the protocols, the product's own clients and settings."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

import pytest

from tests.conversations.talk import REPOSITORY, Talk
from tests.recorded.libraries import PLAIN
from tests.workers.models.kinds import ANTHROPIC, OPENAI, Kind
from tests.workers.models.protocol_server import Asked, ProtocolServer, Reply
from workers import runtime
from workers.models.asking import AskContext
from workers.settings import Settings

KERNEL_PATH = "small/kernels/reglu.py"
MOST = re.compile(r"(?<=likely to take )[\d,]+(?= tokens)")  # of a question, with each change of a prompt another
DAY = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d UTC")
PORT = re.compile(r"127\.0\.0\.1:\d+")


@dataclass
class Line:
    """One provider: what its server was asked, and what it will answer."""

    kind: Kind
    server: ProtocolServer

    def answer(self, *data: dict[str, Any], **usage: int) -> Line:
        """Answer the next requests by the tool that each of them offers."""
        for each in data:
            self.server.next(self._by_tool(each, usage))
        return self

    def reply(self, *replies: Reply | Callable[[Asked], Reply]) -> Line:
        """Answer the next requests so."""
        self.server.next(*replies)
        return self

    def refuse(self, status: int, word: str, **headers: str) -> Line:
        """Answer the next request with a status."""
        told = {name.replace("_", "-"): value for name, value in headers.items()}
        return self.reply(self.kind.error(status, word, headers=told))

    def prompts(self) -> list[str]:
        """Give what each request asked, without the system prompt."""
        return [_told(asked.body) for asked in self.server.asked]

    def tasks(self) -> list[str]:
        """Give which tool each request offered."""
        return [_tool(asked.body) for asked in self.server.asked]

    def _by_tool(self, data: dict[str, Any], usage: dict[str, int]) -> Callable[[Asked], Reply]:
        return lambda asked: self.kind.call(_tool(asked.body), data, **usage)


def _tool(body: dict[str, Any]) -> str:
    (tool,) = body["tools"]
    return str(tool.get("name") or tool["function"]["name"])


def _told(body: dict[str, Any]) -> str:
    turns = [message["content"] for message in body["messages"] if message["role"] != "system"]
    return "\n".join(turn if isinstance(turn, str) else "\n".join(part["text"] for part in turn) for turn in turns)


@dataclass
class Asking:
    """A conversation, and the models that its bot may ask."""

    talk: Talk
    lines: dict[str, Line]
    waits: list[float] = field(default_factory=list)  # seconds that the product would have waited for a provider

    @property
    def line(self) -> Line:
        """Give the only provider."""
        (found,) = self.lines.values()
        return found

    def configure(self, **settings: Any) -> None:
        """Have the operator set these, beside what is needed to reach the servers."""
        known = runtime.current()
        places = {"data_dir": known.settings.data_dir, "architecture": known.settings.architecture}
        known.settings = Settings(**(places | _providers(self.lines) | settings))
        known.models = functools.cache(lambda: runtime.installed_models(known.settings))

    def ask(self, text: str, issue: str = "We need it.", options: str = "--candidates 1") -> int:
        """Ask the model author for reglu with these words or this block, and let everything happen."""
        return self.talk.ask(f"/kernel create reglu --author llm {options}\n\n{text}\n", issue=issue)

    def read(self, number: int, unfolded: bool = True) -> str:
        """Give the only comment since the last look, without days, ports and what a question may take at most."""
        return level(self.talk.read(number, unfolded))

    def stopped(self) -> str:
        """Give what the only job's end says, on its issue."""
        job = self.talk.job()
        if job.pull_number is not None:
            self.talk.skip(job.pull_number)
        found = [body for body in self.talk.heard(job.request.origin.number) if " stopped in " in body]
        return level(found[0])  # before there is a pull request, the end has a comment of its own as well

    def kernel(self) -> str | None:
        """Give the kernel's file as the bot pushed it; None where it did not."""
        branch = self.talk.job().branch
        if branch is None or branch not in self.talk.hub.branches(REPOSITORY):
            return None
        found = self.talk.hub.read_file(REPOSITORY, branch, KERNEL_PATH)
        return None if found is None else found.decode()


def level(text: str) -> str:
    """Give a text without what is other in each version of a prompt, on each day and at each port."""
    return PORT.sub("127.0.0.1:PORT", DAY.sub("MIDNIGHT", MOST.sub("MANY", text)))


def _providers(lines: dict[str, Line]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, line in lines.items():
        found |= {
            f"{name}_api_key": line.kind.key,
            f"{name}_model": line.kind.model,
            f"{name}_base_url": line.server.base_url,
        }
    return found


Ask = Callable[..., Asking]


@pytest.fixture
def ask_models(open_talk: Callable[..., Talk], monkeypatch: pytest.MonkeyPatch) -> Iterator[Ask]:
    """Start a conversation with a bot that may ask models, by default Anthropic's; waits for them take no time."""
    with ExitStack() as stack:

        def start(
            *kinds: Kind, real_runner: bool = False, files: dict[str, bytes] | None = None, **settings: Any
        ) -> Asking:
            lines = {kind.name: Line(kind, stack.enter_context(kind.serve())) for kind in kinds or (ANTHROPIC,)}
            found = Asking(open_talk(files or PLAIN, real_runner), lines)
            now = [0.0]

            def sleep(seconds: float) -> None:
                now[0] += seconds
                found.waits.append(seconds)

            patient = functools.partial(AskContext, clock=lambda: now[0], sleep=sleep, chance=lambda: 0.5)
            monkeypatch.setattr("workers.models.settings.AskContext", patient)
            # No host works beside a stage here: what is begun meanwhile would come to nothing, and which that is would be chance.
            monkeypatch.setattr("workers.engine.at_once.LOOK_S", 60.0)
            for name, line in lines.items():
                # As in a process that has its keys from its environment: they are known as secrets.
                monkeypatch.setenv(f"KERNELSMITH_{name.upper()}_API_KEY", line.kind.key)
            found.configure(**settings)
            return found

        yield start


BOTH = (ANTHROPIC, OPENAI)
