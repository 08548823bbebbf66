"""Bounds for the kernels that Triton's interpreter runs: what they read and write lies in the memory that they were given.

The interpreter reads and writes wherever a kernel's pointers lead, as a GPU does, but in this process's own memory.
"""

from __future__ import annotations

import ctypes
import functools
import inspect
import math
import secrets
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from enum import StrEnum
from typing import Any

import torch

from gpu_runner.contracts.verify import Status
from gpu_runner.program import pipelines, threads, unordered
from gpu_runner.program.kernels import tensors_in
from gpu_runner.program.lanes import line_of_kernel
from gpu_runner.program.objects import Violation
from gpu_runner.program.sampling import MOST_OPERATIONS as MOST_SAMPLED_OPERATIONS
from gpu_runner.program.sampling import MOST_WHOLE, Sample, enough, sampled_call

MOST_OPERATIONS = 2_000_000  # of one interpreted launch; about twenty microseconds each
LEAST_OFFSET, _INT32 = 2**16, 4  # elements of which an offset is noted; bytes of one
WARPS = (1, 2, 4, 8, 16, 32)
FALSE_CLAIM = "false claim"  # rule of what a kernel says of its arguments to the compiler


Writer = tuple[int, int]  # a program, and the warp of it where threads are known


class _Acquaintance:
    """Which writes of others of a launch a writer may go by: those that an atomic or barrier released and it acquired there later.

    The writes of a program, or of a warp where threads are known, until it next releases are one *stretch*; stretches have
    numbers from 1 on, and are kept as bits.
    """

    def __init__(self) -> None:
        self._released: dict[object, int] = {}  # by address or barrier, the stretches that who acquires there may go by
        self._known: dict[Writer, int] = {}  # those of others
        self._own: dict[Writer, int] = {}
        self._stretches: dict[Writer, int] = {}  # in which each is
        self._count = 0

    def stretch_of(self, program: Writer) -> int:
        """The number of the stretch that a writer is in."""
        if program not in self._stretches:
            self._begin(program)
        return self._stretches[program]

    def _begin(self, program: Writer) -> None:
        self._count += 1
        self._stretches[program] = self._count
        self._own[program] = self._own.get(program, 0) | 1 << self._count

    def meet(self, program: Writer, addresses: Sequence[object], *, acquires: bool, releases: bool) -> None:
        """Note an atomic of a writer at these addresses, or a barrier."""
        for address in addresses:
            if acquires:
                self._known[program] = self._known.get(program, 0) | self._released.get(address, 0)
            if releases:
                left = self._known.get(program, 0) | self._own.get(program, 0)
                self._released[address] = self._released.get(address, 0) | left
        if releases:
            self._begin(program)  # what it writes from now on nobody knows of

    def is_known(self, program: Writer, stretch: int) -> bool:
        """Whether a stretch is a writer's own, or one that it acquired."""
        return bool((self._own.get(program, 0) | self._known.get(program, 0)) >> stretch & 1)


