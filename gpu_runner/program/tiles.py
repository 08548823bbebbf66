"""cuTile's language in Triton's interpreter: what ``cuda.tile`` is where kernels are interpreted, whether or not it is installed.

cuTile has no interpreter of its own. Its operations on tiles are Triton's on blocks, so that what is watched of Triton kernels
(what they decide, races, memory, NaN) is watched of cuTile's too. What stands here for an address is by cuTile's documentation: a
tile that is partly beyond its array is padded, and one that is wholly beyond it is an error, since nothing says what it holds.

Source: the docstrings of cuda-tile 1.7. A test holds these signatures against the package's.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import os
import sys
import types
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from enum import Enum
from typing import TYPE_CHECKING, Any, NamedTuple, get_type_hints

import torch

from gpu_runner.contracts.verify import Status
from gpu_runner.program import language
from gpu_runner.program.objects import Violation, unproved

if TYPE_CHECKING:
    from gpu_runner.program.log import Log

MODULE = "cuda.tile"
HINTS = frozenset({"latency", "allow_tma"})  # of loads and stores, which change no value
# Of kernels, which change none either. With `num_ctas` norms gave other sums: docs/measurements/2026-11-29-cutile-h200.md.
OPTIONS = frozenset({"occupancy", "opt_level", "num_worker_warps"})


class PaddingMode(Enum):
    """What lies beyond the end of an array."""

    UNDETERMINED = "undetermined"
    ZERO = "zero"
    NEG_ZERO = "neg_zero"
    NAN = "nan"
    POS_INF = "pos_inf"
    NEG_INF = "neg_inf"


class RoundingMode(Enum):
    """How a result is rounded."""

    RN = "nearest_even"
    RZ = "zero"
    RM = "negative_inf"
    RP = "positive_inf"
    RA = "nearest_away"
    FULL = "full"
    APPROX = "approx"


_PADDING = {
    PaddingMode.ZERO: 0.0, PaddingMode.NEG_ZERO: -0.0, PaddingMode.NAN: float("nan"),
    PaddingMode.POS_INF: float("inf"), PaddingMode.NEG_INF: float("-inf"),
}  # fmt: skip


class Constant:
    """The annotation of a constant."""

    def __class_getitem__(cls, _: Any) -> type:
        """The same with the type of the constant."""
        return cls


class Array(NamedTuple):
    """A tensor as a kernel has it: its first element, and how many there are along each axis, how far apart."""

    pointer: Any
    shape: tuple[Any, ...]
    strides: tuple[Any, ...]

    @property
    def dtype(self) -> Any:
        """The type of its elements."""
        return self.pointer.dtype.element_ty

    @property
    def ndim(self) -> int:
        """How many axes it has."""
        return len(self.shape)


class Kernel:
    """A kernel in the interpreter; ``fn`` is its Python function."""

    def __init__(self, fn: types.FunctionType) -> None:
        self.fn = fn
        self.arg_names = list(inspect.signature(fn).parameters)
        self._constants = {name: "constexpr" for name, hint in get_type_hints(fn).items() if hint is Constant}

    def __call__(self, *_: Any, **__: Any) -> None:
        """Refuse, as cuTile does."""
        raise TypeError("Tile kernels cannot be called directly. Use cuda.tile.launch() instead.")

    def replace_hints(self, **hints: Any) -> Kernel:
        """The same kernel: no hint changes what it computes."""
        _refuse(hints, OPTIONS, "kernel")
        return self

    def run(self, grid: tuple[int, ...], arguments: Sequence[Any]) -> None:
        """Run every program of a grid."""
        from triton.runtime import interpreter

        rewritten = _interpreted(self.fn).rewrite()
        rewritten.__annotations__ = self._constants  # as Triton names them
        with floored():
            interpreter.GridExecutor(rewritten, self.arg_names, grid)(*map(_array, arguments))


_floors = [False]


@contextmanager
def floored() -> Iterator[None]:
    """Have `//` and `%` of whole numbers below zero be Python's meanwhile, as other languages than Triton have them."""
    _floors[0] = True
    try:
        yield
    finally:
        _floors[0] = False


