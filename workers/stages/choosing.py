"""Which variant would be applied: the best of those that were kept, or the one that a review chose in its words. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from workers.authors.protocol import Feedback
from workers.contracts import Outcome, Variant

NAMED = re.compile(r"\bv(\d{1,2})\b", re.IGNORECASE)
CHOSEN = re.compile(r"\b(?:use|take|apply|choose|pick|prefer)\s+(?:variant\s+)?[`*\"']*v(\d{1,2})\b", re.IGNORECASE)
DENIED = re.compile(
    r"(?:\bnot|n['\u2019]t|\bnever|\bwithout|\binstead of|\brather than)\s+(?:\w+\s+)?[`*\"']*v\d{1,2}\b", re.IGNORECASE
)
APPLICABLE = (Outcome.kept, Outcome.no_gain)
WORDS_OF_A_CHOICE = 4  # such as "V02 it is"
WORDS_ALONE = (
    "The review named no variant; without a model author a choice among the variants (such as `use v2`) is all that can be "
    "acted on, so the comparison is unchanged."
)


def chosen(
    variants: Sequence[Variant], feedback: Sequence[Feedback], made: Mapping[str, str] | None = None
) -> tuple[str | None, tuple[str, ...]]:
    """Give the winner, which is the last wish of the reviews that can be met, and what to say of the last review.

    ``made`` are the variants that a model made for a review, by the place of the review's last point; None where no model reads
    words.
    """
    winner, notes = best_of(variants), tuple[str, ...]()
    known = {variant.name: variant for variant in variants}
    asked_for = set() if made is None else set(made.values())
    if asked_for:  # they are better than what they were made from, which need not be the best of all
        winner = best_of([variant for variant in variants if variant.name not in asked_for])
    for place, review in enumerate(feedback):
        name = choice_in(review.text) if made is None or is_choice(review) else None
        new = None if made is None else made.get(str(place))
        if name is not None and name in known and known[name].outcome in APPLICABLE:
            winner, notes = name, (f"{name} was chosen by the review.",)
        elif name is not None:
            notes = (_refused(name, known.get(name), variants),)
        elif made is None:
            notes = (WORDS_ALONE,)
        if new is not None and new in known:
            kept = known[new].outcome is Outcome.kept
            notes = (f"{new} was made for the review.",) if kept else (_unkept(known[new], winner),)
            winner = new if kept else winner
    return winner, notes


def is_choice(point: Feedback) -> bool:
    """Tell whether a point of a review only chooses a variant, so that a model has nothing to do about it."""
    if point.path is not None or choice_in(point.text) is None:
        return False
    return CHOSEN.search(point.text) is not None or len(point.text.split()) <= WORDS_OF_A_CHOICE


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


def _unkept(variant: Variant, winner: str | None) -> str:
    stays = f"{winner} stays the one to apply" if winner else "what stands stays"
    return f"{variant.name} was made for the review and is not kept, its outcome is {variant.outcome.value}: {stays}."


def _refused(name: str, variant: Variant | None, variants: Sequence[Variant]) -> str:
    why = "was not tried" if variant is None else f"may not be applied: its outcome is {variant.outcome.value}"
    able = ", ".join(v.name for v in variants if v.outcome in APPLICABLE) or "none"
    return f"{name} {why}, so the comparison is unchanged. Variants that may be applied: {able}."
