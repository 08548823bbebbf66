"""Modify: a change asked of a model, proved and tested before it is committed, for a person to decide on."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from gpu_runner.contracts import to_json
from workers.contracts import (
    Attempt,
    CheckpointUpdate,
    CommitPurpose,
    CommitUpdate,
    FileChange,
    ModifySummary,
    PullRequestUpdate,
    StageName,
    Update,
    UserFacingError,
)
from workers.engine.protocol import StageContext, StageResult
from workers.layouts.existing import own_path
from workers.stages.authoring.attempts import Book
from workers.stages.authoring.remarks import HEARD, answered, new_points, remarks_of
from workers.stages.modifying.diffs import changed_files, diff
from workers.stages.modifying.judging import Proved
from workers.stages.modifying.preflight import NO_MODEL, Subject, open_subject
from workers.stages.modifying.proof import hold_what_stands
from workers.stages.modifying.searching import Given, Search
from workers.stages.preflight import check_host
from workers.stages.suites import json_bytes
from workers.stages.workbench import changes_from_json, changes_to_json, only_new, own_result

OLD_PROBLEM = (
    "The bot's own record of what this kernel computes is about the call as it is today; where that is no longer "
    "true, commit the problem below as `.kernelsmith/problems/{name}.py`."
)


class Modify:
    """The first stage of ``modify``."""

    name = StageName.modify

    def run(self, context: StageContext) -> StageResult:
        """Give a change that passed the full verdict and the library's whole test file, committed.

        Raises:
            UserFacingError: something is missing, no model is configured, or no change that was proposed passed.
        """
        context.note("looking for the kernel, its tests and its problem")
        subject = open_subject(context)
        if not context.memo("has_models", lambda: context.has_models):
            raise UserFacingError(NO_MODEL)
        earlier = own_result(context, self.name)
        if earlier is None:
            check_host(context, subject.layout, subject.tree, subject.standing.name)
        subject = hold_what_stands(context, subject)
        before = changes_from_json(earlier["changes"]) if earlier else ()
        new = new_points(context.feedback, earlier)
        remarks = remarks_of(new, subject.tree.overlaid(before))
        done = context.feedback[: len(context.feedback) - len(new)]
        book = Book(context, self.name)
        last = str(earlier["problem_source"]) if earlier and earlier["changes_function"] else None
        proved = Search(context, subject, Given(remarks, done, before, last), book).run()
        summary = _summary(subject, proved, book.attempts, answered(remarks, proved.answer.replies))
        context.artifact("change.patch", summary.diff.encode(), "text/x-diff")
        context.artifact("modify.json", json_bytes(summary), "application/json")
        output = _output(subject, proved, summary) | {HEARD: len(context.feedback)}
        return StageResult(output, _updates(context, subject, before, proved.changes, summary))


def _summary(
    subject: Subject, proved: Proved, attempts: tuple[Attempt, ...], replies: tuple[str, ...]
) -> ModifySummary:
    notes = proved.notes
    if proved.broken is not None and not any(c.path == own_path(subject.standing.name) for c in proved.changes):
        notes = (*notes, OLD_PROBLEM.format(name=subject.standing.name))
    return ModifySummary(
        summary=proved.answer.summary,
        files=changed_files(proved.changes, subject.tree),
        diff=diff(proved.changes, subject.tree),
        verdict=proved.verdict,
        tests=replace(proved.suites.tests, collected=()),
        added=proved.suites.added,
        style=proved.style,
        attempts=attempts,
        problem_source=proved.judge.problem.source,
        changes_function=proved.judge.changes_function,
        broken_call=proved.broken,
        answered=replies,
        notes=notes,
    )


def _output(subject: Subject, proved: Proved, summary: ModifySummary) -> dict[str, Any]:
    judge = proved.judge
    return {
        "changes": changes_to_json(proved.changes),
        "today": subject.problem.source,
        "problem_source": judge.problem.source,
        "changes_function": judge.changes_function,
        "beside": judge.beside,
        "summary": to_json(replace(summary, verdict=replace(summary.verdict, checks=()))),
    }


def _updates(
    context: StageContext,
    subject: Subject,
    before: tuple[FileChange, ...],
    changes: tuple[FileChange, ...],
    summary: ModifySummary,
) -> tuple[Update, ...]:
    kept = {change.path for change in changes}
    # What an earlier attempt changed and this one does not is put back.
    restored = tuple(FileChange(c.path, subject.tree.read(c.path)) for c in before if c.path not in kept)
    new = only_new((*changes, *restored), subject.tree, before)
    purpose = CommitPurpose.revision if before else CommitPurpose.modification
    commits = (CommitUpdate(purpose, new, StageName.modify, context.attempt),) if new else ()
    return (
        *commits,
        PullRequestUpdate(None, summary.problem_source, summary.verdict, modification=summary),
        CheckpointUpdate(StageName.modify, context.attempt, summary, not context.request.options.auto),
    )
