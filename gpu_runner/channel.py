"""Frames over a socket pair; large tensors as sealed memory files whose descriptors are sent with the bytes."""

from __future__ import annotations

import contextlib
import fcntl
import mmap
import os
import select
import socket
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from gpu_runner import codec
from gpu_runner.buffers import Buffer
from gpu_runner.codec import OWN, Bounds, FrameKind, Header, Shape
from gpu_runner.errors import ProtocolError

# With these seals the content can never change again, so it may be read in place.
_SEALS = fcntl.F_SEAL_SEAL | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_WRITE
_CHUNK_BYTES = 2**26
_MARK = b"t"  # the byte that a descriptor travels with
MOST_ADDED = 2  # times a limit, where the host is busy

Check = Callable[[FrameKind, dict[str, Any], tuple[Shape, ...]], None]


class Closed(Exception):  # noqa: N818 - an expected end, not an error
    """The other side closed the channel between two frames or within one."""


class Overdue(Exception):  # noqa: N818 - an expected end, not an error
    """The deadline passed before a whole frame was there."""


@dataclass(frozen=True)
class Frame:
    """One message."""

    header: Header
    meta: dict[str, Any]
    tensors: tuple[Buffer, ...]


class Deadline:
    """The end of a wait for a child, ``limit_s`` seconds from now.

    ``busy_s`` gives the seconds for which the child's processes waited for a processor. They are added to the limit, so that a
    busy host ends nobody: at most twice the limit, and at most as long as the wait took, however many processes there are.
    """

    def __init__(self, limit_s: float, busy_s: Callable[[], float] = lambda: 0.0) -> None:
        self._limit_s = limit_s
        self._begin = time.monotonic()
        self._busy_s = busy_s
        self.added_s = 0.0

    def left_s(self) -> float:
        """Seconds that are left; 0 when it is over."""
        took_s = time.monotonic() - self._begin
        if took_s >= self._limit_s + self.added_s:
            self.added_s = self.most_added_s()
        return max(0.0, self._limit_s + self.added_s - took_s)

    def most_added_s(self) -> float:
        """What could be added by now."""
        took_s = time.monotonic() - self._begin
        return max(self.added_s, min(self._busy_s(), took_s, MOST_ADDED * self._limit_s))


