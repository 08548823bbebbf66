"""Tracing a reference forward and backward at once, in the child."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.fx import GraphModule
from torch.fx.experimental.proxy_tensor import make_fx
from torch.overrides import TorchFunctionMode

from gpu_runner.contracts.problem import InputSpec
from gpu_runner.tracing.backward_decompositions import OWN_GRADIENTS
from gpu_runner.tracing.decompositions import RULES
from gpu_runner.tracing.fake import OperatorLimit
from gpu_runner.tracing.in_place import CannotFollow, without_changes

# What torch would take apart into steps that are outside of the vocabulary anyway; whole, a refusal can name it.
_KEPT_WHOLE = ("embedding_dense_backward", "convolution_backward", "im2col", "col2im", "index_add", "index_copy")


@dataclass(frozen=True)
class JointTrace:
    """A joint graph, flat: its inputs are the problem's, then the upstream gradients; its outputs the outputs, then gradients."""

    module: GraphModule
    outputs: int
    upstream: tuple[bool, ...]  # for each output, whether it has a gradient
    gradients: tuple[bool, ...]  # for each wanted input, whether some output depends on it
    tuple_output: bool
    rewritten: bool = False  # it changed memory in place that it sees elsewhere too, and was traced again without


class KeepCasts(TorchFunctionMode):  # type: ignore[misc]  # torch is not typed here
    """Makes casts that change nothing for float32 inputs visible, so that every cast of the reference is in the graph.

    Functions whose gradients autograd computes by looking at values are replaced by such as have a formula.
    """

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        own = OWN_GRADIENTS.get(func)
        result = NotImplemented if own is None else own(*args, **(kwargs or {}))
        if result is not NotImplemented:
            return result
        result = func(*args, **(kwargs or {}))
        casts = func in (Tensor.to, Tensor.float, Tensor.type_as, Tensor.type)
        if casts and args and result is args[0] and isinstance(result, Tensor) and result.is_floating_point():
            return torch.ops.aten._to_copy.default(result, dtype=result.dtype)  # noqa: SLF001 - the operator's public name
        return result


def as_tuple(value: Any) -> tuple[Tensor, ...]:
    """A reference's result as a tuple.

    Raises:
        TypeError: it is neither a tensor nor a tuple or list of tensors.
    """
    values = tuple(value) if isinstance(value, tuple | list) else (value,)
    if not values or not all(isinstance(v, Tensor) for v in values):
        raise TypeError("reference must return a tensor or a tuple of tensors")
    return values


class Joint:
    """A reference forward and backward as one function of flat tensors: the inputs, then the upstream gradients.

    Whatever the reference raises passes through, and ``TooManyOperators``.
    """

    def __init__(
        self,
        call: Callable[[Sequence[Tensor]], Any],
        inputs: Sequence[Tensor],
        wanted: Sequence[int],
        watch: Any = None,
    ) -> None:
        self._call, self._inputs, self._wanted = call, inputs, wanted
        self._watch = watch or contextlib.nullcontext()
        with OperatorLimit():
            probe = call(_leaves(inputs, wanted))
        self.tuple_output = isinstance(probe, tuple | list)
        self.probed = as_tuple(probe)
        self.has_gradient = tuple(out.requires_grad and out.is_floating_point() for out in self.probed)
        self.reached: tuple[bool, ...] = ()
        self.dtypes = [out.dtype for out in self.probed]

    @property
    def flat(self) -> list[Tensor]:
        """The function's positional arguments."""
        upstream = zip(self.probed, self.has_gradient, self.dtypes, strict=True)
        made = [torch.randn_like(out, dtype=dtype) for out, has, dtype in upstream if has]
        return [*[x.detach() for x in self._inputs], *made]

    def __call__(self, *flat: Tensor) -> list[Tensor]:
        """The outputs, then the gradients that exist."""
        with self._watch:
            leaves = _leaves(flat[: len(self._inputs)], self._wanted)
            with KeepCasts():
                results = as_tuple(self._call(leaves))
            results = tuple(out.to(dtype) for out, dtype in zip(results, self.dtypes, strict=True))
            ends = [out for out, has in zip(results, self.has_gradient, strict=True) if has]
            leaf = [leaves[i] for i in self._wanted]
            gradients: Sequence[Tensor | None] = [None] * len(leaf)
            if ends and leaf:
                gradients = torch.autograd.grad(ends, leaf, flat[len(self._inputs) :], allow_unused=True)
            self.reached = tuple(g is not None for g in gradients)
            return [*results, *(g for g in gradients if g is not None)]


