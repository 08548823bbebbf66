"""The log of a run: what is allocated, what torch's operators compute of which memory, and which kernels are launched on it.

It is kept by the process that evaluates a program, in which no Python of a candidate runs, so that it says what was done.
"""

from __future__ import annotations

import math
import secrets
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch.multiprocessing.reductions import StorageWeakRef

from gpu_runner.contracts.verify import Status
from gpu_runner.messages import Work
from gpu_runner.program import altered, lookups, threads, tiles
from gpu_runner.program.kernels import tensors_in
from gpu_runner.program.mode import Mode
from gpu_runner.program.objects import Violation, unproved
from gpu_runner.program.poison import GUARD_ELEMENTS, Poison, between_guards
from gpu_runner.program.sampling import Sample
from gpu_runner.program.trail import READS, Trail, bound, function_of

MOST_OPERATORS = 20_000  # of torch, of one call: some seconds
MOST_ON_OTHER_AXES = (
    65_535  # programs of a grid, but for the first axis; CUDA C++ Programming Guide, Compute Capabilities
)
MOST_LOOKED_AT = 2**20  # bytes of an input that is compared before and after a launch on the CPU
MOST_LEFT_BEHIND = 2**22  # elements of a buffer that is kept from one run to the next
_USED = ("again", "again", "zeros", "NaN")  # what memory holds there
_STEP = 5
_MEMORY_USED_AGAIN = ("second", "interleaved")  # runs
_EMPTY = frozenset({"empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided", "empty_permuted"})
# Operators that move, shape or initialise data: they compute no answer, unless the problem asks for nothing but a move.
_MOVE_NAMES = """
    _conj _has_compatible_shallow_copy_type _neg_view _reshape_alias _to_copy _unsafe_view
    alias arange as_strided cat chunk clone constant_pad_nd copy_ detach diagonal expand fill_ full full_like
    is_pinned is_same_size lift lift_fresh lift_fresh_copy narrow new_full new_ones new_zeros ones ones_like
    permute record_stream resize_ scalar_tensor select set_ slice split split_with_sizes squeeze stack t
    transpose unbind unfold unsqueeze view view_as zero_ zeros zeros_like split_copy slice_scatter
"""
_MOVES = frozenset(_MOVE_NAMES.split())
_COPIES = frozenset(
    {"_to_copy", "cat", "clone", "constant_pad_nd", "copy_", "stack", "lift_fresh_copy", "slice_scatter"}
)
_WHOLE_COPIES = frozenset({"_to_copy", "clone"})  # of their one operand
# Operators that choose, compare, cut or read numbers.
_DECIDES = frozenset(f"""
    min max amin amax minimum maximum clamp clamp_min clamp_max sort eq ne lt le gt ge equal any all masked_select unique
    _unique2 count_nonzero logical_not logical_and logical_or {READS}
    """.split())  # fmt: skip
# What autograd does by itself where an input is used twice, or in part.
BY_AUTOGRAD = "autograd's add"  # how a sum is named that autograd makes by itself where an input is used several times
_BY_AUTOGRAD = frozenset({"add", "add_", "slice_backward", "select_backward"})
_ADDS = frozenset({"add", "add_"})
# Options of a launch by which a kernel begins before another has ended, waits within its grid, has clusters, or is another text;
# with what each is by itself. The interpreter sees none of it.
_ORDERING: dict[str, tuple[object, ...]] = {
    "launch_pdl": (False, None), "launch_cooperative_grid": (False, None), "num_ctas": (1, None),
    "cluster_dims": ((1, 1, 1), None), "ir_override": (None,),
}  # fmt: skip
CONSTANTS = "constants"  # the source of what torch computes of no input, such as of places


Order = tuple[tuple[int, int], ...]  # sizes and strides, the first dimension first


