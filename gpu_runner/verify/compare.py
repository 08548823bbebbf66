"""Compares values with the float64 truth, within what the reference itself loses in the candidate's dtype. No I/O."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch

from gpu_runner.verify.measures import Sheet, Sums, own_error, pieces, rms

__all__ = ["FLOAT32_STEP", "FLOORS", "Comparison", "Floor", "Truth", "compare", "natural_error", "rms"]

ERROR_RATIO = 2.0  # a candidate may err twice as much as the reference in the same dtype
SCATTER_RATIO = 2.0  # over the errors of a few runs of what stands, where its values differ from run to run
PEAK_RATIO = 6.0  # how far one element may lie beyond the typical error of its row: about six standard deviations
FLOAT32_STEP = 2.0**-24


@dataclass(frozen=True)
class Floor:
    """Error that is always allowed in a dtype, relative to scale: of the whole tensor, of one row, of one element."""

    tensor: float
    row: float
    element: float
    smallest: float  # half the distance between the smallest numbers of the dtype


# Half and bfloat16: the root mean square of one rounding is 0.29 of a step (2**-10 and 2**-7 of the value), one element
# may be off by one and a half steps. Float32: approximations of exp, tanh and the like on a GPU are good to a few steps of 2**-23.
FLOORS: dict[torch.dtype, Floor] = {
    torch.float64: Floor(1e-12, 4e-12, 2e-11, 0.0),
    torch.float32: Floor(1.5e-6, 5e-6, 2e-5, 2.0**-149),
    torch.float16: Floor(4e-4, 8e-4, 2e-3, 2.0**-24),
    torch.bfloat16: Floor(3e-3, 6e-3, 1.2e-2, 2.0**-133),
}


@dataclass(frozen=True)
class Truth:
    """What a value is held against: the truth, the reference in its own dtype, an absolute error that rounding explains.

    Of large values and of dtypes with few bits there is more: ``shaken`` are the truths of inputs that are a few roundings of
    float32 away, to one side and to the other. Of large values and of those that are not finite ``held`` says which elements
    count, ``loud`` where a NaN is let pass.
    """

    exact: torch.Tensor
    own: torch.Tensor
    natural: float = 0.0
    shaken: tuple[torch.Tensor, ...] = ()
    held: torch.Tensor | None = None
    loud: torch.Tensor | None = None

    def own_error(self) -> torch.Tensor:
        """Give what the reference loses in each element, in its dtype or where inputs are shaken; zero where one is not finite."""
        return own_error(self.exact.double(), [self.own, *self.shaken])


@dataclass(frozen=True)
class Comparison:
    """How a value compares; ``level`` says which bound decided."""

    passed: bool
    level: str  # tensor, row, element, nonfinite, unwritten, exact
    error: float | None = None
    allowed: float | None = None
    position: tuple[int, ...] | None = None
    got: float | None = None
    expected: float | None = None
    alone: Comparison | None = None  # how it fails without what stands in its place, where it passes only beside that
    loud: bool = False  # it is NaN where there is another answer, and that was let pass

    @property
    def by_peer(self) -> bool:
        """Say whether it passed only because what stands in its place errs as much."""
        return self.alone is not None


def compare(got: torch.Tensor, truth: Truth, peers: Sequence[torch.Tensor] = ()) -> Comparison:
    """Hold a value of the right shape and dtype against the truth.

    Whole numbers and truth values must equal the truth or the reference. ``peers`` are what stands in the repository gave for the
    same value: an error no larger than theirs passes, over the tensor, in the worst row and in the worst element alike. Where
    they differ among themselves, as sums by atomics do, one run's error is a matter of luck, and twice the largest passes.
    """
    alone = _compare(got, truth, ())
    if alone.passed or not peers:
        return alone
    beside = _compare(got, truth, peers)
    return replace(beside, alone=alone) if beside.passed else beside


def _compare(got: torch.Tensor, truth: Truth, peers: Sequence[torch.Tensor]) -> Comparison:
    if not got.dtype.is_floating_point:
        return _compare_exact(got, truth, peers)
    if got.numel() == 0:
        return Comparison(True, "tensor", 0.0, 0.0)
    measures = _Measures.of(got, truth)
    odd = None if measures.is_plain() else _nonfinite(got, truth, peers)
    if odd is not None:
        return odd
    if truth.held is not None and peers:
        truth = replace(truth, held=truth.held & ~_lost_by(peers, truth))
        measures = _Measures.of(got, truth)
    found = [measures.tensor(), measures.row(), measures.element()]
    worst = [_Measures.of(peer, truth).worst() for peer in peers if peer.dtype.is_floating_point]
    scatter = SCATTER_RATIO if _scatter(peers) else 1.0
    bounds = [scatter * max(errors) for errors in zip(*worst, strict=True)] if worst else [-1.0] * 3
    pairs = zip(found, measures.worst(), bounds, strict=True)
    failed = [comparison for comparison, error, bound in pairs if not comparison.passed and error > bound]
    if failed:
        return failed[0]
    return replace(_decisive(found, measures.relative(bounds)), loud=_is_loud(got, truth))


def _decisive(found: Sequence[Comparison], bounds: Sequence[float]) -> Comparison:
    """Give the comparison that says most of a value that passed, with all that was allowed.

    That is the one over the whole tensor, or the first that passed by what stands alone: then its error is what is allowed.
    """
    for comparison, bound in zip(found, bounds, strict=True):
        if not comparison.passed:
            return Comparison(True, comparison.level, comparison.error, bound)
    return found[0]


def natural_error(upstream: list[float], outputs: list[float], own_input: float, per_element: float) -> float:
    """Give the absolute error of a gradient that float32 rounding explains even where the gradient itself cancels to nothing.

    A gradient has the unit upstream times output over input; ``per_element`` is how many output elements meet in one of it.
    """
    if own_input <= 0.0:
        return 0.0
    worth = max((u * y for u, y in zip(upstream, outputs, strict=True)), default=0.0)
    return 16 * FLOAT32_STEP * worth / own_input * math.sqrt(max(1.0, per_element))


@dataclass(frozen=True)
class _Measures:
    """Errors over the tensor, by row and by element, with the odd (non-finite) places set to zero."""

    shape: tuple[int, ...]
    sheet: Sheet
    sums: Sums
    floor: Floor
    natural: float

    @classmethod
    def of(cls, got: torch.Tensor, truth: Truth) -> _Measures:
        held = None if truth.held is None else _rows(truth.held)
        shaken = tuple(_rows(values) for values in truth.shaken)
        sheet = Sheet(_rows(got), _rows(truth.exact), _rows(truth.own), shaken, held)
        natural = truth.natural + FLOORS[got.dtype].smallest * 2
        floor = FLOORS[got.dtype]
        return cls(tuple(got.shape), sheet, sheet.sums(ERROR_RATIO, floor.element), floor, natural)

    def is_plain(self) -> bool:
        """Say whether all is finite and counts, also when the truth is rounded to the dtype."""
        return self.sums.plain and self.sums.largest <= torch.finfo(self.sheet.got.dtype).max

    def tensor(self) -> Comparison:
        error = self.sums.overall(self.sums.error)
        allowed = ERROR_RATIO * self._own_rms() + self.floor.tensor * self.sums.scale + self.natural
        if error <= allowed:
            return Comparison(True, "tensor", self._relative(error), self._relative(allowed))
        return self._failed("tensor", self._worst_of_row(int(self.sums.peak.argmax())), error, allowed)

    def row(self) -> Comparison:
        error, own = self.sums.mean(self.sums.error), self.sums.mean(self.sums.own)
        # One row has fewer elements than the tensor, so the luck of the reference there is bounded by its typical row.
        allowed = ERROR_RATIO * torch.clamp(own, min=1.5 * self._own_rms()) + self.floor.row * self._row_scale()
        excess = error - allowed - self.natural
        worst = int(excess.argmax())
        if float(excess[worst]) <= 0:
            return Comparison(True, "row", self._relative(float(error[worst])), self._relative(float(allowed[worst])))
        return self._failed("row", self._worst_of_row(worst), float(error[worst]), float(allowed[worst]) + self.natural)

    def element(self) -> Comparison:
        typical = torch.clamp(self.sums.mean(self.sums.own), min=self._own_rms())
        scale = self._row_scale()
        beyond = self.sums.excess > PEAK_RATIO * (typical + self.natural)  # in no other row can an element lie beyond
        found: tuple[float, int, float, float] | None = None
        for rows, columns in pieces(*self.sheet.got.shape):
            if not bool(beyond[rows].any()):
                continue
            piece = self.sheet.piece((rows, columns))
            size = torch.maximum(_finite_abs(piece.exact), scale[rows, None])
            budget = PEAK_RATIO * (typical[rows, None] + self.natural) + self.floor.element * size
            allowed = ERROR_RATIO * piece.own_error + budget
            excess = piece.error - allowed
            row, column = divmod(int(excess.argmax()), excess.shape[1])
            if float(excess[row, column]) > (found[0] if found else 0.0):
                place = (rows.start + row) * self.sums.columns + columns.start + column
                found = float(excess[row, column]), place, float(piece.error[row, column]), float(allowed[row, column])
        if found is None:
            return Comparison(True, "element", self._relative(float(self.sums.peak.max())))
        return self._failed("element", *found[1:])

    def worst(self) -> tuple[float, float, float]:
        """Give the error over the tensor, in the worst row and in the worst element."""
        rows = self.sums.mean(self.sums.error)
        return self.sums.overall(self.sums.error), float(rows.max()), float(self.sums.peak.max())

    def relative(self, errors: Sequence[float]) -> list[float]:
        """Give errors as shares of the tensor's scale."""
        return [self._relative(error) for error in errors]

    def _row_scale(self) -> torch.Tensor:
        return self.sums.mean(self.sums.exact)

    def _own_rms(self) -> float:
        return self.sums.overall(self.sums.own)

    def _relative(self, value: float) -> float:
        return value / self.sums.scale if self.sums.scale > 0 else value

    def _worst_of_row(self, row: int) -> int:
        error = self.sheet.piece((slice(row, row + 1), slice(None))).error
        return row * self.sums.columns + int(error.argmax())

    def _failed(self, level: str, place: int, error: float, allowed: float) -> Comparison:
        row, column = divmod(place, self.sums.columns)
        return Comparison(
            False,
            level,
            self._relative(error),
            self._relative(allowed),
            _position(place, self.shape),
            float(self.sheet.got[row, column]),
            float(self.sheet.exact[row, column]),
        )


