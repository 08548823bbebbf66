"""One sandboxed child, from its start to the end of its last descendant.

with Session("candidate", limits, files={"candidate.py": source}) as session:
    reply = session.call(RunCase(call), [Buffer.from_torch(x)])
"""

from __future__ import annotations

import contextlib
import os
import secrets
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

from gpu_runner.buffers import Buffer
from gpu_runner.channel import MOST_ADDED, Channel, Check, Closed, Deadline, Overdue
from gpu_runner.codec import NONCE_BYTES, Bounds, FrameKind, Shape
from gpu_runner.contracts.envelope import Isolation, Limits, to_json
from gpu_runner.errors import (
    AnswerRefused,
    ChildDied,
    ChildFailed,
    ChildOutOfMemory,
    ChildTimeout,
    IsolationUnavailable,
    ProtocolError,
)
from gpu_runner.forkserver import keeper
from gpu_runner.messages import OpenDevice, R, Request
from gpu_runner.output import CapturedOutput
from gpu_runner.reply import ChildReply, message_of, read_reply
from gpu_runner.sandbox import make_plan, tree
from gpu_runner.sandbox.cgroup import ControlGroup
from gpu_runner.sandbox.levels import (
    APART,
    LEVELS,
    refused_level,
    remember_failure,
    remember_gpu,
    shortfall,
    worth_trying,
)
from gpu_runner.sandbox.watchdog import Watchdog
from gpu_runner.scratch import Scratch
from gpu_runner.settings import required_isolation
from gpu_runner.spans import span
from gpu_runner.spawn import Process, spawn

__all__ = ["ChildReply", "ChildSession", "has_gpu"]

_START_S = 30.0
_LOOK_S = 0.5  # between looks at how long a child has waited for a processor

ReplyCheck = Callable[[R, tuple[Shape, ...]], None]


def has_gpu() -> bool:
    """Whether this host has an NVIDIA GPU, and does not hide it by an empty ``CUDA_VISIBLE_DEVICES``; no other kind is used."""
    hidden = os.environ.get("CUDA_VISIBLE_DEVICES", "all").strip() in ("", "-1")
    return not hidden and Path("/dev/nvidiactl").exists()