def trace(
    call: Callable[[Sequence[Tensor]], Any], inputs: Sequence[Tensor], wanted: Sequence[int], watch: Any = None
) -> JointTrace:
    """Trace ``call`` on ``inputs`` with the gradients of those at ``wanted``; ``watch`` is entered while it runs.

    Raises:
        TypeError: the result is no tensor. Whatever the reference raises passes through.
    """
    table = decomposition_table()
    with composed_of_operators():
        joint = Joint(call, inputs, wanted, watch)
        flat = joint.flat
        module = make_fx(joint, decomposition_table=table)(*flat)
        rewritten = False
        try:
            without_changes(module.graph, {}, table)
        except CannotFollow:
            rewritten = True
            pure = torch.func.functionalize(module, remove="mutations")
            module = make_fx(pure, decomposition_table=table)(*flat)
    return JointTrace(module, len(joint.probed), joint.has_gradient, joint.reached, joint.tuple_output, rewritten)


def run(
    call: Callable[[Sequence[Tensor]], Any],
    inputs: Sequence[Tensor],
    wanted: Sequence[int],
    watch: Any,
    dtypes: Sequence[torch.dtype] | None = None,
) -> list[torch.dtype]:
    """Run ``call`` forward and backward in eager mode with ``watch`` entered; give the outputs' dtypes, which ``dtypes`` sets.

    Raises:
        TypeError: the result is no tensor. Whatever the reference raises passes through.
    """
    with composed_of_operators():
        joint = Joint(call, inputs, wanted, watch)
        joint.dtypes = list(dtypes or joint.dtypes)
        joint(*joint.flat)
    return joint.dtypes


@functools.cache
def decomposition_table() -> dict[Any, Callable[..., Any]]:
    """The rules by operator: torch's own down to its core set, then this project's over them."""
    from torch._decomp import core_aten_decompositions

    table: dict[Any, Callable[..., Any]] = dict(core_aten_decompositions())
    for operator in list(table):
        if operator.overloadpacket.__name__ in _KEPT_WHOLE:
            del table[operator]
    for name, rule in RULES.items():
        packet, _, overload = name.partition(".")
        overloaded = getattr(getattr(torch.ops.aten, packet, None), overload, None)
        if overloaded is not None:
            table[overloaded] = rule
    return table


@contextlib.contextmanager
def composed_of_operators() -> Iterator[None]:
    """Decompose attention into matrix products and a softmax, and recurrent layers into their steps."""
    from torch.nn.attention import SDPBackend, sdpa_kernel

    before = torch.backends.mkldnn.enabled
    torch.backends.mkldnn.enabled = False  # `flags` warns of an accelerator that is not here
    try:
        with sdpa_kernel(SDPBackend.MATH):
            yield
    finally:
        torch.backends.mkldnn.enabled = before


def make_inputs(
    specs: Sequence[InputSpec], sizes: Mapping[str, int], seed: int, dtype: torch.dtype = torch.float32
) -> list[Tensor]:
    """Make inputs of the problem."""
    generator = torch.Generator().manual_seed(seed)
    return [_input(spec, sizes, generator, dtype) for spec in specs]


def _input(spec: InputSpec, sizes: Mapping[str, int], generator: torch.Generator, dtype: torch.dtype) -> Tensor:
    shape = [int(d) if d.isdigit() else sizes[d] for d in spec.dims]
    chosen = getattr(torch, spec.dtype) if spec.dtype else dtype
    if not chosen.is_floating_point:
        high = spec.high
        top = 2 if chosen is torch.bool else sizes[high] if isinstance(high, str) else high or 0
        return torch.randint(spec.low or 0, max(top, (spec.low or 0) + 1), shape, generator=generator).to(chosen)
    init = spec.init
    if init in ("ones", "zeros"):
        # A parameter that starts as a constant is traced with other values, so that none of its value is mistaken for its size.
        return torch.randn(shape, generator=generator).to(chosen)
    if init == "uniform":
        return torch.rand(shape, generator=generator).to(chosen)
    values = torch.randn(shape, generator=generator)
    if init in ("softmax", "log_softmax"):
        values = getattr(torch, init)(values, -1)
    return values.to(chosen)


def _leaves(inputs: Sequence[Tensor], wanted: Sequence[int]) -> list[Tensor]:
    return [x.detach().clone().requires_grad_(i in wanted) for i, x in enumerate(inputs)]
