"""The target's own style check on a change: its fixes where they keep to the change, and no blame for what stood before."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from gpu_runner.contracts import from_json, to_json
from workers.authors.llm.protocol import Failed
from workers.contracts import FileChange, StyleOutcome
from workers.engine.protocol import StageContext
from workers.stages.modifying.confines import within
from workers.stages.modifying.preflight import Subject
from workers.stages.workbench import changes_from_json, changes_to_json
from workers.stylecheck import check_style

LOG_CHARS = 4000
FAILS = "The library's own style check fails on the change."
UNSTYLED = (
    "The library's style check objects to these files without the change too, so they are left as they were written."
)


@dataclass(frozen=True)
class Styled:
    """Files after the target's own formatter went over them."""

    changes: tuple[FileChange, ...]
    outcome: StyleOutcome
    notes: tuple[str, ...] = ()


def styled(
    context: StageContext, key: str, subject: Subject, changes: tuple[FileChange, ...], patch: str
) -> Styled | Failed:
    """Run the style check on the changed files, with its fixes.

    Raises:
        UserFacingError: the tool, or the target's configuration, cannot be used.
    """
    context.note("running the library's style check")
    fixed, outcome = _checked(context, key, subject, changes)
    if outcome.passed and within(fixed, subject.changeable, subject.tree):
        return Styled(fixed, outcome)
    # A file that breaks its own library's rules already is not put right on the way.
    standing = tuple(FileChange(change.path, subject.text(change.path)) for change in changes)
    tidy, today = _checked(context, f"{key}-today", subject, standing)
    if today.passed and tidy == standing:
        return Failed(patch, "style", FAILS, log=outcome.log[-LOG_CHARS:])
    return Styled(changes, replace(outcome, passed=False), (UNSTYLED,))


def _checked(
    context: StageContext, key: str, subject: Subject, changes: tuple[FileChange, ...]
) -> tuple[tuple[FileChange, ...], StyleOutcome]:
    def check() -> Any:
        outcome, fixes = check_style(subject.layout.style_check(changes, subject.tree), subject.tree, changes)
        return {"outcome": to_json(outcome), "fixes": changes_to_json(fixes)}

    stored = context.memo(key, check)
    fixes = {change.path: change for change in changes_from_json(stored["fixes"])}
    fixed = tuple(fixes.get(change.path, change) for change in changes)
    return fixed, from_json(StyleOutcome, stored["outcome"])
