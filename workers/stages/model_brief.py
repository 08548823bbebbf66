"""What a model is told of a kernel that it shall diagnose or make faster. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from workers.authors.llm.protocol import Remark, VariantBrief
from workers.contracts import EVERY_SIZE, Goal, ModelReading, Regime, Scope, Variant, written_scope
from workers.stages.authoring.catalog import idea
from workers.stages.figures import figures, notebook
from workers.stages.hardware import hardware
from workers.stages.situation import Profiled
from workers.stages.standing import Bench


def variant_brief(
    bench: Bench,
    known: Profiled,
    aim: tuple[Goal, Scope],
    source: str,
    parent: Variant | None = None,
    earlier: Sequence[Variant] = (),
    remarks: tuple[Remark, ...] = (),
    regime: Regime = EVERY_SIZE,
) -> VariantBrief:
    """Give the brief of the next change of a file, ``source``: what was measured, what was tried, and which ideas hold."""
    goal, scope = aim
    return VariantBrief(
        name=bench.standing.name,
        path=bench.standing.path,
        source=source,
        problem=bench.problem,
        goal=goal.value,
        scope=written_scope(scope, regime),
        measured=figures(known, goal, scope, parent),
        tried=notebook(earlier),
        ideas=tuple(idea(planned) for planned in known.strategies if not planned.repeats),
        diagnosis="" if known.diagnosis is None else diagnosis_text(known.diagnosis),
        hardware=hardware(known.profile.host),
        remarks=remarks,
    )


def diagnosis_text(diagnosis: ModelReading) -> str:
    """Give a diagnosis as text."""
    evidence = "\n".join(f"- {line}" for line in diagnosis.evidence)
    steps = "\n".join(f"{number}. {step}" for number, step in enumerate(diagnosis.steps, 1))
    return f"{diagnosis.bottleneck}\n\nBy:\n{evidence}\n\nTo try:\n{steps}"
