"""The catalog of strategies, in the order of the code; those that only a model carries out are described here. Pure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from gpu_runner.contracts import Bound
from workers.contracts import PlannedStrategy
from workers.strategies.evidence import (
    Worth,
    bound_of,
    has_products,
    headroom,
    kept_for_backward,
    reduces_rows,
    row_bytes,
    rows_in,
    share_sentence,
    shared_by_rows,
    sizes_called,
)
from workers.strategies.fast_path import CompiledFastPath, FastPathBySize
from workers.strategies.grouped_tiles import GROUPED_TILES
from workers.strategies.protocol import DoesNotApply, ModelTurn, Proposed, Situation, Stands, Strategy
from workers.strategies.rewrites import CONSTANT_SIZES, EVICTION_HINTS, PIPELINED_LOOPS
from workers.strategies.sweep import ParameterSweep

# Below this a program moves too few bytes to keep memory busy; below the second one by far (docs/knowledge/optimizations).
SMALL_ROW_BYTES = 8192
TINY_ROW_BYTES = 2048
MANY_ROWS = 1024
LEAST_ROW_BYTES = 2048
WEIGHT_GAIN = 1.2
FORESEEN_GAIN = 1.25  # a tensor less among the four or five of an element-wise backward pass


@dataclass(frozen=True)
class Described:
    """A change with its trigger, decided by the problem, its graph and the sizes. Listed only where a model may read it."""

    id: str
    title: str
    document: str
    worth: Callable[[Situation], Worth | None]
    needs_kernel: bool = False

    def plan(self, situation: Situation) -> PlannedStrategy | None:
        """The entry with its evidence, where its trigger applies."""
        # The compiler has chosen among these forms for the text that a model starts from.
        if situation.stands is Stands.start or (
            situation.stands is Stands.kernel and situation.model is ModelTurn.never
        ):
            return None
        worth = self.worth(situation)
        if worth is None:
            return None
        share = share_sentence(situation)
        trigger = f"{worth.trigger}{'; ' + share if share else ''}."
        return PlannedStrategy(self.id, self.title, trigger, worth.gain_low, worth.gain_high, bound_of(situation))

    def propose(self, situation: Situation) -> Proposed | DoesNotApply:
        """Nothing: a model that is asked for a change reads this entry."""
        return DoesNotApply("Only a model writes this change, and it is told of it.")


def _short_rows(situation: Situation) -> Worth | None:
    graph = situation.graph
    if graph is None or has_products(graph) or not reduces_rows(graph):
        return None
    sizes = [row_bytes(situation.problem, workload) for workload in situation.problem.workloads]
    small = [size for size in sizes if size <= SMALL_ROW_BYTES]
    if not small:
        return None
    high = 1.0 + (0.6 if min(small) <= TINY_ROW_BYTES else 0.3) * len(small) / len(sizes)
    trigger = f"One short row a program: {len(small)} of {len(sizes)} {sizes_called(situation)} have rows of at most "
    return Worth(f"{trigger}{max(small)} bytes, and each is reduced by itself", high)


def _many_rows(situation: Situation) -> Worth | None:
    problem, shared = situation.problem, shared_by_rows(situation.problem)
    many = [row_bytes(problem, size) for size in problem.workloads if rows_in(problem, size) >= MANY_ROWS]
    known = situation.graph is not None and not has_products(situation.graph)
    if not known or not many or not shared or max(many) < LEAST_ROW_BYTES:
        return None
    sizes = f"{len(many)} of {len(problem.workloads)} sizes have at least {MANY_ROWS} rows"
    return Worth(f"{sizes}, and every row reads all of {', '.join(f'`{name}`' for name in shared)}", WEIGHT_GAIN)


def _kept_for_backward(situation: Situation) -> Worth | None:
    """Arithmetic is free where memory bounds a pass: what autograd would keep is then cheaper to compute again."""
    kept = () if situation.graph is None else kept_for_backward(situation.problem, situation.graph)
    # A problem does not tell what an existing kernel saves: those of liger-kernel save inputs and one value a row.
    if situation.stands is Stands.kernel or not kept or bound_of(situation) is not Bound.memory:
        return None
    named = ", ".join(f"`{op}`" for op in dict.fromkeys(kept))
    trigger = f"Backward needs what forward computes by {named} at the size of an input, and memory bounds it"
    return Worth(trigger, FORESEEN_GAIN)


SEVERAL_ROWS = Described("several_rows", "Several rows a program", "several-rows.md", _short_rows)
PERSISTENT_LOOP = Described(
    "persistent_loop", "A loop over rows on each multiprocessor", "persistent-loop.md", _many_rows
)
RECOMPUTE = Described("recompute", "Recompute instead of save", "recompute.md", _kept_for_backward)
# A pass that is within a tenth of its floor is finished, and what could still be gained is not worth an answer.
LEAST_ROOM = 1.10
GAIN = (1.0, 1.3)
ELSEWHERE = "A model writes this change, and the stage asks for it."


class ModelChange:
    """One change at a time, each on the best variant so far, as long as they gain something."""

    id = "model_change"
    title = "A model's change"
    document = "model-change.md"
    needs_kernel = True

    def plan(self, situation: Situation) -> PlannedStrategy | None:
        """Worth a try where a model may be asked and, unless it was named, a pass is well above its floor."""
        if situation.model is ModelTurn.never:
            return None
        if situation.model is ModelTurn.last and headroom(situation) < LEAST_ROOM:
            return None
        reason = share_sentence(situation) or "how far it is from its floor was not measured"
        when = "after what needs none" if situation.model is ModelTurn.last else "right after the launch settings"
        trigger = f"A model may be asked, {when}; {reason}."
        return PlannedStrategy(self.id, self.title, trigger, *GAIN, bound=bound_of(situation), repeats=True)

    def propose(self, situation: Situation) -> Proposed | DoesNotApply:
        """Nothing: a strategy is pure, and a model is not."""
        assert situation.source, "there is a file"
        return DoesNotApply(ELSEWHERE)


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
    GROUPED_TILES,
    ModelChange(),
)
FIRST = ParameterSweep.id


def strategy_named(name: str) -> Strategy:
    """A strategy by its id.

    Raises:
        LookupError: there is none of that id.
    """
    for strategy in STRATEGIES:
        if strategy.id == name:
            return strategy
    known = ", ".join(strategy.id for strategy in STRATEGIES)
    message = f"there is no strategy `{name}`; known: {known}"
    raise LookupError(message)
