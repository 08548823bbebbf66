"""The repository runs: its command line, its tests and a clone, in Triton's interpreter and in plain PyTorch; one process each."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.workers.layouts import miniature
from tests.workers.layouts.versioned.repository import tree
from workers.layouts.versioned.clone_kernel import clone

# Each line is a command; it answers with the exit code and what was printed. One process, since torch takes seconds to import.
SCRIPT = """\
import io, runpy, sys, traceback, warnings
from contextlib import redirect_stderr, redirect_stdout

# A process of its own runs one command; here their modules are there already from the one before.
warnings.filterwarnings("ignore", message=".*found in sys.modules.*")
sys.path.insert(0, "src")
for line in sys.stdin.read().splitlines():
    module, *arguments = line.split()
    sys.argv = [module, *arguments]
    out = io.StringIO()
    code = 0
    with redirect_stdout(out), redirect_stderr(out):
        try:
            runpy.run_module(module, run_name="__main__")
        except SystemExit as ended:
            code = ended.code or 0
        except BaseException:
            traceback.print_exc()
            code = 99
    print(code, out.getvalue().strip().replace("\\n", " | "), flush=True)
"""
SMALL = "--T=3 --intermediate_size=70"
NO_REFERENCE = """\
from dataclasses import dataclass

import torch

from lab.kernel.runtime import BenchmarkFn, KernelPlan


def bare(x):
    return x


@dataclass
class BarePlan(KernelPlan):
    H: int = 4

    def prepare_inputs(self, device):
        return (torch.ones(self.H, device=device),)

    def plan(self, x):
        return BenchmarkFn("bare", bare, (x,))
