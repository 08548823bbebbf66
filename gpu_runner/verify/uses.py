"""Which other ways to call a candidate each case tries, and how what comes of them is judged. Pure."""

from __future__ import annotations

import itertools
import random
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import torch

from gpu_runner.messages import Use
from gpu_runner.verify.cases import Content, MemoryLayout
from gpu_runner.verify.inputs import DTYPES
from gpu_runner.verify.laying import Laid, lay
from gpu_runner.verify.proof import Proof

MOST_ELEMENTS = 2**14  # of all inputs: a use says as much on few elements, and costs less
MOST_MEASURED = (
    2**17
)  # of all inputs of a workload, on which the forms of a call that choose other code are tried again
CHOOSING = ("no_grad", "plain", "subset")
LEAST_ELEMENTS = 32  # of the largest input: of fewer a wrong value says little
USES_A_CASE, MOST_STRIDED = 2, 5  # more where inputs have gaps, which few cases have
MOST_SUBSETS = 14  # of the inputs that want a gradient: every one of four inputs
MOST_CHANGED = 4  # inputs that are changed by themselves
MOST_OF_MEASURED = 4
MOST_OF_WIDE = 3
WIDE = 4096  # columns
STRIDED = (MemoryLayout.apart, MemoryLayout.permuted)  # of inputs that a function may copy, or keep as they are

# How a sentence about a use begins.
WORDS = {
    "no_grad": "Called under torch.no_grad(): ",
    "plain": "Called on inputs that want no gradient: ",
    "subset": "Called where only some inputs want a gradient: ",
    "outputs": "Called for the gradient of each output alone, added up: ",
    "checkpoint": "Called under torch.utils.checkpoint: ",
    "reentrant": "Called under torch.utils.checkpoint with use_reentrant=True: ",
    "double": "In a double backward: ",
    "elsewhere": "Where saved tensors come back as dense copies, as hooks that keep them on the host give them: ",
    "changed": "Where inputs or outputs are changed in place between forward and backward: ",
}
HINTS = {
    "elsewhere": " Ask the saved tensor itself for its strides.",
    "changed": " Keep tensors by `save_for_backward`, so that autograd sees the change and raises.",
    "double": " Write the second derivative, or mark `backward` as `once_differentiable`, so that it raises.",
}


@dataclass
class Uses:
    """Deals the uses of a problem out to its small cases, in an order that the first one's secret seed decides."""

    _left: list[Use] | None = field(default=None)
    _measured: bool = False
    _is_wide: bool = False
    _layouts: set[str] = field(default_factory=set)

    def deal(self, proof: Proof) -> Proof:
        """The same case with the next uses; as it is where it is too large, too small, or holds values far out."""
        elements = [tensor.numel() for tensor in proof.inputs.values()]
        case = proof.case
        if case.measured and not self._measured and sum(elements) <= MOST_MEASURED:
            # What is right in a small call only may be chosen by what wants a gradient.
            self._measured = True
            return replace(proof, uses=tuple(choosing(proof)[:MOST_OF_MEASURED]))
        if not self._is_wide and _is_wide(proof):
            self._is_wide = True
            uses = [use for use in choosing(proof) if use.kind != "plain"]
            return replace(proof, uses=tuple(uses[:MOST_OF_WIDE]))
        small = sum(elements) <= MOST_ELEMENTS and max(elements, default=0) >= LEAST_ELEMENTS
        small = small and not (case.same or case.related)
        if not small or case.content is not Content.ordinary or case.narrow_grad or case.measured:
            return proof
        if self._left is None:
            self._left = uses_of(proof)
            random.Random(case.seed).shuffle(self._left)  # noqa: S311 - the seed is secret
        # What is derived from equal upstream gradients is zero for softmax and the like.
        # And from a copy that a function makes of its input there is no way back to it.
        can_double = case.layout == MemoryLayout.dense and case.upstream == MemoryLayout.dense
        fit = [use for use in self._left if use.layout in ("", case.layout) and (use.kind != "double" or can_double)]
        # Those that few cases can have come first.
        fit = sorted(fit, key=lambda use: (use.kind != "double", not use.layout))
        strided = [use for use in fit if use.layout in STRIDED]
        fit = fit[: min(max(USES_A_CASE, len(strided)), MOST_STRIDED)]
        self._left = [use for use in self._left if use not in fit]
        if not fit and case.layout not in self._layouts:
            # Code of its own for calls without gradients may know fewer layouts.
            self._layouts.add(case.layout)
            fit = [Use("no_grad")]
        return replace(proof, uses=tuple(fit))


