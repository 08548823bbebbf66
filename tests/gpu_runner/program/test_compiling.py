"""Kernels of a program compiled by processes beside it, for a GPU that need not be there."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

PROGRAM = """
import triton
import triton.language as tl

FACTOR = tl.constexpr(3)

@triton.jit
def _scaled(x):
    return x * FACTOR

@triton.jit
def _kernel(X, Y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(Y + at, _scaled(tl.load(X + at, mask=at < n)), mask=at < n)

@triton.jit
def _wrong(X, BLOCK: tl.constexpr):
    tl.store(X + tl.arange(0, BLOCK), no_such_name)

def candidate(x):
    return _kernel, _wrong
"""
SCRIPT = """
import ast, json, os, sys
import triton
from triton._C.libtriton import get_cache_invalidating_env_vars
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource, compile, make_backend
from gpu_runner.child import compiling
from gpu_runner.program.load import load

evaluator, candidate = load({"candidate.py": ast.parse(sys.stdin.read())}, ["."], ["candidate.py"], "candidate", "candidate")
kernel, wrong = candidate(None)
compiling._with_launcher = lambda kernel: kernel
compilers = compiling._Compilers()
hits = []
triton.knobs.compilation.listener = lambda **seen: hits.append(seen["cache_hit"])


def asked(kernel, block, target=GPUTarget("cuda", 90, 32)):
    pointers = {name: "*fp32" for name in kernel.real.arg_names if name.isupper() and name != "BLOCK"}
    signature = {name: pointers.get(name, "i32") for name in kernel.real.arg_names} | {"BLOCK": "constexpr"}
    src = ASTSource(kernel.real, signature, {"BLOCK": block}, {})
    options, env_vars = make_backend(target).parse_options({}), get_cache_invalidating_env_vars()
    return lambda: compile(src, target=target, options=options.__dict__, _env_vars=env_vars)


kernel.prepare()
done = [compilers.submit(asked(kernel, block)) for block in (16, 32, 64)]
names = [future.result().metadata.name for future in done]
wrong.is_ready = True  # its name is looked up by Triton alone
error = compilers.submit(asked(wrong, 16)).exception()
print(json.dumps({"names": names, "hits": hits, "error": type(error).__name__, "place": repr(error)}))
"""


def test_processes_compile_what_a_program_launches(tmp_path: Path) -> None:
    environment = os.environ | {"TRITON_CACHE_DIR": str(tmp_path)}
    environment.pop("TRITON_INTERPRET", None)
    command = [sys.executable, "-c", SCRIPT]
    seen = json.loads(
        subprocess.run(command, input=PROGRAM, stdout=subprocess.PIPE, text=True, env=environment, check=True).stdout
    )
    assert seen["names"] == ["_kernel"] * 3
    assert seen["hits"] == [True] * 3
    assert seen["error"] == "CompilationError"
