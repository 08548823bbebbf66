"""Finds, for a case of large or odd values, how far they may go before the reference itself can no longer be judged by,
and which elements count there.
"""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import torch

from gpu_runner.contracts.problem import Problem
from gpu_runner.numerics.compare import FLOAT32_STEP, FLOORS, NEARLY, Truth
from gpu_runner.verify.cases import FAR_OF_MASKS, Case, Content, Special, holds_extremes, is_activation
from gpu_runner.verify.extremes import LOWEST, MOST_LOGIT, REACHES
from gpu_runner.verify.inputs import DTYPES
from gpu_runner.verify.proof import Expected, Proof

LOST = 0.1  # of its scale: a reference that errs by more has lost the element
MOSTLY_LOST = 0.5  # of a row's elements, each against its own size
# A row that loses so many times what nearly all rows lose lies where a rounding decides which way it goes.
AT_A_STEP = 100.0
NEARLY_ALL, LEAST_ROWS = 0.95, 20
MOSTLY_HELD = 0.75  # of the elements of every output and gradient, or the large values are taken back
HALF_NUMBERS = 0.5  # of them, in float16
ROOM = 2.0**-6  # of the dtype's largest number: beyond it another order of the same operations may overflow on the way
SOME_HELD = 0.125  # of the elements of some output, or fewer inputs hold what is not finite


_FINITENESS = re.compile(r"\b(?:isnan|isfinite|is(?:pos|neg)?inf|nan_to_num)\b")


def with_held(proof: Proof, problem: Problem) -> Proof:
    """Mark the elements of every output and gradient that count."""
    mark = _large if proof.case.content is Content.large else functools.partial(_odd, problem)
    outputs = tuple(
        _with_infinite(_marked(item, mark(item, proof, ""), _loud(item, proof)), proof) for item in proof.outputs
    )
    gradients = {
        name: None if item is None else _marked(item, mark(item, proof, name), _loud(item, proof))
        for name, item in proof.gradients.items()
    }
    proof = replace(proof, outputs=outputs, gradients=gradients)
    return _by_scale(proof) if proof.case.special is Special.magnitudes else proof


def _by_scale(proof: Proof) -> Proof:
    """Have each row of an answer held against its own scale where rows of an input differ in size, or each column where the
    elements of a vector do."""
    forms = [tuple(proof.inputs[name].shape) for name in proof.filled]
    rows = {form[:-1] for form in forms if len(form) > 1}
    columns = {form for form in forms if len(form) == 1}

    def marked(item: Expected) -> Expected:
        shape = tuple(item.shape)
        by_row = next((form for form in rows if form == shape[: len(form)]), None)
        if by_row is None and shape[-1:] not in columns:
            return item
        scales = math.prod(shape[-1:] if by_row is None else by_row)
        return replace(item, truth=replace(item.truth, own_scales=scales, of_columns=by_row is None))

    gradients = {name: None if item is None else marked(item) for name, item in proof.gradients.items()}
    return replace(proof, outputs=tuple(map(marked, proof.outputs)), gradients=gradients)


def with_room(proof: Proof) -> Proof:
    """Leave out, beside the smallest number, what is so large that the same operations in another order may overflow on the way.

    Of what cancels the terms are large: inputs a rounding away move it by a rounding of these. The smallest number itself stays.
    """
    if proof.case.special not in FAR_OF_MASKS:
        return proof

    def roomy(item: Expected) -> Expected:
        truth, dtype = item.truth, DTYPES[item.dtype]
        if not dtype.is_floating_point:
            return item
        terms = [truth.exact, *((run - truth.exact) / FLOAT32_STEP for run in truth.shaken)]
        judged = torch.stack([term.abs() <= ROOM * torch.finfo(dtype).max for term in terms]).all(0)
        judged |= truth.exact.to(dtype).abs() == -LOWEST
        return item if bool(judged.all()) else replace(item, truth=replace(truth, judged=judged))

    gradients = {name: None if item is None else roomy(item) for name, item in proof.gradients.items()}
    return replace(proof, outputs=tuple(map(roomy, proof.outputs)), gradients=gradients)


def is_judgeable(proof: Proof) -> bool:
    """Say whether enough counts: of large values nearly all of them, of others some that are finite."""
    items = [item for item in proof.expected().values() if item is not None]
    if proof.case.content is Content.large:
        return all(_is_held(item.truth) for item in items)
    several = [item for item in proof.outputs if item.truth.exact.numel() > 1]
    return not several or any(float(_numbers(item.truth).double().mean()) >= SOME_HELD for item in several)


def _marked(item: Expected, judged: torch.Tensor, loud: torch.Tensor | None) -> Expected:
    return replace(item, truth=replace(item.truth, judged=judged, loud=loud))


def _is_held(truth: Truth) -> bool:
    """Whether most elements count, and of these most are numbers; in float16, where products overflow in use, half of all are."""
    assert truth.judged is not None
    if not truth.judged.numel() or not truth.exact.is_floating_point():
        return True
    numbers = float((truth.judged & torch.isfinite(truth.own)).double().mean())
    least = HALF_NUMBERS if truth.own.dtype == torch.float16 else MOSTLY_HELD
    return numbers >= least and float(truth.judged.double().mean()) >= MOSTLY_HELD


