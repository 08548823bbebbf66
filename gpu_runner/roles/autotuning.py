"""Has a kernel under ``triton.autotune`` take one of its settings, or the first that launches, where its time is of no interest."""

from __future__ import annotations

import math
import secrets
from collections.abc import Callable
from typing import Any


def take_any() -> None:
    """Let every autotuner of this process take a drawn one of its settings for each key: on a GPU times choose, so that any may be.

    The interpreter launches all of them. A second time changes nothing.
    """
    from triton.runtime.autotuner import Autotuner

    original = Autotuner.run
    if getattr(original, "takes_any", False):
        return

    def run(self: Any, *args: Any, **kwargs: Any) -> Any:
        self.cache_results = False  # on disk
        return original(self, *args, **kwargs)

    def trial(self: Any, *args: Any, **kwargs: Any) -> Any:
        return [secrets.randbelow(2**32)] * 3  # in place of times

    run.takes_any = True  # type: ignore[attr-defined]  # a mark on the function itself
    Autotuner.run, Autotuner._bench = run, trial  # noqa: SLF001 - the one place where a setting is tried


def take_the_first_that_launches() -> None:
    """Let every autotuner of this process choose the first setting that the GPU can launch, and compile no other.

    What is lent, reset or pruned around a trial stays as the autotuner does it.
    """
    from triton.runtime.autotuner import Autotuner

    prune, bench = Autotuner.prune_configs, Autotuner._bench  # noqa: SLF001 - the one place where a setting is tried
    if getattr(bench, "takes_the_first", False):
        return

    def begin(self: Any, *args: Any, **kwargs: Any) -> Any:
        self.__dict__["has_launched"] = False
        return prune(self, *args, **kwargs)

    def trial(self: Any, *args: Any, **kwargs: Any) -> Any:
        if self.__dict__.get("has_launched", False):
            return [math.inf] * 3
        self.__dict__["do_bench"] = _once
        times = bench(self, *args, **kwargs)
        first = times[0] if isinstance(times, list | tuple) else times
        self.__dict__["has_launched"] = math.isfinite(first)
        return times

    trial.takes_the_first = True  # type: ignore[attr-defined]  # a mark on the function itself
    Autotuner.prune_configs, Autotuner._bench = begin, trial  # noqa: SLF001 - as above


def _once(launch: Callable[[], Any], *_: Any, **__: Any) -> list[float]:
    """Launch without a clock; what cannot be launched raises, as under a clock."""
    launch()
    return [0.0] * 3
