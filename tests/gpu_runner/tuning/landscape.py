"""A GPU that is not there: what settings cost is a function, with noise, drift and a clock of its own."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from gpu_runner.tuning.settings import Settings

Cost = Callable[[Mapping[str, int]], float | str]  # microseconds, or why it does not run


@dataclass
class Landscape:
    """``defaults`` complete the settings. A ``Meter`` whose time runs as things are tried."""

    cost: Cost
    defaults: dict[str, int]
    seed: int = 0
    noise: float = 0.003
    budget_s: float = 1000.0
    compile_s: float = 1.0
    drift: float = 0.0  # of the clocks, for each block
    spent_s: float = 0.0
    compiled: list[Settings] = field(default_factory=list)
    _blocks: int = 0

    def __post_init__(self) -> None:
        self._stream = random.Random(self.seed)

    def true_cost(self, settings: Settings) -> float:
        found = self.cost({**self.defaults, **dict(settings)})
        assert isinstance(found, float)
        return found

    def attempt(self, settings: Settings) -> str | None:
        self.compiled.append(settings)
        self.spent_s += self.compile_s
        found = self.cost({**self.defaults, **dict(settings)})
        return found if isinstance(found, str) else None

    def block(self, settings: Settings) -> list[float] | None:
        self.spent_s += 0.03
        self._blocks += 1
        found = self.cost({**self.defaults, **dict(settings)})
        if isinstance(found, str):
            return None
        level = found * (1 + self.drift * self._blocks)
        return [level * (1 + abs(self._stream.gauss(0, self.noise))) for _ in range(8)]

    def left_s(self) -> float:
        return self.budget_s - self.spent_s