class _Guarded:
    """The interpreter's reads and writes, each held against the ranges of the running launch."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner
        self.ranges: list[tuple[int, int]] = []
        self.operations, self.most = 0, MOST_OPERATIONS
        self.sample: Sample | None = None  # where launches are sampled, what is known of memory
        self._writers: list[Any] = []  # by range, the stretch of a program that wrote each byte; zero: none
        self._arrays: dict[tuple[int, Any], Any] = {}  # by range and dtype, its memory
        self._acquaintance = _Acquaintance()
        self.is_of_one_block = False  # the atomic that is carried out: it orders threads of one program alone
        self.builder: Any = None
        self.np: Any = None  # numpy, which Triton's interpreter itself needs

    def begin(self, ranges: list[tuple[int, int]]) -> None:
        """Begin a launch."""
        self.ranges, self._acquaintance, self.operations = ranges, _Acquaintance(), 0
        self._writers, self._arrays = [None] * len(ranges), {}
        pipelines.begin()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def load(self, ptr: Any, mask: Any, other: Any, dtype: Any) -> Any:
        addresses, place = self._checked(ptr, mask, dtype.itemsize, "reads")
        if self.sample is None:
            self._look_for_races(ptr, addresses, place, mask=mask)
            if pipelines.loops and place is not None:
                pipelines.load(place, self._places(addresses, place))
        for begin, _, within in self._by_range(addresses, place):
            self.sample.reads(begin, within)  # type: ignore[union-attr]  # without a sample there are none
        return self._read(addresses, place, ptr, mask, other, dtype)

    def store(self, ptr: Any, value: Any, mask: Any) -> Any:
        addresses, place = self._checked(ptr, mask, value.dtype.itemsize, "writes")
        if self.sample is None:
            self._look_for_races(ptr, addresses, place, value, mask)
            if pipelines.loops and place is not None:
                begin, end = self.ranges[place]
                pipelines.store(place, end - begin, self._places(addresses, place), value.dtype.itemsize, self.np)
        self._sampled_write(addresses, place, value.dtype.itemsize)
        at = self._elements_at(addresses, place, value.dtype) if value.shape == ptr.shape else None
        if at is None:
            self._inner.store(ptr, value, mask)
        else:
            self._array(place, value.dtype)[at] = (
                value if addresses is ptr else value[self.np.asarray(mask).astype(bool)]
            )
        if self.sample is None and addresses.size > 1 and self._differs(addresses.ravel(), place, value, mask).any():
            message = "A kernel writes several numbers to one place at once: on a GPU any of them may stay."
            raise Violation("race", message, Status.nondeterministic)

    def atomic_cas(self, ptr: Any, cmp: Any, val: Any, sem: Any) -> Any:
        addresses, place = self._checked(ptr, None, val.dtype.itemsize, "writes")
        self._sampled_write(addresses, place, val.dtype.itemsize, adds=True)
        self._meet(addresses, sem)  # programs that wait for one another may read what others wrote
        return self._inner.atomic_cas(ptr, cmp, val, sem)

    def atomic_rmw(self, operation: Any, ptr: Any, val: Any, mask: Any, sem: Any) -> Any:
        addresses, place = self._checked(ptr, mask, val.dtype.itemsize, "writes")
        self._sampled_write(addresses, place, val.dtype.itemsize, adds=True)
        if self.sample is None and self.is_of_one_block:  # to other programs a read and a write
            for value in (None, val):
                self._look_for_races(ptr, addresses, place, value, mask)
        # Who draws a ticket may know that the others have written; whether it goes by the ticket, other orders show.
        if "XCHG" in str(operation) or (ptr.size == 1 and val.dtype.kind in "iu"):
            self._meet(addresses, sem)
        return self._inner.atomic_rmw(operation, ptr, val, mask, sem)

    def _meet(self, addresses: Any, semantic: Any) -> None:
        """Note what an atomic orders: by default all that its program writes before it and reads after it, relaxed nothing."""
        if self.sample is None and not self.is_of_one_block:
            word = str(semantic)
            acquires, releases = "ACQUIRE" in word, "RELEASE" in word
            self._acquaintance.meet(
                (self._program(), 0), addresses.ravel().tolist(), acquires=acquires, releases=releases
            )

    def barrier(self) -> None:
        """Let all warps of the program that runs go by what they have written."""
        warps = [(self._program(), warp) for warp in range(threads.running() // threads.WARP)]
        for releases in (True, False):
            for warp in warps:
                self._acquaintance.meet(warp, [("barrier", warp[0])], acquires=not releases, releases=releases)

    def adding(self, ptr: Any, mask: Any, width: int) -> Any:
        """Check an atomic addition that this interpreter lacks; gives what reads and writes memory unwatched, to carry it out."""
        addresses, place = self._checked(ptr, mask, width, "writes")
        self._sampled_write(addresses, place, width, adds=True)
        return self._inner

    def _by_range(self, addresses: Any, place: int | None) -> Iterator[tuple[int, int, Any]]:
        """Where launches are sampled, the ranges in which addresses lie, with those in each.

        ``place``: the range in which all of them lie.
        """
        if self.sample is None or not addresses.size:
            return
        flat = addresses.ravel()
        if place is not None:
            yield *self.ranges[place], flat
            return
        for begin, end in self.ranges:
            within = flat[(flat >= begin) & (flat < end)]
            if within.size:
                yield begin, end, within

    def _sampled_write(self, addresses: Any, place: int | None, width: int, *, adds: bool = False) -> None:
        for begin, end, within in self._by_range(addresses, place):
            self.sample.writes(begin, end, within, width, adds=adds)  # type: ignore[union-attr]  # as in ``load``

    def _look_for_races(self, ptr: Any, addresses: Any, place: int | None, value: Any = None, mask: Any = None) -> None:
        """Refuse what depends on the order of programs or, where threads are known, of warps: each has rows of a block.

        ``place``: the range in which all addresses lie.
        """
        if place is None or (value is None and self._writers[place] is None):
            return
        begin, end = self.ranges[place]
        if self._writers[place] is None:
            self._writers[place] = self.np.zeros(end - begin, dtype="int32")
        parts = [(0, addresses.ravel(), value, mask)]
        if warps := threads.running() // threads.WARP:
            used = self.np.ones(ptr.shape, bool) if mask is None else self.np.asarray(mask).astype(bool)
            has_rows = ptr.ndim == 2 and ptr.shape[0] == threads.running()  # else all read what is the same for all
            each = [
                slice(warp * threads.WARP, (warp + 1) * threads.WARP) if has_rows else slice(None)
                for warp in range(warps)
            ]
            whole = None if value is None else self.np.broadcast_to(value, ptr.shape)
            given = [None if whole is None else whole[rows][used[rows]] for rows in each]
            parts = [(warp, ptr[rows][used[rows]], given[warp], None) for warp, rows in enumerate(each)]
        for warp, at, numbers, where in parts:
            self._look_for_a_race((self._program(), warp), at, place, numbers, where)
        for warp, at, _, _ in parts if value is not None else ():
            self._writers[place][(at - begin).astype("int64")] = self._acquaintance.stretch_of((self._program(), warp))

    def _look_for_a_race(self, writer: Writer, addresses: Any, place: int, value: Any, mask: Any) -> None:
        """Refuse to read what another writer wrote, or to write something else over it."""
        own = self._acquaintance.stretch_of(writer)
        there = self._writers[place][(addresses - self.ranges[place][0]).astype("int64")]
        others = (there != 0) & (there != own)
        if others.any() and value is not None:
            others &= self._differs(addresses, place, value, mask)
        if others.any():
            stretches = self.np.unique(there[others]).tolist()
            if not all(self._acquaintance.is_known(writer, stretch) for stretch in stretches):
                who = "warp" if threads.running() else "program"
                does = (
                    f"reads what another {who} of the launch wrote"
                    if value is None
                    else f"writes over another {who}'s result"
                )
                raise Violation("race", f"A kernel {does}: on a GPU its {who}s run at once.", Status.nondeterministic)

    def _places(self, addresses: Any, place: int) -> Any:
        return (addresses.ravel() - self.ranges[place][0]).astype("int64")

    def _array(self, place: int | None, dtype: Any) -> Any:
        """The memory of a range as numbers of a dtype."""
        assert place is not None
        if (place, dtype) not in self._arrays:
            begin, end = self.ranges[place]
            region = (ctypes.c_char * (end - begin)).from_address(begin)
            self._arrays[place, dtype] = self.np.frombuffer(region, dtype, (end - begin) // dtype.itemsize)
        return self._arrays[place, dtype]

    def _elements_at(self, addresses: Any, place: int | None, dtype: Any) -> Any:
        """Which elements of the memory of a range lie at addresses; None where they lie in several, or between elements."""
        if place is None:
            return None
        at = addresses - self.ranges[place][0]
        if self.np.bitwise_or.reduce(at, axis=None) % dtype.itemsize:
            return None
        at >>= dtype.itemsize.bit_length() - 1
        return at.view("int64")

    def _read(self, addresses: Any, place: int | None, ptr: Any, mask: Any, other: Any, dtype: Any) -> Any:
        """Load as Triton's interpreter does, which takes one element after the other: by numpy where all lie in one range."""
        at = self._elements_at(addresses, place, dtype)
        if at is None or other.dtype != dtype or other.shape != ptr.shape:
            mask = self.np.ones(ptr.shape, dtype=bool) if mask is None else mask
            return self._inner.load(ptr, mask, other, dtype)
        if addresses is ptr:
            return self._array(place, dtype)[at]
        values = other.copy()
        values[self.np.asarray(mask).astype(bool)] = self._array(place, dtype)[at]
        return values

    def _differs(self, addresses: Any, place: int | None, value: Any, mask: Any) -> Any:
        """Where memory holds something else than what is written."""
        given = value if mask is None else value[self.np.asarray(mask).astype(bool)]
        there = self._read(addresses, place, addresses, None, given.ravel(), value.dtype)
        bits = f"u{value.dtype.itemsize}"
        return there.view(bits) != given.ravel().astype(value.dtype).view(bits)

    def _program(self) -> int:
        x, y, z = self.builder.grid_idx
        columns, rows, _ = self.builder.grid_dim
        return 1 + int(x) + int(columns) * (int(y) + int(rows) * int(z))

    def end_if_sampled(self) -> None:
        """End a program that leaves its memory where launches are sampled, and goes by what others would have written."""
        if self.sample is not None and self.sample.is_lost:
            enough()

    def _range_of(self, low: int, high: int) -> int | None:
        return next((n for n, (begin, end) in enumerate(self.ranges) if begin <= low and high <= end), None)

    def count(self, operations: int = 1) -> None:
        """Count an operation on blocks, or as many as there are programs at least.

        Raises:
            Violation: one launch takes too many to be meant.
        """
        self.operations += operations
        if self.sample is not None:
            if self.operations > self.most:
                enough(is_long=True)
            return
        if self.operations > MOST_OPERATIONS:
            raise Violation(
                "endless", f"A kernel takes more than {MOST_OPERATIONS:,} operations on blocks for one launch."
            )

    def _checked(self, ptr: Any, mask: Any, width: int, does: str) -> tuple[Any, int | None]:
        """The addresses that are used, and the range in which all lie; None where there is no single one.

        Raises:
            Violation: an address lies in none.
        """
        used = None if mask is None else self.np.asarray(mask)
        addresses = ptr if used is None or used.all() else self.np.asarray(ptr)[used.astype(bool, copy=False)]
        if addresses.size == 0:
            return addresses, None
        low, high = self.np.minimum.reduce(addresses, axis=None), self.np.maximum.reduce(addresses, axis=None)
        place = self._range_of(int(low), int(high) + width)
        if place is not None:
            return addresses, place
        self.end_if_sampled()
        for address in addresses.ravel().tolist():
            if not any(begin <= address and address + width <= end for begin, end in self.ranges):
                raise Violation(None, f"A kernel {does} memory that it was not given.", Status.out_of_bounds)
        return addresses, None


