import sys
import tomllib
from pathlib import Path

import pytest

from gpu_runner.contracts import parse_problem
from tests.workers.layouts.standing import LIGER
from workers.layouts.calls import adapter_source, read_call
from workers.layouts.liger.layout import known_problems

ROOT = Path(__file__).resolve().parents[3]
TRIED = {
    "rms_norm",
    "layer_norm",
    "geglu",
    "group_norm",
    "cross_entropy",
    "kl_div",
    "jsd",
    "sparsemax",
    "rope",
    "dyt",
    "poly_norm",
}


def test_the_kernels_that_are_to_be_made_faster_are_known() -> None:
    assert set(known_problems()) >= TRIED | {"swiglu"}
    assert LIGER.catalogued("no_such_kernel") is None


@pytest.mark.parametrize("name", sorted(known_problems()))
def test_every_known_problem_says_all_that_is_needed(name: str) -> None:
    problem = parse_problem(known_problems()[name])
    call = read_call(problem.call or "")
    assert call is not None and call.applied and problem.title
    assert len(problem.workloads) == 3
    sizes = [sum(size for _, size in workload.sizes) for workload in problem.workloads]
    assert sizes == sorted(sizes, reverse=True)
    compile(adapter_source(problem, f"liger_kernel.ops.{name}"), name, "exec")


def test_known_problems_are_read_and_never_imported() -> None:
    known_problems()
    assert [module for module in sys.modules if ".references" in module and "layouts" in module] == []
    assert not (ROOT / "workers/layouts/liger/references/__init__.py").exists()


def test_known_problems_are_in_the_wheel() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]
    assert "layouts/**/*" in settings["package-data"]["workers"]
