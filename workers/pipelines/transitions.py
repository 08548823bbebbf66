"""What follows what: pure decisions on a pipeline, a review and an error."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from workers.contracts import NOTIFIED_LOSSES, Decision, DecisionOutcome, StageName
from workers.pipelines import Pipeline

MAX_STAGE_ATTEMPTS = 5
MAX_TRIES = 3  # of a stage that breaks on an error of ours
MAX_LOSSES = (
    20  # of hosts and workers over one piece of work, which is hours by then: what kills so many is the work itself
)
LONGEST_PAUSE_S = 600.0
MIN_SHA_LENGTH = 7
RETRY_DELAYS_S = (5.0, 30.0)


class Move(StrEnum):
    """What a job does after a stage."""

    wait = "wait"
    start = "start"
    finish = "finish"


@dataclass(frozen=True)
class Next:
    """A move, and the stage that it starts."""

    move: Move
    stage: StageName | None = None


def after_stage(pipeline: Pipeline, stage: StageName, *, checkpoint: bool, auto: bool) -> Next:
    """Decide what follows a finished stage; ``checkpoint`` is the stage's own word, ``auto`` the command's."""
    step = next(step for step in pipeline if step.stage is stage)
    if step.checkpoint and checkpoint and not auto:
        return Next(Move.wait)
    return after_approval(pipeline, stage)


def after_approval(pipeline: Pipeline, stage: StageName) -> Next:
    """Decide what follows a stage that was approved."""
    names = [step.stage for step in pipeline]
    later = names[names.index(stage) + 1 :]
    return Next(Move.start, later[0]) if later else Next(Move.finish)


def retry_delay_s(tries: int) -> float | None:
    """How long to wait before a stage that failed ``tries`` times is tried again; None where it is not."""
    return None if tries >= MAX_TRIES else RETRY_DELAYS_S[min(tries, len(RETRY_DELAYS_S)) - 1]


def loss_pause_s(losses: int, lease_s: float) -> float:
    """How long others leave work alone, from its claim on, over which so many hosts were lost: work that kills its hosts is
    to leave them time for other work, and what was not the work's fault is to go on soon.
    """
    return (
        0.0 if losses < NOTIFIED_LOSSES - 1 else min(lease_s * 2.0 ** (losses - NOTIFIED_LOSSES + 1), LONGEST_PAUSE_S)
    )


def names_commit(given: str, sha: str | None) -> bool:
    """Whether a full or shortened commit id, as a person writes it, names a commit."""
    word = given.strip().lower()
    return sha is not None and len(word) >= MIN_SHA_LENGTH and sha.lower().startswith(word)


@dataclass(frozen=True)
class Waiting:
    """A checkpoint that waits: its stage, its commit, and how many attempts the stage has had since the job started."""

    stage: StageName
    sha: str | None
    attempts: int


def judge(waiting: Waiting | None, decision: Decision, stage: StageName | None, given_sha: str) -> DecisionOutcome:
    """Decide what becomes of a review; ``stage`` None means whichever checkpoint waits."""
    if waiting is None:
        return DecisionOutcome.nothing_waits
    if (stage is not None and stage is not waiting.stage) or not names_commit(given_sha, waiting.sha):
        return DecisionOutcome.stale
    if decision is Decision.revise and waiting.attempts >= MAX_STAGE_ATTEMPTS:
        return DecisionOutcome.attempts_used
    return DecisionOutcome.accepted
