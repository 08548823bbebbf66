"""Beside an original: the numbers of a case in tensors of more dimensions than the problem names, or of fewer.

A problem says ``T H`` where the callers of a library have ``B T H`` too. Where the original gives there what it gives of the
problem's own dimensions, a candidate must; where it fails or gives something else, nothing is asked.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

import torch

from gpu_runner.contracts.problem import Problem
from gpu_runner.verify.cases import Case, Content, MemoryLayout
from gpu_runner.verify.compare import Truth
from gpu_runner.verify.laying import Placement, lay
from gpu_runner.verify.proof import Expected, Proof

MOST_KINDS = 6  # dtypes, texts and truth values, of each of which there is a case


def in_other_ranks(problem: Problem, proofs: Sequence[Proof]) -> Iterator[Proof]:
    """Cases with the first dimension in two or three, dense and with a gap after each slice, and one row without it."""
    lead = _lead(problem)
    if lead is None:
        return
    plain = [proof for proof in proofs if _is_plain(proof.case)]
    by_kind: dict[object, tuple[Proof, tuple[int, int]]] = {}
    for proof in sorted(plain, key=lambda proof: 1 in _factors(proof.case.size_of[lead])):
        words = [value for _, value in proof.scalars if isinstance(value, bool | str)]
        by_kind.setdefault((proof.case.dtype, *words), (proof, _factors(proof.case.size_of[lead])))
    split = list(by_kind.values())[:MOST_KINDS]
    for proof, parts in split:
        yield _reshaped(proof, lead, problem, parts)
    for proof, (few, many) in split[:1]:
        yield _reshaped(proof, lead, problem, (few, 1, many))
        yield _reshaped(proof, lead, problem, (few, many), is_apart=True)
    for proof in [proof for proof in plain if proof.case.size_of[lead] == 1][:1]:
        if all(len(spec.dims) > 1 for spec in problem.inputs if lead in spec.dims):
            yield _reshaped(proof, lead, problem, ())


def _lead(problem: Problem) -> str | None:
    """The dimension that comes first in the input with most of them, where it comes first wherever it is."""
    deep = max(problem.inputs, key=lambda spec: len(spec.dims))
    lead = deep.dims[0] if deep.dims else ""
    is_first = all(lead not in spec.dims[1:] for spec in problem.inputs)
    return lead if is_first and lead and not lead.isdigit() and problem.form != "kernelbench" else None


def _is_plain(case: Case) -> bool:
    apart = (
        case.same,
        case.related,
        case.packed,
        case.given_back,
        case.gpu,
        case.compiling,
        case.measured,
    )
    return case.content is Content.ordinary and not case.is_empty and not any(apart)


def _factors(size: int) -> tuple[int, int]:
    """Two factors of a size, the least above one first where there is another."""
    least = next((n for n in range(2, math.isqrt(size) + 1) if size % n == 0), None)
    return (1, size) if least is None else (least, size // least)


def _reshaped(proof: Proof, lead: str, problem: Problem, leading: tuple[int, ...], *, is_apart: bool = False) -> Proof:
    """A proof with other dimensions in place of the first one: values and truth are the same, in the same order."""
    own, size = {spec.name for spec in problem.inputs if lead in spec.dims}, proof.case.size_of[lead]

    def shaped(tensor: torch.Tensor) -> torch.Tensor:
        return tensor.reshape(*leading, *tensor.shape[1:])

    def expected(item: Expected) -> Expected:
        if not item.shape or item.shape[0] != size:
            return item
        exact = shaped(item.truth.exact)
        return replace(item, truth=_truth(item.truth, exact.shape), shape=tuple(exact.shape), stride=exact.stride())

    inputs = {name: shaped(value) if name in own else value for name, value in proof.inputs.items()}
    laid = dict(proof.laid)
    for place, name in enumerate(name for name in proof.laid if name in own):
        apart = Placement(apart=inputs[name].shape[-1]) if is_apart and inputs[name].dim() > 2 else Placement()
        laid[name] = lay(shaped(proof.laid[name].view()), apart, guard_seed=proof.case.seed + place)
    outputs = [expected(item) for item in proof.outputs]
    upstream = [
        one if one is None or item is before else lay(shaped(one.view()))
        for one, item, before in zip(proof.upstream, outputs, proof.outputs, strict=True)
    ]
    layout = MemoryLayout.slices if is_apart else MemoryLayout.dense
    dimensions = len(leading) - 1
    case = replace(proof.case, dimensions=dimensions, layout=layout, upstream=MemoryLayout.dense, again=False)
    return replace(
        proof,
        case=case,
        inputs=inputs,
        laid=laid,
        outputs=tuple(outputs),
        upstream=tuple(upstream),
        gradients={
            name: expected(item) if item is not None and name in own else item for name, item in proof.gradients.items()
        },
        other=None,
        uses=(),
        directions={},
        seconds={},
    )


def _truth(truth: Truth, shape: torch.Size) -> Truth:
    def same(tensor: torch.Tensor | None) -> torch.Tensor | None:
        return None if tensor is None else tensor.reshape(shape)

    return replace(
        truth,
        exact=truth.exact.reshape(shape),
        own=truth.own.reshape(shape),
        shaken=tuple(each.reshape(shape) for each in truth.shaken),
        held=same(truth.held),
        loud=same(truth.loud),
        rounded=same(truth.rounded),
    )
