"""Kernels of a program compiled ahead, beside it, for a GPU that need not be there."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

PROGRAM = """
import torch
import triton
import triton.language as tl

FACTOR = tl.constexpr(3)

@triton.jit
def _scaled(x):
    return x * FACTOR

@triton.jit
def _kernel(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y_ptr + at, _scaled(tl.load(x_ptr + at, mask=at < n)), mask=at < n)

@triton.jit
def _wrong(x_ptr, BLOCK: tl.constexpr):
    tl.store(x_ptr + tl.arange(0, BLOCK), tl.arange(0, 2 * BLOCK))

def candidate(x):
    y = torch.empty_like(x)
    for block in (16, 32, 64):
        _kernel[(1,)](x, y, x.numel(), BLOCK=block)
    _wrong[(1,)](y, BLOCK=16)
    return y
"""
SCRIPT = """
import ast, json, sys
import torch, triton
from triton.backends.compiler import GPUTarget
from triton.runtime.driver import driver
from gpu_runner.child import compiling
from gpu_runner.program.load import load
from gpu_runner.program.log import Log, watch_launches


class Driver:
    launcher_cls = staticmethod(lambda src, metadata: None)
    get_current_target = staticmethod(lambda: GPUTarget("cuda", 90, 32))
    get_current_device = staticmethod(lambda: 0)
    get_current_stream = staticmethod(lambda device: 0)


driver.set_active(Driver())
evaluator, candidate = load({"candidate.py": ast.parse(sys.stdin.read())}, ["."], ["candidate.py"], "candidate", "candidate")
log = Log(lambda: None, ahead=compiling.compiling_ahead)
watch_launches(lambda: log)
hits, ended = [], []
triton.knobs.compilation.listener = lambda **seen: hits.append(seen["cache_hit"])
with log:
    candidate(torch.ones(48))
for kernel in compiling._mode().future_kernels.values():
    try:
        ended.append(kernel.result().metadata.name)
    except Exception as error:
        ended.append(type(error).__name__)
print(json.dumps({"ended": ended, "hits": hits}))
"""


def test_what_a_program_launches_is_compiled_by_processes_beside_it(tmp_path: Path) -> None:
    environment = os.environ | {"TRITON_CACHE_DIR": str(tmp_path)}
    environment.pop("TRITON_INTERPRET", None)
    command = [sys.executable, "-c", SCRIPT]
    ended = subprocess.run(command, input=PROGRAM, stdout=subprocess.PIPE, text=True, env=environment, check=True)
    seen = json.loads(ended.stdout)
    assert seen["ended"] == ["_kernel", "_kernel", "_kernel", "CompilationError"]
    assert seen["hits"] == [True, True, True]
