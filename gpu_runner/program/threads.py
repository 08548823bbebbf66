"""CuTe DSL's language in Triton's interpreter: what ``cutlass`` is where kernels are interpreted, whether or not it is installed.

CuTe DSL has no interpreter of its own. What a thread has is a row of a block here, and a step of all threads is an operation of
Triton on that block, so that what is watched of Triton kernels is watched of these too. A thread's number is a block of one
column, its elements are a block of so many. Threads take each step together, as no GPU promises: shared memory is held against
the barriers between a write and a read of other warps.

Source: the docstrings of nvidia-cutlass-dsl 4.8.
"""

from __future__ import annotations

import builtins
import functools
import importlib
import inspect
import linecache
import math
import sys
import types
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, NamedTuple

import torch

from gpu_runner.contracts.verify import Status
from gpu_runner.program import language, nans, tiles
from gpu_runner.program.objects import Violation, unproved

if TYPE_CHECKING:
    from gpu_runner.program.log import Log

MODULE = "cutlass"
WARP = 32  # threads
MOST_THREADS = 1024
MOST_SHARED = 232_448  # bytes of shared memory that a block has on sm_90, at most
ACCESSES = (8, 16, 32, 64, 128)  # bits
_threads: list[int] = [0]  # of the block that runs


class Dtype:
    """A type of numbers; called, it converts one."""

    def __init__(self, name: str, own: str, width: int) -> None:
        self.name, self.own, self.width = name, own, width
        self.inf = math.inf

    @property
    def tl(self) -> Any:
        """Triton's."""
        import triton.language as tl

        return getattr(tl, self.own)

    def __call__(self, number: Any) -> Any:
        """A number in this type."""
        import triton.language as tl
        from triton.runtime.interpreter import np as numpy

        if isinstance(number, tl.tensor):
            return tl.cast(number, self.tl)
        if not _threads[0]:  # on the host
            return Stand(self.name)
        return _block(numpy.full((1, 1), number), self.tl)


DTYPES = {
    name: Dtype(name, own, width)
    for name, own, width in (
        ("Float32", "float32", 32), ("BFloat16", "bfloat16", 16), ("Float16", "float16", 16), ("Int64", "int64", 64),
        ("Int32", "int32", 32), ("Boolean", "int1", 8),
    )
}  # fmt: skip


def _dtype_of(own: Any) -> Dtype:
    return next(dtype for dtype in DTYPES.values() if dtype.tl == own)


class Constexpr:
    """The annotation of a parameter that is known when a kernel is compiled."""

    def __class_getitem__(cls, _: Any) -> type:
        """The same with the type of the constant."""
        return cls


class TensorArgument:
    """The annotation of a tensor."""


class ReductionOp(Enum):
    """How a thread's elements are reduced."""

    ADD = "sum"
    MAX = "max"
    MIN = "min"


class VectorLayout(NamedTuple):
    """Where elements lie: a shape, and how far apart elements are along each of its modes."""

    shape: Any
    stride: Any


class Access(NamedTuple):
    """How elements are copied."""

    dtype: Dtype
    bits: int


class CopyUniversalOp:
    """A copy by loads and stores."""


def _scalar_of(index: Any) -> Any:
    """A number that is the same in all threads, as Triton's scalar."""
    import triton.language as tl

    if not isinstance(index, tl.tensor) or not index.type.is_block():
        return index
    if index.handle.data.size != 1:
        raise unproved(
            "Where kernels of CuTe DSL are interpreted all threads load and store one element, or each its vectors."
        )
    return _number(index.handle.data, index.dtype)


def _number(data: Any, dtype: Any) -> Any:
    import triton.language as tl
    from triton.runtime.interpreter import TensorHandle

    return tl.tensor(TensorHandle(data.reshape(1), dtype), dtype)