def is_floored() -> bool:
    """Whether `//` and `%` are Python's now."""
    return _floors[0]


@functools.cache
def _interpreted(fn: types.FunctionType) -> Any:
    import triton.language as tl
    from triton.runtime.interpreter import InterpretedFunction

    fn.__globals__.setdefault("__kernelsmith_tl__", tl)  # by which Triton knows that it is to be interpreted
    return InterpretedFunction(fn)


def _array(value: Any) -> Any:
    return Array(value, tuple(value.shape), tuple(value.stride())) if isinstance(value, torch.Tensor) else value


def kernel(fn: Any = None, /, **options: Any) -> Any:
    """The decorator of a kernel."""
    _refuse(options, OPTIONS, "kernel")
    return Kernel if fn is None else Kernel(fn)


def function(fn: Any = None, /, **options: Any) -> Any:
    """The decorator of a function that kernels call."""
    _refuse(options, frozenset(), "function")
    return _interpreted if fn is None else _interpreted(fn)


_current: list[Callable[[], Log | None]] = []


def launch(stream: Any, grid: Any, kernel: Any, kernel_args: Any, /) -> None:
    """Launch a kernel, interpreted or cuTile's own, and note that in the log of the run."""
    fn, arguments = function_of(kernel), list(kernel_args)
    if fn is None:
        raise TypeError(f"a {type(kernel).__name__} is no kernel of cuTile")
    grid = tuple(grid)

    def run() -> None:
        if isinstance(kernel, Kernel):
            kernel.run(grid, arguments)
            return
        begun = _compiling.get(specialization(kernel, arguments))
        if begun is not None:
            begun.exception()  # the launch itself raises it again
        _real_launch()(stream, grid, kernel, tuple(arguments))

    log = _current[-1]() if _current else None
    if log is None:
        run()
    elif log.ahead is not None:  # cuTile compiles at the launch, of which nobody looks at what it writes
        log.launch(fn, grid, [arguments, {}], functools.partial(_begin, stream, grid, kernel, tuple(arguments)))
    else:
        log.launch(fn, grid, [arguments, {}], run)


_compiling: dict[tuple[Any, ...], Future[Any]] = {}  # launches in threads, by what is compiled for them
MOST_THREADS = 8


@functools.cache
def _threads() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(min(MOST_THREADS, os.cpu_count() or 1), "compile")


def _begin(stream: Any, grid: tuple[int, ...], kernel: Any, arguments: tuple[Any, ...]) -> None:
    """Launch in a thread, which waits for cuTile's compiler, a process of its own; once for all that is compiled alike."""
    if not isinstance(kernel, Kernel) and (key := specialization(kernel, arguments)) not in _compiling:
        _compiling[key] = _threads().submit(_real_launch(), stream, grid, kernel, arguments)


def specialization(kernel: Any, arguments: Sequence[Any]) -> tuple[Any, ...]:
    """What cuTile compiles a kernel anew for: types, constants, and what addresses, sizes and strides are multiples of.

    Source: the constraints of cuTile 1.7 on parameters, which it takes from the arguments of a launch: 16 bytes for addresses and
    strides, 16 for sizes.
    """
    fn = function_of(kernel)
    assert fn is not None
    names = inspect.signature(fn).parameters
    kinds = [_kind(value, name in fn.__annotations__) for name, value in zip(names, arguments, strict=False)]
    return (kernel, *kinds)


def _kind(value: Any, is_constant: bool) -> Any:
    if isinstance(value, torch.Tensor):
        whole = [size % 16 == 0 for size in value.shape]
        steps = [(step == 1, step * value.element_size() % 16 == 0) for step in value.stride()]
        return value.dtype, value.data_ptr() % 16 == 0, *whole, *steps
    return value if is_constant else type(value)