class ChildSession:
    """A sandboxed child that serves one role. A context manager; when it ends, all that the child started ends.

    ``files`` and ``tree`` (a tarball) are put into the child's current folder before it starts, and ``import_roots`` of that
    folder go on its ``sys.path``. ``gpu`` None takes one where there is one. ``variables`` are added to the child's
    environment. ``siblings`` is the number of other children at the same time. Without ``fork`` it is a fresh interpreter, which
    starts sooner where nothing of torch is needed. By ``name``, in place of its role, spans are recorded.
    One call at a time; after any exception but ``ChildError``, ``ChildOutOfMemory`` and an answer that was read in full and is not
    of its form, the child is gone.
    """

    def __init__(
        self,
        role: str,
        limits: Limits | None = None,
        require: tuple[Isolation, ...] = (),
        gpu: bool | None = None,
        *,
        files: Mapping[str, bytes | str] | None = None,
        tree: bytes | Path | None = None,
        import_roots: tuple[str, ...] = (".",),
        variables: Mapping[str, str] | None = None,
        levels: tuple[Isolation, ...] = LEVELS,
        siblings: int = 0,
        fork: bool = True,
        name: str | None = None,
    ) -> None:
        self.role = role
        self._name = name or role
        self.limits = limits or Limits()
        self.require = require or required_isolation()
        self.gpu = has_gpu() if gpu is None else gpu
        self.isolation: tuple[Isolation, ...] = ()
        self._wanted = levels
        self._siblings = siblings
        self._fork = fork
        self._files, self._tree = dict(files or {}), tree
        self._import_roots = import_roots
        self._variables = dict(variables or {})
        self._deadline = self._added_s = 0.0
        # When the child was last looked at, and the seconds for which it had waited for a processor by then.
        self._looked = self._waited_s = 0.0
        self._scratch: Scratch | None = None
        self._process: Process | None = None
        self.forked = False
        self._called = self._abandoned = False
        self._ending = threading.RLock()
        self._channel: Channel | None = None
        self._output: CapturedOutput | None = None
        self._watchdog: Watchdog | None = None
        self._group: ControlGroup | None = None
        self._status_handle = -1

    def __enter__(self) -> Self:
        """Start the child.

        Raises:
            IsolationUnavailable: the host cannot give what is required. ScratchError: files that cannot be placed.
        """
        with contextlib.ExitStack() as unless_started:
            unless_started.callback(self.close)
            with span(f"{self._name}: opening"):
                self._start()
            unless_started.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        """End the child and all that it started."""
        self.close()

    @property
    def is_gone(self) -> bool:
        """Whether the child has ended, or was ended: no call can be made any more."""
        return self._channel is None

    @property
    def log(self) -> str:
        """What the child printed so far, its middle left out where it is long; untrusted text."""
        return self._output.text() if self._output else ""

    @property
    def scratch(self) -> Scratch:
        if self._scratch is None:
            raise ProtocolError("the session is not open")
        return self._scratch

    def call(
        self,
        request: Request[R],
        tensors: Sequence[Buffer] = (),
        timeout_s: float | None = None,
        check: ReplyCheck[R] | None = None,
    ) -> ChildReply[R]:
        """Call the handler of a request; ``timeout_s`` is at most, and by default, the limit of one step.

        ``check`` sees the reply and what is announced of its tensors before any of their values is read, and raises where it is
        unexpected; then the child is gone, also where the reply is malformed.

        Raises:
            ChildError: the code raised. ChildOutOfMemory, ChildTimeout, ChildDied: as they say. ProtocolError: it wrote no answer.
            MalformedReply: the reply is not of its form. AnswerRefused: ``check`` refused the answer.
        """
        opens, self._called = isinstance(request, OpenDevice) and not self._called, True
        try:
            with span(f"{self._name}: {type(request).__name__}"):
                return self._call(request, tensors, timeout_s, check)
        except ChildFailed as failure:
            # The first call opens the device, before anything untrusted is loaded. That it was forked may be why it fails.
            # Later ones ask whether the device is well still, and a fresh child would be no answer to that.
            if not (opens and self._may_be_for_the_fork()):
                raise
            if self._begin_afresh(self.isolation) is not None:
                raise
            reply: ChildReply[R] = self._call(request, tensors, timeout_s, check)
            _distrust(str(failure))
            return reply

    def _call(
        self,
        request: Request[R],
        tensors: Sequence[Buffer],
        timeout_s: float | None,
        check: ReplyCheck[R] | None,
    ) -> ChildReply[R]:
        if self._channel is None:  # an earlier call was its last, which is no answer of the child's own
            raise ChildDied(None, None, self.log)
        limit_s = min(self.limits.step_s if timeout_s is None else timeout_s, self._deadline - time.monotonic())
        deadline = self._due(limit_s)
        nonce, seen = secrets.token_bytes(NONCE_BYTES), list[R]()
        try:
            self._channel.send(FrameKind.call, nonce, to_json(request), tensors, deadline)
            # Writable, that is as private copies of what is written to: then nothing has to be copied in order to be read.
            bounds = Bounds(self.limits.memory_bytes, expanded=False, printable=True)
            frame = self._channel.receive(nonce, deadline, True, bounds, _of_frame(request, check, seen))
        except Overdue as overdue:
            self._kill()
            raise ChildTimeout(limit_s, self.log, deadline.added_s) from overdue
        except Closed as closed:
            raise self._ended() from closed
        except (ProtocolError, AnswerRefused):
            self._kill()
            raise
        finally:
            self._add_what_it_waited()
        return read_reply(request, frame, lambda: self.log, *seen)

    def _due(self, limit_s: float) -> Deadline:
        """The end of a call that begins now, beside what the child waits for a processor."""
        assert self._process is not None
        pid = self._process.pid
        return Deadline(limit_s, lambda: tree.waited_s(pid) - self._waited_s)

    def _add_what_it_waited(self) -> None:
        """Add to the child's time what it waited for a processor since the last look: of short calls only every so often, as to
        look at all its threads takes as long as one of them."""
        since_s, process = time.monotonic() - self._looked, self._process
        if process is None or since_s < _LOOK_S:
            return
        waited_s = tree.waited_s(process.pid)
        added_s = max(0.0, min(waited_s - self._waited_s, since_s, MOST_ADDED * self.limits.time_s - self._added_s))
        self._deadline, self._added_s = self._deadline + added_s, self._added_s + added_s
        self._looked, self._waited_s = time.monotonic(), waited_s

    def renew(self) -> None:
        """Restart the child's time."""
        process = self._process
        self._looked, self._waited_s = time.monotonic(), 0.0 if process is None else tree.waited_s(process.pid)
        self._deadline, self._added_s = self._looked + self.limits.time_s, 0.0

    def restart(self) -> None:
        """End the child and start another one in the same folder, at the same levels, with time of its own.

        Raises:
            ChildDied, ChildTimeout, ProtocolError: it does not start.
        """
        if self._abandoned:
            raise ProtocolError("the child is gone")
        self._kill()
        self._called = False
        failed = self._begin(self.isolation)
        if failed is not None:
            raise ProtocolError(f"a second child could not be isolated by {failed.value} as the first one was")
        self.call(OpenDevice())

    def abandon(self) -> None:
        """End the child from another thread than the one that waits for its answer: to that one it has died."""
        self._abandoned = True
        process = self._process
        if process is not None and process.poll() is None:
            tree.kill_descendants(process.pid)
            process.send_signal(signal.SIGKILL)

    def settle(self) -> None:
        """End the child and all that it started, and keep its folder and its log for reading."""
        self._kill()

    def close(self) -> None:
        """End the child, all that it started, and its folder; may be called twice."""
        with span(f"{self._name}: closing"):
            self._kill()
            if self._scratch is not None:
                self._scratch.remove()
                self._scratch = None

    def _start(self) -> None:
        self._scratch = Scratch()
        if self._tree is not None:
            self._scratch.unpack(self._tree)
        self._scratch.write(self._files)
        wanted = tuple(level for level in self._wanted if level in self.require or worth_trying(level, self.gpu))
        while True:
            # Who asks for no level that keeps a child apart has chosen.
            chosen = not self.require and not APART & set(self._wanted)
            lacking = None if chosen else shortfall(self.require, wanted, self.gpu)
            if lacking is not None:
                raise IsolationUnavailable(lacking)
            failed = self._begin(wanted)
            if failed is None:
                return
            wanted = tuple(level for level in wanted if level is not failed)

    def _begin(self, levels: tuple[Isolation, ...]) -> Isolation | None:
        """Start the child with these levels; gives the level that the host refused, None when all hold."""
        try:
            failed = self._spawn(levels, self._fork)
            if failed is None or not self._may_be_for_the_fork():
                return failed
            reason = f"level {failed.value}"
        except ChildFailed as failure:
            if not self._may_be_for_the_fork():
                raise
            reason = str(failure)
        failed = self._begin_afresh(levels)
        if failed is None:
            _distrust(reason)
        return failed

    def _may_be_for_the_fork(self) -> bool:
        return self.forked and not self._abandoned

    def _begin_afresh(self, levels: tuple[Isolation, ...]) -> Isolation | None:
        """Start the child by a fresh interpreter, after a forked one failed; only what this one is refused counts."""
        self._kill()
        return self._spawn(levels, False)

    def _spawn(self, levels: tuple[Isolation, ...], fork: bool) -> Isolation | None:
        self.scratch.unmounted()
        spawned = spawn(self.scratch, self.gpu, self._variables, fork)
        self._process, self.forked = spawned.process, spawned.forked
        self._group = ControlGroup.create(self.limits)
        if self._group is not None and not self._group.add(spawned.process.pid):
            self._release_group()
        self._output = CapturedOutput(spawned.output)
        # Only the trusted processes around the worker hold the pipe's other end; when they end, it says so by itself.
        self._status_handle = spawned.status
        self._channel = Channel(spawned.channel, watch=(spawned.status,))
        return self._lock_in(levels)

    def _lock_in(self, levels: tuple[Isolation, ...]) -> Isolation | None:
        assert self._channel is not None and self._process is not None
        plan = make_plan(self.role, self.scratch.path, self._own_limits(levels), levels, self.gpu, self._import_roots)
        nonce, self._waited_s = secrets.token_bytes(NONCE_BYTES), 0.0
        deadline = self._due(_START_S)
        try:
            self._channel.send(FrameKind.plan, nonce, plan.to_dict(), (), deadline)
            frame = self._channel.receive(nonce, deadline, bounds=Bounds(0))
        except Overdue as overdue:
            raise ChildTimeout(_START_S, self.log, deadline.added_s) from overdue
        except Closed as closed:
            status = self._status()
            level = refused_level(status) if self.forked else remember_failure(status)
            if level is None:
                raise self._ended(status) from closed
            self._kill()
            return level
        if frame.header.kind is not FrameKind.ready:
            raise ProtocolError("the child did not say that it is ready")
        mounted = None
        if Isolation.namespaces in levels:
            mounted = self._channel.receive_handle(deadline)
            self.scratch.mounted(mounted)
        self.isolation = levels
        if self.gpu:
            remember_gpu(levels)
        self.renew()
        self._watchdog = Watchdog(self._process.pid, self.limits, self.scratch.path, mounted)
        return None

    def _own_limits(self, levels: tuple[Isolation, ...]) -> Limits:
        """The kernel's limits for the child; the watchdog enforces those asked for."""
        if Isolation.namespaces in levels:
            return self.limits
        # Without a user namespace the kernel counts the threads of all children against the limit of each.
        return replace(self.limits, processes=self.limits.processes * (1 + self._siblings))

    def _ended(self, status: str | None = None) -> ChildDied | ChildOutOfMemory:
        status = self._status() if status is None else status
        reason = self._watchdog.reason if self._watchdog else None
        if reason is None and self._group is not None and self._group.ran_out_of_memory():
            reason = f"more than {self.limits.memory_bytes >> 20} MiB of memory"
        self._kill()
        if reason is not None:
            return ChildOutOfMemory(reason, self.log)
        word, _, number = status.partition(" ")
        value = int(number) if number.strip().lstrip("-").isdigit() else None
        if word == "s":
            return ChildDied(value, None, self.log)
        return ChildDied(None, value, self.log)

    def _status(self) -> str:
        assert self._process is not None
        try:
            self._process.wait(5.0)
        except subprocess.TimeoutExpired:
            return ""
        data = os.read(self._status_handle, 4096) if self._status_handle >= 0 else b""
        return data.decode("utf-8", "replace").partition("\n")[0]

    def _kill(self) -> None:
        with self._ending:  # one thread gives up waiting while another ends all
            if self._watchdog is not None:
                self._watchdog.stop()
                self._watchdog = None
            if self._process is not None:
                if self._process.poll() is None:
                    tree.kill_descendants(self._process.pid)
                    self._process.send_signal(signal.SIGKILL)
                self._process.wait()
                self._process = None
            self._release_group()
            if self._channel is not None:
                self._channel.close()
                self._channel = None
            if self._status_handle >= 0:
                os.close(self._status_handle)
                self._status_handle = -1
            if self._output is not None:
                self._output.finish(1.0)

    def _release_group(self) -> None:
        if self._group is not None:
            self._group.remove()
            self._group = None


def _of_frame(request: Request[R], check: ReplyCheck[R] | None, seen: list[R]) -> Check | None:
    """The check of a frame by that of the reply in it, which is added to ``seen``."""
    if check is None:
        return None

    def checked(kind: FrameKind, form: dict[str, Any], shapes: tuple[Shape, ...]) -> None:
        if kind is FrameKind.answer:
            seen.append(message_of(request, form))
            check(seen[0], shapes)
        elif shapes:
            raise ProtocolError("an error came with tensors")

    return checked


def _distrust(reason: str) -> None:
    keeper.give_up(f"a forked child failed where a fresh one does not: {reason}")
