"""The benchmark script of a new kernel in a Liger library, with the library's sweeps or written out. Pure."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable
from dataclasses import dataclass

from gpu_runner.contracts import Problem
from gpu_runner.contracts.reading import UNPARSABLE
from workers.layouts.dimensions import MODEL_KEYS, Axes, assignments, axes_of, local
from workers.layouts.liger.files import torch_class
from workers.layouts.liger.paths import FIRST_PARTY, MODEL_CONFIGS, PACKAGE, SCRIPT_HELPERS, TESTS
from workers.layouts.module_form import ModuleForm, module_form
from workers.layouts.protocol import Design
from workers.layouts.python_source import INDENT, Import, block, call, indented, literal, tuple_of
from workers.layouts.suite import Outputs, outputs_of
from workers.tree import Tree

TOKEN_DIMENSIONS = ("T", "BT", "S", "L", "N", "M", "tokens", "seq_len", "rows")
SMALLEST_MODEL_SIZE = 512  # a head dimension or a group size is no model's hidden size
PLACEHOLDER_SIZES = (1024, 2048, 4096, 8192)


@dataclass(frozen=True)
class Sweep:
    """``swept`` grows; each of ``models`` comes from the model's configuration; each of ``fixed`` has one size."""

    axes: Axes
    swept: str  # a dimension
    models: tuple[tuple[str, str], ...]  # dimension -> field of the model's configuration
    fixed: tuple[tuple[str, int], ...]  # dimension -> size of the first workload

    @property
    def scale(self) -> str:
        """The library's name for the swept size: BT for all tokens, T next to another dimension."""
        return "T" if any(dim in self.axes.rows for dim, _ in self.fixed) else "BT"

    @property
    def label(self) -> str:
        """The label of the x axis."""
        return "sequence length" if self.scale == "T" else "total tokens"


def sweep_of(problem: Problem, tree: Tree) -> Sweep:
    """The sweep of a problem; a dimension belongs to a model by its name, or by a size that a known model has."""
    axes = axes_of(problem)
    sizes = dict(problem.workloads[0].sizes) if problem.workloads else {}
    rows = sorted(axes.rows, key=lambda dim: (dim not in TOKEN_DIMENSIONS, -sizes.get(dim, 0)))
    swept = rows[0] if rows else axes.columns or ""
    known = model_sizes(tree)
    models: list[tuple[str, str]] = []
    fixed: list[tuple[str, int]] = []
    for dim in axes.all:
        if dim == swept:
            continue
        key = _model_key(axes.variable(dim), sizes.get(dim, 0), known, dim == axes.columns)
        if key is not None:
            models.append((dim, key))
        else:
            fixed.append((dim, sizes.get(dim, 1)))
    return Sweep(axes, swept, tuple(models), tuple(fixed))


def model_sizes(tree: Tree) -> dict[str, frozenset[int]]:
    """The sizes that the library's model configurations have, by field."""
    text = tree.read(MODEL_CONFIGS) or ""
    return {key: frozenset(int(n) for n in re.findall(rf"\b{key}=(\d+)", text)) for key in MODEL_KEYS}


def from_models(problem: Problem, sweep: Sweep, tree: Tree) -> dict[str, str]:
    """For each dimension whose size no model of the library has, a note that the benchmark takes a model's instead."""
    sizes, known = dict(problem.workloads[0].sizes) if problem.workloads else {}, model_sizes(tree)
    return {dim: f"{key} of the model" for dim, key in sweep.models if known[key] and sizes.get(dim) not in known[key]}


def _model_key(variable: str, size: int, known: dict[str, frozenset[int]], is_columns: bool) -> str | None:
    if size < SMALLEST_MODEL_SIZE:
        return None
    if variable in MODEL_KEYS:
        return variable
    by_size = [key for key in MODEL_KEYS if size in known[key]]
    if by_size:
        return by_size[0]
    return "hidden_size" if is_columns else None


PROVIDERS = ("liger", "torch", "torch_compile")
ROOT_ON_PATH = 'sys.path.insert(0, os.path.abspath(os.path.join(os.path.dirname(__file__), "../..")))'


