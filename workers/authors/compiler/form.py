"""How kernels are written beyond what they compute: with settings to tune, in which order of rows, with which hints. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from gpu_runner.contracts import Pass


@dataclass(frozen=True)
class Form:
    """The form of a pass's kernels. ``streamed`` are the graph's names of tensors that nothing reads again soon."""

    tunable: bool = False
    tuned_pass: Pass = Pass.forward
    streamed: frozenset[str] = frozenset()

    @property
    def last_rows_first(self) -> bool:
        """Tell whether rows are taken from the last one on, which forward left in the L2 cache."""
        return self.tunable and self.tuned_pass is Pass.backward


PLAIN = Form()
