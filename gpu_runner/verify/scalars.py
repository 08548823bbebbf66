"""Which other values a problem's scalars are given: drawn over the range that a default suggests. Pure."""

from __future__ import annotations

import ast
import math
import random
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import TypeGuard

from gpu_runner.contracts.problem import Problem, ScalarSpec
from gpu_runner.contracts.reading import UNPARSABLE, parse, walk

Scalar = float | int | bool | str

TINY = 1e-2  # a smaller default is an epsilon: it must grow a lot before a kernel that ignores it is seen
LEAST_EPSILON, LARGEST_EPSILON = 1e-12, 1.0
SMALL_EPSILONS = (1e-12, 1e-10)
USUAL_EPSILONS = (1e-5, 1e-8)  # of most models, and of most optimizers; no draw from a range gives them
FAR_OUT, CLOSE_TO_ZERO = (10.0, 1e4), (1e-7, 1e-5)  # times the default, at least one: a temperature, a weight of a loss
FILLS = (-1e4, -1e9)  # what masked places are filled with
TOGETHER = 4  # cases in which several scalars are others
LIMITS, MOST_LIMIT = (0.0, 0.5, 1.0, 3.0, 6.0), 1e3  # of ReLU6, hardtanh, hardswish, soft shrinkage
MOST_SAID = 3  # floats that workloads say and that are others in a case each
DYADIC = (0.25, 0.5)
# Kinds of whole numbers: next to the default; zero and negative ones; far above it, and so far that 16 bits, or 32, do not hold it.
WHOLE = ("near", "below", "far", "beyond", "past")
FAR, BEYOND, PAST = (100, 8000), (2**15, 2**17), (2**31, 2**33)  # beyond what float16 counts to, 16 bits and 32
SEEDS = (2**32, 2**40)  # beyond 32 bits
_SIGNS = {"far": 1, "beyond": -1}  # of places, whose default is negative: each is drawn on both sides
USUAL = (
    (0.1, 0.5),
    (0.2, 0.01, 0.9, 0.25, 0.3, 0.05, 0.7, 0.125, 0.95),
)  # numbers that people write, the likeliest first


def limits_of(problem: Problem, scalars: Iterable[tuple[str, Scalar]]) -> tuple[float, ...]:
    """Numbers of either sign at which a reference may bend: those that it writes, of its scalars and of torch's functions."""
    tree = _tree_of(problem.source)
    functions = [node for node in tree.body if isinstance(node, ast.FunctionDef)] if tree is not None else []
    written = [node.value for each in functions for node in walk(each) if isinstance(node, ast.Constant)]
    given: dict[str, object] = {spec.name: spec.default for spec in problem.scalars}
    numbers = [*(float(one) for one in (*written, *(given | dict(scalars)).values()) if _is_limit(one)), *LIMITS]
    return tuple(sorted({sign * number for number in numbers for sign in (1.0, -1.0)}))


def _is_limit(value: object) -> TypeGuard[float]:
    return type(value) in (int, float) and TINY <= abs(value) <= MOST_LIMIT  # type: ignore[arg-type]


def moved_scalars(problem: Problem, names: Collection[str], stream: random.Random) -> dict[str, Scalar]:
    """Other values for these scalars, of those that are floats."""
    able = [spec for spec in problem.scalars if spec.name in names]
    return {s.name: _number(s.default, stream) for s in able if isinstance(s.default, float)}


def small_epsilons(problem: Problem, names: Collection[str], stream: random.Random) -> dict[str, Scalar]:
    """For each of these scalars that is an epsilon, a number at the small end of what people take."""
    able = [s for s in problem.scalars if s.name in names and isinstance(s.default, float) and 0 < s.default < TINY]
    low, high = SMALL_EPSILONS
    return {spec.name: math.exp(stream.uniform(math.log(low), math.log(high))) for spec in able}


def usual_numbers(stream: random.Random) -> list[float]:
    """Numbers that people write, which no draw from a range gives; in a drawn order, the likeliest first."""
    first, later = USUAL
    return [*stream.sample(first, len(first)), *stream.sample(later, len(later))]


