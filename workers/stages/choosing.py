"""Which variant would be applied: the best of those that were kept, or the one that a review chose in its words. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence

from workers.authors.protocol import Feedback
from workers.contracts import Outcome, Variant

NAMED = re.compile(r"\bv(\d{1,2})\b", re.IGNORECASE)
CHOSEN = re.compile(r"\b(?:use|take|apply|choose|pick|prefer)\s+(?:variant\s+)?[`*\"']*v(\d{1,2})\b", re.IGNORECASE)
DENIED = re.compile(
    r"(?:\bnot|n['\u2019]t|\bnever|\bwithout|\binstead of|\brather than)\s+(?:\w+\s+)?[`*\"']*v\d{1,2}\b", re.IGNORECASE
)
APPLICABLE = (Outcome.kept, Outcome.no_gain)
WORDS_ALONE = (
    "The review named no variant; without a model author a choice among the variants (such as `use v2`) is all that can be "
    "acted on, so the comparison is unchanged."
)


def chosen(variants: Sequence[Variant], feedback: Sequence[Feedback]) -> tuple[str | None, tuple[str, ...]]:
    """Give the winner, which is the last choice of the reviews that can be met, and what to say of the last review."""
    winner, notes = best_of(variants), tuple[str, ...]()
    known = {variant.name: variant for variant in variants}
    for review in feedback:
        name = choice_in(review.text)
        if name is None:
            notes = (WORDS_ALONE,)
        elif name in known and known[name].outcome in APPLICABLE:
            winner, notes = name, (f"{name} was chosen by the review.",)
        else:
            notes = (_refused(name, known.get(name), variants),)
    return winner, notes


def best_of(variants: Sequence[Variant]) -> str | None:
    """Give the kept variant with the best score; where nothing was timed, the last that was kept."""
    kept = [variant for variant in variants if variant.outcome is Outcome.kept]
    if not kept:
        return None
    return max(enumerate(kept), key=lambda item: (item[1].score or 0.0, item[0]))[1].name


def choice_in(text: str) -> str | None:
    """Give the one variant that a text asks for; None where it names none, or several of which none is the one to use."""
    wanted = DENIED.sub(" ", text)
    for pattern in (CHOSEN, NAMED):
        found = {int(number) for number in pattern.findall(wanted)}
        if found:
            return f"v{found.pop()}" if len(found) == 1 else None
    return None


def _refused(name: str, variant: Variant | None, variants: Sequence[Variant]) -> str:
    why = "was not tried" if variant is None else f"may not be applied: its outcome is {variant.outcome.value}"
    able = ", ".join(v.name for v in variants if v.outcome in APPLICABLE) or "none"
    return f"{name} {why}, so the comparison is unchanged. Variants that may be applied: {able}."
