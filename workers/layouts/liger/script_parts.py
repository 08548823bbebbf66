"""Pieces that both forms of a benchmark script share. Pure."""

from __future__ import annotations

from workers.layouts.liger.paths import TESTS
from workers.layouts.liger.suite_file import torch_class
from workers.layouts.module_form import ModuleForm
from workers.layouts.protocol import Design
from workers.layouts.pysource import call

PROVIDERS = ("liger", "torch", "torch_compile")
ROOT_ON_PATH = 'sys.path.insert(0, os.path.abspath(os.path.join(os.path.dirname(__file__), "../..")))'


def setup_opening(design: Design) -> list[str]:
    """Give the first lines of the setup function; the reference is the test file's, so that it is written down once."""
    return [
        f'"""Create the inputs and the {design.name} module from benchmark config."""',
        f"from {TESTS.replace('/', '.')}.test_{design.name} import {torch_class(design)}",
        "",
        "cfg = input.extra_benchmark_config",
    ]


def provider_lines(design: Design, form: ModuleForm) -> list[str]:
    """Give the lines that make the module of each provider."""
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
    """Give the lines that run one metric over the sweep."""
    return [
        "    run_benchmarks(",
        f"        bench_test_fn={function},",
        f"        kernel_operation_modes={modes},",
        f'        metric_name="{metric}",',
        f'        metric_unit="{unit}",',
        "        **common_configs,",
        "    )",
    ]
