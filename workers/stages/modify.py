"""Modify: a change asked of a model, proved and tested before it is committed, for a person to decide on."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from gpu_runner.contracts import to_json
from workers.authors.llm import change_question, read_change
from workers.authors.llm.protocol import ChangeAnswer, ChangeBrief, Failed, Remark, Task
from workers.authors.protocol import Feedback
from workers.contracts import (
    Attempt,
    CheckpointUpdate,
    CommitPurpose,
    CommitUpdate,
    Failure,
    FailureCode,
    FileChange,
    ModifySummary,
    PullRequestUpdate,
    StageName,
    Update,
    UserFacingError,
)
from workers.engine.protocol import StageContext, StageResult
from workers.layouts.existing import own_path
from workers.models.protocol import Answer
from workers.stages.bench import (
    ModifyBench,
    changes_from_json,
    keep_json,
    only_new,
    open_modify,
    own_result,
)
from workers.stages.briefs import HEARD, answered, change_brief, new_points, remarks_of
from workers.stages.confines import changed_files, diff
from workers.stages.gate import check_host
from workers.stages.proof import Fell, ProofStep, Proved, judge_existing, judged, proposed_changes
from workers.stages.search import AttemptLog, Judged, Search, SearchQuestion, failed_text
from workers.strategies.source import fingerprint

MOST_SOURCE = 60_000  # characters of an answer that could not be used, for its repair
PASSED, BREAKS = "passed", "breaks a call"
CODES = {ProofStep.style: FailureCode.style, ProofStep.tests: FailureCode.tests}
NO_MODEL = Failure(
    FailureCode.model,
    "`/kernel modify` needs a language model, and none is configured on this bot",
    "An operator configures one, with a key, a model's name and a budget (docs/models.md); then `/kernel retry` goes on.",
)
OLD_PROBLEM = (
    "The bot's own record of what this kernel computes is about the call as it is today; where that is no longer "
    "true, commit the problem below as `.kernelsmith/problems/{name}.py`."
)


class Modify:
    """The first stage of ``modify``."""

    name = StageName.modify

    def run(self, context: StageContext) -> StageResult:
        """A change that passed the full verdict and the library's whole test file, committed.

        Raises:
            UserFacingError: something is missing, no model is configured, or no change that was proposed passed.
        """
        context.note("looking for the kernel, its tests and its problem")
        bench = open_modify(context)
        if not bench.has_models():
            raise UserFacingError(NO_MODEL)
        earlier = own_result(context, self.name)
        if earlier is None:
            check_host(bench.gate, bench.layout.needs_of(bench.kernel.name, bench.tree), bench.tree, bench.kernel.name)
        bench = judge_existing(bench)
        before = changes_from_json(earlier["changes"]) if earlier else ()
        new = new_points(context.feedback, earlier)
        remarks = remarks_of(new, bench.tree.overlaid(before))
        done = context.feedback[: len(context.feedback) - len(new)]
        log = AttemptLog(context, self.name)
        last = str(earlier["problem_source"]) if earlier and earlier["changes_function"] else None
        proved = ChangeSearch(bench, log, SearchStart(remarks, done, before, last)).run().judged.result
        assert isinstance(proved, Proved), "a search gives a change that passed"
        summary = _summary(bench, proved, log.attempts, answered(remarks, proved.answer.replies))
        context.artifact("change.patch", summary.diff.encode(), "text/x-diff")
        keep_json(context, "modify.json", summary)
        output = _output(bench, proved, summary) | {HEARD: len(context.feedback)}
        return StageResult(output, _updates(bench, before, proved.changes, summary))


def _summary(
    bench: ModifyBench, proved: Proved, attempts: tuple[Attempt, ...], replies: tuple[str, ...]
) -> ModifySummary:
    notes = proved.notes
    if proved.broken is not None and not any(c.path == own_path(bench.kernel.name) for c in proved.changes):
        notes = (*notes, OLD_PROBLEM.format(name=bench.kernel.name))
    return ModifySummary(
        summary=proved.answer.summary,
        files=changed_files(proved.changes, bench.tree),
        diff=diff(proved.changes, bench.tree),
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


def _output(bench: ModifyBench, proved: Proved, summary: ModifySummary) -> dict[str, Any]:
    judge = proved.judge
    return {
        "changes": to_json(proved.changes),
        "today": bench.problem.source,
        "problem_source": judge.problem.source,
        "changes_function": judge.changes_function,
        "beside": judge.against_original,
        "summary": to_json(replace(summary, verdict=replace(summary.verdict, checks=()))),
    }


def _updates(
    bench: ModifyBench,
    before: tuple[FileChange, ...],
    changes: tuple[FileChange, ...],
    summary: ModifySummary,
) -> tuple[Update, ...]:
    context, kept = bench.context, {change.path for change in changes}
    # What an earlier attempt changed and this one does not is put back.
    restored = tuple(FileChange(c.path, bench.tree.read(c.path)) for c in before if c.path not in kept)
    new = only_new((*changes, *restored), bench.tree, before)
    purpose = CommitPurpose.revision if before else CommitPurpose.modification
    commits = (CommitUpdate(purpose, new, StageName.modify, context.attempt),) if new else ()
    return (
        *commits,
        PullRequestUpdate(None, summary.problem_source, summary.verdict, modification=summary),
        CheckpointUpdate(StageName.modify, context.attempt, summary, not context.request.options.auto),
    )


# The search for a change: the first that passes everything; one that keeps today's call comes before one that does not.


@dataclass(frozen=True)
class SearchStart:
    """What a search starts from: a review's points, and the last attempt's files with the problem that came with them."""

    remarks: tuple[Remark, ...] = ()
    done: tuple[Feedback, ...] = ()
    before: tuple[FileChange, ...] = ()
    problem: str | None = None


@dataclass(frozen=True)
class EditProposal:
    """A usable answer, with the files as it leaves them."""

    answer: ChangeAnswer
    changes: tuple[FileChange, ...]


class ChangeSearch(Search[ChangeBrief, EditProposal, Proved | Fell]):
    """The search for a change of an existing kernel."""

    wanted = "change"

    def __init__(self, bench: ModifyBench, log: AttemptLog, given: SearchStart) -> None:
        super().__init__(bench.context, log, bench.context.request.options.repairs)
        self.bench, self.given = bench, given
        self._carried: dict[str, str | None] = {}  # the problem of the proposal that a question starts from, by its key

    def asks(self, round_: int, last: Judged[Proved | Fell] | None) -> Sequence[SearchQuestion[ChangeBrief]]:
        """The candidates, or a repair."""
        if last is not None and isinstance(last.result, Fell):
            fell, key = last.result, f"repair-{round_}"
            brief = replace(self._brief(fell.changes, fell.problem), failed=fell.failed)
            self._carried[key] = fell.problem
            return [SearchQuestion(key, Task.repair, round_, round_, brief, change_question(brief, round_))]
        brief, count = self._brief(self.given.before, self.given.problem), self.context.request.options.candidates
        task = Task.revise if brief.remarks else Task.modify
        asks = [
            SearchQuestion(f"candidate-{n + 1}", task, 0, n, brief, change_question(brief, n, count))
            for n in range(count)
        ]
        self._carried |= {ask.key: self.given.problem for ask in asks}
        return asks

    def read(self, answer: Answer, ask: SearchQuestion[ChangeBrief]) -> EditProposal:
        """An answer as a change; without a problem of its own it keeps that of the proposal before it."""
        change = read_change(answer, ask.brief)
        change = replace(change, problem=change.problem or self._carried[ask.key])
        return EditProposal(change, proposed_changes(change, self.bench))

    def shown(self, answer: Answer) -> str:
        """An answer that could not be read, for its repair."""
        return (answer.text if answer.data is None else json.dumps(answer.data, sort_keys=True))[:MOST_SOURCE]

    def unusable(self, failed: Failed, ask: SearchQuestion[ChangeBrief]) -> Judged[Proved | Fell]:
        """An answer that changes nothing: the files are as they were."""
        before = tuple(FileChange(path, text) for path, text in ask.brief.before)
        return _fell(Fell(failed, ProofStep.answer, before, self._carried[ask.key]))

    def identity(self, proposal: EditProposal) -> str:
        """The same for the same code and problem."""
        parts = [f"{item.path} {fingerprint(item.text or '')}" for item in proposal.changes]
        return "\n".join([*parts, fingerprint(proposal.answer.problem or "")])

    def judge(self, key: str, proposal: EditProposal, ask: SearchQuestion[ChangeBrief]) -> Judged[Proved | Fell]:
        """Put a change through the gate."""
        result = judged(self.bench, key, proposal.answer, proposal.changes)
        if isinstance(result, Fell):
            return _fell(result)
        if result.broken is not None:
            return Judged(result, BREAKS, result.broken, reserve=True)
        return Judged(result, PASSED)

    def failure(self, last: Judged[Proved | Fell] | None) -> Failure:
        """Why no change passes."""
        furthest, log = failed_text(None if last is None else last.failed)
        name = self.bench.kernel.name
        message = f"none of {len(self.log.attempts)} changes of `{name}` that a model proposed passes{furthest}"
        fix = "Nothing of them was pushed. `/kernel retry` asks anew; the attempts are on the job's page."
        step = last.result.step if last is not None and isinstance(last.result, Fell) else ProofStep.answer
        code = CODES.get(step, FailureCode.verdict)
        return Failure(code, message, fix, log=log, attempts=self.log.sentences())

    def _brief(self, before: tuple[FileChange, ...], problem: str | None) -> ChangeBrief:
        return change_brief(self.bench, self.given.remarks, self.given.done, before, problem)


def _fell(fell: Fell) -> Judged[Proved | Fell]:
    return Judged(fell, fell.failed.status, fell.failed.sentence, (int(fell.step),), fell.failed)
