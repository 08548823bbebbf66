"""Beside an original: the numbers of a case in tensors of more dimensions than the problem names, or of fewer.

A problem says ``T H`` where the callers of a library have ``B T H`` too. Where the original gives there what it gives of the
problem's own dimensions, a candidate must; where it fails or gives something else, nothing is asked.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import torch

from gpu_runner.contracts.problem import Problem
from gpu_runner.numerics.compare import Truth
from gpu_runner.verify.cases import Case, Content, MemoryLayout
from gpu_runner.verify.laying import Placement, lay
from gpu_runner.verify.proof import Expected, Proof
from gpu_runner.verify.uses import choosing

MOST_KINDS = 6  # dtypes, texts and truth values, of each of which there is a case


def in_other_ranks(problem: Problem, proofs: Sequence[Proof]) -> Iterator[Proof]:
    """Cases with a leading dimension in two or three, dense and with a gap after each slice, and one row without it."""
    plain = [proof for proof in proofs if _is_plain(proof.case)]
    for place, lead in enumerate(_leading(problem, plain)):
        by_kind: dict[object, Proof] = {}
        for proof in sorted(plain, key=lambda proof: 1 in _factors(proof.case.size_of[lead.dim], 2)):
            words = [value for _, value in proof.scalars if isinstance(value, bool | str)]
            by_kind.setdefault((proof.case.dtype, *words), proof)
        for at, proof in enumerate(list(by_kind.values())[: 1 if place else MOST_KINDS]):
            parts = _factors(proof.case.size_of[lead.dim], 2)
            yield _reshaped(proof, lead, parts, subsets=not at)
            if not at:
                yield _reshaped(proof, lead, parts, is_apart=True, upstream=MemoryLayout.slices)
        for proof, parts in _in_three(plain, lead):
            yield _reshaped(proof, lead, parts, upstream=MemoryLayout.permuted)
        for proof in _widest(plain, lead):
            yield _reshaped(proof, lead, _factors(proof.case.size_of[lead.dim], 2))
        for proof in [proof for proof in plain if proof.case.size_of[lead.dim] == 1][:1]:
            if any(len(spec.dims) > 1 for spec in problem.inputs if spec.name in lead.inputs):
                yield _reshaped(proof, lead, ())


@dataclass(frozen=True)
class _Lead:
    """A dimension that comes first wherever it is: of which inputs, and of which outputs by their places."""

    dim: str
    inputs: frozenset[str]
    outputs: frozenset[int]


def _leading(problem: Problem, proofs: Sequence[Proof]) -> list[_Lead]:
    """The dimensions with which outputs begin, such as an index's, or else the first one of the input with most of them."""
    if problem.form == "kernelbench" or not proofs:
        return []
    deepest = sorted((spec for spec in problem.inputs if spec.dims), key=lambda spec: -len(spec.dims))
    dims = dict.fromkeys(spec.dims[0] for spec in deepest if not spec.dims[0].isdigit())
    leads = [
        _Lead(
            dim,
            frozenset(spec.name for spec in deepest if spec.dims[0] == dim),
            frozenset(
                place
                for place in range(len(proofs[0].outputs))
                if all(proof.outputs[place].shape[:1] == (proof.case.size_of[dim],) for proof in proofs)
            ),
        )
        for dim in dims
        if all(dim not in spec.dims[1:] for spec in deepest)
    ]
    return [lead for lead in leads if lead.outputs] or [lead for lead in leads if lead.dim == deepest[0].dims[0]]


def _in_three(proofs: Sequence[Proof], lead: _Lead) -> list[tuple[Proof, tuple[int, ...]]]:
    """The smallest case whose leading dimension has three factors above one, or two where none has, with these."""
    able = [(proof, _factors(proof.case.size_of[lead.dim], 3)) for proof in proofs]
    able.sort(key=lambda one: (one[1].count(1), sum(tensor.numel() for tensor in one[0].inputs.values())))
    return able[:1]


