"""Tries a candidate at the size of the problem's workloads where every case is small: in Triton's interpreter, which cannot run a
launch of thousands of programs.

Most functions compute each of some dimensions by itself: rows, batches, heads. Of such a *batch dimension* a few places are as
good as all of them: their truth is that of a small case. The candidate is called at the full sizes, with memory that nobody has
touched but at these places; each launch runs its first and last programs alone (``program.sampling``), and what they wrote at these
places is compared. So everything that host code and kernels compute of a size, a stride or a storage offset is what it is for a
user.

Which dimensions these are the reference says: among zeros it gives at such places what it gives of these alone, or a power of the
size times it, as a mean does.
"""

from __future__ import annotations

import itertools
import math
import random
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import torch

from gpu_runner.contracts.problem import Problem, Workload
from gpu_runner.contracts.verify import Check, Evidence, Status
from gpu_runner.errors import ChildError, ChildFailed
from gpu_runner.messages import Axes, NumbersBeyond, Ranges, SampleCall, SampledReply, SentTensor, SpreadTensor
from gpu_runner.numerics.compare import Truth, compare
from gpu_runner.numerics.measures import own_error
from gpu_runner.numerics.tolerances import ERROR_RATIO, HALF_STEPS, ValueComparison
from gpu_runner.reply import ChildReply
from gpu_runner.verify.cases import Case, Content, Indices, MemoryLayout, columns_of
from gpu_runner.verify.draws import Draws
from gpu_runner.verify.finding import VerdictFinding
from gpu_runner.verify.honesty import computed_by_torch
from gpu_runner.verify.laying import lay
from gpu_runner.verify.proof import ChildCall, Expected, Proof, Scale, make_call
from gpu_runner.verify.telling import how
from gpu_runner.verify.truth import BadProblem, Oracle, is_sound

MOST_FEW = 2**19  # the product of all sizes of which the truth is asked
# In two of the calls, so that a product has all its dimensions.
MOST_DEEP, LEAST_PLACES = 2**23, 2
MOST_MADE, MOST_MADE_FIRST = 2**26, 2**28  # bytes that the reference's operators make, and in the first call
MOST_ELEMENTS = 2**27  # of one input at scale: memory that nobody touches, of which a child may still name so much only
PLACES = (7, 5, 3, 2)  # of a batch dimension; of several of them other numbers each, by which they are told apart
# Of the other dimensions, where it is asked which are batch dimensions: odd ones, or as a reference may want them.
SMALL_SIZES = ((11, 13, 17, 19, 23, 29), (16, 32, 48, 64, 80, 96))
BEYOND, WIDER = (1.2, 2.5), (1.05, 1.5)  # times the sizes of a workload: of batch dimensions and of columns
# Rows of one call, more than sixteen bits count to. Multiples of 1024, as most workloads have: the last program of a persistent
# kernel then takes the last row in both.
MANY_ROWS = range(2**16 + 2**10, 2**17, 2**10)
FAR_OFFSETS = (24.0, 27.0)  # powers of two between which storage offsets lie, as of a view into a buffer of all weights
# Operations on blocks of a launch of which all programs run where the few leave places of an answer: in the first call, and in one
# with at most so many columns, so that a program takes few.
MOST_AGAIN, NARROW = 200_000, 64
# Columns of that one where indices name rows of a table, and the product.
NARROW_BESIDE_TABLES, MOST_OF_TABLES = 16, 2**21
MIDDLE, LEAST_FOR_MIDDLE, STEP_OF_MIDDLE = (0.3, 0.7), 512, 64  # of many places; one beyond a multiple, as tiles begin
MOST_GAP = 3.0  # times its length, after each row
EXACT = 1e-9  # of the scale: as far apart may two answers of the reference in float64 be
ROUGH = {torch.float16: 0.05, torch.bfloat16: 0.1, torch.float32: 0.005, torch.float64: 0.005}  # of the scale
LEAST_FOR_SHARE = 64  # elements
# The share of elements that may be other numbers of half precision than the truth rounded once, beside the reference's.
SHARE_BEYOND = 0.2
SHARE_OF_WHOLE = 0.03  # of whole numbers that may be others
FAR = 3.0  # times what is allowed: less may be chance, and what cases are for
NOT_FINITE = ("nonfinite", "unwritten")  # levels of comparisons
POWERS = (0.0, -1.0, 1.0, -2.0)  # of the size of a batch dimension by which an answer goes

