"""The child process: locks itself in, then answers calls to one role's handlers until the parent closes the channel."""

from __future__ import annotations

import fcntl
import os
import socket
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpu_runner.channel import Channel, Closed, Frame
from gpu_runner.codec import FrameKind
from gpu_runner.contracts.envelope import Isolation, from_json, to_json
from gpu_runner.sandbox import SandboxPlan, enter

if TYPE_CHECKING:
    from gpu_runner.child.handlers import Handlers

_HIGH = 900  # above what a program opens by itself, below the limit on open files


def main(arguments: list[str]) -> int:
    """Serve; the arguments are the numbers of the channel's and of the status pipe's descriptor."""
    channel = Channel(socket.socket(fileno=_moved_up(int(arguments[0]))))
    status_handle = _moved_up(int(arguments[1]))
    frame = channel.receive()
    plan = SandboxPlan.from_dict(frame.meta)
    levels = enter(plan, status_handle)
    channel.send(FrameKind.ready, frame.header.nonce, {"levels": [level.value for level in levels]}, ())
    if Isolation.namespaces in levels:
        # The folder is in a file system that no path of the parent leads to.
        handle = os.open(plan.scratch, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        channel.send_handle(handle)
        os.close(handle)
    return _serve(channel, plan)


def _moved_up(handle: int) -> int:
    high = fcntl.fcntl(handle, fcntl.F_DUPFD_CLOEXEC, _HIGH)
    os.close(handle)
    return high


def _serve(channel: Channel, plan: SandboxPlan) -> int:
    from gpu_runner.child import handlers

    work = Path(plan.scratch) / "work"
    state = handlers.ChildState(scratch=Path(plan.scratch), work=work, gpu=plan.gpu)
    role: Handlers | None = None
    while True:
        try:
            frame = channel.receive(writable=True)
        except Closed:
            return 0
        try:
            if role is None:
                role = handlers.load(plan.role)
                # Only now, or an untrusted file named like a module that the role needs would be loaded in its place.
                sys.path[:0] = [str((work / root).resolve()) for root in plan.import_roots]
            reply, tensors = _call(role, state, frame)
        except BaseException as error:  # noqa: BLE001 - whatever untrusted code raises is reported, and the parent decides
            channel.send(FrameKind.error, frame.header.nonce, to_json(handlers.report(error, work)), ())
            continue
        try:
            channel.send(FrameKind.answer, frame.header.nonce, reply, tensors)
        except ValueError as error:  # an answer beyond the limits, of which nothing was written
            channel.send(FrameKind.error, frame.header.nonce, to_json(handlers.report(error, work)), ())


def _call(role: Handlers, state: Any, frame: Frame) -> tuple[dict[str, Any], list[Any]]:
    from gpu_runner.buffers import Buffer

    if (name := frame.meta["$"]) not in role:
        raise LookupError(f"the role takes no {name}")
    request, handler = role[name]
    reply, tensors = handler(state, from_json(request, frame.meta), [b.to_torch() for b in frame.tensors])
    return {"reply": to_json(reply)}, [Buffer.from_torch(_unexpanded(tensor)) for tensor in tensors]


def _unexpanded(tensor: Any) -> Any:
    """Copy a tensor that has more elements than memory: the parent reads none that is not there in full."""
    reach = 1 + sum((size - 1) * step for size, step in zip(tensor.shape, tensor.stride(), strict=True))
    return tensor.detach().contiguous() if tensor.numel() > reach else tensor


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
