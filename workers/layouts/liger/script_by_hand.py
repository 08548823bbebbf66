"""A benchmark script for what the library's sweeps do not fit: an older library, several outputs, or no gradient. Pure."""

from __future__ import annotations

from workers.layouts.comparison import Outputs, outputs_of
from workers.layouts.dimensions import local
from workers.layouts.imports import Import, block
from workers.layouts.liger.paths import FIRST_PARTY, PACKAGE
from workers.layouts.liger.script_parts import PROVIDERS, ROOT_ON_PATH, provider_lines, run_lines, setup_opening
from workers.layouts.liger.sweep import BY_HAND_SIZES, Sweep
from workers.layouts.module_form import ModuleForm
from workers.layouts.protocol import Design
from workers.layouts.pysource import indented, literal, tuple_of
from workers.layouts.tensors import assignments


def script_source(design: Design, form: ModuleForm, sweep: Sweep) -> str:
    """Give the whole script; it needs of the library's helpers only what the oldest have."""
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
        '"""Give what is measured, and the tensors whose gradients are reset between runs."""',
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
        f'        "x_values": [{", ".join(map(str, BY_HAND_SIZES))}],',
        f'        "kernel_providers": [{", ".join(literal(p) for p in PROVIDERS)}],',
        f'        "extra_benchmark_configs": [{{{config}}}],',
        '        "overwrite": args.overwrite,',
        "    }",
        "",
        *run_lines(f"bench_speed_{design.name}", "speed", "ms", modes),
        *run_lines(f"bench_memory_{design.name}", "memory", "MB", modes),
    ]
    return "\n".join(lines)
