"""A benchmark script that sweeps token counts or model configurations with the library's own builders. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from workers.layouts.dimensions import local
from workers.layouts.imports import Import, block
from workers.layouts.liger.paths import FIRST_PARTY, PACKAGE
from workers.layouts.liger.script_parts import PROVIDERS, ROOT_ON_PATH, provider_lines, run_lines, setup_opening
from workers.layouts.liger.sweep import Sweep
from workers.layouts.module_form import ModuleForm
from workers.layouts.protocol import Design
from workers.layouts.pysource import INDENT, indented, literal
from workers.layouts.tensors import assignments


def script_source(design: Design, form: ModuleForm, sweep: Sweep) -> str:
    """Give the whole script."""
    own_forward = len(form.called) > 1
    own_speed = own_forward or any(s.grad for s in form.learned)
    sections = [
        block(_imports(design, own_speed), FIRST_PARTY),
        f"device = infer_device()\n\n{ROOT_ON_PATH}",
        "\n" + _setup(design, form, sweep),
    ]
    if own_forward:
        sections.append(
            f"\ndef forward_{design.name}(*setup_out):\n    *inputs, layer = setup_out\n    return layer(*inputs)"
        )
    if own_speed:
        sections.append("\n" + _speed(design))
    return "\n\n".join([*sections, "\n" + _main(design, sweep, own_forward, own_speed)]) + "\n"


def _setup(design: Design, form: ModuleForm, sweep: Sweep) -> str:
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


def _imports(design: Design, own_speed: bool) -> tuple[Import, ...]:
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


def _speed(design: Design) -> str:
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


def _main(design: Design, sweep: Sweep, own_forward: bool, own_speed: bool) -> str:
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