def setup_opening(design: Design) -> list[str]:
    """The first lines of the setup function; the reference is imported from the test file."""
    return [
        f'"""Create the inputs and the {design.name} module from benchmark config."""',
        f"from {TESTS.replace('/', '.')}.test_{design.name} import {torch_class(design)}",
        "",
        "cfg = input.extra_benchmark_config",
    ]


def provider_lines(design: Design, form: ModuleForm) -> list[str]:
    """The lines that make the module of each provider."""
    given, cast = form.construction(), ".to(device).to(dtype)" if _castable(form) else ".to(device)"
    module, reference = design.names.module or "", torch_class(design)
    parts = [
        'if input.kernel_provider == "liger":',
        call(f"layer = {module}", given, cast, depth=1, width=116),
        'elif input.kernel_provider == "torch":',
        call(f"layer = {reference}", given, cast, depth=1, width=116),
        'elif input.kernel_provider == "torch_compile":',
        "    # Without a reset, a later size would run eagerly once the limit on recompilations is reached.",
        "    torch.compiler.reset()",
        call(f"layer = torch.compile({reference}", given, f"{cast})", depth=1, width=116),
        "else:",
        f'    raise ValueError(f"Invalid provider: {{input.kernel_provider}} for {design.name}")',
    ]
    return "\n".join(parts).split("\n")


def _castable(form: ModuleForm) -> bool:
    return bool(form.learned) and all(s.dtype is None for s in form.learned)


def run_lines(function: str, metric: str, unit: str, modes: str = '["forward", "backward", "full"]') -> list[str]:
    """The lines that run one metric over the sweep."""
    return [
        "    run_benchmarks(",
        f"        bench_test_fn={function},",
        f"        kernel_operation_modes={modes},",
        f'        metric_name="{metric}",',
        f'        metric_unit="{unit}",',
        "        **common_configs,",
        "    )",
    ]


def sweep_script(design: Design, form: ModuleForm, sweep: Sweep) -> str:
    """The whole script."""
    own_forward = len(form.called) > 1
    own_speed = own_forward or any(s.grad for s in form.learned)
    sections = [
        block(_sweep_imports(design, own_speed), FIRST_PARTY),
        f"device = infer_device()\n\n{ROOT_ON_PATH}",
        "\n" + _sweep_setup(design, form, sweep),
    ]
    if own_forward:
        sections.append(
            f"\ndef forward_{design.name}(*setup_out):\n    *inputs, layer = setup_out\n    return layer(*inputs)"
        )
    if own_speed:
        sections.append("\n" + _sweep_speed(design))
    return "\n\n".join([*sections, "\n" + _sweep_main(design, sweep, own_forward, own_speed)]) + "\n"


def _sweep_setup(design: Design, form: ModuleForm, sweep: Sweep) -> str:
    lines = [
        *setup_opening(design),
        *_sizes(sweep, _dtype(design)),
        *_fixed(sweep),
    ]
    inputs = [local(spec.name) for spec in form.called]
    made = assignments(form.called, form.axes, grad=True, depth=0)
    body = indented(
        "\n".join([*lines, "", made, "", *provider_lines(design, form), "", f"return {', '.join([*inputs, 'layer'])}"])
    )
    return f"def setup_{design.name}(input: SingleBenchmarkRunInput):\n{body}"


def _dtype(design: Design) -> str | None:
    return None if "bfloat16" in design.problem.dtypes else f"torch.{design.problem.dtypes[0]}"


