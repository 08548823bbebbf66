"""The inputs of timed runs: drawn by the child on its own device, in sets that take turns, and read from a cold L2 cache.

Draws are the same bits in every child of one host, and so are the elements compared for one secret number: nothing travels.
"""

from __future__ import annotations

import ctypes
import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import torch

from gpu_runner.child.calls import Arguments, arranged, settle
from gpu_runner.child.handlers import ChildState
from gpu_runner.messages import PARAMETER_NOISE, DrawnCall, DrawnTensor, ModuleCall, WorkloadCall

MOST_DOUBLINGS = 2.0  # of the scale, up or down
MOST_HALF_DOUBLINGS = 1.0  # of float16, which soon overflows


def given(state: ChildState, call: WorkloadCall, tensors: list[torch.Tensor]) -> Arguments:
    """Lay out a workload's arguments, drawn or as they were sent.

    Raises:
        ValueError: drawn by the problem's own code, they are other values than those that were drawn first.
    """
    if isinstance(call, ModuleCall):
        return _drawn_by_problem(state, call, tensors)
    return drawn(state.device, call) if isinstance(call, DrawnCall) else settle(state, call, tensors, reuse=False)


def _drawn_by_problem(state: ChildState, call: ModuleCall, tensors: list[torch.Tensor]) -> Arguments:
    """Parameters as they were sent, and inputs as the source's ``get_inputs`` gives them on the device."""
    space: dict[str, Any] = {}
    torch.manual_seed(call.seed)
    with torch.device(state.device):
        exec(call.source, space)  # noqa: S102 - the problem's code, as that of the reference
        made = space["get_inputs"]()
    dtype = getattr(torch, call.dtype)
    sent = replace(call.sent, form=replace(call.sent.form, order=()))
    given = settle(state, sent, tensors, reuse=False)
    for value in made:
        moved = value.detach().to(state.device) if isinstance(value, torch.Tensor) else value
        is_cast = isinstance(moved, torch.Tensor) and moved.is_floating_point()
        given.positional.append(moved.to(dtype) if is_cast else moved)
    if call.digests not in (None, digests(given)):
        raise ValueError("get_inputs gives other values than it gave in the reference's process, with the same seed")
    return given


DIGESTED = 2**24  # elements at a time
_WORDS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


def digests(given: Arguments) -> tuple[str, ...]:
    """Sums of the bits of what is passed by place, weighted by where they lie; of what is no tensor its text."""
    return tuple(_digest(value) if isinstance(value, torch.Tensor) else repr(value) for value in given.positional)


def _digest(tensor: torch.Tensor) -> str:
    words = tensor.detach().contiguous().view(-1).view(_WORDS[tensor.element_size()])
    weights = torch.arange(1, min(DIGESTED, words.numel()) + 1, device=words.device)
    total = 0
    for place, piece in enumerate(words.split(DIGESTED)):
        total += (2 * place + 1) * int((piece.long() * weights[: piece.numel()]).sum())
    return f"{tuple(tensor.shape)} {tensor.dtype} {total % 2**64}"


def drawn(device: str, call: DrawnCall) -> Arguments:
    """Draw the arguments from the call's seed.

    Source: the PyTorch notes on reproducibility: one generator, one device type and one torch give the same bits.
    """
    stream = torch.Generator(device=device)
    stream.manual_seed(call.seed)
    scales = random.Random(call.seed)  # noqa: S311 - scales of inputs, not a secret
    leaves: dict[str, torch.Tensor] = {}
    values = dict(call.scalars)
    for entry in call.inputs:
        value = values[entry.name] = _value(entry, stream, scales)
        if entry.grad:
            leaves[entry.name] = value.requires_grad_()
    made = Arguments(leaves=leaves)
    made.upstream = [None if entry is None else _value(entry, stream, scales) for entry in call.upstream]
    return arranged(made, values, call.form)


def _value(entry: DrawnTensor, stream: torch.Generator, scales: random.Random) -> torch.Tensor:
    dtype: torch.dtype = getattr(torch, entry.dtype)
    shape = entry.shape
    if not dtype.is_floating_point:
        low, high = (0, 2) if dtype == torch.bool else (entry.low, entry.high)
        return torch.randint(low, high, shape, generator=stream, device=stream.device).to(dtype)
    most = MOST_HALF_DOUBLINGS if dtype == torch.float16 else MOST_DOUBLINGS
    return _floating(entry, shape, stream, entry.scale * 2.0 ** scales.uniform(-most, most)).to(dtype)