def usual_scalar(problem: Problem, names: Collection[str], number: float, stream: random.Random) -> dict[str, Scalar]:
    """This number for one of these scalars that is no epsilon; ten times as much where its default is above one."""
    able = [(s.name, s.default) for s in problem.scalars if s.name in names and isinstance(s.default, float)]
    able = [(name, default) for name, default in able if TINY <= abs(default) < math.inf]
    if not able:
        return {}
    name, default = stream.choice(able)
    return {name: math.copysign(number if abs(default) <= 1 else 10 * number, default)}


def dyadic_scalars(given: Mapping[str, Scalar | None], stream: random.Random) -> dict[str, Scalar]:
    """Powers of two for those of these scalars that are floats and no epsilons: of such steps halves and quarters are exact."""
    usual = [
        (name, value) for name, value in given.items() if isinstance(value, float) and TINY <= abs(value) < math.inf
    ]
    return {name: math.copysign(stream.choice(DYADIC), value) for name, value in usual}


def moved_whole(problem: Problem, names: Collection[str], stream: random.Random, kind: str) -> dict[str, Scalar]:
    """Another value for one of these scalars that is a whole number or a truth value, of a kind of ``WHOLE``."""
    picked = [spec for spec in problem.scalars if spec.name in names and isinstance(spec.default, int)]
    if not picked:
        return {}
    spec = stream.choice(picked)
    value = _whole(problem, spec, stream, kind)
    return {} if value == spec.default else {spec.name: value}


def moved_of_workloads(
    problem: Problem, fixed: Mapping[str, Scalar], ruled: Collection[str], stream: random.Random
) -> list[dict[str, Scalar]]:
    """Another number for each float that a workload says, of at most as many as ``MOST_SAID``."""
    said = [name for name, value in fixed.items() if isinstance(value, float) and name not in ruled]
    return [{name: _number(float(fixed[name]), stream)} for name in said[:MOST_SAID]]


def moved_together(
    problem: Problem, names: Collection[str], words: Sequence[dict[str, Scalar]], stream: random.Random
) -> Iterator[dict[str, Scalar]]:
    """Other values for several of these scalars at once, where one of them is a whole number, a truth value or text.

    Each is a drawn half of those that can be moved, and in the first all of them are.
    """
    able = [spec for spec in problem.scalars if spec.name in names]
    chosen = [spec for spec in able if not isinstance(spec.default, float)]
    if len(able) < 2 or not chosen:
        return
    for turn in range(TOGETHER):
        moved = moved_scalars(problem, names, stream)
        for spec in chosen:
            moved |= moved_whole(problem, [spec.name], stream, "near")
        for word in stream.sample(words, len(words)):
            moved |= word
        if turn:
            moved = {name: value for name, value in moved.items() if stream.random() < 0.5}
        if len(moved) > 1:
            yield moved


def other_words(problem: Problem, names: Collection[str]) -> list[dict[str, Scalar]]:
    """For each scalar that is text, what else the reference compares it with or looks up by it."""
    able = [spec.name for spec in problem.scalars if spec.name in names and isinstance(spec.default, str)]
    tree = _tree_of(problem.source) if able else None
    given = {spec.name: spec.default for spec in problem.scalars}
    words_by_name: list[dict[str, Scalar]] = []
    for name in able if tree is not None else ():
        words = dict.fromkeys(word for node in walk(tree) for word in _words_by(node, name))  # type: ignore[arg-type]
        words_by_name += [{name: word} for word in words if word != given[name]]
    return words_by_name


def _words_by(node: ast.AST, name: str) -> Iterator[str]:
    """The text that a node compares a name with, or that is a key of the table in which it is looked up."""
    if isinstance(node, ast.Compare):
        parts = [node.left, *node.comparators]
    elif isinstance(node, ast.Subscript):
        parts = [node.slice, node.value]
    elif isinstance(node, ast.Match):
        parts = [
            node.subject,
            *(each.value for case in node.cases for each in walk(case.pattern) if isinstance(each, ast.MatchValue)),
        ]
    else:
        return
    if any(isinstance(part, ast.Name) and part.id == name for part in parts):
        for part in parts:
            yield from (one.value for one in walk(part) if isinstance(one, ast.Constant) and isinstance(one.value, str))


def _tree_of(source: str) -> ast.Module | None:
    try:
        return parse(source)
    except UNPARSABLE:
        return None


