"""What a role is: a module of this package with a table of handlers; one child serves one role.

    HANDLERS: dict[type[Request[Any]], Handler]

A handler gets the child's ``ChildState``, the request and its tensors (on the CPU; they are the child's own copies), and returns
the request's reply and tensors (of any device; non-negative strides are kept). What it raises reaches the parent as
``ChildError`` with the class name and the line in the files that the session was given. Handlers run inside of the sandbox, in
the process in which untrusted code runs: nothing that they say is proof of anything.
"""

from __future__ import annotations

import importlib
import re
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from gpu_runner.messages import MESSAGE_CHARS, TRACE_CHARS, OpenDevice, Raised, Request
from gpu_runner.program.objects import Violation

if TYPE_CHECKING:
    import torch

_ROLE = re.compile(r"[a-z][a-z_]*")


@dataclass
class ChildState:
    """What a child keeps between calls. ``work`` holds the session's files; ``values`` is the handlers' own."""

    scratch: Path
    work: Path
    gpu: bool
    values: dict[str, Any] = field(default_factory=dict)

    @property
    def device(self) -> str:
        """The device on which this child computes."""
        return "cuda" if self.gpu else "cpu"


T = TypeVar("T")
Answer = tuple[T, "list[torch.Tensor]"]
Handler = Callable[[ChildState, Any, "list[torch.Tensor]"], Answer[Any]]
Handlers = dict[str, tuple[type[Request[Any]], Handler]]


def load(role: str) -> Handlers:
    """The handlers of a role with their requests, by the name of these.

    Raises:
        ValueError: there is no such role.
    """
    if not _ROLE.fullmatch(role):
        raise ValueError(f"{role!r} is no role")
    handlers: dict[type[Request[Any]], Handler] = importlib.import_module(f"gpu_runner.child.{role}").HANDLERS
    return {request.__name__: (request, handler) for request, handler in handlers.items()}


def report(error: BaseException, work: Path) -> Raised:
    """An exception as the parent is told of it; its place is one in the files under ``work``."""
    path, line = getattr(error, "program_line", None) or location(error, work)
    trace = "".join(traceback.format_exception(error, limit=-30))[-TRACE_CHARS:]
    verdict = (error.status.value, error.rule) if isinstance(error, Violation) else None
    return Raised(type(error).__name__, str(error)[:MESSAGE_CHARS], trace, path, line, verdict)


def location(error: BaseException, work: Path) -> tuple[str | None, int | None]:
    """The innermost line under ``work`` that an exception passed through, with its file relative to ``work``."""
    if isinstance(error, SyntaxError) and error.filename and error.filename.startswith(f"{work}/"):
        return error.filename.removeprefix(f"{work}/"), error.lineno
    for frame, line in reversed(list(traceback.walk_tb(error.__traceback__))):
        name = frame.f_code.co_filename
        if name.startswith(f"{work}/"):
            return name.removeprefix(f"{work}/"), line
    return None, None


def start(state: ChildState, request: OpenDevice, tensors: list[torch.Tensor]) -> Answer[None]:
    """The first call to every child that computes: the device is opened before any untrusted code is imported.

    What fails here is the host's fault and nobody else's.
    """
    import torch

    if state.gpu:
        torch.zeros(1, device="cuda").item()
    return None, []