def _floating(entry: DrawnTensor, shape: tuple[int, ...], stream: torch.Generator, scale: float) -> torch.Tensor:
    if entry.init in ("ones", "zeros"):
        exact = torch.full(shape, 1.0 if entry.init == "ones" else 0.0, device=stream.device)
        return exact.add_(_normal(shape, stream), alpha=PARAMETER_NOISE) if entry.noisy else exact
    if entry.init == "uniform":
        return torch.rand(shape, generator=stream, device=stream.device, dtype=torch.float32)
    values = _normal(shape, stream).mul_(scale)
    if entry.init == "log_softmax":
        return torch.log_softmax(values, -1)
    return torch.softmax(values, -1) if entry.init == "softmax" else values


def _normal(shape: tuple[int, ...], stream: torch.Generator) -> torch.Tensor:
    return torch.randn(shape, generator=stream, device=stream.device, dtype=torch.float32)


# A set begins somewhere else in its memory for every block, so that the luck of one address is noise within a contender and no
# difference between two of them. The step keeps every alignment that a kernel could be specialised for.
ROAM_BYTES = 2**21
STEP_BYTES = 2**9
_UPSTREAM = "upstream "  # no name of an input has a space
# From so many bytes on all sets of a ring take turns in one memory: four contenders with inputs of 8 GB lie on one GPU so.
SHARED_BYTES = 2**31