def function_of(value: Any) -> types.FunctionType | None:
    """The Python function of a kernel or device function, interpreted or cuTile's own; None of anything else."""
    if isinstance(value, types.FunctionType):
        function = getattr(value, "__wrapped__", None) if hasattr(value, "_cutile_function_wrapper") else None
    else:
        function = getattr(value, "_pyfunc", None) or (value.fn if isinstance(value, Kernel) else None)
    return function if isinstance(function, types.FunctionType) else None


def watch(current: Callable[[], Log | None]) -> None:
    """Report launches from now on, by ``launch``, to the log that ``current`` gives."""
    _current[:] = [current]


class _TileStream:
    """The stream of kernels that are interpreted."""


_STREAM = _TileStream()


def current_stream(*device: Any, **named: Any) -> Any:
    """The stream on which kernels are launched."""
    return torch.cuda.current_stream(*device, **named) if torch.cuda.is_available() else _STREAM


@functools.cache
def _real_launch() -> Callable[..., Any]:
    package = importlib.import_module(MODULE)
    return package.launch  # type: ignore[no-any-return]  # the package's own


def watch_real() -> None:
    """Have the package's own ``launch`` be the one of this module, where modules that are imported find it; once."""
    real = importlib.import_module(MODULE)
    if real.launch is not launch:
        _real_launch()
        real.launch = launch  # type: ignore[attr-defined]  # it is a module's


def stand_in() -> None:
    """Have this process, which has no GPU, import this language as ``cuda.tile``, and give it a stream to launch on; once."""
    if getattr(sys.modules.get(MODULE), "launch", None) is launch:
        return
    torch.cuda.current_stream = current_stream
    try:
        package: Any = importlib.import_module("cuda")
    except ImportError:
        package = sys.modules["cuda"] = types.ModuleType("cuda")
        package.__path__ = []
    package.tile = sys.modules[MODULE] = _module()


def _module() -> types.ModuleType:
    import triton.language as tl

    made = types.ModuleType(MODULE)
    vars(made).update(_MEMBERS)
    vars(made).update({name: getattr(tl, other) for name, other in _DTYPES.items()})
    made.__getattr__ = _missing  # type: ignore[method-assign]  # PEP 562
    tl.tensor.astype = astype
    tl.tensor.ndim = property(lambda self: len(self.shape))
    return made


def _missing(name: str) -> Any:
    if f"{MODULE}.{name}" not in language.TILE_LANGUAGE:
        raise AttributeError(f"module '{MODULE}' has no attribute '{name}'")
    raise unproved(f"Where kernels of cuTile are interpreted there is no `ct.{name}`.")


def _refuse(given: dict[str, Any], known: frozenset[str], name: str) -> None:
    others = sorted(given.keys() - known)
    if others:
        raise unproved(f"Where kernels of cuTile are interpreted `ct.{name}` takes no `{others[0]}`.")


# -- memory


# What is called with the axis of a load or store, the elements along it of the array and of the tile, and whether some are beyond.
notes: list[Callable[[int, int, int, bool], None]] = []


def _each(values: Any) -> Sequence[Any]:
    import triton.language as tl

    return values if isinstance(values, list | tuple | tl.tuple) else (values,)


def _numbers(values: Any) -> tuple[int, ...]:
    plain: list[Any] = [getattr(value, "value", value) for value in _each(values)]
    return tuple(map(int, plain))


