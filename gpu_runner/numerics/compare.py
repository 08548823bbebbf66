"""Compares values with the float64 truth, within what the reference itself loses in the candidate's dtype. No I/O."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace

import torch

from gpu_runner.numerics.distribution import coarser
from gpu_runner.numerics.levels import Levels, PeerAllowance, as_rows, position_of
from gpu_runner.numerics.measures import own_error, pieces, rms
from gpu_runner.numerics.tolerances import (
    ERROR_RATIO,
    FAR,
    FEW_ELEMENTS,
    FLOAT32_STEP,
    FLOORS,
    NATURAL_STEPS,
    PEER_RATIO,
    SHARE_FLOOR,
    Floor,
    Truth,
    ValueComparison,
    natural_error,
)

__all__ = [
    "FLOAT32_STEP",
    "FLOORS",
    "Floor",
    "Truth",
    "ValueComparison",
    "compare",
    "is_far",
    "loss_of",
    "natural_error",
    "needs_loss",
    "rms",
]

HALVES = (torch.float16, torch.bfloat16)
DISTRIBUTED = ("share", "spread", "bias", "slope", "tail", "zero", "emptied", "cut", "rounding", "outlier", "scatter")
FEW_ZEROS = 2  # that a kernel's own rounding may fill though no rounding of the reference did
NOTHING = 2.0**-30  # of the tensor's scale: less may be what a better formula gives where the reference's underflows
NEARLY = 1.01  # times the largest number of a dtype: what is closer may be rounded to it
EIGHT_BITS = (torch.int8, torch.uint8)
SEVERAL_MISSED = 2  # times as many elements at a half as no run with noise says; each says half of them
LOST_OF_A_ROW = 1e-3  # of its scale
SEVERAL = 1024  # elements from which on the error of one run says how exact a kernel is


def compare(
    got: torch.Tensor,
    truth: Truth,
    peers: Sequence[torch.Tensor] = (),
    loss: float = 0.0,
    *,
    is_coarse: bool = False,
) -> ValueComparison:
    """Hold a value of the right shape and dtype against the truth.

    Whole numbers and truth values must equal the truth or the reference. ``peers`` are what stands in the repository gave for the
    same value. An error no larger than theirs passes, over the tensor, in the worst row and in the worst element alike; and where
    they exceed what is allowed, this value may exceed it twice as far: who adds in another order has other roundings, and of two
    kernels that are equally exact either may have the worst row. Of few elements one run says too little: ``loss`` is what share of
    its values what stands loses elsewhere (``loss_of``). A coarse comparison asks how large errors are, and not how they are
    distributed.
    """
    truth = truth.beside(got)
    alone = _compare(got, truth, (), 0.0, is_coarse)
    if alone.passed and truth.own_scales and not peers and got.dtype in FLOORS:
        return _at_own_scales(got, truth) or alone
    if alone.passed or not peers:
        return alone
    beside = _compare(got, truth, peers, loss)
    return replace(beside, alone=alone) if beside.passed else beside


def scattered(
    first: torch.Tensor, second: torch.Tensor, truth: Truth, peers: Sequence[torch.Tensor] = ()
) -> ValueComparison:
    """Compare two runs on the same inputs: in half precision sums in another order move few elements to a neighbour.

    Random rounding moves a third of them. What the reference itself loses beyond an ideal rounding allows twice as much. Elements
    whose neighbours float32 arithmetic explains say nothing, as where a gradient cancels and all of a row is what one sum leaves.
    """
    if first.dtype not in HALVES or not first.numel():
        return ValueComparison(True, "scatter")
    run, *others = (Levels.of(value, truth) for value in (first, *peers) if value.dtype == first.dtype)
    moved, able = run.moved(second)
    if run.distribution is None or not able:
        return ValueComparison(True, "scatter")
    shares = [run.distribution.own_share, *(levels.distribution.share for levels in others if levels.distribution)]
    allowed = ERROR_RATIO * sum(shares) * first.numel() / able + SHARE_FLOOR + 2.0 / math.sqrt(able)
    return ValueComparison(moved / able <= allowed, "scatter", moved / able, min(allowed, 1.0))


def needs_loss(got: torch.Tensor, truth: Truth) -> bool:
    """Say whether ``loss`` can matter to how a value compares."""
    return got.numel() <= FEW_ELEMENTS and truth.typical > 0.0


def loss_of(pairs: Iterable[tuple[torch.Tensor, Truth]]) -> float:
    """The largest share that a kernel loses of a tensor's values, of those tensors that tell it and are not wrong by far."""
    worst = 0.0
    for value, truth in pairs:
        if value.numel() < SEVERAL or value.dtype not in FLOORS:
            continue
        levels = Levels.of(value, truth)
        if levels.strains()[0]() <= FAR:
            worst = max(worst, levels.loss)
    return worst


