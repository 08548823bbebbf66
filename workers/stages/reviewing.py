"""A review of the comparison: what it says in words becomes one more variant of a model, which answers it point by point."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from gpu_runner.contracts import from_json
from workers.authors.protocol import Feedback
from workers.contracts import OptimizeSummary, StopReason, Variant
from workers.engine.protocol import StageContext
from workers.stages.authoring.remarks import HEARD, answered, remarks_of
from workers.stages.authoring.writing import reads_words
from workers.stages.choosing import chosen, is_choice
from workers.stages.modelled import ModelAuthor, Start

MADE = "made"  # in the stage's output: the place of a review's last point, and the variant that was made for it


@dataclass(frozen=True)
class Found:
    """All variants of a job so far, and what is said of them. ``made`` says which were made for a review."""

    variants: tuple[Variant, ...]
    stop: StopReason
    notes: tuple[str, ...] = ()
    answered: tuple[str, ...] = ()
    made: Mapping[str, str] = field(default_factory=dict)


def reviewed(context: StageContext, author: ModelAuthor, earlier: dict[str, Any]) -> Found:
    """Give the variants of an earlier attempt, and one more where a model may be asked and the new review says more than a choice.

    Raises:
        UserFacingError: the GPU host failed.
    """
    before = from_json(OptimizeSummary, earlier["summary"])
    made = {str(place): str(name) for place, name in earlier.get(MADE, {}).items()}
    kept = Found(before.variants, before.stop, made=made)
    known = int(earlier.get(HEARD, 0))
    points = [point for point in context.feedback[known:] if point.text.strip() and not is_choice(point)]
    if not points or not reads_words(context):
        return kept
    return _made(context, author, kept, points)


def _made(context: StageContext, author: ModelAuthor, kept: Found, points: list[Feedback]) -> Found:
    trials, variants = author.trials, kept.variants
    winner, _ = chosen(variants, context.feedback, kept.made)
    parent = next((variant for variant in variants if variant.name == winner), None)
    standing = trials.bench.tree
    if parent is not None:
        standing = standing.overlaid(trials.bench.change(trials.text_of(parent)))
    remarks = remarks_of(points, standing)
    start = Start(len(variants) + 1, author.planned(), parent, variants, remarks)
    found = author.write(start)
    notes = () if author.silence is None else (author.silence.note(),)
    if found is None:
        return Found(variants, kept.stop, notes, answered(remarks, ()), kept.made)
    made = dict(kept.made) | {str(len(context.feedback) - 1): found.variant.name}
    return Found((*variants, found.variant), kept.stop, notes, answered(remarks, found.replies), made)
