"""The first variant of every kernel: its own code, its launch settings found by measuring instead of by a rule. Pure."""

from __future__ import annotations

from gpu_runner.contracts import Knob, Pass
from workers.contracts import Notes, PlannedStrategy
from workers.strategies.evidence import bound_of
from workers.strategies.protocol import DoesNotApply, Proposed, Situation, Table
from workers.strategies.sweeping import swept
from workers.tuned_table import settled

NOTHING = "The file launches no kernel of its own whose settings could be looked up."
AUTOTUNED = "`@triton.autotune` chooses this file's settings on the user's own GPU, so that a table would not be asked."


class ParameterSweep:
    """Tunes warps, stages, blocks and programs of every launch; no kernel changes."""

    id = "parameter_sweep"
    title = "Launch settings by measurement"
    document = "parameter_sweep.md"
    needs_kernel = True

    def plan(self, situation: Situation) -> PlannedStrategy | None:
        """Always the first: it costs nothing to read, and it says how much the code as it stands can give."""
        found = _found(situation)
        if isinstance(found, DoesNotApply):
            return PlannedStrategy(self.id, self.title, found.sentence, 1.0, 1.0, bound_of(situation))
        kernels = [k for k in situation.reading.kernels if k.launch]
        fixed = sum(1 for k in kernels if not any(name == "num_warps" for name, _ in k.launch))
        many = f"{len(kernels)} kernels are" if len(kernels) > 1 else "1 kernel is"
        trigger = f"{many} launched with settings of one rule for all GPUs and sizes"
        trigger += f", {fixed} of them with Triton's default number of warps." if fixed else "."
        return PlannedStrategy(self.id, self.title, trigger, 1.0, 1.3 if fixed else 1.15, bound_of(situation))

    def propose(self, situation: Situation) -> Proposed | DoesNotApply:
        """Give the file with its settings looked up; with nothing found it settles back to the file as it stands."""
        found = _found(situation)
        if isinstance(found, DoesNotApply):
            return found
        text, knobs = found
        named = ", ".join(f"`{knob.setting}` ({knob.tuned_pass})" for knob in knobs)
        notes = Notes(
            "The settings come from a rule that knows neither this GPU nor these sizes; measured ones are at least as fast.",
            f"Every launch looks its settings up in `TUNED` first: {named}. No kernel is changed.",
            "Between nothing and 15%, most where a pass is far from its floor; the file stays as it is if nothing is found.",
        )
        return Proposed(text, notes, knobs, lambda _, table: settled_sweep(situation.source, table))


def _found(situation: Situation) -> tuple[str, tuple[Knob, ...]] | DoesNotApply:
    try:
        found = swept(situation.source)
    except ValueError as error:
        return DoesNotApply(f"The source was not understood: {error}.")
    if found is None:
        return DoesNotApply(AUTOTUNED if situation.reading.autotuned else NOTHING)
    return found


def settled_sweep(source: str, table: Table) -> str:
    """Give a file in which only what was found is looked up; the file as it stands, byte by byte, where nothing was.

    Raises:
        ValueError: the file cannot be parsed.
    """
    wanted = frozenset(
        (Pass(timed_pass), setting)
        for _, passes in table
        for timed_pass, entries in passes
        for _, settings in entries
        for setting, _ in settings
    )
    found = swept(source, wanted) if wanted else None
    return source if found is None else settled(found[0], table)