def _sizes(sweep: Sweep, dtype: str | None) -> list[str]:
    swept = sweep.axes.variable(sweep.swept)
    tokens = 'cfg["seq_len"]' if sweep.scale == "T" else 'cfg["seq_len"] * cfg["bsz"]'
    models = [(sweep.axes.variable(dim), key) for dim, key in sweep.models]
    ends = [[] if dtype else ["    dtype = model_cfg.dtype"], [] if dtype else ['    dtype = cfg["dtype"]']]
    return [
        "if isinstance(input.x, str):",
        *(["    model_cfg = MODEL_REGISTRY[input.x]"] if models or not dtype else []),
        f"    {swept} = {tokens}",
        *(f"    {variable} = model_cfg.{key}" for variable, key in models),
        *ends[0],
        "else:",
        f"    {swept} = input.x",
        *(f'    {variable} = cfg["{key}"]' for variable, key in models),
        *ends[1],
        *([f"dtype = {dtype}"] if dtype else []),
    ]


def _fixed(sweep: Sweep) -> list[str]:
    return [f'{sweep.axes.variable(dim)} = cfg["{sweep.axes.variable(dim)}"]' for dim, _ in sweep.fixed]


def _sweep_imports(design: Design, own_speed: bool) -> tuple[Import, ...]:
    configs = ("MODEL_REGISTRY", "build_model_config_sweep", "build_token_length_sweep", "get_benchmark_model_config")
    helpers = ["SingleBenchmarkRunInput", "build_memory_bench_fn", "parse_benchmark_script_args", "run_benchmarks"]
    helpers += ["SingleBenchmarkRunOutput", "run_speed_benchmark"] if own_speed else ["build_speed_bench_fn"]
    return (
        *(Import(name) for name in ("os", "sys", "torch")),
        *(Import("benchmark_model_configs", name) for name in configs),
        *(Import("utils", name) for name in helpers),
        Import(f"{PACKAGE}.transformers.{design.name}", design.names.module),
        Import(f"{PACKAGE}.utils", "infer_device"),
    )


def _sweep_speed(design: Design) -> str:
    head = f"def bench_speed_{design.name}(input: SingleBenchmarkRunInput) -> SingleBenchmarkRunOutput:"
    body = [
        f"*inputs, layer = setup_{design.name}(input)",
        "# Every gradient is reset between runs: accumulating into one would be timed as well.",
        "return run_speed_benchmark(",
        "    lambda: layer(*inputs),",
        "    input.kernel_operation_mode,",
        "    [*inputs, *layer.parameters()],",
        ")",
    ]
    return head + "\n" + indented("\n".join(body))


def _sweep_main(design: Design, sweep: Sweep, own_forward: bool, own_speed: bool) -> str:
    setup, forward = f"setup_{design.name}", f"forward_{design.name}"
    named = [f'kernel_name="{design.name}"', f"setup_fn={setup}"]
    shared = [*_sweep_arguments(sweep), *([f"forward_fn={forward}"] if own_forward else []), 'probe_provider="torch"']
    models = [*named, *shared, f'probe_dim="{sweep.scale}"', "bt=args.bt", "overwrite=args.overwrite"]
    tokens = [*named, "probe_x=probe_seq_len", "model=model", *shared]
    tokens += [f'scale_dim="{sweep.scale}"', f'x_label="{sweep.label}"', "overwrite=args.overwrite"]
    memory = [setup, *([f"forward_fn={forward}"] if own_forward else [])]
    lines = [
        'if __name__ == "__main__":',
        "    args = parse_benchmark_script_args()",
        "",
        '    if args.sweep_mode == "model_config":',
        *_call_lines("common_configs = build_model_config_sweep(", models),
        "    else:",
        "        model = get_benchmark_model_config(args.model)",
        "        probe_seq_len = 1024",
        "",
        *_call_lines("common_configs = build_token_length_sweep(", tokens),
        "",
        f'    common_configs["kernel_providers"] = [{", ".join(literal(p) for p in PROVIDERS)}]',
        "",
        *run_lines(f"bench_speed_{design.name}" if own_speed else f"build_speed_bench_fn({setup})", "speed", "ms"),
        *run_lines(f"build_memory_bench_fn({', '.join(memory)})", "memory", "MB"),
    ]
    return "\n".join(lines)