def _numbers(truth: Truth) -> torch.Tensor:
    assert truth.judged is not None
    return truth.judged & torch.isfinite(truth.exact)


def _large(item: Expected, proof: Proof, name: str) -> torch.Tensor:
    """Where the reference keeps the truth: in its own dtype, and where the inputs are a few roundings of float32 away.

    What lies beyond the dtype's largest number in all of them counts too: it must overflow, not be cut.
    """
    truth, dtype = item.truth, DTYPES[item.dtype]
    if not dtype.is_floating_point:
        return torch.ones(truth.exact.shape, dtype=torch.bool)
    most = NEARLY * torch.finfo(dtype).max
    finite = torch.isfinite(truth.own) & torch.isfinite(truth.exact.to(dtype))
    beyond = torch.isinf(truth.own) & (truth.own.sign() == truth.exact.sign()) & torch.isfinite(truth.exact)
    for run in (truth.exact, *truth.shaken):
        finite &= torch.isfinite(run)
        beyond &= (run.abs() > most) & (run.sign() == truth.exact.sign())
    size = torch.nan_to_num(truth.exact.double().abs(), nan=0.0, posinf=0.0, neginf=0.0)
    scale = size if not size.dim() else torch.maximum(size, size.square().mean(-1, keepdim=True).sqrt())
    smallest, lost = 4 * FLOORS[dtype].smallest + truth.natural, truth.own_error()
    judged = finite & (lost <= LOST * scale + smallest)
    # Of a row that is lost but for a few elements, such as the gradient at the label, nothing is known.
    if size.dim():
        judged &= (lost > LOST * size + smallest).double().mean(-1, keepdim=True) <= MOSTLY_LOST
        judged &= ~_at_a_step(lost / (scale + smallest), torch.finfo(dtype).eps)[..., None]
    judged |= beyond
    return judged & ~_overflown(item, proof) if name else judged


def _overflown(item: Expected, proof: Proof) -> torch.Tensor:
    """The elements of a gradient in rows whose one result is beyond the dtype: a product may be divided by each of its factors."""
    lost = torch.zeros(item.shape, dtype=torch.bool)
    for axis in range(-len(item.shape), 0):
        kept = _without(axis, item.shape, (1,))
        for output in proof.outputs:
            if tuple(output.shape) in (kept, _without(axis, item.shape)):
                lost |= torch.isinf(output.truth.own).reshape(kept)
    return lost


def _at_a_step(lost: torch.Tensor, eps: float) -> torch.Tensor:
    """The few rows of relative errors in which a rounding decides what comes out, as of two scores of 1e8 that are nearly equal.

    What another order of operations makes of such a row is as likely the other way as the reference's few runs of it are.
    """
    rows = lost.amax(-1)
    if rows.numel() < LEAST_ROWS:
        return torch.zeros(rows.shape, dtype=torch.bool)
    usual = rows.flatten().kthvalue(math.ceil(NEARLY_ALL * rows.numel())).values
    return rows > AT_A_STEP * usual.clamp(min=eps)


def _odd(problem: Problem, item: Expected, proof: Proof, name: str) -> torch.Tensor:
    """Where the reference is finite, or not, in both dtypes alike.

    The gradient of an element that is itself not finite says nothing: what the slope of a bend is there is a convention, and
    the output beside it is looked at. A comparison with NaN or an infinity has one outcome, and so has whatever a reference
    makes that asks for them.
    """
    truth = item.truth
    if not truth.exact.is_floating_point():
        has_one = item.dtype == "bool" or _FINITENESS.search(problem.source) is not None
        return torch.ones(item.shape, dtype=torch.bool) if has_one else ~_of_odd_rows(item, proof)
    judged = torch.isfinite(truth.own) == torch.isfinite(truth.exact.to(DTYPES[item.dtype]))
    if name:
        for tensor in proof.inputs.values():
            if tensor.is_floating_point() and tensor.shape == judged.shape:
                judged &= torch.isfinite(tensor)
    return judged


def _of_odd_rows(item: Expected, proof: Proof) -> torch.Tensor:
    """The whole numbers that come of rows with NaN, which none stands for; all where rows do not match.

    A float that is cut to one of few bits, as in a quantisation, has none where it is an infinity either; an index or a count has.
    """
    marked = torch.zeros(item.shape, dtype=torch.bool)
    is_wide = item.dtype in ("int32", "int64")
    for name in proof.filled:
        tensor = proof.inputs[name]
        rows = (torch.isnan(tensor) if is_wide else ~torch.isfinite(tensor)).any(-1)
        if tuple(rows.shape) == item.shape:
            marked |= rows
        elif tuple(rows.shape) == item.shape[:-1]:
            marked |= rows[..., None]
        else:
            marked |= rows.any()
    return marked


