"""What becomes of one proposal: placed by the layout, held against the target's style, judged by the runner."""

from __future__ import annotations

from dataclasses import dataclass

from gpu_runner.contracts import Status, Verdict
from workers.authors.llm.protocol import Failed
from workers.contracts import FailureCode, FileChange, StyleOutcome, UserFacingError
from workers.engine.protocol import StageContext
from workers.layouts.protocol import Design
from workers.stages.proving import MAX_EVIDENCE, evidence_line, judge, styled, verdict_failure
from workers.stages.workbench import Workbench

LAYOUT = "layout"
STYLE = "style"
MODEL = "llm"
MAX_LOG = 4_000
# How far a proposal came, the worst first; what is not listed here ended before any of it.
PROGRESS = (
    LAYOUT,
    Status.cheating.value,
    Status.refused.value,
    Status.unproved.value,
    STYLE,
    Status.compile_error.value,
    Status.launch_error.value,
    Status.out_of_memory.value,
    Status.timeout.value,
    Status.out_of_bounds.value,
    Status.incorrect_shape.value,
    Status.incorrect_dtype.value,
    Status.unwritten_output.value,
    Status.mutated_input.value,
    Status.nondeterministic.value,
    Status.incorrect_values.value,
    Status.incorrect_gradient.value,
    Status.passed.value,
)
# These say nothing about the candidate: no other one would do better.
ENDING = (Status.environment_error, Status.degenerate_problem)


@dataclass(frozen=True)
class Judged:
    """A proposal and how far it came. ``verdict`` is None where the runner never saw it."""

    design: Design
    status: str  # a verdict's, or style, or layout
    sentence: str
    evidence: tuple[str, ...] = ()
    log: str = ""
    changes: tuple[FileChange, ...] = ()
    style: StyleOutcome | None = None
    verdict: Verdict | None = None

    @property
    def proved(self) -> bool:
        """Tell whether the runner's full verdict is passed; nothing else opens the way to a commit."""
        verdict = self.verdict
        return verdict is not None and verdict.status is Status.passed and not (verdict.quick or verdict.repeated)

    @property
    def progress(self) -> tuple[int, int]:
        """Give how far it came: its status, then the fewest checks that failed; larger is further."""
        at = PROGRESS.index(self.status) if self.status in PROGRESS else -1
        failing = 0 if self.verdict is None else sum(not check.passed for check in self.verdict.checks)
        return at, -failing

    def failed(self) -> Failed:
        """Give it as a model is told of it."""
        return Failed(self.design.source or "", self.status, self.sentence, self.evidence, self.log)


def judged(context: StageContext, bench: Workbench, design: Design, key: str) -> Judged:
    """Give what becomes of a proposal; ``key`` is its own within the attempt.

    Raises:
        UserFacingError: the host failed, or no proposal can pass on this problem.
    """
    try:
        changes, style = styled(context, bench, design, f"style-{key}")
    except UserFacingError as error:
        if error.failure.code is FailureCode.environment:
            raise
        return Judged(design, LAYOUT, error.failure.message, log=(error.failure.log or "")[-MAX_LOG:])
    if not style.passed:
        sentence = "the library's own style check fails on it"
        return Judged(design, STYLE, sentence, log=style.log[-MAX_LOG:], changes=changes, style=style)
    verdict = judge(context, bench, design, changes, f"verify-{key}")
    if verdict.status in ENDING:
        raise UserFacingError(verdict_failure(verdict, MODEL))
    found = verdict.evidence[:MAX_EVIDENCE]
    log = next((item.log for item in found if item.log), "")
    sentence = found[0].message if found else verdict.status.value
    lines = tuple(evidence_line(item) for item in found)
    return Judged(design, verdict.status.value, sentence, lines, log[-MAX_LOG:], changes, style, verdict)