def is_far(comparison: ValueComparison) -> bool:
    """Say whether a value is not inexact but wrong: beyond what roundings and approximations explain."""
    if comparison.passed or comparison.level in DISTRIBUTED:  # the levels before them saw no error as large
        return False
    return comparison.error is None or comparison.allowed is None or comparison.error > FAR * comparison.allowed


def _compare(
    got: torch.Tensor, truth: Truth, peers: Sequence[torch.Tensor], loss: float, is_coarse: bool = False
) -> ValueComparison:
    if not got.dtype.is_floating_point:
        return _compare_exact(got, truth, peers)
    if got.numel() == 0:
        return ValueComparison(True, "tensor", 0.0, 0.0)
    if loss and needs_loss(got, truth):
        truth = replace(truth, natural=truth.natural + PEER_RATIO * loss * truth.typical)
    levels = Levels.of(got, truth)
    plain = levels.is_plain()
    odd = None if plain else _nonfinite(got, truth, peers)
    if odd is not None:
        return odd
    if truth.judged is not None and peers:
        truth = replace(truth, judged=truth.judged & ~_lost_by(peers, truth))
        levels = Levels.of(got, truth)
    comparisons = levels.errors_alone() if is_coarse and not peers else levels.comparisons()
    failed = [comparison for comparison in comparisons if not comparison.passed]
    if is_coarse and not peers:
        return failed[0] if failed else comparisons[0]
    if not failed and not peers:
        coarse = coarser(got, truth)
        if coarse is not None:
            return coarse
    if not failed:
        wrong = _wrong_zeros(got, truth, peers, levels.sums.scale)
        if wrong is not None:
            return wrong
    if not failed:
        return replace(comparisons[0], other_kind=not plain and _is_of_another_kind(got, truth))
    if not peers:
        return failed[0]
    allowances = _peer_allowances(comparisons, peers, truth, got.dtype)
    beyond = [comparison for comparison in levels.comparisons(allowances) if not comparison.passed]
    if beyond:
        return beyond[0]
    first, more = failed[0], allowances[comparisons.index(failed[0])]
    allowed = max(more.factor * (first.allowed or 0.0), levels.relative(more.error))
    return ValueComparison(
        True, first.level, first.error, allowed, other_kind=not plain and _is_of_another_kind(got, truth)
    )


def _at_own_scales(got: torch.Tensor, truth: Truth) -> ValueComparison | None:
    """Find a row, or column, that is wrong by far at its own scale, of those that are of very different sizes.

    Elements of which the reference's own run or runs with noise lose a part of that scale say nothing.
    """
    floor, most = FLOORS[got.dtype], torch.finfo(got.dtype).max
    form = (-1, truth.own_scales) if truth.of_columns else (truth.own_scales, -1)
    others = [truth.own, *truth.shaken, *([] if truth.rounded is None else [truth.rounded])]
    judged = torch.ones_like(truth.exact, dtype=torch.bool) if truth.judged is None else truth.judged
    value, exact, counts, *runs = (
        each.reshape(form).t() if truth.of_columns else each.reshape(form)
        for each in (got.double(), truth.exact.double(), judged, *(run.double() for run in others))
    )
    counts = counts & torch.isfinite(value) & (exact.abs() <= most)

    def scales() -> torch.Tensor:
        kept = torch.where(counts, exact, 0.0)
        size = kept.square().sum(-1, keepdim=True) / counts.sum(-1, keepdim=True).clamp(min=1)
        return size.sqrt().clamp(min=2 * floor.smallest / floor.row)

    lost = own_error(exact, runs)
    counts &= lost <= max(LOST_OF_A_ROW, floor.element) * scales()
    scale = scales()
    value, exact, *runs = (torch.where(counts, each, 0.0) / scale for each in (value, exact, *runs))
    least = NATURAL_STEPS * FLOAT32_STEP + floor.row
    alone = Truth(exact, runs[0].to(got.dtype), least, tuple(runs[1:]), judged=counts)
    failed = next((one for one in Levels.of(value.to(got.dtype), alone).errors_alone() if is_far(one)), None)
    if failed is None or failed.position is None:
        return None
    row, column = failed.position
    place = column * truth.own_scales + row if truth.of_columns else row * exact.shape[1] + column
    position = position_of(place, tuple(got.shape))
    return replace(failed, position=position, got=float(got[position]), expected=float(truth.exact[position]))