def choosing(proof: Proof) -> list[Use]:
    """The uses for which a function may choose other code, in a drawn order."""
    uses = [use for use in uses_of(proof) if use.kind in CHOOSING and (use.kind != "subset" or len(use.names) == 1)]
    random.Random(proof.case.seed).shuffle(uses)  # noqa: S311 - the seed is secret
    return uses


def _is_wide(proof: Proof) -> bool:
    """Whether rows are wider than the block of most kernels, in the dtype in which a verdict looks closest."""
    elements = [tensor.numel() for tensor in proof.inputs.values()]
    widest = max((tensor.shape[-1] for tensor in proof.inputs.values() if tensor.dim()), default=0)
    is_usual = proof.case.content is Content.ordinary and proof.case.again and not proof.case.measured
    return is_usual and widest > WIDE and sum(elements) <= MOST_MEASURED


def uses_of(proof: Proof) -> list[Use]:
    """Every use of a problem, with each subset of few inputs that want a gradient; of many, each input alone, and all but each."""
    uses = [Use("no_grad")]
    if not proof.has_backward or proof.form.mutates:
        return uses
    uses += [Use(kind) for kind in ("plain", "checkpoint", "reentrant", "saved")]
    uses += [Use("double", layout=MemoryLayout.dense)]
    uses += [Use("elsewhere", layout=MemoryLayout.apart)]  # of dense tensors copies lie as they do
    # Each input by itself too: of several changed at once autograd sees whichever it has saved. A copy that a function makes of one
    # with gaps may be kept by any means, and gives the gradients as they were.
    each = proof.wanted[:MOST_CHANGED]
    together = ("inputs", "outputs", *(each if len(each) > 1 else ()))
    uses += [Use("changed", (what,), MemoryLayout.dense) for what in together]
    deep = [name for name in each if proof.inputs[name].dim() > 1]
    uses += [Use("changed", (name,), layout) for layout in STRIDED for name in deep]
    if sum(laid is not None for laid in proof.upstream) > 1 and proof.case.dtype == "float32":
        uses.append(Use("outputs"))
    if len(proof.wanted) > 1:
        stream = random.Random(proof.case.seed + 1)  # noqa: S311 - the seed is secret
        most = len(proof.wanted)
        sizes = range(1, most) if 2**most - 2 <= MOST_SUBSETS else (1, most - 1)
        subsets = [names for size in sizes for names in itertools.combinations(proof.wanted, size)]
        uses += [Use("subset", names) for names in stream.sample(subsets, min(MOST_SUBSETS, len(subsets)))]
    return uses


def directions_of(proof: Proof) -> dict[str, Laid]:
    """Random directions along which a double backward derives the gradients."""
    stream = torch.Generator().manual_seed((proof.case.seed * 2862933555777941757 + 3037000493) % 2**63)
    dtypes = {name: DTYPES[item.dtype] for name, item in proof.gradients.items() if item is not None}
    return {
        name: lay(torch.randn(proof.inputs[name].shape, generator=stream).to(dtypes.get(name, torch.float32)))
        for name in proof.wanted
    }


def second_labels(proof: Proof) -> Sequence[str]:
    """Labels of the second gradients, in the order in which the reference gives them."""
    upstream = [f"upstream {place}" for place, laid in enumerate(proof.upstream) if laid is not None]
    return [f"second gradient of {name}" for name in (*proof.wanted, *upstream)]
