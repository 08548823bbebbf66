"""Lets a kernel under ``triton.autotune`` run in the interpreter, where there is no time to measure: its first setting is taken."""

from __future__ import annotations

from typing import Any


def teach_autotuner() -> None:
    """Change the autotuner of this process; a second time changes nothing."""
    from triton.runtime.autotuner import Autotuner

    original = Autotuner.run
    if getattr(original, "takes_the_first", False):
        return

    def run(self: Any, *args: Any, **kwargs: Any) -> Any:
        self.configs = self.configs[:1]
        return original(self, *args, **kwargs)

    run.takes_the_first = True  # type: ignore[attr-defined]  # a mark on the function itself
    Autotuner.run = run