def _peer_allowances(
    comparisons: Sequence[ValueComparison], peers: Sequence[torch.Tensor], truth: Truth, dtype: torch.dtype
) -> list[PeerAllowance]:
    """What runs of the original add to the tolerance, by level; not computed where the value passes without it."""
    known: list[torch.Tensor] = []
    allowances = [PeerAllowance()] * len(comparisons)
    for peer in peers:
        numbers = torch.nan_to_num(peer)
        if not peer.dtype.is_floating_point or any(torch.equal(numbers, other) for other in known):
            continue
        known.append(numbers)
        levels = Levels.of(peer, truth, dtype)
        for place, (own, strain, error) in enumerate(zip(comparisons, levels.strains(), levels.worst(), strict=True)):
            if not own.passed:
                before = allowances[place]
                allowances[place] = PeerAllowance(max(before.factor, PEER_RATIO * strain()), max(before.error, error))
    # Where its runs differ among themselves, the largest error that was seen is a matter of luck as well.
    scatter = PEER_RATIO if len(known) > 1 else 1.0
    return [replace(more, error=scatter * more.error) for more in allowances]


def _wrong_zeros(
    got: torch.Tensor, truth: Truth, peers: Sequence[torch.Tensor], scale: float
) -> ValueComparison | None:
    """Find numbers where nothing is, and zeros where there is one: in the truth, whatever is rounded how, and in all that stands.

    Zeros are what a mask or a rectifier leaves, and what reads them may count them. Where it is not known what rounding
    does, nothing is said; and where it makes some zeros numbers, or numbers zero, a kernel may do so with others.
    """
    if not truth.is_noisy or truth.judged is not None:
        return None
    runs = [truth.own, *truth.shaken, *peers, *([] if truth.rounded is None else [truth.rounded])]
    value, exact, *theirs = (as_rows(values) for values in (got, truth.exact, *runs))
    least = max(NOTHING * scale, torch.finfo(got.dtype).smallest_normal, 2 * FLOAT32_STEP * truth.terms)
    wrong, unsure, first = 0, 0, None
    for rows, columns in pieces(*value.shape):
        zeros = [(run[rows, columns] == 0) for run in (exact, *theirs)]
        always, sometimes = torch.stack(zeros).all(0), torch.stack(zeros).any(0)
        given, truly = value[rows, columns].abs(), exact[rows, columns].abs()
        emptied = ~sometimes & (given == 0) & (truly > least)
        for run in theirs if bool(emptied.any()) else ():
            emptied &= (run[rows, columns] - exact[rows, columns]).abs() < truly / 2
        not_zero = (always & (given > NOTHING * scale)) | emptied
        wrong, unsure = wrong + int(not_zero.sum()), unsure + int((sometimes & ~always).sum())
        if first is None and bool(not_zero.any()):
            row, column = divmod(int(not_zero.flatten().to(torch.uint8).argmax()), not_zero.shape[1])
            first = rows.start + row, columns.start + column
    if first is None or wrong <= FEW_ZEROS + ERROR_RATIO * unsure:
        return None
    number, expected = float(value[first]), float(exact[first])
    error = abs(number - expected) / scale if scale else math.inf
    position = position_of(first[0] * value.shape[1] + first[1], tuple(got.shape))
    return ValueComparison(False, "zero" if number else "emptied", error, NOTHING, position, number, expected)


def _lost_by(peers: Sequence[torch.Tensor], truth: Truth) -> torch.Tensor:
    """Say where what stands gives no number though there is one."""
    lost = torch.zeros(truth.exact.shape, dtype=torch.bool)
    for peer in peers:
        lost |= ~torch.isfinite(peer) & torch.isfinite(truth.exact)
    return lost


def _compare_exact(got: torch.Tensor, truth: Truth, peers: Sequence[torch.Tensor]) -> ValueComparison:
    right = (got == truth.exact) | (got == truth.own)
    if truth.judged is not None:
        right |= ~truth.judged
    for peer in peers:
        right |= got == peer
    right |= _other_side_of_a_half(got, truth, right)
    wrong = ~right.flatten()
    if not bool(wrong.any()):
        return ValueComparison(True, "exact", 0.0, 0.0)
    place = int(wrong.to(torch.uint8).argmax())
    share = float(wrong.double().mean())
    got_value, expected = float(got.flatten()[place]), float(truth.exact.flatten()[place])
    return ValueComparison(False, "exact", share, 0.0, position_of(place, tuple(got.shape)), got_value, expected)


