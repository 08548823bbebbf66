"""Looks at the memory around and under a candidate's inputs: what it overwrote, and what lay beyond their edges."""

from __future__ import annotations

from collections.abc import Collection

import torch

from gpu_runner.contracts.verify import Status
from gpu_runner.verify.answer import Answer
from gpu_runner.verify.laying import Laid
from gpu_runner.verify.notes import Notes
from gpu_runner.verify.poison import bits, bits_equal
from gpu_runner.verify.proof import Proof


def judge_memory(notes: Notes, proof: Proof, answer: Answer, overwrites: Collection[str]) -> None:
    """Hold the memory of inputs and upstream gradients against what was sent; ``overwrites`` names those that may change."""
    if set(answer.raw) != set(proof.laid):
        notes.wrong(Status.cheating, "inputs", "The inputs did not come back.", rule="forged answer")
        return
    before = len(notes.findings)
    pairs = [(name, name, proof.laid[name], answer.raw[name]) for name in proof.laid]
    sent = [(place, laid) for place, laid in enumerate(proof.upstream) if laid is not None]
    for (place, laid), raw in zip(sent, answer.raw_upstream, strict=False):
        pairs.append((f"upstream {place}", f"the upstream gradient of output {place}", laid, raw))
    for name, words, laid, raw in pairs:
        beside = [other for _, _, other, _ in pairs if other.raw is laid.raw]
        _one(notes, name, words, beside, laid, raw, overwrites if name not in proof.form.mutates else (name,))
    if answer.broken:
        notes.wrong(Status.out_of_bounds, "guard", "A kernel wrote beyond the end of a buffer that it had allocated.")
    if len(notes.findings) == before:
        notes.ok("guard")
        notes.ok("inputs")


def _one(
    notes: Notes,
    name: str,
    words: str,
    beside: Collection[Laid],
    laid: Laid,
    raw: torch.Tensor,
    overwrites: Collection[str],
) -> None:
    """Judge the memory of one tensor; ``beside`` are those that lie in the same buffer, itself among them."""
    if raw.shape != laid.raw.shape or raw.dtype != laid.raw.dtype:
        notes.wrong(Status.cheating, "inputs", "The inputs came back in another form.", words, rule="forged answer")
        return
    if bits_equal(raw, laid.raw):
        return
    changed = bits(raw) != bits(laid.raw)
    inside = torch.zeros(raw.shape, dtype=torch.bool)
    for one in beside:
        one.elements(inside).fill_(True)
    if bool((changed & ~inside).any()):
        notes.wrong(Status.out_of_bounds, "guard", f"A kernel wrote beyond the edge of {words}.", words)
    elif not bool(laid.elements(changed).any()):
        return
    elif name not in overwrites:
        cure = "Write to a buffer of your own, or name the input in MUTATES."
        notes.wrong(Status.mutated_input, "inputs", f"The candidate changed {words}. {cure}", words)
    else:
        notes.overwrites[name] = None
