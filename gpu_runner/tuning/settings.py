"""Settings that are tried together: their form, which of them are not worth a try, their neighbours, and the
table by size that the candidate's module holds. Pure.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

from gpu_runner.contracts.benchmark import Pass
from gpu_runner.contracts.problem import Workload
from gpu_runner.contracts.tuning import Knob

# Overrides of the candidate's own rule, sorted by name; empty is the default.
Settings = tuple[tuple[str, int], ...]
DEFAULT: Settings = ()

# Source: CUDA C++ Programming Guide, table of technical specifications: at most 1024 threads, 32 warps, a block.
MOST_WARPS = 32
# Source: triton/language/core.py, TRITON_MAX_TENSOR_NUMEL: elements of one block.
MOST_ELEMENTS = 2**20


@dataclass(frozen=True)
class SettingSpace:
    """What may be set in one pass: names with their values, rising. ``defaults`` are the candidate's own, where they are known."""

    values: tuple[tuple[str, tuple[int, ...]], ...]
    defaults: tuple[tuple[str, int], ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(name for name, _ in self.values)

    def line(self, name: str, start: Settings) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """The values below and above that of ``start``, the nearest first; where it is unknown, all count as above."""
        values = dict(self.values)[name]
        current = dict(start).get(name, dict(self.defaults).get(name))
        if current is None:
            return (), values
        place = bisect_left(values, current)
        above = values[place + 1 :] if place < len(values) and values[place] == current else values[place:]
        return tuple(reversed(values[:place])), above

    def diagonals(self, start: Settings) -> Iterator[Settings]:
        """Settings that differ in two names at once, each by one step."""
        for one, two in combinations(self.names, 2):
            for a in self._steps(one, start):
                for b in self._steps(two, start):
                    yield replaced(replaced(start, one, a), two, b)

    def canonical(self, settings: Settings) -> Settings:
        """Settings without those that equal the default."""
        known = dict(self.defaults)
        return tuple((name, value) for name, value in settings if known.get(name) != value)

    def refused(self, settings: Settings) -> str | None:
        """Why settings are not worth compiling; None where they are. The default is always allowed."""
        return refused(tuple({**dict(self.defaults), **dict(settings)}.items())) if settings else None

    def _steps(self, name: str, start: Settings) -> tuple[int, ...]:
        below, above = self.line(name, start)
        return (*below[:1], *above[:1])


def space_of(knobs: Sequence[Knob], tuned_pass: Pass, defaults: Mapping[str, int]) -> SettingSpace:
    """The space of one pass; duplicate values count once."""
    values: dict[str, set[int]] = {}
    for knob in knobs:
        if knob.tuned_pass is tuned_pass:
            values.setdefault(knob.setting, set()).update(knob.values)
    known = tuple((name, defaults[name]) for name in values if name in defaults)
    return SettingSpace(tuple((name, tuple(sorted(choices))) for name, choices in values.items() if choices), known)


def replaced(settings: Settings, name: str, value: int) -> Settings:
    return tuple(sorted({**dict(settings), name: value}.items()))


def dropped(settings: Settings, name: str) -> Settings:
    """Settings without ``name``."""
    return tuple(item for item in settings if item[0] != name)


def refused(settings: Settings) -> str | None:
    """Why settings, complete with the known defaults, are not worth compiling; None where they are."""
    blocks = 1
    for name, value in settings:
        kind = name.upper()
        if value < (1 if kind.startswith(("BLOCK", "NUM_")) else 0):
            return f"{name}={value} is no size"
        if kind == "NUM_WARPS" and (value > MOST_WARPS or value & (value - 1)):
            return f"{name}={value} is no power of two up to {MOST_WARPS}"
        if kind.startswith("BLOCK"):
            blocks *= value
    if blocks > MOST_ELEMENTS:
        return f"blocks of {blocks} elements are larger than Triton's limit of {MOST_ELEMENTS}"
    return None


def text(settings: Settings) -> str:
    return " ".join(f"{name}={value}" for name, value in settings) or "default"


def predicted_log(settings: Settings, single: Mapping[tuple[str, int], float]) -> float:
    """Sum of the log-ratios of each setting alone; an unknown one counts as zero."""
    return math.fsum(single.get(item, 0.0) for item in settings)


Entries = tuple[tuple[int, Settings], ...]
HARM = 1.01  # settings that make one workload of a size this much slower than its default are not for that size
# Measured settings are taken to hold for sizes that round up to the same power of two, and no further.
NEIGHBOUR_FACTOR = 2


@dataclass(frozen=True)
class TunedSize:
    """What one workload gave: the winner, the sizes by which the module looked settings up, and the time of all that was tried."""

    tuned_pass: Pass
    workload: Workload
    sizes: tuple[int, ...]
    settings: Settings
    costs: tuple[tuple[Settings, float], ...]  # in microseconds; of the default too


def table(results: Sequence[TunedSize]) -> tuple[tuple[Pass, Entries], ...]:
    """The ``TUNED`` table: sizes rising, without passes whose default is best everywhere."""
    rows = []
    for tuned_pass in Pass:
        chosen: dict[int, Settings] = {}
        lowest: dict[int, int] = {}
        for size, group in _by_size(results, tuned_pass):
            chosen[size] = agreed(group)
            lowest[size] = min(min(item.sizes) for item in group)
        entries = _entries(chosen, lowest)
        if entries:
            rows.append((tuned_pass, entries))
    return tuple(rows)


def agreed(group: Sequence[TunedSize]) -> Settings:
    """Settings for workloads of one size: the best over all of them that slow none down, else the default."""
    winners = list(dict.fromkeys(item.settings for item in group if item.settings != DEFAULT))
    if all(item.settings == group[0].settings for item in group):
        return group[0].settings
    best, best_log = DEFAULT, 0.0
    for settings in winners:
        ratios = [_ratio(item, settings) for item in group]
        if any(ratio is None or ratio > HARM for ratio in ratios):
            continue
        mean_log = math.fsum(math.log(ratio or 1.0) for ratio in ratios) / len(ratios)
        if mean_log < best_log:
            best, best_log = settings, mean_log
    return best


def _ratio(item: TunedSize, settings: Settings) -> float | None:
    costs = dict(item.costs)
    default, mine = costs.get(DEFAULT), costs.get(settings)
    if default is None or mine is None or not math.isfinite(default) or not math.isfinite(mine) or default <= 0:
        return None
    return mine / default


def _by_size(results: Sequence[TunedSize], tuned_pass: Pass) -> list[tuple[int, list[TunedSize]]]:
    groups: dict[int, list[TunedSize]] = {}
    for item in results:
        if item.tuned_pass is tuned_pass and item.sizes:
            groups.setdefault(max(item.sizes), []).append(item)
    return sorted(groups.items())


def _entries(chosen: dict[int, Settings], lowest: dict[int, int]) -> Entries:
    entries: list[tuple[int, Settings]] = []
    reached = 0
    for size in sorted(chosen):
        below = lowest[size] // NEIGHBOUR_FACTOR
        if below > reached:
            entries.append((below, DEFAULT))
        entries.append((size, chosen[size]))
        reached = size
    merged: list[tuple[int, Settings]] = []
    for size, settings in entries:
        if merged and merged[-1][1] == settings:
            merged[-1] = (size, settings)
        else:
            merged.append((size, settings))
    while merged and merged[-1][1] == DEFAULT:
        merged.pop()
    return tuple(merged)
