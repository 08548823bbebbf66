"""The role that counts what a problem's reference computes, on shapes alone, beside all that the reference's role does."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import flop_registry

from gpu_runner.roles import Handler, State, reference, truth
from gpu_runner.roles.arguments import on_shapes
from gpu_runner.tracing.joint import math_attention

Answer = tuple[dict[str, Any], list[torch.Tensor]]

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
        self.whole: set[str] = set()  # of ``inputs``, those of which every element is computed with
        self._inputs = dict(inputs or {})
        self._origins = {_storage(tensor): {name} for name, tensor in self._inputs.items()}
        self._kept: list[Any] = []  # a storage that is freed could give its identity to another

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
            self.matrix += int(formula(*args, **named, out_val=given))
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


def traffic(state: State, meta: dict[str, Any], tensors: list[torch.Tensor]) -> Answer:
    """Give what the reference's own handler gives, and under ``whole`` the inputs that are read to their last element."""
    facts, _ = reference.traffic(state, meta, tensors)
    arguments = on_shapes(meta)
    by_place = [name for name in meta["order"] if name not in meta["keywords"] and name in _known(meta)]
    given = dict(zip(by_place, arguments.positional, strict=True)) | arguments.named | arguments.parameters
    inputs = {name: value for name, value in given.items() if isinstance(value, torch.Tensor)}
    with torch.device("meta"), math_attention(), Counting(inputs) as counting:
        arguments.call(state.values["reference"])
    return {**facts, "whole": sorted(counting.whole)}, []


def outline(state: State, meta: dict[str, Any], tensors: list[torch.Tensor]) -> Answer:
    """Give the form of the outputs and the operations of each pass, those of matrix products and all others."""
    arguments = on_shapes(meta)
    with torch.device("meta"), math_attention(), Counting() as forward:
        value = arguments.call(state.values["reference"])
    outputs = list(value) if isinstance(value, tuple | list) else [value]
    ends = [output for output in outputs if output.requires_grad]
    facts: dict[str, Any] = {"forward": [forward.matrix, forward.vector], "backward": None}
    facts["outputs"] = [
        [list(output.shape), str(output.dtype).removeprefix("torch."), output.requires_grad] for output in outputs
    ]
    leaves = list(arguments.leaves.values())
    if ends and leaves:
        upstream = [torch.empty_like(end) for end in ends]
        with torch.device("meta"), Counting() as backward:
            torch.autograd.grad(ends, leaves, upstream, allow_unused=True)
        facts["backward"] = [backward.matrix, backward.vector]
    return facts, []


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


def _known(meta: dict[str, Any]) -> set[str]:
    return {*meta["scalars"], *(entry["name"] for entry in meta["inputs"])}


HANDLERS: dict[str, Handler] = {**reference.HANDLERS, **truth.HANDLERS, "outline": outline, "traffic": traffic}
