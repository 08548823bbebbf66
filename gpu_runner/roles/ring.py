"""Sets of inputs that take turns, each in memory of its own, put back where a contender overwrote them."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any

import torch

from gpu_runner.roles.arguments import Arguments

# A set begins somewhere else in its memory for every block, so that the luck of one address is noise within a contender and no
# difference between two of them. The step keeps every alignment that a kernel could be specialised for.
ROAM_BYTES = 2**21
STEP_BYTES = 2**9
_UPSTREAM = "upstream "  # no name of an input has a space


@dataclass
class Ring:
    """``pristine`` is never handed out; the set at ``place`` is the same moved on by ``place`` rows, with the same upstream."""

    pristine: Arguments
    places: int
    sets: list[Arguments] = field(default_factory=list)
    overwritten: dict[str, None] = field(default_factory=dict)
    _memory: dict[tuple[str, int], torch.Tensor] = field(default_factory=dict)
    _live: list[dict[str, torch.Tensor]] = field(default_factory=list)

    def lay(self, stream: random.Random) -> None:
        """Lay every set out afresh, at other addresses; what was computed in their memory is lost."""
        self.sets, self._live = [], []
        for place in range(self.places):
            live = {label: self._placed(label, tensor, place, stream) for label, tensor in self._labelled()}
            self._live.append(live)
            self.sets.append(_swapped(self.pristine, live))

    def look(self, place: int) -> tuple[str, ...]:
        """Find what of a set is no longer as it was laid, and remember it; gives what was not known before."""
        found = []
        for label, source in self._labelled():
            if label not in self.overwritten and not _equals_rolled(
                self._live[place][label], source, _rows(label, place)
            ):
                self.overwritten[label] = None
                found.append(label)
        return tuple(found)

    def restore(self, place: int) -> None:
        """Put back what contenders overwrite, and nothing else."""
        for label, source in self._labelled():
            if label in self.overwritten:
                _copy_rolled(self._live[place][label], source, _rows(label, place))

    def _labelled(self) -> list[tuple[str, torch.Tensor]]:
        return list(_labels(self.pristine).values())

    def _placed(self, label: str, source: torch.Tensor, place: int, stream: random.Random) -> torch.Tensor:
        item = source.element_size()
        key = (label, place)
        if key not in self._memory:
            size = source.numel() + ROAM_BYTES // item
            self._memory[key] = torch.empty(size, dtype=source.dtype, device=source.device)
        begin = stream.randrange(0, ROAM_BYTES // STEP_BYTES) * (STEP_BYTES // item)
        live = self._memory[key][begin : begin + source.numel()].view(source.shape).detach()
        _copy_rolled(live, source, _rows(label, place))
        return live.requires_grad_(source.requires_grad)


def _labels(given: Arguments) -> dict[int, tuple[str, torch.Tensor]]:
    """Give every tensor by its identity, with a label: one that is passed twice is one."""
    found: dict[int, tuple[str, torch.Tensor]] = {}
    for name, tensor in given.leaves.items():
        found.setdefault(id(tensor), (name, tensor))
    for number, tensor in enumerate(given.tensors()):
        found.setdefault(id(tensor), (f"argument {number}", tensor))
    for number, grad in enumerate(given.upstream):
        if grad is not None:
            found.setdefault(id(grad), (f"{_UPSTREAM}{number}", grad))
    return found


def _swapped(given: Arguments, live: dict[str, torch.Tensor]) -> Arguments:
    labels = _labels(given)

    def swap(value: Any) -> Any:
        return live[labels[id(value)][0]] if isinstance(value, torch.Tensor) else value

    def each(held: dict[str, Any]) -> dict[str, Any]:
        return {name: swap(value) for name, value in held.items()}

    return Arguments(
        positional=[swap(value) for value in given.positional],
        named=each(given.named),
        parameters=each(given.parameters),
        leaves=each(given.leaves),
        upstream=[swap(grad) for grad in given.upstream],
    )


def _rows(label: str, place: int) -> int:
    return 0 if label.startswith(_UPSTREAM) else place


def _parts(target: torch.Tensor, source: torch.Tensor, moved: int) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """Pair the pieces of a tensor with those of the same moved on by so many rows, without memory for a moved copy."""
    target, source = target.detach(), source.detach()
    rows = moved % source.shape[0] if source.dim() and source.shape[0] else 0
    if rows == 0:
        return [(target, source)]
    return [(target[rows:], source[:-rows]), (target[:rows], source[-rows:])]


def _copy_rolled(target: torch.Tensor, source: torch.Tensor, rows: int) -> None:
    with torch.no_grad():
        for to, from_ in _parts(target, source, rows):
            to.copy_(from_)


def _equals_rolled(target: torch.Tensor, source: torch.Tensor, rows: int) -> bool:
    return all(torch.equal(to, from_) for to, from_ in _parts(target, source, rows))