@dataclass
class Ring:
    """``pristine`` is never handed out; the set at ``place`` is the same moved on by ``place`` rows, with the same upstream.

    Very large sets take turns in one memory, into which ``restore`` puts the one whose turn it is.
    """

    pristine: Arguments
    places: int
    shared_bytes: int = SHARED_BYTES
    sets: list[Arguments] = field(default_factory=list)
    overwritten: dict[str, None] = field(default_factory=dict)
    _memory: dict[tuple[str, int], torch.Tensor] = field(default_factory=dict)
    _live: list[dict[str, torch.Tensor]] = field(default_factory=list)
    _there: int | None = None  # the set that lies in the one memory, where they share it

    def lay(self, stream: random.Random) -> None:
        """Lay every set out afresh, at other addresses; what was computed in their memory is lost."""
        self.sets, self._live = [], []
        self._there = 0 if self.places > 1 and self._bytes() >= self.shared_bytes else None
        for place in range(self.places if self._there is None else 1):
            live = {label: self._placed(label, tensor, place, stream) for label, tensor in self._labelled()}
            self._live.append(live)
            self.sets.append(_swapped(self.pristine, live))
        if self._there is not None:
            self._live, self.sets = self._live * self.places, self.sets * self.places

    def look(self, place: int) -> tuple[str, ...]:
        """Find what of a set is no longer as it was laid, and remember it; gives what was not known before.

        Where all share one memory, of the set that lies there.
        """
        place, changed = place if self._there is None else self._there, []
        for label, source in self._labelled():
            if label not in self.overwritten and not _equals_rolled(
                self._live[place][label], source, _rows(label, place)
            ):
                self.overwritten[label] = None
                changed.append(label)
        return tuple(changed)

    def restore(self, place: int) -> None:
        """Put back what contenders overwrite, and nothing else; of sets in one memory that which is another one's."""
        is_another = self._there not in (None, place)
        self._there = None if self._there is None else place
        for label, source in self._labelled():
            if label in self.overwritten or (is_another and not label.startswith(_UPSTREAM)):
                _copy_rolled(self._live[place][label], source, _rows(label, place))

    def _bytes(self) -> int:
        return sum(tensor.numel() * tensor.element_size() for _, tensor in self._labelled())

    def _labelled(self) -> list[tuple[str, torch.Tensor]]:
        return list(_labels(self.pristine).values())

    def _placed(self, label: str, source: torch.Tensor, place: int, stream: random.Random) -> torch.Tensor:
        item = source.element_size()
        key = (label, place)
        if key not in self._memory:
            size = source.numel() + ROAM_BYTES // item
            self._memory[key] = torch.empty(size, dtype=source.dtype, device=source.device)
        begin = stream.randrange(0, ROAM_BYTES // STEP_BYTES) * (STEP_BYTES // item)
        live = self._memory[key][begin : begin + source.numel()].view(source.shape).detach()
        _copy_rolled(live, source, _rows(label, place))
        return live.requires_grad_(source.requires_grad)


def _labels(given: Arguments) -> dict[int, tuple[str, torch.Tensor]]:
    """Every tensor by its identity, with a label: one that is passed twice is one."""
    labelled: dict[int, tuple[str, torch.Tensor]] = {}
    for name, tensor in given.leaves.items():
        labelled.setdefault(id(tensor), (name, tensor))
    for number, tensor in enumerate(given.tensors()):
        labelled.setdefault(id(tensor), (f"argument {number}", tensor))
    for number, grad in enumerate(given.upstream):
        if grad is not None:
            labelled.setdefault(id(grad), (f"{_UPSTREAM}{number}", grad))
    return labelled


def _swapped(given: Arguments, live: dict[str, torch.Tensor]) -> Arguments:
    labels = _labels(given)

    def swap(value: Any) -> Any:
        return live[labels[id(value)][0]] if isinstance(value, torch.Tensor) else value

    def each(values: dict[str, Any]) -> dict[str, Any]:
        return {name: swap(value) for name, value in values.items()}

    return Arguments(
        positional=[swap(value) for value in given.positional],
        named=each(given.named),
        parameters=each(given.parameters),
        leaves=each(given.leaves),
        upstream=[swap(grad) for grad in given.upstream],
    )


def _rows(label: str, place: int) -> int:
    return 0 if label.startswith(_UPSTREAM) else place


def _parts(target: torch.Tensor, source: torch.Tensor, moved: int) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """Pair the pieces of a tensor with those of the same moved on by so many rows, without memory for a moved copy."""
    target, source = target.detach(), source.detach()
    rows = moved % source.shape[0] if source.dim() and source.shape[0] else 0
    if rows == 0:
        return [(target, source)]
    return [(target[rows:], source[:-rows]), (target[:rows], source[-rows:])]


def _copy_rolled(target: torch.Tensor, source: torch.Tensor, rows: int) -> None:
    with torch.no_grad():
        for to, from_ in _parts(target, source, rows):
            to.copy_(from_)


def _equals_rolled(target: torch.Tensor, source: torch.Tensor, rows: int) -> bool:
    return all(torch.equal(to, from_) for to, from_ in _parts(target, source, rows))


MOST_ELEMENTS = 2**19  # of one tensor; a comparison of so many takes some tens of milliseconds on a host


def sampled(tensor: torch.Tensor, secret: int) -> torch.Tensor:
    """A small tensor whole; of a large one random rows (all but the last dimension), or elements where it has no rows."""
    tensor = tensor.detach()
    if tensor.numel() <= MOST_ELEMENTS:
        return tensor.contiguous()
    columns = tensor.shape[-1] if tensor.dim() > 1 and tensor.shape[-1] <= MOST_ELEMENTS else 1
    stream = torch.Generator().manual_seed(secret)
    chosen = torch.randint(0, tensor.numel() // columns, (MOST_ELEMENTS // columns,), generator=stream)
    rows = tensor.reshape(-1, columns).index_select(0, chosen.to(tensor.device))
    return rows if columns > 1 else rows.flatten()


LEAST_BYTES = 2**27
QUICK_S = 5e-4
LIBRARIES = (("libcuda.so.1", "cuCtxResetPersistingL2Cache"), ("libcudart.so", "cudaCtxResetPersistingL2Cache"))

# Taken before a contender is imported, so that it cannot keep the cache warm for itself.
_zero = torch.Tensor.zero_
_clock = time.perf_counter


class Cold:
    """Makes the L2 cache cold: lines that were made to persist are released, and more than the cache holds is written.

    Source: Triton's ``do_bench`` for writing over the cache; the CUDA driver API, chapter on L2 persistence.
    """

    def __init__(self) -> None:
        size = max(2 * l2_bytes(), LEAST_BYTES)
        self._over = torch.empty(size, dtype=torch.int8, device="cuda")
        self._reset = persisting_reset()
        self._often = self._is_quick()

    def begin(self) -> None:
        """Release persisting lines; once for a block where a driver takes long over it."""
        if self._reset is not None:
            self._reset()

    def chill(self) -> None:
        """Make the cache cold, queued on the current stream."""
        if self._reset is not None and self._often:
            self._reset()
        _zero(self._over)

    def _is_quick(self) -> bool:
        if self._reset is None or self._reset() != 0:
            self._reset = None  # this GPU or driver has no such lines
            return False
        begin = _clock()
        self._reset()
        return _clock() - begin < QUICK_S


def l2_bytes() -> int:
    """The size of the L2 cache; zero where torch does not say."""
    return int(getattr(torch.cuda.get_device_properties(0), "L2_cache_size", 0))


def persisting_reset() -> Callable[[], int] | None:
    """Find the call that makes persisting lines normal ones again; None where no library has it."""
    for library, name in LIBRARIES:
        try:
            reset = getattr(ctypes.CDLL(library), name)
        except (OSError, AttributeError):
            continue
        reset.argtypes, reset.restype = (), ctypes.c_int
        return lambda: int(reset())
    return None


def cold(state: ChildState) -> Cold:
    """The child's one."""
    flush = state.values.get("cold")
    if not isinstance(flush, Cold):
        flush = state.values["cold"] = Cold()
    return flush
