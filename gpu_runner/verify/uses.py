"""Which other ways to call a candidate each case tries, and how what comes of them is judged. Pure."""

from __future__ import annotations

import itertools
import random
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import torch

from gpu_runner.messages import CHOOSING, Use
from gpu_runner.verify.cases import Case, Content, MemoryLayout
from gpu_runner.verify.inputs import DTYPES
from gpu_runner.verify.laying import Laid, lay, place_of
from gpu_runner.verify.proof import Proof

MOST_ELEMENTS = 2**14  # of all inputs: a use says as much on few elements, and costs less
MOST_MEASURED = (
    2**17
)  # of all inputs of a workload, on which the forms of a call that choose other code are tried again
TIMES_FIXED = 16  # as many as the inputs have where each dimension with a name has one
LEAST_ELEMENTS = 32  # of the largest input: of fewer a wrong value says little
USES_A_CASE, MOST_OF_LAYOUT = 2, 5  # more of those of one layout, which few cases have
MOST_SUBSETS = 14  # of the inputs that want a gradient: every one of four inputs
MOST_CHANGED = 8  # inputs that are changed by themselves, and
MOST_CHANGED_STRIDED = 4  # where they have gaps
MOST_OF_MEASURED = 4
MOST_OF_FAR = 4  # of a wide call, or of one with many rows, of those that choose other code
WIDE, DEEP = 4096, 200  # columns and rows
_WIDE, _DEEP, _DENSE = "wide", "deep", "wide and dense"
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

    fixed: int = 0  # elements of all inputs where each dimension with a name has one
    _left: list[Use] | None = field(default=None)
    _measured: bool = False
    _seen: set[str] = field(default_factory=set)  # forms of large calls that had uses
    _layouts: set[str] = field(default_factory=set)

    def deal(self, proof: Proof) -> Proof:
        """The same case with the next uses; as it is where it is too large, too small, or holds values far out."""
        elements = [tensor.numel() for tensor in proof.inputs.values()]
        case = proof.case
        if case.measured and not self._measured and sum(elements) <= MOST_MEASURED:
            # What is right in a small call only may be chosen by what wants a gradient.
            self._measured = True
            return replace(proof, uses=tuple(choosing(proof)[:MOST_OF_MEASURED]))
        new, far = _far(proof) - self._seen, list[Use]()
        self._seen |= new
        if not new.isdisjoint((_WIDE, _DEEP)):
            far = [use for use in choosing(proof) if use.kind != "plain"][:MOST_OF_FAR]
            far += _by_other_kernels(proof)
        elif new:
            far = [Use("no_grad")]
        if _can_double(case) and not new.isdisjoint((_DEEP, _DENSE)):
            far += [use for use in uses_of(proof) if use.kind == "double"]
        small = sum(elements) <= self._most and max(elements, default=0) >= LEAST_ELEMENTS
        small = small and not (case.same or case.related)
        if not small or case.content is not Content.ordinary or case.narrow_grad or case.measured:
            return replace(proof, uses=tuple(far))
        if self._left is None:
            self._left = uses_of(proof)
            random.Random(case.seed).shuffle(self._left)  # noqa: S311 - the seed is secret
        fit = [use for use in self._left if use.layout in ("", case.layout) and _shows(use, proof)]
        # Those that few cases can have come first.
        fit = sorted(fit, key=lambda use: (use.kind != "double", not use.layout))
        own = [use for use in fit if use.layout]
        fit = fit[: min(max(USES_A_CASE, len(own)), MOST_OF_LAYOUT)]
        self._left = [use for use in self._left if use not in fit]
        if not fit and case.layout not in self._layouts:
            # Code of its own for calls without gradients may know fewer layouts.
            self._layouts.add(case.layout)
            fit = [Use("no_grad")]
        return replace(proof, uses=tuple(dict.fromkeys([*far, *fit])))

    @property
    def _most(self) -> int:
        """Elements of all inputs of a case with uses: more where a problem has none of few, as with a table of a fixed size."""
        return max(MOST_ELEMENTS, min(TIMES_FIXED * self.fixed, MOST_MEASURED))


def choosing(proof: Proof) -> list[Use]:
    """The uses for which a function may choose other code, in a drawn order."""
    uses = [use for use in uses_of(proof) if use.kind in CHOOSING and (use.kind != "subset" or len(use.names) == 1)]
    random.Random(proof.case.seed).shuffle(uses)  # noqa: S311 - the seed is secret
    return uses


def _by_other_kernels(proof: Proof) -> list[Use]:
    """The uses that may run kernels of their own: each output alone, some gradients of several."""
    uses = uses_of(proof)
    several = [use for use in uses if use.kind == "subset" and len(use.names) > 1]
    random.Random(proof.case.seed).shuffle(several)  # noqa: S311 - the seed is secret
    return [*(use for use in uses if use.kind == "outputs"), *several[:MOST_OF_FAR]]


