"""Scalars by which a reference branches: one side is compiled, and a call or workload beyond it is refused."""

from __future__ import annotations

import pytest

from gpu_runner.contracts import parse_problem
from gpu_runner.tracing.tracer import Tracer
from tests.gpu_runner.core.test_tracing import handled
from tests.workers.compiler.captured import proposal, style
from workers.authors.compiler import CompilerAuthor
from workers.authors.protocol import AuthorRefusal, Brief, Proposal

HEAD = "import torch\nimport torch.nn.functional as F\n\n\ndef reference("
BETA = '    if beta == 0.0:\n        return {0}\n    return {1}\n\n\nINPUTS = {{"x": "T H", "y": "T H"}}\n'
KIND = '    return F.silu(x) if kind == "silu" else F.relu(x)\n\n\nINPUTS = {"x": "T H"}\n'
SIZES = "WORKLOADS = [{{'T': 4096, 'H': 8192{0}}}, {{'T': 2048, 'H': 8192{1}}}]\n"


def answered(source: str) -> Proposal | AuthorRefusal:
    problem = parse_problem(source)
    graph = Tracer(handled(source), problem).graph()
    return CompilerAuthor().propose(Brief("own", problem, graph, style("own")))


def of_beta(zero: str, other: str, *more: str) -> Proposal | AuthorRefusal:
    return answered(f"{HEAD}x, y, beta: float = 0.5):\n{BETA.format(zero, other)}{SIZES.format(*more or ('', ''))}")


def of_kind(*more: str) -> Proposal | AuthorRefusal:
    return answered(f'{HEAD}x, kind: str = "relu"):\n{KIND}{SIZES.format(*more)}')


def test_a_kernel_raises_where_the_reference_computes_something_else() -> None:
    guard = '    if not smoothing > 0.0:\n        raise ValueError("this kernel is written for smoothing > 0.0")\n'
    assert proposal("ce_smooth").source.count(guard) == 1


@pytest.mark.parametrize(
    ("zero", "other"),
    [
        ("x, y", "x * beta, y"),  # kernels that share nothing
        ("x + y", "(x - x.mean(0)) * beta + y"),  # one after the other
        ("x + y", "(x - x.mean(0)) / x.var(0) * y"),
    ],
)
def test_one_launcher_of_several_raises(zero: str, other: str) -> None:
    given = of_beta(zero, other)
    assert isinstance(given, Proposal), given
    guard = '    if beta == 0.0:\n        raise ValueError("this kernel is written for beta != 0.0")\n'
    assert given.source.count(guard) == given.source.count("beta != 0.0") == 1
    assert len(given.source.split("@triton.jit")) > 2


def test_workloads_on_both_sides_of_a_branch_are_refused_with_the_line() -> None:
    given = of_beta("x + y", "x * beta + y", "", ", 'beta': 0.0")
    assert isinstance(given, AuthorRefusal)
    assert given.sentence == (
        "the reference computes something else where not `beta != 0.0`, as WORKLOADS have it (line 5)"
    )


def test_workloads_with_several_values_of_a_text_are_refused_with_the_line() -> None:
    given = of_kind("", ", 'kind': 'silu'")
    assert isinstance(given, AuthorRefusal)
    values = "`kind = 'relu'` and `kind = 'silu'`"
    assert given.sentence == f"it is traced for one value of a scalar, and WORKLOADS have {values} (line 5)"


def test_what_all_workloads_give_is_compiled_though_it_is_not_the_default() -> None:
    given = of_kind(", 'kind': 'silu'", ", 'kind': 'silu'")
    assert isinstance(given, Proposal)
    assert "if kind != 'silu':" in given.source and "sigmoid" in given.source
