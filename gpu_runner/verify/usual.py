"""Tries a candidate at the sizes that models have, where a fault would hurt: hidden and feed-forward sizes, vocabularies.

Cases draw their sizes; a condition on one size that many models share may have its other side in none of them. Such a size is tried
with few rows, or some dozens, and some of them with many, each once, and compared roughly: what is wrong there is wrong by far. All
but a few have what a case of the verdict has besides its sizes, such as its layouts, scalars, special rows and the device that it
tells of, so that a condition on a size and one of those has its other side too.
"""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, Future
from contextlib import suppress
from dataclasses import replace

from gpu_runner.contracts.problem import Problem, Workload
from gpu_runner.errors import ChildError, ChildFailed
from gpu_runner.verify.cases import Case, Content, Special, columns_of, is_activation
from gpu_runner.verify.combinations import Seen, Signature, meetings
from gpu_runner.verify.draws import Draws
from gpu_runner.verify.inputs import shape_of
from gpu_runner.verify.laying import lay
from gpu_runner.verify.proof import Proof
from gpu_runner.verify.reach import with_held
from gpu_runner.verify.scalars import Scalar
from gpu_runner.verify.scale import AtScale, Comparable, features_of, going_by_places, kinds_of
from gpu_runner.verify.truth import BadProblem, Oracle, is_sound

# Of published language models: heads and groups, hidden sizes and feed-forward widths, vocabularies.
USUAL = (
    64, 80, 96, 112, 128, 160, 192, 256, 320, 384, 448, 512, 576, 640, 768, 896,
    1024, 1152, 1280, 1408, 1536, 1600, 1792, 1920, 2048, 2304, 2560, 2816, 2880, 3072, 3200, 3584, 3840, 4096, 4544, 4608, 4864,
    5120, 5376, 5504, 5632, 6144, 6400, 6656, 6912, 7168, 7680, 8192, 8960, 9216, 9728, 10240, 10752, 11008, 12288, 13696, 13824,
    14336, 15360, 16384, 17408, 17920, 18432, 18944, 20480, 21504, 22016, 24576, 25600, 27392, 27648, 28672, 29568,
    30522, 32000, 32064, 32768, 49152, 50257, 50304, 51200, 64000, 65024, 65536, 92544, 100277, 100352, 102400, 128256, 129280,
    131072, 151936, 152064, 200064, 202048, 250880, 256000, 262144,
)  # fmt: skip
NEARBY = 8  # times larger or smaller than a workload's
MOST_USUAL, PROPOSED = 16, 64  # that are tried in a verdict, and of which it is asked what host code decides
PLAIN = 2  # of them that are like no case
ROWS, OFTEN_FEW, OTHERS = (2, 64), 0.2, (16, 32, 48, 64)  # of rows, mostly as many as may be, and of other columns
MOST, LEAST_ROWS = 2**17, 2  # the product of all sizes, but for few rows, since programs of all of it run
# Operations on blocks in a launch, ten to twenty microseconds each: of up to FEW rows, of more, of most, of a total, and of one of
# whole numbers, which is right to the last bit or wrong; of a long dimension as many.
FEW, OPERATIONS = 8, (5_000, 40_000, 100_000, 200_000, 350_000)
MANY, MOST_ROWS = (
    (200, 1300),
    (2049, 2600),
)  # rows, in a call each; more than most blocks of rows have, and than float16 counts
# Of wide columns with gradients: a program that adds up a weight's gradient takes several operations a row.
SUMMED, WIDE = (200, 500), 2049
MOST_TOTAL = 2**25  # elements that are added up in one call, where an output is one number
# And where what is added up is a part of as many; of each dimension where that is looked for, and the share of an output.
MOST_MIXED, SEVERAL, MOSTLY = 2**22, 6, 0.5
MOST_MANY, LARGEST = 2**20, 8  # the product of their sizes; columns among so many
# Times as many elements a tensor may have, one with a dimension twice or with sizes that are no dimensions.
OF_A_TENSOR = 4
OFTEN_OTHERS = 0.5  # how often a whole number, a truth value or a text is what another case has
MOST_SQUARE = 1024  # rows and columns, in one call


