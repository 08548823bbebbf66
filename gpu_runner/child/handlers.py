"""What a role is: a module of this package with a table of handlers; one child serves one role.

    HANDLERS: dict[str, Handler]

A handler gets the child's ``ChildState``, the call's metadata and its tensors (on the CPU; they are the child's own copies), and
gives metadata (JSON) and tensors (of any device; non-negative strides are kept). What it raises reaches the parent as
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
from typing import TYPE_CHECKING, Any

from gpu_runner.program.objects import Violation

if TYPE_CHECKING:
    import torch

MAX_MESSAGE_CHARS = 4000
MAX_TRACE_CHARS = 16000
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


Handler = Callable[[ChildState, dict[str, Any], "list[torch.Tensor]"], tuple[dict[str, Any], "list[torch.Tensor]"]]


def load(role: str) -> dict[str, Handler]:
    """The handlers of a role.

    Raises:
        ValueError: there is no such role.
    """
    if not _ROLE.fullmatch(role):
        raise ValueError(f"{role!r} is no role")
    handlers: dict[str, Handler] = importlib.import_module(f"gpu_runner.child.{role}").HANDLERS
    return handlers


def report(error: BaseException, work: Path) -> dict[str, Any]:
    """An exception as plain values: ``kind``, ``message``, ``trace``, and where in the files under ``work``."""
    path, line = getattr(error, "program_line", None) or location(error, work)
    trace = "".join(traceback.format_exception(error, limit=-30))
    return {
        "kind": type(error).__name__,
        "bases": [base.__name__ for base in type(error).__mro__[1:6]],
        "message": str(error)[:MAX_MESSAGE_CHARS],
        "trace": trace[-MAX_TRACE_CHARS:],
        "path": path,
        "line": line,
        "verdict": [error.status.value, error.rule] if isinstance(error, Violation) else None,
    }


def location(error: BaseException, work: Path) -> tuple[str | None, int | None]:
    """The innermost line under ``work`` that an exception passed through, with its file relative to ``work``."""
    if isinstance(error, SyntaxError) and error.filename and error.filename.startswith(f"{work}/"):
        return error.filename.removeprefix(f"{work}/"), error.lineno
    for frame, line in reversed(list(traceback.walk_tb(error.__traceback__))):
        name = frame.f_code.co_filename
        if name.startswith(f"{work}/"):
            return name.removeprefix(f"{work}/"), line
    return None, None


def start(
    state: ChildState, meta: dict[str, Any], tensors: list[torch.Tensor]
) -> tuple[dict[str, Any], list[torch.Tensor]]:
    """The first call to every child that computes: the device is opened before any untrusted code is imported.

    What fails here is the host's fault and nobody else's.
    """
    import torch

    if state.gpu:
        torch.zeros(1, device="cuda").item()
    return {}, []
