"""The cut: which operators become parts, and why the others stay with torch. Pure, but for ``holds``, which asks an author."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter

from workers.fuse.operators import LIBRARY, RESHAPES, OperatorKind, packet_of
from workers.fuse.part import Occurrence, Part, occurrence_of, part_of
from workers.fuse.traced import Traced

Holds = Callable[[Part], str | None]  # why an author cannot write a part as one program; None where it can
NOTHING_SAVED = "already one kernel in torch; its own kernel would move as many bytes"


@dataclass(frozen=True)
class Cut:
    """``parts`` by name, the largest expected saving first; ``kept``: why each other operator stays with torch."""

    parts: Mapping[str, Part]
    places: Mapping[str, tuple[Occurrence, ...]]
    kept: Mapping[str, str]

    def saving(self, name: str) -> int:
        """Bytes that a part saves in one forward of the model."""
        return self.parts[name].saved_bytes * len(self.places[name])

    def inside(self, names: Iterable[str]) -> set[str]:
        """The nodes of parts."""
        return {node for name in names for where in self.places[name] for node in where.nodes}


def cut(traced: Traced, holds: Holds) -> Cut:
    """Cut a model into parts that an author can write."""
    found: list[tuple[Part, Occurrence]] = []
    kept: dict[str, str] = {}
    for group in groups(traced):
        _divide(traced, group, holds, found, kept)
    return completed(traced, found, kept)


def divided(traced: Traced, chosen: Cut, name: str, holds: Holds) -> Cut:
    """The cut with what ``holds`` takes of one part in its place."""
    found = [(part, where) for other, part in chosen.parts.items() if other != name for where in chosen.places[other]]
    kept = dict(chosen.kept)
    for where in chosen.places[name]:
        _divide(traced, where.nodes, holds, found, kept)
    return completed(traced, found, kept)


def simpler(traced: Traced, chosen: Cut, name: str, holds: Holds) -> Cut:
    """The cut with one part cut again without the biases of layers outside of it, which they add then, or else without the products
    in it; as it is without either.
    """
    within = {node for where in chosen.places[name] for node in where.nodes}
    added = {node for node in within & traced.biased.keys() if traced.product_of(node) not in within}
    added = added or {node for node in within if traced.kind(node) is OperatorKind.library}
    if not added:
        return chosen
    found = [(part, where) for other, part in chosen.parts.items() if other != name for where in chosen.places[other]]
    kept = dict(chosen.kept)
    for where in chosen.places[name]:
        for piece in connected(traced, trim(traced, set(where.nodes) - added)):
            _divide(traced, piece, holds, found, kept)
    return completed(traced, found, kept)


def completed(traced: Traced, found: list[tuple[Part, Occurrence]], kept: Mapping[str, str]) -> Cut:
    """The cut into these parts, with the reason of each operator that stays with torch; ``kept`` has those that are known."""
    inside = {name for _, where in found for name in where.nodes}
    left = traced.rejoined(inside)
    reasons = {
        name: _reason(left, name) if name in traced.biased else kept.get(name) or _reason(left, name)
        for name in left.nodes
        if name not in inside and name not in traced.graph.inputs
    }
    return cut_of(found, reasons)


def cut_of(found: Iterable[tuple[Part, Occurrence]], kept: Mapping[str, str]) -> Cut:
    """The cut into these parts."""
    found = list(found)
    parts = {part.name: part for part, _ in found}
    places = {name: tuple(where for part, where in found if part.name == name) for name in parts}
    ordered = sorted(parts, key=lambda name: -parts[name].saved_bytes * len(places[name]))
    return Cut({name: parts[name] for name in ordered}, {name: places[name] for name in ordered}, kept)


def cut_again(traced: Traced, places: Iterable[Iterable[str]], kept: Mapping[str, str]) -> Cut:
    """The cut whose parts stand at these places, each the names of its nodes."""
    return cut_of([part_at(traced, nodes) for nodes in places], kept)


def _reason(traced: Traced, name: str) -> str:
    kind, packet = traced.kind(name), packet_of(traced.nodes[name].op)
    if kind is OperatorKind.library:
        return LIBRARY.get(packet, "several results")
    words = {
        OperatorKind.view: "a view, which moves nothing",
        OperatorKind.made: "it takes no tensor",
        OperatorKind.whole: "whole numbers",
        OperatorKind.scalar: "it depends on a number of the call",
    }
    return words.get(kind, NOTHING_SAVED)


def groups(traced: Traced) -> list[tuple[str, ...]]:
    """Groups of connected operators that may be one kernel, none of which waits for what waits for it."""
    owner = {name: name for name in traced.nodes}
    ends = set(traced.graph.outputs)
    members: dict[str, set[str]] = {}
    for name in traced.nodes:
        kind = None if name in traced.graph.inputs else traced.kind(name)
        before = [
            s for s in dict.fromkeys(traced.nodes[name].operands) if s in {m for g in members.values() for m in g}
        ]
        if kind is OperatorKind.view:
            # What leaves the model as a view shares memory with something, which a kernel's result would not.
            if name in ends or (not before and packet_of(traced.nodes[name].op) in RESHAPES):
                continue
        elif kind is not OperatorKind.fusable:
            continue
        members[name] = {name}
        for source in before:
            _join(traced, owner, members, owner[source], name)
    trimmed = (part for group in members.values() for part in connected(traced, trim(traced, group)))
    return sorted(trimmed, key=lambda group: list(traced.nodes).index(group[0]))


def _join(traced: Traced, owner: dict[str, str], members: dict[str, set[str]], one: str, name: str) -> None:
    """Join the group of ``name`` to another one, unless something between them would wait for itself."""
    other = owner[name]
    if one == other:
        return
    before = dict(owner)
    owner.update(dict.fromkeys(members[other], one))
    if is_acyclic(traced, owner):
        members[one] |= members.pop(other)
    else:
        owner.clear()
        owner.update(before)


def is_acyclic(traced: Traced, owner: Mapping[str, str]) -> bool:
    """Whether the owners of nodes can be put in an order."""
    try:
        TopologicalSorter(_waits(traced, owner)).prepare()
    except CycleError:
        return False
    return True


def in_order(traced: Traced, owner: Mapping[str, str]) -> list[str]:
    """The owners of nodes in an order in which they can be computed, as near to the graph's as can be."""
    sorter, place = TopologicalSorter(_waits(traced, owner)), {}
    for index, name in enumerate(traced.nodes):
        place[owner[name]] = index  # of its last node
    sorter.prepare()
    ready, ordered = list(sorter.get_ready()), []
    while ready:
        chosen = min(ready, key=place.__getitem__)
        ready.remove(chosen)
        ordered.append(chosen)
        sorter.done(chosen)
        ready += sorter.get_ready()
    return ordered