def _other_side_of_a_half(got: torch.Tensor, truth: Truth, right: torch.Tensor) -> torch.Tensor:
    """Where a number of 8 bits is the next one, as of a quantisation whose quotient lies at a half: a GPU's division of float32 is
    two roundings away.

    Shapes: all the same. At a half is what the reference's runs with noise say, of which some elements are the same in all runs.
    """
    none = torch.zeros_like(right)
    if got.dtype not in EIGHT_BITS or not truth.shaken or not got.numel():
        return none
    exact = truth.exact.to(torch.int16)
    if int(exact.max() - exact.min()) < 2:
        return none  # a mask, of which the next one is the opposite
    moved = torch.stack([run != truth.exact for run in truth.shaken])
    beside = ((got.to(torch.int16) - exact).abs() == 1) & ~right
    at_half = beside & torch.stack([got == run for run in truth.shaken]).any(0)
    missed = beside & ~at_half
    is_likely = int(missed.sum()) * 2 ** len(truth.shaken) <= SEVERAL_MISSED * int(moved.any(0).sum())
    return beside if is_likely else at_half


def _largest(dtype: torch.dtype) -> float:
    return torch.finfo(dtype).max if dtype.is_floating_point else math.inf


def _nonfinite(got: torch.Tensor, truth: Truth, peers: Sequence[torch.Tensor]) -> ValueComparison | None:
    """Find an element that is not finite where it should be, or the other way round.

    What is not finite must be seen, since loss scaling and anomaly detection look for it; of which kind it is, torch's own fused
    kernels do not agree. An infinity of the other sign is wrong all the same.
    """
    rounded = truth.exact.to(got.dtype)
    same = torch.isfinite(got) & torch.isfinite(rounded)
    # Where the dtype overflows, what the reference gives in it is right as well.
    for accepted in (rounded, truth.own.to(got.dtype), *(peer.to(got.dtype) for peer in peers)):
        same |= ~torch.isfinite(got) & ~torch.isfinite(accepted) & ~(torch.isinf(got) & (got == -accepted))
    # A number beyond the dtype's largest one is none, whatever a kernel cuts it to.
    holds = truth.exact.abs() <= NEARLY * _largest(got.dtype)
    same |= torch.isfinite(got) & ~torch.isfinite(truth.own) & holds
    if truth.judged is not None:
        same |= ~truth.judged | _of_any_kind(got, truth)
        if truth.loud is not None:
            same |= truth.loud & torch.isnan(got) & _is_of_a_slice(got, truth)
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
    return ValueComparison(False, level, math.inf, None, position_of(place, tuple(got.shape)), value, expected)


def _is_of_a_slice(got: torch.Tensor, truth: Truth) -> torch.Tensor:
    """Where NaN may come of a slice that holds +inf: not at its infinite elements where all others are numbers."""
    if truth.infinite is None:
        return torch.ones(got.shape, dtype=torch.bool)
    others = torch.isfinite(truth.exact) & ~truth.infinite
    lost = others & torch.isnan(got)
    found = ~truth.infinite
    for axis in truth.slices:
        found |= lost.any(axis, keepdim=True) | ~others.any(axis, keepdim=True)
    return found


def _is_of_another_kind(got: torch.Tensor, truth: Truth) -> bool:
    """Say whether a value is NaN where the truth is infinite or a number that a row with +inf loses, or infinite for NaN."""
    rounded = truth.exact.to(got.dtype)
    other = (torch.isnan(got) & torch.isinf(rounded)) | (torch.isinf(got) & torch.isnan(rounded))
    if truth.loud is not None:
        other |= truth.loud & torch.isnan(got) & ~torch.isnan(rounded)
    return bool(other.any())


def _of_any_kind(got: torch.Tensor, truth: Truth) -> torch.Tensor:
    """Say where no kind of number that is not finite is wrong, since the reference gives another one in each dtype."""
    exact, own = truth.exact, truth.own
    neither = ~torch.isfinite(exact) & ~torch.isfinite(own)
    differ = (torch.isnan(exact) != torch.isnan(own)) | (torch.isinf(exact) & torch.isinf(own) & (exact != own))
    return ~torch.isfinite(got) & neither & differ