def _can_double(case: Case) -> bool:
    """Whether a double backward says something: what is derived from equal upstream gradients is zero for softmax and the like, and
    from a copy that a function makes of its input there is no way back to it."""
    return case.layout == MemoryLayout.dense and case.upstream == MemoryLayout.dense


def _shows(use: Use, proof: Proof) -> bool:
    """Whether a use says something in a case: a double backward where it may, a change of whole numbers where their order does."""
    named = [proof.inputs[name] for name in use.names if use.kind == "changed" and name in proof.inputs]
    whole = [one for one in named if not (one.is_floating_point() or one.dtype == torch.bool)]
    changes = not any(torch.equal(one, one.flip(tuple(range(one.dim())))) for one in whole)
    return changes and (use.kind != "double" or _can_double(proof.case))


def _far(proof: Proof) -> set[str]:
    """Whether rows are wider than the block of most kernels, by the dtype too, or are many."""
    case, tensors = proof.case, [tensor for tensor in proof.inputs.values() if tensor.dim()]
    is_usual = case.content is Content.ordinary and not (case.measured or case.narrow_grad or case.same or case.related)
    says_much = all(item is None or bool(item.truth.exact.any()) for item in proof.gradients.values())
    if not (is_usual and says_much) or sum(tensor.numel() for tensor in tensors) > MOST_MEASURED:
        return set()
    widest = max((tensor.shape[-1] for tensor in tensors), default=0)
    rows = max((tensor.numel() // tensor.shape[-1] for tensor in tensors if tensor.numel() > 1), default=0)
    is_wide, is_deep = widest > WIDE, rows > DEEP and widest > 1
    forms = {
        _WIDE: is_wide and case.again,
        _DEEP: is_deep,
        _DENSE: is_wide and _can_double(case),
        f"{_WIDE} in {case.dtype}": is_wide,
    }
    return {name for name, holds in forms.items() if holds}


def uses_of(proof: Proof) -> list[Use]:
    """Every use of a problem, with each subset of few inputs that want a gradient; of many, each input alone, and all but each."""
    uses, stream = [Use("no_grad")], random.Random(proof.case.seed + 1)  # noqa: S311 - the seed is secret
    if not proof.has_backward or proof.form.mutates:
        return uses
    uses += [Use(kind) for kind in ("plain", "checkpoint", "reentrant", "saved")]
    uses += [Use("double", layout=MemoryLayout.dense)]
    uses += [Use("elsewhere", layout=MemoryLayout.apart)]  # of dense tensors copies lie as they do
    # Each input by itself too: of several changed at once autograd sees whichever it has saved. A copy that a function makes of one
    # with gaps may be kept by any means, and gives the gradients as they were.
    # So may a mask or an index, which wants no gradient.
    each = stream.sample(list(proof.inputs), min(len(proof.inputs), MOST_CHANGED))
    together = ("inputs", "outputs", *(each if len(each) > 1 else ()))
    uses += [Use("changed", (what,), MemoryLayout.dense) for what in together]
    uses += [
        Use("changed", (name,)) for name in each if name not in proof.wanted
    ]  # few dense cases have indices of several rows
    deep = [name for name in each if name in proof.wanted and proof.inputs[name].dim() > 1][:MOST_CHANGED_STRIDED]
    uses += [Use("changed", (name,), layout) for layout in STRIDED for name in deep]
    if sum(laid is not None for laid in proof.upstream) > 1 and proof.case.dtype == "float32":
        uses.append(Use("outputs"))
    if len(proof.wanted) > 1:
        most = len(proof.wanted)
        sizes = range(1, most) if 2**most - 2 <= MOST_SUBSETS else (1, most - 1)
        subsets = [names for size in sizes for names in itertools.combinations(proof.wanted, size)]
        uses += [Use("subset", names) for names in stream.sample(subsets, min(MOST_SUBSETS, len(subsets)))]
    return uses


def directions_of(proof: Proof) -> dict[str, Laid]:
    """Random directions along which a double backward derives the gradients, none of them dense: those of a sum are expanded."""
    stream = torch.Generator().manual_seed((proof.case.seed * 2862933555777941757 + 3037000493) % 2**63)
    dtypes = {name: DTYPES[item.dtype] for name, item in proof.gradients.items() if item is not None}
    layouts = random.Random(proof.case.seed)  # noqa: S311 - the seed is secret
    directions = {}
    for name in proof.wanted:
        values = torch.randn(proof.inputs[name].shape, generator=stream).to(dtypes.get(name, torch.float32))
        layout = MemoryLayout.permuted if values.dim() > 1 else MemoryLayout.sliced
        directions[name] = lay(values, place_of(tuple(values.shape), layout, layouts))
    return directions


def second_labels(proof: Proof) -> Sequence[str]:
    """Labels of the second gradients, in the order in which the reference gives them."""
    upstream = [f"upstream {place}" for place, laid in enumerate(proof.upstream) if laid is not None]
    return [f"second gradient of {name}" for name in (*proof.wanted, *upstream)]
