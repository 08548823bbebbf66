"""A set of problems as tables: how many are compiled, right and fast, and what the others were refused for. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from service.conversation.markdown import paragraphs, table
from service.conversation.quantities import DASH, percent
from service.escape import code, inline
from workers.contracts.problem_set import BASELINES, THRESHOLDS, Entry, Outcome, counts, fast_p, levels, reasons

NOT_TIMED = "Nothing was timed: there is no GPU here, or no kernel came so far."
MAX_NAMED = 6


def problem_set_section(entries: Sequence[Entry]) -> str:
    """Give the tables."""
    rows = [*levels(entries).items(), ("all", entries)]
    shown = [_row(level, chosen) for level, chosen in rows]
    by_reason = [
        (inline(reason), str(len(chosen)), ", ".join(code(e.problem) for e in chosen[:MAX_NAMED]) + _more(chosen))
        for reason, chosen in reasons(entries)
    ]
    return paragraphs(
        table(("level", "problems", "compiled", *(outcome.value for outcome in Outcome)), shown, range(1, 10)),
        _fast(rows),
        table(("not done for", "problems", "such as"), by_reason, (1,)),
    )


def _row(level: str, entries: Sequence[Entry]) -> tuple[str, ...]:
    found = counts(entries)
    numbers = (found["problems"], found["compiled"], *(found.get(outcome.value, 0) for outcome in Outcome))
    return (code(level), *map(str, numbers))


def _fast(rows: Sequence[tuple[str, Sequence[Entry]]]) -> str:
    lines = []
    for level, entries in rows:
        for baseline in BASELINES:
            shares = [fast_p(entries, baseline, threshold) for threshold in THRESHOLDS]
            if any(share is not None for share in shares):
                cells = [DASH if share is None else percent(share) for share in shares]
                lines.append((code(level), baseline.replace("_", "."), *cells))
    header = ("level", "against", *(f"fast_{threshold:g}" for threshold in THRESHOLDS))
    return table(header, lines, range(2, 6)) or NOT_TIMED


def _more(entries: Sequence[Entry]) -> str:
    return f" and {len(entries) - MAX_NAMED} more" if len(entries) > MAX_NAMED else ""
