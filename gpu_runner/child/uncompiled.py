"""Triton's compiler where there is no GPU: what the interpreter takes and no compiler does shows in a process beside it.

Kernels are compiled for an architecture, each once for the types of its arguments and the flags among its constants, and never run.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from typing import Any

from gpu_runner.messages import CompilerRefusal
from gpu_runner.program.lanes import place_in_file
from gpu_runner.program.threads import MOST_SHARED

ARCHITECTURE = 90  # sm_90: NVIDIA H100 and H200
MOST_CPU_S = 10.0  # of what compiles in a verdict
ALIGNED = 16
_WHOLE = ("i32", "i64", "u64")  # Python's integers by size, besides 1, which is a constant
_OF_PASSES = "PassManager::run failed"


class _NotRun:
    """A compiled kernel of which no launch does anything."""

    function = packed_metadata = None

    def launch_metadata(self, *_: Any) -> None:
        return

    def run(self, *_: Any) -> None:
        return


class _Driver:
    """What Triton asks of a GPU before it compiles."""

    def get_current_target(self) -> Any:
        from triton.backends.compiler import GPUTarget

        return GPUTarget("cuda", ARCHITECTURE, 32)

    def get_current_device(self) -> int:
        return 0

    def get_current_stream(self, device: int) -> int:
        return 0


class Compiler:
    """Stands where Triton's compiler stands in this process. ``failed``: what it raised last, by its own rules of the language."""

    def __init__(self) -> None:
        import triton.compiler
        from triton.runtime.driver import driver

        self._compile = triton.compiler.compile
        self._known: dict[
            object, Exception | None
        ] = {}  # of kernels, by the types of arguments and flags among constants
        self._read: dict[object, Exception | None] = {}  # by constants, of which some are arguments that are one
        self._begun = _cpu_s()
        self.compiled: dict[str, None] = {}
        self.failed: Exception | None = None
        driver.set_active(_Driver())
        triton.compiler.compile = self._compiled

    def _compiled(self, src: Any, target: Any = None, options: Any = None, **more: Any) -> _NotRun:
        ones = {(place,) for place, each in enumerate(src.fn.params) if not each.is_constexpr and _is_one(src, place)}
        kinds = enumerate(src.signature.values())
        types = tuple("whole" if kind in _WHOLE or (place,) in ones else kind for place, kind in kinds)
        constants = ((place, _flag(value)) for place, value in src.constants.items() if place not in ones)
        key = src.fn.fn.__code__.co_filename, types, tuple(sorted(constants, key=str))
        exact = key, tuple(sorted(src.constants.items(), key=str))
        if key not in self._known:
            self._read[exact] = None
            self._know(self._known, key, lambda: self._compile_whole(src, target, options, more))
        elif exact not in self._read:
            self._know(self._read, exact, lambda: _read(src, target or _Driver().get_current_target(), options))
        known = self._known.get(key) or self._read.get(exact)
        if known is not None:
            self.failed = known
            raise known
        return _NotRun()

    def _know(self, known: dict[object, Exception | None], key: object, compiled: Callable[[], None]) -> None:
        """Note what is raised, unless too much was compiled before."""
        if _cpu_s() - self._begun > MOST_CPU_S:
            return
        known[key] = None
        try:
            compiled()
        except Exception as error:  # noqa: BLE001 - the compiler raises anything, and not all of it is about the kernel
            if _is_of_language(error):  # and no tool that is not there
                known[key] = error

    def _compile_whole(self, src: Any, target: Any, options: Any, more: dict[str, Any]) -> None:
        src.attrs = _aligned(src.signature.values())
        _check_shared_memory(self._compile(src, target=target, options=options, **more))
        self.compiled[src.fn.__name__] = None


def _is_one(src: Any, place: int) -> bool:
    """Whether an argument is a constant for its value: Triton makes one of a whole number that is one."""
    value = src.constants.get((place,))
    return type(value) is int and value == 1


def _read(src: Any, target: Any, options: Any) -> None:
    """Have the compiler read a kernel with its constants, by which its text may be another one, and go no further."""
    from triton._C.libtriton import ir
    from triton.compiler import make_backend

    backend, context = make_backend(target), ir.context()
    given = backend.parse_options(dict(options or {}))
    ir.load_dialects(context)
    backend.load_dialects(context)
    src.make_ir(target, given, backend.get_codegen_implementation(given), backend.get_module_map(), context)


def _aligned(kinds: Iterable[object]) -> dict[tuple[int, ...], list[list[object]]]:
    """What Triton knows of arguments at the sizes of most workloads: that they are multiples of 16, so that it loads ahead."""
    able = [place for place, kind in enumerate(kinds) if kind in _WHOLE or str(kind).startswith("*")]
    return {(place,): [["tt.divisibility", ALIGNED]] for place in able}


def _check_shared_memory(made: Any) -> None:
    """Raise as a launch would where a kernel takes more shared memory than there is."""
    from triton.runtime.errors import OutOfResources

    if made.metadata.shared > MOST_SHARED:
        raise OutOfResources(made.metadata.shared, MOST_SHARED, "shared memory")


def refusal_of(error: Exception) -> CompilerRefusal:
    """What the compiler says, and of which line of the candidate's files."""
    innermost = error
    while getattr(innermost.__cause__, "node", None) is not None:
        innermost = innermost.__cause__  # type: ignore[assignment]  # the same class: a call of another kernel
    node, text = getattr(innermost, "node", None), getattr(innermost, "src", None)
    words = getattr(innermost, "error_message", None) or str(innermost).strip().splitlines()[-1]
    path, line = (None, None) if node is None or text is None else place_in_file(text, getattr(node, "lineno", 1))
    return CompilerRefusal(type(innermost).__name__, str(words)[:400], path, line)


def _flag(value: Any) -> Any:
    """A constant by which a kernel may be another text; of a number only that it is one."""
    return type(value).__name__ if isinstance(value, int | float) and not isinstance(value, bool) else str(value)


def _is_of_language(error: Exception) -> bool:
    from triton.errors import TritonError

    return isinstance(error, TritonError) or _OF_PASSES in str(error)


def _cpu_s() -> float:
    times = os.times()  # `ptxas` is a process of its own
    return times.user + times.system + times.children_user + times.children_system