def _widest(proofs: Sequence[Proof], lead: _Lead) -> list[Proof]:
    """The case with the most elements for each of several rows: wide ones may have kernels of their own."""

    def width(proof: Proof) -> int:
        return int(sum(tensor.numel() for tensor in proof.inputs.values()) // proof.case.size_of[lead.dim])

    return sorted((proof for proof in proofs if proof.case.size_of[lead.dim] > 1), key=width)[-1:]


def _is_plain(case: Case) -> bool:
    apart = (
        case.same,
        case.related,
        case.packed,
        case.given_back,
        case.gpu,
        case.compiling,
        case.measured,
        case.narrow_grad,
    )
    return case.content is Content.ordinary and not case.is_empty and not any(apart)


def _factors(size: int, count: int) -> tuple[int, ...]:
    """So many factors of a size, each the least above one where there is any, and the rest."""
    factors = []
    for _ in range(count - 1):
        factors.append(next((n for n in range(2, math.isqrt(size) + 1) if size % n == 0), 1))
        size //= factors[-1]
    return (*factors, size)


def _reshaped(
    proof: Proof,
    lead: _Lead,
    leading: tuple[int, ...],
    *,
    is_apart: bool = False,
    upstream: MemoryLayout = MemoryLayout.dense,
    subsets: bool = False,
) -> Proof:
    """A proof with other dimensions in place of the first one: values and truth are the same, in the same order.

    It is called without gradients too, where a function may choose other code, and with ``subsets`` for one gradient alone.
    """

    def shaped(tensor: torch.Tensor) -> torch.Tensor:
        return tensor.reshape((*leading, *tensor.shape[1:]))

    def expected(item: Expected) -> Expected:
        exact = shaped(item.truth.exact)
        return replace(item, truth=_truth(item.truth, exact.shape), shape=tuple(exact.shape), stride=exact.stride())

    inputs = {name: shaped(value) if name in lead.inputs else value for name, value in proof.inputs.items()}
    laid, most = dict(proof.laid), max(inputs[name].dim() for name in lead.inputs)
    for place, name in enumerate(name for name in proof.laid if name in lead.inputs):
        shape = inputs[name].shape
        apart = Placement(apart=shape[-1]) if is_apart and len(shape) == most else Placement()
        laid[name] = lay(shaped(proof.laid[name].view()), apart, guard_seed=proof.case.seed + place)
    outputs, gradients = list(proof.outputs), list(proof.upstream)
    for place in lead.outputs:
        outputs[place], given = expected(outputs[place]), gradients[place]
        gradients[place] = given and lay(shaped(given.view()), _lying(upstream, outputs[place].shape))
    layout = MemoryLayout.slices if is_apart else MemoryLayout.dense
    dimensions = len(leading) - 1
    case = replace(proof.case, dimensions=dimensions, layout=layout, upstream=upstream, again=False)
    reshaped = replace(
        proof,
        case=case,
        inputs=inputs,
        laid=laid,
        outputs=tuple(outputs),
        upstream=tuple(gradients),
        gradients={
            name: expected(item) if item is not None and name in lead.inputs else item
            for name, item in proof.gradients.items()
        },
        other=None,
        directions={},
        seconds={},
    )
    chosen = [use for use in choosing(reshaped) if use.kind in ("no_grad", "plain")]
    if subsets:
        chosen += [use for use in choosing(reshaped) if use.kind == "subset"][:1]
    return replace(reshaped, uses=tuple(chosen))


def _lying(layout: MemoryLayout, shape: tuple[int, ...]) -> Placement:
    """A gap after each slice, or the first two dimensions the other way round in memory, of three dimensions and more."""
    if len(shape) > 2:
        if layout is MemoryLayout.slices:
            return Placement(apart=shape[-1])
        if layout is MemoryLayout.permuted:
            return Placement(order=(1, 0, *range(2, len(shape))))
    return Placement()


def _truth(truth: Truth, shape: torch.Size) -> Truth:
    def same(tensor: torch.Tensor | None) -> torch.Tensor | None:
        return None if tensor is None else tensor.reshape(shape)

    return replace(
        truth,
        exact=truth.exact.reshape(shape),
        own=truth.own.reshape(shape),
        shaken=tuple(each.reshape(shape) for each in truth.shaken),
        judged=same(truth.judged),
        loud=same(truth.loud),
        idle=same(truth.idle),
        infinite=None,  # the axes of slices are others
        rounded=same(truth.rounded),
    )
