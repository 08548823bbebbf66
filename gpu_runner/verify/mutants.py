"""Trivial answers that the checker must reject on a problem before it may judge a candidate by it. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch

from gpu_runner.numerics.compare import compare
from gpu_runner.verify.cases import Content
from gpu_runner.verify.inputs import DTYPES
from gpu_runner.verify.proof import Expected, Proof


@dataclass(frozen=True)
class Survivor:
    """A trivial answer that would pass in every case."""

    mutant: str
    label: str  # the output or gradient for which it would


Make = Callable[[Expected, Proof, Sequence[Proof]], torch.Tensor | None]


def survivors(proofs: Sequence[Proof]) -> list[Survivor]:
    """Every trivial answer that no case with ordinary values would reject."""
    ordinary = (proof for proof in proofs if proof.case.content is Content.ordinary)
    proofs = sorted(ordinary, key=lambda proof: sum(item.truth.exact.numel() for item in proof.outputs))
    labels = dict.fromkeys(label for proof in proofs for label, item in proof.expected().items() if item is not None)
    return [
        Survivor(name, label) for label in labels for name, make in MUTANTS.items() if _survives(make, label, proofs)
    ]


def _survives(make: Make, label: str, proofs: Sequence[Proof]) -> bool:
    is_same = False
    for item, made in _made(make, label, proofs):  # the small cases mostly decide it
        # An answer of another shape is rejected by its shape.
        is_same = made.shape == item.truth.exact.shape and compare(made, item.truth).passed
        if not is_same:
            return False
    return is_same


def _made(make: Make, label: str, proofs: Sequence[Proof]) -> Iterator[tuple[Expected, torch.Tensor]]:
    for proof in proofs:
        item = proof.expected().get(label)
        made = None if item is None or 0 in item.shape else make(item, proof, proofs)
        if item is not None and made is not None:
            # Of an input of the answer's shape the rows that the answer is known of.
            made = item.known(made) if tuple(made.shape) == item.shape else made
            yield item, made.to(DTYPES[item.dtype])


def _zeros(item: Expected, proof: Proof, proofs: Sequence[Proof]) -> torch.Tensor | None:
    return torch.zeros(item.truth.exact.shape)


def _ones(item: Expected, proof: Proof, proofs: Sequence[Proof]) -> torch.Tensor | None:
    return torch.ones(item.truth.exact.shape)


def _mean(item: Expected, proof: Proof, proofs: Sequence[Proof]) -> torch.Tensor | None:
    if item.truth.exact.numel() < 2 or not item.truth.exact.is_floating_point():
        return None
    return item.truth.exact.mean().expand(item.truth.exact.shape)


def _input(item: Expected, proof: Proof, proofs: Sequence[Proof]) -> torch.Tensor | None:
    if not item.label.startswith("output"):
        return None
    tensors = list(proof.inputs.values())
    return next((tensor for tensor in tensors if tuple(tensor.shape) == item.shape), tensors[0] if tensors else None)


def _first_columns(item: Expected, proof: Proof, proofs: Sequence[Proof]) -> torch.Tensor | None:
    made = item.truth.exact.clone()
    if not made.dim() or made.shape[-1] < 2:
        return None
    made[..., made.shape[-1] // 2 :] = 0
    return made


def _last_answer(item: Expected, proof: Proof, proofs: Sequence[Proof]) -> torch.Tensor | None:
    for earlier in proofs:
        if earlier is proof:
            return None
        candidate = earlier.expected().get(item.label)
        if candidate is not None and candidate.shape == item.shape and candidate.dtype == item.dtype:
            return candidate.truth.own
    return None


MUTANTS: dict[str, Make] = {
    "zeros": _zeros,
    "ones": _ones,
    "the mean everywhere": _mean,
    "an input": _input,
    "only the first columns": _first_columns,
    "the last answer": _last_answer,
}
