"""What inputs have to do with each other, and upstream gradients with outputs, in programs that people run. Pure."""

from __future__ import annotations

import math

import torch

from gpu_runner.contracts.problem import InputSpec, Problem
from gpu_runner.verify.cases import Case, Indices, Relation
from gpu_runner.verify.laying import Laid, lay

CLOSE = 2.0**-9  # times another number: how far two inputs are apart that are close to each other
NEAR = 0.6  # of the rows of two inputs that are close the share that is neither equal nor opposite
TIMES = (2.0, 0.5, -1.0, 4.0)  # one input so many times another
DROPPED = (0.1, 0.5)  # the share that a dropout leaves out; it divides the rest by one less that
FREQUENCY = 10_000.0  # of rotary tables: what the slowest angle is divided by


def related(case: Case, made: dict[str, torch.Tensor], stream: torch.Generator) -> dict[str, torch.Tensor]:
    """The inputs of a case that are related, in place of what was drawn for them; none where their shapes do not allow it."""
    one, other = case.related
    first, second = made[one], made[other]
    if case.relation is Relation.transposed:
        return {other: first.transpose(-1, -2)} if first.shape == second.transpose(-1, -2).shape else {}
    if first.shape != second.shape or not first.numel():
        return {}
    if case.relation is Relation.equal:
        return {other: first.clone()}
    if case.relation is Relation.apart:
        rows = min(case.rows_apart, first.shape[0])
        return {other: torch.cat((first[rows:], second[:rows]))}
    if case.relation is Relation.circle:
        angles = _angles(first.shape, stream)
        return {one: angles.cos().to(first.dtype), other: angles.sin().to(second.dtype)}
    if case.relation is Relation.multiple:
        return {other: _multiple(first, stream)}
    near = _close(first, second, stream)
    return {other: _by_rows(first, near, stream) if case.relation is Relation.by_rows else near}


def lay_related(case: Case, inputs: dict[str, torch.Tensor], guard_seed: int | None) -> dict[str, Laid]:
    """The related inputs that are views of one tensor, in one guarded buffer."""
    one, other = case.related
    first, second = inputs[one], inputs[other]
    if case.relation is Relation.transposed and first.shape == second.transpose(-1, -2).shape:
        whole = lay(first, guard_seed=guard_seed)
        *outer, rows, columns = whole.stride
        return {one: whole, other: Laid(whole.raw, tuple(second.shape), (*outer, columns, rows), whole.offset)}
    if case.relation is Relation.apart and first.shape == second.shape and first.numel():
        rows = min(case.rows_apart, first.shape[0])
        whole = lay(torch.cat((first, second[-rows:])), guard_seed=guard_seed)
        shape, step = tuple(first.shape), rows * whole.stride[0]
        return {
            name: Laid(whole.raw, shape, whole.stride, whole.offset + at * step) for at, name in enumerate((one, other))
        }
    return {}


def _angles(shape: torch.Size, stream: torch.Generator) -> torch.Tensor:
    """Angles as of rotary tables: positions times frequencies that repeat in the second half; of half of the cases any angles."""
    if torch.rand((), generator=stream) < 0.5 or len(shape) < 2:
        return torch.rand(shape, generator=stream) * 2 * math.pi
    rows, columns = shape[-2:]
    half = max(1, columns // 2)
    places = torch.arange(columns) % half / half
    begin = int(torch.randint(64, (), generator=stream))
    return ((torch.arange(rows) + begin)[:, None] * FREQUENCY**-places).expand(shape).contiguous()


def _close(first: torch.Tensor, second: torch.Tensor, stream: torch.Generator) -> torch.Tensor:
    """The first but for small differences."""
    return first + second * (CLOSE * 2.0 ** -int(torch.randint(4, (), generator=stream)))


def _multiple(values: torch.Tensor, stream: torch.Generator) -> torch.Tensor:
    """By rows, some times the values, or what a dropout leaves of them."""
    rows = values.reshape(-1, values.shape[-1]).float()
    factors = torch.tensor(TIMES + tuple(1.0 / (1.0 - share) for share in DROPPED))
    left_out = torch.tensor((0.0,) * len(TIMES) + DROPPED)
    kinds = torch.randperm(len(factors), generator=stream)[torch.arange(len(rows)) % len(factors), None]
    kept = torch.rand(rows.shape, generator=stream) >= left_out[kinds]
    return (rows * kept * factors[kinds]).to(values.dtype).reshape(values.shape)


def _by_rows(first: torch.Tensor, near: torch.Tensor, stream: torch.Generator) -> torch.Tensor:
    """In some rows the first, its opposite, or what an activation leaves of it; else what is near to it."""
    if first.dim() < 2:
        return near
    rows, others = near.reshape(-1, near.shape[-1]).clone(), first.reshape(-1, first.shape[-1])
    kinds = (others, -others, others.relu())
    order = torch.randperm(rows.shape[0], generator=stream)[: int((1 - NEAR) * rows.shape[0]) + 1]
    for place, row in enumerate(order.tolist()):
        rows[row] = kinds[place % len(kinds)][row]
    return rows.reshape(first.shape)


def best_indices(spec: InputSpec, problem: Problem, case: Case, made: dict[str, torch.Tensor]) -> torch.Tensor | None:
    """Of each row of another input the index of its largest element within its range; None where there is none."""
    if case.indices is not Indices.best or not isinstance(spec.high, str):
        return None
    for other in problem.inputs:
        values = made[other.name]
        if other.dims == (*spec.dims, spec.high) and values.is_floating_point() and values.shape[-1]:
            return values.argmax(-1).clamp(min=spec.low or 0).to(made[spec.name].dtype)
    return None
