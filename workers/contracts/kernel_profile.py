"""The kernel profile: what the analysis found, with every field of the schema that Liger's kernel-development skill uses."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class ProfileTensor:
    """A tensor of the operation; ``shape`` such as ``(T, I)``."""

    name: str
    shape: str
    dtype: str


@dataclass(frozen=True)
class ModuleParameter:
    """An argument of the module's ``__init__``; ``default`` as Python source, None where it must be given."""

    name: str
    type: str
    default: str | None = None


@dataclass(frozen=True)
class LearnableParameter:
    """A parameter of the module."""

    name: str
    shape: str
    init: str


@dataclass(frozen=True)
class KernelProfile:
    """Field for field the schema of the skill (kernel-profile-format.md in Liger-Kernel)."""

    operation_name: str
    function_class_name: str
    module_class_name: str
    functional_name: str
    tier: int
    tier_description: str
    closest_existing_kernel: str
    forward_inputs: tuple[ProfileTensor, ...]
    forward_outputs: tuple[ProfileTensor, ...]
    forward_computation: str
    precision_sensitive_ops: tuple[str, ...]
    backward_saved_tensors: tuple[str, ...]
    backward_recompute: str
    gradient_formulas: tuple[tuple[str, str], ...]
    grid_dimensions: str
    grid_description: str
    block_size_source: str
    needs_sm_parallelism: bool
    module_init_params: tuple[ModuleParameter, ...]
    learnable_params: tuple[LearnableParameter, ...]
    benchmark_variable: str
    benchmark_x_label: str
    benchmark_x_values_suggestion: tuple[int, ...]
    benchmark_providers: tuple[str, ...]
    benchmark_fixed_config: tuple[tuple[str, str], ...]