def _block(data: Any, dtype: Any, like: Any = None) -> Any:
    import triton.language as tl
    from triton.runtime.interpreter import TensorHandle, _get_np_dtype

    handle = TensorHandle(data.astype(_get_np_dtype(dtype)), dtype)
    if like is not None:
        handle = nans.mark(handle, like)
        handle.is_loaded = getattr(like, "is_loaded", False)
    return tl.tensor(handle, tl.block_type(dtype, list(data.shape)))


def _size(shape: Any) -> int:
    return math.prod(map(_size, shape)) if isinstance(shape, list | tuple) else int(shape)


def _offsets(layout: VectorLayout) -> list[int]:
    """How far each element lies from the first, in order: the first mode is the innermost."""

    def along(shape: Any, stride: Any) -> list[int]:
        if not isinstance(shape, list | tuple):
            return [number * int(stride) for number in range(int(shape))]
        each = [along(*mode) for mode in zip(shape, stride, strict=True)]
        offsets = [0]
        for mode in each:
            offsets = [outer + inner for outer in mode for inner in offsets]
        return offsets

    return along(layout.shape, layout.stride)


class Place(NamedTuple):
    """A thread's elements in memory: where the first lies, and how far from it the others do."""

    first: Any
    layout: VectorLayout


class Fragment:
    """A thread's elements in registers."""

    def __init__(self, shape: Any, dtype: Dtype) -> None:
        self.shape, self.dtype, self.size = shape, dtype, _size(shape)
        self.value: Any = None
        self.filled: Any = None
        self._columns: list[Any] = [None] * self.size

    def fill(self, number: Any) -> None:
        """Sets every element."""
        self.filled = number
        self.value = full(self.shape, number, self.dtype)

    def store(self, value: Any) -> None:
        """Sets the elements to a value's."""
        import triton.language as tl

        self.value, self.filled = tl.broadcast_to(value, [_threads[0], self.size]), None

    def __setitem__(self, index: Any, number: Any) -> None:
        """Sets one element."""
        import triton.language as tl

        place = index[-1] if isinstance(index, tuple) else index
        self._columns[place] = tl.broadcast_to(number, [_threads[0], 1])
        if all(column is not None for column in self._columns):
            from triton.runtime.interpreter import np as numpy

            data = numpy.concatenate([column.handle.data for column in self._columns], axis=1)
            self.value = _block(data, self.dtype.tl)

    def load(self) -> Any:
        """The elements as a value."""
        if self.value is None:
            raise Violation(None, "A kernel reads registers that it did not set.", Status.out_of_bounds)
        return self.value


class SharedNumbers:
    """Numbers in shared memory, which threads of other warps see behind a barrier."""

    def __init__(self, size: int, dtype: Dtype, block: tuple[int, ...]) -> None:
        self.size, self.dtype, self.block = size, dtype, block
        self._numbers: list[Any] = [None] * size
        self._handle: Any = None
        self._unread: set[int] = set()  # written since the last barrier
        self._read = False

    def __setitem__(self, index: Any, number: Any) -> None:
        """Sets one number a thread."""
        from triton.runtime.interpreter import np as numpy

        shape = (_threads[0], 1)
        places = numpy.broadcast_to(index.handle.data, shape).reshape(-1, WARP)
        values = numpy.broadcast_to(number.handle.data, shape).reshape(-1, WARP)
        owners: dict[int, int] = {}
        for warp, (own, each) in enumerate(zip(places, values, strict=True)):
            for place in set(own.tolist()):
                if not 0 <= place < self.size:
                    raise Violation(None, "A kernel writes beyond its shared memory.", Status.out_of_bounds)
                first = each[own == place]
                is_torn = (first != first[0]).any() and not numpy.isnan(first).all()
                if owners.setdefault(place, warp) != warp or place in self._unread or self._read or is_torn:
                    raise _raced("writes shared memory that others read or write")
                self._numbers[place] = first[0]
        self._unread |= set(owners)
        self._handle = number.handle

    def load(self) -> Any:
        """All numbers, in every thread."""
        from triton.runtime.interpreter import np as numpy

        if any(number is None for number in self._numbers):
            raise Violation(None, "A kernel reads shared memory that nobody wrote.", Status.out_of_bounds)
        if self._unread and (self.size > 1 or _threads[0] > WARP):
            raise _raced("reads shared memory that others wrote")
        self._read = True
        return _block(numpy.array(self._numbers).reshape(1, -1), self.dtype.tl, self._handle)

    def barrier(self) -> None:
        """Lets all threads see what was written."""
        self._unread, self._read = set(), False


