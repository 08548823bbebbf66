"""What a review asks of a cut: parts kept together, and parts left to torch. Pure, but for ``holds``, which asks an author."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from workers.fuse.cut import Cut, Holds, completed, connected, is_acyclic, part_at, trim
from workers.fuse.operators import OperatorKind
from workers.fuse.part import Occurrence
from workers.fuse.traced import Traced

_NUMBERS = r"(?:parts?\s+)?#?\d{1,3}(?:(?:\s*,\s*|\s+)(?:(?:and|with|or)\s+|&\s*)?(?:parts?\s+)?#?\d{1,3})*"
_LEAVE = rf"(?:leave|keep|give)\s+(?P<left>{_NUMBERS})\s+(?:to|with|in)\s+(?:py)?torch\b"
_JOIN = rf"(?:(?:keep|put|take)\s+(?P<kept>{_NUMBERS})\s+together\b|(?:join|merge|fuse)\s+(?P<joined>{_NUMBERS}))"
_WISH = re.compile(rf"(?P<denied>(?:\bnot|n['\u2019]t|\bnever)\s+(?:\w+\s+)?)?\b(?:{_LEAVE}|{_JOIN})", re.IGNORECASE)
LEFT = "a review leaves it to torch"
NOT_READ = "The cut is unchanged: the review asks nothing of it, such as `keep 3 and 4 together` or `leave 2 to torch`."


@dataclass(frozen=True)
class CutWish:
    """Parts by their numbers in the table that was shown: to be one part, or to stay with torch."""

    numbers: tuple[int, ...]
    together: bool


def wishes(text: str) -> tuple[CutWish, ...]:
    """What a review asks for, in order; a wish that is denied is none."""
    found = []
    for match in _WISH.finditer(text):
        numbers = match["left"] or match["kept"] or match["joined"]
        if match["denied"] is None:
            found.append(CutWish(tuple(dict.fromkeys(map(int, re.findall(r"\d+", numbers)))), match["left"] is None))
    return tuple(found)


def revised(traced: Traced, cut: Cut, texts: Sequence[str], holds: Holds) -> tuple[Cut, tuple[str, ...]]:
    """A cut as reviews of it ask, and a sentence on each wish. All numbers are those of ``cut``."""
    names, answered = list(cut.parts), list[str]()
    now, renamed = cut, {name: name for name in names}
    for wish in (wish for text in texts for wish in wishes(text)):
        shown = " and ".join(map(str, wish.numbers))
        unknown = [number for number in wish.numbers if not 0 < number <= len(names)]
        if unknown:
            answered.append(f"There is no part {unknown[0]}: the parts are 1 to {len(names)}.")
            continue
        asked = list(dict.fromkeys(renamed[names[number - 1]] for number in wish.numbers))
        gone = [name for name in asked if name not in now.parts]
        if gone:
            answered.append(f"Part {shown}: `{gone[0]}` already stays with torch.")
        elif wish.together:
            joined = _together(traced, now, asked, holds)
            if isinstance(joined, str):
                answered.append(f"Parts {shown} stay apart: {joined}.")
                continue
            now, name = joined
            renamed |= {names[number - 1]: name for number in wish.numbers}
            answered.append(f"Parts {shown} are one: `{name}`.")
        elif len(asked) == len(now.parts):
            answered.append(
                f"Part {shown} stays a part, since nothing would be left of the cut; `/kernel cancel` ends the job."
            )
        else:
            now = _left(traced, now, asked)
            answered.append(f"Part {shown} stays with torch.")
    return now, tuple(answered) or (NOT_READ,)


def _left(traced: Traced, cut: Cut, names: Iterable[str]) -> Cut:
    out = set(names)
    nodes = [node for name in out for where in cut.places[name] for node in where.nodes]
    kept = dict(cut.kept) | {node: LEFT for node in nodes if traced.kind(node) is not OperatorKind.view}
    found = [(cut.parts[n], where) for n in cut.parts if n not in out for where in cut.places[n]]
    return completed(traced, found, kept)


def _together(traced: Traced, cut: Cut, names: list[str], holds: Holds) -> tuple[Cut, str] | str:
    """The cut with parts as one, and its name; or why they cannot be."""
    counts = {len(cut.places[name]) for name in names}
    if len(names) < 2 or len(counts) > 1:
        return "it is one part" if len(names) < 2 else "they occur at different numbers of places"
    others = [(cut.parts[n], where) for n in cut.parts if n not in names for where in cut.places[n]]
    found = []
    for wheres in zip(*(cut.places[name] for name in names), strict=True):
        nodes = trim(traced, _between(traced, wheres))
        taken = next((part.name for part, where in others if nodes & set(where.nodes)), None)
        if taken is not None:
            return f"`{taken}` lies between them"
        if len(connected(traced, nodes)) > 1:
            return "they share no value"
        found.append(part_at(traced, nodes))
    owner = {name: name for name in traced.nodes}
    owner |= {node: where.nodes[0] for _, where in (*others, *found) for node in where.nodes}
    if not is_acyclic(traced, owner):
        return "what lies between them would depend on itself"
    refusal = next((why for why in map(holds, {part.name: part for part, _ in found}.values()) if why), None)
    if refusal is not None:
        return refusal.rstrip(".")
    return completed(traced, [*others, *found], cut.kept), found[0][0].name


def _between(traced: Traced, wheres: Iterable[Occurrence]) -> set[str]:
    """The nodes of several places, and all that one of them computes on the way to another."""
    inside = {node for where in wheres for node in where.nodes}
    after, before = set(inside), set(inside)
    for name, node in traced.nodes.items():
        if any(source in after for source in node.operands):
            after.add(name)
    for name in reversed(traced.nodes):
        if any(user in before for user in traced.users[name]):
            before.add(name)
    return after & before