LIKE_CASES = 6  # calls that have what cases of the verdict have, but for some layouts
# What cases may differ in.
_NAMES = (
    "layout", "upstream", "relation", "gradients", "indices", "special", "wild", "narrow_grad", "compiling", "weights", "same",
    "mixed", "packed", "given_back", "echoes",
)  # fmt: skip
_MANY_PROCESSORS, MAGNITUDES = 64, 3  # powers of ten, of scalars that are taken for alike
SQUARE = 2  # the call with as many rows as columns, the first that is like a case
_LAYOUTS = (MemoryLayout.apart, MemoryLayout.shifted, MemoryLayout.permuted)  # that memory nobody touches may have

_MOST_IN_32_BITS = 2**31

ScaledReply = ChildReply[SampledReply]


@dataclass(frozen=True)
class Comparable:
    """An output or gradient that is known by places: its axes, and the power by which it goes with each batch dimension."""

    axes: Axes
    powers: Mapping[str, float]


@dataclass(frozen=True)
class AtScale:
    """A call at full ``sizes``: ``proof`` is that of the ``places`` of its batch dimensions alone."""

    proof: Proof
    sizes: Mapping[str, int]
    places: Mapping[str, tuple[int, ...]]
    inputs: Mapping[str, Axes]
    answers: Mapping[str, Comparable]
    upstream: tuple[Axes, ...]
    gap: float = 0.0  # of the length of a row, after each row of an activation
    offset: int = 0  # of its storage
    permuted: bool = False  # its first dimension is that whose elements lie side by side
    may_raise: bool = False
    many_rows: str = ""  # the dimension with more than 2^16 places, of which an axis of a grid may hold no more
    workload: Mapping[str, int] = field(default_factory=dict)  # what the sizes are of, where they are no larger
    middle: tuple[int, int] | None = None  # one of the places, beside the first and last, and of how many it is
    again: bool = False  # where the few programs leave places of an answer, all of them run
    operations: int = 0  # on blocks in each launch, where all its programs run and answers are compared roughly
    closely: bool = False  # or as in a case, for what thousands of rows lose of numbers that cancel

    @property
    def is_whole(self) -> bool:
        """Whether all programs run."""
        return self.operations > 0

    @property
    def compares_errors(self) -> bool:
        """Whether errors are held against those of the reference, so that one which is little beyond may be chance."""
        return self.closely or not self.is_whole

    def label(self) -> str:
        """The call in one line."""
        case = replace(self.proof.case, sizes=tuple(self.sizes.items()))
        return f"{case.label()}, {'a usual size' if self.is_whole else 'a few programs of each launch'}"

    def call(self) -> ChildCall[SampleCall]:
        """The call that asks for it."""
        sent = make_call(self.proof)
        inputs = {} if self.is_whole else {entry.name: self._spread(entry) for entry in sent.call.inputs}
        pairs = zip(sent.call.upstream, self.upstream, strict=True)
        asked = SampleCall(
            sent.call,
            inputs,
            tuple(None if entry is None or self.is_whole else SpreadTensor(axes) for entry, axes in pairs),
            sizes={dim: self.sizes[dim] for dim in self.places},
            places=dict(self.places),
            answers={label: known.axes for label, known in self.answers.items()},
            operations=self.operations,
            again=MOST_AGAIN if self.again else 0,
            middle=self.middle,
        )
        return ChildCall(asked, sent.tensors)

    def _spread(self, entry: SentTensor) -> SpreadTensor:
        axes = self.inputs[entry.name]
        is_free = entry.name not in self.proof.form.weights and len(entry.shape) > 1
        return SpreadTensor(axes, self.gap, self.offset, self.permuted) if is_free else SpreadTensor(axes)

    def truth(self, label: str) -> tuple[Expected, float]:
        """What an answer is at these places, and by how much more than there it is of all."""
        item = self.proof.expected()[label]
        assert item is not None, "what is compared is there"
        factor = 1.0
        for dim, power in self.answers[label].powers.items():
            factor *= (self.sizes[dim] / len(self.places[dim])) ** power
        if not item.truth.own.is_floating_point():
            return item, factor
        # At the full size it is that much smaller, and may be below what its dtype holds.
        info = torch.finfo(item.truth.own.dtype)
        natural = item.truth.natural + info.smallest_normal * info.eps / factor
        return replace(item, truth=replace(item.truth, natural=natural)), factor