def guard_memory() -> None:
    """Bound the interpreter of this process, once, to the storages of a launch's arguments."""
    from triton.runtime import interpreter

    if isinstance(interpreter._interpreter, _Guarded):  # noqa: SLF001 - there is no public place for it
        return
    guarded = _Guarded(interpreter._interpreter)  # noqa: SLF001 - as above
    interpreter._interpreter = guarded  # noqa: SLF001 - as above
    guarded.builder, guarded.np = interpreter.interpreter_builder, interpreter.np
    _fill_undefined_lanes(interpreter)
    _check_claims(interpreter)
    for name in ("create_atomic_cas", "create_atomic_rmw"):
        setattr(interpreter.InterpreterBuilder, name, _scoped(getattr(interpreter.InterpreterBuilder, name), guarded))
    original = interpreter.GridExecutor._init_args_hst  # noqa: SLF001 - as above

    def init_args(self: Any, args: Any, kwargs: Any) -> Any:
        on_host = original(self, args, kwargs)
        guarded.begin(_ranges(tensors_in(on_host)))
        return on_host

    interpreter.GridExecutor._init_args_hst = init_args  # noqa: SLF001 - as above
    for name, method in vars(interpreter.InterpreterBuilder).items():
        if name.startswith(("create_", "get_")) and inspect.isfunction(method):
            setattr(interpreter.InterpreterBuilder, name, _counted(method, guarded))
    set_grid = interpreter.InterpreterBuilder.set_grid_dim

    def set_grid_dim(self: Any, *grid: int) -> None:
        if guarded.sample is None:
            guarded.count(math.prod(grid))
        guarded.operations = 0
        set_grid(self, *grid)

    interpreter.InterpreterBuilder.set_grid_dim = set_grid_dim
    builder = interpreter.InterpreterBuilder
    builder.create_addptr = _measured(builder.create_addptr, guarded)
    executor = interpreter.GridExecutor
    executor.__call__ = _with_warps(sampled_call(executor.__call__, guarded))


