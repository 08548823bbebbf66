"""Which cases a candidate is proved on. Everything but the kinds of cases is drawn from the verdict's secret seed. Pure.

A case combines draws: sizes, scalars, where tensors lie, what rows hold. Each kind below occurs at least once in a full verdict,
paired with the others by chance.
"""

from __future__ import annotations

import functools
import itertools
import math
import random
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from gpu_runner.contracts.graph import Multiple
from gpu_runner.contracts.problem import InputSpec, Problem, Workload
from gpu_runner.peaks import AMD, GPUS
from gpu_runner.verify import divided
from gpu_runner.verify.constants import NO_NUMBERS, WrittenNumbers
from gpu_runner.verify.draws import Draws
from gpu_runner.verify.scalars import (
    WHOLE,
    Scalar,
    dyadic_scalars,
    far_scalars,
    is_padding,
    limits_of,
    moved_of_workloads,
    moved_scalars,
    moved_together,
    moved_whole,
    no_epsilons,
    other_words,
    scalars_at_an_end,
    scalars_beyond,
    small_epsilons,
    usual_epsilons,
    usual_numbers,
    usual_scalar,
    whole_for_floats,
)

INTERPRETED_ROWS = 24
INTERPRETED_COLUMNS = 512
INTERPRETED_ELEMENTS = 2**16
GPU_ELEMENTS = 2**26
QUICK_ELEMENTS = 2**21  # of one input of a measured size, where a look is to be quick
GROUPED = 64
INTERPRETED_GROUPED = 2**20  # elements around a constant where channels come in groups, of which there are so many
DISTRIBUTIONS = ("softmax", "log_softmax")
# The interpreter runs the programs of a grid one after the other, so that rows are few; columns are the lanes of a program.
INTERPRETED_WIDEST, INTERPRETED_DEEPEST = 2**14, 2**8 + 2**5  # so many programs that groups of 2^8 begin anew
DEEPEST_OF_TILES = 2**10  # rows of which each program takes a tile
WIDEST_OF_TILES = 2**12  # of a dimension of a product beside small ones
PAIRS, PAIRS_BY_ROWS = 6, 2  # of dimensions that are large together, of a product and where a program may take a row
# Where a candidate cuts or branches beyond usual columns, up to what sixteen bits do not hold, a row is as wide in the interpreter.
LARGEST_CUT, MOST_CUTS = 2**16, 2
ROWS_BEYOND_A_CUT = (7, 8)
INTERPRETED_WORK = 2**19  # the product of all dimensions, as of a matrix product
GPU_WIDEST, GPU_DEEPEST = 2**18, 2**20
BEYOND_AN_AXIS = (2**16 + 1, 2**18)  # rows, of which the second and third axis of a grid hold 2^16 - 1
BOUNDARIES, INTERPRETED_BOUNDARIES, QUICK_BOUNDARIES = 8, 6, 1  # cases around the candidate's own constants
LEAST_WIDE, WIDEST_DRAWN = 4100, 2**14
LEAST_DIVISOR, MOST_TIMES, MOST_REMAINDERS = 5, 3, 6  # of divisors below it usual sizes have every remainder
BRANCH = 32.0  # times as often a size next to a number that something is compared with is drawn
MOST_EMPTY = 4  # dimensions of rows, by turns
MOST_ENDS = 2  # of scalars' ranges, at which there are large values, and others that are not finite
MOST_WORDS, MOST_FLAGS = 12, 8  # cases with other texts, and with other whole numbers and truth values
MOST_GPUS, QUICK_GPUS = 8, 1  # of which host code is told, one in a case
FEW_PROCESSORS = 5  # of them: two multiprocessors for the widest rows, one for others
NARROWER = 2  # each of these has a width of at most one in so many of the one before, where there is such a case
EVEN_ELEMENTS = 2**15  # of rows times columns that are powers of two, in one case: two tiles of most kernels
OFTEN = 0.6  # the share of cases with special rows, and of those with drawn scales
OF_COLUMNS = 0.3  # the share of them whose columns are special in place of their rows
OF_A_SIZE = 0.3  # the share of moved scalars that are the reciprocal of a size, or of its root
MANY_CASES = 2  # dimensions of rows that are tried with many of them
LONG, LONG_ROWS = 0.25, (33, 160)  # how often, and how large, a dimension is where no dimension is one of columns
SPECIAL_ROWS = (12, 16)  # rows of the case in which each kind of special row occurs
MORE_SPECIAL_ROWS = (16, 20)  # of that in which columns are special
MOST_ODD_VECTORS = 2  # of which one element is not finite in cases of their own
MOST_FAR_WEIGHTS = 2  # of which each has elements far out in a case of its own, or is tiny
MOST_GIVEN_BACK = 2  # inputs that are an upstream gradient
ROWS_APART = (1, 2)  # of two views of one tensor, as of differences: x[1:] - x[:-1]
RATIOS = (2, 3, 8)  # of columns to rows, drawn; one case has four times as many, as the layers of a model do
WIDEST = (3000, 6000)  # columns of which one lies far out
NARROW = (33, 128)  # columns that the kernels for narrow rows take, those of ports in their smallest tiles among them
WIDE = (1100, 6000)  # columns, beyond what one block of most kernels for narrow rows has
# Rows and columns, or elements of one row, that hold every exponent; of a row a program takes them all.
MAGNITUDES_ROWS, MAGNITUDES_COLUMNS, MAGNITUDES_OF_A_ROW = (20, 28), (128, 220), (2048, 4096)
MOST_OF_MAGNITUDES = 3  # inputs that do so, each in a case of its own
LEAST_OF_DATA = 32  # columns where all rows are like data


class Content(StrEnum):
    """What the activations of a case hold."""

    ordinary = "ordinary"
    large = "large"  # some rows hold values up to the case's ``reach``
    odd = "odd"  # some rows hold infinities and NaN


class MemoryLayout(StrEnum):
    """Where a tensor lies in memory."""

    dense = "dense"
    apart = "apart"  # a gap of drawn width after each row
    shifted = "shifted"  # dense, from a storage offset that no vector load is aligned to
    permuted = "permuted"  # dimensions in another order
    sliced = "sliced"  # some columns of a wider tensor, a step apart
    broadcast = "broadcast"  # stride zero along one dimension
    level = "level"  # inputs alone: stride zero along the columns
    slices = "slices"  # a gap after each slice along the first of several dimensions, as of ``x[:, :-1]``; of one case
    inner_slices = "inner slices"  # so along the last dimension but two, as of ``cache[:, :, :length]``
    windows = "windows"  # inputs alone: each row begins within the one before it, as ``unfold`` gives them
    expanded = "expanded"  # upstream gradients alone: one number, as mean().backward() gives
    ones = "ones"  # upstream gradients alone: exactly one, expanded, as sum().backward() gives
    scaled = "scaled"  # upstream gradients alone: a loss scale, expanded, as mixed precision begins with
    full = "full"  # upstream gradients alone: exactly one, dense, as backward(torch.ones_like(y)) gives


_LAYOUTS = (
    MemoryLayout.apart,
    MemoryLayout.shifted,
    MemoryLayout.permuted,
    MemoryLayout.sliced,
    MemoryLayout.broadcast,
)
# A stride of one is a constant of the kernel that Triton compiles: with one row or column a kernel may not raise.
_OF_ONE = tuple(layout for layout in _LAYOUTS if layout is not MemoryLayout.shifted)
INPUT_LAYOUTS = (*_LAYOUTS, MemoryLayout.level, MemoryLayout.windows)
OVERLAPPING = (MemoryLayout.broadcast, MemoryLayout.level, MemoryLayout.windows)
NEVER_CONSTANT = (MemoryLayout.apart, MemoryLayout.shifted, MemoryLayout.permuted)
EXPANDED = (MemoryLayout.expanded, MemoryLayout.ones, MemoryLayout.scaled, MemoryLayout.full)
UPSTREAM_LAYOUTS = (*_LAYOUTS, *EXPANDED)
# In these an element lies in several places of a tensor at once.
REPEATED = frozenset({MemoryLayout.broadcast, MemoryLayout.level, MemoryLayout.windows, *EXPANDED})


class Upstream(StrEnum):
    """What upstream gradients hold."""

    normal = "normal"
    large = "large"  # magnitudes far above one
    small = "small"
    sparse = "sparse"
    one_hot = "one element of each row"
    zero_rows = "zero rows"
    few_rows = "few rows that are not zero"
    signs = "of one magnitude"  # as an absolute error gives
    centered = "rows with a sum of zero"  # as a softmax or a norm behind it gives


class Special(StrEnum):
    """What some rows of activations are: zero, all equal, faint, with one large element, equal to another row, and the like."""

    none = ""
    rows = "special rows"
    columns = "special columns"  # of inputs of two dimensions
    ends = "ends of ranges"  # of inputs with a range: shares of exactly zero and one, probabilities of zero
    # What all rows are, as in data that no generator of random numbers gives.
    levels = "multiples of 1/255"
    mask = "zeros and ones"
    ramp = "numbers in order"
    unit = "rows of length one"
    shares = "rows that are distributions"
    bytes = "whole numbers up to 255"
    distant = "far from zero"  # beside how far they are apart: a variance is no difference of moments there
    outlying = "elements of each row far out"  # in wide rows: moments about one cancel
    lengthwise = (
        "elements along the longest dimension far out"  # of calls in which moments are taken down thousands of rows
    )
    tiny = "of tiny size"  # whose squares vanish
    filled = "filled with -10,000 where a mask is"
    masked = "filled with the smallest number where a mask is"
    # A wholly filled row hides what else a sum over rows has.
    partly = "filled with the smallest number in parts of rows"
    down = "filled with the smallest number throughout some slices down another dimension"
    ties = "odd multiples of a half, a quarter and so on"  # each once in a row: halfway between what rounding gives
    triangle = "zeros on one side of the diagonal"  # of square matrices
    limits = (
        "exactly at limits"  # of one activation: numbers that the reference names, and those of torch's own functions
    )
    faint = "faint rows"  # half of all, and nothing else, beside an epsilon that is small too
    magnitudes = "of every magnitude"  # of one input: each exponent of the dtype up to the case's ``reach``


DATA = (Special.levels, Special.mask, Special.ramp, Special.unit, Special.shares)
FAR_OF_MASKS = (Special.masked, Special.partly, Special.down)
FAR_DATA = (Special.bytes, *FAR_OF_MASKS)  # each has a case of its own


class Indices(StrEnum):
    """Which whole numbers are drawn, and how a mask's truth values lie."""

    spread = "spread"
    duplicates = "duplicate indices"  # two of them; a mask is dense or sparse
    one = "one index"  # everywhere; of a mask one element of each row
    ends = "first and last index"  # a mask ends somewhere in each row
    ignored = "ignored classes"  # a mask begins somewhere in each row
    padded = "ignored classes at one end"  # most rows, from the first on or up to the last
    nothing = "ignored classes alone"  # some rows of a mask are all false, some all true
    ascending = "indices in order"  # each its own place, as of positions and pairs; a mask is causal
    ordered = "sorted indices"  # as of segments
    best = "indices of the largest"  # of the row of another input, as of a model that is right


class Relation(StrEnum):
    """What two inputs have to do with each other."""

    close = "close to each other"  # in all rows, which a loss adds up
    by_rows = "close, equal or opposite to each other by rows"
    multiple = "one a multiple of the other, or what a dropout leaves of it"
    circle = "cosines and sines of the same angles"
    apart = "views of one tensor, some rows apart"
    transposed = "one matrix and its transpose"
    equal = "equal"


