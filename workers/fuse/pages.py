"""The cut as people and programs read it: subgraphs.json, a picture, a table. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from workers.fuse.cut import Cut, in_order
from workers.fuse.operators import OperatorKind, packet_of
from workers.fuse.traced import Traced


def subgraphs(cut: Cut) -> list[dict[str, Any]]:
    """The parts as subgraphs.json lists them; bytes and FLOPs of one forward call, ``floor_bytes`` must move in any case."""
    return [
        {
            "id": name,
            "operators": list(part.operators),
            "inputs": [{"shape": list(shape), "dtype": dtype} for shape, dtype in part.shapes],
            "parameters": part.parameters,
            "backward": part.has_backward,
            "occurrences": [list(where.nodes) for where in cut.places[name]],
            "bytes_apart": part.bytes_apart,
            "floor_bytes": part.bytes_fused,
            "saved_bytes": cut.saving(name),
            "flops": part.flops,
            "digest": part.digest,
        }
        for name, part in cut.parts.items()
    ]


def _computing(traced: Traced) -> list[str]:
    return [n for n in traced.nodes if n not in traced.graph.inputs and traced.kind(n) is not OperatorKind.view]


def shares(traced: Traced, cut: Cut, proved: Iterable[str]) -> dict[str, int]:
    """How often one forward calls proved parts, and how many operators that compute it leaves to torch."""
    proved = list(proved)
    inside = cut.inside(proved)
    left = [node for node in _computing(traced.rejoined(inside)) if node not in inside]
    return {"calls": sum(len(cut.places[name]) for name in proved), "left_to_torch": len(left)}


def totals(traced: Traced, cut: Cut) -> dict[str, int]:
    """Bytes and FLOPs of one forward of the model, with each operator torch's, and what the parts save of them."""
    computed = _computing(traced)
    moved = sum(map(traced.bytes_apart, computed))
    saved = sum(cut.saving(name) for name in cut.parts)
    return {"bytes": moved, "saved_bytes": saved, "flops": sum(map(traced.flops, computed)), "operators": len(computed)}


def picture(traced: Traced, cut: Cut) -> str:
    """The cut as a mermaid flowchart: a node for each part and each operator that computes outside of them."""
    traced = traced.rejoined(cut.inside(cut.parts))
    owner = {name: name for name in traced.nodes}
    names = {}
    for name in cut.parts:
        for where in cut.places[name]:
            owner |= dict.fromkeys(where.nodes, where.nodes[0])
            names[where.nodes[0]] = name
    order = in_order(traced, owner)
    hidden = {n for n in order if n not in names and (n in traced.graph.inputs or traced.kind(n) is OperatorKind.view)}
    labels = {unit: names.get(unit) or packet_of(traced.nodes[unit].op) for unit in order if unit not in hidden}
    numbers = {unit: f"n{place}" for place, unit in enumerate(labels)}
    lines = ["flowchart TD"]
    titles = {name: f"part {number}<br/>{name}" for number, name in enumerate(cut.parts, 1)}
    for unit, label in labels.items():
        text = ", ".join(cut.parts[label].operators[:6]) if unit in names else f"{label}<br/>torch"
        lines.append(f'    {numbers[unit]}["{f"{titles[label]}<br/>{text}" if unit in names else text}"]')
    edges = dict.fromkeys(
        (numbers[source], numbers[owner[name]])
        for name, node in traced.nodes.items()
        if owner[name] in numbers
        for source in _behind(traced, owner, hidden, node.operands)
        if source in numbers and source != owner[name]
    )
    lines += [f"    {one} --> {other}" for one, other in edges]
    parts = ",".join(numbers[unit] for unit in labels if unit in names)
    lines += ["    classDef part fill:#cfe8cf,stroke:#3a7d3a", f"    class {parts} part"] if parts else []
    return "\n".join(lines) + "\n"


def _behind(traced: Traced, owner: Mapping[str, str], hidden: set[str], names: Sequence[str]) -> list[str]:
    """What computes the values that views show."""
    found: list[str] = []
    for name in names:
        unit = owner[name]
        found += _behind(traced, owner, hidden, traced.nodes[unit].operands) if unit in hidden else [unit]
    return found