def at_scale(
    oracle: Oracle, workloads: Sequence[Workload], dtype: str, draws: Draws, cases: Sequence[Case] = ()
) -> list[AtScale]:
    """The largest workload as it is, and one beyond it with gaps and storage offsets of its scale; none where nothing is known by
    places. Some more are like ``cases``, those of the verdict."""
    problem = oracle.problem
    if problem.form == "kernelbench" or not workloads:
        return []
    workload = max(workloads, key=lambda one: math.prod(size for _, size in one.sizes))
    try:
        batch = _batch_dimensions(oracle, workload, draws)
        calls = [] if batch is None else list(_calls(oracle, workload, batch, dtype, draws, cases))
    except (ChildFailed, BadProblem, ValueError, RuntimeError) as error:
        oracle.recover(error)  # the reference does not run at such sizes
        return []
    return calls


@dataclass(frozen=True)
class ComparedAtScale:
    """What holding a reply against the truth gives, and the first answer, if any, that no place tells though one should."""

    checks: tuple[Check, ...]
    findings: tuple[VerdictFinding, ...]
    untold: str | None


def examined_at_scale(
    call: AtScale,
    reply: ScaledReply,
    beyond: Callable[[Ranges], NumbersBeyond] = lambda _: (),
    compared: ComparedAtScale | None = None,
) -> tuple[tuple[Check, ...], tuple[VerdictFinding, ...]]:
    """Hold what a candidate gave at these places against the truth, where that was not ``compared`` before.

    Where no place tells an answer, a number of the host that no case had is `unproved`; ``beyond`` picks these among its numbers.
    """
    compared = compared or compared_at_scale(call, reply)
    findings = list(compared.findings)
    if compared.untold is not None:
        findings += [_number_of(call, compared.untold, *row) for row in beyond(reply.message.ranges)[:1]]
    return compared.checks, (*findings, *itertools.islice(_beyond_32_bits(call, reply), 1))


def compared_at_scale(call: AtScale, reply: ScaledReply) -> ComparedAtScale:
    """Hold what a candidate gave at these places against the truth: wrong is what errs by far more than it may."""
    checks, findings = [], []
    for entry in reply.message.values:
        label = entry.label
        if label not in call.answers:
            continue
        item, factor = call.truth(label)
        if entry.tensor is None:
            findings.append(_finding(call, label, f"It has the shape {list(entry.shape)}.", None))
            continue
        got, known = (reply.tensors[entry.tensor + place].to_torch() for place in (0, 1))
        if (
            tuple(got.shape) != item.shape
            or known.shape != got.shape
            or (not call.is_whole and not got.is_floating_point())
        ):
            continue
        own = item.truth.own
        got = torch.where(known, (got.double() / factor).to(own.dtype), own)
        is_odd = call.proof.case.content is Content.odd
        if call.is_whole and not (is_odd or call.closely):
            comparison = roughly_compared(got, item.truth)
        else:
            comparison = compare(got, item.truth)
        if is_odd:  # cases judge its numbers: here it counts alone that none stands where the truth has none
            is_wrong = comparison.level in NOT_FINITE and not comparison.passed
        else:
            is_wrong = not comparison.passed and (not call.compares_errors or not _is_near(comparison))
        if is_wrong:
            findings.append(_finding(call, label, how(comparison), comparison))
        elif bool(known.any()):
            checks.append(Check("at_scale", call.label(), True, label, comparison.error, comparison.allowed))
    judged = {check.output for check in checks} | {finding.evidence.output for finding in findings}
    left = [label for label, item in call.proof.expected().items() if item is not None and label not in judged]
    untold = left[0] if left and not findings and not call.may_raise else None
    return ComparedAtScale(tuple(checks), tuple(findings), untold)


def _beyond_32_bits(call: AtScale, reply: ScaledReply) -> Iterator[VerdictFinding]:
    """Offsets in 32 bits that lead through an input or answer which has more elements in the workload than these count."""
    for name, furthest, line, count in reply.message.offsets:
        axes = call.inputs.get(name, call.answers[name].axes if name in call.answers else ())
        whole = count * math.prod(call.workload.get(dim or "", 1) / call.sizes.get(dim or "", 1) for dim in axes)
        if whole > _MOST_IN_32_BITS and 2 * furthest >= count and call.workload:
            message = (
                f"A kernel computes offsets in {name} in 32 bits, and in a workload it has {whole:.3g} elements: beyond 2^31 they "
                "are below zero. Compute them in `tl.int64`."
            )
            evidence = Evidence("at_scale", message, call.label(), name, line=line)
            yield VerdictFinding(Status.unproved, evidence, "at scale")


