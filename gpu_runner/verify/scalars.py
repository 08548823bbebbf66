"""Which other values a problem's scalars are given: drawn over the range that a default suggests. Pure."""

from __future__ import annotations

import math
import random
from collections.abc import Collection

from gpu_runner.contracts.problem import Problem, ScalarSpec

Scalar = float | int | bool | str

TINY = 1e-2  # a smaller default is an epsilon: it must grow a lot before a kernel that ignores it is seen
LARGEST_EPSILON = 0.2


def moved_scalars(problem: Problem, names: Collection[str], stream: random.Random, *, whole: bool) -> dict[str, Scalar]:
    """Other values for some of these scalars: of floats for each, of whole numbers and truth values for one of them."""
    able = [spec for spec in problem.scalars if spec.name in names]
    if not whole:
        return {s.name: _number(s.default, stream) for s in able if isinstance(s.default, float)}
    picked = [spec for spec in able if isinstance(spec.default, int)]
    if not picked:
        return {}
    spec = stream.choice(picked)
    value = _whole(problem, spec, stream)
    return {} if value == spec.default else {spec.name: value}


def scalars_at_an_end(problem: Problem, names: Collection[str]) -> list[dict[str, Scalar]]:
    """Zero for each scalar that is no epsilon, and one for each that may be a share."""
    able = [s for s in problem.scalars if s.name in names and isinstance(s.default, float) and abs(s.default) >= TINY]
    zeros: list[dict[str, Scalar]] = [{spec.name: 0.0} for spec in able]
    return zeros + [{spec.name: 1.0} for spec in able if isinstance(spec.default, float) and 0 < spec.default < 1]


def is_ignored(name: str) -> bool:
    """Whether a scalar's name says that it is an index which counts for nothing, as ``ignore_index`` does."""
    return "ignore" in name.lower()


def _number(default: float, stream: random.Random) -> float:
    if not math.isfinite(default):
        return default
    if abs(default) < TINY:
        low = max(abs(default), 1e-7) / 2
        drawn = math.exp(stream.uniform(math.log(low), math.log(LARGEST_EPSILON)))
        return math.copysign(stream.choice((drawn, stream.uniform(TINY, LARGEST_EPSILON))), default)
    most = 1.0 if abs(default) <= 1 else 2 * abs(default)  # a share, as a probability or a slope is, stays one
    return math.copysign(stream.uniform(most / 16, most), default)


def _whole(problem: Problem, spec: ScalarSpec, stream: random.Random) -> int | bool:
    default = spec.default
    assert isinstance(default, int)
    if isinstance(default, bool):
        return not default
    if is_ignored(spec.name):
        return stream.choice((-100, -1, 0, 1, stream.randint(-1000, -2)))
    if default < 0:
        return stream.choice((default - 1, default + 1))
    return stream.choice((1, default + 1, default + 2, 2 * default, max(1, default // 2)))
