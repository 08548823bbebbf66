"""What a handler returned, read from the frame in which the child sent it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from gpu_runner.buffers import Buffer
from gpu_runner.channel import Frame
from gpu_runner.codec import FrameKind
from gpu_runner.contracts.envelope import from_json
from gpu_runner.errors import ChildError, ChildOutOfMemory, MalformedReply, ProtocolError
from gpu_runner.messages import R, Raised, Request

MALFORMED = "the child's answer is not of the form that the runner's own code gives"
_MEMORY_KINDS = {"MemoryError", "OutOfMemoryError"}
T_co = TypeVar("T_co", covariant=True)


@dataclass(frozen=True)
class ChildReply(Generic[T_co]):
    """What a handler returned."""

    message: T_co
    tensors: tuple[Buffer, ...] = ()


def read_reply(request: Request[R], frame: Frame, log: Callable[[], str], seen: R | None = None) -> ChildReply[R]:
    """Read an answer, whose message may have been ``seen``; ``log`` returns what the child printed, for the errors.

    Raises:
        ChildError: the code raised. ChildOutOfMemory: for want of memory. ProtocolError: it is no answer. MalformedReply: the
        reply is not of its form.
    """
    if frame.header.kind is FrameKind.answer:
        return ChildReply(message_of(request, frame.meta) if seen is None else seen, frame.tensors)
    if frame.header.kind is not FrameKind.error:
        raise ProtocolError("the child's answer is not of its form")
    raised = _read(Raised, frame.meta)
    printed = f"{log()}\n{raised.trace}".strip()
    if raised.kind in _MEMORY_KINDS:
        raise ChildOutOfMemory(raised.message, printed)
    raise ChildError(raised.kind, raised.message, printed, raised.line, raised.path, raised.verdict)


def message_of(request: Request[R], form: dict[str, Any]) -> R:
    """The message of an answer.

    Raises:
        MalformedReply: a field is missing, unknown, or of another type.
    """
    message: R = _read(request.reply, form.get("reply"))
    return message


def _read(kind: Any, form: Any) -> Any:
    try:
        return from_json(kind, form)
    except ValueError as error:
        raise MalformedReply(MALFORMED) from error
