"""Launches of which Triton's interpreter runs a few programs alone, and what is known of memory then.

A launch at the size of a workload has thousands of programs. Its first and last ones show what it computes of sizes, strides and
places; what the others would have written is not there. So memory that such a launch writes is *partial*: known where one of the
programs wrote, and nowhere else. A program that reads what is not known computes nothing that anybody can judge, and from then on
neither is what it writes.
"""

from __future__ import annotations

import inspect
import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch

from gpu_runner.program.kernels import tensors_in

MOST_WHOLE = 8
MOST_OPERATIONS = 5_000  # on blocks, of one program: some tenths of a second
# Times what a launch may take, by what its programs took so far: the first of them may take more than others; a quarter tells.
LIKELY, A_QUARTER_OF = 1.5, 4
# Blocks that a program still reads once nobody can judge what it makes of them: it may yet overwrite what is known.
MOST_LOST = 64
UNTOUCHED_BYTES = 2**26  # from where on fresh memory is fresh pages: the allocator keeps no piece of that size
_ALL_KNOWN = {width: int.from_bytes(bytes([1] * width), "little") for width in (1, 2, 4, 8)}  # by bytes of an element


class _Enough(BaseException):
    """A program has taken as many operations as it may, or left its memory."""


@dataclass
class Sample:
    """What is known of memory while launches are sampled; ``inputs``: where memory begins that the judge gave."""

    inputs: frozenset[int]
    most_whole: float = MOST_WHOLE  # programs of a launch that is run whole
    middle: Sequence[int] | None = None  # a place, and of how many, of which a program is run beside the first and last
    written: dict[int, Any] = field(
        default_factory=dict
    )  # by the place where partial memory begins, which bytes are known
    alive: list[Any] = field(default_factory=list)  # storages, so that no other takes their place
    is_lost: bool = False  # whether the program that runs has read what is not known
    lost_reads: int = 0  # blocks that it has read since
    is_whole: bool = True  # whether all programs of the launch that runs are run
    is_cut: bool = False  # whether one of them took too long or left its memory
    is_long: bool = False  # whether one of them took too long
    was_lost: bool = False  # whether one of them was lost
    # Memory that programs have written which were lost, or that those were given which took too long.
    lost: set[int] = field(default_factory=set)
    new: set[int] = field(default_factory=set)  # memory that is partial since the launch that runs
    changed: set[int] = field(default_factory=set)  # memory that it has written
    read: set[int] = field(
        default_factory=set
    )  # memory that programs of the launch that runs have read, by its beginning
    # By where memory begins, the largest offset in elements that a kernel computed in 32 bits from there, and its line.
    offsets: dict[int, tuple[int, int | None]] = field(default_factory=dict)
    # Of inputs, by form: the indices of all elements that are not zero. A copy of others would touch pages that nobody needs.
    few: dict[tuple[object, ...], tuple[torch.Tensor, ...]] = field(default_factory=dict)

    def holds(self, tensor: torch.Tensor, few: tuple[torch.Tensor, ...]) -> None:
        """Note that an input has zeros but at a few indices."""
        self.few[_form(tensor)] = few

    def copy(self, source: torch.Tensor, given: Mapping[str, Any]) -> torch.Tensor | None:
        """A large copy of an input as it came, as ``clone`` and ``to`` make it; None where it is another one."""
        few = self.few.get(_form(source))
        if few is None or _begin(source) in self.written or not given.keys() <= {"dtype", "memory_format"}:
            return None
        made = torch.empty_like(source, **given)
        if made.numel() * made.element_size() < UNTOUCHED_BYTES:
            return None
        made[few] = source[few].to(made.dtype)
        return made

    def reads(self, begin: int, addresses: Any) -> None:
        """A program reads elements at addresses in some memory, by their first bytes."""
        self.read.add(begin)
        self.lost_reads += self.is_lost
        if self.lost_reads > MOST_LOST and not math.isinf(self.most_whole):
            enough(is_long=True)
        known = None if self.is_lost or (self.is_whole and begin in self.new) else self.written.get(begin)
        if known is not None:
            self.is_lost = not bool(known[_places_in(addresses, begin)].all())

    def writes(self, begin: int, end: int, addresses: Any, width: int, *, adds: bool = False) -> None:
        """A program writes elements to some memory; where it ``adds``, others would have done so too."""
        if begin not in self.written:
            self.written[begin] = _nothing(end - begin)
            self.new.add(begin)
        if self.is_lost:
            self.lost.add(begin)
        is_known = not (self.is_lost or (adds and not self.is_whole))
        self.changed.add(begin)
        at, known = _places_in(addresses, begin), self.written[begin]
        if (at & (width - 1)).any():
            for byte in range(width):
                known[at + byte] = is_known
        else:  # all bytes of an element at once
            elements = known[: len(known) // width * width].view(f"u{width}")
            elements[at >> (width.bit_length() - 1)] = is_known * _ALL_KNOWN[width]

    @contextmanager
    def launch(self, tensors: Sequence[torch.Tensor], programs: int) -> Iterator[None]:
        """Begin a launch; afterwards memory that it was given and that no program has read or written is not known either."""
        self.is_whole, self.is_lost, self.is_cut, self.was_lost = programs <= self.most_whole, False, False, False
        self.is_long = False
        self.read, self.new, self.changed = set(), set(), set()
        self.alive += [tensor.untyped_storage() for tensor in tensors]
        yield
        if self.is_whole and not (self.is_cut or self.was_lost):
            for begin in self.new:  # what it has left is meant to be so
                del self.written[begin]
            return
        if self.is_long:  # what it would have written further on nobody can say
            self.lost |= self.changed | ({_begin(tensor) for tensor in tensors} - self.inputs)
        if self.is_cut and math.isinf(self.most_whole):  # others would have added to it
            for begin in self.changed:
                self.written[begin][:] = False
        for tensor in tensors:
            begin = _begin(tensor)
            if begin not in self.inputs and begin not in self.read and begin not in self.written:
                self._forget(tensor)

    @contextmanager
    def program(self) -> Iterator[None]:
        """Begin a program, which ends where it has taken too long."""
        self.is_lost, self.lost_reads = False, 0
        try:
            yield
        except _Enough as reason:
            self.cut()
            self.is_long |= reason.args == (True,)
        self.was_lost |= self.is_lost

    def cut(self) -> None:
        """Leave out what other programs of the launch would do."""
        self.is_cut, self.is_whole = True, False

    def operator(self, operands: Sequence[torch.Tensor], results: Sequence[torch.Tensor]) -> None:
        """What torch makes of memory that is not all known is not known."""
        beginnings = {_begin(tensor) for tensor in operands}
        if beginnings & self.written.keys():
            for tensor in results:
                if _begin(tensor) not in beginnings:
                    self._forget(tensor)

    def _forget(self, tensor: torch.Tensor) -> None:
        self.alive.append(tensor.untyped_storage())
        self.written[_begin(tensor)] = _nothing(tensor.untyped_storage().nbytes())

    def is_unsure(self, tensor: torch.Tensor) -> bool:
        """Whether programs wrote to it that had read what is not known, or were given it and took too long: where else they write
        nobody can say.
        """
        return _begin(tensor) in self.lost

    def known(self, tensor: torch.Tensor, places: tuple[torch.Tensor, ...]) -> torch.Tensor:
        """Which elements of a tensor are known, at some places of each axis."""
        shape = [len(place) for place in places]
        begin = _begin(tensor)
        if begin not in self.written:
            return torch.ones(shape, dtype=torch.bool)
        at = torch.full(shape, tensor.storage_offset())
        for axis, place in enumerate(places):
            at += (place * tensor.stride(axis)).reshape([-1 if other == axis else 1 for other in range(len(shape))])
        return torch.as_tensor(
            self.written[begin][(at * tensor.element_size()).numpy()]
        )  # of one number numpy gives a scalar

    def offset_of(self, tensor: torch.Tensor) -> tuple[int, int | None]:
        """The largest offset in 32 bits from the beginning of a tensor's memory, and the line that adds it; zero: there is none."""
        return self.offsets.get(_begin(tensor), (0, None))


def _nothing(count: int) -> Any:
    """So many bytes of which none is known, in memory that nobody has touched."""
    from triton.runtime.interpreter import np as numpy

    return numpy.zeros(count, dtype=bool)


def _places_in(addresses: Any, begin: int) -> Any:
    return (addresses - begin).astype("int64")


def _form(tensor: torch.Tensor) -> tuple[object, ...]:
    return tensor.data_ptr(), tensor.dtype, tuple(tensor.shape), tensor.stride()


def _begin(tensor: torch.Tensor) -> int:
    return int(tensor.untyped_storage().data_ptr())


def sampled_call(original: Callable[..., Any], guarded: Any) -> Callable[..., Any]:
    """A launch in the interpreter, of which a few programs are run where launches are sampled."""
    from triton.runtime import interpreter

    def call(self: Any, *args_dev: Any, **kwargs: Any) -> Any:
        sample: Sample | None = guarded.sample
        if sample is None:
            return original(self, *args_dev, **kwargs)
        named = {name: value for name, value in kwargs.items() if name in inspect.getfullargspec(self.fn).args}
        on_host, named_on_host = self._init_args_hst(args_dev, named)
        for hook in self.pre_run_hooks:
            hook(*on_host, **named_on_host)
        scope = interpreter._patch_lang(self.fn)  # noqa: SLF001 - as above
        try:
            given = inspect.getcallargs(self.fn, *on_host, **named_on_host)
            convert = interpreter._implicit_cvt  # noqa: SLF001 - as above
            given = {name: each if name in self.constexprs else convert(each) for name, each in given.items()}
            grid = self.grid(given) if callable(self.grid) else self.grid
            grid = (*grid, *(1,) * (3 - len(grid)))
            interpreter.interpreter_builder.set_grid_dim(*grid)
            programs, runs_all = math.prod(grid), math.isinf(sample.most_whole)
            with sample.launch(tensors_in([on_host, named_on_host]), programs):
                for done, place in enumerate(chosen(grid, sample), 1):
                    interpreter.interpreter_builder.set_grid_idx(*place)
                    guarded.operations *= runs_all
                    with sample.program():
                        self.fn(**given)
                    # Of a launch that is cut nothing is known in the end.
                    if runs_all and (sample.is_cut or is_too_long(guarded.operations, done, programs, guarded.most)):
                        sample.cut()
                        break
        finally:
            scope.restore()
        return None

    return call


def is_too_long(operations: int, done: int, programs: int, most: int) -> bool:
    """Whether a launch of so many programs will take more than ``most`` operations, by those that some took."""
    return operations * programs > most * done * (1.0 if A_QUARTER_OF * done >= programs else LIKELY)


def enough(*, is_long: bool = False) -> None:
    """End the program that runs; ``is_long``: for its time, and not for where it reads or writes."""
    raise _Enough(is_long)


def chosen(grid: Sequence[int], sample: Sample) -> Iterator[tuple[int, ...]]:
    """The first and last programs along each axis, and one as far along all of them as the ``middle`` is; of few programs all,
    for as long as none of them takes too long."""
    corners = list(itertools.product(*(dict.fromkeys((0, size - 1)) for size in grid)))
    if sample.middle is not None:
        middle, count = sample.middle
        corners = list(dict.fromkeys([*corners, tuple(middle * size // count for size in grid)]))
    if math.prod(grid) > sample.most_whole:
        yield from corners
        return
    for place in itertools.product(*map(range, grid)):
        if sample.is_whole or place in corners:
            yield place
