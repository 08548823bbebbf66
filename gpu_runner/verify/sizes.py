"""Which cases a candidate is proved on: sizes, dtypes, scalars and layouts. Pure."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

from gpu_runner.contracts.graph import Multiple
from gpu_runner.contracts.problem import InputSpec, Problem, Workload
from gpu_runner.verify import divided

Scalar = float | int | bool | str

INTERPRETED_ROWS = 24
INTERPRETED_COLUMNS = 512
INTERPRETED_ELEMENTS = 2**16
GPU_ELEMENTS = 2**26
QUICK_ELEMENTS = 2**21  # of one input of a measured size, where a look is to be quick
GROUPED = 64
DISTRIBUTIONS = ("softmax", "log_softmax")
WIDE_COLUMNS = 4099  # prime, and wider than one block of most kernels


class Content(StrEnum):
    """What the activations of a case hold."""

    ordinary = "ordinary"
    large = "large"  # some rows hold values up to the case's ``reach``
    odd = "odd"  # some rows hold infinities and NaN


@dataclass(frozen=True)
class Case:
    """One set of inputs to be computed; ``seed`` is secret and never leaves the parent."""

    name: str
    sizes: tuple[tuple[str, int], ...]
    dtype: str
    seed: int
    scalars: tuple[tuple[str, Scalar], ...] = ()
    layout: str = "dense"  # or "apart": rows with a gap between them
    upstream: str = "dense"  # or "apart", or "expanded": one number with stride zero, as sum().backward() gives
    plain_init: bool = False  # parameters exactly as ``init`` says, without noise
    again: bool = False  # second backward, and two forwards before two backwards
    narrow_grad: bool = False  # only the first input wants a gradient
    measured: bool = False  # one of the problem's own workloads
    content: Content = Content.ordinary
    reach: float = 0.0  # of large content
    among: tuple[str, ...] = ()  # inputs that hold the odd content; empty: every one that can

    @property
    def size_of(self) -> dict[str, int]:
        """Give the sizes by dimension."""
        return dict(self.sizes)

    def label(self) -> str:
        """Give the case in one line, such as ``T=7 I=129 float32, rows apart``."""
        parts = [f"{name}={size}" for name, size in self.sizes]
        parts += [f"{name}={value}" for name, value in self.scalars]
        notes = [text for text, there in self._notes() if there]
        return " ".join([*parts, self.dtype]) + "".join(f", {note}" for note in notes)

    def _notes(self) -> tuple[tuple[str, bool], ...]:
        return (
            ("rows apart", self.layout == "apart"),
            ("upstream rows apart", self.upstream == "apart"),
            ("expanded upstream", self.upstream == "expanded"),
            ("gradient of the first input only", self.narrow_grad),
            (f"values up to {self.reach:.3g}", bool(self.reach)),
            ("infinities and NaN in some rows", self.content is Content.odd),
        )


@dataclass(frozen=True)
class _Recipe:
    """One line of the table of odd sizes."""

    name: str
    rows: int
    columns: int
    half: bool = False  # also run in the half precisions
    layout: str = "dense"
    upstream: str = "dense"
    again: bool = False
    narrow_grad: bool = False
    content: Content = Content.ordinary


RECIPES = (
    _Recipe("prime", 7, 97, half=True, layout="apart", upstream="apart", again=True),
    _Recipe("prime, a second time", 7, 97, layout="apart", upstream="apart"),
    _Recipe("above a power of two", 3, 129, upstream="expanded"),
    _Recipe("below a power of two", 5, 255, half=True, layout="apart"),
    _Recipe("single column", 5, 1),
    _Recipe("single row", 1, 64, half=True, again=True),
    _Recipe("all ones", 1, 1),
    _Recipe("first gradient only", 13, 40, narrow_grad=True),
    _Recipe("large values", 6, 97, half=True, content=Content.large),
    # As wide as the widest, so that whole blocks of a row may be minus infinity.
    _Recipe("not finite", 8, WIDE_COLUMNS, content=Content.odd),
)
WIDE = _Recipe("wider than one block", 2, WIDE_COLUMNS, half=True)
QUICK = ("prime", "above a power of two", "single column", "large values")


def plan_cases(
    problem: Problem,
    dtypes: tuple[str, ...],
    workloads: tuple[Workload, ...],
    *,
    interpreted: bool,
    quick: bool,
    draw: Callable[[], int],
    beside: bool = False,
    multiples: tuple[Multiple, ...] = (),
) -> tuple[Case, ...]:
    """Give the cases, the smallest of the problem's own sizes first; ``draw`` gives a fresh secret seed.

    A candidate that is judged ``beside`` an original meets one of the problem's own workloads even where it is quick. The scalars
    in ``multiples`` are moved, with the sizes that they divide.
    """
    cases: list[Case] = []
    recipes = [recipe for recipe in RECIPES if not quick or recipe.name in QUICK]
    for recipe in recipes:
        if not _can_hold(problem, recipe.content):
            continue
        wanted = dtypes[:1] if quick and recipe.content is not Content.ordinary else _dtypes_of(recipe, dtypes)
        cases += [_odd(problem, recipe, dtype, workloads[0], draw()) for dtype in wanted]
    cases += _divided(problem, multiples, dtypes[0], workloads[0], quick, draw)
    if not quick:
        cases += _wide(problem, dtypes, workloads[0], draw)
        cases += _second_scalars(problem, dtypes[0], workloads[0], draw)
        cases += _measured(problem, dtypes, workloads, interpreted, draw)
    elif beside:
        # On a GPU in the dtype that is measured and with all columns: some originals are another function there, as at ties.
        measured = _measured(problem, dtypes[:1] if interpreted else dtypes, workloads[-1:], interpreted, draw)
        cases += [replace(case, sizes=_halved_rows(problem, case.size_of)) for case in measured]
    limit = INTERPRETED_ELEMENTS if interpreted else GPU_ELEMENTS
    return tuple(replace(case, sizes=_fit(problem.inputs, case.size_of, limit)) for case in _distinct(cases))


def fallbacks(case: Case) -> Iterable[Case]:
    """Give rounder forms of a case, for a reference that does not run at odd sizes."""
    for multiple in (2, 16):
        sizes = tuple((name, -(-size // multiple) * multiple) for name, size in case.sizes)
        if sizes != case.sizes:
            yield replace(case, sizes=sizes)
    # Such as channels, which must be a multiple of the number of groups: one dimension at a time, and few of the others.
    last = len(case.sizes) - 1
    for grouped, size in case.sizes:
        few = {name: min(other, 2) if at != last else other for at, (name, other) in enumerate(case.sizes)}
        sizes = tuple((few | {grouped: -(-size // GROUPED) * GROUPED}).items())
        if sizes != case.sizes:
            yield replace(case, sizes=sizes)


def columns_of(problem: Problem) -> tuple[str, ...]:
    """Give the dimensions along which elements lie side by side: last in an input of at least two dimensions, if there is one."""
    deep = [spec for spec in problem.inputs if len(spec.dims) > 1] or [spec for spec in problem.inputs if spec.dims]
    return tuple(dict.fromkeys(spec.dims[-1] for spec in deep if not spec.dims[-1].isdigit()))


def holds(spec: InputSpec, content: Content) -> bool:
    """Say whether an input takes part in a case's content: an activation does, a parameter and a whole number do not.

    An input whose ``init`` gives its values a meaning keeps it: a distribution becomes a sharp one, others stay as they are.
    """
    floating = spec.high is None and spec.low is None and (spec.dtype is None or "float" in spec.dtype)
    if not floating or spec.parameter or not spec.dims:
        return False
    return spec.init == "normal" or (content is Content.large and spec.init in DISTRIBUTIONS)


def _can_hold(problem: Problem, content: Content) -> bool:
    return content is Content.ordinary or any(holds(spec, content) for spec in problem.inputs)


def _dtypes_of(recipe: _Recipe, dtypes: tuple[str, ...]) -> tuple[str, ...]:
    return dtypes if recipe.half else dtypes[:1]


def _odd(problem: Problem, recipe: _Recipe, dtype: str, workload: Workload, seed: int) -> Case:
    return Case(
        name=recipe.name,
        sizes=_sizes(problem, recipe.rows, recipe.columns, 0),
        dtype=dtype,
        seed=seed,
        scalars=workload.scalars,
        layout=recipe.layout,
        upstream=recipe.upstream,
        again=recipe.again,
        narrow_grad=recipe.narrow_grad,
        content=recipe.content,
    )


def _sizes(problem: Problem, rows: int, columns: int, widest: int) -> tuple[tuple[str, int], ...]:
    """Size every dimension; the column dimension at place ``widest`` gets ``columns``, other ones stay small and distinct."""
    along = columns_of(problem)
    named = [*problem.dimensions, *(s.high for s in problem.inputs if isinstance(s.high, str))]
    down = [dim for dim in dict.fromkeys(named) if dim not in along]
    sizes: dict[str, int] = {}
    for place, dim in enumerate(down):
        sizes[dim] = rows if place == 0 or rows == 1 else 2 + place % 3
    for place, dim in enumerate(along):
        others = columns if columns == 1 else 17 + 2 * place
        sizes[dim] = columns if place == widest else others
    return tuple((dim, sizes[dim]) for dim in dict.fromkeys(named))


def _wide(problem: Problem, dtypes: tuple[str, ...], workload: Workload, draw: Callable[[], int]) -> list[Case]:
    places = range(min(2, len(columns_of(problem))))
    return [
        replace(_odd(problem, WIDE, dtype, workload, draw()), sizes=_sizes(problem, WIDE.rows, WIDE.columns, place))
        for place in places
        for dtype in _dtypes_of(WIDE, dtypes)
    ]


def _second_scalars(problem: Problem, dtype: str, workload: Workload, draw: Callable[[], int]) -> list[Case]:
    """Give one case in which every float scalar that no workload fixes has another value than its default."""
    fixed = dict(workload.scalars)
    moved = {
        spec.name: _another(spec.default)
        for spec in problem.scalars
        if isinstance(spec.default, float) and spec.name not in fixed
    }
    if not moved:
        return []
    recipe = _Recipe("other scalars", 6, 66)
    return [replace(_odd(problem, recipe, dtype, workload, draw()), scalars=tuple((fixed | moved).items()))]


def _divided(
    problem: Problem, rules: tuple[Multiple, ...], dtype: str, workload: Workload, quick: bool, draw: Callable[[], int]
) -> list[Case]:
    base = _odd(problem, _Recipe("other divisors", divided.ROWS, divided.COLUMNS), dtype, workload, 0)
    found = divided.divided(base.sizes, rules, workload, quick=quick)
    return [replace(base, sizes=sizes, scalars=scalars, seed=draw()) for sizes, scalars in found]


def _another(default: float) -> float:
    # A tiny default is an epsilon: it must grow a lot before a kernel that ignores it is seen.
    if abs(default) < 1e-2:
        return 0.05
    return default * 0.75


def _measured(
    problem: Problem,
    dtypes: tuple[str, ...],
    workloads: tuple[Workload, ...],
    interpreted: bool,
    draw: Callable[[], int],
) -> list[Case]:
    cases = []
    for workload in workloads[:4]:
        sizes = _scaled(problem, dict(workload.sizes)) if interpreted else dict(workload.sizes)
        wanted = (workload.dtype,) if workload.dtype else dtypes
        # A GPU proves the full size once, in the dtype that is measured; the small sizes prove the other ones.
        at_size = (
            wanted if interpreted or len(wanted) == 1 else tuple(d for d in wanted if d == "bfloat16") or wanted[:1]
        )
        cases += [
            Case(
                "workload", tuple(sizes.items()), dtype, draw(), workload.scalars, plain_init=place == 0, measured=True
            )
            for place, dtype in enumerate(at_size)
        ]
    return cases


def few_rows(problem: Problem, case: Case, seed: int) -> Case:
    """Give a case for which the same kernels are compiled, with ordinary values from another seed and few rows."""
    sizes = _halved_rows(problem, case.size_of)
    return replace(case, sizes=sizes, seed=seed, content=Content.ordinary, reach=0.0, among=(), again=False)


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
    while math.prod(scaled[dim] for dim in down) > 2 * INTERPRETED_ROWS:
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


def _distinct(cases: list[Case]) -> list[Case]:
    """Drop a case that would only repeat another one's sizes; a second time on the same sizes is wanted where it is named so."""
    seen: dict[object, Case] = {}
    for case in cases:
        seen.setdefault(replace(case, seed=0), case)
    return list(seen.values())
