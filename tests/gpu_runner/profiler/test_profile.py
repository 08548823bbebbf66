"""The analysis as a whole, for a GPU that is not there: bytes and operations counted by hand stand beside."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest

from gpu_runner import profiler
from gpu_runner.context import RunContext
from gpu_runner.contracts import Bound, CandidateSource, Pass, ProfileRequest, RunnerError, Workload
from gpu_runner.session import has_gpu
from tests.problems import problem_source

pytestmark = pytest.mark.skipif(has_gpu(), reason="on a GPU the peaks are measured")
PRODUCT = '''"""A matrix product with a softmax behind it."""
import torch

INPUTS = {"x": "M K", "w": "N K"}
WORKLOADS = [{"M": 4096, "K": 4096, "N": 4096}]


def reference(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return torch.softmax((x @ w.t()).float(), -1).to(x.dtype)
'''
LOSS = '''"""Cross entropy: of the logits one element a row is picked, and every one is read."""
import torch

INPUTS = {"logits": "T V", "target": {"dims": "T", "dtype": "int64", "low": 0, "high": "V"}}
WORKLOADS = [{"T": 512, "V": 32768}]


def reference(logits: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.cross_entropy(logits.float(), target)
'''
NONE = CandidateSource(())


def context() -> RunContext:
    return RunContext(Path(tempfile.gettempdir()))


def test_matrix_products_are_counted_exactly_forward_and_backward() -> None:
    found = profiler.run(ProfileRequest(PRODUCT, NONE, gpu="H100 PCIe"), context())
    forward, backward = found.rooflines
    assert (forward.matrix_flops, backward.matrix_flops) == (2 * 4096**3, 4 * 4096**3)
    assert forward.flops == 2 * 4096**3 + 5 * 4096**2  # of a softmax: maximum, difference, exponential, sum, quotient
    assert (forward.bound, backward.bound) == (Bound.compute, Bound.compute)
    assert forward.compute_us == pytest.approx(2 * 4096**3 / 756e12 * 1e6)
    assert found.gpu.name == "NVIDIA H100 PCIe"
    assert not found.gpu.measured
    assert found.bounds == ((Pass.forward, Bound.compute), (Pass.backward, Bound.compute))


def test_a_pointwise_problem_is_bound_by_memory_and_its_floor_is_that_of_its_bytes() -> None:
    workloads = (Workload((("T", 4096), ("I", 14336))), Workload((("T", 16), ("I", 16))))
    passes = (Pass.forward, Pass.backward, Pass.full)
    found = profiler.run(ProfileRequest(problem_source("reglu"), NONE, workloads=workloads, passes=passes), context())
    assert [line.timed_pass for line in found.rooflines] == [*passes, *passes]
    forward = found.rooflines[0]
    assert forward.moved_bytes == 3 * 4096 * 14336 * 2
    assert forward.flops == 2 * 4096 * 14336
    assert forward.matrix_flops == 0
    assert forward.intensity == pytest.approx(1 / 3)
    assert forward.floor_us == forward.memory_us == pytest.approx(83.4, abs=0.1)
    assert forward.bound is Bound.memory
    assert found.counters == ()
    assert found.counters_error is not None
    assert "No GPU is available" in found.counters_error
    # The small workload is over before it is launched.
    assert {(finding.rule, finding.subject.partition(" at ")[2]) for finding in found.findings} == {
        ("short", "T=16 I=16")
    }


def test_a_module_is_profiled_forward() -> None:
    found = profiler.run(ProfileRequest(problem_source("kernelbench_relu"), NONE, counters=False), context())
    assert [line.timed_pass for line in found.rooflines] == [Pass.forward]
    assert found.rooflines[0].flops
    assert found.counters_error == "Counters were not asked for."


def test_a_gpu_that_nobody_knows_is_an_error_that_names_those_that_are() -> None:
    with pytest.raises(RunnerError, match=r"no GPU 'H300' is known; name one of: NVIDIA H200"):
        profiler.run(ProfileRequest(problem_source("softmax"), NONE, gpu="H300"), context())


def test_logits_are_read_whole_although_they_are_indexed() -> None:
    found = profiler.run(ProfileRequest(LOSS, NONE, passes=(Pass.forward, Pass.backward, Pass.full)), context())
    by_pass = {line.timed_pass: line for line in found.rooflines}
    assert by_pass[Pass.forward].moved_bytes == 512 * 32768 * 2 + 512 * 8 + 4
    assert by_pass[Pass.backward].moved_bytes is None  # a kernel may have written the gradient before
    assert by_pass[Pass.full].moved_bytes == 2 * 512 * 32768 * 2 + 512 * 8
    assert dict(found.bounds)[Pass.forward] is Bound.memory
