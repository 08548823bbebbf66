"""How the errors of a value are distributed: the share beyond one rounding, their signed mean, their tail. No I/O."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import torch

from gpu_runner.numerics.measures import OF_CHANCE, Sheet, own_error, pieces
from gpu_runner.numerics.tolerances import (
    BIAS_DEVIATIONS,
    BULK,
    CANCELS,
    CORRELATED,
    ERROR_RATIO,
    FLOAT32_SLACK,
    HALF_STEPS,
    ONE_ROUNDING,
    PEAK_RATIO,
    SHARE_FLOOR,
    TAIL_GROWTH,
    TAIL_RATIO,
    Truth,
    ValueComparison,
)

CUT = 0.6  # share of numbers without their last bits from which on these were thrown away
LEAST_FOR_ROUNDING = 256  # elements
LAST_BITS = 3  # that are looked at
UNRESOLVED = 64.0  # half steps that the reference may lose where the last three bits of a number are still looked at
INEXACT_SHARE = 0.005  # of the reference's elements, beyond which it is taken to approximate
# Units in the last place, in the median, which a few elements that cancel do not move: Triton's division and square root are good
# to two, a few operations in another order to one or two more; four bits thrown away give 7.5.
# Source: CUDA C++ Programming Guide, accuracy of `__fdividef` and `sqrt.approx`.
STEPS_ALLOWED = 5.0
# Units in the last place of one element, beyond what moves with the rounding of operators: 1.2e-5 of it are a hundred and more.
OUTLIER_STEPS = 32.0
OF_SCALE = 1e-6  # of the root mean square, some roundings of float32
SAMPLED = 2**20  # elements: shares and means of more say nothing new, and each takes time
MOST_SORTED = 2**16
MOST_EXCESSES = 2**15 - 1  # of those, of which the bulk is sorted out
_EXPONENT = 0x7FF0000000000000
_TINY = 1e-300


@dataclass(frozen=True)
class Distribution:
    """Errors relative to the scale of their rows, against those of the reference in the same dtype.

    The *excess* of an error is what goes beyond half a step of the dtype (what an ideal rounding of the truth may lose) and what
    float32 arithmetic explains.
    """

    elements: int
    rows: int
    columns: int
    half_step: float  # of the dtype, relative: its unit roundoff
    share: float  # of elements with an excess
    own_share: float
    bias: float  # the larger of the signed mean error and of the slope of the errors over the truth
    bias_deviation: float  # standard error of it
    own_bias: float
    spread: float  # root mean square of the errors, without what float32 arithmetic explains
    own_spread: float  # of the reference, with it, where the function is smooth
    own_unexplained: float  # of the reference, counted as ``spread`` is
    bulk: float  # excess below which 95% lie
    own_bulk: float  # root mean square of the reference's excess
    # The same among those elements alone that have one: upstream gradients with few elements leave few.
    own_beyond: float
    slope: float  # of a row's errors over its truth, root mean square over the rows by their share of the truth
    slope_deviation: float  # what independent errors as large give
    own_slope: float
    own_steps: float  # largest excess of the reference in an element's own half steps: large where terms cancel

    @property
    def luck(self) -> float:
        """Factor by which an error of few elements may exceed what is typical."""
        return 1.0 + 3.0 / math.sqrt(self.elements)

    @property
    def allowed_share(self) -> float:
        """Share of elements that may have an excess; all where the dtype is as exact as what computes."""
        if self.half_step < FLOAT32_SLACK:
            return 1.0
        return ERROR_RATIO * self.own_share + SHARE_FLOOR + 2.0 / math.sqrt(self.elements)

    @property
    def allowed_spread(self) -> float:
        """Root mean square that the reference's own, or one rounding, explains, more where there are few; any in float32."""
        if self.half_step < FLOAT32_SLACK:
            return math.inf
        typical = max(self.own_spread, self.own_unexplained, ONE_ROUNDING * self.half_step)
        return ERROR_RATIO * typical * (self.luck + CORRELATED / math.sqrt(min(self.rows, self.columns)))

    @property
    def allowed_bias(self) -> float:
        """Signed mean error that chance, the reference's own bias and correlated rows or columns explain."""
        correlated = self.own_spread * min(1.5, CORRELATED / math.sqrt(min(self.rows, self.columns)))
        return (
            ERROR_RATIO * self.own_bias
            + least_bias(self.half_step)
            + BIAS_DEVIATIONS * self.bias_deviation
            + correlated
        )

    @property
    def allowed_slope(self) -> float:
        """Slope that the reference's own and chance explain: a row's errors go together where a number of the row is inexact."""
        typical = math.hypot(self.own_slope, self.slope_deviation)
        return typical * (1.0 + 3.0 / math.sqrt(self.rows)) + least_bias(self.half_step)

    @property
    def allowed_tail(self) -> float:
        """Excess that an element may have beyond ``TAIL_FLOOR`` and what the reference loses there, relative to its row's scale."""
        if self.half_step < FLOAT32_SLACK:
            return math.inf  # each element has its own bound, and approximations have tails
        growth = 1.0 + TAIL_GROWTH * max(0.0, math.log10(self.elements) - 5.0)
        return growth * max(TAIL_RATIO * max(self.bulk, self.own_bulk), PEAK_RATIO * self.own_beyond)

    @property
    def cancels(self) -> bool:
        """Say whether terms of the reference cancel somewhere, or may do so: there an element's own step is no measure."""
        return self.half_step < FLOAT32_SLACK or self.own_steps > CANCELS

    @property
    def allowed_steps(self) -> float:
        """Excess that an element may have in its own half steps, where nothing cancels."""
        return ERROR_RATIO * min(self.own_steps, CANCELS) + 1.0


