"""From the winners of workloads to the table that the candidate's module holds: for each pass, settings by size. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from gpu_runner.contracts.benchmark import Pass
from gpu_runner.contracts.problem import Workload
from gpu_runner.tuning.settings import DEFAULT, Settings

Entries = tuple[tuple[int, Settings], ...]
HARM = 1.01  # settings that make one workload of a size this much slower than its default are not for that size
# Measured settings are taken to hold for sizes that round up to the same power of two, and no further.
REACH = 2


@dataclass(frozen=True)
class Found:
    """What one workload gave: the winner, the sizes by which the module looked settings up, and the time of all that was tried."""

    tuned_pass: Pass
    workload: Workload
    sizes: tuple[int, ...]
    settings: Settings
    costs: tuple[tuple[Settings, float], ...]  # in microseconds; of the default too


def table(found: Sequence[Found]) -> tuple[tuple[Pass, Entries], ...]:
    """Give the table: sizes rising, and no pass for which the default holds everywhere."""
    rows = []
    for tuned_pass in Pass:
        chosen: dict[int, Settings] = {}
        lowest: dict[int, int] = {}
        for size, group in _by_size(found, tuned_pass):
            chosen[size] = agreed(group)
            lowest[size] = min(min(item.sizes) for item in group)
        entries = _entries(chosen, lowest)
        if entries:
            rows.append((tuned_pass, entries))
    return tuple(rows)


def agreed(group: Sequence[Found]) -> Settings:
    """Give the settings for workloads of one size: those that are best over all of them and harm none, else the default."""
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


def _ratio(item: Found, settings: Settings) -> float | None:
    costs = dict(item.costs)
    default, mine = costs.get(DEFAULT), costs.get(settings)
    if default is None or mine is None or not math.isfinite(default) or not math.isfinite(mine) or default <= 0:
        return None
    return mine / default


def _by_size(found: Sequence[Found], tuned_pass: Pass) -> list[tuple[int, list[Found]]]:
    groups: dict[int, list[Found]] = {}
    for item in found:
        if item.tuned_pass is tuned_pass and item.sizes:
            groups.setdefault(max(item.sizes), []).append(item)
    return sorted(groups.items())


def _entries(chosen: dict[int, Settings], lowest: dict[int, int]) -> Entries:
    entries: list[tuple[int, Settings]] = []
    reached = 0
    for size in sorted(chosen):
        below = lowest[size] // REACH
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