def _waits(traced: Traced, owner: Mapping[str, str]) -> dict[str, set[str]]:
    waits: dict[str, set[str]] = {}
    for name, node in traced.nodes.items():
        own = waits.setdefault(owner[name], set())
        own |= {owner[source] for source in node.operands} - {owner[name]}
    return waits


def trim(traced: Traced, group: Iterable[str], *, bare: bool = False) -> set[str]:
    """A group without the views at its ends, which cost nothing where they are. Those at its beginning that a kernel would rather
    make itself, such as half of each row, stay unless it is to be ``bare``.
    """
    inside = set(group)
    while True:
        idle = {
            name
            for name in inside
            if traced.kind(name) is OperatorKind.view and _is_at_an_end(traced, name, inside, bare)
        }
        if not idle:
            return inside
        inside -= idle


def _is_at_an_end(traced: Traced, name: str, inside: set[str], bare: bool) -> bool:
    node, users = traced.nodes[name], traced.users[name]
    fed = any(source in inside for source in node.operands)
    if not any(user in inside for user in users) or (name in traced.tuples and not inside.issuperset(users)):
        return True
    return not fed and (bare or node.op == "getitem" or packet_of(node.op) in RESHAPES)


def connected(traced: Traced, group: set[str]) -> list[tuple[str, ...]]:
    """The pieces of a group that share no value."""
    left, pieces = set(group), []
    while left:
        piece, new = set[str](), {next(name for name in traced.nodes if name in left)}
        while new:
            piece |= new
            near = {n for name in new for n in (*traced.users[name], *traced.nodes[name].operands)}
            new = (near & left) - piece
        left -= piece
        pieces.append(traced.in_order(piece))
    return pieces


def _divide(
    traced: Traced, group: tuple[str, ...], holds: Holds, found: list[tuple[Part, Occurrence]], kept: dict[str, str]
) -> None:
    """Take the longest beginning of a group that an author can write, then what is left of it."""
    while group:
        computed = [name for name in group if traced.kind(name) is not OperatorKind.view]
        if not computed or part_at(traced, group)[0].saved_bytes <= 0:
            return
        refusal = holds(part_at(traced, group)[0])
        if refusal is None:
            found.append(part_at(traced, group))
            return
        bare = traced.in_order(trim(traced, group, bare=True))
        if bare != group:
            group = bare
            continue
        good, bad = 1, len(computed)
        while bad - good > 1:
            middle = (good + bad) // 2
            why = holds(part_at(traced, _beginning(traced, group, computed, middle))[0])
            good, bad, refusal = (middle, bad, refusal) if why is None else (good, middle, why)
        beginning = _beginning(traced, group, computed, good)
        part, where = part_at(traced, beginning)
        if part.saved_bytes > 0 and (good > 1 or (len(computed) > 1 and holds(part) is None)):
            found.append((part, where))
        elif good == 1:
            kept[computed[0]] = refusal
        rest = [name for name in group if name not in beginning and name not in computed[:good]]
        pieces = connected(traced, trim(traced, rest)) if rest else []
        for piece in pieces[1:]:
            _divide(traced, piece, holds, found, kept)
        group = pieces[0] if pieces else ()


def _beginning(traced: Traced, group: tuple[str, ...], computed: list[str], count: int) -> tuple[str, ...]:
    chosen = set(computed[:count])
    views = {
        name
        for name in group
        if name not in computed and list(group).index(name) < list(group).index(computed[count - 1])
    }
    return traced.in_order(trim(traced, chosen | views))


def part_at(traced: Traced, nodes: Iterable[str]) -> tuple[Part, Occurrence]:
    """The part that a group of nodes is."""
    where = occurrence_of(traced, nodes)
    return part_of(traced, where), where