PLAIN_CALL = "usual sizes"

Proposed = tuple[Mapping[str, int], Case]  # sizes, and the case that it is like
# Of each call what is decided in it, None where it cannot be made; of fewer where that takes too long.
Deciding = Callable[[Sequence[Case]], Iterable[Signature | None]]


def at_usual_sizes(
    oracle: Oracle,
    workloads: Sequence[Workload],
    dtypes: Sequence[str],
    draws: Draws,
    cases: Sequence[Case] = (),
    decided: Deciding | None = None,
    beside: Executor | None = None,
) -> Iterator[AtScale]:
    """Calls at drawn ones of the sizes that models have near those of the workloads; those alone at which the reference runs.

    All but the plain ones are like one of ``cases``, those of the verdict, and one has infinities and NaN. The first three are
    plain and have many rows, the first of them without gradients, as for inference, the second in half precision where that is one
    of ``dtypes``, whose first the others have, the third wide ones with gradients. Where what the candidate's host code decides can
    be ``decided`` without a truth, it is asked at more sizes than are called, and sizes and cases are put together by that
    (``combinations``), ``beside`` the first calls where there are cores for it.
    """
    problem, stream = oracle.problem, draws.stream("usual sizes")
    if problem.form == "kernelbench" or not workloads:
        return
    near = _near(problem, workloads)
    tried = [_sizes(problem, dim, size, stream) for dim, size in stream.sample(near, min(len(near), PROPOSED))]
    narrow = [(dim, size) for size in USUAL if size <= MOST_SQUARE for dim in columns_of(problem)]
    many = [
        _many_rows(problem, workloads[0], near, MANY, stream),
        _many_rows(problem, workloads[0], narrow, MOST_ROWS, stream),
        _many_rows(problem, workloads[0], [one for one in near if one[1] >= WIDE] or near, SUMMED, stream),
    ]
    not_finite = [case for case in cases if case.holds_odd_rows and case.special is not Special.down]
    odd = stream.choice(not_finite) if not_finite else None
    deep = _many_rows(problem, workloads[0], near, MANY, stream) or next(iter(tried), None)
    plain = [Case(PLAIN_CALL, (), dtypes[0], 0, workload.scalars) for workload in workloads]
    halves = [name for name in dtypes if name in ("float16", "bfloat16")]
    usual = [case for case in cases if case.content is Content.ordinary and not case.is_empty]
    kinds = itertools.chain(kinds_of(usual, stream), (stream.choice(plain) for _ in itertools.count()))
    given = [(sizes, stream.choice(plain)) for sizes in (*many, *tried[:PLAIN])]
    given += [(deep, odd or stream.choice(plain)), (_square(problem, near, stream), next(kinds))]
    long = [*_long(problem, workloads, going_by_places(oracle, workloads[0], draws))]
    given += [(sizes, stream.choice(plain)) for sizes in long]
    far = replace(stream.choice(plain), dtype="float32", special=Special.lengthwise)
    given += [(sizes, far) for sizes in long if "float32" in dtypes and any(map(is_activation, problem.inputs))]
    for place, (own, kind) in enumerate(given):
        # Sums of many rows that are rounded on the way show there alone.
        if halves and kind is not far and (place == 1 or own in long):
            given[place] = own, replace(kind, dtype=stream.choice(halves))
    first: Iterable[Proposed] = ()
    if decided is not None:
        first = itertools.islice(_met(problem, tried, stream.choice(plain), usual, draws, decided), MOST_USUAL - PLAIN)
        first = first if beside is None else _once_known(beside.submit(list, first))
    others = itertools.islice(itertools.chain(first, zip(tried[PLAIN:], kinds)), MOST_USUAL - PLAIN)  # noqa: B905
    has_total = True  # an output that is one number; unless a call shows that there is none
    for place, (sizes, kind) in enumerate(itertools.chain(given, others)):
        if sizes is None or _places(problem, sizes) > MOST_MANY:
            continue
        is_long, sizes = sizes in long, oracle.in_form(sizes, kind.scalars)
        case = _at(problem, kind, sizes, draws.seed(f"usual sizes {place}"))
        scalars = kind.scalars if kind.name == PLAIN_CALL else _drawn_scalars(problem, kind, cases, stream)
        try:
            roughly = kind.name == PLAIN_CALL and kind is not far
            proof = _proof(oracle, case, dict.fromkeys([scalars, kind.scalars]), place == 0, roughly)
        except (ChildFailed, BadProblem, ValueError, RuntimeError):
            return
        if proof is None:
            continue
        has_total = _has_total(proof)
        has_few = all(size <= FEW for dim, size in sizes.items() if dim not in columns_of(problem))
        most = 4 if is_long else 2 if place == 1 else 0 if has_few else 1
        yield replace(_whole(problem, proof, sizes, OPERATIONS[most]), closely=kind is far)
    if any(isinstance(spec.high, str) for spec in problem.inputs):  # classes, of whose rows alone something is added up
        return
    with suppress(ChildFailed, BadProblem, ValueError, RuntimeError):
        is_mixed = _hangs_on_all(oracle, replace(stream.choice(plain), seed=draws.seed("mixed")))
        if has_total or is_mixed:
            sizes = _total(problem, workloads, MOST_MIXED if is_mixed else MOST_TOTAL)
            case = replace(stream.choice(plain), sizes=tuple(sizes.items()), seed=draws.seed("a total"))
            proof = _proof(oracle, case, [case.scalars], True, True)
            if proof is not None and (is_mixed or _has_total(proof)):
                yield _whole(problem, proof, sizes, OPERATIONS[4 if _has_total(proof, is_whole=True) else 3])


