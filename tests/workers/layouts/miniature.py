"""A library in the shape of Liger-Kernel, as small as it can be and still run."""

from __future__ import annotations

from pathlib import Path

from workers.tree import Tree

PYPROJECT = """\
[project]
name = "liger_kernel"
version = "9.9.1"

[tool.ruff]
line-length = 120
src = ["src"]

[tool.ruff.lint]
select = ["E", "F", "I"]
ignore = ["E501"]

[tool.ruff.lint.isort]
known-first-party = ["liger_kernel"]
force-single-line = true
lines-between-types = 1
"""

OPS_UTILS = """\
import contextlib
import functools

import torch
import triton


@contextlib.contextmanager
def device_context(device):
    yield device


def ensure_contiguous(function):
    @functools.wraps(function)
    def inner(ctx, *arguments):
        return function(ctx, *[a.contiguous() if torch.is_tensor(a) else a for a in arguments])

    return inner


def calculate_settings(n):
    return triton.next_power_of_2(n), 4
"""

OPS_EXPORTS = '''\
"""Operators of a small library."""

from liger_kernel.ops.dyt import LigerDyTFunction  # noqa: F401
from liger_kernel.ops.geglu import LigerGELUMulFunction  # noqa: F401
from liger_kernel.ops.geglu import geglu_forward  # noqa: F401
from liger_kernel.ops.rms_norm import LigerRMSNormFunction  # noqa: F401
from liger_kernel.ops.softmax import LigerSoftmaxFunction  # noqa: F401

# Everything above may be replaced.
REPLACEABLE = True
'''

MODULE_EXPORTS = """\
from typing import TYPE_CHECKING

# Always there
from liger_kernel.transformers.dyt import LigerDyT  # noqa: F401
from liger_kernel.transformers.softmax import LigerSoftmax  # noqa: F401

if TYPE_CHECKING:
    from liger_kernel.transformers.dyt import LigerDyT as Bent  # noqa: F401

__all__ = [
    "is_there",
    "LigerDyT",
    "LigerSoftmax",
    "LigerMLP",
]


def is_there():
    return True
"""

FUNCTIONAL = """\
from typing import Optional

import torch

from liger_kernel.ops import LigerDyTFunction
from liger_kernel.ops import LigerGELUMulFunction
from liger_kernel.ops import LigerSoftmaxFunction


def liger_geglu(a, b):
    return LigerGELUMulFunction.apply(a, b)


# The order below is historical.
def liger_softmax(x, dtype: Optional[torch.dtype] = None):
    return LigerSoftmaxFunction.apply(x)


def liger_dyt(x):
    return LigerDyTFunction.apply(x)
"""

FUNCTION = """\
import torch
import triton
import triton.language as tl


@triton.jit
def _forward_kernel(x_ptr, n_cols, BLOCK_SIZE: tl.constexpr):
{body}


def {name}_forward({arguments}):
    return a


class {function}(torch.autograd.Function):
    @staticmethod
    def forward(ctx, {arguments}):
        return {name}_forward({arguments})
"""

BODIES = {
    "geglu": ("LigerGELUMulFunction", "a, b", "    y = tanh(tl.load(x_ptr))"),
    "dyt": ("LigerDyTFunction", "a, gamma", "    y = tanh(tl.load(x_ptr)) * gamma"),
    "rms_norm": ("LigerRMSNormFunction", "a, weight, eps", "    y = rsqrt(tl.sum(tl.load(x_ptr))) * weight"),
    "softmax": ("LigerSoftmaxFunction", "a", "    y = tl.exp(tl.max(tl.load(x_ptr)))\n    z = tl.sum(y)"),
}

MODULE = """\
import torch.nn as nn


class {module}(nn.Module):
    def forward(self, x):
        return x
"""

TEST_UTILS = """\
import torch


def set_seed(seed=7):
    torch.manual_seed(seed)


def supports_bfloat16():
    return torch.cuda.is_available()


def assert_verbose_allclose(one, other, rtol, atol, extra_info=""):
    torch.testing.assert_close(one, other, rtol=rtol, atol=atol, msg=lambda text: extra_info + text)
"""

UTILS = """\
import torch


def infer_device():
    return "cuda" if torch.cuda.is_available() else "cpu"
"""