@dataclass(frozen=True)
class Case:
    """One set of inputs to be computed; ``seed`` is secret and never leaves the parent."""

    name: str
    sizes: tuple[tuple[str, int], ...]
    dtype: str
    seed: int
    scalars: tuple[tuple[str, Scalar], ...] = ()
    layout: str = MemoryLayout.dense  # of at least one input; where it is not dense, the others are drawn from ``seed``
    upstream: str = MemoryLayout.dense
    gradients: Upstream = Upstream.normal
    indices: Indices = Indices.spread
    special: Special = Special.none
    limits: tuple[float, ...] = ()  # each at most once in a row and in a column
    faint: float = 0.0  # the size of the elements of a faint row; zero: a usual share of the others'
    wild: bool = False  # weights of any sign and magnitude, some of them zero; activations of any scale
    plain_init: bool = False  # parameters exactly as ``init`` says, without noise
    again: bool = False  # second backward, and two forwards before two backwards
    narrow_grad: bool = False  # only the first input wants a gradient
    measured: bool = False  # one of the problem's own workloads
    content: Content = Content.ordinary
    reach: float = 0.0  # of large content
    among: tuple[str, ...] = ()  # inputs that hold the odd content; empty: every one that can
    may_raise: bool = (
        False  # beyond the problem's own workloads, by a whole scalar or a size: a candidate may refuse it
    )
    aligned: bool = False  # every tensor begins at a multiple of 16 bytes
    odd_upstream: bool = False  # of odd content: it is the upstream gradients that hold it
    odd_element: float = (
        0.0  # of odd content of vectors beside other inputs: what one element is; zero: each kind of it
    )
    same: tuple[str, ...] = ()  # inputs that are one tensor
    related: tuple[str, ...] = ()  # two inputs, by this relation
    relation: Relation = Relation.close
    rows_apart: int = 1  # of two views of one tensor
    echoes: bool = False  # the upstream gradient of each output is the output, as half of its square as a loss gives
    given_back: str = (
        ""  # an input that is the upstream gradient of outputs of its form, as the sum of their product gives
    )
    one_upstream: bool = False  # outputs of one form have one tensor as their upstream gradient, as their sum gives
    packed: tuple[str, ...] = ()  # inputs that are parts of one tensor, in this order, as ``chunk`` gives them
    packed_along: int = -1  # its last dimension, or its first
    zero: str = ""  # a weight that is zero throughout, as some begin their training
    far: str = ""  # a weight of which some elements are far out, of either sign: an exponential of these is no number
    is_above: bool = False  # these alone are above zero, as of a variance
    faint_weight: str = ""  # a weight of tiny numbers
    weights: str = ""  # their dtype, where it is another one than that of the other inputs
    mixed: tuple[str, ...] = ()  # activations of another dtype than the first one, which is ``beside``
    beside: str = ""
    gpu: str = ""  # where given, host code that asks about the device is told of this one, with so many
    multiprocessors: int = 0
    compiling: bool = False  # host code is told that torch.compile traces it
    dimensions: int = 0  # of tensors, so many more than the problem names; ``verify.ranks``
    spare: tuple[tuple[tuple[str, Scalar], ...], ...] = ()  # other scalars, where the reference refuses these

    @property
    def size_of(self) -> dict[str, int]:
        """The sizes by dimension."""
        return dict(self.sizes)

    @property
    def overlaps(self) -> bool:
        """Say whether elements of inputs may share their memory with others."""
        views = self.related and self.relation in (Relation.apart, Relation.transposed)
        return bool(self.same or views) or self.layout in OVERLAPPING

    def label(self) -> str:
        """The case in one line, such as ``T=7 I=129 float32, rows apart``."""
        parts = [f"{name}={size}" for name, size in self.sizes]
        parts += [f"{name}={value}" for name, value in self.scalars]
        notes = [text for text, there in self._notes() if there]
        return " ".join([*parts, self.dtype]) + "".join(f", {note}" for note in notes)

    def _notes(self) -> tuple[tuple[str, bool], ...]:
        return (
            (_WORDS.get(self.layout, ""), self.layout in _WORDS),
            (f"upstream {_WORDS.get(self.upstream, '')}", self.upstream in _WORDS),
            (f"upstream: {self.gradients}", self.gradients is not Upstream.normal),
            (self.indices, self.indices is not Indices.spread),
            (self.special, bool(self.special)),
            ("drawn scales", self.wild),
            ("gradient of the first input only", self.narrow_grad),
            (f"values up to {self.reach:.3g}", bool(self.reach)),
            ("infinities and NaN in some rows", self.holds_odd_rows),
            (f"an element of {' and '.join(self.among)} is {self.odd_element}", bool(self.odd_element)),
            ("infinities and NaN in the upstream gradient", self.odd_upstream),
            (f"{' and '.join(self.same)} the same tensor", bool(self.same)),
            (f"{' and '.join(self.related)} {self.relation}", bool(self.related)),
            ("each output its own upstream gradient", self.echoes),
            (f"{self.given_back} the upstream gradient", bool(self.given_back)),
            (f"{' and '.join(self.packed)} parts of one tensor", bool(self.packed)),
            (f"{self.zero} zero throughout", bool(self.zero)),
            (f"elements of {self.far} far out", bool(self.far)),
            (f"{self.faint_weight} of tiny size", bool(self.faint_weight)),
            (f"weights in {self.weights}", bool(self.weights)),
            (f"{' and '.join(self.mixed)} in {self.beside}", bool(self.mixed)),
            (f"as on {self.multiprocessors} multiprocessors of an {self.gpu}", bool(self.gpu)),
            ("as while torch.compile traces", self.compiling),
            (f"dimensions more: {self.dimensions}", self.dimensions > 0),
            ("one dimension fewer", self.dimensions < 0),
        )

    def gentler(self) -> Iterator[Case]:
        """The case with tamer values, for a reference that gives no numbers: without special rows, with usual scales."""
        if self.indices is Indices.nothing:
            yield replace(self, indices=Indices.padded)
        if self.related:
            yield replace(self, related=())
        if self.far and not self.is_above:
            yield replace(self, is_above=True)
        if self.far:
            yield replace(self, far="")
        if self.special in FAR_OF_MASKS:
            yield replace(self, special=Special.filled)
        if self.special:
            yield replace(self, special=Special.none)
        if self.wild:
            yield replace(self, special=Special.none, wild=False)
        if self.layout in (
            MemoryLayout.broadcast,
            MemoryLayout.level,
        ):  # the variance of equal elements is what rounding leaves
            yield replace(self, special=Special.none, wild=False, layout=MemoryLayout.apart)
        if self.gradients is Upstream.large:
            yield replace(self, gradients=Upstream.normal)

    @property
    def may_vanish(self) -> bool:
        """Whether results that are all zero are taken too: at the end of its range a share may leave nothing."""
        return self.name == _AT_AN_END

    @property
    def holds_odd_rows(self) -> bool:
        """Whether rows of inputs hold what is not finite."""
        return self.content is Content.odd and not (self.odd_upstream or self.odd_element)

    @property
    def is_empty(self) -> bool:
        """Whether a dimension has no element."""
        return not all(size for _, size in self.sizes)


_WORDS: dict[str, str] = {
    MemoryLayout.apart: "rows apart",
    MemoryLayout.slices: "slices apart",
    MemoryLayout.inner_slices: "inner slices apart",
    MemoryLayout.shifted: "at an odd offset",
    MemoryLayout.permuted: "dimensions permuted",
    MemoryLayout.sliced: "columns sliced",
    MemoryLayout.broadcast: "stride zero in one dimension",
    MemoryLayout.level: "stride zero along the columns",
    MemoryLayout.windows: "overlapping rows",
    MemoryLayout.expanded: "expanded",
    MemoryLayout.ones: "of exactly one",
    MemoryLayout.scaled: "of a loss scale",
    MemoryLayout.full: "of ones",
}


def plan_cases(
    problem: Problem,
    dtypes: tuple[str, ...],
    workloads: tuple[Workload, ...],
    *,
    interpreted: bool,
    quick: bool,
    draws: Draws,
    beside: bool = False,
    multiples: tuple[Multiple, ...] = (),
    numbers: WrittenNumbers = NO_NUMBERS,
) -> tuple[Case, ...]:
    """The cases, small ones first, drawn from ``draws`` and around the candidate's own ``numbers``, those of branches first.

    Sizes have each of the remainders by their divisors. Beyond the largest of the grouped ones, where the host can run it, lies one
    size of each dimension of rows, and of a candidate that asks for zero each is empty once.

    A candidate that is judged ``beside`` an original meets one of the problem's own workloads even where it is quick. The scalars
    in ``multiples`` are moved, with the sizes that they divide.
    """
    plan = _Plan(problem, dtypes, workloads[0], interpreted, quick, draws, multiples, numbers)
    cases = plan.small()
    if not quick:
        cases += plan.measured(dtypes, workloads)
    elif beside:
        # On a GPU in the dtype that is measured and with all columns: some originals are another function there, as at ties.
        measured = plan.measured(dtypes[:1] if interpreted else dtypes, workloads[-1:])
        cases += [replace(case, sizes=_halved_rows(problem, case.size_of)) for case in measured]
    limit = INTERPRETED_ELEMENTS if interpreted else GPU_ELEMENTS
    fitted = [case if case.name in _FITTED else _fitted(problem, case, limit) for case in cases]
    if interpreted:
        fitted = [case if case.name in _FITTED else replace(case, sizes=_lightened(case.size_of)) for case in fitted]
    found = [replace(case, sizes=_with_values(problem.inputs, case.sizes)) for case in fitted]
    return tuple(replace(case, seed=draws.seed(f"case {place}")) for place, case in enumerate(found))


_BOUNDARY = "around a constant"
_SECOND_TIME, _POWER, _WIDE, _EQUAL = (
    "drawn, a second time",
    "next to a power of two",
    "wider than one block",
    "all equal",
)
_WHOLE = "whole tiles"
_ALL_LARGE = "all dimensions large"
_OF_TILES = (_WHOLE, _ALL_LARGE)
_AT_AN_END = "scalars at an end"
_SMALL_EPSILON = "small epsilon"
_NO_EPSILON = "epsilon of zero"
_DIVIDED = "other divisors"
_MANY_ROWS = "many rows"
_NOT_FINITE = "not finite"
_ODD_VECTOR = "not finite in a vector"
PADDED_ROW = "a row of a padded tensor"
EVEN = "matrices of even rows"
_ODD_AND_WIDE = "not finite, beyond a cut"
_BEYOND_AN_AXIS = "more rows than an axis"
_SPECIAL, _SPECIAL_COLUMNS, _WILD = "special rows", "special columns", "drawn scales"
_SPECIAL_DOWN = "special rows along a dimension of rows"
_USUAL_SCALARS = (
    _SPECIAL,
    _SPECIAL_COLUMNS,
    _SPECIAL_DOWN,
    _WILD,
    _BEYOND_AN_AXIS,
)  # a large epsilon hides what small rows show
_DEALT_INDICES = tuple(
    kind for kind in Indices if kind is not Indices.ascending
)  # which have a case with room for them
_NOT_DEALT = (_SECOND_TIME, _SPECIAL, _SPECIAL_COLUMNS, _SPECIAL_DOWN, _WILD, _SMALL_EPSILON, _BEYOND_AN_AXIS)
# Small from the start; half of a size that a scalar divides may not be divided by it.
_FITTED = (_BOUNDARY, _DIVIDED, _MANY_ROWS, _BEYOND_AN_AXIS, _ODD_AND_WIDE)


def beyond_reach(problem: Problem, constants: Collection[int], *, interpreted: bool) -> dict[str, int]:
    """By dimension the largest size that the host runs, where the candidate has a constant of at least that."""
    reach = {dim: _most(problem, dim, interpreted) for dim in _named(problem)}
    return {dim: most for dim, most in reach.items() if any(value >= most for value in constants)}


