"""The role that counts what a problem's reference computes, on shapes alone, beside all that the reference's role does.

Of timed runs it gives the truth of secret rows, and nothing larger leaves the device.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import flop_registry

from gpu_runner.child import reference
from gpu_runner.child.calls import Arguments, on_shapes
from gpu_runner.child.handlers import Answer, ChildState, Handler
from gpu_runner.child.input_sets import digests, given, sampled
from gpu_runner.child.lift import as_eager, lifted, rounded
from gpu_runner.messages import (
    ROUNDINGS,
    BendRows,
    ComputeRows,
    DescribeOutputs,
    DigestInputs,
    MeasureTraffic,
    Operations,
    OutlineCall,
    OutlinedCall,
    OutputForm,
    Request,
    RowForm,
    TrafficBytes,
    TruthRows,
)
from gpu_runner.numerics.compare import natural_error
from gpu_runner.tracing.joint import composed_of_operators

# Operators that stand for several steps; torch's own decompositions say which.
_FUSED_NAMES = """
    _fused_rms_norm _fused_rms_norm_backward _log_softmax _log_softmax_backward_data _softmax _softmax_backward_data
    addcdiv addcmul binary_cross_entropy binary_cross_entropy_backward celu elu elu_backward gelu gelu_backward glu glu_backward
    hardsigmoid hardswish huber_loss huber_loss_backward leaky_relu_backward lerp logit logsumexp log_sigmoid_forward
    log_sigmoid_backward mish mish_backward mse_loss mse_loss_backward native_batch_norm native_batch_norm_backward
    native_group_norm native_group_norm_backward native_layer_norm native_layer_norm_backward nll_loss_forward
    nll_loss_backward silu silu_backward smooth_l1_loss smooth_l1_loss_backward softplus_backward std std_mean
    tanh_backward sigmoid_backward var_mean
"""
# Operators that move, place or make values and compute none.
_MOVES_NAMES = """
    _to_copy _unsafe_view arange cat clone constant_pad_nd copy copy_ embedding embedding_dense_backward empty empty_like
    empty_strided fill fill_ full full_like gather index index_add index_copy index_put index_put_ index_select lift_fresh
    masked_fill masked_fill_ masked_scatter new_empty new_empty_strided new_full new_ones new_zeros ones ones_like repeat
    roll flip scalar_tensor scatter scatter_add select_backward slice_backward slice_scatter select_scatter stack take
    zero_ zeros zeros_like
"""
_MOVES = frozenset(_MOVES_NAMES.split())
_PICKS = frozenset({"embedding", "gather", "index", "index_select", "take"})  # of many elements some


class Counting(TorchDispatchMode):  # type: ignore[misc]  # torch is untyped to the checker
    """Counts floating-point operations while it is entered: products of matrices exactly, every other step one per element.

    Source: Williams, Waterman and Patterson, Roofline (2009), for what is counted; ``torch.utils.flop_counter`` for the products.
    """

    def __init__(self, inputs: Mapping[str, torch.Tensor] | None = None) -> None:
        super().__init__()
        self.matrix = 0
        self.vector = 0
        self.tf32 = 0  # of ``matrix``, those of float32 that torch computes in TF32 unless it is told otherwise
        self.whole: set[str] = set()  # of ``inputs``, those of which every element is computed with
        self._inputs = dict(inputs or {})
        self._origins = {_storage(tensor): {name} for name, tensor in self._inputs.items()}
        self._kept: list[Any] = []  # a storage that is freed could give its identity to another

    @property
    def counts(self) -> Operations:
        return Operations(self.matrix, self.vector, self.tf32)

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        named = dict(kwargs or {})
        formula = flop_registry.get(func.overloadpacket)
        rule = None if formula else _rules().get(func)
        if rule is not None:
            with self:
                return rule(*args, **named)
        given = func(*args, **named)
        moves = formula is None and _only_moves(func)
        if self._inputs:
            self._trace(func.overloadpacket.__name__, _tensors((args, named)), _tensors(given), moves)
        if formula is not None:
            products = int(formula(*args, **named, out_val=given))
            self.matrix += products
            if "convolution" in func.overloadpacket.__name__ and _tensors(given)[0].dtype is torch.float32:
                self.tf32 += products
        elif not moves:
            self.vector += max(_elements(given), _elements((args, named)))
        return given

    def _trace(self, name: str, operands: list[torch.Tensor], results: list[torch.Tensor], moves: bool) -> None:
        """Follow inputs through what only moves them, until something is computed with all of their elements."""
        for operand in operands:
            origins = self._origins.get(_storage(operand), set())
            if not moves:
                self.whole |= {item for item in origins if operand.numel() >= self._inputs[item].numel()}
            elif name not in _PICKS:
                for result in results:
                    self._origins.setdefault(_storage(result), set()).update(origins)
        self._kept += results


def traffic(state: ChildState, request: MeasureTraffic, tensors: list[torch.Tensor]) -> Answer[TrafficBytes]:
    """What the reference's own handler gives, and under ``whole`` the inputs that are read to their last element."""
    counted, _ = reference.traffic(state, request, tensors)
    arguments, form = on_shapes(request.call), request.call.form
    known = {*request.call.scalars, *(entry.name for entry in request.call.inputs)}
    by_place = [name for name in form.order if name not in form.keywords and name in known]
    given = dict(zip(by_place, arguments.positional, strict=True)) | arguments.named | arguments.parameters
    inputs = {name: value for name, value in given.items() if isinstance(value, torch.Tensor)}
    with torch.device("meta"), composed_of_operators(), Counting(inputs) as counting:
        arguments.call(state.values["reference"])
    return replace(counted, whole=tuple(sorted(counting.whole))), []


