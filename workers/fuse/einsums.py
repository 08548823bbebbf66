"""Einsums of several operands as products of two and element-wise multiplications, which torch computes as products too. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

from gpu_runner.contracts import Graph, Node, NodeRef
from gpu_runner.contracts.graph import Dim, TensorMeta

MOST_OPERANDS = 5
FLOPS_AN_ELEMENT = 300  # of a product, in the time in which an element is moved: about those of an H100 in bfloat16


@dataclass(frozen=True)
class _Operand:
    letters: str
    name: str  # of its node


@dataclass(frozen=True)
class _Step:
    """Two operands by their places in what is left, and the letters of what becomes of them, which is last in what is left then."""

    left: int
    right: int
    letters: str
    is_product: bool


def pairwise(graph: Graph) -> Graph:
    """The graph in which einsums take two operands; two that share no index that is summed over are multiplied element by element.

    ``torch.einsum`` writes such a multiplication as a batch of products of one number each.
    """
    nodes = {node.name: node for node in graph.nodes}
    return replace(graph, nodes=tuple(new for node in graph.nodes for new in _taken_apart(node, nodes) or [node]))


def _taken_apart(node: Node, nodes: Mapping[str, Node]) -> list[Node] | None:
    equation, *operands = node.args if node.op == "aten.einsum.default" else (None,)
    if not isinstance(equation, str) or node.kwargs or len(operands) != 1 or not isinstance(operands[0], tuple):
        return None
    names = [operand.name for operand in operands[0] if isinstance(operand, NodeRef)]
    given, _, output = equation.replace(" ", "").partition("->")
    left = [_Operand(letters, name) for letters, name in zip(given.split(","), names, strict=False)]
    if not 2 < len(left) == len(names) == len(operands[0]) <= MOST_OPERANDS or not _is_plain(left, output, nodes):
        return None
    sizes = {c: size for one in left for c, size in zip(one.letters, nodes[one.name].meta.shape, strict=True)}
    known = {c: size if isinstance(size, int) else 1 for c, size in sizes.items()}
    _, steps = min(_orders([one.letters for one in left], output, known), key=lambda order: order[0])
    made: list[Node] = []
    for number, step in enumerate(steps):
        name = node.name if number + 1 == len(steps) else f"{node.name}_of_{number}"
        meta = TensorMeta(tuple(sizes[c] for c in step.letters), node.meta.dtype)
        pair = left[step.left], left[step.right]
        if step.is_product:
            written = f"{pair[0].letters},{pair[1].letters}->{step.letters}"
            made.append(Node(name, "aten.einsum.default", (written, tuple(NodeRef(one.name) for one in pair)), meta))
        else:
            seen = [
                _seen(one, step.letters, f"{name}_{side}", sizes, node.meta.dtype)
                for one, side in zip(pair, "ab", strict=True)
            ]
            made += [view for views in seen for view in views]
            ends = [views[-1].name if views else one.name for views, one in zip(seen, pair, strict=True)]
            made.append(Node(name, "aten.mul.Tensor", tuple(map(NodeRef, ends)), meta))
        left = [one for place, one in enumerate(left) if place not in (step.left, step.right)]
        left.append(_Operand(step.letters, name))
    return made if not nodes.keys() & {new.name for new in made if new.name != node.name} else None


def _is_plain(left: Sequence[_Operand], output: str, nodes: Mapping[str, Node]) -> bool:
    """Whether each letter stands once in an operand, for one size, and again in another operand or in the result."""
    sizes: dict[str, set[Dim]] = {}
    for one in left:
        shape = nodes[one.name].meta.shape
        if not one.letters.isalpha() or len(set(one.letters)) != len(one.letters) or len(shape) != len(one.letters):
            return False
        for letter, size in zip(one.letters, shape, strict=True):
            sizes.setdefault(letter, set()).add(size)
    counts = {letter: sum(letter in one.letters for one in left) for letter in sizes}
    return (
        all(len(found) == 1 for found in sizes.values())
        and set(output) <= sizes.keys()
        and all(letter in output or count > 1 for letter, count in counts.items())
    )


def _orders(left: list[str], output: str, sizes: Mapping[str, int]) -> Iterator[tuple[float, list[_Step]]]:
    """All orders of taking two operands together, with the elements that each moves; a product counts by its operations, too."""
    if len(left) == 1:
        yield 0.0, []
    for one, other in combinations(range(len(left)), 2):
        rest = [letters for place, letters in enumerate(left) if place not in (one, other)]
        step = _step(left, one, other, rest, output, sizes)
        elements = sum(_elements(letters, sizes) for letters in (left[one], left[other], step.letters))
        work = _elements("".join({*left[one], *left[other]}), sizes) * 2 / FLOPS_AN_ELEMENT if step.is_product else 0.0
        for cost, steps in _orders([*rest, step.letters], output, sizes):
            yield cost + elements + work, [step, *steps]


def _step(left: list[str], one: int, other: int, rest: list[str], output: str, sizes: Mapping[str, int]) -> _Step:
    both = dict.fromkeys(sorted((left[one], left[other]), key=lambda letters: -_elements(letters, sizes)))
    letters = list(dict.fromkeys("".join(both)))
    kept = [c for c in letters if c in output or any(c in further for further in rest)]
    batch = [c for c in output if c in kept and all(c in further for further in rest)]
    ordered = output if not rest else "".join([*batch, *(c for c in kept if c not in batch)])
    return _Step(one, other, ordered, len(kept) < len(letters))


def _elements(letters: str, sizes: Mapping[str, int]) -> int:
    return math.prod(sizes[c] for c in letters)


def _seen(operand: _Operand, letters: str, stem: str, sizes: Mapping[str, Dim], dtype: str) -> list[Node]:
    """Views of an operand whose dimensions are those of these letters, of size one where it has none."""
    own, name, views = [c for c in letters if c in operand.letters], operand.name, list[Node]()
    if "".join(own) != operand.letters:
        places = tuple(operand.letters.index(c) for c in own)
        meta = TensorMeta(tuple(sizes[c] for c in own), dtype)
        views.append(Node(f"{stem}_order", "aten.permute.default", (NodeRef(name), places), meta))
        name = views[-1].name
    for place, letter in enumerate(letters):
        if letter not in own:
            shape = tuple(1 if c not in own else sizes[c] for c in letters[: place + 1])
            behind = tuple(sizes[c] for c in letters[place + 1 :] if c in own)
            meta = TensorMeta((*shape, *behind), dtype)
            views.append(Node(f"{stem}_{place}", "aten.unsqueeze.default", (NodeRef(name), place), meta))
            name = views[-1].name
    return views