def _once_known(asked: Future[list[Proposed]]) -> Iterator[Proposed]:
    yield from asked.result()


def _has_total(proof: Proof, *, is_whole: bool = False) -> bool:
    """Whether an output is one number; ``is_whole``: a whole one."""
    able = (item for item in proof.outputs if not (is_whole and item.truth.own.is_floating_point()))
    return any(math.prod(item.shape) == 1 for item in able)


def _hangs_on_all(oracle: Oracle, usual: Case) -> bool:
    """Whether most of an output hangs on a single element of an input, as what is divided by the norm of a whole tensor."""
    sizes = oracle.in_form(dict.fromkeys(oracle.problem.dimensions, SEVERAL), usual.scalars)
    proof = replace(oracle.asked(replace(usual, sizes=tuple(sizes.items()))), wanted=())
    able = [spec.name for spec in oracle.problem.inputs if is_activation(spec) and proof.inputs[spec.name].numel() > 1]
    if not able:
        return False
    moved = proof.inputs[able[0]].clone()
    moved.view(-1)[-1] += 1.0
    other = replace(proof, inputs=proof.inputs | {able[0]: moved}, laid=proof.laid | {able[0]: lay(moved)})
    before, after = (oracle.with_truth(one, None, roughly=True).outputs for one in (proof, other))
    pairs = [(one.truth.exact, two.truth.exact) for one, two in zip(before, after, strict=True)]
    return any(one.numel() > 1 and float((one != two).double().mean()) > MOSTLY for one, two in pairs)


def _total(problem: Problem, workloads: Sequence[Workload], most: int) -> dict[str, int]:
    """The sizes of the largest workload, as much of it as one call adds up: partial sums of it fill more than a block."""
    sizes = max((dict(one.sizes) for one in workloads), key=lambda one: math.prod(one.values()))
    while _places(problem, sizes) > most and max(sizes.values(), default=1) > 1:
        rows = [dim for dim in sizes if dim not in columns_of(problem) and sizes[dim] > 1]
        largest = max(rows or sizes, key=lambda dim: sizes[dim])
        sizes[largest] //= 2
    return sizes


