"""What a model tried, a row each. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from service.conversation.markdown import folded, table
from service.conversation.quantities import DASH
from service.escape import code, inline
from workers.contracts import Attempt

HOW = {"generate": "candidate", "revise": "revision", "optimize": "change", "modify": "change"}
MAX_ROWS = 64


def attempts_section(attempts: Sequence[Attempt]) -> str:
    """Give the folded table of a model's attempts; nothing where no model was asked."""
    timed = any(attempt.median_us is not None for attempt in attempts)
    header = ("attempt", "how", "outcome", *(("both passes",) if timed else ()), "tokens")
    rows = [_row(attempt, timed) for attempt in attempts[:MAX_ROWS]]
    return folded("What was tried", table(header, rows, numeric=(0, *range(3, len(header)))))


def _row(attempt: Attempt, timed: bool) -> tuple[str, ...]:
    time = (f"{attempt.median_us:.1f} µs" if attempt.median_us is not None else DASH,) if timed else ()
    tokens = f"{attempt.tokens:,}" if attempt.tokens is not None else DASH
    return str(attempt.number), how(attempt), _outcome(attempt), *time, tokens


def how(attempt: Attempt) -> str:
    """Give how an attempt was asked for."""
    if attempt.round:
        return f"repair {attempt.round}"
    return f"{HOW.get(attempt.task, inline(attempt.task, 40))}, variation {attempt.variation + 1}"


def _outcome(attempt: Attempt) -> str:
    ended = code(attempt.outcome, 40)
    if attempt.chosen:
        ended = f"**{ended}, taken**"
    return f"{ended}: {inline(attempt.evidence, 160)}" if attempt.evidence else ended