@dataclass(frozen=True)
class Memory:
    """What is known of a storage: the inputs that reach it by way of torch alone, and whether a kernel was given it."""

    inputs: frozenset[str] = frozenset()
    permuted: bool = False  # an input's elements were copied in another order, or in part
    launched: bool = False
    is_constant: bool = False  # made of no tensor, and not left as it was allocated
    is_input: bool = False
    is_computed: bool = False  # and not only moved
    holds_numbers: bool = False  # that kernels computed of loaded ones
    order: Order | None = None  # in which elements lie as an input has them, where nothing but whole copies were made


class Log(Mode):
    """Sees every operator of torch, and every launch, while it is entered.

    ``where`` says which line of the candidate is carried out, None where none is: what torch does then, it does by itself.
    ``opaque`` says that what is done now shows nowhere but here. With ``dry`` kernels are noted and not run: only the trail counts.
    With a ``sample`` few of their programs are run, and it says what is known of memory.
    With ``ahead`` they are compiled inside of what it gives, in whichever thread, and not run; ``was_tuned`` says that one was
    left out, which its autotuner times.
    """

    def __init__(
        self,
        where: Callable[[], tuple[str | None, int | None] | None],
        poison: bool = True,
        opaque: Callable[[], int] = lambda: 0,
        *,
        dry: bool = False,
        ahead: Callable[[], AbstractContextManager[None]] | None = None,
        has_devices: bool = True,
        sample: Sample | None = None,
    ) -> None:
        super().__init__()
        self._sample = sample
        self._where = where
        self._opaque = opaque
        self._dry = dry
        self.ahead = ahead
        self.was_tuned = False
        self.trail = Trail(has_devices=has_devices)
        self._poison = Poison(secrets.randbits(48)) if poison else None
        self._used = secrets.choice(_USED)
        self._narrowest = 8  # bytes of a floating-point number, of all that is given
        self.launched: dict[str, int] = {}
        self.launches: dict[str, int] = {}  # run -> how many kernels it launched
        self.operators: Counter[str] = Counter()  # run -> how many of torch's operators the host code called
        self.run = ""
        self._step = ""
        self._work: dict[Work, Work] = {}  # by itself without elements
        self.touched: dict[str, None] = {}  # inputs that a launch changed
        self.ordering: dict[str, int | None] = {}  # options of launches that change their order, and a line of each
        self._paused = 0
        self._launching = 0
        self._tuning = 0
        self._memory: dict[int, tuple[StorageWeakRef, Memory]] = {}
        self._guards: dict[int, tuple[StorageWeakRef, torch.Tensor, int, int]] = {}
        self._made: Counter[tuple[int, torch.dtype]] = Counter()  # buffers of a form in this run
        # What buffers of a form held after an earlier run: memory that is used again may nearly hold the answer already.
        self._left_behind: dict[tuple[int, torch.dtype, int], torch.Tensor] = {}

    # -- what is seen

    def operator(self, func: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        """Run an operator, and note what it did."""
        name = func.overloadpacket.__name__
        few = self._sample.copy(args[0], kwargs) if self._sample is not None and name in _WHOLE_COPIES else None
        given = func(*args, **kwargs) if few is None else few
        if self._paused or self._launching:
            return given  # the interpreter itself only moves data
        if name in _EMPTY and self._poison is not None:
            given = self._guarded(given)
        place = None if func.namespace != "aten" or self._opaque() else self._where()
        if place is not None:
            self._count(func)
        if place is not None and not self._tuning:  # what autograd does by itself hangs on who still holds a tensor
            self.trail.operator(str(func).removeprefix("aten."), place, (args, dict(kwargs)), given)
        if name in _EMPTY:
            return given
        operands, results = tensors_in((args, dict(kwargs))), tensors_in(given)
        if self._sample is not None:
            self._sample.operator(operands, results)
        known = [self._known(tensor) for tensor in operands]
        if (
            place is not None
            and known
            and not any(memory.is_input or memory.inputs or memory.launched for memory in known)
        ):
            _check_own(name, operands, results)
        self._note(name, operands, known, results)
        made = Memory(
            frozenset().union(*(memory.inputs for memory in known)),
            self._is_permuted(name, operands, known),
            any(memory.launched for memory in known),
            not operands or all(memory.is_constant for memory in known),
            is_computed=not _is_move(name, operands, results, self._narrowest)
            or any(memory.is_computed for memory in known),
            holds_numbers=any(memory.holds_numbers for memory in known),
            order=_order(results[0]) if name in _COPIES and len(results) == 1 else None,
        )
        written = operands[:1] if name.endswith("_") and operands else []
        for tensor in [*results, *written]:
            self._set(tensor, self._merged(tensor, made))
        return given

    def _count(self, func: Any) -> None:
        self.operators[self.run] += 1
        if self.operators[self.run] > MOST_OPERATORS:
            message = f"The host code calls more than {MOST_OPERATORS:,} of torch's operators, `{func}` at last."
            raise Violation("endless", message)

    def launch(self, fn: Any, grid: Any, arguments: list[Any], run: Callable[[], Any]) -> Any:
        """Note that the kernel of this function runs on these arguments, and run it.

        Raises:
            Violation: CUDA has no such grid.
        """
        self.check_grid(grid)
        self._note_options(arguments[-1] if isinstance(arguments[-1], dict) else {})
        if not self._tuning:
            self.trail.launch(fn, self._where() or (None, None), grid, arguments)
        name = fn.__name__
        self.launched[name] = self.launched.get(name, 0) + 1
        self.launches[self.run] = self.launches.get(self.run, 0) + 1
        for tensor in tensors_in(arguments):
            memory = self._known(tensor)
            if not memory.is_input:
                self._set(tensor, replace(memory, launched=True))
        if self._dry:
            return None
        tables = [tensor for tensor in tensors_in(arguments) if self._may_be_table(tensor)]
        lookups.begin(tables)
        self._launching += 1
        given = self._inputs_of(arguments)
        try:
            return run()
        finally:
            self.touched |= {name: None for name, (raw, before) in given.items() if not torch.equal(raw, before)}
            self._launching -= 1
            for tensor in tables:
                if lookups.holds_numbers(tensor):
                    self._set(tensor, replace(self._known(tensor), holds_numbers=True))

    def _note_options(self, named: Mapping[str, Any]) -> None:
        for name, usual in _ORDERING.items():
            value = getattr(named.get(name), "value", named.get(name))  # of a constant
            if not any(type(value) is type(each) and value == each for each in usual):
                self.ordering.setdefault(name, (self._where() or (None, None))[1])

    def check_grid(self, grid: Any) -> None:
        """Look at a grid before it is launched.

        Raises:
            Violation: CUDA has no such grid.
        """
        beyond = [size for size in grid[1:] if isinstance(size, int) and size > MOST_ON_OTHER_AXES]
        if beyond and torch.version.hip is None:
            where = "along the second or third axis of its grid"
            message = f"A launch has {beyond[0]:,} programs {where}: CUDA takes {MOST_ON_OTHER_AXES:,}."
            raise Violation("grid", message, Status.launch_error)

    def _inputs_of(self, arguments: list[Any]) -> dict[str, tuple[torch.Tensor, torch.Tensor]]:
        """The inputs among arguments: their memory, and a copy of it; none of large ones, at scale, or on a GPU."""
        inputs: dict[str, tuple[torch.Tensor, torch.Tensor]] = {}
        for tensor in tensors_in(arguments) if self._sample is None else ():
            memory, storage = self._known(tensor), tensor.untyped_storage()
            if memory.is_input and tensor.device.type == "cpu" and storage.nbytes() <= MOST_LOOKED_AT:
                raw = torch.empty(0, dtype=torch.uint8).set_(storage)
                inputs |= dict.fromkeys(memory.inputs, (raw, raw.clone()))
        return inputs

    def _may_be_table(self, tensor: torch.Tensor) -> bool:
        memory = self._known(tensor)
        return not (memory.is_input or memory.inputs or memory.holds_numbers)

    def tuned(self, fn: Any, configs: list[Any], arguments: list[Any], run: Callable[[], Any]) -> Any:
        """Note that an autotuner launches a kernel by one of these configurations; which one, and what it tries, times decide."""
        for config in configs:  # whichever is taken
            self._note_options(config.all_kwargs())
        if not self._tuning:
            self.trail.launch(fn, self._where() or (None, None), [str(config) for config in configs], arguments)
        if self.ahead is not None:
            self.was_tuned = True
            return None
        self._tuning += 1
        try:
            return run()
        finally:
            self._tuning -= 1

    def is_input(self, tensor: torch.Tensor, name: str) -> None:
        """Say that this is an input of the problem, or an upstream gradient."""
        self._set(tensor, Memory(frozenset({name}), is_input=True))
        if tensor.is_floating_point():
            self._narrowest = min(self._narrowest, tensor.element_size())

    def lies(self, tensor: torch.Tensor) -> None:
        """Say that an input is given as this view of its memory."""
        self._set(tensor, replace(self._known(tensor), order=_order(tensor)))

    def begin(self, run: str) -> None:
        """Begin one of the runs."""
        self.run = run
        self._made.clear()
        self._memory = {key: entry for key, entry in self._memory.items() if not entry[0].expired()}
        self._guards = {key: entry for key, entry in self._guards.items() if not entry[0].expired()}

    def end(self) -> None:
        """End a run whose memory the next one shall find again."""
        for reference, raw, _, number in self._guards.values():
            if not reference.expired() and raw.numel() <= MOST_LEFT_BEHIND:
                self._left_behind[raw.numel(), raw.dtype, number] = raw.detach().clone()

    def _use_again(self, raw: torch.Tensor, number: int) -> None:
        """Lay into fresh memory what lay in memory of this form before, but for a drawn half of it; or zeros, or some NaN.

        Only where all is run once more: what is left unwritten in another use would be right by what the first run wrote.
        """
        if self.run not in _MEMORY_USED_AGAIN:
            return
        if self._used == "zeros":  # as memory that no process has used
            raw[GUARD_ELEMENTS:-GUARD_ELEMENTS].zero_()
            return
        if self._used == "NaN" and raw.is_floating_point():
            raw[GUARD_ELEMENTS + secrets.randbelow(_STEP) : -GUARD_ELEMENTS : _STEP] = math.nan
            return
        before = self._left_behind.get((raw.numel(), raw.dtype, number))
        if before is None or before.device != raw.device:
            return
        begin = GUARD_ELEMENTS + secrets.randbelow(max(1, raw.numel() - 2 * GUARD_ELEMENTS))
        if secrets.randbelow(2):
            raw[GUARD_ELEMENTS:begin].copy_(before[GUARD_ELEMENTS:begin])
        else:
            raw[begin:-GUARD_ELEMENTS].copy_(before[begin:-GUARD_ELEMENTS])

    def begin_step(self, label: str) -> None:
        """Begin a forward or a backward; what torch computes is added up within each."""
        self._step = label

    def forget(self, label: str) -> None:
        """Drop what torch computed in a step."""
        self._work = {key: work for key, work in self._work.items() if key.step != label}

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Look away: what is done inside is the runner's own work."""
        self._paused += 1
        try:
            yield
        finally:
            self._paused -= 1

    # -- what it says

    def is_accounted_for(self, tensor: torch.Tensor) -> bool:
        """Whether a kernel was given this memory, or what it was moved from; or it is a constant, an input, or handed on."""
        memory = self._known(tensor)
        if memory.launched or memory.is_constant or memory.is_input:
            return True
        handed_on = bool(memory.inputs) and all(name.startswith("upstream") for name in memory.inputs)
        return handed_on and not memory.is_computed

    def work(self) -> tuple[Work, ...]:
        """What torch did."""
        return tuple(self._work.values())

    def broken_guards(self) -> int:
        """How many buffers something was written beyond the ends of."""
        assert self._poison is not None or not self._guards
        return sum(
            not self._poison.same_ends(raw, phase)
            for _, raw, phase, _ in self._guards.values()
            if self._poison is not None
        )

    def unwritten(self, tensor: torch.Tensor) -> int:
        """How many elements of a tensor still hold what was there when its memory was allocated."""
        entry = self._guards.get(_key(tensor))
        if entry is None or self._poison is None or entry[0].expired():
            return 0
        return self._poison.left(tensor, entry[1], entry[2])

    # -- the parts

    def _note(self, name: str, operands: list[torch.Tensor], known: list[Memory], results: list[torch.Tensor]) -> None:
        where = self._where()
        if where is None and name in _BY_AUTOGRAD:
            if name not in _ADDS:
                return
            name = BY_AUTOGRAD
        is_move = _is_move(name, operands, results, self._narrowest)
        if is_move and name not in _COPIES:
            return
        permuted = self._is_permuted(name, operands, known)
        path, line = where or (None, None)
        elements = 1 if name == READS else max((t.numel() for t in [*operands, *results]), default=0)
        least = min((t.numel() for t in results), default=1) or 1
        reduced = max(1, max((t.numel() for t in operands), default=1) // least)
        launched = any(memory.launched and not memory.inputs for memory in known)
        sources = set().union(*(memory.inputs for memory in known)) or ({""} if launched else set())
        if not sources and known and not is_move and all(memory.is_constant for memory in known):
            sources = {CONSTANTS}
        for source in sources:
            key = Work(self._step, name, source, line, path, 0, reduced, is_move, permuted, elements)
            work = self._work.get(key, key)
            self._work[key] = replace(work, elements=work.elements + elements)

    def _is_permuted(self, name: str, operands: list[torch.Tensor], known: list[Memory]) -> bool:
        """Whether what an operator copies, or copied before, is not a whole input in its order."""
        if any(memory.permuted for memory in known):
            return True
        if name not in _COPIES:
            return False
        given = list(zip(operands, known, strict=True))
        if name == "copy_":
            target, *given = given
            if _order(target[0]) != _order(torch.empty(target[0].shape, device="meta")):
                return any(memory.inputs for _, memory in given)
        return any(memory.order is not None and _order(tensor) != memory.order for tensor, memory in given)

    def _known(self, tensor: torch.Tensor) -> Memory:
        entry = self._memory.get(_key(tensor))
        return Memory() if entry is None or entry[0].expired() else entry[1]

    def _set(self, tensor: torch.Tensor, memory: Memory) -> None:
        reference = StorageWeakRef(tensor.untyped_storage())
        self._memory[reference.cdata] = (reference, memory)

    def _merged(self, tensor: torch.Tensor, made: Memory) -> Memory:
        """What is known of a storage that an operator wrote to, or that a view of it shares."""
        before = self._known(tensor)
        if before.is_input:
            return before
        return Memory(
            before.inputs | made.inputs,
            before.permuted or made.permuted,
            before.launched or made.launched,
            made.is_constant and (before.is_constant or before == Memory()),
            is_computed=before.is_computed or made.is_computed,
            holds_numbers=before.holds_numbers or made.holds_numbers,
            order=made.order if before.order is None else before.order,
        )

    def _guarded(self, plain: torch.Tensor) -> torch.Tensor:
        assert self._poison is not None
        if plain.numel() == 0 or plain.layout != torch.strided:
            return plain
        span = 1 + sum((size - 1) * step for size, step in zip(plain.shape, plain.stride(), strict=True))
        with torch._C._AutoDispatchBelowAutograd():  # noqa: SLF001 - or autograd would see every buffer as a view
            raw = torch.empty(span + 2 * GUARD_ELEMENTS, dtype=plain.dtype, device=plain.device)
            phase = self._poison.fill(raw)
            number = self._made[raw.numel(), raw.dtype]
            self._made[raw.numel(), raw.dtype] += 1
            self._use_again(raw, number)
            view = between_guards(raw).as_strided(plain.shape, plain.stride())
        reference = StorageWeakRef(view.untyped_storage())
        self._memory.pop(reference.cdata, None)
        self._guards[reference.cdata] = (reference, raw, phase, number)
        return view


def _check_own(name: str, operands: list[torch.Tensor], results: list[torch.Tensor]) -> None:
    """Refuse to decide in tensors over numbers of the host, where no decision is seen."""
    cuts = name in ("_to_copy", "copy_") and not _is_move(name, operands, results)
    if cuts or name.rstrip("_") in _DECIDES:
        raise unproved(
            f"It computes with numbers of its own by torch (`{name}`), where nobody sees what is decided. Use Python's."
        )


def _is_move(name: str, operands: list[torch.Tensor], results: list[torch.Tensor], narrowest: int = 0) -> bool:
    """Whether an operator leaves numbers what they are: a cast to whole numbers or truth values cuts or compares them, and one to
    floats of fewer bytes than all that is given, ``narrowest``, rounds them.
    """
    cuts = name in ("_to_copy", "copy_") and any(tensor.is_floating_point() for tensor in operands[-1:])
    is_cut = cuts and any(not one.is_floating_point() or one.element_size() < narrowest for one in results)
    return name in _MOVES and not is_cut


def _order(tensor: torch.Tensor) -> Order | None:
    """How a tensor's elements follow each other in memory, whatever its dimensions were merged or split to; None where none do."""
    if tensor.layout != torch.strided:
        return None
    order: list[tuple[int, int]] = []
    for size, stride in zip(tensor.shape, tensor.stride(), strict=True):
        if size == 1:
            continue
        if order and order[-1][1] == stride * size:
            order[-1] = (order[-1][0] * size, stride)
        else:
            order.append((size, stride))
    return tuple(order)


def _key(tensor: torch.Tensor) -> int:
    return int(StorageWeakRef(tensor.untyped_storage()).cdata)


def watch_launches(current: Callable[[], Log | None]) -> None:
    """Report every kernel launch of this process from now on, compiled or interpreted, to the log that ``current`` gives."""
    from triton.runtime.autotuner import Autotuner
    from triton.runtime.interpreter import InterpretedFunction
    from triton.runtime.jit import JITFunction

    for kind in (JITFunction, InterpretedFunction):
        _wrap_run(kind, current)
    _wrap_tuning(Autotuner, current)
    tiles.watch(current)
    threads.watch(current)


def _wrap_run(kind: Any, current: Callable[[], Log | None]) -> None:
    original = kind.run

    def run(self: Any, *args: Any, **kwargs: Any) -> Any:
        log = current()
        if log is None or kwargs.get("warmup"):
            return original(self, *args, **kwargs)
        grid = kwargs["grid"]
        # What the function of a grid computes is the candidate's work, and no part of the launch.
        grid = tuple(grid(bound(self.fn, args, kwargs))) if callable(grid) else grid
        named = {name: value for name, value in kwargs.items() if name != "grid"}

        def launch() -> Any:
            if log.ahead is None:
                given, by_name = altered.arguments(self.arg_names, args, named)
                return original(self, *given, grid=grid, **by_name)
            with log.ahead():  # of autograd's thread, too, which knows nothing of what surrounds the call
                return original(self, *args, grid=grid, **named | {"warmup": True})

        return log.launch(self.fn, grid, [args, named], launch)

    kind.run = run


def _wrap_tuning(kind: Any, current: Callable[[], Log | None]) -> None:
    original = kind.run

    def run(self: Any, *args: Any, **kwargs: Any) -> Any:
        log, fn = current(), function_of(self)
        if log is None or fn is None or kwargs.get("warmup"):
            return original(self, *args, **kwargs)
        # The function of a grid is asked for each configuration; those that are none stand in the launch.
        given = {name: value for name, value in kwargs.items() if name != "grid" or not callable(value)}
        return log.tuned(fn, self.configs, [args, given], lambda: original(self, *args, **kwargs))

    kind.run = run


def native_place(root: str) -> Callable[[], tuple[str | None, int | None] | None]:
    """Where code under ``root`` stands that CPython runs: of an original, which is looked at to be compared with."""

    def where() -> tuple[str | None, int | None] | None:
        frame: Any = sys._getframe(2)  # noqa: SLF001 - the only way to the caller's frame
        while frame is not None:
            if frame.f_code.co_filename.startswith(root):
                return frame.f_code.co_filename.removeprefix(f"{root}/"), frame.f_lineno
            frame = frame.f_back
        return None

    return where
