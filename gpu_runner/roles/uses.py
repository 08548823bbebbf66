"""Other ways to call a function than forward and backward once: without autograd, for some gradients, checkpointed, twice."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import torch
from torch.utils.checkpoint import checkpoint

from gpu_runner.contracts.call import RAISES
from gpu_runner.roles.arguments import Arguments
from gpu_runner.verify.poison import bits_equal

# Taken before a candidate is imported, so that it calls what torch had then.
_grad = torch.autograd.grad
_backward = torch.autograd.backward
_checkpoint = checkpoint

Values = dict[str, Any]
MOST_OUTPUTS = 65
CHANGE = -1.5  # times what it was: of another sign and size


def use(kind: str, names: Sequence[str], called: Callable[..., Any], given: Arguments) -> Values:
    """Outputs and gradients of one use, by label; of a double backward the second gradients."""
    if kind == "no_grad":
        with torch.no_grad():
            return _outputs(given.call(called))
    if kind == "plain":
        return _outputs(given.requiring(()).call(called))
    if kind == "subset":
        chosen = given.requiring(names)
        outputs = listed(chosen.call(called))
        return _labelled(outputs) | _gradients(chosen, _grad_of(outputs, chosen))
    if kind == "outputs":
        return _gradients(given, _by_outputs(called, given))
    if kind in ("checkpoint", "reentrant"):
        return _checkpointed(called, given, reentrant=kind == "reentrant")
    if kind == "double":
        return _double(called, given)
    if kind == "changed":
        return _changed(called, given, names)
    raise ValueError(f"no use {kind}")


def saved_changed(called: Callable[..., Any], given: Arguments) -> int:
    """How many of the tensors that autograd saves in a forward are others after the backward."""
    saved: list[tuple[torch.Tensor, torch.Tensor]] = []

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        saved.append((tensor.detach(), tensor.detach().clone()))
        return tensor

    chosen = given.requiring(tuple(given.leaves))
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        outputs = listed(chosen.call(called))
    _grad_of(outputs, chosen)
    return sum(not bits_equal(tensor, copy) for tensor, copy in saved)


def second_gradients(
    first: Sequence[torch.Tensor | None], directions: Sequence[torch.Tensor], targets: Sequence[torch.Tensor]
) -> list[torch.Tensor | None]:
    """Gradients of the first gradients' products with ``directions``; empty where no gradient can be derived again.

    Raises:
        RuntimeError: autograd says that there is none.
    """
    pairs = [
        (gradient, direction.to(gradient.dtype))
        for gradient, direction in zip(first, directions, strict=True)
        if gradient is not None and gradient.requires_grad
    ]
    if not pairs:
        return []
    return list(_grad([g for g, _ in pairs], list(targets), [d for _, d in pairs], allow_unused=True))


def listed(value: Any) -> list[Any]:
    """A callable's outputs as a list, the first of them where there are too many."""
    return list(value[:MOST_OUTPUTS]) if isinstance(value, tuple | list) else [value]


def overlaps(values: Values, given: Arguments) -> list[tuple[str, str]]:
    """Pairs of gradients that are two tensors in the same memory; not of those that are views of an input or upstream gradient."""
    tensors = [
        (label, value)
        for label, value in values.items()
        if label.startswith("gradient") and isinstance(value, torch.Tensor) and not given.shares(value)
    ]
    return [
        (one, other)
        for at, (one, left) in enumerate(tensors)
        for other, right in tensors[at + 1 :]
        if left is not right and _overlap(left, right)
    ]


def _overlap(left: torch.Tensor, right: torch.Tensor) -> bool:
    if left.untyped_storage().data_ptr() != right.untyped_storage().data_ptr() or not left.numel() or not right.numel():
        return False
    (begin, end), (other_begin, other_end) = _range(left), _range(right)
    if end <= other_begin or other_end <= begin:
        return False
    # Columns of one buffer may lie between one another without meeting.
    taken = torch.zeros(left.untyped_storage().nbytes(), dtype=torch.bool)
    for offset in range(left.element_size()):
        _bytes(taken, left, offset).fill_(True)
    return any(bool(_bytes(taken, right, offset).any()) for offset in range(right.element_size()))


def _range(tensor: torch.Tensor) -> tuple[int, int]:
    span = 1 + sum((size - 1) * step for size, step in zip(tensor.shape, tensor.stride(), strict=True))
    begin = tensor.storage_offset() * tensor.element_size()
    return begin, begin + span * tensor.element_size()


def _bytes(taken: torch.Tensor, tensor: torch.Tensor, offset: int) -> torch.Tensor:
    width = tensor.element_size()
    return taken.as_strided(
        tensor.shape, [step * width for step in tensor.stride()], tensor.storage_offset() * width + offset
    )