def _loud(item: Expected, proof: Proof) -> torch.Tensor | None:
    """The elements in rows of an input that hold +inf, or -inf of which the reference makes NaN; None where there are none.

    Formulas that subtract a row's maximum give NaN beside +inf, torch's own softmax too, and those that divide by the largest
    beside either. That hides nothing. Other rows with -inf are masked, and their other elements count.
    """
    if proof.case.content is not Content.odd:
        return None
    if proof.case.odd_upstream:
        return None if item.label.startswith("output") else _of_odd_upstream(item, proof)
    loud = torch.zeros(item.shape, dtype=torch.bool)
    lost = torch.isnan(item.truth.exact) & torch.isnan(item.truth.own)
    for name in proof.filled:
        tensor = proof.inputs[name]
        for axis in _reduced(tensor.shape, proof, item):
            rows, masked = torch.isposinf(tensor).any(axis), torch.isneginf(tensor).any(axis)
            if tuple(rows.shape) == item.shape:
                loud |= rows
            elif tensor.dim() == len(item.shape) and tuple(rows.shape) == _without(axis, item.shape):
                loud |= (rows | (masked & lost.any(axis))).unsqueeze(axis)
    return loud


def _with_infinite(item: Expected, proof: Proof) -> Expected:
    """An output of the form of inputs with the elements at which one of these is +inf, and the axes along which slices lie."""
    alike = [tensor for tensor in (proof.inputs[name] for name in proof.filled) if tuple(tensor.shape) == item.shape]
    if item.truth.loud is None or not alike or not item.shape:
        return item
    infinite = torch.stack([torch.isposinf(tensor) for tensor in alike]).any(0)
    slices = tuple(_reduced(item.shape, proof, item))
    return replace(item, truth=replace(item.truth, infinite=infinite, slices=slices))


def _reduced(shape: Sequence[int], proof: Proof, item: Expected) -> list[int]:
    """The axes along which rows lie: the last one, each that an output is without, or in which its size is one, and each along
    which NaN of an input of the answer's form spreads."""
    outputs = {tuple(output.shape) for output in proof.outputs}
    return [
        axis
        for axis in range(-len(shape), 0)
        if axis == -1
        or outputs & {_without(axis, shape), _without(axis, shape, (1,))}
        or (tuple(shape) == item.shape and _spreads(item, proof, axis))
    ]


def _spreads(item: Expected, proof: Proof, axis: int) -> bool:
    """Whether NaN in some elements of a slice along an axis leaves no number in all of it, as in a norm of columns."""
    lost = ~torch.isfinite(item.truth.exact)
    alike = [proof.inputs[name] for name in proof.filled if tuple(proof.inputs[name].shape) == item.shape]
    odd = torch.stack([torch.isnan(tensor) for tensor in alike]).any(0) if alike else torch.zeros_like(lost)
    slices = odd.any(axis) & ~odd.all(axis)
    return bool(slices.any()) and bool((lost.all(axis) | ~slices).all())


def _without(axis: int, shape: Sequence[int], beside: tuple[int, ...] = ()) -> tuple[int, ...]:
    """A shape with ``beside`` in the place of an axis."""
    at = len(shape) + axis
    return (*shape[:at], *beside, *shape[at + 1 :])


def _of_odd_upstream(item: Expected, proof: Proof) -> torch.Tensor:
    """The elements of a gradient to which NaN or infinities of an upstream gradient may lead, by rows where forms are one."""
    loud = torch.zeros(item.shape, dtype=torch.bool)
    for laid in proof.upstream:
        odd = None if laid is None else ~torch.isfinite(laid.view())
        if odd is None:
            continue
        rows = odd.any(-1, keepdim=True) if odd.dim() else odd
        is_by_row = rows.dim() == loud.dim() and rows.shape[:-1] == loud.shape[:-1] and loud.dim() > 1
        loud |= rows if is_by_row else odd.any()
    return loud


MOST_ALONE = 2  # inputs that are tried by themselves

Prove = Callable[[Case], Proof | None]


def farthest(case: Case, problem: Problem, prove: Prove) -> Proof | None:
    """A case with the farthest values that can be judged, its truth and which elements count; None where there are none.

    ``prove`` gives the truth of a case, None where the reference does not run.
    """
    first = None
    for attempt in _attempts(case, problem):
        sizes = attempt.sizes if first is None else first.case.sizes  # those at which the reference runs
        proof = prove(replace(attempt, sizes=sizes))
        if proof is None:
            return first if case.content is Content.odd else None
        proof = with_held(proof, problem)
        if is_judgeable(proof):
            return proof
        first = first or proof
    # Where all that is left is NaN, a candidate must not hide it.
    return first if case.content is Content.odd else None


def _attempts(case: Case, problem: Problem) -> Iterator[Case]:
    if case.content is Content.large:
        values = any(map(is_activation, problem.inputs))  # or there are distributions alone
        for reach in REACHES[case.dtype] if values or case.special is Special.magnitudes else (MOST_LOGIT,):
            yield replace(case, reach=reach)
        return
    yield case
    if case.odd_element:
        return
    able = [spec.name for spec in problem.inputs if holds_extremes(spec)]
    for name in able[:MOST_ALONE] if len(able) > 1 else []:
        yield replace(case, among=(name,))
