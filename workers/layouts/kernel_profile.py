"""The kernel profile of a design: every field of the schema, from the problem, the graph and the plan. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from gpu_runner.contracts import Graph, InputSpec
from workers.contracts import KernelProfile, LearnableParameter, ModuleParameter, ProfileTensor
from workers.layouts.dimensions import Axes, axes_of, shape
from workers.layouts.module_form import module_form
from workers.layouts.protocol import Design
from workers.layouts.tensors import initial

TIERS = {1: "element-wise", 2: "reduction", 3: "fused/complex"}
NO_NEIGHBOUR = "none: the library has no kernel yet"


def kernel_profile(
    design: Design,
    closest: str | None,
    variable: str,
    label: str,
    values: tuple[int, ...],
    providers: tuple[str, ...],
    chosen: Mapping[str, str] = MappingProxyType({}),
) -> KernelProfile:
    """Give the profile; ``variable``, ``label`` and ``values`` are the benchmark's x axis.

    ``chosen`` says of a dimension where its size comes from, where that is not the first workload.
    """
    problem, plan, names = design.problem, design.plan, design.names
    axes = axes_of(problem)
    form = module_form(problem, axes)
    return KernelProfile(
        operation_name=design.name,
        function_class_name=names.function or "",
        module_class_name=names.module or "",
        functional_name=names.functional or "",
        tier=plan.tier,
        tier_description=TIERS.get(plan.tier, "fused/complex"),
        closest_existing_kernel=closest or NO_NEIGHBOUR,
        forward_inputs=tuple(_input(spec) for spec in problem.inputs),
        forward_outputs=_outputs(design.graph),
        forward_computation=plan.forward_formula,
        precision_sensitive_ops=plan.precision_sensitive_ops,
        backward_saved_tensors=plan.saved_tensors,
        backward_recompute=plan.recomputed,
        gradient_formulas=plan.gradient_formulas,
        grid_dimensions=plan.grid_dimensions,
        grid_description=plan.grid_description,
        block_size_source=plan.block_size_source,
        needs_sm_parallelism=plan.needs_sm_parallelism,
        module_init_params=tuple(ModuleParameter(a.name, a.type, a.default) for a in form.arguments),
        learnable_params=tuple(_learnable(spec, axes) for spec in form.learned if spec.grad),
        benchmark_variable=variable,
        benchmark_x_label=label,
        benchmark_x_values_suggestion=values,
        benchmark_providers=providers,
        benchmark_fixed_config=_fixed(design, variable, chosen),
    )


def _input(spec: InputSpec) -> ProfileTensor:
    return ProfileTensor(spec.name, _written(spec.dims), spec.dtype or "input dtype")


def _outputs(graph: Graph) -> tuple[ProfileTensor, ...]:
    nodes = {node.name: node for node in graph.nodes}
    outputs = []
    for index, name in enumerate(graph.outputs):
        meta = nodes[name].meta
        dims = tuple(str(dim) if isinstance(dim, int) else dim.text for dim in meta.shape)
        # The graph is traced with float32 inputs, so that an output of float32 has the inputs' dtype.
        dtype = "same as input" if meta.dtype == "float32" else meta.dtype
        outputs.append(ProfileTensor("output" if len(graph.outputs) == 1 else f"output {index}", _written(dims), dtype))
    return tuple(outputs)


def _learnable(spec: InputSpec, axes: Axes) -> LearnableParameter:
    return LearnableParameter(
        spec.name, _written(shape(spec, axes)), spec.init if spec.dtype is None else initial(spec, axes)
    )


def _fixed(design: Design, variable: str, chosen: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    sizes = design.problem.workloads[0].sizes if design.problem.workloads else ()
    dtype = "bfloat16" if "bfloat16" in design.problem.dtypes else design.problem.dtypes[0]
    return (*((dim, chosen.get(dim, str(size))) for dim, size in sizes if dim != variable), ("dtype", f"torch.{dtype}"))


def _written(dims: tuple[str, ...]) -> str:
    return f"({dims[0]},)" if len(dims) == 1 else f"({', '.join(dims)})"
