"""Whole scalars that sizes are divided by, such as a number of groups: which dimensions may be multiples of them. Pure.

A number that divides nothing when it is changed at random would look as if it had to be what it is. So the sizes change with it:
every trace has a size that is a multiple of the scalar's value there, and no multiple of anything else that is shared.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterator, Mapping, Sequence

from gpu_runner.contracts import Multiple, Problem
from gpu_runner.contracts.expressions import ExpressionError, evaluate_expression
from gpu_runner.tracing.raw import RawGraph
from gpu_runner.tracing.sizes import ScalarValue, Triple, defaults, dimensions, multiples

# What a scalar is in the second and third trace, where the other sizes are larger: primes, so that no size is a multiple by chance.
_PRIMES = (5, 3, 11, 7, 17, 13)
# What a dimension may have to be a multiple of, the weakest first: halves of groups, squares of a factor of an image.
_FORMS = ("{0}", "2 * {0}", "{0} * {0}", "4 * {0}", "8 * {0}")
MAX_TRIES = 32
_CORNERS = ((1, 6), (2, 7), (6, 1))  # a scalar, and how many times it goes into what it divides
Corner = tuple[dict[str, int], dict[str, ScalarValue]]  # sizes and scalars


def divisors(problem: Problem, baked: Sequence[str]) -> list[str]:
    """Give those of the scalars that are baked into a graph by which a size may be divided."""
    values = defaults(problem)
    return [name for name in baked if type(values.get(name)) is int and int(values[name]) > 0]


def tries(problem: Problem, name: str, known: Sequence[Multiple], trace: RawGraph) -> Iterator[tuple[Multiple, ...]]:
    """Give, for a scalar, what may have to be multiples of it, beside what is ``known`` of other scalars; few and weak first.

    ``trace`` is one of the graph in which the scalar has its own value. What does not hold in the problem's workloads is no try.
    """
    value = defaults(problem)[name]
    names = list(dimensions(problem))
    # A number that ends a shape counts what lies side by side, which ends a dimension; elsewhere it begins one.
    if any(node.op == "reshape" and node.shape[-1:] == (value,) for node in trace.nodes):
        names.reverse()
    single, pairs = [(name,) for name in names], list(itertools.combinations(names, 2))
    chosen = [(form, dims) for form in _FORMS[:1] for dims in (*single, *pairs)]
    chosen += [(form, dims) for form in _FORMS[1:] for dims in single]
    found = (_joined(known, [Multiple(dim, form.format(name)) for dim in dims]) for form, dims in chosen)
    yield from itertools.islice((each for each in found if _holds(problem, each)), MAX_TRIES)


def out_of_step(problem: Problem, name: str, sizes: Mapping[str, int]) -> dict[str, ScalarValue]:
    """Give scalars of which one has a value that divides no product of the sizes."""
    base = defaults(problem)
    value = next(p for p in itertools.count(3) if p != base[name] and all(math.gcd(p, s) == 1 for s in sizes.values()))
    return base | {name: value}


def triple_of(problem: Problem, rules: Sequence[Multiple], base: Triple) -> Triple | None:
    """Give sizes at which the rules hold and little else does, close to those of ``base``, at which the reference runs."""
    ruled = {rule.dimension for rule in rules}
    shared = {name: math.gcd(*(sizes[name] for sizes in base)) for name in base[0] if name not in ruled}
    for others in (shared, dict.fromkeys(shared, 1)):  # what every size was a multiple of may be the rule's alone
        steps = [
            others | {r.dimension: int(value_of(r.of, scalars)) for r in rules} for scalars in _turns(problem, rules)
        ]
        found = multiples(problem, [{name: own[name] for name in base[0]} for own in steps])
        if found is not None:
            return found
    return None


def changed(problem: Problem, rules: Sequence[Multiple]) -> list[dict[str, ScalarValue]]:
    """Give, for each of the three traces, the values of the scalars in the rules."""
    names = list(dict.fromkeys(name for rule in rules for name in names_of(rule)))
    return [{name: scalars[name] for name in names} for scalars in _turns(problem, rules)]


def corners(problem: Problem, rules: Sequence[Multiple], base: Mapping[str, int]) -> list[Corner]:
    """Give the ends of what the rules allow: scalars of one, of two, and as large as what they divide; ``base`` has other sizes."""
    names = list(dict.fromkeys(name for rule in rules for name in names_of(rule)))
    found = []
    for value, times in _CORNERS:
        scalars = defaults(problem) | dict.fromkeys(names, value)
        found.append((dict(base) | {r.dimension: int(value_of(r.of, scalars)) * times for r in rules}, scalars))
    return found


def names_of(rule: Multiple) -> list[str]:
    """Give the scalars in a rule."""
    return re.findall(r"[A-Za-z_]\w*", rule.of)


def value_of(text: str, values: Mapping[str, ScalarValue]) -> int | float:
    """Give the number that a rule's text is for some scalars."""
    return evaluate_expression(text, {k: v for k, v in values.items() if isinstance(v, int | float)})


def _turns(problem: Problem, rules: Sequence[Multiple]) -> list[dict[str, ScalarValue]]:
    base = defaults(problem)
    names = list(dict.fromkeys(name for rule in rules for name in names_of(rule)))
    free = [p for p in _PRIMES if p not in base.values()]
    turns = [base]
    for turn in range(2):
        values = [free[(2 * number + turn) % len(free)] for number in range(len(names))]
        turns.append(base | dict(zip(names, values, strict=True)))
    return turns


def _joined(known: Sequence[Multiple], new: Sequence[Multiple]) -> tuple[Multiple, ...]:
    """A dimension that two scalars divide is divided by the one and then by the other; numbers beside the first stood for both."""
    of = {rule.dimension: rule.of for rule in known}
    for rule in new:
        before = [
            other for known_rule in known if known_rule.dimension == rule.dimension for other in names_of(known_rule)
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