def honest_at_scale(call: AtScale, reply: ScaledReply, scale: Scale | None) -> tuple[VerdictFinding, ...]:
    """Accuse a candidate by what torch computed at the full sizes, where it may take another way than in any case.

    Beside an original, of which it is not known what it does there, ``scale`` is None: a kernel must run all the same.
    """
    said: list[tuple[str, str, int | None]] = []
    if not reply.message.launched:
        said.append(("The candidate launched no kernel of its own.", "no kernel ran", None))
    elif scale is not None:
        said += _computed_by_torch(call, reply, scale)
    return tuple(
        VerdictFinding(Status.cheating, Evidence("honest", message, call.label(), line=line), rule)
        for message, rule, line in said[:1]
    )


def written_at_the_end(call: AtScale, reply: ScaledReply) -> dict[str, bool]:
    """Of answers: whether something is known at the last place of each batch dimension, as the last programs wrote it."""
    written = {}
    for entry in reply.message.values if not call.is_whole else ():
        label = entry.label
        if label in call.answers and entry.tensor is not None:
            known = reply.tensors[entry.tensor + 1].to_torch()
            ends = tuple(slice(None) if dim is None else -1 for dim in call.answers[label].axes)
            written[label] = known.dim() == len(ends) and bool(known[ends].any() or (call.many_rows and entry.unsure))
    return written


def left_at_the_end(call: AtScale, reply: ScaledReply, written: Iterable[str]) -> tuple[VerdictFinding, ...]:
    """What many rows leave unwritten: the last places of answers which the last programs had ``written`` in every other call."""
    ends = written_at_the_end(call, reply) if call.many_rows else {}
    lost = sorted(label for label in written if call.many_rows and not ends.get(label, False))
    return tuple(
        _finding(
            call,
            label,
            f"With {call.sizes[call.many_rows]:,} of {call.many_rows} the last programs write elsewhere than at the last places, "
            "where they write with fewer.",
            None,
        )
        for label in lost
        if label in call.answers
    )


def _computed_by_torch(call: AtScale, reply: ScaledReply, scale: Scale) -> Iterator[tuple[str, str, int | None]]:
    inputs = {
        name: torch.empty(
            [call.sizes.get(dim or "", size) for size, dim in zip(value.shape, axes, strict=True)], device="meta"
        )
        for (name, value), axes in ((item, call.inputs[item[0]]) for item in call.proof.inputs.items())
    }
    sizes = tuple((dim, call.sizes[dim]) for dim, _ in call.proof.case.sizes)
    proof = replace(call.proof, inputs=inputs, scale=scale, case=replace(call.proof.case, sizes=sizes))
    return computed_by_torch(reply.message.work, proof, (), reply.message.processors)


def roughly_compared(got: torch.Tensor, truth: Truth) -> ValueComparison:
    """Whether each value is the truth but for a part (``ROUGH``) of itself and of the scale, beside what rounding explains there.

    Where that is no number, any is. A part of whole numbers may be others.
    """
    exact, own = truth.exact, truth.own
    if not exact.numel():
        return ValueComparison(True, "tensor")
    if not got.dtype.is_floating_point:
        share = float(((got != exact) & (got != own)).double().mean())
        return ValueComparison(share <= SHARE_OF_WHOLE, "exact", share, SHARE_OF_WHOLE)
    seen, exact, own = got.double().nan_to_num(math.inf, math.inf, -math.inf), exact.double(), own.double()
    numbers = torch.isfinite(exact) & torch.isfinite(own)
    size = torch.where(numbers, exact, 0.0).square().mean().sqrt()
    runs = own_error(exact, [own, *truth.shaken, *([] if truth.rounded is None else [truth.rounded])])
    lost = runs + truth.natural
    share = ROUGH[got.dtype]
    rough = share * (size + exact.abs()) + torch.finfo(torch.float32).tiny
    error = torch.where(numbers, (seen - exact).abs(), 0.0)
    ratio = error / (rough + FAR * lost)
    place = int(ratio.argmax())
    worst = float(ratio.flatten()[place])
    # Beside a step of the function a rounding moves some elements, of the reference's runs these and of a kernel's others.
    beyond, moved = ratio > 1.0, numbers & (runs > rough)
    is_moved = int(beyond.sum()) <= FAR * int(moved.sum()) and float(
        torch.where(beyond, error, 0.0).max()
    ) <= FAR * float(lost.max())
    if worst > 1.0 and not is_moved:
        return ValueComparison(False, "element", worst * share, share)
    return _rounded_once(got, truth, numbers) or ValueComparison(True, "element", worst * share, share)


