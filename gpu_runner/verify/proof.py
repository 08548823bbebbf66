"""What the parent knows of one case: the inputs it made, the truth it got, and the call that asks for both. No I/O."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch

from gpu_runner.buffers import Buffer
from gpu_runner.contracts.verify import Composed
from gpu_runner.verify.cases import Case, Content
from gpu_runner.verify.compare import Truth
from gpu_runner.verify.laying import Laid
from gpu_runner.verify.scalars import Scalar


@dataclass(frozen=True)
class CallForm:
    """How a problem's callable is called."""

    name: str  # reference or kernelbench
    order: tuple[str, ...]  # parameters, or positional inputs of a module
    keywords: tuple[str, ...] = ()  # those of ``order`` that are passed by name
    parameters: tuple[str, ...] = ()  # of a module
    init: tuple[Any, ...] = ()  # what a module is built with
    mutates: tuple[str, ...] = ()
    weights: tuple[str, ...] = ()  # inputs that are a module's parameters
    defaults: tuple[tuple[str, Scalar], ...] = ()  # of scalars


@dataclass(frozen=True)
class Expected:
    """One output or gradient as it should be."""

    label: str
    truth: Truth
    shape: tuple[int, ...]
    stride: tuple[int, ...]
    dtype: str
    differentiable: bool = False
    is_beside: bool = False  # another output of the reference lies in the same memory


PASSES, MOST_OF_PASSES = (
    (4, 8),
    2**13,
)  # backwards of a retained graph after the first, and elements of all inputs for it
SMALL = 64  # an input with at most this part of the largest one's elements, at the problem's own sizes, is small


@dataclass(frozen=True)
class Scale:
    """How large a problem is: ``elements`` of each input at its largest workload, ``moves_only`` where its answer is a move."""

    elements: Mapping[str, int] = field(default_factory=dict)
    moves_only: bool = False
    sizes: Mapping[str, int] = field(default_factory=dict)  # of the largest workload

    def is_small(self, source: str) -> bool:
        """Whether an input is small beside the largest one."""
        largest = max(self.elements.values(), default=0)
        return source in self.elements and self.elements[source] * SMALL <= largest


@dataclass(frozen=True)
class Use:
    """Another way to call a candidate than forward and backward; ``kind`` as ``child.calls`` knows it."""

    kind: str  # no_grad, plain, subset, outputs, checkpoint, reentrant, double, changed, saved, elsewhere
    names: tuple[
        str, ...
    ] = ()  # of a subset: the inputs that want a gradient; of what is changed: inputs, or all, or outputs
    layout: str = ""  # of the cases in which it is of use; empty: of any

    @property
    def name(self) -> str:
        """The name of its run."""
        return " ".join((self.kind, *self.names))


@dataclass(frozen=True)
class Proof:
    """One case with everything that a candidate's answer is held against."""

    case: Case
    form: CallForm
    inputs: dict[str, torch.Tensor]
    laid: dict[str, Laid]
    scalars: tuple[tuple[str, Scalar], ...]
    wanted: tuple[str, ...]  # inputs that want a gradient
    outputs: tuple[Expected, ...] = ()
    upstream: tuple[Laid | None, ...] = ()
    gradients: dict[str, Expected | None] = field(default_factory=dict)
    other: Proof | None = None
    filled: tuple[str, ...] = ()  # inputs that hold large or odd values
    scale: Scale = Scale()  # of the problem, at its own sizes
    uses: tuple[Use, ...] = ()
    directions: dict[str, Laid] = field(default_factory=dict)  # by wanted input, of a double backward
    seconds: dict[str, Expected | None] = field(default_factory=dict)  # by label
    composed: Composed | None = None  # where torch may compute, of a program of proved parts
    once: bool = False  # the candidate is not run a second time on the same inputs

    @property
    def has_backward(self) -> bool:
        """Say whether there is a gradient to compute."""
        return bool(self.wanted) and any(laid is not None for laid in self.upstream)

    def expected(self) -> dict[str, Expected | None]:
        """Every output and gradient by label; None for a gradient that does not exist."""
        found: dict[str, Expected | None] = {item.label: item for item in self.outputs}
        if self.has_backward:
            found |= {f"gradient of {name}": item for name, item in self.gradients.items()}
        return found


@dataclass
class ChildCall:
    """A handler's metadata and tensors."""

    meta: dict[str, Any]
    tensors: list[Buffer]
    places: dict[int, int] = field(
        default_factory=dict
    )  # by the identity of what was sent: parts of one tensor share memory


def make_call(proof: Proof, **more: Any) -> ChildCall:
    """The call that runs a case."""
    call = ChildCall({}, [])
    call.meta = {
        "form": proof.form.name,
        "order": list(proof.form.order),
        "keywords": list(proof.form.keywords),
        "parameters": list(proof.form.parameters),
        "mutates": list(proof.form.mutates),
        "weights": list(proof.form.weights),
        "defaults": dict(proof.form.defaults),
        "scalars": dict(proof.scalars),
        "inputs": [_entry(call, name, laid, name in proof.wanted) for name, laid in proof.laid.items()],
        "same": list(proof.case.same),
        "upstream": [None if laid is None else _entry(call, "upstream", laid, False) for laid in proof.upstream],
        "backward": proof.has_backward,
        "echoes": proof.case.echoes,
        "passes": _passes(proof),
        "again": proof.other is not None,
        "uses": [{"name": use.name, "kind": use.kind, "names": list(use.names)} for use in proof.uses],
        "directions": [_entry(call, name, laid, False) for name, laid in proof.directions.items()],
        "skip": [],
        "tolerant": False,
        "optional": False,  # a candidate may fail in it, and then nothing of it counts
        "gpu": proof.case.gpu,
        "multiprocessors": proof.case.multiprocessors,
        "compiling": proof.case.compiling,
        "odd": proof.case.content is Content.odd,
        "device": None,
        "has_devices": True,
        **more,
    }
    if proof.other is not None:
        call.meta["others"] = [
            _entry(call, name, laid, name in proof.wanted) for name, laid in proof.other.laid.items()
        ]
    return call


def _passes(proof: Proof) -> int:
    """How often the backward of a retained graph is run again; of many elements once."""
    elements = sum(tensor.numel() for tensor in proof.inputs.values())
    low, high = PASSES
    return low + proof.case.seed % (high - low + 1) if elements <= MOST_OF_PASSES else 1


def _entry(call: ChildCall, name: str, laid: Laid, grad: bool) -> dict[str, Any]:
    if id(laid.raw) not in call.places:
        call.places[id(laid.raw)] = len(call.tensors)
        call.tensors.append(Buffer.from_torch(laid.raw))
    return {
        "name": name,
        "tensor": call.places[id(laid.raw)],
        "shape": list(laid.shape),
        "stride": list(laid.stride),
        "offset": laid.offset,
        "grad": grad,
    }
