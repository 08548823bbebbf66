"""Kernels that stand in an unpacked Liger-Kernel, where the environment names one: LIGER_SOURCE=/path/to/it."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from gpu_runner.contracts import parse_problem
from tests.workers.layouts.standing import LIGER, with_file
from workers.layouts.calls import adapter_source, call_of
from workers.layouts.liger.layout import known_problems
from workers.tree import Tree

SOURCE = os.environ.get("LIGER_SOURCE")
OPS = "src/liger_kernel/ops"
SIZES = {"T": 5, "V": 70, "H": 48, "I": 40, "N": 2, "C": 64, "S": 6, "B": 2, "Q": 4, "K": 2, "D": 16, "L": 9}
# They ask for the number of a GPU's multiprocessors, assert that tensors are on a GPU, and try settings out on one.
ON_A_GPU_ALONE = {"dyt", "mlp", "fused_moe"}
# What an optimize job needs and the library lacks, or has by another name.
MISSING = {
    "fused_ce_tvd": ["benchmark script"],
    "fused_linear_scaled_cross_entropy": ["benchmark script"],
    "vocab_parallel_cross_entropy": ["test file", "benchmark script"],
}
MODULES = {"embedding": "liger_kernel.ops.experimental.embedding"}

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(SOURCE is None, reason="LIGER_SOURCE names no unpacked library"),
]


@pytest.fixture(scope="module")
def library() -> Tree:
    root = Path(SOURCE or "")
    files = (path for path in root.rglob("*") if path.is_file() and not path.is_symlink())
    return Tree({path.relative_to(root).as_posix(): path.read_bytes() for path in files if ".git" not in path.parts})


@pytest.mark.parametrize("name", sorted(known_problems()))
def test_every_known_kernel_is_found_with_a_problem_that_fits(library: Tree, name: str) -> None:
    standing = LIGER.locate(name, library)
    missing = [failure.message for failure in LIGER.missing(standing, library)]
    assert [message.split("` has no ")[1].split(" `")[0] for message in missing] == MISSING.get(name, [])
    text = LIGER.problem_of(standing, library)
    assert text == known_problems()[name]
    problem = parse_problem(text)
    symbol = call_of(problem).symbol
    assert symbol in standing.functions
    request = LIGER.sizes_request(standing, problem, library, "tree.tar")
    assert request is None or request.symbol == symbol
    assert (request is None) == ("benchmark script" in MISSING.get(name, []))
    form = LIGER.form_of(standing, problem, (), "tree.tar")
    assert f"from {MODULES.get(name, f'liger_kernel.ops.{name}')} import {symbol} as " in form.files[0].text


def test_the_problems_of_all_kernels_but_one_are_known(library: Tree) -> None:
    """What it computes is a function that it is handed, which no problem can say."""
    assert set(LIGER.existing(library)) - set(known_problems()) == {"tiled_mlp"}
    assert len(LIGER.existing(library)) == 34


def _touched(library: Tree, path: str) -> dict[str, tuple[str, ...]]:
    return LIGER.touched(library, with_file(library, path, (library.read(path) or "") + "\n# changed\n"))


def test_a_kernel_s_file_touches_that_kernel_alone(library: Tree) -> None:
    assert _touched(library, f"{OPS}/rms_norm.py") == {"rms_norm": (f"{OPS}/rms_norm.py",)}


WITHOUT_HELPERS = {"rope", "tvd", "relu_squared", "llama4_rope", "qwen2vl_mrope", "grpo_loss", "mlp"}


def test_the_helpers_touch_every_kernel_that_uses_them(library: Tree) -> None:
    found = _touched(library, f"{OPS}/utils.py")
    assert set(found) >= set(known_problems()) - WITHOUT_HELPERS
    assert "rope" not in found
    assert all(paths == (f"{OPS}/utils.py",) for paths in found.values())


def test_a_kernel_that_is_built_on_another_is_touched_with_it(library: Tree) -> None:
    assert set(_touched(library, f"{OPS}/cross_entropy.py")) == {"cross_entropy", "fused_linear_cross_entropy"}


PROBE = """\
import torch
from gpu_runner.child.interpreter import teach_interpreter
from gpu_runner.child.interpreter import teach_libdevice

teach_interpreter()
teach_libdevice()


def made(dims, init, dtype, high, grad):
    if dtype and high:
        return torch.randint(0, high, dims, dtype=getattr(torch, dtype))
    value = torch.randn(dims)
    value = value.softmax(-1) if init == "softmax" else value.log_softmax(-1) if init == "log_softmax" else value
    return value.to(getattr(torch, dtype or 'float16')).requires_grad_(grad)


def compared(problem, adapter, inputs):
    torch.manual_seed(0)
    names = {}
    exec(problem, names)
    exec(adapter, names)
    given = [made(*one) for one in inputs]
    copies = [one.detach().clone().requires_grad_(one.requires_grad) for one in given]
    wanted, got = names["reference"](*given), names["candidate"](*copies)
    wanted, got = (one if isinstance(one, tuple) else (one,) for one in (wanted, got))
    for one, other in zip(wanted, got, strict=True):
        torch.testing.assert_close(one, other, rtol=5e-3, atol=5e-3)
    grads = [torch.randn_like(one) for one in wanted]
    torch.autograd.backward(wanted, grads)
    torch.autograd.backward(got, [one.clone() for one in grads])
    for one, other in zip(given, copies, strict=True):
        if one.grad is not None:
            largest = max(1.0, one.grad.abs().max().item())
            torch.testing.assert_close(one.grad, other.grad, rtol=5e-3, atol=5e-3 * largest)


import sys, json

for name, parts in json.load(open(sys.argv[1])).items():
    try:
        compared(*parts)
        print(name, "the same", flush=True)
    except Exception as error:
        print(name, "differs:", " ".join(str(error).split())[:300], flush=True)
"""


@pytest.fixture(scope="module")
def compared(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Run every reference and what the library computes, side by side in Triton's interpreter."""
    folder, parts = tmp_path_factory.mktemp("compared"), {}
    for name in sorted(set(known_problems()) - ON_A_GPU_ALONE):
        problem = parse_problem(known_problems()[name])
        inputs = [
            ([SIZES.get(dim) or int(dim) for dim in s.dims], s.init, s.dtype, SIZES.get(str(s.high), s.high), s.grad)
            for s in problem.inputs
        ]
        parts[name] = (problem.source, adapter_source(problem, MODULES.get(name, f"liger_kernel.ops.{name}")), inputs)
    (folder / "parts.json").write_text(json.dumps(parts))
    (folder / "probe.py").write_text(PROBE)
    path = os.pathsep.join([f"{SOURCE}/src", str(Path(__file__).resolve().parents[3])])
    clean = {"PATH": os.environ["PATH"], "PYTHONPATH": path, "TRITON_INTERPRET": "1", "HOME": str(folder)}
    command = [sys.executable, "-W", "ignore", str(folder / "probe.py"), str(folder / "parts.json")]
    done = subprocess.run(command, env=clean, capture_output=True, text=True, timeout=200, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return dict(line.split(" ", 1) for line in done.stdout.splitlines() if " " in line)


@pytest.mark.parametrize("name", sorted(set(known_problems()) - ON_A_GPU_ALONE))
def test_a_known_problem_computes_what_the_library_computes(compared: dict[str, str], name: str) -> None:
    assert compared[name] == "the same"
