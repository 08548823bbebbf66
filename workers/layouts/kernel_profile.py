"""The kernel profile of a design, with the existing kernel that is nearest to it. Pure."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from gpu_runner.contracts import Graph, InputSpec, Problem
from gpu_runner.contracts.reading import UNPARSABLE
from workers.contracts import KernelProfile, LearnableParameter, ModuleParameter, ProfileTensor
from workers.layouts.dimensions import Axes, axes_of, forward_operators, initial, shape, subtracts_a_sum
from workers.layouts.module_form import module_form
from workers.layouts.protocol import Design

# A trait of a kernel, and how it shows in Triton source.
TRAITS = {
    "dot": r"\btl\.dot\(|\btorch\.(?:mm|matmul|addmm)\(|\bconv\dd\(|\w @ \w",
    "erf": r"\berf\(",
    "exp": r"\btl\.(?:math\.)?exp2?\(|\bexp\(",
    "gather": r"\bindices(?:_ptr)?\b",
    "log": r"\btl\.(?:math\.)?log2?\(",
    "centred": r"- (?:row_)?(?:mean|mu)\b",
    "max": r"\btl\.max\(",
    "relu": r"\btl\.maximum\([^()]*, 0(?:\.0)?\)",
    "rsqrt": r"\brsqrt\(",
    "scan": r"\btl\.(?:cumsum|associative_scan|sort)\(",
    "sigmoid": r"\bsigmoid\(",
    "sin": r"\b(?:sin|cos)(?:_row|_ptr|\()|\bfreqs",
    "sum": r"\btl\.sum\(",
    "tanh": r"\btanh\(",
    "weight": r"\b(?:d?gamma|dW|W|weight)(?:_ptr)?\b",
}
OPERATORS = {
    "amax": "max",
    "argmax": "max",
    "cos": "sin",
    "exp2": "exp",
    "expm1": "exp",
    "index_select": "gather",
    "log1p": "log",
    "log2": "log",
    "matmul": "dot",
    "sqrt": "rsqrt",
}
ACTIVATIONS = frozenset({"erf", "relu", "sigmoid", "tanh"})
STRUCTURE = frozenset({"centred", "dot", "gather", "log", "max", "rsqrt", "scan", "sin", "sum", "weight"})
# One with a matrix product, or with rows that are centred first, teaches little about one without, and the other way round.
APART = frozenset({"centred", "dot"})


@dataclass(frozen=True)
class Likeness:
    """What a kernel is compared by."""

    name: str
    traits: frozenset[str]
    tensors: int  # given to the forward pass


def likeness_of_source(name: str, source: str) -> Likeness:
    """Read the likeness of an existing kernel from its source."""
    traits = frozenset(trait for trait, pattern in TRAITS.items() if re.search(pattern, source))
    return Likeness(name, traits, _tensors(source))


def likeness_of_problem(name: str, problem: Problem, graph: Graph) -> Likeness:
    """Read the likeness of a new kernel from its graph."""
    operators = {node.op for node in graph.nodes}
    traits = {OPERATORS.get(op, op) for op in operators if OPERATORS.get(op, op) in TRAITS}
    # A sum that only the gradient of a parameter needs says nothing of the forward pass.
    if "sum" in traits and not forward_operators(graph) & {"sum", "mean"}:
        traits.discard("sum")
    if any(spec.parameter for spec in problem.inputs):
        traits.add("weight")
    if subtracts_a_sum(graph):
        traits.add("centred")
    return Likeness(name, frozenset(traits), len(problem.inputs))


def likenesses(sources: dict[str, str]) -> tuple[Likeness, ...]:
    """Likenesses of existing kernels, by name and source; sources without a Triton kernel are left out."""
    return tuple(likeness_of_source(name, text) for name, text in sources.items() if "@triton.jit" in text)


def nearest(new: Likeness, existing: tuple[Likeness, ...]) -> str | None:
    """The name of the existing kernel that is most like the new one, None where there is none."""
    ranked = by_likeness(new, existing)
    return ranked[0] if ranked else None


def by_likeness(new: Likeness, existing: tuple[Likeness, ...]) -> tuple[str, ...]:
    """The names of existing kernels, those most like the new one first."""
    ranked = sorted(existing, key=lambda other: (-_score(new, other), len(other.traits), len(other.name), other.name))
    return tuple(other.name for other in ranked)


def _score(new: Likeness, other: Likeness) -> float:
    ours, theirs = new.traits & STRUCTURE, other.traits & STRUCTURE
    structure = 2.0 * _overlap(ours, theirs)
    activation = 0.75 * _overlap(new.traits - STRUCTURE, other.traits - STRUCTURE)
    activation += 0.5 * bool(new.traits & ACTIVATIONS and other.traits & ACTIVATIONS)
    inputs = 2.0 / (1 + abs(new.tensors - other.tensors))
    apart = len((ours ^ theirs) & APART)
    return structure + activation + inputs + 1.5 * _name_similarity(new.name, other.name) - apart


def _overlap(one: frozenset[str], other: frozenset[str]) -> float:
    return len(one & other) / len(one | other) if one | other else 1.0


def _name_similarity(one: str, other: str) -> float:
    ours, theirs = set(one.split("_")), set(other.split("_"))
    shared = len(ours & theirs) / len(ours | theirs)
    families = [
        end for end in ("glu", "norm", "softmax", "max", "loss", "rope") if one.endswith(end) and other.endswith(end)
    ]
    return max(shared, 0.6 if families else 0.0)


def _tensors(source: str) -> int:
    try:
        tree = ast.parse(source)
    except UNPARSABLE:
        return 0
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef) and any("Function" in ast.unparse(base) for base in node.bases):
            for item in node.body:
                if isinstance(item, ast.FunctionDef) and item.name == "forward":
                    required = item.args.args[1 : len(item.args.args) - len(item.args.defaults)]
                    return len([a for a in required if a.arg not in ("eps", "dim", "ctx")])
    return 0


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
    """The profile; ``variable``, ``label`` and ``values`` are the benchmark's x axis.

    ``chosen`` is where a dimension's size comes from, where that is not the first workload.
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
    return ProfileTensor(spec.name, _shape_text(spec.dims), spec.dtype or "input dtype")


