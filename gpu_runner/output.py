"""What a child prints, kept up to a bound: the first and the last of it."""

from __future__ import annotations

import os
import threading

HEAD_BYTES = 16 * 1024
TAIL_BYTES = 48 * 1024


class CapturedOutput:
    """Reads a pipe in a thread until it ends; what lies between head and tail is dropped."""

    def __init__(self, handle: int) -> None:
        self._handle = handle
        self._lock = threading.Lock()
        self._head = bytearray()
        self._tail = bytearray()
        self._dropped = 0
        self._thread = threading.Thread(target=self._pump, name="child-output", daemon=True)
        self._thread.start()

    def text(self) -> str:
        """The output kept so far; untrusted text, without control characters."""
        with self._lock:
            gap = f"\n[{self._dropped} bytes left out]\n".encode() if self._dropped else b""
            text = (bytes(self._head) + gap + bytes(self._tail)).decode("utf-8", "replace")
        return "".join(c for c in text if c in "\n\t" or c.isprintable())

    def finish(self, timeout_s: float) -> None:
        """Wait until the pipe ends, at most ``timeout_s``."""
        self._thread.join(timeout_s)

    def _pump(self) -> None:
        try:
            while data := os.read(self._handle, 65536):
                self._keep(data)
        finally:
            os.close(self._handle)

    def _keep(self, data: bytes) -> None:
        with self._lock:
            room = HEAD_BYTES - len(self._head)
            self._head += data[:room]
            self._tail += data[room:] if room > 0 else data
            over = len(self._tail) - TAIL_BYTES
            if over > 0:
                del self._tail[:over]
                self._dropped += over