def _checkpointed(called: Callable[..., Any], given: Arguments, *, reentrant: bool) -> Values:
    chosen = given.requiring(tuple(given.leaves))
    names = list(chosen.leaves)

    def again(*leaves: torch.Tensor) -> Any:
        return chosen.replacing(dict(zip(names, leaves, strict=True))).call(called)

    value = _checkpoint(again, *chosen.leaves.values(), use_reentrant=reentrant, preserve_rng_state=False)
    outputs = listed(value)
    pairs = _pairs(outputs, chosen)
    if pairs:  # a reentrant checkpoint knows no other way than ``backward``
        _backward([output for output, _ in pairs], [grad for _, grad in pairs])
    return _labelled(outputs) | _gradients(chosen, [leaf.grad for leaf in chosen.leaves.values()])


def _double(called: Callable[..., Any], given: Arguments) -> Values:
    """Second gradients; only ``RAISES`` where there are none, which is what a function without a double backward should say."""
    chosen = given.requiring(tuple(given.leaves))
    upstream = [None if grad is None else grad.detach().clone().requires_grad_() for grad in given.upstream]
    outputs = listed(chosen.call(called))
    pairs = _pairs(outputs, chosen, upstream)
    leaves = list(chosen.leaves.values())
    first = _grad(
        [output for output, _ in pairs], leaves, [grad for _, grad in pairs], create_graph=True, allow_unused=True
    )
    there = {f"upstream {place}": grad for place, grad in enumerate(upstream) if grad is not None}
    try:
        found = second_gradients(first, list(given.directions.values()), [*leaves, *there.values()])
    except (RuntimeError, NotImplementedError):
        return {RAISES: None}
    # What depends on nothing but the upstream gradient, such as the sum of it, claims nothing of the inputs.
    if all(gradient is None for gradient in found[: len(leaves)]):
        return {RAISES: None}
    names = [*chosen.leaves, *there]
    return {f"second gradient of {name}": value for name, value in zip(names, found, strict=True)}


def _changed(called: Callable[..., Any], given: Arguments, names: Sequence[str]) -> Values:
    """Gradients where inputs or outputs are changed in place before the backward; only ``RAISES`` where autograd sees it."""
    chosen = given.copied()
    outputs = listed(chosen.call(called))
    for tensor in chosen.tensors() if "inputs" in names else outputs:
        if isinstance(tensor, torch.Tensor) and tensor.is_floating_point():
            with suppress(RuntimeError):  # one number that stands for many cannot be changed in place
                tensor.detach().mul_(CHANGE)  # autograd sees it all the same
    try:
        return _gradients(chosen, _grad_of(outputs, chosen))
    except RuntimeError:
        return {RAISES: None}


def _outputs(value: Any) -> Values:
    return _labelled(listed(value))


def _labelled(outputs: Sequence[Any]) -> Values:
    return {f"output {place}": value for place, value in enumerate(outputs)}


def _gradients(given: Arguments, found: Sequence[Any]) -> Values:
    return {f"gradient of {name}": value for name, value in zip(given.leaves, found, strict=True)}


def _grad_of(outputs: Sequence[Any], given: Arguments) -> list[Any]:
    pairs = _pairs(outputs, given)
    leaves = list(given.leaves.values())
    if not pairs or not leaves:
        return [None] * len(leaves)
    return list(_grad([output for output, _ in pairs], leaves, [grad for _, grad in pairs], allow_unused=True))


def _by_outputs(called: Callable[..., Any], given: Arguments) -> list[torch.Tensor | None]:
    """The gradients that each output alone gives, added up: together they are those of all."""
    chosen = given.requiring(tuple(given.leaves))
    leaves = list(chosen.leaves.values())
    totals: list[torch.Tensor | None] = [None] * len(leaves)
    for place in range(len(given.upstream)):
        pairs = _pairs(listed(chosen.call(called))[place : place + 1], chosen, given.upstream[place : place + 1])
        if not pairs:
            continue
        for at, grad in enumerate(_grad([pairs[0][0]], leaves, [pairs[0][1]], allow_unused=True)):
            total = totals[at]
            if grad is not None:
                totals[at] = grad if total is None else total + grad
    return totals


def _pairs(
    outputs: Sequence[Any], given: Arguments, upstream: Sequence[torch.Tensor | None] | None = None
) -> list[tuple[torch.Tensor, torch.Tensor]]:
    return [
        (value, grad)
        for value, grad in zip(outputs, given.upstream if upstream is None else upstream, strict=False)
        if grad is not None and isinstance(value, torch.Tensor) and value.requires_grad
    ]