def _raced(what: str) -> Violation:
    return Violation("race", f"A kernel {what}, without a barrier between.", Status.nondeterministic)


_shared: list[SharedNumbers] = []  # of the block that runs

# -- kernels


@dataclass(eq=False)
class Kernel:
    """A kernel in the interpreter; ``fn`` is its Python function."""

    fn: types.FunctionType

    def __call__(self, *arguments: Any) -> Started:
        """The kernel with its arguments, which ``launch`` starts."""
        return Started(self, arguments)


@dataclass
class Started:
    """A kernel with its arguments."""

    kernel: Kernel
    arguments: tuple[Any, ...]

    def launch(self, *, grid: Any, block: Any, stream: Any = None) -> None:
        """Runs every block of a grid."""
        import triton.language as tl
        from triton.runtime import interpreter

        threads = int(block[0])
        if threads % WARP or not WARP <= threads <= MOST_THREADS or threads & threads - 1 or tuple(block[1:]) != (1, 1):
            raise unproved(
                "Where kernels of CuTe DSL are interpreted a block has a power of two of threads, from 32 to 1024."
            )
        log = _current[-1]() if _current else None
        if log is not None:
            log.check_grid(grid)
        fn = self.kernel.fn
        fn.__globals__.setdefault("__kernelsmith_tl__", tl)  # by which Triton knows that it is to be interpreted
        fn.__annotations__ = dict.fromkeys(_constants(fn), "constexpr")  # as Triton names them
        _teach(tl)
        _shared.clear()
        _threads[0] = threads
        try:
            with tiles.floored():
                interpreter.GridExecutor(fn, list(inspect.signature(fn).parameters), tuple(map(int, grid)))(
                    *self.arguments
                )
        finally:
            _threads[0] = 0


def _constants(fn: types.FunctionType) -> list[str]:
    return [name for name, hint in fn.__annotations__.items() if hint is Constexpr or "onstexpr" in str(hint)]


@dataclass(eq=False)
class ThreadFunction:
    """A function that kernels call, or that launches one."""

    fn: types.FunctionType

    def __call__(self, *arguments: Any) -> Any:
        """Its result."""
        return self.fn(*arguments)


def kernel(fn: Any) -> Kernel:
    """The decorator of a kernel."""
    return Kernel(fn)


def jit(fn: Any) -> ThreadFunction:
    """The decorator of a function that kernels call, or that launches one."""
    return ThreadFunction(fn)


# -- the host's part


class Stand(NamedTuple):
    """What stands for an argument of a launcher when it is compiled."""

    kind: str  # of its elements, or of the number
    align: int = 0  # of a tensor: its first element lies at a multiple of so many bytes


STREAM = Stand("stream")
OPTIONS = "--enable-tvm-ffi"


def make_fake_compact_tensor(dtype: Any, shape: Any, *, assumed_align: int) -> Stand:
    """A tensor of a dtype that begins at multiples of so many bytes."""
    name = dtype.name.rpartition(".")[2]
    if name not in DTYPES or len(shape) != 1:
        raise unproved("Where kernels of CuTe DSL are interpreted tensors have one dimension.")
    return Stand(name, assumed_align)


def make_fake_stream(*, use_tvm_ffi_env_stream: bool = False) -> Stand:
    """The current stream, which a call does not name."""
    if not use_tvm_ffi_env_stream:
        raise unproved("Where kernels of CuTe DSL are interpreted launches are on the current stream.")
    return STREAM


def sym_int64() -> str:
    """A size that each call has."""
    return "size"