def _outputs(graph: Graph) -> tuple[ProfileTensor, ...]:
    nodes = {node.name: node for node in graph.nodes}
    outputs = []
    for index, name in enumerate(graph.outputs):
        meta = nodes[name].meta
        dims = tuple(str(dim) if isinstance(dim, int) else dim.text for dim in meta.shape)
        # The graph is traced with float32 inputs, so that an output of float32 has the inputs' dtype.
        dtype = "same as input" if meta.dtype == "float32" else meta.dtype
        outputs.append(
            ProfileTensor("output" if len(graph.outputs) == 1 else f"output {index}", _shape_text(dims), dtype)
        )
    return tuple(outputs)


def _learnable(spec: InputSpec, axes: Axes) -> LearnableParameter:
    return LearnableParameter(
        spec.name, _shape_text(shape(spec, axes)), spec.init if spec.dtype is None else initial(spec, axes)
    )


def _fixed(design: Design, variable: str, chosen: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    sizes = design.problem.workloads[0].sizes if design.problem.workloads else ()
    dtype = "bfloat16" if "bfloat16" in design.problem.dtypes else design.problem.dtypes[0]
    return (*((dim, chosen.get(dim, str(size))) for dim, size in sizes if dim != variable), ("dtype", f"torch.{dtype}"))


def _shape_text(dims: tuple[str, ...]) -> str:
    return f"({dims[0]},)" if len(dims) == 1 else f"({', '.join(dims)})"


def swept_sizes(problem: Problem) -> tuple[str, tuple[int, ...]]:
    """The dimension that the workloads vary most, the one with the largest size among equals, and its sizes."""
    axes = axes_of(problem)
    sizes = {dim: tuple(dict.fromkeys(dict(w.sizes)[dim] for w in problem.workloads)) for dim in axes.all}
    dims = [dim for dim in axes.rows if len(sizes[dim]) > 1] or list(axes.rows) or list(axes.all)
    swept = max(dims, key=lambda dim: (len(sizes[dim]), max(sizes[dim], default=0)), default="")
    return swept, sizes.get(swept, ())
