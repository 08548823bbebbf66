"""Which sizes and scalars a problem is traced with, so that every number in a trace can be told apart. Pure.

A whole scalar may divide sizes, as a number of groups does. One that divides nothing when changed at random would look as if it
had to be what it is. So the sizes change with it: every trace has a size that is a multiple of the scalar's value there, and no
multiple of anything else that is shared.
"""

from __future__ import annotations

import ast
import functools
import itertools
import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from gpu_runner.contracts import Multiple, Problem, TracedSize
from gpu_runner.contracts.expressions import ExpressionError, evaluate_expression
from gpu_runner.tracing.raw import RawGraph

ScalarValue = float | int | bool | str
Triple = tuple[dict[str, int], ...]
MAX_ELEMENTS = 2**22
MAX_ELEMENTS_OF_LITERALS = 2**27  # where inputs have literal sizes, and named ones are as small as they are tried
# What sizes must be multiples of, tried in this order: halves and groups do not work on primes.
STEPS = (2, 4, 8, 16, 32, 64, 128)
_BANDS = ((101, 400), (29, 120), (11, 60), (5, 40), (3, 30))
# No value here is a simple multiple of another, so that only one expression fits.
_FACTORS = ((1.0, 0.731, 1.391), (1.0, 0.617, 1.523), (1.0, 0.839, 1.171), (1.0, 0.557, 1.683))

_BESIDE = 1.173  # times a value at which operators are left out


@dataclass(frozen=True)
class Setting:
    """What one trace is made with."""

    sizes: tuple[tuple[str, int], ...]
    scalars: tuple[tuple[str, ScalarValue], ...]

    def values(self) -> dict[str, float | int]:
        """Sizes and numeric scalars by name."""
        numeric = {k: v for k, v in self.scalars if isinstance(v, int | float) and not isinstance(v, bool)}
        return dict(self.sizes) | numeric


def defaults(problem: Problem) -> dict[str, ScalarValue]:
    """Each scalar's value in the first workload, else its default; None is left out."""
    values = {spec.name: problem.values_of(spec)[0] for spec in problem.scalars}
    return {name: value for name, value in values.items() if value is not None}


def dimensions(problem: Problem) -> tuple[str, ...]:
    """The dimensions that need a size, including those that only bound an input's values."""
    bounds = [spec.high for spec in problem.inputs if isinstance(spec.high, str)]
    return tuple(dict.fromkeys([*problem.dimensions, *bounds]))


def size_sets(problem: Problem) -> Iterator[Triple]:
    """Triples of sizes to try, each dimension different in each.

    Primes first; then multiples, of one dimension and of all, for halves and groups; then whole ratios between two dimensions
    that hold in every workload, such as between numbers of heads.
    """
    names = dimensions(problem)
    for steps in _step_sets(names):
        triple = multiples(problem, [steps] * 3)
        if triple:
            yield triple
    for link in ratios(problem):
        for step in (1, 8):
            triple = multiples(problem, [dict.fromkeys(names, step)] * 3, link)
            if triple:
                yield triple


def _step_sets(names: Sequence[str]) -> Iterator[dict[str, int]]:
    yield dict.fromkeys(names, 1)
    for step in STEPS:
        for chosen in reversed(names):
            yield {name: step if name == chosen else 1 for name in names}
        if len(names) > 1:
            yield dict.fromkeys(names, step)


def ratios(problem: Problem) -> list[tuple[str, str, int]]:
    """Pairs of dimensions with the whole ratio that they have in every workload, small ratios first."""
    pairs = []
    for big, small in itertools.permutations(dimensions(problem), 2):
        ratios = {dict(w.sizes)[big] / dict(w.sizes)[small] for w in problem.workloads}
        ratio = next(iter(ratios))
        if len(ratios) == 1 and ratio == int(ratio) and 1 <= ratio <= 64:
            pairs.append((big, small, int(ratio)))
    return sorted(pairs, key=lambda entry: (entry[2] == 1, entry[2]))


def traced_sizes(problem: Problem, rules: Sequence[Multiple], triple: Triple) -> tuple[TracedSize, ...]:
    """What the dimensions without a rule have in common in all traces: a ratio to another one, or a number that divides them."""
    steps = {name: math.gcd(*(sizes[name] for sizes in triple)) for name in triple[0]}
    ruled = {rule.dimension for rule in rules}
    linked = {
        big: TracedSize(big, ratio, small)
        for big, small, ratio in ratios(problem)
        if all(sizes[big] == ratio * sizes[small] for sizes in triple)
    }
    own = {name: TracedSize(name, step) for name, step in steps.items() if step > 1}
    return tuple((own | linked)[name] for name in steps if name in own | linked and name not in ruled)


