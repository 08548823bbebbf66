"""What a traced model consists of, in sentences: what torch has a library for, and what may become kernels. Pure."""

from __future__ import annotations

from collections import Counter

from workers.fuse.cut import groups
from workers.fuse.operators import LIBRARY, OperatorKind, packet_of
from workers.fuse.traced import Traced


def route(traced: Traced) -> tuple[str, ...]:
    """A sentence on each kind of operator, and where one kernel may do."""
    computed = [n for n in traced.nodes if n not in traced.graph.inputs and traced.kind(n) is not OperatorKind.view]
    packets = {name: packet_of(traced.nodes[name].op) for name in computed}
    known = Counter(
        LIBRARY.get(packets[name], "several results") for name in computed if traced.kind(name) is OperatorKind.library
    )
    between = [len([name for name in group if name in packets]) for group in groups(traced)]
    longer = sorted((count for count in between if count > 1), reverse=True)
    sentences = [f"{len(computed)} operators compute."]
    if known:
        listed = ", ".join(f"{kind} ({count})" for kind, count in known.most_common())
        sentences.append(f"{sum(known.values())} of them call a library in torch: {listed}.")
    if longer:
        sentences.append(f"Between these are {len(longer)} groups of {longer[-1]} to {longer[0]} operators.")
    if longer == [len(computed)]:
        sentences.append(
            "The whole model may be one kernel: `/kernel create` writes it in the library's own form if the compiler accepts it."
        )
    return tuple(sentences)