def _proof(
    oracle: Oracle, case: Case, given: Iterable[tuple[tuple[str, Scalar], ...]], without_gradients: bool, roughly: bool
) -> Proof | None:
    """The call with the first scalars with which the reference has an answer; None without any, as at a width that it cannot split.

    Special rows may lie at a step of the function: the truth of shaken inputs shows what a rounding moves there, but ``roughly``.
    """
    for scalars in given:
        try:
            proof = oracle.asked(replace(case, scalars=scalars, may_raise=True, spare=()))
            wanted = () if without_gradients else proof.wanted
            proof = oracle.with_truth(replace(proof, wanted=wanted), None, roughly=roughly)
        except ChildError:
            continue
        if case.content is Content.odd:
            return oracle.with_idle(with_held(proof, oracle.problem))
        if is_sound(proof):
            return proof
    return None


def _drawn_scalars(
    problem: Problem, kind: Case, cases: Sequence[Case], stream: random.Random
) -> tuple[tuple[str, Scalar], ...]:
    """Scalars of a case; whole numbers, truth values and texts that it leaves at their default are what a drawn case has."""
    own = dict(kind.scalars)
    drawn: dict[str, Scalar] = {}
    for spec in problem.scalars:
        is_free = not isinstance(spec.default, float) and own.get(spec.name, spec.default) == spec.default
        values = [dict(case.scalars)[spec.name] for case in cases if spec.name in dict(case.scalars)]
        if is_free and values and stream.random() < OFTEN_OTHERS:
            drawn[spec.name] = stream.choice(list(dict.fromkeys(values)))
    return tuple((own | drawn).items())


def _at(problem: Problem, kind: Case, sizes: Mapping[str, int], seed: int) -> Case:
    """A call like a case at other sizes; tensors that are one there are several where their shapes differ here."""
    one = (*kind.same, *kind.related)
    if len({shape_of(spec, dict(sizes)) for spec in problem.inputs if spec.name in one}) > 1:
        kind = replace(kind, same=(), related=())
    return replace(kind, sizes=tuple(sizes.items()), seed=seed, again=False, measured=False)


def _met(
    problem: Problem,
    sizes: Sequence[Mapping[str, int]],
    usual: Case,
    cases: Sequence[Case],
    draws: Draws,
    decided: Deciding,
) -> Iterator[Proposed]:
    """Sizes with cases that they are called like, so that most is decided together that no case had together."""
    before = [replace(case, seed=draws.seed(f"before {place}")) for place, case in enumerate(cases)]
    new = [_at(problem, usual, one, draws.seed(f"proposed {place}")) for place, one in enumerate(sizes)]
    known, seen = (
        {place: one for place, one in enumerate(decided(asked)) if one is not None} for asked in (before, new)
    )
    of_cases = [Seen(one, frozenset(features_of(cases[place]))) for place, one in known.items()]
    for size, case in meetings(of_cases, [*seen.values()]):
        yield sizes[[*seen][size]], cases[[*known][case]]


def _square(problem: Problem, near: Sequence[tuple[str, int]], stream: random.Random) -> dict[str, int] | None:
    """As many rows as columns; None where there can be none."""
    able = [one for one in near if one[1] <= MOST_SQUARE and len(_others(problem, one[0])[1]) == 1]
    if not able:
        return None
    dim, size = stream.choice(able[-LARGEST:])
    others, rows = _others(problem, dim)
    return {dim: size} | dict.fromkeys(others, OTHERS[0]) | dict.fromkeys(rows, size)


def _near(problem: Problem, workloads: Sequence[Workload]) -> list[tuple[str, int]]:
    """Dimensions of columns with the usual sizes near those of the workloads, from small to large."""
    return [
        (dim, size)
        for size in USUAL
        for dim in columns_of(problem)
        if any(
            size <= NEARBY * known <= NEARBY**2 * size for known in (dict(one.sizes).get(dim, 0) for one in workloads)
        )
    ]