def _rounded_once(got: torch.Tensor, truth: Truth, numbers: torch.Tensor) -> ValueComparison | None:
    """Of half precision: whether most elements are the truth rounded once, as those of the reference are; None where they are.

    Sums of many terms that are rounded on the way are each within the bounds, and nearly none is.
    """
    if got.dtype not in (torch.float16, torch.bfloat16):
        return None
    # Where terms cancel, a rounding of float32 may be more than a step of what is left.
    numbers = numbers & (truth.exact.double().abs() * HALF_STEPS[got.dtype] >= truth.natural)
    if int(numbers.sum()) < LEAST_FOR_SHARE:
        return None
    exact = truth.exact.to(got.dtype)
    runs = [
        run.to(got.dtype) for run in (truth.own, *truth.shaken, *([] if truth.rounded is None else [truth.rounded]))
    ]
    share, *others = (float((run != exact)[numbers].double().mean()) for run in (got, *runs))
    allowed = ERROR_RATIO * max(others) + SHARE_BEYOND + 2.0 / math.sqrt(int(numbers.sum()))
    return None if share <= allowed else ValueComparison(False, "share", share, allowed)


def _number_of(
    call: AtScale, label: str, path: str, line: int, text: str, number: float, least: float, most: float
) -> VerdictFinding:
    message = (
        f"At the size of a workload {text} is {number:.6g}, and in no case was it beyond {least:.6g} to {most:.6g}: "
        f"nobody saw whether {label} is right with it. What goes with a size as a product does needs no case."
    )
    return VerdictFinding(Status.unproved, Evidence("at_scale", message, call.label(), line=line), "at scale")


def _is_near(comparison: ValueComparison) -> bool:
    return (comparison.error or math.inf) <= FAR * (comparison.allowed or 0.0)


def _finding(call: AtScale, label: str, message: str, comparison: ValueComparison | None) -> VerdictFinding:
    error, allowed = (None, None) if comparison is None else (comparison.error, comparison.allowed)
    message = f"At the size of a workload, which no case has, it is wrong: {message}"
    return VerdictFinding(
        Status.unproved, Evidence("at_scale", message, call.label(), label, error=error, allowed=allowed), "at scale"
    )


@dataclass(frozen=True)
class _Batch:
    places: dict[str, int]  # how many, by batch dimension
    answers: dict[str, Comparable]
    upstream: tuple[Axes, ...]


def going_by_places(oracle: Oracle, workload: Workload, draws: Draws) -> frozenset[str]:
    """The dimensions along which some output or gradient is at each place what it is of that place alone."""
    batch = _batch_dimensions(oracle, workload, draws)
    return frozenset() if batch is None else frozenset(batch.places)


def _batch_dimensions(oracle: Oracle, workload: Workload, draws: Draws) -> _Batch | None:
    for sizes in SMALL_SIZES:
        try:
            return _batch_at(oracle, workload, sizes, draws)
        except ChildError:  # such as an odd size of what is split in two
            continue
    return None


def _batch_at(oracle: Oracle, workload: Workload, sizes_of_others: Sequence[int], draws: Draws) -> _Batch | None:
    problem = oracle.problem
    along = columns_of(problem)
    bounds = {spec.high for spec in problem.inputs if isinstance(spec.high, str)}
    named = list(problem.dimensions)
    able = [dim for dim in named if dim not in bounds and dim not in along]
    able = able or [dim for dim in named if dim not in bounds]
    literals = {int(dim) for spec in problem.inputs for dim in spec.dims if dim.isdigit()}
    counts = dict(zip(able, (count for count in PLACES if count not in literals and count > 2), strict=False))
    others = [dim for dim in _all_named(problem) if dim not in counts]
    sizes = counts | dict(zip(others, (size for size in sizes_of_others if size not in literals), strict=False))
    if len(sizes) < len(_all_named(problem)):
        return None
    tied = oracle.in_form(sizes, workload.scalars)
    sizes = tied if counts.items() <= tied.items() else sizes
    case = Case("at scale", tuple(sizes.items()), "float32", draws.seed("batch dimensions"), workload.scalars)
    few = oracle.with_truth(oracle.asked(case), None)
    expected = {label: item for label, item in few.expected().items() if item is not None}
    axes = {label: _axes(item.shape, counts) for label, item in expected.items()}
    upstream = tuple(_axes(item.shape, counts) for item in few.outputs)
    chosen: dict[str, int] = {}
    powers: dict[str, dict[str, float]] = {label: {} for label in expected}
    for dim, count in counts.items():
        try:
            known = _known_by_places(oracle, few, {dim: count}, axes, upstream)
        except ChildError:
            continue
        left = {label: by | {dim: known[label]} for label, by in powers.items() if label in known}
        if any(dim in axes[label] for label in left):
            chosen[dim], powers = count, left
    answers = {
        label: Comparable(_only(axes[label], chosen), {dim: by[dim] for dim in chosen})
        for label, by in powers.items()
        if set(chosen) <= set(axes[label]) and expected[label].truth.exact.is_floating_point()
    }
    return _Batch(chosen, answers, tuple(_only(one, chosen) for one in upstream)) if chosen and answers else None