def _of_tile(array: Array, index: Any, sizes: tuple[int, ...]) -> tuple[Any, Any]:
    """The pointers of a tile, and which of its elements lie in the array.

    Raises:
        Violation: none does.
    """
    from triton.runtime import interpreter

    numpy, numbers = interpreter.np, _numbers(index)
    if not len(numbers) == len(sizes) == array.ndim:
        raise TypeError(f"an array of {array.ndim} axes has tiles of as many")
    places = []
    for axis, (number, size, extent) in enumerate(zip(numbers, sizes, map(int, array.shape), strict=True)):
        if number < 0 or number * size >= max(extent, 1):
            interpreter._interpreter.end_if_sampled()  # noqa: SLF001 - as `memory` guards it
            message = "A kernel takes a tile that lies beyond its array, of which cuTile does not say what it holds."
            raise Violation(None, message, Status.out_of_bounds)
        place = numpy.arange(number * size, (number + 1) * size, dtype=numpy.int64)
        if size > 1:
            _note(axis, extent, size, bool(place[-1] >= extent))
        places.append(place.reshape([-1 if other == axis else 1 for other in range(len(sizes))]))
    return _pointers(array, index, places, sizes)


def _pointers(array: Array, index: Any, places: Sequence[Any], sizes: Sequence[int]) -> tuple[Any, Any]:
    """The pointers of places along each axis, which hang on loaded numbers as ``index`` does, and which lie in the array."""
    import triton.language as tl
    from triton.runtime.interpreter import TensorHandle
    from triton.runtime.interpreter import np as numpy

    offsets, inside = numpy.zeros(sizes, numpy.int64), numpy.ones(sizes, bool)
    for place, extent, stride in zip(places, map(int, array.shape), map(int, array.strides), strict=True):
        offsets = offsets + place * stride
        inside = inside & (place >= 0) & (place < extent)
    width = array.dtype.primitive_bitwidth // 8 or 1
    kind = array.pointer.dtype
    first = int(array.pointer.handle.data.item())
    addresses = (first + offsets * width).astype(numpy.uint64)
    shape = list(offsets.shape)
    if shape:
        pointers = tl.tensor(TensorHandle(addresses, kind), tl.block_type(kind, shape))
        mask = tl.tensor(TensorHandle(inside, tl.int1), tl.block_type(tl.int1, shape))
    else:
        pointers, mask = _scalar(addresses, kind), _scalar(inside, tl.int1)
    pointers.handle.is_loaded = any(
        getattr(each.handle, "is_loaded", False)
        for each in _each(index)
        if isinstance(each, tl.tensor)  # where it is followed
    )
    return pointers, mask


def _scalar(data: Any, kind: Any) -> Any:
    import triton.language as tl
    from triton.runtime.interpreter import TensorHandle

    return tl.tensor(TensorHandle(data.reshape(1), kind), kind)


def _note(axis: int, extent: int, size: int, is_beyond: bool) -> None:
    for each in notes:
        each(axis, extent, size, is_beyond)


def _bounded(check_bounds: Any, order: Any, name: str) -> None:
    if not check_bounds or order != "C":
        raise unproved(f"Where kernels of cuTile are interpreted `ct.{name}` checks bounds, in the order of the axes.")


def load(
    array: Array,
    /,
    index: Any,
    shape: Any,
    *,
    order: Any = "C",
    padding_mode: PaddingMode = PaddingMode.UNDETERMINED,
    check_bounds: Any = True,
    **hints: Any,
) -> Any:
    """The tile of a number along each axis."""
    import triton.language as tl

    _refuse(hints, HINTS, "load")
    _bounded(check_bounds, order, "load")
    pointers, inside = _of_tile(array, index, _numbers(shape))
    if padding_mode is PaddingMode.UNDETERMINED:
        return tl.load(pointers, mask=inside)
    padding = _PADDING[padding_mode]
    if not array.dtype.is_floating():
        if padding_mode is not PaddingMode.ZERO:
            raise TypeError(f"elements of {array.dtype} are padded with zeros alone")
        padding = 0
    return tl.load(pointers, mask=inside, other=padding)