def _measured(method: Callable[..., Any], guarded: _Guarded) -> Callable[..., Any]:
    """Note, where launches are sampled, how far offsets in 32 bits lead from where memory begins."""

    @functools.wraps(method)
    def create_addptr(self: Any, ptr: Any, offset: Any) -> Any:
        if guarded.sample is not None and offset.data.itemsize == _INT32 and offset.data.size:
            furthest, base = int(offset.data.max()), int(ptr.data.flat[0])
            place = guarded._range_of(base, base) if furthest > LEAST_OFFSET else None  # noqa: SLF001 - its own
            begin = None if place is None else guarded.ranges[place][0]
            if begin is not None and furthest > guarded.sample.offsets.get(begin, (0, None))[0]:
                guarded.sample.offsets[begin] = furthest, line_of_kernel()
        return method(self, ptr, offset)

    return create_addptr


def _with_warps(call: Callable[..., Any]) -> Callable[..., Any]:
    """Refuse a number of warps that no GPU launches: Triton takes powers of two, and a block has 1024 threads at most."""

    @functools.wraps(call)
    def launch(self: Any, *args: Any, **named: Any) -> Any:
        warps = named.get("num_warps", 1)
        if warps not in WARPS:
            raise ValueError(f"num_warps must be a power of two, at most {WARPS[-1]}, not {warps}")
        return call(self, *args, **named)

    return launch