def compile(launcher: Any, *given: Any, options: str = "") -> Callable[..., None]:
    """A launcher compiled for arguments of these kinds; a tuple is a constant."""
    return lambda *arguments: launch(launcher, given, arguments)


def _stands(name: str) -> Callable[[Any], Stand]:
    return lambda number: Stand(name)


# What host code names, as the evaluator has it: nothing of it is the package's.
HOST: dict[str, Callable[..., Any]] = {
    "cutlass.cute.runtime.make_fake_compact_tensor": make_fake_compact_tensor,
    "cutlass.cute.runtime.make_fake_stream": make_fake_stream,
    "cutlass.cute.sym_int64": sym_int64,
    **{f"cutlass.{name}": _stands(name) for name in DTYPES},
}


def launch(launcher: Any, given: tuple[Any, ...], arguments: tuple[Any, ...]) -> None:
    """Launch what was compiled for arguments of some kinds, interpreted or compiled, and note that in the log of the run."""
    fn = function_of(launcher)
    if fn is None:
        raise TypeError(f"a {type(launcher).__name__} is no launcher of CuTe DSL")

    def run() -> None:
        if isinstance(launcher, ThreadFunction):
            launch_interpreted(launcher, given, arguments)
            return
        made = _compiled(launcher, given)
        if log is None or log.ahead is None:
            made(*arguments)

    log = _current[-1]() if _current else None
    if log is None:
        run()
    else:
        log.launch(fn, (1,), [[*arguments, *(each for each in given if type(each) is tuple)], {}], run)


def launch_interpreted(launcher: Any, given: tuple[Any, ...], arguments: tuple[Any, ...]) -> None:
    """Run a launcher: tensors and numbers in order, and the constants that it was compiled with."""
    left = list(arguments)
    passed: list[Any] = []
    for each in given:
        if each == STREAM:
            passed.append(None)
        elif type(each) is tuple:
            passed.append(each)
        else:
            passed.append(_fits(left.pop(0), each))
    if left:
        raise TypeError("a launcher is given more than it was compiled for")
    launcher(*passed)


_OF_TORCH = {
    torch.float32: "Float32", torch.bfloat16: "BFloat16", torch.float16: "Float16", torch.int64: "Int64",
    torch.int32: "Int32",
}  # fmt: skip


def _in_type(number: Any, kind: str) -> Any:
    """A number as a launcher has it that was compiled for numbers of this type."""
    if kind == "Boolean":
        return bool(number)
    dtype = getattr(torch, DTYPES[kind].own)
    if not (dtype.is_floating_point or isinstance(number, int)):
        raise TypeError(f"a launcher is given a {type(number).__name__} for a whole number")
    return torch.tensor(number, dtype=dtype).item()  # of a whole number that does not fit it raises


def _fits(given: Any, stand: Stand) -> Any:
    if isinstance(given, torch.Tensor) != bool(stand.align):
        raise TypeError("a launcher is given a tensor for a number, or a number for a tensor")
    if not stand.align:
        return _in_type(given, stand.kind)
    if given.ndim != 1 or _OF_TORCH.get(given.dtype) != stand.kind:
        raise TypeError(f"a launcher is given something else than a tensor of {stand.kind}")
    if given.numel() and ((given.numel() > 1 and given.stride(0) != 1) or given.data_ptr() % stand.align):
        raise ValueError("a launcher is given a tensor that begins elsewhere than it was compiled for")
    return given


@functools.cache
def _compiled(launcher: Any, given: tuple[Any, ...]) -> Callable[..., None]:
    """What the package compiles for arguments of these kinds."""
    cutlass, cute = importlib.import_module(MODULE), importlib.import_module("cutlass.cute")
    made: list[Any] = []
    for each in given:
        if each == STREAM:
            made.append(cute.runtime.make_fake_stream(use_tvm_ffi_env_stream=True))
        elif type(each) is tuple:
            made.append(each)
        elif each.align:
            dtype = getattr(cutlass, each.kind)
            made.append(cute.runtime.make_fake_compact_tensor(dtype, (cute.sym_int64(),), assumed_align=each.align))
        else:
            made.append(getattr(cutlass, each.kind)(1))
    compiled = cute.compile.real if isinstance(cute.compile, _WatchedCompile) else cute.compile
    return compiled(launcher, *made, options=OPTIONS)  # type: ignore[no-any-return]  # the package's own


