"""Generate: have the kernel written through the layout, in the target's style, and the library's form proved."""

from __future__ import annotations

from typing import Any

from gpu_runner.contracts import from_json, to_json
from workers.contracts import (
    CheckpointUpdate,
    CommitPurpose,
    CommitUpdate,
    GenerateSummary,
    KernelProfile,
    PullRequestUpdate,
    StageName,
    Update,
)
from workers.engine.protocol import StageContext, StageResult
from workers.stages.authoring.attempts import Book
from workers.stages.authoring.beating import beaten
from workers.stages.authoring.remarks import HEARD, new_points
from workers.stages.authoring.writing import COMPILER, Written, stored, write
from workers.stages.workbench import changes_from_json, changes_to_json, merged, only_new, own_result, reopen


class Generate:
    """The second stage of ``create``."""

    name = StageName.generate

    def run(self, context: StageContext) -> StageResult:
        """Give a kernel in the library's form whose verdict is passed, committed."""
        bench = reopen(context)
        analyzed = context.result_of(StageName.analyze)
        earlier = own_result(context, self.name)
        before = changes_from_json((earlier or analyzed)["changes"])
        book = Book(context, self.name)
        points = new_points(context.feedback, earlier)
        written = write(context, bench, book, points, earlier, bench.tree.overlaid(before))
        written, compared = beaten(context, bench, book, written)
        new = only_new(written.changes, bench.tree, before)
        profile = from_json(KernelProfile, analyzed["profile"])
        purpose = CommitPurpose.kernel if earlier is None else CommitPurpose.revision
        plan = written.design.plan
        summary = GenerateSummary(
            written.verdict,
            tuple(change.path for change in written.changes),
            written.author,
            plan.forward_formula,
            plan.gradient_formulas,
            _answered(context, earlier, written),
            (*compared, *plan.notes),
            book.attempts,
        )
        commit = (CommitUpdate(purpose, new, self.name, context.attempt),) if new else ()
        updates: tuple[Update, ...] = (
            *commit,
            PullRequestUpdate(profile, bench.problem.source, written.verdict),
            CheckpointUpdate(self.name, context.attempt, summary, not context.request.options.auto),
        )
        output: dict[str, Any] = stored(written) | {
            "changes": changes_to_json(merged(before, written.changes)),
            "style": to_json(written.style),
            HEARD: len(context.feedback),
        }
        context.artifact(f"{bench.name}.py", (written.design.source or "").encode(), "text/x-python")
        return StageResult(output, updates)


def _answered(context: StageContext, earlier: dict[str, Any] | None, written: Written) -> tuple[str, ...]:
    if written.author != COMPILER:
        return written.answered
    if not context.feedback or earlier is None:
        return ()
    if earlier["source"] == written.design.source:
        return ("The compiler author cannot act on words: it wrote the same kernel from the same problem.",)
    return ("The kernel was written again.",)