def store(array: Array, /, index: Any, tile: Any, *, order: Any = "C", check_bounds: Any = True, **hints: Any) -> None:
    """Stores the tile of a number along each axis; what is beyond the array is dropped."""
    import triton.language as tl

    _refuse(hints, HINTS, "store")
    _bounded(check_bounds, order, "store")
    sizes = _data(tile).shape or (1,) * array.ndim
    pointers, inside = _of_tile(array, index, sizes)
    _is_stored_as(tile, array)
    tl.store(pointers, tile, mask=inside)


def _is_stored_as(tile: Any, array: Array) -> None:
    dtype = getattr(tile, "dtype", None)
    if dtype is not None and dtype.scalar != array.dtype and dtype.is_floating() and not array.dtype.is_floating():
        raise TypeError(f"a tile of {dtype.scalar} is not stored in an array of {array.dtype}")


def _of_indices(array: Array, indices: Any, mask: Any, check_bounds: Any) -> tuple[Any, Any]:
    """The pointers of places, and which are accessed; where bounds are not checked, the mask has to leave out what is beyond."""
    from triton.runtime import interpreter

    numpy, each = interpreter.np, _each(indices)
    if len(each) != array.ndim:
        raise TypeError(f"an array of {array.ndim} axes takes as many indices")
    places = [_data(index).astype(numpy.int64) for index in each]
    sizes = numpy.broadcast_shapes(*(place.shape for place in places))
    for axis, (place, extent) in enumerate(zip(places, map(int, array.shape), strict=True)):
        if check_bounds:
            _note(axis, extent, place.size, bool(((place < 0) | (place >= extent)).any()))
    pointers, inside = _pointers(array, indices, places, sizes)
    if not check_bounds and (~_data(inside) & (mask is None or _data(mask))).any():
        interpreter._interpreter.end_if_sampled()  # noqa: SLF001 - as `memory` guards it
        message = "A kernel accesses elements beyond its array, where bounds are not checked."
        raise Violation(None, message, Status.out_of_bounds)
    return pointers, inside if mask is None else inside & mask


def _data(value: Any) -> Any:
    import triton.language as tl
    from triton.runtime.interpreter import np as numpy

    if not isinstance(value, tl.tensor):
        return numpy.array(value)
    return value.handle.data if value.type.is_block() else value.handle.data.reshape(())


def gather(
    array: Array, indices: Any, /, *, mask: Any = None, padding_value: Any = 0, check_bounds: Any = True, **hints: Any
) -> Any:
    """The elements at indices, and ``padding_value`` where there is none or ``mask`` says not to look."""
    import triton.language as tl

    _refuse(hints, HINTS, "gather")
    pointers, accessed = _of_indices(array, indices, mask, check_bounds)
    return tl.load(pointers, mask=accessed, other=padding_value)


def scatter(
    array: Array, indices: Any, value: Any, /, *, mask: Any = None, check_bounds: Any = True, **hints: Any
) -> None:
    """Stores elements at indices; where an array has none, or ``mask`` says so, nothing is stored."""
    import triton.language as tl

    _refuse(hints, HINTS, "scatter")
    pointers, accessed = _of_indices(array, indices, mask, check_bounds)
    _is_stored_as(value, array)
    tl.store(pointers, value, mask=accessed)


# -- tiles


def bid(axis: Any) -> Any:
    """Which program this is."""
    import triton.language as tl

    return tl.program_id(axis)


def num_blocks(axis: Any) -> Any:
    """How many programs there are."""
    import triton.language as tl

    return tl.num_programs(axis)


