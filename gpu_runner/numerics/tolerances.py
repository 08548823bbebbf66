"""How far a value may lie from the truth: floors of dtypes, shares of what others lose, and how a comparison ends. Pure."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import torch

from gpu_runner.numerics.measures import own_error

ERROR_RATIO = 2.0  # a candidate may err twice as much as the reference in the same dtype
PEER_RATIO = (
    2.0  # and twice as much as what stands: of two kernels that are equally exact either may have the better luck
)
FAR = 10.0  # times the allowed error: rounding and approximations stay below it, another formula does not
PEAK_RATIO = 6.0  # how far one element may lie beyond the typical error of its row: about six standard deviations
FLOAT32_STEP = 2.0**-24
NATURAL_STEPS = 16
SCALE_STEPS = (
    4  # roundings of the tensor's scale that any element may err by: 1 + tanh(x) loses as much where it cancels
)
FEW_ELEMENTS = (
    32  # with fewer than this, how much one run errs says next to nothing of another: ratios of 2 become common
)

# Half a step of each dtype, relative: its unit roundoff, 2**-p with p bits of mantissa. An ideal rounding loses no more.
HALF_STEPS: dict[torch.dtype, float] = {
    torch.float64: 2.0**-53,
    torch.float32: 2.0**-24,
    torch.float16: 2.0**-11,
    torch.bfloat16: 2.0**-8,
}
# The root mean square of one rounding is between 0.29 and 0.58 of half a step's bound, by where in its binade a value lies.
ONE_ROUNDING = 0.5
# What float32 arithmetic may lose before the one rounding at the end, relative to the scale of a row: twice the floor of float32
# over a tensor. A kernel that computes in float32 and rounds once therefore has no element beyond an ideal rounding.
FLOAT32_SLACK = 3e-6
# Of the elements of a half precision so many more may lie beyond an ideal rounding than twice the reference's own. One rounding
# more than the reference moves 25 to 35% of them to a neighbour, random rounding 25%, a sum in bfloat16 more than half.
SHARE_FLOOR = 0.05
# A signed mean error beyond six standard errors is no chance (2e-9 for normal errors). Where the errors of a row or a column go
# together its mean is as uncertain as that of so few independent ones: three deviations of those are allowed as well.
BIAS_DEVIATIONS = 6.0
CORRELATED = 3.0
# An element may lie TAIL_RATIO times as far out as the bulk of the same value, which a few wrong elements do not move.
BULK = 0.95
# Times the bulk, and more of it a decade beyond a hundred thousand elements: gradients of softmax, which cancel, came to 19 over
# few thousand elements (H100, 2026-11-23). Where nothing cancels an element's own step bounds it much closer.
TAIL_RATIO, TAIL_GROWTH = 24.0, 0.2
TAIL_FLOOR = 8e-6
# Of products the reference loses at most three roundings, two half steps beyond an ideal one. Where it loses more than this, terms
# cancel, and an element's own step is no measure.
CANCELS = 2.0


@dataclass(frozen=True)
class Floor:
    """Error that is always allowed in a dtype, relative to scale: of the whole tensor, of one row, of one element."""

    tensor: float
    row: float
    element: float
    smallest: float  # half the distance between the smallest numbers of the dtype that every kernel keeps


# Half and bfloat16: the root mean square of one rounding is 0.29 of a step (2**-10 and 2**-7 of the value), one element
# may be off by one and a half steps. Float32: approximations of exp, tanh and the like on a GPU are good to a few steps of 2**-23,
# and what is below its smallest normal number, bfloat16's too, is zero to instructions that flush.
FLOORS: dict[torch.dtype, Floor] = {
    torch.float64: Floor(1e-12, 4e-12, 2e-11, 0.0),
    torch.float32: Floor(4e-6, 5e-6, 2e-5, 2.0**-127),
    torch.float16: Floor(4e-4, 8e-4, 2e-3, 2.0**-24),
    torch.bfloat16: Floor(3e-3, 6e-3, 1.2e-2, 2.0**-127),
}


@dataclass(frozen=True)
class Truth:
    """What a value is held against: the truth, the reference in its own dtype, an absolute error that rounding explains.

    Of large values and of dtypes with few bits there is more: ``shaken`` are the truths of inputs that are a few roundings of
    float32 away, to one side and to the other. Of large values and of those that are not finite ``judged`` says which elements
    count, ``loud`` where a NaN is let pass, but for the elements alone that are ``infinite`` themselves: along ``slices``, axes,
    others must be NaN too. ``typical`` is the size that a gradient has where its terms have their signs by
    chance; zero where that is not known. ``rounded`` is the reference in half precision with its results rounded at
    random, of several runs what lies farthest from the truth. ``is_noisy``: some of ``shaken`` had noise in every operation.
    ``idle``: the number where the truth is not finite though the same number for all finite inputs there, and NaN elsewhere: a
    kernel need not multiply NaN by zero.
    ``terms``: how large those are that autograd adds up, each rounded, as for a tensor given twice; zero where it adds none.
    ``own_scales``: of rows that differ in size by far, or ``of_columns``, how many there are; each has its own scale too.
    ``is_ordinary``: values, sizes and layouts are such that exact arithmetic is exact by itself, not by chance.
    """

    exact: torch.Tensor
    own: torch.Tensor
    natural: float = 0.0
    shaken: tuple[torch.Tensor, ...] = ()
    judged: torch.Tensor | None = None
    loud: torch.Tensor | None = None
    infinite: torch.Tensor | None = None
    slices: tuple[int, ...] = ()
    typical: float = 0.0
    rounded: torch.Tensor | None = None
    is_noisy: bool = False
    is_ordinary: bool = False
    idle: torch.Tensor | None = None
    terms: float = 0.0
    own_scales: int = 0
    of_columns: bool = False

    def beside(self, got: torch.Tensor) -> Truth:
        """The truth beside this value: with the idle number where it gives one, as if nothing were multiplied by zero."""
        if self.idle is None:
            return self
        given = torch.isfinite(got) & torch.isfinite(self.idle)
        exact = torch.where(given, self.idle, self.exact)
        return replace(self, exact=exact, own=torch.where(given, exact.to(self.own.dtype), self.own), idle=None)

    def own_error(self) -> torch.Tensor:
        """What the reference loses in each element, in its dtype or where inputs are shaken; zero where one is not finite."""
        return own_error(self.exact.double(), [self.own, *self.shaken])


@dataclass(frozen=True)
class ValueComparison:
    """How a value compares; ``level`` says which bound decided."""

    passed: bool
    # tensor, row, element, share, spread, bias, slope, tail, cut, rounding, outlier, zero, emptied, scatter, nonfinite, unwritten,
    # exact
    level: str
    error: float | None = None
    allowed: float | None = None
    position: tuple[int, ...] | None = None
    got: float | None = None
    expected: float | None = None
    alone: ValueComparison | None = (
        None  # how it fails without what stands in its place, where it passes only beside that
    )
    other_kind: bool = False  # somewhere NaN for an infinity or the other way round, which was let pass

    @property
    def by_peer(self) -> bool:
        """Say whether it passed only because what stands in its place errs as much."""
        return self.alone is not None


def natural_error(upstream: list[float], outputs: list[float], own_input: float, per_element: float) -> float:
    """The absolute error of a gradient that float32 rounding explains even where the gradient itself cancels to nothing.

    A gradient has the unit upstream times output over input; ``per_element`` is how many output elements meet in one of it, less
    than one where many of its elements share one, as those of a mean do.
    """
    if own_input <= 0.0:
        return 0.0
    worth = max((u * y for u, y in zip(upstream, outputs, strict=True)), default=0.0)
    return NATURAL_STEPS * FLOAT32_STEP * worth / own_input * math.sqrt(per_element)


def typical_of(natural: float) -> float:
    """The size of a gradient whose terms have their signs by chance, from its ``natural_error``."""
    return natural / (NATURAL_STEPS * FLOAT32_STEP)
