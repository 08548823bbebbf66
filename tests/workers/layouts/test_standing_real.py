"""Kernels that stand in an unpacked Liger-Kernel, where the environment names one: LIGER_SOURCE=/path/to/it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from gpu_runner.contracts import parse_problem
from tests.workers.layouts.standing import LIGER, with_file
from workers.layouts.adapter import adapter_source
from workers.layouts.liger.catalog import known_problems
from workers.tree import Tree

SOURCE = os.environ.get("LIGER_SOURCE")
OPS = "src/liger_kernel/ops"
SIZES = {"T": 5, "V": 70, "H": 48, "I": 40, "N": 2, "C": 64, "S": 6, "B": 2, "Q": 4, "K": 2, "D": 16}
# Its backward pass asks for the number of a GPU's multiprocessors.
ON_A_GPU_ALONE = {"dyt"}

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
    assert LIGER.missing(standing, library) == ()
    text = LIGER.problem_of(standing, library)
    assert text == known_problems()[name]
    problem = parse_problem(text)
    assert (problem.call or "").startswith(f"{standing.functions[0]}.apply(")
    request = LIGER.sizes_request(standing, problem, library, "tree.tar")
    assert request is not None and request.symbol == standing.functions[0]
    form = LIGER.form_of(standing, problem, (), "tree.tar")
    assert f"from liger_kernel.ops.{name} import {standing.functions[0]} as " in form.files[0].text


def _touched(library: Tree, path: str) -> dict[str, tuple[str, ...]]:
    return LIGER.touched(library, with_file(library, path, (library.read(path) or "") + "\n# changed\n"))


def test_a_kernel_s_file_touches_that_kernel_alone(library: Tree) -> None:
    assert _touched(library, f"{OPS}/rms_norm.py") == {"rms_norm": (f"{OPS}/rms_norm.py",)}


def test_the_helpers_touch_every_kernel_that_uses_them(library: Tree) -> None:
    found = _touched(library, f"{OPS}/utils.py")
    assert set(found) >= set(known_problems()) - {"rope", "tvd", "relu_squared"}
    assert "rope" not in found
    assert all(paths == (f"{OPS}/utils.py",) for paths in found.values())


def test_a_kernel_that_is_built_on_another_is_touched_with_it(library: Tree) -> None:
    assert set(_touched(library, f"{OPS}/cross_entropy.py")) == {"cross_entropy", "fused_linear_cross_entropy"}


PROBE = """\
import torch
from gpu_runner.roles.bfloat16 import teach_interpreter
from gpu_runner.roles.libdevice import teach_libdevice

teach_interpreter()
teach_libdevice()
torch.manual_seed(0)
{adapter}

{problem}

def made(dims, init, dtype, high, grad):
    if dtype:
        return torch.randint(0, high, dims)
    value = torch.randn(dims)
    value = value.softmax(-1) if init == "softmax" else value.log_softmax(-1) if init == "log_softmax" else value
    return value.to(torch.float16).requires_grad_(grad)

given = [made(*one) for one in {inputs}]
copies = [one.detach().clone().requires_grad_(one.requires_grad) for one in given]
wanted, got = reference(*given), candidate(*copies)
wanted, got = (one if isinstance(one, tuple) else (one,) for one in (wanted, got))
for one, other in zip(wanted, got, strict=True):
    torch.testing.assert_close(one, other, rtol=5e-3, atol=5e-3)
grads = [torch.randn_like(one) for one in wanted]
torch.autograd.backward(wanted, grads)
torch.autograd.backward(got, [one.clone() for one in grads])
for one, other in zip(given, copies, strict=True):
    if one.grad is not None:
        torch.testing.assert_close(one.grad, other.grad, rtol=5e-3, atol=5e-3 * max(1.0, one.grad.abs().max().item()))
"""


@pytest.mark.parametrize("name", sorted(set(known_problems()) - ON_A_GPU_ALONE))
def test_a_known_problem_computes_what_the_library_computes(name: str, tmp_path: Path) -> None:
    problem = parse_problem(known_problems()[name])
    inputs = [
        ([SIZES.get(d) or int(d) for d in s.dims], s.init, s.dtype, SIZES.get(str(s.high)), s.grad)
        for s in problem.inputs
    ]
    adapter = adapter_source(problem, f"liger_kernel.ops.{name}")
    probe = tmp_path / "probe.py"
    probe.write_text(PROBE.format(adapter=adapter, problem=problem.source, inputs=inputs))
    path = os.pathsep.join([f"{SOURCE}/src", str(Path(__file__).resolve().parents[3])])
    clean = {"PATH": os.environ["PATH"], "PYTHONPATH": path, "TRITON_INTERPRET": "1", "HOME": str(tmp_path)}
    command = [sys.executable, "-W", "ignore", str(probe)]
    done = subprocess.run(command, env=clean, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