def _finite_abs(tensor: torch.Tensor) -> torch.Tensor:
    return torch.nan_to_num(tensor.abs(), nan=0.0, posinf=0.0, neginf=0.0)


def _scatter(peers: Sequence[torch.Tensor]) -> bool:
    return any(not torch.equal(torch.nan_to_num(peers[0]), torch.nan_to_num(other)) for other in peers[1:])


def _lost_by(peers: Sequence[torch.Tensor], truth: Truth) -> torch.Tensor:
    """Say where what stands gives no number though there is one."""
    lost = torch.zeros(truth.exact.shape, dtype=torch.bool)
    for peer in peers:
        lost |= ~torch.isfinite(peer) & torch.isfinite(truth.exact)
    return lost


def _rows(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.reshape(-1, tensor.shape[-1]) if tensor.dim() else tensor.reshape(1, 1)


def _compare_exact(got: torch.Tensor, truth: Truth, peers: Sequence[torch.Tensor]) -> Comparison:
    right = (got == truth.exact) | (got == truth.own)
    for peer in peers:
        right |= got == peer
    wrong = ~right.flatten()
    if not bool(wrong.any()):
        return Comparison(True, "exact", 0.0, 0.0)
    place = int(wrong.to(torch.uint8).argmax())
    share = float(wrong.double().mean())
    got_value, expected = float(got.flatten()[place]), float(truth.exact.flatten()[place])
    return Comparison(False, "exact", share, 0.0, _position(place, tuple(got.shape)), got_value, expected)


def _nonfinite(got: torch.Tensor, truth: Truth, peers: Sequence[torch.Tensor]) -> Comparison | None:
    """Find an element that is not finite where it should be, or the other way round."""
    rounded = truth.exact.to(got.dtype)
    same = torch.isfinite(got) & torch.isfinite(rounded)
    # Where the dtype overflows, what the reference gives in it is right as well.
    for accepted in (rounded, truth.own.to(got.dtype), *(peer.to(got.dtype) for peer in peers)):
        same |= torch.isnan(got) & torch.isnan(accepted)
        same |= torch.isinf(got) & (got == accepted)
    same |= torch.isfinite(got) & ~torch.isfinite(truth.own) & torch.isfinite(truth.exact)
    if truth.held is not None:
        same |= ~truth.held | _of_any_kind(got, truth)
        if truth.loud is not None:
            same |= truth.loud & torch.isnan(got)
        # Where what stands swallows what is not finite, or gives no number, so may its successor.
        lost = ~torch.isfinite(truth.exact) & ~torch.isfinite(truth.own)
        for peer in peers:
            same |= lost & torch.isfinite(peer) & torch.isfinite(got)
        same |= _lost_by(peers, truth)
    if bool(same.all()):
        return None
    place = int((~same).flatten().to(torch.uint8).argmax())
    value = float(got.flatten()[place])
    level = "unwritten" if math.isnan(value) and math.isfinite(float(truth.exact.flatten()[place])) else "nonfinite"
    expected = float(truth.exact.flatten()[place])
    return Comparison(False, level, math.inf, None, _position(place, tuple(got.shape)), value, expected)


def _is_loud(got: torch.Tensor, truth: Truth) -> bool:
    return truth.loud is not None and bool((truth.loud & torch.isnan(got) & ~torch.isnan(truth.exact)).any())


def _of_any_kind(got: torch.Tensor, truth: Truth) -> torch.Tensor:
    """Say where no kind of number that is not finite is wrong, since the reference gives another one in each dtype."""
    exact, own = truth.exact, truth.own
    neither = ~torch.isfinite(exact) & ~torch.isfinite(own)
    differ = (torch.isnan(exact) != torch.isnan(own)) | (torch.isinf(exact) & torch.isinf(own) & (exact != own))
    return ~torch.isfinite(got) & neither & differ


def _position(place: int, shape: tuple[int, ...]) -> tuple[int, ...]:
    index = []
    for size in reversed(shape):
        index.append(place % size)
        place //= size
    return tuple(reversed(index))