def _sweep_arguments(sweep: Sweep) -> list[str]:
    keys = [*dict.fromkeys(key for _, key in sweep.models), "dtype"]
    fixed = [f"{literal(sweep.axes.variable(dim))}: {size}" for dim, size in sweep.fixed]
    configs = [f"extra_configs={{{', '.join(fixed)}}}"] if fixed else []
    return [f"model_keys=[{', '.join(literal(key) for key in keys)}]", *configs]


def _call_lines(head: str, arguments: Iterable[str]) -> list[str]:
    return [INDENT * 2 + head, *(f"{INDENT * 3}{argument}," for argument in arguments), INDENT * 2 + ")"]


def plain_script(design: Design, form: ModuleForm, sweep: Sweep) -> str:
    """The whole script; it needs of the library's helpers only what the oldest have."""
    outputs = outputs_of(design.graph)
    backward = bool(outputs.differentiable) and any(s.grad for s in (*form.called, *form.learned))
    sections = [
        block(_imports(design), FIRST_PARTY),
        f"device = infer_device()\n\n{ROOT_ON_PATH}",
        "\n" + _setup(design, form, sweep),
        "\n" + _step(design, outputs, backward),
        "\n" + _speed(design),
        "\n" + _memory(design),
        "\n" + _main(design, sweep, backward),
    ]
    return "\n\n".join(sections) + "\n"


def _imports(design: Design) -> tuple[Import, ...]:
    helpers = (
        "QUANTILES",
        "SingleBenchmarkRunInput",
        "SingleBenchmarkRunOutput",
        "_test_memory",
        "parse_benchmark_script_args",
    )
    return (
        *(Import(name) for name in ("os", "sys", "torch", "triton")),
        *(Import("utils", name) for name in (*helpers, "run_benchmarks")),
        Import(f"{PACKAGE}.transformers.{design.name}", design.names.module),
        Import(f"{PACKAGE}.utils", "infer_device"),
    )


def _setup(design: Design, form: ModuleForm, sweep: Sweep) -> str:
    dims = [dim for dim in form.axes.all if dim != sweep.swept]
    lines = [
        *setup_opening(design),
        f"{form.axes.variable(sweep.swept)} = input.x",
        *(f'{form.axes.variable(dim)} = cfg["{form.axes.variable(dim)}"]' for dim in dims),
        'dtype = cfg["dtype"]',
        "",
        assignments(form.called, form.axes, grad=True, depth=0),
        "",
        *provider_lines(design, form),
        "",
        f"return {', '.join([*(local(s.name) for s in form.called), 'layer'])}",
    ]
    return f"def setup_{design.name}(input: SingleBenchmarkRunInput):\n" + indented("\n".join(lines))


def _step(design: Design, outputs: Outputs, backward: bool) -> str:
    picked = tuple_of(f"outputs[{i}]" for i in outputs.differentiable) if outputs.is_tuple else "(outputs,)"
    lines = [
        '"""What is measured, and the tensors whose gradients are reset between runs."""',
        f"*inputs, layer = setup_{design.name}(input)",
        "resets = [*inputs, *layer.parameters()]",
        'if input.kernel_operation_mode == "forward":',
        "    return lambda: layer(*inputs), resets",
    ]
    if backward:
        lines += [
            "outputs = layer(*inputs)",
            f"outputs = {picked}",
            "grads = [torch.randn_like(output) for output in outputs]",
            'if input.kernel_operation_mode == "backward":',
            "    return lambda: torch.autograd.backward(outputs, grads, retain_graph=True), resets",
            "",
            "def full():",
            "    outputs = layer(*inputs)",
            f"    torch.autograd.backward({picked}, grads, retain_graph=True)",
            "",
            "return full, resets",
        ]
    else:
        lines += ['raise ValueError(f"Unsupported mode: {input.kernel_operation_mode}")']
    return f"def step_{design.name}(input: SingleBenchmarkRunInput):\n" + indented("\n".join(lines))


