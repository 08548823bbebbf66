"""The bounds that an author sets to the sizes of calls, as conditions and for people. Pure."""

from __future__ import annotations

import re

from gpu_runner.contracts import Graph, Problem
from workers.authors.protocol import Limit

NAME = re.compile(r"[A-Za-z_]\w*")


def condition(limit: Limit, places: dict[str, str]) -> str:
    """Give a bound as a condition; ``places`` says what each dimension name is read off.

    Raises:
        ValueError: it has a name that the places lack.
    """
    if not set(NAME.findall(limit.size)) <= set(places):
        raise ValueError(f"no tensor says what `{limit.size}` is")
    return f"{NAME.sub(lambda name: places[name.group()], limit.size)} <= {limit.most}"


def sentence(limits: tuple[Limit, ...]) -> str:
    """Give the bounds as a sentence with a blank behind it; nothing where there are none."""
    told = " and ".join(f"`{limit.size} <= {limit.most}`" for limit in limits)
    if not limits:
        return ""
    return f"It takes calls with {told} alone, as every measured size has, and spares kernels for wider rows. "


def scalar_sentence(problem: Problem, graph: Graph) -> str:
    """Say which whole scalars a graph divides sizes by, and which it holds for one value of; with a blank behind it."""
    divided = [f"`{rule.dimension}` is a multiple of `{rule.of}`" for rule in graph.multiples]
    whole = [spec for spec in problem.scalars if type(spec.default) is int and spec.name in graph.specialised]
    told = f"It takes calls in which {' and '.join(divided)}. " if divided else ""
    fixed = " and ".join(f"`{spec.name} = {spec.default}`" for spec in whole)
    return told + (
        f"It is written for {fixed} alone, since no rule was found by which other values could be. " if whole else ""
    )