"""


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("versioned")
    miniature.unpack(tree(), folder)
    clone(folder, "reglu", "v1")
    clone(folder, "gated_sum", "v1")
    wrong = folder / "src/lab/kernel/torch_ops/mlp/gated_sum/gated_sum_v1/gated_sum_v1.py"
    wrong.write_text(wrong.read_text().replace("lambda x: 2 * x,", "lambda x: 2.5 * x,"))
    bare = folder / "src/lab/kernel/torch_ops/mlp/bare/bare"
    same = folder / "src/lab/kernel/torch_ops/mlp/reglu/reglu"
    tiled = folder / "src/lab/kernel/cutile/mlp/tiled/tiled"
    lacking = folder / "src/lab/kernel/cutile/mlp/lacking/lacking"
    for made in (bare, same, tiled, lacking):
        made.mkdir(parents=True)
        (made / f"{made.name}.py").write_text(NO_REFERENCE.replace("bare", made.name))
    lacking = lacking / "lacking.py"
    lacking.write_text(f"import cuda_of_no_host.tile as ct\n{lacking.read_text()}")
    return folder


def run(folder: Path, command: list[str], text: str = "", **environment: str) -> str:
    clean = {"PATH": os.environ["PATH"], "PYTHONPATH": "src", "HOME": str(folder)} | environment
    done = subprocess.run(
        [sys.executable, *command],
        cwd=folder,
        env=clean,
        input=text,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return done.stdout


REGLU = "lab.kernel triton.reglu"
MATCH = "dtype=torch.float32): outputs and gradients match the reference"
CASES = {
    f"{REGLU} {SMALL} --prof_type=disabled --check": f"0 PASS ReGLUPlanV1(T=3, intermediate_size=70, {MATCH}",
    f"{REGLU} v0 {SMALL} --check --forward_BLOCK_SIZE=32 --backward_num_warps=8": "0 PASS ReGLUPlan(T=3",
    f"lab.kernel.triton.ops.reglu v1 {SMALL} --check --dtype=bfloat16": "0 PASS ReGLUPlanV1(T=3",
    "lab.kernel rms_norm --B=1 --T=5 --hidden_size=33 --eps=1e-5 --check": "0 PASS RMSNormPlan(B=1, T=5, hidden_size=33, eps=1e-05",
    "lab.kernel rms_norm --prof_type=predicted --peak_tflops=60 --peak_gbps=3350": "0 predicted 0.3205 ms for RMSNormPlan(B=4",
    # A pipeline of a concurrent pair and its combination, of plain operators.
    "lab.kernel torch-ops.gated_sum v0 --T=8 --check --prof_type=event --autotune": f"0 PASS GatedSumPlan(T=8, H=32, {MATCH} | ",
    "lab.kernel gated_sum --T=8 --check": "1 output 0 is off by",
    "lab.kernel gated_sum v0 --T=20 --rows=16": "2 GatedSumTiling(rows=16) and GatedSumTiling(rows=4) cannot run side by side in "
    "`gated_sum_both`: change one of them.",
    "lab.kernel gated_sum v0 --T=2 --rows=4": "2 GatedSumTiling(rows=4) can never run GatedSumPlan(T=2, H=32, "
    "dtype=torch.float32): no tiling of `_autotune_configs` can either, so change the problem.",
    f"{REGLU} v0 {SMALL} --forward_BLOCK_SIZE=48 --check": "2 ReGLUTiling(forward_BLOCK_SIZE=48) can never run ReGLUPlan("
    "T=3, intermediate_size=70, dtype=torch.float32): use such as ReGLUTiling().",
    "lab.kernel bare --check": "2 `BarePlan` has no `reference_fn`, which `--check` compares with: define it.",
    "lab.kernel lacking --check": "2 `lacking` needs `cuda_of_no_host`, which is not installed here: install it.",
    "lab.kernel reglu --check": "2 `reglu` is there in several languages: name it as `torch_ops.reglu` or `triton.reglu`.",
    "lab.kernel softmax": "2 there is no design `softmax`: those there are",
    f"{REGLU} v7": "2 `reglu` has no version `v7`: its versions are `v0`, `v1`.",
    "lab.kernel rms_norm --K=3": "2 there is no option `--K`: this kernel has --B, --T, --hidden_size, --eps, --dtype, --forward_",
    "lab.kernel rms_norm --B=x": "2 `--B=x` is no value: give one such as `--B=4`.",
    "lab.kernel rms_norm --dtype=floaty": "2 `--dtype=floaty` is no value",
    "lab.kernel rms_norm --prof_type=ncu": "2 there is no `--prof_type=ncu`: use disabled, event, predicted.",
    "lab.kernel rms_norm --prof_type=predicted": "2 `--prof_type=predicted` needs `--peak_tflops=` and `--peak_gbps=` of the GPU.",
    "lab.kernel": "2 name one design and at most one version:",
}


@pytest.mark.slow
def test_the_command_line_runs_what_can_run_and_says_the_fix_of_the_rest(repository: Path) -> None:
    told = run(repository, ["-c", SCRIPT], "\n".join(CASES), TRITON_INTERPRET="1").splitlines()
    wrong = [
        (line, said) for (line, wanted), said in zip(CASES.items(), told, strict=True) if not said.startswith(wanted)
    ]
    assert wrong == []


@pytest.mark.slow
def test_its_tests_run_every_version(repository: Path) -> None:
    told = run(
        repository, ["-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/test_reglu.py"], TRITON_INTERPRET="1"
    )
    assert "6 passed" in told


@pytest.mark.long  # in `make test` what cannot run is said, above
def test_without_a_gpu_a_kernel_needs_the_interpreter_and_one_in_another_language_a_host(repository: Path) -> None:
    commands = f"lab.kernel triton.reglu {SMALL} --check\nlab.kernel tiled --check"
    triton, cutile = run(repository, ["-c", SCRIPT], commands).splitlines()
    assert triton.startswith(("2 there is no GPU here: set TRITON_INTERPRET=1", "0 PASS"))
    assert cutile.startswith(("2 there is no GPU here, and cutile has no interpreter", "2 `BarePlan` has no"))
