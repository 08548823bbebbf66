"""Where a Liger library keeps the files of a kernel. Pure."""

from __future__ import annotations

PACKAGE = "liger_kernel"
FIRST_PARTY = frozenset({PACKAGE})

OPS = "src/liger_kernel/ops"
OPS_EXPORTS = f"{OPS}/__init__.py"
OPS_HELPERS = f"{OPS}/utils.py"
FUSED = "src/liger_kernel/fused"
MODULES = "src/liger_kernel/transformers"
MODULE_EXPORTS = f"{MODULES}/__init__.py"
FUNCTIONAL = f"{MODULES}/functional.py"
TESTS = "test/transformers"
SCRIPTS = "benchmark/scripts"
SCRIPT_HELPERS = f"{SCRIPTS}/utils.py"
MODEL_CONFIGS = f"{SCRIPTS}/benchmark_model_configs.py"
DATA = "benchmark/data/all_benchmark_data.csv"
VISUALIZER = "benchmark/benchmarks_visualizer.py"
VISUALIZATIONS = "benchmark/visualizations"
METADATA = "src/liger_kernel.egg-info/PKG-INFO"

IMPORT_ROOTS = ("src", ".")


def ops_path(name: str) -> str:
    """The path of a kernel's own module."""
    return f"{OPS}/{name}.py"


def module_path(name: str) -> str:
    """The path of a kernel's nn.Module."""
    return f"{MODULES}/{name}.py"


def suite_path(name: str) -> str:
    """The path of a kernel's test file."""
    return f"{TESTS}/test_{name}.py"


def script_path(name: str) -> str:
    """The path of a kernel's benchmark script."""
    return f"{SCRIPTS}/benchmark_{name}.py"
