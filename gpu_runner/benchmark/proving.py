"""Asks the reference's child for the truth of the rows that will be checked."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import torch

from gpu_runner.benchmark.material import Material
from gpu_runner.contracts.benchmark import Pass
from gpu_runner.session import Session
from gpu_runner.verify.compare import FLOORS, Truth, rms
from gpu_runner.verify.tolerances import typical_of
from gpu_runner.verify.truth import SHAKE

HALVES = (torch.float16, torch.bfloat16)
LOOSE = 4.0  # times the floor of the dtype, where the reference's own values stand in for the truth


@dataclass(frozen=True)
class Wanted:
    """One output or gradient: its whole form, and the truth of its secret rows."""

    label: str
    shape: tuple[int, ...]
    truth: Truth


@dataclass(frozen=True)
class Rows:
    """What a pass is held against; None in place of a gradient that does not exist. ``kind``: the dtype of the truth, or own."""

    outputs: tuple[Wanted, ...]
    gradients: tuple[Wanted | None, ...]
    kind: str


def prove(session: Session, material: Material, timed_pass: Pass) -> Rows:
    """Ask for the truth of one pass.

    Raises:
        ChildFailed, ProtocolError: the reference does not run, or not in float64. KeyError, TypeError, ValueError: it answered in
        place of the runner's own code.
    """
    secret = material.secrets[timed_pass]
    more = {"place": secret.place, "rows": secret.rows, "backward": timed_pass is not Pass.forward}
    reply = session.call("truth", material.call.meta | more, material.call.tensors)
    facts, tensors = reply.meta, [buffer.to_torch() for buffer in reply.tensors]
    names, naturals = list(facts["names"]), list(facts["natural"])
    forms = [*facts["outputs"], *facts["gradients"]]
    there = [form for form in forms if form is not None]
    if len(names) != len(facts["gradients"]) or len(naturals) != len(names) or len(tensors) != 2 * len(there):
        raise ValueError("another number of tensors than was told")
    labels = [f"output {place}" for place in range(len(facts["outputs"]))] + [f"gradient of {name}" for name in names]
    pairs = iter(zip(tensors[: len(there)], tensors[len(there) :], strict=True))
    found: list[Wanted | None] = []
    for label, form, natural in zip(labels, forms, [0.0] * len(facts["outputs"]) + naturals, strict=True):
        found.append(None if form is None else _wanted(label, form, float(natural), *next(pairs), facts["kind"]))
    outputs = tuple(item for item in found[: len(facts["outputs"])] if item is not None)
    return Rows(outputs, tuple(found[len(facts["outputs"]) :]), str(facts["kind"])[:20])


def bent(session: Session, material: Material, timed_pass: Pass, rows: Rows) -> Rows:
    """Give the same with what half precision may make of elements at a step or a bend: what is true a step of the inputs away.

    Raises:
        as ``prove``.
    """
    held = [*rows.outputs, *(item for item in rows.gradients if item is not None)]
    if rows.kind != "float64" or not any(item.truth.own.dtype in HALVES for item in held):
        return rows
    secret = material.secrets[timed_pass]
    more = {"place": secret.place, "rows": secret.rows, "backward": timed_pass is not Pass.forward, "shake": SHAKE}
    reply = session.call("bends", material.call.meta | more, material.call.tensors)
    moved = [buffer.to_torch() for buffer in reply.tensors]
    if len(moved) != 2 * len(held):
        raise ValueError("another number of tensors than there are outputs and gradients")
    sides = zip(held, moved[: len(held)], moved[len(held) :], strict=True)
    new = iter([_shaken(item, up, down) for item, up, down in sides])
    outputs = tuple(next(new) for _ in rows.outputs)
    return replace(rows, outputs=outputs, gradients=tuple(item and next(new) for item in rows.gradients))


def _shaken(item: Wanted, *sides: torch.Tensor) -> Wanted:
    if any(side.shape != item.truth.exact.shape for side in sides):
        raise ValueError("rows of two shapes")
    return replace(item, truth=replace(item.truth, shaken=sides)) if item.truth.own.dtype in HALVES else item


def _wanted(
    label: str, form: dict[str, Any], natural: float, exact: torch.Tensor, own: torch.Tensor, kind: str
) -> Wanted:
    if exact.shape != own.shape:
        raise ValueError("rows of two shapes")
    typical = typical_of(natural)
    if kind in ("own", str(own.dtype).removeprefix("torch.")) and own.dtype in FLOORS:
        natural += LOOSE * FLOORS[own.dtype].tensor * rms(own)
    return Wanted(label, tuple(form["shape"]), Truth(exact, own, natural, typical=typical))
