"""Holds the errors of a value against what is allowed: over the tensor, by row, by element, and as a distribution. No I/O."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import torch

from gpu_runner.numerics.distribution import Distribution, distribution_of, errors_at
from gpu_runner.numerics.measures import Piece, Place, Sheet, Sums, pieces
from gpu_runner.numerics.tolerances import (
    ERROR_RATIO,
    FLOAT32_STEP,
    FLOORS,
    PEAK_RATIO,
    SCALE_STEPS,
    TAIL_FLOOR,
    Floor,
    Truth,
    ValueComparison,
)

# Of so many elements the different ones are counted: of few, the errors of one run and of another differ by chance, and elements
# that are equal have one error.
MOST_COUNTED = 2**14
_TINY = 1e-300  # of float64, where nothing may be allowed at all
# Of the elements that runs of the reference move beside a step so many others may be out: three runs miss an eighth of those.
MISSED = 0.25
NAMES = ("tensor", "row", "element", "share", "spread", "bias", "slope", "tail")


@dataclass(frozen=True)
class PeerAllowance:
    """What stands in the repository adds to what is allowed: so many times as much, and this error wherever it is."""

    factor: float = 1.0
    error: float = 0.0


@dataclass(frozen=True)
class Levels:
    """Errors over the tensor, by row and by element, with the odd (non-finite) places set to zero."""

    shape: tuple[int, ...]
    sheet: Sheet
    sums: Sums
    floor: Floor
    natural: float

    @classmethod
    def of(cls, got: torch.Tensor, truth: Truth, dtype: torch.dtype | None = None) -> Levels:
        """Read a value beside its truth; ``dtype``: the one whose floor is allowed, by default the value's own."""
        floor = FLOORS[dtype or got.dtype]
        judged = None if truth.judged is None else as_rows(truth.judged)
        shaken = tuple(as_rows(values) for values in truth.shaken)
        rounded = None if truth.rounded is None else as_rows(truth.rounded)
        sheet = Sheet(as_rows(got), as_rows(truth.exact), as_rows(truth.own), shaken, judged, rounded)
        sums = sheet.sums(1.0, TAIL_FLOOR)
        natural = truth.natural + floor.smallest * 2
        if judged is None and (dtype or got.dtype) != torch.float64:
            natural += SCALE_STEPS * FLOAT32_STEP * sums.scale
        return cls(tuple(got.shape), sheet, sums, floor, natural)

    def is_plain(self) -> bool:
        """Say whether all is finite and counts, also when the truth is rounded to the dtype."""
        return self.sums.plain and self.sums.largest <= torch.finfo(self.sheet.got.dtype).max

    def comparisons(
        self, allowances: Sequence[PeerAllowance] = (PeerAllowance(),) * len(NAMES)
    ) -> list[ValueComparison]:
        """The error at each level (``NAMES``) beside what is allowed, and beside what peers' errors allow."""
        holds = (self._tensor, self._row, self._element, self._share, self._spread, self._bias, self._slope, self._tail)
        return [hold(more) for hold, more in zip(holds, allowances, strict=True)]

    def errors_alone(self) -> list[ValueComparison]:
        """The first three of them: how large the errors are, and not how they are distributed."""
        none = PeerAllowance()
        return [self._tensor(none), self._row(none), self._element(none)]

    def worst(self) -> tuple[float, ...]:
        """The largest error at each level; of the tail none, since an element's error is allowed where it is."""
        rows = self.sums.mean(self.sums.error)
        overall, peak = self.sums.overall(self.sums.error), float(self.sums.peak.max())
        drawn = self.distribution
        distribution = (0.0,) * 4 if drawn is None else (drawn.share, drawn.spread, drawn.bias, drawn.slope)
        return overall, float(rows.max()), peak, *distribution, peak

    def strains(self) -> tuple[Callable[[], float], ...]:
        """Functions of the largest error as a share of the tolerance, one a level."""
        return (
            self._tensor_strain,
            self._row_strain,
            self._element_strain,
            self._share_strain,
            self._spread_strain,
            self._bias_strain,
            self._slope_strain,
            self._tail_strain,
        )

    @cached_property
    def distribution(self) -> Distribution | None:
        """How the errors are distributed; None where no element says it."""
        return distribution_of(self.sheet, self._row_scale(), self.natural)

    def moved(self, other: torch.Tensor) -> tuple[int, int]:
        """How many true values have another number in another run, by more than float32 arithmetic explains, and how many elements
        show whether they have: their neighbours are farther apart than that.

        Equal values count once: one sum decides how all of them are rounded.
        """
        run, exact, able = as_rows(other), [torch.zeros(0, dtype=torch.float64)], 0
        for place in pieces(*self.sheet.got.shape):
            errors = errors_at(self.sheet, place, self._row_scale(), self.natural)
            apart = (run[place].double() - self.sheet.got[place].double()).abs()
            has_moved = errors.counted & (apart > errors.explained)  # NaN is apart from nothing
            exact.append(errors.exact[has_moved])
            able += int((has_moved | (errors.counted & (2.0 * errors.half > errors.explained))).sum())
        return int(torch.cat(exact).unique().numel()), able

    def relative(self, value: float) -> float:
        """An error as a share of the tensor's scale."""
        return value / self.sums.scale if self.sums.scale > 0 else value

    @property
    def loss(self) -> float:
        """The error over the tensor as a share of its scale."""
        return self.relative(self.sums.overall(self.sums.error))

    def _tensor(self, allowance: PeerAllowance) -> ValueComparison:
        error, allowed = self.sums.overall(self.sums.error), max(allowance.factor * self._allowed(), allowance.error)
        if error <= allowed:
            return ValueComparison(True, "tensor", self.relative(error), self.relative(allowed))
        return self._failed("tensor", self._worst_of_row(int(self.sums.peak.argmax())), error, allowed)

    def _row(self, allowance: PeerAllowance) -> ValueComparison:
        error, allowed = (
            self.sums.mean(self.sums.error),
            (allowance.factor * self._allowed_by_row()).clamp(min=allowance.error),
        )
        excess = error - allowed
        worst = int(excess.argmax())
        if float(excess[worst]) <= 0:
            return ValueComparison(
                True, "row", self.relative(float(error[worst])), self.relative(float(allowed[worst]))
            )
        return self._failed("row", self._worst_of_row(worst), float(error[worst]), float(allowed[worst]))

    def _element(self, allowance: PeerAllowance) -> ValueComparison:
        typical, scale = self._typical(), self._row_scale()
        beyond = self.sums.excess > PEAK_RATIO * (typical + self.natural)  # in no other row can an element lie beyond
        worst: tuple[float, int, float, float] | None = None
        far = 0
        for rows, columns in pieces(*self.sheet.got.shape):
            if not bool(beyond[rows].any()):
                continue
            piece = self.sheet.piece((rows, columns))
            allowed = self._allowed_by_element(piece, (rows, columns), typical, scale)
            allowed = (allowance.factor * allowed).clamp(min=allowance.error)
            excess = piece.error - allowed
            row, column = divmod(int(excess.argmax()), excess.shape[1])
            if float(excess[row, column]) > (worst[0] if worst else 0.0):
                place = (rows.start + row) * self.sums.columns + columns.start + column
                worst = float(excess[row, column]), place, float(piece.error[row, column]), float(allowed[row, column])
            far += int((excess > 0.0).sum())
        if worst is None or self._beside_steps(far, float(self.sums.peak.max())):
            return ValueComparison(True, "element", self.relative(float(self.sums.peak.max())))
        return self._failed("element", *worst[1:])

    def _beside_steps(self, far: int, error: float) -> bool:
        """Say whether so many elements may be out by this: a share of those that runs of the reference move, and not farther.

        Beside a step of the function, as at the threshold of a sparse softmax, a rounding moves a few elements from one side to the
        other: in the reference's runs these, in a kernel's others. What some run moves is allowed there by itself.
        """
        if not self.sheet.shaken or self.sheet.judged is not None:
            return False
        budget = PEAK_RATIO * (self._typical() + self.natural)
        moved, most = 0, 0.0
        for rows, columns in pieces(*self.sheet.got.shape):
            lost = self.sheet.piece((rows, columns)).own_error
            moved += int((lost > budget[rows, None]).sum())
            most = max(most, float(lost.max()))
        return far <= min(moved, 1 + MISSED * moved) and error <= ERROR_RATIO * most

    def _share(self, allowance: PeerAllowance) -> ValueComparison:
        distribution = self.distribution
        if distribution is None:
            return ValueComparison(True, "share")
        allowed = max(allowance.factor * distribution.allowed_share, allowance.error)
        return ValueComparison(distribution.share <= allowed, "share", distribution.share, min(allowed, 1.0))

    def _spread(self, allowance: PeerAllowance) -> ValueComparison:
        distribution = self.distribution
        if distribution is None or self.sheet.judged is not None:
            return ValueComparison(True, "spread")
        allowed = max(allowance.factor * distribution.allowed_spread, allowance.error)
        return ValueComparison(distribution.spread <= allowed, "spread", distribution.spread, allowed)

    def _bias(self, allowance: PeerAllowance) -> ValueComparison:
        distribution = self.distribution
        if distribution is None or self.sheet.judged is not None:  # values far out have the weight of all the others
            return ValueComparison(True, "bias")
        allowed = max(allowance.factor * distribution.allowed_bias, allowance.error)
        return ValueComparison(distribution.bias <= allowed, "bias", distribution.bias, allowed)

    def _slope(self, allowance: PeerAllowance) -> ValueComparison:
        distribution = self.distribution
        if distribution is None or self.sheet.judged is not None:
            return ValueComparison(True, "slope")
        allowed = max(allowance.factor * distribution.allowed_slope, allowance.error)
        return ValueComparison(distribution.slope <= allowed, "slope", distribution.slope, allowed)

    def _tail(self, allowance: PeerAllowance) -> ValueComparison:
        distribution, scale = self.distribution, self._row_scale()
        if distribution is None:
            return ValueComparison(True, "tail")
        bulk = self._bulk(distribution)
        beyond = self.sums.excess > allowance.factor * (bulk if distribution.cancels else TAIL_FLOOR * scale)
        worst: tuple[float, int, float, float] | None = None
        for place in pieces(*self.sheet.got.shape):
            if not bool(beyond[place[0]].any()):
                continue
            error, allowed = self._tails(distribution, place, bulk)
            allowed = (allowance.factor * allowed).clamp(min=allowance.error)
            excess = error - allowed
            row, column = divmod(int(excess.argmax()), excess.shape[1])
            if float(excess[row, column]) > (worst[0] if worst else 0.0):
                at = (place[0].start + row) * self.sums.columns + place[1].start + column
                worst = float(excess[row, column]), at, float(error[row, column]), float(allowed[row, column])
        return ValueComparison(True, "tail") if worst is None else self._failed("tail", *worst[1:])

    def _tails(self, distribution: Distribution, place: Place, bulk: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """The errors of some rows and columns, and what is allowed there."""
        errors = errors_at(self.sheet, place, self._row_scale(), self.natural)
        error = errors.error.abs()
        beyond = torch.maximum(errors.own_excess, errors.excess_of_chance)
        # What float32 leaves, or lies beyond a bend, is rounded too.
        once = distribution.luck * errors.half + ERROR_RATIO * errors.bent
        # An element may lose as much as the reference does there in its own roundings, or in ones at random where those cancel.
        theirs = torch.maximum(errors.own.abs(), errors.chance)
        allowed = torch.maximum(theirs, once) + ERROR_RATIO * beyond
        scale = self._row_scale()[place[0], None]
        steps = distribution.allowed_steps * errors.half + distribution.half_step * scale / 4
        far = (torch.maximum if distribution.cancels else torch.minimum)(steps, bulk[place[0], None])
        floor = TAIL_FLOOR * (errors.exact.abs() + scale)
        return error, allowed + floor + far + PEAK_RATIO * self.natural

    def _bulk(self, distribution: Distribution) -> torch.Tensor:
        """What an element of a row may lie out by the bulk of the errors."""
        return distribution.allowed_tail * self._row_scale() + self._own_beyond_rounding(distribution)

    def _own_beyond_rounding(self, distribution: Distribution) -> torch.Tensor:
        """What the reference loses in a row beyond what one rounding explains."""
        one = distribution.half_step * self._row_scale()
        return PEAK_RATIO * (self.sums.mean(self.sums.own) - one).clamp(min=0.0)

    def _share_strain(self) -> float:
        distribution = self.distribution
        return 0.0 if distribution is None else distribution.share / distribution.allowed_share

    def _spread_strain(self) -> float:
        distribution = self.distribution
        return 0.0 if distribution is None else distribution.spread / max(distribution.allowed_spread, _TINY)

    def _bias_strain(self) -> float:
        distribution = self.distribution
        return 0.0 if distribution is None else distribution.bias / max(distribution.allowed_bias, _TINY)

    def _slope_strain(self) -> float:
        distribution = self.distribution
        return 0.0 if distribution is None else distribution.slope / max(distribution.allowed_slope, _TINY)

    def _tail_strain(self) -> float:
        distribution = self.distribution
        if distribution is None:
            return 0.0
        bulk, worst = self._bulk(distribution), 0.0
        for place in pieces(*self.sheet.got.shape):
            error, allowed = self._tails(distribution, place, bulk)
            worst = max(worst, float((error / allowed.clamp(min=_TINY)).max()))
        return worst

    def _tensor_strain(self) -> float:
        return self.sums.overall(self.sums.error) / max(self._allowed(), _TINY)

    def _row_strain(self) -> float:
        return float((self.sums.mean(self.sums.error) / self._allowed_by_row().clamp(min=_TINY)).max())

    def _element_strain(self) -> float:
        typical, scale = self._typical(), self._row_scale()
        worst = 0.0
        for place in pieces(*self.sheet.got.shape):
            piece = self.sheet.piece(place)
            allowed = self._allowed_by_element(piece, place, typical, scale)
            worst = max(worst, float((piece.error / allowed.clamp(min=_TINY)).max()))
        return worst

    @cached_property
    def _different(self) -> tuple[float, torch.Tensor]:
        """How many different true values there are in all, and by row; of many elements, how many elements."""
        rows, columns = self.sheet.exact.shape
        if rows * columns > MOST_COUNTED:
            return float(rows * columns), torch.full((rows,), float(columns), dtype=torch.float64)
        by_row = 1.0 + (self.sheet.exact.double().sort(-1).values.diff(dim=-1) != 0).sum(-1).double()
        return float(self.sheet.exact.unique().numel()), by_row

    def _allowed(self) -> float:
        ratio = ERROR_RATIO * (1.0 + 1.0 / math.sqrt(self._different[0]))
        return ratio * self._own_rms() + self.floor.tensor * self.sums.scale + self.natural

    def _allowed_by_row(self) -> torch.Tensor:
        # One row has fewer elements than the tensor, so the luck of the reference there is bounded by its typical row.
        own = torch.maximum(self.sums.mean(self.sums.own), 1.5 * self._own_of_a_row)
        ratio = ERROR_RATIO * (1.0 + self._different[1] ** -0.5)
        return ratio * own + self.floor.row * self._row_scale() + self.natural

    def _allowed_by_element(
        self, piece: Piece, place: Place, typical: torch.Tensor, scale: torch.Tensor
    ) -> torch.Tensor:
        rows = place[0]
        size = torch.maximum(_finite_abs(piece.exact), scale[rows, None])
        budget = PEAK_RATIO * (typical[rows, None] + self.natural) + self.floor.element * size
        # Where errors of several roundings meet, eager mode may be lucky: by chance alone an element errs as far.
        return ERROR_RATIO * torch.maximum(piece.own_error, self.sheet.lost_by_chance(place)) + budget

    def _typical(self) -> torch.Tensor:
        return torch.maximum(self.sums.mean(self.sums.own), self._own_of_a_row)

    @cached_property
    def _own_of_a_row(self) -> torch.Tensor:
        """The reference's rms error by row: over the whole tensor, but rows of zeros alone do not lower that of the others."""
        live = self._row_scale() > 0
        return self._own_rms() * torch.where(live, math.sqrt(len(live) / max(1, int(live.sum()))), 1.0)

    def _row_scale(self) -> torch.Tensor:
        return self.sums.mean(self.sums.exact)

    def _own_rms(self) -> float:
        return self.sums.overall(self.sums.own)

    def _worst_of_row(self, row: int) -> int:
        error = self.sheet.piece((slice(row, row + 1), slice(None))).error
        return row * self.sums.columns + int(error.argmax())

    def _failed(self, level: str, place: int, error: float, allowed: float) -> ValueComparison:
        row, column = divmod(place, self.sums.columns)
        return ValueComparison(
            False,
            level,
            self.relative(error),
            self.relative(allowed),
            position_of(place, self.shape),
            float(self.sheet.got[row, column]),
            float(self.sheet.exact[row, column]),
        )


def as_rows(tensor: torch.Tensor) -> torch.Tensor:
    """A tensor as [rows, columns]."""
    return tensor.reshape(-1, tensor.shape[-1]) if tensor.dim() else tensor.reshape(1, 1)


def position_of(place: int, shape: tuple[int, ...]) -> tuple[int, ...]:
    """The index of an element from its number in the order of memory."""
    index = []
    for size in reversed(shape):
        index.append(place % size)
        place //= size
    return tuple(reversed(index))


def _finite_abs(tensor: torch.Tensor) -> torch.Tensor:
    return torch.nan_to_num(tensor.abs(), nan=0.0, posinf=0.0, neginf=0.0)