def _sizes(problem: Problem, dim: str, size: int, stream: random.Random) -> dict[str, int]:
    """Few rows, and few of other columns."""
    others, rows = _others(problem, dim)
    sizes = {dim: size} | {name: stream.choice(OTHERS) for name in others}
    for place, name in enumerate(rows):
        left = max(LEAST_ROWS if place == 0 else 1, MOST // _places(problem, sizes))
        is_few = stream.random() < OFTEN_FEW
        drawn = round(math.exp(stream.uniform(*map(math.log, ROWS)))) if is_few else ROWS[1]
        sizes[name] = min(left, drawn if place == 0 else stream.randint(1, 3))
    return sizes


def _long(problem: Problem, workloads: Sequence[Workload], by_places: Collection[str]) -> Iterator[dict[str, int]]:
    """A dimension of rows over which something is summed or carried on, as long as in a workload; all others are small."""
    able = {dim for dim in problem.dimensions if dim not in {*columns_of(problem), *by_places}}
    for dim in sorted(able):
        others, rows = _others(problem, dim)
        small = dict.fromkeys(others, OTHERS[0]) | dict.fromkeys((name for name in rows if name != dim), 1)
        longest = max(dict(one.sizes).get(dim, 0) for one in workloads)
        size = min(longest, MOST_MANY // _places(problem, small))
        if size > MOST_ROWS[1]:
            yield {dim: size} | small


def _many_rows(
    problem: Problem, workload: Workload, near: Sequence[tuple[str, int]], ends: tuple[int, int], stream: random.Random
) -> dict[str, int] | None:
    """One of the largest sizes at which there may be so many rows, along their longest dimension; None where there can be none."""
    places = {one: _places(problem, dict([one])) for one in near if _others(problem, one[0])[1]}
    able = [one for one, count in places.items() if count * ends[0] <= MOST_MANY]
    if not able:
        return None
    most = min(ends[1], MOST_MANY // min(places[one] for one in able))
    many = round(math.exp(stream.uniform(math.log(ends[0]), math.log(most))))
    dim, size = stream.choice([one for one in able if places[one] * many <= MOST_MANY][-LARGEST:])
    others, rows = _others(problem, dim)
    longest = max(rows, key=lambda name: dict(workload.sizes).get(name, 0))
    return {dim: size} | dict.fromkeys(others, OTHERS[0]) | dict.fromkeys(rows, 1) | {longest: many}


def _places(problem: Problem, sizes: Mapping[str, int]) -> int:
    """The product of sizes, those that are not named being one; more where a tensor has many more elements than that."""
    known = dict.fromkeys(problem.dimensions, 1) | dict(sizes)
    elements = max((math.prod(shape_of(spec, known)) for spec in problem.inputs), default=0)
    return max(math.prod(sizes.values()), elements // OF_A_TENSOR, 1)


def _others(problem: Problem, dim: str) -> tuple[list[str], list[str]]:
    """Other columns, and what indices are drawn below; and rows."""
    bounds = [spec.high for spec in problem.inputs if isinstance(spec.high, str)]
    named = [name for name in dict.fromkeys([*problem.dimensions, *bounds]) if name != dim]
    along = {*columns_of(problem), *bounds}
    return [name for name in named if name in along], [name for name in named if name not in along]


def _whole(problem: Problem, proof: Proof, sizes: Mapping[str, int], operations: int) -> AtScale:
    """The call with nothing left out, laid out as its case says: all of it is known by the places that there are."""
    expected = {label: item for label, item in proof.expected().items() if item is not None}
    return AtScale(
        proof,
        sizes,
        {},
        {spec.name: (None,) * len(spec.dims) for spec in problem.inputs},
        {label: Comparable((None,) * len(item.shape), {}) for label, item in expected.items()},
        tuple((None,) * len(item.shape) for item in proof.outputs),
        may_raise=True,
        operations=operations,
    )
