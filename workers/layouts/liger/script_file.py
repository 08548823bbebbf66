"""The benchmark script of a new kernel in a Liger library: which form of it the library's helpers allow. Pure."""

from __future__ import annotations

import ast

from gpu_runner.contracts.syntax import UNPARSABLE
from workers.layouts.comparison import outputs_of
from workers.layouts.dimensions import axes_of
from workers.layouts.liger import script_by_hand, script_with_sweeps
from workers.layouts.liger.paths import MODEL_CONFIGS, SCRIPT_HELPERS
from workers.layouts.liger.sweep import sweep_of
from workers.layouts.module_form import module_form
from workers.layouts.protocol import Design
from workers.tree import Tree

SWEEP_HELPERS = frozenset({
    "build_memory_bench_fn", "build_speed_bench_fn", "run_speed_benchmark", "build_model_config_sweep", "build_token_length_sweep",
    "get_benchmark_model_config", "run_benchmarks", "parse_benchmark_script_args", "SingleBenchmarkRunInput", "MODEL_REGISTRY",
})  # fmt: skip


def script_source(design: Design, tree: Tree) -> str:
    """Give the whole script: with the library's sweeps where it has them and they fit, else by hand."""
    form, sweep = module_form(design.problem, axes_of(design.problem)), sweep_of(design.problem, tree)
    if takes_sweeps(design, tree):
        return script_with_sweeps.script_source(design, form, sweep)
    return script_by_hand.script_source(design, form, sweep)


def takes_sweeps(design: Design, tree: Tree) -> bool:
    """Tell whether the library has sweeps over its models, and they fit this kernel."""
    form, outputs = module_form(design.problem, axes_of(design.problem)), outputs_of(design.graph)
    fits = not outputs.is_tuple and bool(outputs.differentiable) and any(s.grad for s in form.called)
    return fits and helpers_of(tree) >= SWEEP_HELPERS


def helpers_of(tree: Tree) -> frozenset[str]:
    """Give the names that the library's benchmark helpers define."""
    found: set[str] = set()
    for path in (SCRIPT_HELPERS, MODEL_CONFIGS):
        try:
            body = ast.parse(tree.read(path) or "").body
        except UNPARSABLE:
            continue
        for node in body:
            if isinstance(node, ast.FunctionDef | ast.ClassDef):
                found.add(node.name)
            elif isinstance(node, ast.Assign | ast.AnnAssign):
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                found |= {t.id for t in targets if isinstance(t, ast.Name)}
    return frozenset(found)