def _known_by_places(
    oracle: Oracle, few: Proof, counts: Mapping[str, int], axes: Mapping[str, Axes], upstream: Sequence[Axes]
) -> dict[str, float]:
    """By answer that is known by places of dimensions, the power of their sizes by which it goes.

    Among zeros, as at scale, it is at its places what it is of these alone.
    """
    places = {dim: _places(2 * count + 1, count) for dim, count in counts.items()}
    of_input = {spec.name: spec.dims for spec in oracle.problem.inputs}
    inputs = {name: _among_zeros(value, of_input[name], places) for name, value in few.inputs.items()}
    given = [
        None if laid is None else lay(_among_zeros(laid.view(), axes, places))
        for laid, axes in zip(few.upstream, upstream, strict=True)
    ]
    sizes = tuple((name, 2 * size + 1 if name in counts else size) for name, size in few.case.sizes)
    laid = {name: lay(value) for name, value in inputs.items()}
    among = replace(few, case=replace(few.case, sizes=sizes), inputs=inputs, laid=laid, outputs=(), gradients={})
    whole = oracle.with_truth(replace(among, upstream=()), tuple(given), roughly=True).expected()
    ratio = math.prod((2 * count + 1) / count for count in counts.values())
    powers_by_label = {}
    for label, item in few.expected().items():
        other = whole.get(label)
        if item is not None and other is not None and label in axes:
            power = _power(item.truth.exact, _at(other.truth.exact, axes[label], places), ratio)
            if power is not None:
                powers_by_label[label] = power
    return powers_by_label


def _power(ours: torch.Tensor, other: torch.Tensor, ratio: float) -> float | None:
    """The power of a ratio by which one tensor is the other."""
    if ours.shape != other.shape or not ours.is_floating_point():
        return None
    scale = float(ours.abs().max()) if ours.numel() else 0.0
    for power in POWERS:
        if scale and bool((other - ours * ratio**power).abs().max() <= EXACT * scale * ratio**power):
            return power
    return None