def scalars_at_an_end(problem: Problem, names: Collection[str]) -> list[dict[str, Scalar]]:
    """Zero for each scalar that is no epsilon, and one for each that may be a share."""
    able = [s for s in problem.scalars if s.name in names and isinstance(s.default, float) and abs(s.default) >= TINY]
    zeros: list[dict[str, Scalar]] = [{spec.name: 0.0} for spec in able]
    return zeros + [{spec.name: 1.0} for spec in able if isinstance(spec.default, float) and 0 < spec.default < 1]


def usual_epsilons(problem: Problem, names: Collection[str]) -> list[dict[str, Scalar]]:
    """For all of these scalars that are epsilons, each number that people write and that no default is."""
    able = [s for s in problem.scalars if s.name in names and isinstance(s.default, float) and 0 < s.default < TINY]
    moves: list[dict[str, Scalar]] = [
        {s.name: epsilon for s in able if s.default != epsilon} for epsilon in USUAL_EPSILONS
    ]
    return [moved for moved in moves if moved]


def no_epsilons(problem: Problem, names: Collection[str]) -> dict[str, Scalar]:
    """Zero for each of these scalars that is an epsilon: what it guards from does not occur in most data."""
    return {
        s.name: 0.0
        for s in problem.scalars
        if s.name in names and isinstance(s.default, float) and 0 < s.default < TINY
    }


def far_scalars(
    problem: Problem, names: Collection[str], stream: random.Random, *, is_small: bool
) -> list[dict[str, Scalar]]:
    """Numbers far out, of either sign, what masks are filled with among them, or close to zero: of scalars bounded by nothing."""
    moves: list[dict[str, Scalar]] = []
    for spec, default in _unbounded(problem, names, stream):
        low, high = CLOSE_TO_ZERO if is_small else FAR_OUT
        size = max(1.0, abs(default)) * math.exp(stream.uniform(math.log(low), math.log(high)))
        drawn = [math.copysign(size, stream.choice((-1.0, 1.0)))]
        drawn += [] if is_small or default >= 0 else [stream.choice(FILLS)]
        moves += [{spec.name: value} for value in reversed(drawn)]
    return moves


def scalars_beyond(
    problem: Problem, names: Collection[str], stream: random.Random, *, is_below: bool
) -> list[dict[str, Scalar]]:
    """Numbers of the other sign, or else beyond one: of scalars that the reference bounds by nothing."""
    moves: list[dict[str, Scalar]] = []
    for spec, default in _unbounded(problem, names, stream):
        most = max(1.0, abs(default))
        size = stream.uniform(most / 16, 2 * most) if is_below else stream.uniform(1.25, 3.0) * most
        moves.append({spec.name: size if (default < 0) is is_below else -size})
    return moves


def whole_for_floats(problem: Problem, names: Collection[str], stream: random.Random) -> list[dict[str, Scalar]]:
    """Whole numbers in place of floats, as callers write them: of all such scalars at once, then of each alone."""
    each = {
        spec.name: stream.choice((-1, 1)) * (math.ceil(max(1.0, abs(default))) + stream.randint(0, 2))
        for spec, default in _unbounded(problem, names, stream)
    }
    alone: list[dict[str, Scalar]] = [{name: value} for name, value in each.items()]
    return [dict(each), *alone] if len(alone) > 1 else alone


def _unbounded(problem: Problem, names: Collection[str], stream: random.Random) -> Iterator[tuple[ScalarSpec, float]]:
    """The scalars that are floats, no epsilons, and bounded by nothing, each with its default; in a drawn order."""
    for spec in stream.sample(problem.scalars, len(problem.scalars)):
        default = spec.default
        if spec.name not in names or not isinstance(default, float) or not TINY <= abs(default) < math.inf:
            continue
        if _is_unbounded(problem.source, spec.name) and not _is_handed_as(is_share, problem.source, spec.name):
            yield spec, default


def _is_unbounded(source: str, name: str) -> bool:
    """Whether a reference takes any number for a scalar: it is a factor, an addend, or handed to torch, which refuses some.

    Of what is compared or taken from one the reference may mean a share.
    """
    tree = _tree_of(source)
    if tree is None:
        return False
    parents = {child: node for node in walk(tree) for child in ast.iter_child_nodes(node)}
    uses = [node for node in walk(tree) if isinstance(node, ast.Name) and node.id == name]
    return bool(uses) and all(_is_free(node, parents) for node in uses)