def least_bias(half_step: float) -> float:
    """Signed mean error relative to scale that is always allowed in a dtype."""
    return 0.1 * half_step + FLOAT32_SLACK


def distribution_of(sheet: Sheet, row_scale: torch.Tensor, natural: float) -> Distribution | None:
    """Distribution of the errors of at most ``SAMPLED`` elements; None where none counts."""
    counts, sums, excesses, own_steps = _Counts(), torch.zeros(12, dtype=torch.float64), [], 0.0
    places = list(pieces(*sheet.got.shape))
    places = places[:: math.ceil(sheet.got.numel() / SAMPLED) or 1]
    apart = (
        math.ceil(min(sheet.got.numel(), SAMPLED) / MOST_EXCESSES) | 1
    )  # odd, so that it does not meet one column alone
    half_step = HALF_STEPS[sheet.got.dtype]
    by_row = [torch.zeros(sheet.got.shape[0], dtype=torch.float64) for _ in range(3)]
    # What the reference loses as a whole, in its own run and in those that tell what float32 may lose: its sum, its slope, by row.
    theirs = [(sheet.own, 1.0), *((shaken, 1.0) for shaken in sheet.shaken)]
    theirs += [] if sheet.rounded is None else [(sheet.rounded, OF_CHANCE)]
    runs = len(theirs)
    lost, lost_over = torch.zeros((2, runs), dtype=torch.float64)
    lost_by_row = torch.zeros((runs, sheet.got.shape[0]), dtype=torch.float64)
    for rows, columns in places:
        errors = errors_at(sheet, (rows, columns), row_scale, natural)
        scale = row_scale[rows, None].clamp(min=_TINY)
        # Where a row cancels to nothing, all its errors may come of one sum: no bias below what float32 explains there.
        resolved = scale.clamp(min=natural / least_bias(half_step))
        counts.elements += int(errors.counted.sum())
        counts.beyond += int((errors.excess > 0).sum())
        counts.own_beyond += int((errors.own_excess > 0).sum())
        counts.beyond_by_chance += int((errors.excess_of_chance > 0).sum())
        among = (errors.counted & (errors.exact != 0)).flatten()[::apart]
        excesses.append((errors.excess / scale).flatten()[::apart][among])
        sums += _sums(errors, scale, resolved)
        for known, more in zip(by_row, _sums_by_row(errors, scale, resolved), strict=True):
            known[rows] += more
        for run, (values, weight) in enumerate(theirs):
            values = values[rows, columns].double()
            # A run with other inputs may overflow where the truth does not.
            apart_by = (values - errors.exact).nan_to_num_(0.0, 0.0, 0.0)
            shift = torch.where(errors.smooth, apart_by, 0.0) * (weight / resolved)
            over = shift * errors.exact / scale
            lost[run] += shift.sum()
            lost_over[run] += over.sum()
            lost_by_row[run, rows] += over.sum(-1)
        most = torch.maximum(errors.own_excess, errors.excess_of_chance)
        own_steps = max(own_steps, float((most / errors.half).max()))
    if not counts.elements or not bool(torch.isfinite(sums).all()):
        return None
    n = counts.elements
    error, error2, over, over2, exact2, *own2, spread2, own_spread2, chance_spread2 = (float(value) for value in sums)
    own_error2, chance2, own_excess2, chance_excess2 = own2
    slope, weight = over / max(exact2, _TINY), max(exact2, _TINY)
    biases = (
        (abs(error) / n, math.sqrt(error2) / n, float(lost.abs().max()) / n),
        (abs(slope), math.sqrt(over2) / weight, float(lost_over.abs().max()) / weight),
    )
    worst = max(biases, key=lambda bias: bias[0] - BIAS_DEVIATIONS * bias[1] - ERROR_RATIO * bias[2])
    flat = torch.cat(excesses)
    return Distribution(
        n,
        sheet.got.shape[0],
        sheet.got.shape[1],
        half_step,
        counts.beyond / n,
        max(counts.own_beyond, counts.beyond_by_chance) / n,
        *worst,
        math.sqrt(spread2 / n),
        math.sqrt(max(own_error2, OF_CHANCE**2 * chance2) / n),
        math.sqrt(max(own_spread2, chance_spread2) / n),
        float(flat.kthvalue(max(1, math.floor(BULK * len(flat)))).values) if len(flat) else 0.0,
        math.sqrt(max(own_excess2, chance_excess2) / n),
        math.sqrt(max(own_excess2 / max(1, counts.own_beyond), chance_excess2 / max(1, counts.beyond_by_chance))),
        *_slopes(by_row, lost_by_row),
        own_steps,
    )


