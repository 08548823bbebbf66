"""What the parent knows of one case: the inputs it made, the truth it got, and the call that asks for both. No I/O."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Generic, TypeVar

import torch

from gpu_runner.buffers import Buffer
from gpu_runner.contracts.verify import Composed
from gpu_runner.messages import CallForm, SentCall, SentTensor, Use
from gpu_runner.numerics.compare import Truth
from gpu_runner.verify.cases import Case, Content
from gpu_runner.verify.laying import Laid
from gpu_runner.verify.scalars import Scalar

C_co = TypeVar("C_co", covariant=True)


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
    is_given: bool = False  # it lies in the memory of an input, as a view does
    rows: torch.Tensor | None = None  # of a large one those that the truth is of

    def known(self, tensor: torch.Tensor) -> torch.Tensor:
        """What the truth is of: all of a tensor in its own shape, or these rows, [rows, columns of the truth]."""
        if self.rows is None:
            return tensor.reshape(self.shape)
        return tensor.reshape(-1, self.truth.exact.shape[-1])[self.rows]


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
    answers: int = 0  # elements of its largest output that is a product of dimensions

    def is_small(self, source: str) -> bool:
        """Whether an input is small beside the largest one."""
        largest = max(self.elements.values(), default=0)
        return source in self.elements and self.elements[source] * SMALL <= largest


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
        expected: dict[str, Expected | None] = {item.label: item for item in self.outputs}
        if self.has_backward:
            expected |= {f"gradient of {name}": item for name, item in self.gradients.items()}
        return expected


@dataclass(frozen=True)
class ChildCall(Generic[C_co]):
    """A call as it is asked for, and the tensors that go along."""

    call: C_co
    tensors: Sequence[Buffer] = ()


def make_call(proof: Proof, **more: Any) -> ChildCall[SentCall]:
    """The call that runs a case; ``more`` are fields of ``SentCall`` with other values."""
    tensors: list[Buffer] = []
    places: dict[int, int] = {}  # by the identity of what is sent: parts of one tensor share memory

    def sent(name: str, laid: Laid, grad: bool = False) -> SentTensor:
        if id(laid.raw) not in places:
            places[id(laid.raw)] = len(tensors)
            tensors.append(Buffer.from_torch(laid.raw))
        return SentTensor(name, places[id(laid.raw)], laid.shape, laid.stride, laid.offset, grad)

    def inputs(of: Proof) -> tuple[SentTensor, ...]:
        return tuple(sent(name, laid, name in proof.wanted) for name, laid in of.laid.items())

    call = SentCall(
        proof.form,
        dict(proof.scalars),
        inputs(proof),
        tuple(None if laid is None else sent("upstream", laid) for laid in proof.upstream),
        proof.has_backward,
        directions=tuple(sent(name, laid) for name, laid in proof.directions.items()),
        others=None if proof.other is None else inputs(proof.other),
        same=proof.case.same,
        uses=proof.uses,
        echoes=proof.case.echoes,
        passes=_passes(proof),
        odd=proof.case.content is Content.odd,
        gpu=proof.case.gpu,
        multiprocessors=proof.case.multiprocessors,
        compiling=proof.case.compiling,
    )
    return ChildCall(replace(call, **more), tensors)


def _passes(proof: Proof) -> int:
    """How often the backward of a retained graph is run again; of many elements once."""
    elements = sum(tensor.numel() for tensor in proof.inputs.values())
    low, high = PASSES
    return low + proof.case.seed % (high - low + 1) if elements <= MOST_OF_PASSES else 1