def outline(state: ChildState, request: OutlineCall, tensors: list[torch.Tensor]) -> Answer[OutlinedCall]:
    """The form of the outputs and the operations of each pass."""
    arguments = on_shapes(request.call)
    with torch.device("meta"), composed_of_operators(), Counting() as forward:
        value = arguments.call(state.values["reference"])
    outputs = list(value) if isinstance(value, tuple | list) else [value]
    ends = [output for output in outputs if output.requires_grad]
    backward: Counting | None = None
    leaves = list(arguments.leaves.values())
    if ends and leaves:
        upstream = [torch.empty_like(end) for end in ends]
        with torch.device("meta"), Counting() as backward:
            torch.autograd.grad(ends, leaves, upstream, allow_unused=True)
    return OutlinedCall(forward.counts, backward and backward.counts, tuple(map(_output_form, outputs))), []


@functools.cache
def _rules() -> dict[Any, Callable[..., Any]]:
    from torch._decomp import get_decompositions

    known = [getattr(torch.ops.aten, name) for name in _FUSED_NAMES.split() if hasattr(torch.ops.aten, name)]
    return dict(get_decompositions(known))


def _only_moves(func: Any) -> bool:
    if func.overloadpacket.__name__ in _MOVES:
        return True
    returned = [item.alias_info for item in func._schema.returns]  # noqa: SLF001 - the only place that tells a view
    return bool(returned) and all(alias is not None and not alias.is_write for alias in returned)


def _elements(values: Any) -> int:
    return max((math.prod(tensor.shape) for tensor in _tensors(values)), default=0)


def _tensors(values: Any) -> list[torch.Tensor]:
    return [leaf for leaf in tree_leaves(values) if isinstance(leaf, torch.Tensor)]


def _storage(tensor: torch.Tensor) -> int:
    return int(tensor.untyped_storage()._cdata)  # noqa: SLF001 - on shapes alone there is no address to tell memories apart by


Values = list[torch.Tensor | None]

# Float64 first; where it does not fit, float32 is still a truth for the half precisions.
DTYPES = (torch.float64, torch.float32)
MOST_MEMORY = 0.5  # of the GPU: the contenders lie beside
CHUNK = 2**26


def truth(state: ChildState, request: ComputeRows, tensors: list[torch.Tensor]) -> Answer[TruthRows]:
    """Rows of every output and gradient for one set of inputs, exact and in the reference's own dtype."""
    _release(state, 1.0)  # where the last call did not come to its end
    with as_eager():
        arguments, outputs, gradients = _run(state, request, tensors, None)
    facts = TruthRows(
        outputs=tuple(map(_row_form, outputs)),
        names=tuple(arguments.leaves) if request.backward else (),
        gradients=tuple(None if grad is None else _row_form(grad) for grad in gradients),
        natural=_naturals(arguments, outputs, gradients),
        kind="own",
    )
    own = _rows([*outputs, *gradients], request.rows)
    del arguments, outputs, gradients
    exact, kind = _exact(state, request, tensors, own)
    if [item is None for item in exact] != [item is None for item in own]:
        raise ValueError("the reference gives other outputs or gradients in float64")
    _release(state, 1.0)
    return replace(facts, kind=kind), [item for item in (*exact, *own) if item is not None]


def bends(state: ChildState, request: BendRows, tensors: list[torch.Tensor]) -> Answer[None]:
    """What half precision may make of the rows: the exact ones in float64 of inputs that are ``shake`` of themselves away, and of
    such on the other side; then the reference's own with roundings at random, for each of ``ROUNDINGS``.
    """
    rows: list[torch.Tensor] = []
    runs: list[tuple[torch.dtype | None, float, AbstractContextManager[None]]]
    runs = [(torch.float64, step, nullcontext()) for step in (request.shake, -request.shake)]
    runs += [(None, 0.0, rounded(seed)) for seed in ROUNDINGS]
    for dtype, step, context in runs:
        _release(state, MOST_MEMORY)
        with context:
            _, outputs, gradients = _run(state, request, tensors, dtype, step)
        rows += [item for item in _rows([*outputs, *gradients], request.rows) if item is not None]
        del outputs, gradients
    _release(state, 1.0)
    return None, rows