def scalar_sets(
    problem: Problem, varied: Sequence[str], special: Collection[str] = ()
) -> tuple[dict[str, ScalarValue], ...]:
    """Three sets of scalars: the problem's values, and two in which ``varied`` are changed; in all three what is ``special``."""
    base = defaults(problem)
    sets: list[dict[str, ScalarValue]] = []
    for turn in range(3):
        changed = dict(base)
        for number, name in enumerate(varied):
            changed[name] = _changed(base[name], turn, number)
            if not turn and name in special:
                changed[name] = _BESIDE * float(base[name])
        sets.append(changed)
    return tuple(sets)


def variable_scalars(problem: Problem) -> list[str]:
    """Numeric scalars that may be varied."""
    return [n for n, v in defaults(problem).items() if isinstance(v, int | float) and not isinstance(v, bool)]


def _changed(value: ScalarValue, turn: int, number: int) -> ScalarValue:
    if turn == 0 or isinstance(value, bool | str):
        return value
    if isinstance(value, int):
        return value + (2 * turn + 1) * (1 if value >= 0 else -1) + number * turn
    factor = _FACTORS[number % len(_FACTORS)][turn]
    return value * factor if value else 0.0137 * turn * factor + 0.0071 * number


def thresholds(problem: Problem, name: str) -> list[float]:
    """Where a reference may branch on a number, rising: zero, one, and what its source compares the number with."""
    limits = {0.0, 1.0}
    for node in ast.walk(ast.parse(problem.source)):
        if isinstance(node, ast.Compare) and any(isinstance(n, ast.Name) and n.id == name for n in ast.walk(node)):
            constants = (one.value for one in ast.walk(node) if isinstance(one, ast.Constant))
            numbers = [float(value) for value in constants if isinstance(value, int | float)]
            limits |= {sign * number for number in numbers for sign in (-1.0, 1.0)}
    return sorted(number + 0.0 for number in limits)  # no zero is below another


def multiples(
    problem: Problem, steps: Sequence[Mapping[str, int]], link: tuple[str, str, int] | None = None
) -> Triple | None:
    """Sizes for three traces, each dimension a multiple of its step; None where the inputs would be too large.

    ``link`` is a pair of dimensions and their ratio.
    """
    for low, high in _BANDS:
        numbers = _primes(low, 40 * high)
        triple = tuple(_sizes(own, numbers, low, turn) for turn, own in enumerate(steps))
        if link is not None:
            big, small, ratio = link
            triple = tuple(sizes | {big: sizes[small] * ratio} for sizes in triple)
        has_literals = any(dim.isdigit() for spec in problem.inputs for dim in spec.dims)
        most = MAX_ELEMENTS_OF_LITERALS if has_literals and (low, high) == _BANDS[-1] else MAX_ELEMENTS
        if max(_elements(problem, sizes) for sizes in triple) <= max(most, _fixed_elements(problem)):
            return triple
    return None


def _sizes(steps: Mapping[str, int], numbers: Sequence[int], low: int, turn: int) -> dict[str, int]:
    """The sizes of one trace. The last one has even sizes: on odd ones alone ``(H + 1) // 2`` is ``H // 2 + 1``."""
    # Far apart from trace to trace where there is room: then no wrong expression fits by chance.
    is_last = low > _BANDS[-2][0]
    places = {name: i + turn * (len(steps) + 4) if is_last else turn + 3 * i for i, name in enumerate(steps)}
    primes = {name: _prime(numbers, low, step, places[name]) for name, step in steps.items()}
    return {name: step * (primes[name] + (turn == 2 and step == 1)) for name, step in steps.items()}