def _is_free(node: ast.AST, parents: dict[ast.AST, ast.AST]) -> bool:
    above = parents[node]
    while isinstance(above, ast.BinOp) and isinstance(above.op, ast.Add | ast.Sub | ast.Mult):
        other = above.left if above.right is node else above.right
        if isinstance(other, ast.Constant) and not isinstance(above.op, ast.Mult):
            return False
        node, above = above, parents[above]
    if isinstance(above, ast.BinOp):
        return isinstance(above.op, ast.Div)
    call = parents[above] if isinstance(above, ast.keyword) else above
    if isinstance(call, ast.Call):
        return isinstance(call.func, ast.Attribute)
    return isinstance(above, ast.Return | ast.Assign | ast.Attribute)


def is_ignored(name: str) -> bool:
    """Whether a scalar's name says that it is an index which counts for nothing, as ``ignore_index`` does."""
    return "ignore" in name.lower()


def is_padding(name: str) -> bool:
    """Whether a scalar's name says that it is a row of a table that learns nothing, below zero counted from its end."""
    return name.lower() == "padding_idx"


def _is_handed_as(says: Callable[[str], bool], source: str, name: str) -> bool:
    """Whether a reference hands a scalar to torch by a keyword that says so."""
    tree = _tree_of(source)
    handed = (node for node in walk(tree) if isinstance(node, ast.keyword)) if tree is not None else ()
    return any(says(one.arg or "") and isinstance(one.value, ast.Name) and one.value.id == name for one in handed)


def is_share(name: str) -> bool:
    """Whether a parameter of torch's of this name is a share, which torch takes for zero below zero and refuses beyond one."""
    return name == "label_smoothing"


def is_seed(name: str) -> bool:
    """Whether a scalar's name says that any number will do, as for a seed."""
    return "seed" in name.lower()


def _number(default: float, stream: random.Random) -> float:
    if not math.isfinite(default):
        return default
    if abs(default) < TINY:
        low = LEAST_EPSILON if stream.random() < 0.5 else max(abs(default), 1e-7) / 2
        drawn = math.exp(stream.uniform(math.log(low), math.log(LARGEST_EPSILON)))
        return math.copysign(stream.choice((drawn, stream.uniform(TINY, LARGEST_EPSILON))), default)
    most = 1.0 if abs(default) <= 1 else 2 * abs(default)  # a share stays one, and its rest is no rounding error
    return math.copysign(stream.uniform(most / 16, most * (15 / 16)), default)


def _whole(problem: Problem, spec: ScalarSpec, stream: random.Random, kind: str) -> int | bool:
    default = spec.default
    assert isinstance(default, int)
    if isinstance(default, bool):
        return stream.choice((not default, int(not default)))  # callers write 0 and 1 too
    if is_ignored(spec.name) or _is_handed_as(is_ignored, problem.source, spec.name):
        return stream.choice((-100, -1, 0, 1, stream.randint(-1000, -2)))
    if is_padding(spec.name) or _is_handed_as(is_padding, problem.source, spec.name):
        return stream.choice((-2, -1, 0, 1) if kind == "near" else (-2, -1))
    if default < 0:
        sign = _SIGNS.get(kind) or stream.choice((-1, 1))
        far = sign * stream.randint(*(8, 200) if kind == "below" else FAR)
        return stream.choice((default - 1, default + 1, 0, 1)) if kind == "near" else far
    if is_seed(spec.name):
        return stream.randint(*SEEDS) if kind == "far" else 0 if kind == "below" else default + 1
    if kind != "near" and _is_unbounded(problem.source, spec.name):
        if kind in ("far", "beyond", "past"):
            ends = {"far": FAR, "beyond": BEYOND, "past": PAST}[kind]
            return round(math.exp(stream.uniform(*map(math.log, ends))))
        return stream.choice((0, -1, -default, -stream.randint(2, 40)))
    return stream.choice((1, default + 1, default + 2, 2 * default, max(1, default // 2)))
