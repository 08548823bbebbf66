"""The closed vocabulary of strategies, one file an entry, in the order of the code. Pure."""

from __future__ import annotations

from workers.strategies.compiled_fast_path import CompiledFastPath
from workers.strategies.constant_sizes import CONSTANT_SIZES
from workers.strategies.eviction_hints import EVICTION_HINTS
from workers.strategies.fast_path_by_size import FastPathBySize
from workers.strategies.model_change import ModelChange
from workers.strategies.parameter_sweep import ParameterSweep
from workers.strategies.persistent_loop import PERSISTENT_LOOP
from workers.strategies.pipelined_loops import PIPELINED_LOOPS
from workers.strategies.protocol import Strategy
from workers.strategies.recompute import RECOMPUTE
from workers.strategies.several_rows import SEVERAL_ROWS

STRATEGIES: tuple[Strategy, ...] = (
    ParameterSweep(),
    CompiledFastPath(),
    FastPathBySize(),
    SEVERAL_ROWS,
    PERSISTENT_LOOP,
    RECOMPUTE,
    PIPELINED_LOOPS,
    CONSTANT_SIZES,
    EVICTION_HINTS,
    ModelChange(),
)
FIRST = ParameterSweep.id


def strategy_named(name: str) -> Strategy:
    """Give a strategy by its id.

    Raises:
        LookupError: there is none of that id.
    """
    for strategy in STRATEGIES:
        if strategy.id == name:
            return strategy
    known = ", ".join(strategy.id for strategy in STRATEGIES)
    message = f"there is no strategy `{name}`; known: {known}"
    raise LookupError(message)