def _prime(numbers: Sequence[int], low: int, step: int, index: int) -> int:
    # A multiple of a large step is large by itself, so its prime factor may be small.
    least = max(low // step, 3)
    return (*_primes(least, low), *numbers)[index]


def _fixed_elements(problem: Problem) -> int:
    """Elements of the largest input whose sizes are all literal; it cannot be made smaller."""
    return max((math.prod(map(int, s.dims)) for s in problem.inputs if all(d.isdigit() for d in s.dims)), default=0)


def _elements(problem: Problem, sizes: dict[str, int]) -> int:
    return max(math.prod(int(d) if d.isdigit() else sizes[d] for d in spec.dims) for spec in problem.inputs)


@functools.cache
def _primes(least: int, end: int) -> tuple[int, ...]:
    """The primes from ``least``, which is two at least, to before ``end``; of the same few bands, again and again."""
    return tuple(n for n in range(least, end) if all(n % d for d in range(2, math.isqrt(n) + 1)))


# What a scalar is in the second and third trace, where the other sizes are larger: primes, so that no size is a multiple by chance.
_PRIMES = (5, 3, 11, 7, 17, 13)
# What a dimension may have to be a multiple of, the weakest first: halves of groups, squares of a factor of an image.
_FORMS = ("{0}", "2 * {0}", "{0} * {0}", "4 * {0}", "8 * {0}")
MAX_TRIES = 32
_CORNERS = ((1, 6), (2, 7), (6, 1))  # a scalar, and how many times it goes into what it divides
Corner = tuple[dict[str, int], dict[str, ScalarValue]]  # sizes and scalars


def divisors(problem: Problem, baked: Sequence[str]) -> list[str]:
    """The scalars baked into a graph by which a size may be divided."""
    values = defaults(problem)
    return [name for name in baked if type(values.get(name)) is int and int(values[name]) > 0]


def tries(problem: Problem, name: str, known: Sequence[Multiple], trace: RawGraph) -> Iterator[tuple[Multiple, ...]]:
    """What may have to be multiples of a scalar, in addition to the ``known`` rules of other scalars; few and weak ones first.

    ``trace`` is one of the graph in which the scalar has its own value. Rules that a workload of the problem breaks are left out.
    """
    value = defaults(problem)[name]
    names = list(dimensions(problem))
    # A number that ends a shape counts what lies side by side, which ends a dimension; elsewhere it begins one.
    if any(node.op == "reshape" and node.shape[-1:] == (value,) for node in trace.nodes):
        names.reverse()
    single, pairs = [(name,) for name in names], list(itertools.combinations(names, 2))
    chosen = [(form, dims) for form in _FORMS[:1] for dims in (*single, *pairs)]
    chosen += [(form, dims) for form in _FORMS[1:] for dims in single]
    combined = (_joined(known, [Multiple(dim, form.format(name)) for dim in dims]) for form, dims in chosen)
    yield from itertools.islice((each for each in combined if _holds(problem, each)), MAX_TRIES)


def out_of_step(problem: Problem, name: str, sizes: Mapping[str, int]) -> dict[str, ScalarValue]:
    """Scalars, one of which divides no product of the sizes."""
    base = defaults(problem)
    value = next(p for p in itertools.count(3) if p != base[name] and all(math.gcd(p, s) == 1 for s in sizes.values()))
    return base | {name: value}


def triple_of(problem: Problem, rules: Sequence[Multiple], base: Triple) -> Triple | None:
    """Sizes at which the rules apply and few other relations do, near those of ``base``, at which the reference runs."""
    ruled = {rule.dimension for rule in rules}
    shared = {name: math.gcd(*(sizes[name] for sizes in base)) for name in base[0] if name not in ruled}
    for others in (shared, dict.fromkeys(shared, 1)):  # what every size was a multiple of may be the rule's alone
        steps = [
            others | {r.dimension: int(value_of(r.of, scalars)) for r in rules} for scalars in _turns(problem, rules)
        ]
        triple = multiples(problem, [{name: own[name] for name in base[0]} for own in steps])
        if triple is not None:
            return triple
    return None


def changed(problem: Problem, rules: Sequence[Multiple]) -> list[dict[str, ScalarValue]]:
    """The values of the rules' scalars in each of the three traces."""
    names = list(dict.fromkeys(name for rule in rules for name in rule.scalars))
    return [{name: scalars[name] for name in names} for scalars in _turns(problem, rules)]


def corners(problem: Problem, rules: Sequence[Multiple], base: Mapping[str, int]) -> list[Corner]:
    """The extremes that the rules allow: scalars of one, of two, and as large as what they divide; ``base`` has other sizes."""
    names = list(dict.fromkeys(name for rule in rules for name in rule.scalars))
    ends = []
    for value, times in _CORNERS:
        scalars = defaults(problem) | dict.fromkeys(names, value)
        ends.append((dict(base) | {r.dimension: int(value_of(r.of, scalars)) * times for r in rules}, scalars))
    return ends


def value_of(text: str, values: Mapping[str, ScalarValue]) -> int | float:
    """The value of a rule's expression."""
    return evaluate_expression(text, {k: v for k, v in values.items() if isinstance(v, int | float)})


def _turns(problem: Problem, rules: Sequence[Multiple]) -> list[dict[str, ScalarValue]]:
    base = defaults(problem)
    names = list(dict.fromkeys(name for rule in rules for name in rule.scalars))
    free = [p for p in _PRIMES if p not in base.values()]
    turns = [base]
    for turn in range(2):
        values = [free[(2 * number + turn) % len(free)] for number in range(len(names))]
        turns.append(base | dict(zip(names, values, strict=True)))
    return turns


def _joined(known: Sequence[Multiple], new: Sequence[Multiple]) -> tuple[Multiple, ...]:
    """Where two scalars divide a dimension, their product does; the first rule's number factors covered both and are dropped."""
    of = {rule.dimension: rule.of for rule in known}
    for rule in new:
        before = [
            other for known_rule in known if known_rule.dimension == rule.dimension for other in known_rule.scalars
        ]
        of[rule.dimension] = " * ".join([*before, rule.of])
    return tuple(Multiple(dimension, text) for dimension, text in of.items())


def _holds(problem: Problem, rules: Sequence[Multiple]) -> bool:
    base = defaults(problem)
    settings = [dict(w.sizes) | base | dict(w.scalars) for w in problem.workloads]
    try:
        return all(not setting[r.dimension] % value_of(r.of, setting) for r in rules for setting in settings)
    except (ExpressionError, ZeroDivisionError, TypeError):
        return False