def forms(state: ChildState, request: DescribeOutputs, tensors: list[torch.Tensor]) -> Answer[tuple[OutputForm, ...]]:
    """The form of every output from a run; for a reference that does not run on shapes alone."""
    return tuple(map(_output_form, _outputs(state, given(state, request.call, tensors)))), []


def digested(state: ChildState, request: DigestInputs, tensors: list[torch.Tensor]) -> Answer[tuple[str, ...]]:
    """Digests of the inputs that a call draws."""
    return digests(given(state, request.call, tensors)), []


def _exact(state: ChildState, request: ComputeRows, tensors: list[torch.Tensor], own: Values) -> tuple[Values, str]:
    _release(state, MOST_MEMORY)
    for dtype in DTYPES:
        try:
            _, outputs, gradients = _run(state, request, tensors, dtype)
            return _rows([*outputs, *gradients], request.rows), str(dtype).removeprefix("torch.")
        except torch.OutOfMemoryError:
            # Cleared without the error, as its frames hold the tensors that did not leave enough room.
            pass
        _release(state, MOST_MEMORY)
    return own, "own"


def _run(
    state: ChildState,
    request: ComputeRows | BendRows,
    tensors: list[torch.Tensor],
    dtype: torch.dtype | None,
    step: float = 0.0,
) -> tuple[Arguments, list[torch.Tensor], Values]:
    arguments = given(state, request.call, tensors).rolled(request.place)
    arguments = arguments if dtype is None else arguments.promoted(dtype)
    if step:
        arguments = arguments.shaken(step, by_value=True)
    raised: AbstractContextManager[None] = lifted() if dtype is torch.float64 else nullcontext()
    with raised:
        outputs = _outputs(state, arguments)
        if not request.backward:
            return arguments, outputs, []
        pairs = [(o, g) for o, g in zip(outputs, arguments.upstream, strict=True) if g is not None and o.requires_grad]
        gradients = torch.autograd.grad(
            [output for output, _ in pairs],
            list(arguments.leaves.values()),
            [grad.to(output.dtype) for output, grad in pairs],
            allow_unused=True,
        )
    return arguments, outputs, list(gradients)


def _outputs(state: ChildState, arguments: Arguments) -> list[torch.Tensor]:
    value = arguments.call(state.values["reference"])
    outputs = list(value) if isinstance(value, tuple | list) else [value]
    for output in outputs:
        if not isinstance(output, torch.Tensor):
            raise TypeError(f"the reference gives a {type(output).__name__} where a tensor belongs")
    return outputs


def _rows(values: Values, secret: int) -> Values:
    return [None if value is None else sampled(value, secret) for value in values]


def _row_form(tensor: torch.Tensor) -> RowForm:
    return RowForm(tuple(tensor.shape), str(tensor.dtype).removeprefix("torch."))


def _output_form(tensor: torch.Tensor) -> OutputForm:
    return OutputForm(tuple(tensor.shape), str(tensor.dtype).removeprefix("torch."), tensor.requires_grad)


def _naturals(arguments: Arguments, outputs: list[torch.Tensor], gradients: Values) -> tuple[float, ...]:
    """The error of each gradient that float32 rounding explains, from the whole tensors."""
    if not gradients:
        return ()
    pairs = [(o, g) for o, g in zip(outputs, arguments.upstream, strict=True) if g is not None]
    upstream, given_rms = [_rms(grad) for _, grad in pairs], [_rms(output) for output, _ in pairs]
    elements = sum(math.prod(output.shape) for output, _ in pairs)
    return tuple(
        natural_error(upstream, given_rms, _rms(leaf), elements / max(1, leaf.numel()))
        for leaf in arguments.leaves.values()
    )


def _rms(tensor: torch.Tensor) -> float:
    """The root mean square of the finite elements, piece by piece: a copy in float64 may not fit."""
    total, count = 0.0, 0
    for piece in tensor.detach().reshape(-1).split(CHUNK):
        values = piece.double()
        values = values[torch.isfinite(values)]
        total, count = total + float(values.square().sum()), count + values.numel()
    return math.sqrt(total / count) if count else 0.0


def _release(state: ChildState, share: float) -> None:
    """Releases cached memory, and limits this process to a share of the GPU."""
    if state.gpu:
        torch.cuda.empty_cache()
        torch.cuda.set_per_process_memory_fraction(share)


HANDLERS: dict[type[Request[Any]], Handler] = {
    **reference.HANDLERS,
    ComputeRows: truth,
    BendRows: bends,
    DescribeOutputs: forms,
    OutlineCall: outline,
    MeasureTraffic: traffic,
    DigestInputs: digested,
}