@dataclass(frozen=True)
class _Plan:
    problem: Problem
    dtypes: tuple[str, ...]
    workload: Workload
    interpreted: bool
    quick: bool
    draws: Draws
    multiples: tuple[Multiple, ...]
    numbers: WrittenNumbers

    def small(self) -> list[Case]:
        """Every case but those of the problem's own workloads."""
        cases = self._drawn()
        cases += self._around_constants()
        cases += self._edges()
        cases += self._extremes()
        if not self.quick:
            cases += [*self._wide(), *self._beyond_together()]
        cases = self._on_other_gpus([*self._covered(self._with_scalars(cases)), *self._of_slices()])
        return cases + self._divided() + ([] if self.quick else self._complete(cases, self._related()))

    def measured(self, dtypes: tuple[str, ...], workloads: tuple[Workload, ...]) -> list[Case]:
        """The problem's own workloads; a GPU runs each at its full size."""
        cases = []
        for workload in workloads[:4]:
            sizes = _scaled(self.problem, dict(workload.sizes)) if self.interpreted else dict(workload.sizes)
            wanted = (workload.dtype,) if workload.dtype else dtypes
            # A GPU proves the full size once, in the dtype that is measured; the small sizes prove the other ones.
            at_size = wanted[:1] if not self.interpreted else wanted
            if not self.interpreted and "bfloat16" in wanted:
                at_size = ("bfloat16",)
            cases += [
                Case("workload", tuple(sizes.items()), dtype, 0, workload.scalars, plain_init=at == 0, measured=True)
                for at, dtype in enumerate(at_size)
            ]
        measured: dict[Case, Case] = {}
        for case in cases:  # scaled down, workloads that differ in size alone are one case
            measured.setdefault(replace(case, plain_init=False), case)
        return list(measured.values())

    def _case(self, name: str, sizes: Mapping[str, int], dtype: str | None = None, **more: object) -> Case:
        case = Case(name, tuple(sizes.items()), dtype or self.dtypes[0], 0, self.workload.scalars)
        return replace(case, **more)  # type: ignore[arg-type]

    def _sizes(
        self, label: str, columns: tuple[int, int], rows: tuple[int, int] = (2, 14), wide: str | None = None
    ) -> dict[str, int]:
        """Sizes of every dimension: one of the columns from a range, by chance which one, the other dimensions small."""
        stream, along = self.draws.stream(f"sizes {label}"), columns_of(self.problem)
        wide = wide or (stream.choice(along) if along else None)
        down = [dim for dim in _named(self.problem) if dim not in along]
        deep = stream.choice(down) if down else None
        if not along and stream.random() < LONG:  # a loop may go along any dimension
            rows = LONG_ROWS
        sizes = {}
        for dim in _named(self.problem):
            low, high = columns if dim == wide else (5, 41) if dim in along else rows if dim == deep else (2, 5)
            sizes[dim] = round(math.exp(stream.uniform(math.log(low), math.log(high))))
        return sizes

    def _drawn(self) -> list[Case]:
        cases = []
        for dtype in self.dtypes[: 1 if self.quick else None]:
            sizes = self._sizes(f"small {dtype}", (33, 220), (5, 14))
            cases.append(self._case("drawn", sizes, dtype, again=True))
            if not self.quick:
                sizes = self._sizes(f"medium {dtype}", (180, 700), (3, 9))
                cases.append(self._case("drawn", sizes, dtype))
        if not self.quick:
            # An answer that is remembered by shape is wrong on other values of the same sizes.
            cases.insert(1, replace(cases[0], name=_SECOND_TIME, again=False))
            # Nothing cancels at sizes like these (``truth.LEAST_ORDINARY``): here arithmetic is exact but for its last bits.
            # Its elements are enough to tell by, also where half of them are zero.
            sizes = {dim: max(size, 5) for dim, size in self._sizes("narrow", (64, 90), (16, 28)).items()}
            cases.append(self._case("first gradient only", sizes, self._most_exact(), narrow_grad=True))
            ratios = iter(self.draws.stream("ratios").sample(RATIOS, len(RATIOS)))
            sizes = self._in_proportion(self._sizes("special columns", (64, 200), MORE_SPECIAL_ROWS), 4)
            cases.append(self._case(_SPECIAL_COLUMNS, sizes, self._most_exact()))
            for dtype in self.dtypes:
                sizes = self._with_room(self._sizes(f"special {dtype}", (64, 200), SPECIAL_ROWS))
                ratio = next(ratios, None)
                sizes = sizes if ratio is None else self._in_proportion(sizes, ratio)
                cases.append(self._case(_SPECIAL, sizes, dtype))
                cases.append(self._case(_WILD, self._sizes(f"wild {dtype}", (64, 200), (3, 9)), dtype))
        return cases

    def _in_proportion(self, sizes: dict[str, int], ratio: int) -> dict[str, int]:
        """So many times as many columns as rows."""
        along = columns_of(self.problem)
        down = [dim for dim in sizes if dim not in along]
        if not along or not down:
            return sizes
        wide, deep = max(along, key=lambda dim: sizes[dim]), max(down, key=lambda dim: sizes[dim])
        return sizes | {wide: ratio * sizes[deep]}

    def _with_room(self, sizes: dict[str, int]) -> dict[str, int]:
        """At least so many indices that those in order show, and as many values for them."""
        stream, fewest = self.draws.stream("room"), SPECIAL_ROWS[0]
        for spec in self.problem.inputs:
            if isinstance(spec.high, str) and spec.dims and not spec.dims[-1].isdigit():
                count = max(sizes[spec.dims[-1]], fewest)
                sizes = sizes | {spec.dims[-1]: count, spec.high: max(sizes[spec.high], count + stream.randint(0, 4))}
        return sizes

    def _most_exact(self) -> str:
        return "float32" if "float32" in self.dtypes else self.dtypes[0]

    def _edges(self) -> list[Case]:
        """Single columns and rows, and sizes next to a power of two."""
        problem, stream = self.problem, self.draws.stream("edges")
        along, named = columns_of(problem), _named(problem)
        single = {dim: 1 if dim in along else size for dim, size in self._sizes("single", (2, 3), (3, 9)).items()}
        cases = [self._case("single column", single)]
        steps = [1] if self.quick else [-1, 0, 1]
        stream.shuffle(steps)
        for step in steps:
            power = 2 ** stream.randint(5 if step else 8, 9) + step
            sizes = self._sizes(f"power {step}", (power, power))
            if not step:  # whole tiles alone: kernels may load them without masks
                rows = EVEN_ELEMENTS // power
                sizes = self._sizes("whole tiles", (power, power), (rows, rows))
            if self.interpreted or sizes:
                cases.append(self._case(_POWER if step else _WHOLE, sizes))
        if self.quick:
            return cases
        # More rows than a persistent kernel has programs: what is left to torch to add up grows with them.
        # And positions along each of them, of which a kernel may hold a table or count blocks.
        down = [dim for dim in named if dim not in along]
        for dim in stream.sample(down, min(len(down), MANY_CASES)):
            few = dict.fromkeys(down, 2)  # of one, each row of what is reduced along this one would be the first of it
            many = stream.randint(2**8 + 1, INTERPRETED_DEEPEST) if self.interpreted else stream.randint(600, 2000)
            sizes = self._sizes(f"many {dim}", (5, 9)) | few | {dim: many}
            cases.append(self._case(_MANY_ROWS, sizes))
        if len(down) == 1 and not self.interpreted:
            sizes = self._sizes("most rows", (5, 9), BEYOND_AN_AXIS)
            cases.append(self._case(_BEYOND_AN_AXIS, sizes, may_raise=True))
        flat = {dim: size if dim in along else 1 for dim, size in self._sizes("row", (30, 130)).items()}
        cases += [self._case("single row", flat, dtype, again=True) for dtype in self.dtypes]
        cases.append(self._case("all ones", dict.fromkeys(named, 1)))
        for dim in self._compared_down():  # along which special rows are one element of many
            sizes = self._sizes(f"special along {dim}", (5, 9)) | {dim: max(self._within_pairs) + stream.randint(1, 4)}
            cases.append(self._case(_SPECIAL_DOWN, sizes))
        if len(named) > 1:  # dimensions that are taken for one another
            cases.append(self._case(_EQUAL, self._equal(stream)))
        return cases

    def _equal(self, stream: random.Random) -> dict[str, int]:
        """One size for every dimension, of which the interpreter has no more rows than of any other case."""
        sizes = dict.fromkeys(_named(self.problem), stream.randint(17, 33))
        while sizes and self.interpreted and _rows_at(self.problem, sizes) > INTERPRETED_DEEPEST:
            sizes = dict.fromkeys(sizes, max(sizes.values()) - 1)
        return sizes

    def _extremes(self) -> list[Case]:
        cases = []
        if any(holds_extremes(spec) for spec in self.problem.inputs):
            for dtype in self.dtypes[: 1 if self.quick else None]:
                # In float16 gradients overflow as well: in enough rows for some to do so.
                rows = (11, 14) if dtype == "float16" else (6, 9)
                sizes = self._sizes(f"large {dtype}", (70, 160), rows)
                cases.append(self._case("large values", sizes, dtype, content=Content.large))
        if cases and not self.quick:  # wide rows may be computed by other kernels, in another way
            sizes = self._sizes("large and wide", WIDE, (6, 9))
            cases.append(self._case("large values", sizes, self._most_exact(), content=Content.large))
        if not self.quick and any(holds_extremes(spec) for spec in self.problem.inputs):
            # So wide that whole blocks of a row may be minus infinity; and as narrow, or as wide, as other kernels take them.
            for columns, dim in itertools.product(((4100, 6000), NARROW), columns_of(self.problem)[:2] or (None,)):
                sizes = self._sizes(f"odd {columns} {dim}", columns, (10, 10), dim)
                cases.append(self._case(_NOT_FINITE, sizes, content=Content.odd))
            for dim, size in self._beyond_cuts(self.draws.stream("odd cuts"))[:1]:
                sizes = self._sizes(f"odd {dim}", (1, 1), (10, 10)) | dict.fromkeys(columns_of(self.problem), 1)
                may_raise = self._is_beyond_use(dim, size)
                wide = self._with_ten_rows(dim, sizes | {dim: size})
                most = 10 * size * _fixed(self.problem.inputs) if self.interpreted else GPU_ELEMENTS
                for each in (
                    wide,
                    self._two_rows_beside(dim) | {dim: size},
                ):  # what hangs on NaN is followed in few elements
                    case = self._case(_ODD_AND_WIDE, each, content=Content.odd, may_raise=may_raise)
                    cases.append(_fitted(self.problem, case, most))
            for dim in self._compared_down():
                sizes = self._sizes(f"odd along {dim}", (5, 9)) | {dim: max(self._within_pairs) + 1}
                cases.append(self._case(_NOT_FINITE, sizes, content=Content.odd))
        cases += [] if self.quick else [*self._odd_vectors(), *self._odd_down()]
        if not self.quick and any(spec.grad for spec in self.problem.inputs):
            # Loss scaling and anomaly detection look for these; no input holds any.
            sizes = self._sizes("odd upstream", (33, 90), (12, 14))
            odd = self._case("upstream not finite", sizes, content=Content.odd)
            cases.append(replace(odd, odd_upstream=True, among=("",)))
        return cases

    def _odd_vectors(self) -> list[Case]:
        """An infinity in a vector or number beside other inputs, as of a last bound; and NaN in it, as of a weight that is lost."""
        deep = any(len(spec.dims) > 1 for spec in self.problem.inputs)
        able = [spec.name for spec in self.problem.inputs if deep and len(spec.dims) < 2 and is_real(spec)]
        stream, cases = self.draws.stream("odd vectors"), []
        for name in stream.sample(able, min(len(able), MOST_ODD_VECTORS)):
            for element in (math.inf, math.nan):
                sizes = self._sizes(f"{element} in {name}", (33, 90), (5, 14))
                case = self._case(_ODD_VECTOR, sizes, self._most_exact(), content=Content.odd, odd_element=element)
                cases.append(replace(case, among=(name,)))
        return cases

    def _odd_down(self) -> list[Case]:
        """Slices down another dimension than the last that are minus infinity throughout, as what a mask leaves nothing of."""
        if not any(holds_extremes(spec) and len(spec.dims) > 1 for spec in self.problem.inputs):
            return []
        sizes = self._sizes("odd down", (5, 14), (33, 90))
        return [self._case(_NOT_FINITE, sizes, self._most_exact(), content=Content.odd, special=Special.down)]

    def _two_rows_beside(self, column: str) -> dict[str, int]:
        """Sizes with which an input of these columns that holds extremes has two rows, of which the second is not finite."""
        rows = [spec.dims[:-1] for spec in self.problem.inputs if holds_extremes(spec) and spec.dims[-1] == column]
        two = next((dim for dims in rows for dim in reversed(dims) if not dim.isdigit()), None)
        return {dim: 2 if dim == two else 1 for dim in _named(self.problem)}

    def _with_ten_rows(self, dim: str, sizes: dict[str, int]) -> dict[str, int]:
        """Less of all but the largest dimension beside this one: in the interpreter, which computes much for each place."""
        while self.interpreted and math.prod(sizes.values()) > 10 * sizes[dim]:
            smallest = min(
                (other for other in sizes if other != dim and sizes[other] > 1), key=lambda other: sizes[other]
            )
            sizes = sizes | {smallest: sizes[smallest] - 1}
        return sizes

    def _wide(self) -> list[Case]:
        """Wider than the blocks of most kernels, in each of the first two column dimensions."""
        cases = []
        # Beyond the largest number there that something is compared with, in one dtype.
        cut = max((value for value in self.numbers.compared if LEAST_WIDE <= value < WIDEST_DRAWN), default=LEAST_WIDE)
        # In each dtype a part of the range, so that one is twice as wide as most blocks: kernels may pair the halves of a row.
        parts = self.draws.stream("wide").sample(range(len(self.dtypes)), len(self.dtypes))
        step = math.log(WIDEST_DRAWN / LEAST_WIDE) / len(self.dtypes)
        for place, dim in enumerate(columns_of(self.problem)[:2]):
            for part, dtype in zip(parts, self.dtypes, strict=True):
                label, least = f"wide {place} {dtype}", math.log(LEAST_WIDE) + part * step
                width = round(math.exp(self.draws.stream(label).uniform(least, least + step)))
                if dtype == self.dtypes[0] and width <= cut:
                    width = self.draws.stream(f"beyond {label}").randint(cut + 1, WIDEST_DRAWN)
                sizes = self._narrowed(self._sizes(label, (9, 40), (2, 3)) | {dim: width}, dim)
                # What is saved for a backward is tried twice where it is wide too.
                cases.append(self._case(_WIDE, sizes, dtype, again=not place and dtype == self._most_exact()))
        return cases

    def _narrowed(self, sizes: dict[str, int], dim: str) -> dict[str, int]:
        """Halve the other dimensions, the larger ones first, until the interpreter takes the inputs as they are."""
        while self.interpreted and not _is_light(self.problem, sizes):
            others = [other for other in sizes if other != dim and sizes[other] > 1]
            if not others:
                return sizes
            largest = max(others, key=lambda other: sizes[other])
            sizes = sizes | {largest: sizes[largest] // 2}
        return sizes

    def _around_constants(self) -> list[Case]:
        """In each dimension one size beyond the largest constant that the host can run, and sizes at and next to others.

        Of rows it goes beyond twice as much: what a loop over blocks carries on is first used as it was changed in the third.
        """
        stream, along = self.draws.stream("constants"), columns_of(self.problem)
        far, near = [], []
        for dim in _named(self.problem):
            most = _most(self.problem, dim, self.interpreted)
            within = sorted(value for value in self.numbers.constants if value < most)
            if not within:
                continue
            last = within[-1]
            more = stream.randint(1, max(1, last // 2)) if dim in along else stream.randint(last + 1, 3 * last)
            far.append((dim, min(most, last + more)))
            near += [
                (dim, size) for value in within for size in (value - 1, value, value + 1, 2 * value) if size <= most
            ]
        stream.shuffle(far)
        far = self._beyond_cuts(stream) + far
        picked = far[: QUICK_BOUNDARIES if self.quick else None]
        if not self.quick:
            picked += self._beyond_groups(stream) + self._with_remainders(stream)
            count = (INTERPRETED_BOUNDARIES if self.interpreted else BOUNDARIES) - len(far)
            picked += _spread(near, max(0, count), columns_of(self.problem), self._branches(), stream)
            if len(_named(self.problem)) == 1:  # each case is one row, and what one row gives is one number
                picked += self._beyond_cuts(stream)
        return [self._boundary(dim, size, stream) for dim, size in dict.fromkeys(picked)]

    def _beyond_cuts(self, stream: random.Random) -> list[tuple[str, int]]:
        """Columns beyond the interpreter's usual ones, the most of them first, where code branches or cuts there.

        What is done by blocks of that many has three of them: the third shows whether the second was taken again.
        """
        sizes = []
        for dim in columns_of(self.problem)[:2] if not self.quick else ():
            least = _most(self.problem, dim, interpreted=True)
            cuts = sorted(
                (value for value in self.numbers.compared if least <= 2 * value <= 2 * LARGEST_CUT), reverse=True
            )
            # So far beyond that of some rows the largest element lies there.
            sizes += [(dim, 2 * cut + stream.randint(1, cut // 2)) for cut in cuts[:MOST_CUTS]]
        return sizes

    def _beyond_groups(self, stream: random.Random) -> list[tuple[str, int]]:
        """Sizes at which a second group of programs begins, of rows beyond what the interpreter takes row by row."""
        within = [value for value in self.numbers.grouped if value <= DEEPEST_OF_TILES]
        down = [dim for dim in _named(self.problem) if dim not in columns_of(self.problem)]
        if not self.interpreted or not within or max(within) < INTERPRETED_DEEPEST:
            return []
        return [(dim, max(within) + stream.randint(1, max(within) // 2)) for dim in down[:1]]

    def _with_remainders(self, stream: random.Random) -> list[tuple[str, int]]:
        """Sizes that leave a remainder which code asks for, of divisors that usual sizes do not meet."""
        sizes = []
        for divisor, rest in self.numbers.remainders:
            for dim in _named(self.problem) if divisor >= LEAST_DIVISOR else ():
                times = (_most(self.problem, dim, self.interpreted) - rest) // divisor
                if times > 0:
                    sizes.append((dim, rest + divisor * stream.randint(1, min(times, MOST_TIMES))))
        return stream.sample(sorted(sizes), min(len(sizes), MOST_REMAINDERS))

    def _beyond_together(self) -> list[Case]:
        """Pairs of dimensions beyond what something is compared with; where tiles are multiplied, one that is wide too."""
        stream, named = self.draws.stream("together"), _named(self.problem)
        within = self._within_pairs
        if not (self.interpreted and within and len(named) > 1):
            return []
        cases = []
        if self.numbers.grouped:  # tiles in every direction, whichever of them are the output's
            side = int(INTERPRETED_WORK ** (1 / len(named)))
            cases.append(self._case(_ALL_LARGE, {dim: stream.randint(side * 7 // 8, side) for dim in named}))
        pairs = [*itertools.combinations(named, 2)]
        for at, pair in enumerate(
            stream.sample(pairs, min(len(pairs), PAIRS if self.numbers.grouped else PAIRS_BY_ROWS))
        ):
            large = {dim: max(within) + stream.randint(1, 32) for dim in pair}
            # More than one of each other: host code is told of few multiprocessors in such cases first.
            few = (2, 3) if self.numbers.grouped else (1, 2)
            sizes = {dim: large.get(dim, stream.randint(*few)) for dim in named}
            cases.append(self._case(_BOUNDARY, sizes, self.dtypes[-1 if at % PAIRS_BY_ROWS else 0]))
        if not self.numbers.grouped:
            return cases
        wide = max((value for value in self.numbers.compared if value <= WIDEST_OF_TILES), default=0)
        down = [dim for dim in named if dim not in columns_of(self.problem)] if wide else []
        for dim in down[-MANY_CASES:]:
            several = {other: stream.randint(9, 11) for other in [other for other in down if other != dim][-1:]}
            sizes = {other: stream.randint(1, 2) for other in named} | several | {dim: wide + stream.randint(1, 64)}
            cases.append(self._case(_BOUNDARY, sizes))
        return cases

    @property
    def _within_pairs(self) -> list[int]:
        """What is compared with, as far as two such dimensions are run; programs of products take tiles, others may take a row."""
        most = INTERPRETED_WORK if self.numbers.grouped else INTERPRETED_ELEMENTS // 2
        return [value for value in self.numbers.compared if value * value <= most]

    def _compared_down(self) -> list[str]:
        """Dimensions of rows that a kernel may compute in two ways, as where it reduces them: some of them."""
        down = [dim for dim in _named(self.problem) if dim not in columns_of(self.problem)]
        return down[:MANY_CASES] if self.interpreted and self._within_pairs and not self.numbers.grouped else []

    def _branches(self) -> frozenset[int]:
        return frozenset(size for value in self.numbers.compared for size in (value - 1, value, value + 1))

    def _is_beyond_use(self, dim: str, size: int) -> bool:
        """Whether a size is larger than in any workload: a kernel may refuse it."""
        return all(size > dict(workload.sizes)[dim] for workload in self.problem.workloads)

    def _boundary(self, dim: str, size: int, stream: random.Random) -> Case:
        may_raise = self._is_beyond_use(dim, size)
        is_beyond = self.interpreted and size > INTERPRETED_WIDEST
        few, along = ROWS_BEYOND_A_CUT if is_beyond else (1, 2), columns_of(self.problem)
        sizes = {other: stream.randint(*few) for other in _named(self.problem)} | {dim: max(1, size)}
        fixed = _fixed([spec for spec in self.problem.inputs if dim in spec.dims])
        least = size * (few[1] if is_beyond else 1) * fixed
        least = (
            min(least, INTERPRETED_WORK) if self.numbers.grouped else least
        )  # a product takes many operations for each place
        budget = max(INTERPRETED_WIDEST, least) if self.interpreted else GPU_ELEMENTS

        def is_large() -> bool:  # beyond a cut by what an answer may have, too, such as of each pair of rows
            most = max(_elements(spec, sizes) for spec in self.problem.inputs)
            return most > budget or (is_beyond and math.prod(sizes.values()) > budget)

        while is_large():
            # Columns first, but for two of them: a kernel for wide rows that meets one row alone decides nothing by it.
            larger = [other for other in reversed(sizes) if other != dim and sizes[other] > 1]
            if not larger:
                return _fitted(self.problem, self._case(_BOUNDARY, sizes, may_raise=may_raise), budget)
            sizes[max(larger, key=lambda other: (sizes[other] > 2, other in along, sizes[other]))] -= 1
        return self._case(_BOUNDARY, sizes, may_raise=may_raise)

    def _with_scalars(self, cases: list[Case]) -> list[Case]:
        """Other scalars in half of the cases, and cases of their own for whole ones and text, on which a kernel may raise.

        Where workloads have different scalars, each third case takes those of another workload than the first.
        """
        fixed = dict(self.workload.scalars)
        others = [dict(other.scalars) for other in self.problem.workloads if dict(other.scalars) != fixed]
        ruled = self._ruled()
        chosen, able = [], {spec.name for spec in self.problem.scalars} - set(fixed) - ruled
        turns = itertools.cycle((True, False))
        written = itertools.cycle(usual_numbers(self.draws.stream("usual numbers")))
        first = next((case for case in cases if case.name == "drawn"), None)
        large = next((case for case in cases if case.content is Content.large), None)
        for place, case in enumerate(cases):
            stream = self.draws.stream(f"scalars {place}")
            is_open = case not in (first, large) and case.name not in _USUAL_SCALARS
            is_open = (
                is_open and case.content is not Content.odd and case.name != _SECOND_TIME
            )  # which has those of the first
            base = stream.choice(others) if others and case is not first and place % 3 == 2 else fixed
            moved = moved_scalars(self.problem, able - set(base), stream) if is_open and place % 2 else {}
            is_usual = bool(moved) and next(turns)
            if is_usual:
                moved |= usual_scalar(self.problem, moved, next(written), stream)
            elif moved and case.sizes and stream.random() < OF_A_SIZE:
                _, size = stream.choice(case.sizes)
                moved |= usual_scalar(self.problem, moved, max(2, size) ** stream.choice((-1.0, -0.5)), stream)
            chosen.append(replace(case, scalars=tuple((base | moved).items())) if moved or base is not fixed else case)
        return chosen if self.quick else [*chosen, *self._of_other_scalars(fixed, able, ruled)]

    def _ruled(self) -> set[str]:
        """The scalars on which sizes hang."""
        return {name for rule in self.multiples for name in rule.scalars}

    def _of_slices(self) -> list[Case]:
        """Tensors of three dimensions and more whose first ones cannot be merged, which a kernel may refuse."""
        ranks = [len(spec.dims) for spec in self.problem.inputs if is_activation(spec)]
        if self.quick or max(ranks, default=0) < 3:
            return []
        case = self._case("slices", self._sizes("slices", (20, 90), (3, 9)), may_raise=True)
        layouts = [MemoryLayout.slices, MemoryLayout.inner_slices][: 1 + (max(ranks) > 3)]
        return [replace(case, layout=layout, upstream=layout) for layout in layouts]

    def _of_other_scalars(self, fixed: dict[str, Scalar], able: set[str], ruled: set[str]) -> list[Case]:
        """Cases of their own for whole numbers, texts, and floats that people write or that lie far out: a kernel may refuse most.

        What workloads say, ``fixed``, is one value of many too, but of ``ruled``, which sizes hang on.
        """
        made: list[Case] = []
        epsilons = usual_epsilons(self.problem, able)
        small = small_epsilons(self.problem, able, self.draws.stream("small epsilons"))
        able = able | set(fixed) - ruled
        flags = [spec.name for spec in self.problem.scalars if spec.name in able and isinstance(spec.default, int)]
        kinds = [*WHOLE, "near", *["near"] * (min(len(flags), MOST_FLAGS) - len(WHOLE))]
        often: Counter[str] = Counter()
        for place, kind in enumerate(kinds):
            stream = self.draws.stream(f"whole scalars {place}")
            tries = [moved_whole(self.problem, able, stream, drawn) for drawn in [kind] * 6 + ["near"] * 3]
            tries += [moved_whole(self.problem, [name], stream, kind) for name in flags]
            tries = sorted(filter(None, tries), key=lambda moved: often[next(iter(moved))])
            if tries:
                often.update(tries[0].keys())
                sizes = self._sizes(f"whole scalars {place}", (20, 90), (3, 9))
                given = [tuple((fixed | moved).items()) for moved in tries]
                case = self._case("other whole scalars", sizes, scalars=given[0], spare=tuple(given[1:]))
                made.append(replace(case, may_raise=True))
        for place, moved in enumerate(
            moved_of_workloads(self.problem, fixed, ruled, self.draws.stream("of workloads"))
        ):
            case = self._case("scalars beside", self._sizes(f"scalars beside {place}", (20, 90), (3, 9)))
            case = replace(case, scalars=tuple((fixed | moved).items()), spare=(tuple(fixed.items()),))
            made.append(replace(case, may_raise=True))
        words = other_words(self.problem, able)
        for place, moved in enumerate(moved_together(self.problem, able, words, self.draws.stream("together"))):
            sizes, dtype = self._sizes(f"together {place}", (33, 90), (3, 9)), self.dtypes[place % len(self.dtypes)]
            case = self._case("other scalars together", sizes, dtype, scalars=tuple((fixed | moved).items()))
            made.append(replace(case, spare=(tuple(fixed.items()),), may_raise=True))
        for place, word in enumerate(self.draws.stream("words").sample(words, min(len(words), MOST_WORDS))):
            sizes = self._sizes(f"words {place}", (33, 90), (3, 9))
            case = self._case("other words", sizes, scalars=tuple((fixed | word).items()))
            made.append(replace(case, may_raise=True))
        wide = [] if self.quick else [case.size_of for case in self._wide()[:1]]
        for place, end in enumerate(scalars_at_an_end(self.problem, able)):
            # Kernels for wide rows decide by scalars too.
            for sizes in (self._sizes(f"scalars at an end {place}", (20, 90), (3, 9)), *wide[: MOST_ENDS - place]):
                # The spare ones serve any reference.
                case = self._case(_AT_AN_END, sizes, scalars=tuple((fixed | end).items()))
                made.append(replace(case, spare=(tuple(fixed.items()),), may_raise=True))
        made += self._of_extreme_scalars(fixed, able)
        beyond = {
            f"scalars beyond {is_below}": functools.partial(scalars_beyond, is_below=is_below)
            for is_below in (True, False)
        }
        beyond |= {
            f"far scalars {is_small}": functools.partial(far_scalars, is_small=is_small) for is_small in (True, False)
        }
        for label, move in (beyond | {"whole for floats": whole_for_floats}).items():
            moves = move(self.problem, able, self.draws.stream(label))
            if moves:
                given = [tuple((fixed | moved).items()) for moved in (*moves, {})]
                case = self._case("scalars beyond", self._sizes(label, (20, 90), (3, 9)), scalars=given[0])
                made.append(replace(case, spare=tuple(given[1:]), may_raise=True))
        if none := no_epsilons(self.problem, able):
            case = self._case(_NO_EPSILON, self._sizes("no epsilon", (33, 200), (5, 9)), self._most_exact())
            made.append(replace(case, scalars=tuple((fixed | none).items()), spare=(tuple(fixed.items()),)))
        for place, moved in enumerate(epsilons):
            case = self._case("usual epsilon", self._sizes(f"usual epsilon {place}", (33, 200), (5, 9)))
            made.append(replace(case, scalars=tuple((fixed | moved).items()), spare=(tuple(fixed.items()),)))
        if small:
            sizes = self._sizes("small epsilon", (33, 200), (8, 14))
            case = self._case(_SMALL_EPSILON, sizes, self._most_exact(), scalars=tuple((fixed | small).items()))
            made.append(replace(case, spare=(tuple(fixed.items()),)))
        return made

    def _of_extreme_scalars(self, fixed: dict[str, Scalar], able: set[str]) -> list[Case]:
        """Large values, infinities and NaN where a scalar is at an end of its range; large ones also where it has the other sign.

        Shares and probabilities lie at the ends of their ranges there too.
        """
        if not any(map(holds_extremes, self.problem.inputs)):
            return []
        stream, cases = self.draws.stream("extreme scalars"), []
        ends, signs = (
            scalars_at_an_end(self.problem, able),
            scalars_beyond(self.problem, able, stream, is_below=True),
        )
        chosen = [(Content.large, moved) for moved in stream.sample(ends, min(len(ends), MOST_ENDS)) + signs[:1]]
        chosen += [(Content.odd, moved) for moved in stream.sample(ends, min(len(ends), MOST_ENDS))]
        special = Special.ends if any(map(is_ranged, self.problem.inputs)) else Special.none
        for place, (content, moved) in enumerate(chosen):
            is_large = content is Content.large
            sizes = self._sizes(f"extreme scalars {place}", (70, 160) if is_large else (33, 200), (10, 10))
            name, given = "large values" if is_large else _NOT_FINITE, tuple((fixed | moved).items())
            case = self._case(name, sizes, content=content, special=special, scalars=given)
            cases.append(replace(case, spare=(tuple(fixed.items()),), may_raise=True))
        return cases

    def _covered(self, cases: list[Case]) -> list[Case]:
        """Deal layouts, contents of rows, indices and upstream gradients out to the cases: each kind in turn, in a drawn order."""
        stream = self.draws.stream("kinds")
        layouts, upstream = _dealt(_LAYOUTS, stream), _dealt(UPSTREAM_LAYOUTS, stream)
        gradients, indices = _dealt(tuple(Upstream), stream), _dealt(_DEALT_INDICES, stream)
        has_whole = any(spec.high is not None or spec.dtype == "bool" for spec in self.problem.inputs)
        has_data = any(map(is_activation, self.problem.inputs))
        data = iter((Special.levels, *stream.sample(DATA[1:], len(DATA) - 1)))  # in float32 levels are seen to be such
        orders = iter((Indices.ascending,))
        dense = {*_for_dense_kernels(cases), *range(3, len(cases), 4)}
        covered, beyond = list[Case](), set[str]()
        for place, case in enumerate(cases):
            # Of one row or column most kinds are the same: each has its turn where it shows.
            shows = all(size > 1 for _, size in case.sizes)
            if case.name == _SECOND_TIME:
                special = next(data) if has_data else Special.none
                kind = next(indices) if has_whole else Indices.spread
                covered.append(replace(covered[0], name=case.name, again=False, special=special, indices=kind))
                continue
            if case.content is not Content.ordinary:
                # Kernels of their own for dense rows, narrow and wide, decide by what is not finite too.
                drawn = stream.choice((MemoryLayout.dense, MemoryLayout.apart))
                covered.append(replace(case, layout=MemoryLayout.dense if case.name == _NOT_FINITE else drawn))
                continue
            if place == 0:
                # The one case that trivial answers must fail: nothing in it is constant.
                layout, back = stream.choice(NEVER_CONSTANT), stream.choice(NEVER_CONSTANT)
                covered.append(replace(case, layout=layout, upstream=back))
                continue
            if case.name in (_SPECIAL, _SPECIAL_COLUMNS, _SPECIAL_DOWN, _WILD, _SMALL_EPSILON):
                layout, back = stream.choice(NEVER_CONSTANT), stream.choice(NEVER_CONSTANT)
                if has_whole and shows:
                    in_order = next(orders, None) if case.name == _SPECIAL else None
                    case = replace(case, indices=in_order or next(indices))
                    layout = (
                        MemoryLayout.sliced if in_order else layout
                    )  # many labels, all different, as a column of a table
                kinds = {_SPECIAL: self._rows_or_ends(), _SPECIAL_COLUMNS: Special.columns, _SPECIAL_DOWN: Special.rows}
                kinds[_SMALL_EPSILON] = Special.faint
                special = kinds.get(case.name, Special.none) if _rows_of(self.problem, case) > 1 else Special.none
                covered.append(
                    replace(
                        case,
                        layout=layout,
                        upstream=back,
                        may_raise=layout is MemoryLayout.shifted,
                        special=special,
                        wild=case.name == _WILD,
                    )
                )
                continue
            if case.name == "drawn" and not any(other.echoes for other in covered) and not self.quick:
                # What cancels where a gradient is an output is most of it for a norm: usual scales say what rounding leaves.
                layout = stream.choice(NEVER_CONSTANT)
                kind = next(indices) if has_whole else Indices.spread
                may_raise = layout is MemoryLayout.shifted
                covered.append(replace(case, layout=layout, echoes=True, may_raise=may_raise, indices=kind))
                continue
            if case.name == _BEYOND_AN_AXIS:
                # The gradient of what all rows share is a sum of few: one of all is as exact as the order of its terms.
                covered.append(replace(case, layout=stream.choice(NEVER_CONSTANT), gradients=Upstream.few_rows))
                continue
            is_beyond = self._is_beyond_a_cut(case)  # few rows, of which some must differ beyond the cut
            if not self.quick and place in dense:
                layout = of_upstream = MemoryLayout.dense
            elif is_beyond:
                layout, of_upstream = stream.choice(NEVER_CONSTANT), stream.choice(NEVER_CONSTANT)
            else:
                layout, of_upstream = next(layouts) if shows else stream.choice(_OF_ONE), next(upstream)
            dealt = replace(
                case,
                layout=layout,
                upstream=of_upstream,
                gradients=next(gradients),
                indices=self._dealt_indices(case, indices, stream) if has_whole else Indices.spread,
            )
            # Where constants cancel to nothing, only usual scales say how much of it rounding leaves.
            is_free = not {dealt.layout, dealt.upstream} & REPEATED
            is_special = is_free and _rows_of(self.problem, case) > 1 and stream.random() < OFTEN
            special = self._any_special(stream) if is_special else Special.none
            if is_beyond:
                special = Special.rows  # of which one rises, so that its largest element lies beyond the cut
            # What loads by hardware descriptors may demand alignment, and say so.
            may_raise = dealt.may_raise or dealt.layout is MemoryLayout.shifted
            wild = is_free and special is not Special.ends and stream.random() < OFTEN
            wild = wild and not self._is_first_beyond(case, beyond)
            if case.narrow_grad or case.name == _NO_EPSILON:
                special, wild = Special.none, False
                if dealt.layout in REPEATED:  # a norm's rows without variance
                    dealt = replace(dealt, layout=MemoryLayout.apart)
            one_upstream = place % 3 == 1
            covered.append(replace(dealt, special=special, wild=wild, may_raise=may_raise, one_upstream=one_upstream))
        covered = self._with_data(covered, list(data), stream) if has_data and not self.quick else covered
        return covered if self.quick else self._with_layouts(self._at_odd_offsets(covered))

    def _at_odd_offsets(self, cases: list[Case]) -> list[Case]:
        """Have all lie at odd offsets in a case of columns of which a compiler that is told it may loads several at once."""
        *_, place = (place for place, case in enumerate(cases) if case.name == _WILD)
        shifted = replace(cases[place], layout=MemoryLayout.shifted, upstream=MemoryLayout.shifted, may_raise=True)
        cases[place] = replace(shifted, sizes=evenly(self.problem, shifted))
        return cases

    def _dealt_indices(self, case: Case, kinds: Iterator[Indices], stream: random.Random) -> Indices:
        """A kind of indices: some are ignored where rows are wider than one block, none beyond a cut, where rows are few."""
        if self._is_beyond_a_cut(case):
            return Indices.spread
        if (case.name == _WIDE and case.again) or any(is_padding(name) for name in dict(case.scalars)):
            return Indices.ignored
        return next(kinds) if all(size > 1 for _, size in case.sizes) else stream.choice(tuple(Indices))

    def _is_beyond_a_cut(self, case: Case) -> bool:
        return self.interpreted and max(case.size_of.values(), default=0) > INTERPRETED_WIDEST

    def _is_first_beyond(self, case: Case, known: set[str]) -> bool:
        """Whether no case has had this long dimension: at drawn scales a softmax of a product may be one element."""
        longest = max(case.size_of, key=lambda dim: case.size_of[dim]) if self._is_beyond_a_cut(case) else ""
        is_first = bool(longest) and longest not in known
        known.add(longest)
        return is_first

    def _with_layouts(self, cases: list[Case]) -> list[Case]:
        """Have each layout of inputs in a case with room for it, in place of one that is there twice."""
        able = [
            place
            for place, case in enumerate(cases)
            if place
            and case.content is Content.ordinary
            and case.name not in _NOT_DEALT
            and not (case.echoes or case.narrow_grad)
            and all(size > 1 for size in case.size_of.values())
        ]
        # Other ways to call a function are tried on ordinary values with all gradients.
        usual = [case for case in cases if case.content is Content.ordinary and not case.narrow_grad]
        several = [case for case in usual if all(size > 1 for size in case.size_of.values())]
        shown = [case.layout for case in several]
        contents = Counter(case.special for case in several)
        kept = _for_dense_kernels(cases)  # with which alone a double backward is tried, too
        for layout in _LAYOUTS:
            double = [p for p in able if shown.count(cases[p].layout) > 1 and p not in kept]
            double.sort(key=lambda p: not _is_dense(cases[p]))
            fit = [p for p in double if layout not in REPEATED or cases[p].special not in (*DATA, Special.triangle)]
            spare = [p for p in double if contents[cases[p].special] > 1]  # its rows are like data, as another's are
            if layout not in shown and (fit or spare):
                place = (fit or spare)[-1]
                shown[shown.index(cases[place].layout)] = layout
                may_raise = cases[place].may_raise or layout is MemoryLayout.shifted
                special = cases[place].special if fit else Special.none  # what is repeated is not like data
                contents -= Counter() if fit else Counter([cases[place].special])
                cases[place] = replace(cases[place], layout=layout, may_raise=may_raise, special=special)
        return cases

    def _with_data(self, cases: list[Case], kinds: list[Special], stream: random.Random) -> list[Case]:
        """Have all rows of some cases be like data, of the dealt ones that have room for it and in which nothing is constant."""
        along = columns_of(self.problem)
        dealt = [
            place
            for place, case in enumerate(cases)
            if place and case.content is Content.ordinary and case.name not in _NOT_DEALT and not case.echoes
            if not self._is_beyond_a_cut(case)
        ]
        able = [
            place
            for place in (*dealt, *(place for place, case in enumerate(cases) if case.name == _WILD))
            if cases[place].name in (_POWER, _WHOLE, _WIDE, "drawn", _BOUNDARY, _WILD)
            and _rows_of(self.problem, cases[place]) > 1
            and max((cases[place].size_of[dim] for dim in along), default=LEAST_OF_DATA) >= LEAST_OF_DATA
        ]
        chosen = [(place, Special.triangle) for place in dealt if cases[place].name == _EQUAL]
        able.sort(key=lambda place: (cases[place].name == _WILD, len(_repeats(cases[place])), stream.random()))
        chosen += zip(able, kinds, strict=False)
        others = [place for place in dealt if place not in dict(chosen)]
        for place, kind in chosen:
            case = cases[place]
            for part in _repeats(case):  # another case takes it
                layouts = {at: getattr(cases[at], part) for at in others}
                at = next((at for at, layout in layouts.items() if layout not in REPEATED), None)
                new = stream.choice(NEVER_CONSTANT) if at is None else layouts[at]
                if at is not None:
                    usual = {"special": Special.none, "wild": False, part: getattr(case, part)}
                    cases[at] = replace(cases[at], **usual)
                case = replace(case, **{part: new})  # type: ignore[arg-type]
            may_raise = case.may_raise or case.layout is MemoryLayout.shifted
            cases[place] = replace(case, special=kind, wild=case.name == _WILD, may_raise=may_raise)
        return cases

    def _rows_or_ends(self) -> Special:
        return Special.rows if any(map(is_activation, self.problem.inputs)) else Special.ends

    def _any_special(self, stream: random.Random) -> Special:
        rows = Special.columns if stream.random() < OF_COLUMNS else self._rows_or_ends()
        return Special.ends if any(map(is_ranged, self.problem.inputs)) and stream.random() < 0.5 else rows

    def _on_other_gpus(self, cases: list[Case]) -> list[Case]:
        """Deal the GPUs out to usual cases that are not the first; one case more is as ``torch.compile`` calls it.

        In the interpreter a candidate may refuse what it does on a GPU alone. Of many rows there must be more than programs of a
        persistent kernel, or torch may add up all of them.
        """
        stream = self.draws.stream("devices")
        usual = [
            place
            for place, case in enumerate(cases)
            if place and case.content is Content.ordinary and case.name not in (_SECOND_TIME, _MANY_ROWS)
            if 1 not in case.size_of.values()
        ]
        gpus = stream.sample(list(GPUS.values()), QUICK_GPUS if self.quick else MOST_GPUS)
        # The last has all of its multiprocessors, which are many: code may ask for as many as large GPUs have.
        widest_gpu = max(range(len(gpus)), key=lambda at: gpus[at].multiprocessors)
        gpus[widest_gpu], gpus[-1] = gpus[-1], gpus[widest_gpu]
        if self.interpreted and not self.quick:
            gpus[FEW_PROCESSORS] = AMD  # a kernel for NVIDIA's GPUs alone must see few multiprocessors too
        places = stream.sample(usual, min(len(gpus), len(usual)))
        if places:
            # Dense ones, for a kernel that leaves all others to another one; whole tiles are two for one multiprocessor, and those
            # of an output that is large in all dimensions are more.
            dense = [place for place in usual if _is_dense(cases[place])]
            whole = [place for place in dense if cases[place].name in _OF_TILES]
            widest, *others = self._largest_by_width(cases, dense) + self._largest_by_width(cases, usual)
            largest = list(dict.fromkeys([widest, *whole, *others]))[:FEW_PROCESSORS]
            places = [*largest, *(place for place in places if place not in largest)][: len(places)]
        for at, (gpu, place) in enumerate(zip(gpus, places, strict=False)):
            # The first have so few that a persistent kernel has more blocks than programs.
            most = gpu.multiprocessors
            few = (1 if at else 2) if at < FEW_PROCESSORS else stream.choice((most, stream.randint(1, most)))
            few = most if gpu is gpus[-1] and not self.quick else few
            may_raise = cases[place].may_raise or self.interpreted
            cases[place] = replace(cases[place], gpu=gpu.name, multiprocessors=few, may_raise=may_raise)
        left = [place for place in usual if place not in places]
        plain = [place for place in left if _least_and_all(cases[place])[0] and not cases[place].special]
        if plain or left:
            place = stream.choice(plain or left)
            cases[place] = replace(cases[place], compiling=True)
        return cases

    def _largest_by_width(self, cases: Sequence[Case], places: Sequence[int]) -> list[int]:
        """Places of the largest cases first, one of each width: a kernel for narrow rows may leave the widest to another one."""
        columns = columns_of(self.problem)
        # Of one row a program has one block, on any GPU.
        left = sorted(places, key=lambda place: _least_and_all(cases[place]), reverse=True)
        widths = {place: math.prod(cases[place].size_of[dim] for dim in columns) for place in left}
        largest: list[int] = []
        for place in left:
            if not largest or widths[place] * NARROWER <= widths[largest[-1]]:
                largest.append(place)
        return largest + [place for place in left if place not in largest]

    def _related(self) -> list[Case]:
        """Elements in several places at once, one tensor for two inputs, parts of one, weights in another dtype, no rows."""
        stream, problem = self.draws.stream("related"), self.problem
        cases = []
        deep = sum(len(spec.dims) > 1 and not is_weight(spec) for spec in problem.inputs)
        for place, layout in enumerate((MemoryLayout.windows, *[MemoryLayout.level] * min(deep, 2)) if deep else ()):
            cases.append(self._case("repeated", self._sizes(f"repeated {place}", (33, 90), (5, 14)), layout=layout))
        for pair in sorted({names for names in _alike(problem) if len(names) > 1}):
            sizes = self._sizes(f"same {pair[0]}", (33, 90), (5, 14))
            cases.append(self._case("the same tensor twice", sizes, same=tuple(stream.sample(pair, 2))))
            sizes = self._sizes(f"packed {pair[0]}", (33, 90), (5, 14))
            parts = tuple(stream.sample(pair, min(len(pair), stream.choice((2, 2, 3)))))
            along = stream.choice((-1, -1, 0))
            cases.append(self._case("parts of one tensor", sizes, packed=parts, packed_along=along, may_raise=True))
            for apart in ROWS_APART:
                sizes = self._sizes(f"{apart} apart {pair[0]}", (33, 90), (5, 14))
                chosen = stream.sample(pair, 2)
                views = tuple(name for name in pair if name in chosen)
                case = self._case("views of one tensor", sizes, related=views, relation=Relation.apart)
                # Rows begin at multiples of 16 bytes, for who loads by hardware descriptors.
                cases.append(replace(case, sizes=evenly(problem, case), rows_apart=apart))
        for pair in sorted({names for names in _of_one_form(problem) if len(names) > 1}):
            sizes = self._sizes(f"close {pair[0]}", (64, 200), (8, 14))
            able = tuple(stream.sample(pair, 2))
            cases += [
                self._case(kind.name, sizes, self._most_exact(), related=able, relation=kind)
                for kind in (Relation.close, Relation.by_rows, Relation.multiple)
            ]
            tables = [spec.name for spec in problem.inputs if spec.name in pair and not spec.grad]
            sizes = self._sizes(f"circle {pair[0]}", (33, 90), (8, 14))
            able = tuple(tables) if len(tables) == 2 else able  # the first of them is the cosine, as people order them
            cases.append(self._case("circle", sizes, self._most_exact(), related=able, relation=Relation.circle))
        activations = [spec.name for spec in problem.inputs if is_activation(spec) and len(spec.dims) > 1]
        cases += self._far(activations, stream)
        for dtype in dict.fromkeys((self._most_exact(), *(dtype for dtype in self.dtypes if dtype == "float16"))):
            sizes = self._sizes(f"faint gradients {dtype}", (33, 90), (5, 14))
            cases.append(self._case("faint gradients", sizes, dtype, gradients=Upstream.small))
        for name in stream.sample(activations, min(len(activations), MOST_GIVEN_BACK)):
            sizes = self._sizes(f"given back {name}", (33, 90), (5, 14))
            cases.append(self._case("an input as upstream gradient", sizes, self._most_exact(), given_back=name))
        for pair in _of_other_rows(problem):
            case = self._case("close", self._equal(stream), self._most_exact(), related=pair, relation=Relation.close)
            cases.append(case)
        for pair in _transposable(problem):
            sizes = self._equal(stream)
            cases.append(self._case("transposed", sizes, related=pair, relation=Relation.transposed))
            sizes = self._equal(stream)
            cases.append(self._case("the same tensor twice", sizes, same=pair))
        cases += self._of_two_dtypes(stream)
        if weights := [spec.name for spec in problem.inputs if is_weight(spec) and spec.grad]:
            case = self._case("a weight of zero", self._sizes("zero", (33, 220), (5, 14)), self._most_exact())
            cases.append(replace(case, zero=stream.choice(weights)))
        cases += [*self._far_weights(), *self._magnitudes()]
        for pair in _weights_of_one_form(problem):
            sizes = self._sizes("equal weights", (33, 220), (5, 14))
            case = self._case("equal weights", sizes, self._most_exact(), related=pair, relation=Relation.equal)
            cases.append(case)
        columns = columns_of(problem)
        indexed = {
            spec.high for spec in problem.inputs if spec.high not in spec.dims
        }  # of none of them no index has a value
        down = [dim for dim in _named(problem) if dim not in columns and dim not in indexed]
        if down:
            drawn = stream.choice(down)
            for dim in [drawn, *(dim for dim in down if dim != drawn)][
                : MOST_EMPTY if self.numbers.asks_for_zero else 1
            ]:
                sizes = self._sizes(f"no {dim}", (33, 90)) | {dim: 0}
                cases.append(self._case("no rows", sizes, may_raise=True))
        for dim in [dim for dim in columns if dim not in indexed][:2]:
            sizes = self._sizes(f"no {dim}", (33, 90)) | {dim: 0}
            cases.append(self._case("no columns", sizes, may_raise=True))
        return cases

    def _far_weights(self) -> list[Case]:
        """Weights that are vectors, numbers or added, with elements far out: what an exponential is taken of, as of a decay or a
        gate; and weights of tiny numbers.

        Of a matrix an element far out makes a sum that the others are nothing beside.
        """
        weights = [spec for spec in self.problem.inputs if is_weight(spec)]
        able = [spec.name for spec in weights if len(spec.dims) < 2 or spec.init == "zeros"]
        stream = self.draws.stream("far weights")
        cases = [
            replace(
                self._case("a weight far out", self._sizes(f"far {name}", (33, 220), (5, 14)), self._most_exact()),
                far=name,
            )
            for name in stream.sample(able, min(len(able), MOST_FAR_WEIGHTS))
        ]
        for spec in (
            stream.sample(weights, min(len(weights), MOST_FAR_WEIGHTS)) if self._most_exact() == "float32" else ()
        ):
            case = self._case("a tiny weight", self._sizes(f"tiny {spec.name}", (33, 220), (5, 14)), "float32")
            cases.append(replace(case, faint_weight=spec.name))
        return cases

    def _magnitudes(self) -> Iterator[Case]:
        """One input of every magnitude that its dtype has: what is decided by bits of an exponent has a case for each of them."""
        ranks = {spec.name: len(spec.dims) for spec in self.problem.inputs if holds_magnitudes(spec)}
        able, stream = list(ranks), self.draws.stream("magnitudes")
        for dtype in self.dtypes:
            most = MOST_OF_MAGNITUDES if dtype == self._most_exact() else 1
            for name in stream.sample(able, min(len(able), most)):
                form = (MAGNITUDES_COLUMNS, MAGNITUDES_ROWS) if ranks[name] > 1 else (MAGNITUDES_OF_A_ROW, (5, 14))
                case = self._case("every magnitude", self._sizes(f"magnitudes {dtype} {name}", *form), dtype)
                yield replace(case, content=Content.large, special=Special.magnitudes, among=(name,))

    def _of_two_dtypes(self, stream: random.Random) -> list[Case]:
        """Weights, or activations but the first, in float32 beside half precision, and the other way round."""
        halves = [dtype for dtype in self.dtypes if dtype != "float32"]
        if not halves or "float32" not in self.dtypes:
            return []
        cases, half, others = [], stream.choice(halves), _beside_the_first(self.problem)
        for dtype, beside in ((half, "float32"), ("float32", half)):
            if any(map(is_weight, self.problem.inputs)):
                sizes = self._sizes(f"weights in {beside}", (33, 220), (5, 14))
                cases.append(self._case("weights in another dtype", sizes, dtype, weights=beside, may_raise=True))
            if others:
                case = self._case("inputs of two dtypes", self._sizes(f"in {beside}", (33, 90), (5, 14)), dtype)
                cases.append(replace(case, mixed=others, beside=beside, may_raise=True))
        return cases

    def _far(self, activations: list[str], stream: random.Random) -> list[Case]:
        """Data far from zero, in narrow rows; and in wide ones, for which other kernels may compute in another way."""
        cases = []
        for kind in FAR_DATA if activations else ():
            long, short = (33, 90), (5, 14)
            sizes = self._sizes(kind, *((short, long) if kind is Special.down else (long, short)))
            # A class that a mask fills has a loss beside which those of all other rows vanish.
            has_classes = any(isinstance(spec.high, str) for spec in self.problem.inputs)
            indices = Indices.best if has_classes and kind is not Special.bytes else Indices.spread
            cases.append(self._case("far data", sizes, self._most_exact(), special=kind, indices=indices))
        for wide in [case.size_of for case in self._wide()[:1]] if activations else ():
            # Rows wider than one block begin their maximum, and scale what is tiny, in another way.
            able = (Special.masked, Special.partly, *[Special.tiny] * (self._most_exact() == "float32"))
            cases += [self._case("far data", wide, self._most_exact(), special=kind) for kind in able]
        if activations:
            cases += [self._ties(stream)] if self._most_exact() == "float32" else []
            cases.append(self._at_limits(activations, stream))
        kinds = [
            (Special.distant, (33, 90)),
            (Special.distant, WIDE),
            (Special.outlying, WIDEST),
            (Special.tiny, (33, 90)),
        ]
        for kind, columns in kinds if activations and self._most_exact() == "float32" else ():
            case = self._case("far data", self._sizes(f"{kind} {columns}", columns, (5, 14)), "float32", special=kind)
            cases.append(case if kind is Special.tiny else replace(case, among=(stream.choice(activations),)))
        if activations and "bfloat16" in self.dtypes:  # which reaches as far down as float32
            sizes = self._sizes("tiny in half precision", (33, 90), (5, 14))
            cases.append(self._case("far data", sizes, "bfloat16", special=Special.tiny))
        return cases

    def _ties(self, stream: random.Random) -> Case:
        """Numbers halfway between what rounding gives, for steps that workloads say too: a kernel may refuse other ones."""
        fixed, ruled = dict(self.workload.scalars), self._ruled()
        given = {
            spec.name: fixed.get(spec.name, spec.default) for spec in self.problem.scalars if spec.name not in ruled
        }
        dyadic = dyadic_scalars(given, stream)
        case = self._case("ties", self._sizes("ties", (33, 64), (8, 14)), "float32", special=Special.ties)
        case = replace(case, scalars=tuple((fixed | dyadic).items()), spare=(tuple(fixed.items()),))
        return replace(case, may_raise=not dyadic.keys().isdisjoint(fixed))

    def _at_limits(self, activations: list[str], stream: random.Random) -> Case:
        """Elements exactly at the numbers at which the reference may bend or cut: what the slope is there it says itself."""
        sizes = self._sizes("limits", (33, 64), (8, 14))
        case = self._case("at limits", sizes, self._most_exact(), special=Special.limits)
        return replace(case, among=(stream.choice(activations),), limits=limits_of(self.problem, case.scalars))

    def _complete(self, cases: Sequence[Case], related: list[Case]) -> list[Case]:
        """Deal the layouts of upstream gradients that no other case has out to the related ones."""
        stream = self.draws.stream("left")
        left = [layout for layout in UPSTREAM_LAYOUTS if layout not in {case.upstream for case in cases}]
        able = [
            place
            for place, case in enumerate(related)
            if case.layout is not MemoryLayout.level and case.content is Content.ordinary and not case.is_empty
        ]
        places = stream.sample(able, len(able))
        for place, layout in zip(places, stream.sample(left, len(left)), strict=False):
            related[place] = replace(related[place], upstream=layout)
        return related

    def _divided(self) -> list[Case]:
        stream = self.draws.stream("divided")
        base = dict(self._sizes("divided", (17, 23), (3, 3)))
        sizes = tuple((dim, min(size, 23)) for dim, size in base.items())
        moves = divided.divided(sizes, self.multiples, self.workload, stream, quick=self.quick)
        cases = [self._case(_DIVIDED, dict(moved), scalars=scalars) for moved, scalars in moves]
        # What such a number divides may be a row of its own, wider than what something is compared with.
        within = (
            [value for value in self.numbers.compared if LEAST_WIDE // 2 <= value < WIDEST_DRAWN]
            if not self.quick
            else []
        )
        if within:
            few = tuple((dim, min(size, 2)) for dim, size in base.items())
            far = divided.beyond(few, self.multiples, self.workload, max(within), stream)
            light = [move for move in far if _is_light(self.problem, dict(move[0]))]
            cases += [self._case(_DIVIDED, dict(moved), scalars=scalars, may_raise=True) for moved, scalars in light]
        return cases


def _alike(problem: Problem) -> Iterator[tuple[str, ...]]:
    """Inputs in whose place one tensor may stand: of the same form and kind of values, and overwritten by nobody."""
    for spec in problem.inputs:
        able = [other for other in problem.inputs if replace(other, name=spec.name) == spec]
        yield tuple(other.name for other in able if other.name not in problem.mutates and not is_weight(other))


def _of_one_form(problem: Problem) -> Iterator[tuple[str, ...]]:
    """Activations of the same dimensions and dtype, of which one may be close to another."""
    able = [spec for spec in problem.inputs if is_activation(spec)]
    for spec in able:
        yield tuple(one.name for one in able if (one.dims, one.dtype) == (spec.dims, spec.dtype))


def _weights_of_one_form(problem: Problem) -> list[tuple[str, str]]:
    """The first two weights of the same dimensions and dtype, such as those of a layer norm."""
    pairs = itertools.combinations([spec for spec in problem.inputs if is_weight(spec)], 2)
    return [(one.name, other.name) for one, other in pairs if (one.dims, one.dtype) == (other.dims, other.dtype)][:1]


def _of_other_rows(problem: Problem) -> list[tuple[str, str]]:
    """Pairs of activations with the same columns and other rows, such as two sets of points, of which some lie close together."""
    able = [spec for spec in problem.inputs if is_activation(spec) and len(spec.dims) > 1]
    pairs = itertools.combinations(able, 2)
    return [
        (one.name, other.name)
        for one, other in pairs
        if one.dims[-1] == other.dims[-1] and one.dims != other.dims
        if (len(one.dims), one.dtype) == (len(other.dims), other.dtype)
    ][:1]


def _is_dense(case: Case) -> bool:
    return case.layout == case.upstream == MemoryLayout.dense


def _repeats(case: Case) -> list[str]:
    """Which of layout and upstream have an element in several places."""
    return [part for part in ("layout", "upstream") if getattr(case, part) in REPEATED]


def _beside_the_first(problem: Problem) -> tuple[str, ...]:
    """Inputs that may have another dtype than the first one: tables without gradients, or all others, such as a residual."""
    able = [spec for spec in problem.inputs if _is_floating(spec) and spec.dtype is None and not is_weight(spec)]
    tables = [spec.name for spec in able[1:] if not spec.grad]
    return tuple(tables or [spec.name for spec in able[1:]])


def _transposable(problem: Problem) -> list[tuple[str, str]]:
    """Pairs of activations of as many dimensions but other ones, of which one may be the transpose of the other."""
    able = [spec for spec in problem.inputs if is_activation(spec) and len(spec.dims) > 1]
    able = [spec for spec in able if spec.name not in problem.mutates and not any(dim.isdigit() for dim in spec.dims)]
    return [
        (one.name, other.name)
        for place, one in enumerate(able)
        for other in able[place + 1 :]
        if (len(one.dims), one.dtype) == (len(other.dims), other.dtype) and one.dims != other.dims
    ][:MANY_CASES]


def _dealt(kinds: Sequence[StrEnum], stream: random.Random) -> Iterator:  # type: ignore[type-arg]
    while True:
        yield from stream.sample(kinds, len(kinds))


def _spread(
    near: list[tuple[str, int]], count: int, along: Sequence[str], branches: Collection[int], stream: random.Random
) -> list[tuple[str, int]]:
    """Of the sizes near constants ``count``: those of branches, columns and exact ones more often than others."""

    def weight(dim: str, size: int) -> float:
        return (3.0 if dim in along else 1.0) * (2.0 if size % 16 <= 1 else 1.0) * (BRANCH if size in branches else 1.0)

    weighed = [(stream.random() ** (1.0 / weight(dim, size)), dim, size) for dim, size in near]
    return [(dim, size) for _, dim, size in sorted(weighed, reverse=True)[:count]]


def _most(problem: Problem, dim: str, interpreted: bool) -> int:
    """The largest size of a dimension that the host runs in reasonable time, alone."""
    wide = dim in columns_of(problem)
    most = (INTERPRETED_WIDEST if wide else INTERPRETED_DEEPEST) if interpreted else GPU_WIDEST if wide else GPU_DEEPEST
    repeats = max((spec.dims.count(dim) for spec in problem.inputs), default=1)
    elements = most if wide else INTERPRETED_ELEMENTS if interpreted else GPU_ELEMENTS
    return max(1, min(most, int((elements // _fixed(problem.inputs)) ** (1.0 / max(1, repeats)))))


def _fixed(inputs: Iterable[InputSpec]) -> int:
    """The product of the sizes that are written out, of the input in which it is largest."""
    return max((math.prod(int(dim) for dim in spec.dims if dim.isdigit()) for spec in inputs), default=1)


def _named(problem: Problem) -> tuple[str, ...]:
    """Every dimension that has a name, those too that only bound an index."""
    return tuple(dict.fromkeys([*problem.dimensions, *(s.high for s in problem.inputs if isinstance(s.high, str))]))


def _least_and_all(case: Case) -> tuple[bool, int]:
    """Whether a case has more than one element along each dimension, and how many in all."""
    sizes = case.size_of.values()
    return all(size > 1 for size in sizes), math.prod(sizes)


def _rows_of(problem: Problem, case: Case) -> int:
    return _rows_at(problem, case.size_of)


def _rows_at(problem: Problem, sizes: Mapping[str, int]) -> int:
    return max((_elements(replace(s, dims=s.dims[:-1]), sizes) for s in problem.inputs if s.dims), default=0)


def _for_dense_kernels(cases: Sequence[Case]) -> list[int]:
    """The places of whole and of many tiles, and of the widest rows: kernels for these may leave all but dense ones to others."""
    wide = [place for place, case in enumerate(cases) if case.name == _WIDE]
    widest = sorted(wide, key=lambda place: max(cases[place].size_of.values()))[-1:]
    return [*(place for place, case in enumerate(cases) if case.name in _OF_TILES), *widest]


def _is_light(problem: Problem, sizes: Mapping[str, int]) -> bool:
    most = max((_elements(spec, sizes) for spec in problem.inputs), default=0)
    return most <= INTERPRETED_ELEMENTS and math.prod(sizes.values()) <= INTERPRETED_WORK


def _fitted(problem: Problem, case: Case, limit: int) -> Case:
    return replace(case, sizes=_fit(problem.inputs, case.size_of, limit))


def _with_values(inputs: Sequence[InputSpec], sizes: tuple[tuple[str, int], ...]) -> tuple[tuple[str, int], ...]:
    """Sizes that whole numbers below them have room for: of those from 1 on there is none below 1."""
    least = {spec.high: (spec.low or 0) + 1 for spec in inputs if isinstance(spec.high, str)}
    return tuple((dim, max(size, least.get(dim, size)) if size else size) for dim, size in sizes)


def _lightened(sizes: Mapping[str, int]) -> tuple[tuple[str, int], ...]:
    """Halve every dimension but the largest, the larger ones first, until the interpreter has no more than its work to do."""
    light = dict(sizes)
    while math.prod(light.values()) > INTERPRETED_WORK:
        ordered = sorted(light, key=lambda dim: light[dim], reverse=True)
        others = [dim for dim in ordered[1:] if light[dim] > 1]
        light[others[0] if others else ordered[0]] //= 2
    return tuple(light.items())


def fallbacks(case: Case, *, interpreted: bool = False) -> Iterable[Case]:
    """Rounder forms of a case, for a reference that does not run at odd sizes."""
    for multiple in (2, 16):
        sizes = tuple((name, -(-size // multiple) * multiple) for name, size in case.sizes)
        if sizes != case.sizes:
            yield replace(case, sizes=sizes)
    # Such as channels, which must be a multiple of the number of groups: one dimension at a time, and few of the others.
    last = len(case.sizes) - 1
    for grouped, size in case.sizes:
        few = {name: min(other, 2) if at != last else other for at, (name, other) in enumerate(case.sizes)}
        few[grouped] = -(-size // GROUPED) * GROUPED
        most = INTERPRETED_GROUPED if case.name == _BOUNDARY else INTERPRETED_ELEMENTS
        while interpreted and math.prod(few.values()) > most and few[case.sizes[last][0]] > 1:
            few[case.sizes[last][0]] //= 2
        sizes = tuple(few.items())
        if sizes != case.sizes:
            yield replace(case, sizes=sizes)


def columns_of(problem: Problem) -> tuple[str, ...]:
    """The dimensions along which elements lie side by side: last in an input of at least two dimensions, if there is one."""
    deep = [spec for spec in problem.inputs if len(spec.dims) > 1] or [spec for spec in problem.inputs if spec.dims]
    return tuple(dict.fromkeys(spec.dims[-1] for spec in deep if not spec.dims[-1].isdigit()))


def is_activation(spec: InputSpec) -> bool:
    """Whether an input may hold any number: no parameter, no whole number, none whose ``init`` gives its values a meaning."""
    return _is_floating(spec) and spec.init == "normal"


def holds_extremes(spec: InputSpec) -> bool:
    """Whether an input takes part in cases of large values and of values that are not finite: an activation, a distribution.

    A distribution keeps its meaning: it becomes a sharp one, or what softmax makes of logits that are not finite.
    """
    return _is_floating(spec) and spec.init in ("normal", *DISTRIBUTIONS)


def holds_magnitudes(spec: InputSpec) -> bool:
    """Whether an input may hold numbers of every size: an activation, a share, a parameter with one number for each column."""
    return is_activation(spec) or (is_real(spec) and len(spec.dims) == 1 and not _is_floating(spec)) or _is_share(spec)


def _is_share(spec: InputSpec) -> bool:
    return _is_floating(spec) and spec.init == "uniform"


def _is_floating(spec: InputSpec) -> bool:
    return is_real(spec) and not spec.parameter and bool(spec.dims)


def is_real(spec: InputSpec) -> bool:
    """Whether an input holds floating point numbers, whatever they mean."""
    return spec.high is None and spec.low is None and (spec.dtype is None or "float" in spec.dtype)


def is_ranged(spec: InputSpec) -> bool:
    """Whether an input's values have a range that holds its ends: shares and probabilities."""
    return spec.init in ("uniform", "softmax")


def is_weight(spec: InputSpec) -> bool:
    """Whether an input is a module's parameter, or made as one is."""
    return spec.parameter or spec.init in ("ones", "zeros")


def largest_first(problem: Problem, cases: Sequence[Case]) -> list[Case]:
    """Cases with those first that show most races: of small ones that with most elements, that with most rows; and then those that
    show what the compiler is told of alignment: all at odd offsets."""

    def elements(case: Case) -> int:
        return max((_elements(spec, case.size_of) for spec in problem.inputs), default=0)

    def rows(case: Case) -> int:
        return _rows_of(problem, case)

    able = [
        case
        for case in cases
        if case.content is Content.ordinary and not case.is_empty and not case.may_raise and case.sizes
        if elements(case) <= INTERPRETED_ELEMENTS and rows(case) <= INTERPRETED_ROWS
    ]
    first = sorted(able, key=elements)[-1:]
    first += sorted((case for case in able if case not in first), key=rows)[-1:]
    first += [case for case in cases if case.layout == case.upstream == MemoryLayout.shifted and case.name == _WILD]
    return [*first, *(case for case in cases if case not in first)]


def few_rows(problem: Problem, case: Case, seed: int) -> Case:
    """A case for which the same kernels are compiled, with ordinary values from another seed and few rows."""
    sizes = _halved_rows(problem, case.size_of)
    return replace(
        case,
        sizes=sizes,
        seed=seed,
        content=Content.ordinary,
        reach=0.0,
        odd_element=0.0,
        among=(),
        again=False,
        may_raise=False,
    )


def aligned(problem: Problem, cases: Sequence[Case], draws: Draws) -> tuple[Case, ...]:
    """The cases of a candidate that loads or stores by hardware descriptors: memory begins at multiples of 16 bytes.

    A row that ends between two of them, within a wider tensor, is one more case of each dtype, and so are matrices both of whose
    dimensions are multiples of 16 elements: what reads a gradient and a transposed weight by descriptors asks for all of them.
    """
    along = columns_of(problem)
    sides = {dim for spec in problem.inputs for dim in spec.dims[-2:]}
    first = {case.dtype: case for case in reversed(cases) if case.content is Content.ordinary and not case.is_empty}
    for dtype, case in first.items():
        label = f"{PADDED_ROW} {dtype}"
        odd = 2 * draws.stream(label).randint(8, 45) + 1
        sizes = tuple((dim, odd if dim in along else 1) for dim, _ in case.sizes)
        row = Case(PADDED_ROW, sizes, dtype, draws.seed(label), case.scalars, MemoryLayout.apart, may_raise=True)
        even = tuple((dim, -(-size // 16) * 16 if dim in sides else 1) for dim, size in case.sizes)
        matrices = Case(EVEN, even, dtype, draws.seed(f"{EVEN} {dtype}"), case.scalars, may_raise=True)
        cases = (*cases, row, matrices)
    cases = tuple(replace(case, aligned=True) for case in cases)
    return tuple(replace(case, sizes=evenly(problem, case)) if case.packed else case for case in cases)


def evenly(problem: Problem, case: Case) -> tuple[tuple[str, int], ...]:
    """A case's sizes with columns that are multiples of 16, the next ones."""
    along = columns_of(problem)
    return tuple((dim, -(-size // 16) * 16 if dim in along else size) for dim, size in case.sizes)


def _halved_rows(problem: Problem, sizes: Mapping[str, int]) -> tuple[tuple[str, int], ...]:
    """Halve what is no column until no input has more elements than a quick look takes."""
    few, along = dict(sizes), columns_of(problem)
    while max((_elements(spec, few) for spec in problem.inputs), default=0) > QUICK_ELEMENTS:
        down = [dim for dim in few if dim not in along and few[dim] > 1]
        if not down:
            break
        few[max(down, key=lambda dim: few[dim])] //= 2
    return tuple(few.items())


def _scaled(problem: Problem, sizes: Mapping[str, int]) -> dict[str, int]:
    along = columns_of(problem)
    scaled = {dim: _halved(size, INTERPRETED_COLUMNS if dim in along else 64) for dim, size in sizes.items()}
    down = [dim for dim in scaled if dim not in along]
    while math.prod(scaled[dim] for dim in down) > (2 if along else 8) * INTERPRETED_ROWS:
        largest = max(down, key=lambda dim: scaled[dim])
        scaled[largest] //= 2
    return scaled


def _halved(size: int, most: int) -> int:
    while size > most:
        size //= 2
    return size


def _fit(inputs: tuple[InputSpec, ...], sizes: dict[str, int], limit: int) -> tuple[tuple[str, int], ...]:
    """Halve the largest dimension of the largest input until every input has at most ``limit`` elements."""
    while True:
        largest = max(inputs, key=lambda spec: _elements(spec, sizes), default=None)
        if largest is None or _elements(largest, sizes) <= limit:
            return tuple(sizes.items())
        named = [dim for dim in largest.dims if dim in sizes]
        if not named:
            return tuple(sizes.items())
        widest = max(named, key=lambda dim: sizes[dim])
        sizes = sizes | {widest: sizes[widest] // 2}


def _elements(spec: InputSpec, sizes: Mapping[str, int]) -> int:
    return math.prod(int(dim) if dim.isdigit() else sizes[dim] for dim in spec.dims)