@contextmanager
def sampling(
    inputs: Sequence[torch.Tensor], *, operations: int = 0, middle: Sequence[int] | None = None
) -> Iterator[Sample]:
    """Have the interpreter run few programs of each launch, or all of them for so many ``operations`` on blocks.

    ``inputs`` are known, whoever writes to them. ``middle``: a place of so many, of which a program is run too.
    """
    from triton.runtime import interpreter

    guarded: Any = interpreter._interpreter  # noqa: SLF001 - as above
    known = frozenset(tensor.untyped_storage().data_ptr() for tensor in inputs)
    guarded.sample = Sample(known, math.inf if operations else MOST_WHOLE, middle=middle)
    guarded.most = operations or MOST_SAMPLED_OPERATIONS
    try:
        yield guarded.sample
    finally:
        guarded.sample, guarded.most = None, MOST_OPERATIONS


def _counted(method: Callable[..., Any], guarded: _Guarded) -> Callable[..., Any]:
    @functools.wraps(method)
    def counted(*args: Any, **named: Any) -> Any:
        guarded.operations += 1  # here and not by a call: each operation on blocks passes
        if guarded.operations > guarded.most:
            guarded.count()
        return method(*args, **named)

    return counted


def _scoped(method: Callable[..., Any], guarded: _Guarded) -> Callable[..., Any]:
    """Tell whom an atomic orders: it has its scope as its last argument, which the interpreter drops."""

    @functools.wraps(method)
    def create(self: Any, *args: Any) -> Any:
        guarded.is_of_one_block = "CTA" in str(args[-1])
        return method(self, *args)

    return create


def _fill_undefined_lanes(interpreter: Any) -> None:
    """Let a masked load without ``other`` give any number where nothing is loaded, as Triton's documentation has it, and a gather
    where its index lies beyond the block.
    """
    original = interpreter.InterpreterBuilder.create_masked_load
    drawn = interpreter.np.random.default_rng()

    def create(self: Any, ptrs: Any, mask: Any, other: Any, *rest: Any, **named: Any) -> Any:
        # Of a single element Triton hands on no zero: it takes it for no ``other`` at all.
        if other is None and ptrs.data.size > 1 and not interpreter.np.asarray(mask.data).all():
            kind = ptrs.get_element_ty()
            data = drawn.integers(1, 100, ptrs.data.shape).astype(interpreter._get_np_dtype(kind))  # noqa: SLF001 - as above
            other = interpreter.TensorHandle(data, kind)
        return original(self, ptrs, mask, other, *rest, **named)

    def create_gather(self: Any, src: Any, indices: Any, axis: int) -> Any:
        np, count = interpreter.np, src.data.shape[axis]
        is_within = (indices.data >= 0) & (indices.data < count)
        if is_within.all():
            return gather(self, src, indices, axis)
        gathered = gather(
            self, src, interpreter.TensorHandle(np.where(is_within, indices.data, 0), indices.dtype), axis
        )
        any_number = drawn.integers(1, 100, gathered.data.shape).astype(gathered.data.dtype)
        return interpreter.TensorHandle(np.where(is_within, gathered.data, any_number), gathered.dtype)

    gather = interpreter.InterpreterBuilder.create_gather
    interpreter.InterpreterBuilder.create_masked_load = create
    interpreter.InterpreterBuilder.create_gather = create_gather


def _has_gaps(block: Any, sizes: Sequence[int], numpy: Any) -> bool:
    """Whether neighbours along a dimension, in groups of this size, lie more than one apart; what wraps around goes back."""
    unit = block.dtype.element_ty.primitive_bitwidth // 8 if block.dtype.is_ptr() else 1
    for axis, size in enumerate(sizes):
        steps = numpy.diff(block.data.astype(numpy.int64), axis=axis).swapaxes(axis, 0)
        is_inner = numpy.arange(1, len(steps) + 1) % max(size, 1) != 0
        if bool((steps[is_inner] > unit).any()):
            return True
    return False


