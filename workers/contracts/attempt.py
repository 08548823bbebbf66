"""What a model proposed and what became of it, one entry a proposal."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Attempt:
    """One proposal of a model for a kernel. ``evidence`` may quote it and is untrusted."""

    number: int  # from 1, in the order in which they were asked for
    task: str  # generate, revise, repair, modify or optimize
    round: int  # 0: asked for at once; from 1: after what failed before
    variation: int
    question: str  # the key of its question; the record is the artifact ``models/STAGE-ATTEMPT/KEY.json``
    # A verdict's status, a fault of the answer, a trouble of the model, style, layout, duplicate, or not judged, needed or faster.
    outcome: str
    evidence: str = ""  # the first thing that was wrong, in a sentence
    tokens: int | None = None  # read and written; None where nobody counted
    chosen: bool = False
    median_us: float | None = None  # of the full pass, over all sizes; None where it was not measured