class Channel:
    """One end of a socket pair. ``watch`` are further descriptors that become readable when the other side is gone."""

    def __init__(self, sock: socket.socket, watch: Sequence[int] = ()) -> None:
        self._sock = sock
        self._sock.setblocking(False)
        self._watch = tuple(watch)

    def send(
        self,
        kind: FrameKind,
        nonce: bytes,
        meta: dict[str, Any],
        tensors: Sequence[Buffer],
        deadline: Deadline | None = None,
    ) -> None:
        """Write one frame.

        Raises:
            ValueError: it is beyond the limits, or there is no memory for a tensor; nothing was written.
            Closed, Overdue: as they say.
        """
        frame = codec.encode(kind, nonce, meta, tensors)
        views = [memoryview(tensor.data).cast("B") for tensor in tensors]
        with contextlib.ExitStack() as stack:
            # All memory is there before a byte is written: a frame that is begun can be followed by no other.
            handles = []
            for view in views:
                if view.nbytes > codec.INLINE_BYTES:
                    handles.append(_sealed(view))
                    stack.callback(os.close, handles[-1])
            self._write(memoryview(frame), deadline)
            for handle in handles:
                self.send_handle(handle, deadline)

    def receive(
        self,
        nonce: bytes | None = None,
        deadline: Deadline | None = None,
        writable: bool = False,
        bounds: Bounds = OWN,
        check: Check | None = None,
    ) -> Frame:
        """Read one frame. With ``writable`` large tensors are private copies, made as they are written to.

        ``check`` sees the metadata and the shapes before any value is read, and what it raises ends the reading.

        Raises:
            ProtocolError: it is no valid frame, or not one with this nonce. Closed, Overdue: as they say.
        """
        header = codec.parse_header(bytes(self._read(codec.HEADER.size, deadline)), nonce)
        meta, shapes = codec.parse_body(header, bytes(self._read(header.json_bytes, deadline)), bounds)
        if check is not None:
            check(header.kind, meta, shapes)
        inline = iter([s.filled(self._read(s.nbytes, deadline)) for s in shapes if s.inline])
        filled = [next(inline) if s.inline else s.filled(self._memory(s.nbytes, deadline, writable)) for s in shapes]
        return Frame(header, meta, tuple(filled))

    def send_handle(self, handle: int, deadline: Deadline | None = None) -> None:
        """Send a descriptor.

        Raises:
            Closed, Overdue: as they say.
        """
        try:
            self._wait(select.POLLOUT, deadline)
            socket.send_fds(self._sock, [_MARK], [handle])
        except (BrokenPipeError, ConnectionResetError) as error:
            raise Closed from error

    def receive_handle(self, deadline: Deadline | None = None) -> int:
        """Receive a descriptor, which is then the caller's to close.

        Raises:
            ProtocolError: none came. Closed, Overdue: as they say.
        """
        self._wait(select.POLLIN, deadline)
        mark, handles, _, _ = socket.recv_fds(self._sock, 1, 1)
        if not mark:
            raise Closed
        if mark != _MARK or len(handles) != 1:
            for handle in handles:
                os.close(handle)
            raise ProtocolError("a large tensor came without its memory")
        return handles[0]

    def close(self) -> None:
        self._sock.close()

    def _wait(self, event: int, deadline: Deadline | None) -> None:
        poller = select.poll()
        poller.register(self._sock, event)
        for other in self._watch:
            poller.register(other, select.POLLIN)
        while not (ready := poller.poll(None if deadline is None else deadline.left_s() * 1000)):
            if deadline is not None and not deadline.left_s():
                raise Overdue
        if all(handle != self._sock.fileno() for handle, _ in ready):
            raise Closed  # the other side is gone and left nothing to read

    def _write(self, view: memoryview, deadline: Deadline | None) -> None:
        while view:
            self._wait(select.POLLOUT, deadline)
            try:
                view = view[self._sock.send(view[:_CHUNK_BYTES]) :]
            except BlockingIOError:
                continue
            except (BrokenPipeError, ConnectionResetError) as error:
                raise Closed from error

    def _read(self, size: int, deadline: Deadline | None) -> bytearray:
        data = bytearray(size)
        view = memoryview(data)
        while view:
            self._wait(select.POLLIN, deadline)
            try:
                got = self._sock.recv_into(view)
            except BlockingIOError:
                continue
            except ConnectionResetError as error:
                raise Closed from error
            if got == 0:
                raise Closed
            view = view[got:]
        return data

    def _memory(self, size: int, deadline: Deadline | None, writable: bool) -> memoryview:
        handle = self.receive_handle(deadline)
        try:
            return _mapped(handle, size, writable)
        finally:
            os.close(handle)


def _sealed(view: memoryview) -> int:
    handle = os.memfd_create("tensor", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    with contextlib.ExitStack() as unless_sealed:
        unless_sealed.callback(os.close, handle)
        try:
            left = view
            while left:
                left = left[os.write(handle, left[:_CHUNK_BYTES]) :]
        except OSError as error:
            size = f"a tensor of {view.nbytes >> 20} MiB"
            raise ValueError(f"{size} cannot be handed to another process: {error.strerror}") from error
        fcntl.fcntl(handle, fcntl.F_ADD_SEALS, _SEALS)
        unless_sealed.pop_all()
    return handle


def _mapped(handle: int, size: int, writable: bool) -> memoryview:
    try:
        seals = fcntl.fcntl(handle, fcntl.F_GET_SEALS)
    except OSError as error:
        raise ProtocolError("a large tensor is no memory file") from error
    facts = os.fstat(handle)
    if seals & _SEALS != _SEALS or facts.st_size != size:
        raise ProtocolError("a large tensor is not sealed, or not of the size that was announced")
    if facts.st_blocks * 512 < size:
        # Its holes would be filled as they are read: memory of this process, which its sender never had.
        raise ProtocolError("a large tensor has holes")
    # Private, also for reading: kernels before 6.7 refuse any shared mapping of what is sealed against writing.
    protection = mmap.PROT_READ | (mmap.PROT_WRITE if writable else 0)
    return memoryview(mmap.mmap(handle, size, flags=mmap.MAP_PRIVATE, prot=protection))