def _check_claims(interpreter: Any) -> None:
    """Have a number or an address be a multiple of what the kernel says: the interpreter drops it, and compiled loads go by it.

    Of blocks it is asked alone whether neighbours are: a block may hold lanes that no load uses.
    """
    original = interpreter.TensorHandle.set_attr

    def set_attr(self: Any, key: str, value: Any) -> None:
        is_number = self.data.size == 1 and self.data.dtype.kind in "iu"
        if key == "tt.divisibility" and is_number and int(self.data.item()) % int(value[0]):
            what = "an address" if self.dtype.is_ptr() else str(int(self.data.item()))
            message = f"A kernel says that {what} is a multiple of {int(value[0])}: on a GPU loads go by that."
            raise Violation(FALSE_CLAIM, message)
        if key == "tt.contiguity" and _has_gaps(self, [int(each) for each in value], interpreter.np):
            message = (
                f"A kernel says that {max(value)} neighbours lie side by side, which do not: on a GPU loads go by that."
            )
            raise Violation(FALSE_CLAIM, message)
        original(self, key, value)

    interpreter.TensorHandle.set_attr = set_attr


class Order(StrEnum):
    """In which order the interpreter runs the programs of a launch; on a GPU they have none."""

    ascending = "ascending"
    descending = "descending"
    drawn = "drawn"


def order_programs(order: Callable[[], Order]) -> None:
    """Have this process interpret the programs of a launch in an order that is asked for at each launch; once.

    Where that is drawn, so is each other order that the language leaves open.

    A kernel that reads what a later program overwrites, or counts on who comes first, gives something else in another one.
    """
    from triton.runtime import interpreter

    builder = interpreter.InterpreterBuilder
    if hasattr(builder, "set_grid_in_order"):
        return
    set_grid, set_place = builder.set_grid_dim, builder.set_grid_idx
    steps: list[tuple[int, int]] = [(1, 0)]

    def set_grid_dim(self: Any, *grid: int) -> None:
        asked = order()
        steps[0] = _step_through(math.prod(grid), asked)
        unordered.draw(secrets.randbits(64) if asked is Order.drawn else None)
        set_grid(self, *grid)

    def set_grid_idx(self: Any, *place: int) -> None:
        factor, shift = steps[0]
        if (factor, shift) != (1, 0):
            columns, rows, deep = (int(size) for size in self.grid_dim)
            at = (factor * (place[0] + columns * (place[1] + rows * place[2])) + shift) % (columns * rows * deep)
            place = (at % columns, at // columns % rows, at // columns // rows)
        set_place(self, *place)

    builder.set_grid_dim, builder.set_grid_idx, builder.set_grid_in_order = set_grid_dim, set_grid_idx, True
    unordered.leave_open()


def _step_through(count: int, order: Order) -> tuple[int, int]:
    """A factor and a shift by which the numbers below ``count`` come in another order, each once."""
    if count < 2 or order is Order.ascending:
        return 1, 0
    if order is Order.descending:
        return -1, count - 1
    factor = next(drawn for drawn in iter(lambda: secrets.randbelow(count), None) if math.gcd(drawn, count) == 1)
    return factor, secrets.randbelow(count)


def fill_compiled_lanes() -> None:
    """Have what this process compiles load a number, where a masked load without ``other`` leaves one undefined.

    A GPU gives zeros there, mostly. Such kernels are run besides those of the text alone, and never in their place: otherwise a
    kernel could tell by the number whether it is judged.
    """
    from triton.language.semantic import TritonSemantic

    original, number = TritonSemantic.load, secrets.randbelow(60) + 40  # which every dtype holds

    def load(self: Any, ptr: Any, mask: Any, other: Any, *rest: Any, **named: Any) -> Any:
        if mask is not None and other is None and ptr.type.is_block():
            other = self.to_tensor(number)
        return original(self, ptr, mask, other, *rest, **named)

    TritonSemantic.load = load


def _ranges(tensors: Sequence[torch.Tensor]) -> list[tuple[int, int]]:
    """The addresses of the storages of tensors."""
    storages = [tensor.untyped_storage() for tensor in tensors]
    return list({(storage.data_ptr(), storage.data_ptr() + storage.nbytes()): None for storage in storages})