def _sums_by_row(errors: Errors, scale: torch.Tensor, resolved: torch.Tensor) -> Iterator[torch.Tensor]:
    exact = torch.where(errors.smooth, errors.exact, 0.0) / scale
    over = exact * errors.error / resolved
    return (values.sum(-1) for values in (exact * exact, over, over * over))


def _slopes(by_row: list[torch.Tensor], lost: torch.Tensor) -> tuple[float, float, float]:
    """Root mean squares over the rows by their share of the truth: slopes, what independent errors give, the reference's."""
    exact2, over, over2 = by_row
    counted = exact2 > _TINY
    whole = max(float(exact2.sum()), _TINY)
    squares = ((values[counted] / exact2[counted]).sum() for values in (over.square(), over2, *lost.square()))
    slope, deviation, *theirs = (math.sqrt(float(square) / whole) for square in squares)
    return slope, deviation, max(theirs)


@dataclass
class _Counts:
    elements: int = 0
    beyond: int = 0
    own_beyond: int = 0
    beyond_by_chance: int = 0


@dataclass(frozen=True)
class Errors:
    """Signed errors of some rows and columns, and what of them goes beyond an ideal rounding; zero where nothing counts."""

    counted: torch.Tensor
    smooth: torch.Tensor  # neither a step nor a bend of the function is within the rounding of the inputs
    exact: torch.Tensor
    error: torch.Tensor
    own: torch.Tensor
    excess: torch.Tensor
    own_excess: torch.Tensor
    chance: torch.Tensor  # what the reference loses where half precision is rounded at random
    excess_of_chance: torch.Tensor  # of its half, which is what roundings to the nearest lose at most
    half: torch.Tensor  # half a step of the dtype at the truth
    bent: torch.Tensor  # how far float32 arithmetic, or the other side of a bend of the function, lies from the truth
    explained: torch.Tensor  # what these explain in all


def errors_at(sheet: Sheet, place: tuple[slice, slice], row_scale: torch.Tensor, natural: float) -> Errors:
    """Errors of some rows and columns of a value and of the reference."""
    exact, got, own = sheet.exact[place].double(), sheet.got[place].double(), sheet.own[place].double()
    error, lost = got - exact, own - exact
    counted = torch.isfinite(error) & torch.isfinite(lost)
    if sheet.judged is not None:
        counted &= sheet.judged[place]
    truth, error, lost = (torch.where(counted, values, 0.0) for values in (exact, error, lost))
    half = half_steps(truth, sheet.got.dtype)
    explained = FLOAT32_SLACK * row_scale[place[0], None] + natural
    smooth, bent = counted, torch.zeros_like(truth)
    if sheet.shaken:
        bent = torch.where(counted, own_error(exact, [shaken[place] for shaken in sheet.shaken]), 0.0)
        smooth = counted & (bent <= half + explained)
        explained = explained + bent
        # Beyond the bend it is that far out that a number is rounded.
        half = half_steps(truth.abs() + bent, sheet.got.dtype)
    slack = half + explained
    excess, own_excess = (error.abs() - slack).clamp(min=0.0), (lost.abs() - slack).clamp(min=0.0)
    chance = torch.where(counted, sheet.lost_by_chance(place), 0.0)
    excess_of_chance = (OF_CHANCE * chance - slack).clamp(min=0.0)
    return Errors(
        counted, smooth, truth, error, lost, excess, own_excess, chance, excess_of_chance, half, bent, explained
    )


