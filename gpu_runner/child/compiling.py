"""Kernels compiled ahead, in processes beside the candidate's: about half of a compilation is Triton's own Python, for which
threads wait for each other.

The processes are forked from the candidate's when it is loaded, in its sandbox and within its limits, and end with it. They leave
what they compile in Triton's cache on disk, where the candidate's process finds it. What they cannot compile is compiled there.
"""

from __future__ import annotations

import contextlib
import functools
import os
import pickle
import socket
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from queue import SimpleQueue
from typing import Any

from gpu_runner.program.kernels import kernel_at

MOST_PROCESSES = 8  # each counts with the memory of the one that it was forked from, half a gigabyte
_LONGEST = 2**17  # bytes of a request
_COMPILES = ("src", "target", "options", "env_vars")  # what Triton's own closure over a compilation holds


class _Compilers(ThreadPoolExecutor):
    """A thread for each process, which waits for it."""

    def __init__(self) -> None:
        count = min(MOST_PROCESSES, os.cpu_count() or 1)
        super().__init__(count, "compile")
        self._free: SimpleQueue[socket.socket] = SimpleQueue()
        for connection in _forked(count):
            self._free.put(connection)

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Have a process compile a kernel and the C code that launches it, then take both from the cache."""

        def compiled() -> Any:
            connection = self._free.get()
            try:
                with contextlib.suppress(Exception):  # compiled here, where it raises what there is to raise
                    connection.send(_request(fn))
                    connection.recv(1)
            finally:
                self._free.put(connection)
            return _with_launcher(fn(*args, **kwargs))

        return super().submit(compiled)


def _request(fn: Callable[..., Any]) -> bytes:
    closure = dict(zip(fn.__code__.co_freevars, (cell.cell_contents for cell in fn.__closure__ or ()), strict=True))
    src, target, options, env_vars = (closure[name] for name in _COMPILES)
    place = src.fn.fn.__code__.co_filename
    return pickle.dumps(
        (place, src.hash(), src.signature, src.constants, src.attrs, target, options.__dict__, env_vars)
    )


def _forked(count: int) -> Sequence[socket.socket]:
    """Connections to so many processes: one fork of this process, which has the address space of a GPU, and forks of that one."""
    pairs = [socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET) for _ in range(count)]
    ours, theirs = zip(*pairs, strict=True)
    if os.fork() == 0:
        try:
            _compile_for(next((ends for ends in theirs[1:] if os.fork() == 0), theirs[0]))
        finally:
            os._exit(0)
    for ends in theirs:
        ends.close()
    return ours


def _compile_for(connection: socket.socket) -> None:
    """Compile what is asked for until nobody asks any more."""
    os.closerange(3, connection.fileno())
    os.closerange(connection.fileno() + 1, 4096)
    while asked := connection.recv(_LONGEST):
        with contextlib.suppress(Exception):  # it is compiled where it was asked for, and raises there
            _compile(*pickle.loads(asked))  # noqa: S301 - from the process that this one was forked from
        connection.send(b".")


def _compile(
    place: str, digest: str, signature: Any, constants: Any, attrs: Any, target: Any, options: Any, env_vars: Any
) -> None:
    from triton.compiler import ASTSource, compile

    kernel = kernel_at(place)
    kernel.prepare()
    source = ASTSource(kernel.real, signature, constants, attrs)
    if source.hash() == digest:
        _with_launcher(compile(source, target=target, options=options, _env_vars=env_vars))


def _with_launcher(kernel: Any) -> Any:
    """Build the C code that launches a kernel, which Triton would build at the first launch."""
    from triton.runtime.driver import driver

    driver.active.launcher_cls(kernel.src, kernel.metadata)
    return kernel


@functools.cache
def _mode() -> Any:
    from triton.runtime._async_compile import AsyncCompileMode

    class Findable(AsyncCompileMode):  # type: ignore[misc]  # Triton has no types
        """Has a launch find what is being compiled: Triton 3.7 does so by itself, 3.6 would compile it once more."""

        def submit(self, key: Any, compile_fn: Callable[[], Any], finalize_fn: Callable[[Any], None]) -> Any:
            kernel = super().submit(key, compile_fn, finalize_fn)
            finalize_fn(kernel)
            return kernel

    return Findable(_Compilers())


@contextmanager
def compiling_ahead() -> Iterator[None]:
    """Have compiled beside this process what is launched inside, and do not wait for it, as Triton's own context does.

    A later launch waits for its kernel where that is still being compiled, and raises what the compilation raises.
    """
    from triton.runtime._async_compile import active_mode

    token = active_mode.set(_mode())
    try:
        yield
    finally:
        active_mode.reset(token)