SCRIPT_UTILS = """\
from dataclasses import dataclass
from typing import Any

import torch

QUANTILES = [0.5, 0.2, 0.8]


@dataclass
class SingleBenchmarkRunInput:
    x: Any
    kernel_provider: str
    kernel_operation_mode: str = ""
    extra_benchmark_config: Any = None


@dataclass
class SingleBenchmarkRunOutput:
    y_20: float
    y_50: float
    y_80: float


def _test_memory(function, quantiles=None):
    function()
    return 1.0, 1.0, 1.0


def run_speed_benchmark(function, mode, tensors):
    output = function()
    if mode != "forward":
        output.backward(torch.ones_like(output))
    for tensor in tensors:
        tensor.grad = None
    return SingleBenchmarkRunOutput(1.0, 1.0, 1.0)


def default_forward_fn(x, layer):
    return layer(x)


def build_speed_bench_fn(setup, forward_fn=default_forward_fn):
    return lambda point: run_speed_benchmark(lambda: forward_fn(*setup(point)), point.kernel_operation_mode, [])


def build_memory_bench_fn(setup, forward_fn=default_forward_fn):
    return build_speed_bench_fn(setup, forward_fn)


def run_benchmarks(bench_test_fn, kernel_operation_modes, kernel_providers, x_values, **rest):
    for mode in kernel_operation_modes:
        for provider in kernel_providers:
            if provider != "torch_compile":
                for x in x_values:
                    config = rest["extra_benchmark_configs"][0]
                    bench_test_fn(SingleBenchmarkRunInput(x, provider, mode, config))
                    print("ran", rest["metric_name"], mode, provider, x)


def parse_benchmark_script_args():
    import os
    from types import SimpleNamespace

    mode = os.environ.get("SWEEP_MODE", "token_length")
    return SimpleNamespace(sweep_mode=mode, model=None, bt=4, overwrite=False)
"""

MODEL_CONFIGS = """\
from types import SimpleNamespace

import torch

from utils import SingleBenchmarkRunInput
from utils import default_forward_fn

MODEL_REGISTRY = {
    "tiny": SimpleNamespace(hidden_size=96, intermediate_size=14336, vocab_size=32000, dtype=torch.float32),
}


def get_benchmark_model_config(name=None):
    return MODEL_REGISTRY[name or "tiny"]


def _probe(setup_fn, forward_fn, provider, x, model, model_keys, extra_configs):
    config = {key: getattr(model, key) for key in model_keys} | (extra_configs or {})
    output = forward_fn(*setup_fn(SingleBenchmarkRunInput(x, provider, "", config)))
    output.backward(torch.ones_like(output))
    return config


def build_model_config_sweep(
    kernel_name, setup_fn, model_keys, probe_provider, probe_dim, bt, overwrite, forward_fn=default_forward_fn, extra_configs=None
):
    _probe(setup_fn, forward_fn, probe_provider, 3, MODEL_REGISTRY["tiny"], model_keys, extra_configs)
    config = {"bsz": 1, "seq_len": bt} | (extra_configs or {})
    return {"x_values": ["tiny"], "extra_benchmark_configs": [config], "kernel_name": kernel_name}


def build_token_length_sweep(
    kernel_name, probe_x, model, setup_fn, model_keys, scale_dim, x_label, probe_provider, overwrite,
    forward_fn=default_forward_fn, extra_configs=None
):
    config = _probe(setup_fn, forward_fn, probe_provider, 3, model, model_keys, extra_configs)
    return {"x_values": [2, 5], "extra_benchmark_configs": [config], "kernel_name": kernel_name}
"""

DATA = (
    "kernel_name,kernel_provider,kernel_operation_mode,metric_name,metric_unit,x_name,x_label,x_value,y_value_50,y_value_20,"
    "y_value_80,extra_benchmark_config_str,gpu_name,timestamp,liger_version\r\n"
    'geglu,liger,forward,speed,ms,T,tokens,1024,0.25,0.2,0.3,"{""bsz"": 1}",Some GPU,2026-01-02 03:04:05,9.9.0\r\n'
)


def files() -> dict[str, str]:
    """The library's files."""
    found = {
        "pyproject.toml": PYPROJECT,
        "src/liger_kernel/__init__.py": "",
        "src/liger_kernel/utils.py": UTILS,
        "src/liger_kernel/ops/__init__.py": OPS_EXPORTS,
        "src/liger_kernel/ops/utils.py": OPS_UTILS,
        "src/liger_kernel/transformers/__init__.py": MODULE_EXPORTS,
        "src/liger_kernel/transformers/functional.py": FUNCTIONAL,
        "src/liger_kernel/transformers/dyt.py": MODULE.format(module="LigerDyT"),
        "src/liger_kernel/transformers/softmax.py": MODULE.format(module="LigerSoftmax"),
        "test/__init__.py": "",
        "test/utils.py": TEST_UTILS,
        "benchmark/scripts/utils.py": SCRIPT_UTILS,
        "benchmark/scripts/benchmark_model_configs.py": MODEL_CONFIGS,
        "benchmark/data/all_benchmark_data.csv": DATA,
    }
    for name, (function, arguments, body) in BODIES.items():
        source = FUNCTION.format(name=name, function=function, arguments=arguments, body=body)
        found[f"src/liger_kernel/ops/{name}.py"] = source
    return found


def tree() -> Tree:
    """The library as a snapshot."""
    return Tree({path: text.encode() for path, text in files().items()})


def unpack(snapshot: Tree, folder: Path) -> None:
    """Write a snapshot's files into a folder, byte for byte."""
    for path, content in snapshot.files.items():
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content)