_current: list[Callable[[], Log | None]] = []


def watch(current: Callable[[], Log | None]) -> None:
    """Report launches from now on to the log that ``current`` gives."""
    _current[:] = [current]


_PLAIN = "_kernelsmith_plain"  # an attribute of the package's functions


def made(plain: types.FunctionType, kind: str) -> Any:
    """The kernel or function of a Python function, interpreted or the package's own.

    The package reads a function's text with its decorator, and puts other code in its place: it is given a function of its own.
    """
    decorate = getattr(importlib.import_module("cutlass.cute"), kind)
    if decorate in (kernel, jit):
        return decorate(plain)
    place = f"{plain.__code__.co_filename}:{MODULE}"
    text = f"@__kernelsmith_cutlass__.cute.{kind}\n{inspect.getsource(plain)}"
    linecache.cache[place] = (len(text), None, text.splitlines(keepends=True), place)
    names = plain.__globals__
    names["__builtins__"] = vars(builtins)  # what the package writes into the checked text names more of them
    exec(builtins.compile(text, place, "exec", dont_inherit=True), names)  # noqa: S102 - the checked text of ``plain``
    real = names.pop(plain.__name__)
    setattr(real, _PLAIN, plain)
    return real


def watch_real() -> None:
    """Have the package's own ``compile`` note launches, where modules that are imported find it; once."""
    cute = importlib.import_module("cutlass.cute")
    if not isinstance(cute.compile, _WatchedCompile):
        cute.compile = _WatchedCompile(cute.compile)  # type: ignore[attr-defined]  # it is a module's


@dataclass
class _WatchedCompile:
    """The package's ``compile``, of whose results the log is told."""

    real: Any

    def __call__(self, launcher: Any, *given: Any, **options: Any) -> Callable[..., None]:
        made = self.real(launcher, *given, **options)
        constants = [each for each in given if type(each) is tuple]

        def launch(*arguments: Any) -> None:
            log, fn = _current[-1]() if _current else None, function_of(launcher)
            if log is None or fn is None:
                made(*arguments)
            else:
                log.launch(fn, (1,), [[*arguments, *constants], {}], lambda: made(*arguments))

        return launch


def function_of(value: Any) -> types.FunctionType | None:
    """The Python function of a kernel, device function or launcher, interpreted or the package's own; None of anything else."""
    if isinstance(value, Kernel | ThreadFunction):
        return value.fn
    if not isinstance(value, types.FunctionType):
        return None
    function = getattr(value, _PLAIN, None) or (
        getattr(value, "__wrapped__", None) if hasattr(value, "_decorator_kind") else None
    )
    return function if isinstance(function, types.FunctionType) else None


# -- memory


def make_layout(shape: Any, *, stride: Any = None) -> VectorLayout:
    """A layout; without strides the elements of one mode lie next to each other."""
    if stride is None and isinstance(shape, list | tuple):
        raise unproved("Where kernels of CuTe DSL are interpreted `cute.make_layout` of several modes takes strides.")
    return VectorLayout(shape, 1 if stride is None else stride)


def make_copy_atom(operation: Any, dtype: Dtype, *, num_bits_per_copy: int) -> Access:
    """An access of so many bits."""
    if not isinstance(operation, CopyUniversalOp) or num_bits_per_copy not in ACCESSES:
        raise unproved("Where kernels of CuTe DSL are interpreted copies are `CopyUniversalOp`, of 8 to 128 bits.")
    return Access(dtype, num_bits_per_copy)


