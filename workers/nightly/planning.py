"""In which order a night measures kernels. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Plan:
    """``order`` is what to measure, first things first; ``known`` was measured at this very commit."""

    order: tuple[str, ...]
    known: tuple[str, ...]


def plan(
    kernels: Iterable[str], changed: Collection[str], measured: Mapping[str, tuple[str, float]], revision: str
) -> Plan:
    """Put what changed first, then what was measured longest ago; ``measured`` gives each kernel's newest revision and its time."""
    names = sorted(set(kernels))
    known = tuple(name for name in names if name in measured and measured[name][0] == revision)
    left = [name for name in names if name not in known]
    longest = sorted(left, key=lambda name: (name not in changed, measured.get(name, ("", 0.0))[1], name))
    return Plan(tuple(longest), known)
