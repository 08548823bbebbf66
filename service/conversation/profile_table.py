"""The kernel profile as a table, every field of it. Pure."""

from __future__ import annotations

from collections.abc import Callable

from service.conversation.markdown import table
from service.escape import code, inline
from workers.contracts import KernelProfile, LearnableParameter, ModuleParameter, ProfileTensor

NONE = "none"
LIMIT = 400

Row = tuple[str, Callable[[KernelProfile], str]]


def profile_table(profile: KernelProfile) -> str:
    """Give the table."""
    return table(("field", "value"), [(label, cell(profile)) for label, cell in ROWS])


def _codes(values: tuple[str, ...]) -> str:
    return ", ".join(code(value) for value in values) or NONE


def _tensors(tensors: tuple[ProfileTensor, ...]) -> str:
    return "<br>".join(f"{code(t.name)} {code(t.shape)} {inline(t.dtype, 60)}" for t in tensors) or NONE


def _pairs(pairs: tuple[tuple[str, str], ...]) -> str:
    return "<br>".join(f"{code(name)} = {code(value, LIMIT)}" for name, value in pairs) or NONE


def _arguments(parameters: tuple[ModuleParameter, ...]) -> str:
    shown = (f"{p.name}: {p.type}" + (f" = {p.default}" if p.default is not None else "") for p in parameters)
    return ", ".join(code(text) for text in shown) or NONE


def _learnable(parameters: tuple[LearnableParameter, ...]) -> str:
    shown = (f"{code(p.name)} {code(p.shape)}, starting with {inline(p.init, 60)}" for p in parameters)
    return "<br>".join(shown) or NONE


ROWS: tuple[Row, ...] = (
    ("operation", lambda p: code(p.operation_name)),
    ("autograd function", lambda p: code(p.function_class_name)),
    ("module", lambda p: code(p.module_class_name)),
    ("functional form", lambda p: code(p.functional_name)),
    ("tier", lambda p: f"{p.tier}, {inline(p.tier_description)}"),
    ("nearest kernel that exists", lambda p: code(p.closest_existing_kernel)),
    ("inputs", lambda p: _tensors(p.forward_inputs)),
    ("outputs", lambda p: _tensors(p.forward_outputs)),
    ("forward", lambda p: code(p.forward_computation, LIMIT)),
    ("in float32 for precision", lambda p: _codes(p.precision_sensitive_ops)),
    ("saved for backward", lambda p: _codes(p.backward_saved_tensors)),
    ("recomputed in backward", lambda p: inline(p.backward_recompute) if p.backward_recompute.strip() else NONE),
    ("gradients", lambda p: _pairs(p.gradient_formulas)),
    ("grid", lambda p: f"{inline(p.grid_dimensions, 60)}, {inline(p.grid_description)}"),
    ("block size", lambda p: code(p.block_size_source, LIMIT)),
    ("partial sums over SMs", lambda p: "needed" if p.needs_sm_parallelism else "not needed"),
    ("module's arguments", lambda p: _arguments(p.module_init_params)),
    ("learnable parameters", lambda p: _learnable(p.learnable_params)),
    ("benchmark over", lambda p: f"{code(p.benchmark_variable)} ({inline(p.benchmark_x_label, 100)})"),
    ("benchmark at", lambda p: ", ".join(str(x) for x in p.benchmark_x_values_suggestion[:24]) or NONE),
    ("compared with", lambda p: _codes(p.benchmark_providers)),
    ("fixed in the benchmark", lambda p: _pairs(p.benchmark_fixed_config)),
)