def make_rmem_tensor(shape: Any, dtype: Dtype) -> Fragment:
    """A thread's elements in registers."""
    return Fragment(shape, dtype)


def make_tensor(first: Any, layout: VectorLayout) -> Any:
    """Elements from a place on."""
    if isinstance(first, SharedNumbers):
        if _size(layout.shape) != first.size or layout.stride != 1:
            raise unproved("Where kernels of CuTe DSL are interpreted shared memory is one row of numbers.")
        return first
    return Place(first, layout)


def alloc_smem(dtype: Dtype, size: int) -> SharedNumbers:
    """Shared memory of a block."""
    from triton.runtime import interpreter

    block = tuple(interpreter.interpreter_builder.grid_idx)
    if _shared and _shared[-1].block != block:
        _shared.clear()
    made = SharedNumbers(size, dtype, block)
    _shared.append(made)
    taken = sum(each.size * each.dtype.width // 8 for each in _shared)
    if taken > MOST_SHARED:
        message = f"A block takes {taken:,} bytes of shared memory, and a GPU has at most {MOST_SHARED:,} for one."
        raise Violation("shared memory", message, Status.launch_error)
    return made


def assume(number: Any, *, divby: int) -> Any:
    """The number, which is a multiple of another."""
    if (number.handle.data % divby).any():
        raise Violation(
            None, f"A kernel says that a place is a multiple of {divby}, which it is not.", Status.out_of_bounds
        )
    return number


def copy(access: Access, source: Any, target: Any, *, pred: Fragment) -> None:
    """Copies a thread's vectors, each as one access where it is said to be there."""
    import triton.language as tl
    from triton.runtime.interpreter import np as numpy

    place, registers = (source, target) if isinstance(source, Place) else (target, source)
    if not (isinstance(place, Place) and isinstance(registers, Fragment) and isinstance(pred, Fragment)):
        raise unproved("Where kernels of CuTe DSL are interpreted copies are between memory and registers.")
    offsets = numpy.array(_offsets(place.layout), numpy.int64)
    wide = access.bits // access.dtype.width
    steps = offsets.reshape(-1, wide)
    if (
        access.bits % access.dtype.width
        or pred.size * wide != registers.size
        or (steps != steps[:, :1] + numpy.arange(wide)).any()
    ):
        raise unproved("Where kernels of CuTe DSL are interpreted an access is one vector, which its predicate is for.")
    pointers = place.first + _block(offsets.reshape(1, -1), tl.int64)
    there = pred.load().handle.data
    mask = _block(numpy.repeat(there, wide, axis=1), tl.int1)
    begins = pointers.handle.data[:, ::wide]
    if (begins[there.astype(bool)] % (access.bits // 8)).any():
        raise Violation(
            None,
            "A kernel reads or writes a vector that does not begin at a multiple of its size.",
            Status.launch_error,
        )
    if place is target:
        tl.store(pointers, registers.load(), mask=mask)
    elif registers.filled is None:
        raise unproved("Where kernels of CuTe DSL are interpreted registers are filled before a copy into them.")
    else:
        registers.value = tl.load(pointers, mask=mask, other=registers.filled)
        registers.filled = None


# -- values


def full(shape: Any, number: Any, dtype: Dtype) -> Any:
    """A number beside each of a thread's elements."""
    import triton.language as tl

    size = [_threads[0], _size(shape)]
    if not isinstance(number, tl.tensor):
        return tl.full(size, number, dtype.tl)
    return tl.broadcast_to(tl.cast(number, dtype.tl), size)


def full_like(value: Any, number: Any, dtype: Dtype) -> Any:
    """A number beside each of a value's elements."""
    return full(int(value.shape[1]), number, dtype)


def where(condition: Any, x: Any, y: Any) -> Any:
    """One of two, by element."""
    import triton.language as tl

    if not (isinstance(x, tl.tensor) or isinstance(y, tl.tensor)):
        raise ValueError("at least one of x and y must be tensor")
    return tl.where(condition, x, y)


def _to(self: Any, dtype: Any, *rest: Any, **named: Any) -> Any:
    from triton.runtime import interpreter

    named.setdefault("_semantic", interpreter.interpreter_semantic)
    return _original["to"](self, dtype.tl if isinstance(dtype, Dtype) else dtype, *rest, **named)


def _reduce(self: Any, operation: Any, initial: Any, profile: Any, *rest: Any, **named: Any) -> Any:
    import triton.language as tl

    if not isinstance(operation, ReductionOp) or profile != 0:
        raise unproved(
            "Where kernels of CuTe DSL are interpreted a reduction is of all elements, by `cute.ReductionOp`."
        )
    if operation is ReductionOp.ADD and initial == 0:
        return tl.sum(self, axis=1, keep_dims=True)
    if operation is ReductionOp.ADD or abs(initial) != math.inf:
        raise unproved("Where kernels of CuTe DSL are interpreted sums begin with zero, and maxima with infinity.")
    return tiles.with_nan(getattr(tl, operation.value)(self, axis=1, keep_dims=True), self, 1, True)


def _item(self: Any, index: Any) -> Any:
    import triton.language as tl

    if self.dtype.is_ptr():  # an element of a tensor
        return tl.load(self + _scalar_of(index))
    if isinstance(index, int):  # a thread's element
        return _block(self.handle.data[:, index : index + 1], self.dtype, self.handle)
    from triton.runtime import interpreter

    return _original["__getitem__"](self, index, _semantic=interpreter.interpreter_semantic)


def _set_item(self: Any, index: Any, value: Any) -> None:
    """Stores an element of a tensor, by every thread of the block."""
    import triton.language as tl

    shape = [_threads[0], 1]
    tl.store(tl.broadcast_to(self + _scalar_of(index), shape), tl.broadcast_to(value, shape))


_original: dict[str, Any] = {}


def _teach(tl: Any) -> None:
    """Adds the methods of CuTe DSL's values to Triton's blocks; once."""
    if _original:
        return
    _original.update({name: getattr(tl.tensor, name) for name in ("to", "__getitem__")})
    tl.tensor.to, tl.tensor.reduce, tl.tensor.__getitem__, tl.tensor.__setitem__ = _to, _reduce, _item, _set_item
    tl.tensor.iterator = property(lambda self: self)  # a tensor is where its first element lies
    tl.tensor.element_type = property(lambda self: _dtype_of(self.dtype.element_ty))


def thread_idx() -> tuple[Any, int, int]:
    """The number of each thread of the block."""
    import triton.language as tl
    from triton.runtime.interpreter import np as numpy

    return _block(numpy.arange(_threads[0]).reshape(-1, 1), tl.int32), 0, 0


def warp_idx() -> Any:
    """The number of the warp of each thread."""
    import triton.language as tl
    from triton.runtime.interpreter import np as numpy

    return _block(numpy.arange(_threads[0]).reshape(-1, 1) // WARP, tl.int32)


def block_idx() -> tuple[Any, Any, Any]:
    """Which block this is."""
    import triton.language as tl

    return tl.program_id(0), tl.program_id(1), tl.program_id(2)


def grid_dim() -> tuple[Any, Any, Any]:
    """How many blocks there are."""
    import triton.language as tl

    return tl.num_programs(0), tl.num_programs(1), tl.num_programs(2)


def running() -> int:
    """The threads of the block that runs; zero where none does."""
    return _threads[0]


def sync_threads() -> None:
    """The barrier of a block."""
    from triton.runtime import interpreter

    barrier = getattr(interpreter._interpreter, "barrier", None)  # noqa: SLF001 - as `memory` guards it
    if barrier is not None:
        barrier()
    for shared in _shared:
        shared.barrier()


def warp_reduction(value: Any, op: Any) -> Any:
    """The numbers of a warp's threads, joined in pairs, in each of them."""
    from triton.runtime.interpreter import np as numpy

    lanes = numpy.arange(_threads[0])
    for distance in (16, 8, 4, 2, 1):
        other = value.handle.data[lanes ^ distance]
        value = op(value, _block(other, value.dtype, value.handle))
    return value


def warp_reduction_sum(value: Any) -> Any:
    """The sum of the numbers of a warp's threads, in each of them."""
    return warp_reduction(value, lambda x, y: x + y)


def fmax(x: Any, y: Any, *, nan: bool = False) -> Any:
    """The larger of two numbers."""
    import triton.language as tl

    return tl.maximum(x, y, propagate_nan=tl.PropagateNan.ALL if nan else tl.PropagateNan.NONE)


def fmin(x: Any, y: Any, *, nan: bool = False) -> Any:
    """The smaller of two numbers."""
    import triton.language as tl

    return tl.minimum(x, y, propagate_nan=tl.PropagateNan.ALL if nan else tl.PropagateNan.NONE)


def _by_triton(name: str) -> Callable[..., Any]:
    def operation(x: Any) -> Any:
        import triton.language as tl

        return getattr(tl, name)(x)

    operation.__name__ = name
    return operation


def _by_libdevice(name: str) -> Callable[..., Any]:
    def operation(x: Any) -> Any:
        from triton.language.extra import libdevice

        return getattr(libdevice, name)(x)

    operation.__name__ = name
    return operation


def _module(name: str, **members: Any) -> types.ModuleType:
    made = types.ModuleType(name)
    vars(made).update(members)
    made.__getattr__ = functools.partial(_missing, name)  # type: ignore[method-assign]  # PEP 562
    return made


def _missing(module: str, name: str) -> Any:
    if f"{module}.{name}" not in language.THREAD_LANGUAGE:
        raise AttributeError(f"module '{module}' has no attribute '{name}'")
    raise unproved(f"Where kernels of CuTe DSL are interpreted there is no `{module}.{name}`.")


_TRITON = ("abs", "exp", "exp2", "log", "log2", "sqrt", "rsqrt", "sin", "cos", "floor", "ceil", "erf")
_LIBDEVICE = {"tanh": "tanh", "log1p": "log1p", "expm1": "expm1", "trunc": "trunc", "roundeven": "rint"}


def stand_in() -> None:
    """Have this process, which has no GPU, import this language as ``cutlass``; once."""
    if getattr(sys.modules.get(MODULE), "DTYPES", None) is DTYPES:
        return
    modules = {
        "cutlass.cute.arch": _module(
            "cutlass.cute.arch",
            **_named(thread_idx, warp_idx, block_idx, grid_dim, sync_threads, warp_reduction, warp_reduction_sum, fmax, fmin),
            alloc_smem=alloc_smem,
        ),
        "cutlass.cute.math": _module(
            "cutlass.cute.math",
            **{name: _by_triton(name) for name in _TRITON},
            **{name: _by_libdevice(other) for name, other in _LIBDEVICE.items()},
        ),
        "cutlass.cute.nvgpu": _module("cutlass.cute.nvgpu", CopyUniversalOp=CopyUniversalOp),
        "cutlass.cute.runtime": _module("cutlass.cute.runtime", **_named(make_fake_compact_tensor, make_fake_stream)),
    }  # fmt: skip
    parts = {name.rpartition(".")[2]: made for name, made in modules.items()}
    modules["cutlass.cute"] = _module(
        "cutlass.cute",
        **_named(
            kernel, jit, compile, sym_int64, make_layout, make_copy_atom, make_rmem_tensor, make_tensor, assume, copy
        ),
        **_named(full, full_like, where),
        Tensor=TensorArgument,
        ReductionOp=ReductionOp,
        **parts,
    )
    modules[MODULE] = _module(
        MODULE, cute=modules["cutlass.cute"], Constexpr=Constexpr, range_constexpr=range, DTYPES=DTYPES, **DTYPES
    )
    sys.modules.update(modules)


def _named(*members: Any) -> dict[str, Any]:
    return {member.__name__: member for member in members}