def half_steps(exact: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Half the distance between neighbouring numbers of a dtype at finite true values: what an ideal rounding loses at most."""
    power = (exact.contiguous().view(torch.int64) & _EXPONENT).view(torch.float64)
    return (power * HALF_STEPS[dtype]).clamp(min=torch.finfo(dtype).smallest_normal * HALF_STEPS[dtype])


def _share_of_cut(values: torch.Tensor, resolved: torch.Tensor) -> float:
    """The share of numbers whose last three bits are zero, of those that float32 resolves: an eighth by chance."""
    numbers = values.flatten()[:SAMPLED]
    numbers = numbers[torch.isfinite(numbers) & (numbers != 0) & resolved]
    numbers = numbers[:: math.ceil(numbers.numel() / MOST_SORTED) | 1].unique()  # of equal ones each says the same
    if numbers.numel() < LEAST_FOR_ROUNDING:
        return 0.0
    return float(((numbers.contiguous().view(torch.int32) & (1 << LAST_BITS) - 1) == 0).double().mean())


def _resolved(truth: Truth) -> torch.Tensor:
    """Where the last bits of a float32 value say something: what comes of terms that cancel has theirs."""
    exact = truth.exact.flatten()[:SAMPLED].double()
    runs = [values.flatten()[:SAMPLED] for values in (truth.own, *truth.shaken)]
    resolved = torch.isfinite(exact) & (own_error(exact, runs) <= UNRESOLVED * half_steps(exact, torch.float32))
    return resolved & (exact.abs() >= truth.terms / (1 << LAST_BITS))


def coarser(got: torch.Tensor, truth: Truth) -> ValueComparison | None:
    """A float32 value that throws bits away where the reference rounds correctly: pure arithmetic, with nothing to approximate.

    None where the value is as exact as it may be, or the reference itself approximates. What moves with the rounding of operators,
    as a row's mean does where all of it is equal, is nobody's loss.
    """
    if got.dtype != torch.float32 or got.numel() < LEAST_FOR_ROUNDING or truth.judged is not None:
        return None
    resolved = _resolved(truth)
    given = _share_of_cut(got, resolved)
    if given > CUT and _share_of_cut(truth.own, resolved) < CUT / 2:
        return ValueComparison(False, "cut", given, CUT)
    if not truth.is_ordinary and not truth.shaken:
        return None
    exact, own, value = (t.flatten()[:SAMPLED].double() for t in (truth.exact, truth.own, got))
    counted = torch.isfinite(exact) & torch.isfinite(own) & torch.isfinite(value) & (exact != 0)
    if int(counted.sum()) < LEAST_FOR_ROUNDING:
        return None
    bent = own_error(exact, [shaken.flatten()[:SAMPLED] for shaken in truth.shaken]) if truth.shaken else None
    exact, own, value = exact[counted], own[counted], value[counted]
    step = 2.0 * half_steps(exact, torch.float32)
    if float(((own - exact).abs() > 0.501 * step).double().mean()) > INEXACT_SHARE:
        return None
    if bent is not None and float(((value - exact).abs() > 0.501 * step).double().mean()) <= INEXACT_SHARE:
        # It rounds correctly too, but for a few: not a sum, whose order is its own, where the reference adds in a wider type.
        # What cancels moves with the operators before it, and an element far below the others may come of terms as large as these.
        # The reference itself may lose a few.
        lost = torch.maximum(bent[counted], (own - exact).abs())
        least = ERROR_RATIO * lost + OF_SCALE * float(exact.square().mean().sqrt()) + truth.natural
        farthest = float((((value - exact).abs() - least) / step).max())
        if farthest > OUTLIER_STEPS:
            return ValueComparison(False, "outlier", farthest, OUTLIER_STEPS)
    if not truth.is_ordinary:
        return None
    beyond = (value - exact).abs() - (bent[counted] if bent is not None else 0.0)
    error = float((beyond / step).median())
    return ValueComparison(False, "rounding", error, STEPS_ALLOWED) if error > STEPS_ALLOWED else None


def _sums(errors: Errors, scale: torch.Tensor, resolved: torch.Tensor) -> torch.Tensor:
    error = torch.where(errors.smooth, errors.error, 0.0) / resolved
    own = torch.where(errors.smooth, errors.own, 0.0) / resolved
    exact = errors.exact / scale
    over = error * exact
    chance = torch.where(errors.smooth, errors.chance, 0.0) / resolved
    lost = (errors.error, errors.own, OF_CHANCE * errors.chance)
    unexplained = [(values.abs() - errors.explained).clamp(min=0.0) / resolved for values in lost]
    theirs = (own, chance, errors.own_excess / scale, errors.excess_of_chance / scale)
    squares = [values * values for values in (*theirs, *unexplained)]
    return torch.stack([values.sum() for values in (error, error * error, over, over * over, exact * exact, *squares)])