def _calls(
    oracle: Oracle, workload: Workload, batch: _Batch, dtype: str, draws: Draws, cases: Sequence[Case]
) -> Iterator[AtScale]:
    problem, stream = oracle.problem, draws.stream("at scale")
    kinds = itertools.islice(kinds_of([_apart(case) for case in cases], stream), LIKE_CASES)
    layouts = stream.sample(_LAYOUTS, len(_LAYOUTS))
    after = range(SQUARE + 1, SQUARE + 1 + len(layouts))
    # Of these each row can be named, the last one too: an index may be kept in a dtype that has not all of them.
    tables = {spec.high for spec in problem.inputs if isinstance(spec.high, str)} - {
        *columns_of(problem),
        *batch.places,
    }
    permuted = next(place for place in after if layouts[place % len(layouts)] is MemoryLayout.permuted)
    turns = [None, None, *kinds, None, None]
    for place, kind in enumerate(turns):
        is_beyond, is_far, full = place == 1, place == len(turns) - 1, dict(workload.sizes)
        is_narrow = place == len(turns) - 2
        columns = [dim for dim in columns_of(problem) if dim not in batch.places]
        if is_beyond:
            full |= {dim: _times(full[dim], BEYOND, stream) for dim in batch.places}
            full |= {dim: _times(full[dim], WIDER, stream) for dim in columns}
        longest = max(batch.places, key=lambda dim: full[dim])
        if is_narrow:
            columns_each = NARROW_BESIDE_TABLES if tables else NARROW
            full |= {dim: min(full[dim], columns_each) for dim in full.keys() - batch.places.keys() - tables}
        elif place == SQUARE and columns:  # as many rows as columns
            full |= {longest: full[columns[0]]}
        if is_far:  # along one dimension
            full |= dict.fromkeys(batch.places, max(PLACES)) | {longest: stream.choice(MANY_ROWS)}
        is_deep = place in (0, permuted) and _product(full, batch.places) > MOST_FEW
        most = LEAST_PLACES if is_deep else max(PLACES)
        counts = {dim: min(count, most, full[dim]) for dim, count in batch.places.items()}
        room = MOST_DEEP if is_deep else MOST_OF_TABLES if is_narrow and tables else MOST_FEW
        full = _within(problem, full, counts, room, keeps_rows=is_far)
        plain = Case("at scale", (), dtype, 0, workload.scalars)
        full = _cheap(oracle, full, counts, plain, MOST_MADE if place else MOST_MADE_FIRST)
        plain = replace(
            plain, sizes=tuple((full | counts).items()), indices=Indices.ends if is_narrow and tables else plain.indices
        )
        case = replace(
            kind or plain, sizes=plain.sizes, seed=draws.seed(f"at scale {place}"), layout=MemoryLayout.dense
        )
        try:
            proof = oracle.with_truth(oracle.asked(case), None)
        except ChildError:
            if kind is None and not is_narrow:
                raise
            continue  # such as scalars that do not go with these sizes
        if kind is not None and not is_sound(proof):
            continue
        axes = {label: known.axes for label, known in batch.answers.items()}
        known = _known_by_places(oracle, proof, counts, axes, batch.upstream)
        # What hangs on values too, such as on how many classes are ignored, is not what it was at small sizes.
        answers = {label: one for label, one in batch.answers.items() if known.get(label) == _one_power(one, counts)}
        laid = {name: lay(value) for name, value in proof.inputs.items()}
        upstream = tuple(None if one is None else lay(one.view()) for one in proof.upstream)
        layout = MemoryLayout.dense if kind is None else layouts[place % len(layouts)]
        # As long as a row: one of the two parts that ``chunk`` gives.
        gap = stream.uniform(0.0, MOST_GAP) if is_beyond else float(layout is MemoryLayout.apart)
        places = {dim: _places(full[dim], count) for dim, count in counts.items()}
        middle = _middle(full[longest], draws) if place == 0 or is_narrow else None
        if middle is not None and counts[longest] > LEAST_PLACES:
            first, last = places[longest][: counts[longest] // 2], places[longest][counts[longest] // 2 + 1 :]
            places[longest] = (*first, middle, *last)
        yield AtScale(
            replace(proof, laid=laid, upstream=upstream),
            full,
            places,
            {spec.name: _only(spec.dims, counts) for spec in problem.inputs},
            answers,
            batch.upstream,
            gap=gap,
            offset=round(2.0 ** stream.uniform(*FAR_OFFSETS)) if is_beyond else int(layout is MemoryLayout.shifted),
            permuted=layout is MemoryLayout.permuted,
            may_raise=bool(place),
            many_rows=longest if is_far else "",
            workload={} if place else dict(workload.sizes),
            again=place == 0 or is_narrow,
            middle=None if middle is None else (middle, full[longest]),
        )


def _middle(size: int, draws: Draws) -> int | None:
    """A place of many between the first and last."""
    if size < LEAST_FOR_MIDDLE:
        return None
    share = draws.stream("middle").uniform(*MIDDLE)
    return round(share * size) // STEP_OF_MIDDLE * STEP_OF_MIDDLE + 1


def _apart(case: Case) -> Case:
    """The case with each tensor dense and by itself."""
    plain = Case(case.name, case.sizes, case.dtype, case.seed)
    names = (
        "layout", "upstream", "related", "relation", "same", "packed", "echoes", "given_back", "one_upstream", "again", "spare",
    )  # fmt: skip
    return replace(case, **{name: getattr(plain, name) for name in names})


def kinds_of(cases: Sequence[Case], stream: random.Random) -> Iterator[Case]:
    """Usual cases without end, each time one that has most of what none before it had; what few cases have counts most."""
    able = [case for case in cases if case.content is Content.ordinary and not case.is_empty]
    often = Counter(feature for case in able for feature in features_of(case))
    seen: set[tuple[str, object]] = set()
    while able:
        stream.shuffle(able)
        best = max(able, key=lambda case: sum(1.0 / often[feature] for feature in features_of(case) - seen))
        seen = seen | features_of(best) if features_of(best) - seen else set()
        yield best


def features_of(case: Case) -> set[tuple[str, object]]:
    """What a case has that a plain one has not, such as a layout, a scalar of some magnitude or a device with many processors."""
    plain = Case("", case.sizes, case.dtype, 0)
    features = {(name, getattr(case, name)) for name in _NAMES if getattr(case, name) != getattr(plain, name)}
    if case.gpu:
        features.add(("many processors", case.multiprocessors > _MANY_PROCESSORS))
    for name, value in case.scalars:
        if isinstance(value, float) and value != 0.0 and math.isfinite(value):
            value = round(math.log10(abs(value))) // MAGNITUDES
        features.add((name, value))
    return features


def _one_power(answer: Comparable, counts: Mapping[str, int]) -> float | None:
    """The power by which an answer goes with all batch dimensions, where it is the same of each."""
    powers = {answer.powers[dim] for dim in counts}
    return powers.pop() if len(powers) == 1 else None


def _within(
    problem: Problem, full: dict[str, int], counts: Mapping[str, int], most: int, *, keeps_rows: bool
) -> dict[str, int]:
    """Sizes of which those beside batch dimensions are halved, the widest first, until there is little enough to compute.

    Where inputs would be too large, the deepest batch dimension is halved, or with ``keeps_rows`` the others first.
    """

    def is_large(sizes: Mapping[str, int]) -> bool:
        return max(_elements(spec.dims, sizes) for spec in problem.inputs) > MOST_ELEMENTS

    while (_product(full, counts) > most or (keeps_rows and is_large(full))) and (less := _halved(full, counts)):
        full = less
    while is_large(full):
        deepest = max(counts, key=lambda dim: full[dim])
        full = full | {deepest: full[deepest] // 2}
    return full


def _cheap(oracle: Oracle, full: dict[str, int], counts: dict[str, int], plain: Case, most: int) -> dict[str, int]:
    """Sizes halved further while the reference makes more than it may there, as a matrix of all pairs of keys and queries."""
    while oracle.made_bytes(replace(plain, sizes=tuple((full | counts).items()))) > most:
        less = _halved(full, counts)
        if less is None:
            break
        full = less
    return full


def _halved(full: dict[str, int], counts: Mapping[str, int]) -> dict[str, int] | None:
    """The sizes with the widest one that is no batch dimension halved; None where there is none."""
    widest = max((dim for dim in full if dim not in counts), key=lambda dim: full[dim], default=None)
    return None if widest is None or full[widest] < 2 else full | {widest: full[widest] // 2}


def _product(full: Mapping[str, int], counts: Mapping[str, int]) -> int:
    return math.prod(counts.get(dim, size) for dim, size in full.items())


def _elements(dims: Iterable[str], sizes: Mapping[str, int]) -> int:
    return math.prod(int(dim) if dim.isdigit() else sizes[dim] for dim in dims)


def _times(size: int, ends: tuple[float, float], stream: random.Random) -> int:
    return round(size * stream.uniform(*ends))


def _places(size: int, count: int) -> tuple[int, ...]:
    """The first and the last places of a dimension, which the first and last programs of a launch compute."""
    first = -(-count // 2)
    return tuple(sorted({*range(first), *range(size - (count - first), size)}))


def _all_named(problem: Problem) -> tuple[str, ...]:
    high = [spec.high for spec in problem.inputs if isinstance(spec.high, str)]
    return tuple(dict.fromkeys([*problem.dimensions, *high]))


def _axes(shape: Sequence[int], counts: Mapping[str, int]) -> Axes:
    """The batch dimensions that the axes of an answer are, by their sizes, which no other dimension has."""
    return tuple(next((dim for dim, count in counts.items() if count == size), None) for size in shape)


def _only(axes: Iterable[str | None], counts: Mapping[str, int]) -> Axes:
    return tuple(dim if dim in counts else None for dim in axes)


def _among_zeros(value: torch.Tensor, axes: Iterable[str | None], places: Mapping[str, Sequence[int]]) -> torch.Tensor:
    for axis, dim in enumerate(axes):
        if dim is not None and dim in places:
            shape = list(value.shape)
            shape[axis] = 2 * shape[axis] + 1
            value = value.new_zeros(shape).index_copy_(axis, torch.tensor(places[dim]), value)
    return value


def _at(value: torch.Tensor, axes: Iterable[str | None], places: Mapping[str, Sequence[int]]) -> torch.Tensor:
    for axis, dim in enumerate(axes):
        if dim is not None and dim in places and value.shape[axis] > max(places[dim]):
            value = value.index_select(axis, torch.tensor(places[dim]))
    return value
