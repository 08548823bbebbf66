"""What a handler gave, read from the frame in which the child said it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from gpu_runner.buffers import Buffer
from gpu_runner.channel import Frame
from gpu_runner.child.handlers import MAX_MESSAGE_CHARS, MAX_TRACE_CHARS
from gpu_runner.codec import FrameKind
from gpu_runner.errors import ChildError, ChildOutOfMemory, ProtocolError

_MEMORY_KINDS = {"MemoryError", "OutOfMemoryError"}


@dataclass(frozen=True)
class ChildReply:
    """What a handler gave."""

    meta: dict[str, Any]
    tensors: tuple[Buffer, ...]


def read_reply(frame: Frame, log: Callable[[], str]) -> ChildReply:
    """Read an answer; ``log`` gives what the child printed, for the errors.

    Raises:
        ChildError: the code raised. ChildOutOfMemory: for want of memory. ProtocolError: it is no answer.
    """
    if frame.header.kind is FrameKind.answer and isinstance(frame.meta.get("meta"), dict):
        return ChildReply(frame.meta["meta"], frame.tensors)
    if frame.header.kind is not FrameKind.error:
        raise ProtocolError("the child's answer is not of its form")
    kind, message = str(frame.meta.get("kind"))[:200], str(frame.meta.get("message"))[:MAX_MESSAGE_CHARS]
    printed = f"{log()}\n{str(frame.meta.get('trace', ''))[:MAX_TRACE_CHARS]}".strip()
    if kind in _MEMORY_KINDS:
        raise ChildOutOfMemory(message, printed)
    line, path = frame.meta.get("line"), frame.meta.get("path")
    line = line if type(line) is int else None
    pair = frame.meta.get("verdict")
    verdict = (str(pair[0]), None if pair[1] is None else str(pair[1])) if isinstance(pair, list) else None
    raise ChildError(kind, message, printed, line, path[:500] if isinstance(path, str) else None, verdict)
