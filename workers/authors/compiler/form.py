"""How kernels are written beyond what they compute: with settings to tune, in which order of rows, with which hints. Pure."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Form:
    """The form of a pass's kernels. ``streamed`` are the graph's names of tensors that nothing reads again soon."""

    tunable: bool = False
    last_rows_first: bool = False  # forward left the last rows in the L2 cache
    streamed: frozenset[str] = frozenset()
