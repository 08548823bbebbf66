"""Has a create read, place and judge a model's answers as the product does: stages, screen, the runner's judge and sandbox."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path

from gpu_runner.context import RunContext
from gpu_runner.contracts import CandidateSource, Evidence, Limits, Verdict, VerifyRequest
from gpu_runner.program.imports import Library
from gpu_runner.verify.judge import judge_by
from gpu_runner.verify.screen import Objection, screen
from gpu_runner.verify.sources import CandidateFiles
from tests.cheats.trial import proofs
from tests.workers.stages.context import FakeContext
from tests.workers.stages.creating import answers, creating, kernel
from workers.contracts import AuthorName, CommitUpdate, Failure, UserFacingError
from workers.models.protocol import ModelError, Trouble
from workers.stages.analyze import Analyze
from workers.stages.generate import Generate

STEP_S = 100.0
SHORT_S = 4.0  # for what is known to be endless; on a busy machine honest work may take as long


def surroundings(step_s: float = STEP_S) -> RunContext:
    """What a verdict is reached with, its steps limited to this time."""
    return RunContext(Path(tempfile.gettempdir()), Limits(step_s=step_s))


def screened(candidate: CandidateSource) -> Objection | None:
    """What the screen objects to in a candidate's own files."""
    candidate = replace(candidate, tree=None)
    return screen(candidate, Library(CandidateFiles(candidate, surroundings()), candidate.import_roots))


def verdict_on(request: VerifyRequest, step_s: float = STEP_S) -> Verdict:
    """Screen and run a candidate as the runner does, on one problem whose truth is asked for only once."""
    candidate = replace(request.candidate, tree=None)
    objection = screened(candidate)
    if objection is not None:
        return Verdict(
            objection.status, (Evidence("screen", objection.message, line=objection.line),), rule=objection.rule
        )
    return judge_by(proofs("reglu"), candidate, surroundings(step_s))


def created(source: str, step_s: float = STEP_S) -> tuple[FakeContext, Failure | None, list[CommitUpdate]]:
    """Give a create whose model answers so and then no more, why it stopped, and what it would commit of a kernel."""
    said = [kernel(source), ModelError(Trouble.overloaded, "nothing more was written")]
    made = answers(verify=lambda request: verdict_on(request, step_s))
    context = creating(said, made, author=AuthorName.llm, candidates=1, repairs=1)
    context.run(Analyze())
    try:
        result = context.run(Generate())
    except UserFacingError as error:
        return context, error.failure, []
    return context, None, [update for update in result.updates if isinstance(update, CommitUpdate)]