def cdiv(x: Any, y: Any, /) -> Any:
    """The quotient of whole numbers, rounded up; host code calls it too."""
    import triton.language as tl

    return -(-x // y) if isinstance(x, int) and isinstance(y, int) else tl.cdiv(x, y)


def arange(size: Any, /, *, dtype: Any, start: Any = 0, step: Any = 1) -> Any:
    """Whole numbers in order."""
    import triton.language as tl

    counted = tl.cast(tl.arange(0, size), dtype)
    return counted if (start, step) == (0, 1) else counted * step + start


def full(shape: Any, fill_value: Any, dtype: Any) -> Any:
    """A tile of one number."""
    import triton.language as tl

    return tl.full(_shaped(shape), fill_value, dtype)


def zeros(shape: Any, dtype: Any) -> Any:
    """A tile of zeros."""
    return full(shape, 0, dtype)


def ones(shape: Any, dtype: Any) -> Any:
    """A tile of ones."""
    return full(shape, 1, dtype)


def _shaped(shape: Any) -> list[int]:
    return list(_numbers(shape))


def astype(x: Any, dtype: Any, /, **options: Any) -> Any:
    """A tile or number in another type."""
    import triton.language as tl

    _refuse(options, frozenset(), "astype")
    return tl.cast(x, dtype)


def broadcast_to(x: Any, /, shape: Any) -> Any:
    """A tile with its axes of one element repeated."""
    import triton.language as tl

    return tl.broadcast_to(x, _shaped(shape))


def reshape(x: Any, /, shape: Any) -> Any:
    """The same elements in another shape."""
    import triton.language as tl

    return tl.reshape(x, _shaped(shape))


def permute(x: Any, /, axes: Any) -> Any:
    """A tile with its axes in another order."""
    import triton.language as tl

    return tl.permute(x, list(_numbers(axes)))


def expand_dims(x: Any, /, axis: Any) -> Any:
    """A tile with one more axis."""
    import triton.language as tl

    return tl.expand_dims(x, axis)


def where(cond: Any, x: Any, y: Any, /) -> Any:
    """One of two tiles, by element."""
    import triton.language as tl

    return tl.where(cond, x, y)


def maximum(x: Any, y: Any, /, *, propagate_nan: bool = False, **options: Any) -> Any:
    """The larger of two, by element."""
    import triton.language as tl

    _refuse(options, frozenset(), "maximum")
    return tl.maximum(x, y, propagate_nan=tl.PropagateNan.ALL if propagate_nan else tl.PropagateNan.NONE)


def minimum(x: Any, y: Any, /, *, propagate_nan: bool = False, **options: Any) -> Any:
    """The smaller of two, by element."""
    import triton.language as tl

    _refuse(options, frozenset(), "minimum")
    return tl.minimum(x, y, propagate_nan=tl.PropagateNan.ALL if propagate_nan else tl.PropagateNan.NONE)


def _sum(x: Any, /, axis: Any = None, *, keepdims: Any = False, **options: Any) -> Any:
    return _reduced("sum", x, axis, keepdims, options)


def _max(x: Any, /, axis: Any = None, *, keepdims: Any = False, propagate_nan: Any = False, **options: Any) -> Any:
    return with_nan(_reduced("max", x, axis, keepdims, options), x, axis, propagate_nan)


def _min(x: Any, /, axis: Any = None, *, keepdims: Any = False, propagate_nan: Any = False, **options: Any) -> Any:
    return with_nan(_reduced("min", x, axis, keepdims, options), x, axis, propagate_nan)


def _reduced(name: str, x: Any, axis: Any, keepdims: Any, options: dict[str, Any]) -> Any:
    import triton.language as tl

    _refuse(options, frozenset(), name)
    if not isinstance(axis, list | tuple):
        return getattr(tl, name)(x, axis=axis, keep_dims=bool(keepdims))
    for each in sorted({number % len(x.shape) for number in _numbers(axis)}, reverse=True):
        x = getattr(tl, name)(x, axis=each, keep_dims=bool(keepdims))
    return x


def with_nan(result: Any, x: Any, axis: Any, propagate_nan: Any) -> Any:
    """The result of a maximum or minimum, NaN where one is among the elements."""
    from triton.runtime.interpreter import np as numpy

    if propagate_nan and x.dtype.scalar.is_floating():
        if x.handle.data.dtype.kind != "f":
            raise unproved(
                "Where kernels of cuTile are interpreted, maxima that hand on NaN are of float16 and wider types."
            )
        axes = tuple(_numbers(axis)) if isinstance(axis, list | tuple) else axis
        has_nan = numpy.isnan(x.handle.data).any(axis=axes, keepdims=True).reshape(result.handle.data.shape)
        result.handle.data = numpy.where(has_nan, numpy.nan, result.handle.data).astype(result.handle.data.dtype)
    return result


def cumsum(x: Any, /, axis: Any = 0, *, reverse: Any = False, **options: Any) -> Any:
    """The running sum along an axis."""
    import triton.language as tl

    _refuse(options, frozenset(), "cumsum")
    return tl.cumsum(x, axis=axis, reverse=bool(reverse))


def mma(x: Any, y: Any, /, acc: Any, **options: Any) -> Any:
    """A product of two tiles, added to a third one."""
    import triton.language as tl

    _refuse(options, frozenset(), "mma")
    kinds = x.dtype, acc.dtype
    if x.dtype != y.dtype or len(x.shape) != 2 or len(y.shape) != 2:
        raise unproved("Where kernels of cuTile are interpreted `ct.mma` takes two tiles of two axes and of one type.")
    if kinds not in {(tl.float16, tl.float32), (tl.bfloat16, tl.float32), (tl.float32, tl.float32)}:
        raise unproved("Where kernels of cuTile are interpreted `ct.mma` adds products of floats up in float32.")
    return tl.dot(x, y, acc, input_precision="ieee")


def exp(x: Any, /, *, rounding_mode: RoundingMode | None = None) -> Any:
    """The exponential; how it is rounded is what Triton's own differs in too."""
    import triton.language as tl

    _rounded(x, rounding_mode, {RoundingMode.FULL, RoundingMode.APPROX}, "exp")
    return tl.exp(x)


def truediv(x: Any, y: Any, /, *, rounding_mode: RoundingMode | None = None, **options: Any) -> Any:
    """The quotient; to two units in the last place where it is asked for so, as Triton divides."""
    _refuse(options, frozenset(), "truediv")
    quotient = x / y
    _rounded(quotient, rounding_mode, {RoundingMode.RN, RoundingMode.FULL}, "truediv")
    return quotient


def _rounded(x: Any, mode: RoundingMode | None, known: set[RoundingMode], name: str) -> None:
    import triton.language as tl

    if mode is not None and mode not in known:
        raise unproved(f"Where kernels of cuTile are interpreted `ct.{name}` has no rounding mode `{mode.name}`.")
    if mode in {RoundingMode.FULL, RoundingMode.APPROX} and x.dtype.scalar != tl.float32:
        raise TypeError(f"ct.{name} has the rounding mode {mode.name} in float32 alone")


def _by_triton(name: str) -> Callable[..., Any]:
    def operation(x: Any, /, **options: Any) -> Any:
        import triton.language as tl

        _refuse(options, frozenset(), name)
        return getattr(tl, name)(x)

    operation.__name__ = name
    return operation


_DTYPES = {
    "bool_": "int1", "int8": "int8", "int16": "int16", "int32": "int32", "int64": "int64", "uint8": "uint8",
    "uint16": "uint16", "uint32": "uint32", "uint64": "uint64", "float16": "float16", "bfloat16": "bfloat16",
    "float32": "float32", "float64": "float64",
}  # fmt: skip
_MEMBERS: dict[str, Any] = {
    made.__name__: made
    for made in (
        PaddingMode, RoundingMode, kernel, function, launch, load, store, gather, scatter, bid, num_blocks, cdiv, arange, full,
        zeros, ones, astype, broadcast_to, reshape, permute, expand_dims, where, maximum, minimum, cumsum, mma, exp, truediv,
    )
} | {name: _by_triton(name) for name in ("abs", "ceil", "cos", "exp2", "floor", "log", "log2", "rsqrt", "sin", "sqrt")} | {
    "sum": _sum, "max": _max, "min": _min, "Constant": Constant,
}  # fmt: skip