def _speed(design: Design) -> str:
    lines = [
        f"def bench_speed_{design.name}(input: SingleBenchmarkRunInput) -> SingleBenchmarkRunOutput:",
        f"    step, resets = step_{design.name}(input)",
        "    ms_50, ms_20, ms_80 = triton.testing.do_bench(step, grad_to_none=resets, rep=100, quantiles=QUANTILES)",
        "    return SingleBenchmarkRunOutput(y_20=ms_20, y_50=ms_50, y_80=ms_80)",
    ]
    return "\n".join(lines)


def _memory(design: Design) -> str:
    lines = [
        f"def bench_memory_{design.name}(input: SingleBenchmarkRunInput) -> SingleBenchmarkRunOutput:",
        f"    step, _ = step_{design.name}(input)",
        "    mem_50, mem_20, mem_80 = _test_memory(step, quantiles=QUANTILES)",
        "    return SingleBenchmarkRunOutput(y_20=mem_20, y_50=mem_50, y_80=mem_80)",
    ]
    return "\n".join(lines)


def _main(design: Design, sweep: Sweep, backward: bool) -> str:
    sizes = dict(design.problem.workloads[0].sizes) if design.problem.workloads else {}
    others = [(sweep.axes.variable(dim), sizes.get(dim, 1)) for dim in sweep.axes.all if dim != sweep.swept]
    dtype = "bfloat16" if "bfloat16" in design.problem.dtypes else design.problem.dtypes[0]
    config = ", ".join([*(f"{literal(name)}: {size}" for name, size in others), f'"dtype": torch.{dtype}'])
    modes = '["forward", "backward", "full"]' if backward else '["forward"]'
    lines = [
        'if __name__ == "__main__":',
        "    args = parse_benchmark_script_args()",
        "",
        "    common_configs = {",
        f'        "kernel_name": "{design.name}",',
        f'        "x_name": "{sweep.scale}",',
        f'        "x_label": "{sweep.label}",',
        f'        "x_values": [{", ".join(map(str, PLACEHOLDER_SIZES))}],',
        f'        "kernel_providers": [{", ".join(literal(p) for p in PROVIDERS)}],',
        f'        "extra_benchmark_configs": [{{{config}}}],',
        '        "overwrite": args.overwrite,',
        "    }",
        "",
        *run_lines(f"bench_speed_{design.name}", "speed", "ms", modes),
        *run_lines(f"bench_memory_{design.name}", "memory", "MB", modes),
    ]
    return "\n".join(lines)


SWEEP_HELPERS = frozenset({
    "build_memory_bench_fn", "build_speed_bench_fn", "run_speed_benchmark", "build_model_config_sweep", "build_token_length_sweep",
    "get_benchmark_model_config", "run_benchmarks", "parse_benchmark_script_args", "SingleBenchmarkRunInput", "MODEL_REGISTRY",
})  # fmt: skip


def script_source(design: Design, tree: Tree) -> str:
    """The whole script: with the library's sweeps where it has them and they fit, else with sizes of its own."""
    form, sweep = module_form(design.problem, axes_of(design.problem)), sweep_of(design.problem, tree)
    if takes_sweeps(design, tree):
        return sweep_script(design, form, sweep)
    return plain_script(design, form, sweep)


def takes_sweeps(design: Design, tree: Tree) -> bool:
    """Whether the library has sweeps over its models, and they fit this kernel."""
    form, outputs = module_form(design.problem, axes_of(design.problem)), outputs_of(design.graph)
    fits = not outputs.is_tuple and bool(outputs.differentiable) and any(s.grad for s in form.called)
    return fits and helpers_of(tree) >= SWEEP_HELPERS


def helpers_of(tree: Tree) -> frozenset[str]:
    """The names that the library's benchmark helpers define."""
    helpers: set[str] = set()
    for path in (SCRIPT_HELPERS, MODEL_CONFIGS):
        try:
            body = ast.parse(tree.read(path) or "").body
        except UNPARSABLE:
            continue
        for node in body:
            if isinstance(node, ast.FunctionDef | ast.ClassDef):
                helpers.add(node.name)
            elif isinstance(node, ast.Assign | ast.AnnAssign):
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                helpers |= {t.id for t in targets if isinstance(t, ast.Name)}
    return frozenset(helpers)
