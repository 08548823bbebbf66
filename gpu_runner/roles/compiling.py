"""Kernels compiled in threads: the widths of a problem's cases want one each, and none has to wait for the one before it."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

# LLVM holds no lock of Python's, and ptxas and the C compiler are processes of their own; Triton's own Python, about half of a
# compilation, takes turns.
MOST_THREADS = 8


class _Threads(ThreadPoolExecutor):
    """Threads in which a kernel is compiled, and the C code that launches it, which Triton would build at the first launch."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Compile, and build the launcher."""
        return super().submit(lambda: _with_launcher(fn(*args, **kwargs)))


def _with_launcher(kernel: Any) -> Any:
    from triton.runtime.driver import driver

    driver.active.launcher_cls(kernel.src, kernel.metadata)  # for Triton's cache on disk, where the launch finds it
    return kernel


@functools.cache
def _mode() -> Any:
    from triton.runtime._async_compile import AsyncCompileMode

    return AsyncCompileMode(_Threads(min(MOST_THREADS, os.cpu_count() or 1), "compile"))


@contextmanager
def compiling_in_threads() -> Iterator[None]:
    """Have Triton compile in threads what is asked for inside. A later launch waits for its kernel, and raises what that raised.

    Triton's own context ends when all is compiled; this one does not wait.
    """
    from triton.runtime._async_compile import active_mode

    token = active_mode.set(_mode())
    try:
        yield
    finally:
        active_mode.reset(token)
