"""The calls of a library's own script are heard at full size, on a machine with neither a GPU nor the memory."""

from __future__ import annotations

import io
import json
import tarfile
import tempfile
from pathlib import Path

import pytest

from gpu_runner import recording
from gpu_runner.context import RunContext
from gpu_runner.contracts import Limits, RecordedCall, RecordedTensor, RecordRequest, RecordResult
from gpu_runner.recording import read_calls

LIBRARY = """
import torch
import triton
import triton.language as tl


@triton.jit
def _scale(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y_ptr + at, tl.load(x_ptr + at, mask=at < n), mask=at < n)


class Scale(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, w, eps, mode=None):
        if not torch.cuda.is_available():
            raise RuntimeError("needs a GPU")
        y = torch.empty_like(x)
        _scale[(1,)](x, y, x.numel(), BLOCK=1024)
        ctx.save_for_backward(x, w)
        return y, w.sum()

    @staticmethod
    def backward(ctx, dy, dw):
        raise RuntimeError("is never run")


bound_early = Scale.apply


def plain(x, scale=1.0):
    raise RuntimeError("cannot run on paper")
"""

SCRIPT = """
import sys
import torch
import triton
from library import bound_early, plain

device = "cuda" if torch.cuda.is_available() else "cpu"
total_memory = torch.cuda.get_device_properties(0).total_memory
for rows in (4096, 16384):
    layer = torch.nn.Linear(8192, 1).to(device)
    x = torch.randn(rows, 8192, device=device, dtype=torch.bfloat16, requires_grad=True)
    torch.cuda.reset_peak_memory_stats()
    def run():
        y, _ = bound_early(x, layer.weight, 1e-6, "llama")
        y.backward(torch.randn_like(y))
    assert torch.equal(x, x + 1.0)  # by its content: nobody knows
    compiled = torch.compile(layer, mode="max-autotune")
    layer.compile()
    assert compiled(x.float()).shape == (rows, 1)
    assert torch.compile(fullgraph=True)(run) is run
    mid, low, high = triton.testing.do_bench(run, quantiles=[0.5, 0.2, 0.8])
    assert (mid, low, high) == (0.0, 0.0, 0.0)
    assert rows * 8192 * 2 <= torch.cuda.max_memory_allocated() < total_memory
    assert torch.tensor([1.0, 2.0]).quantile(torch.tensor([0.5])).tolist() == [0.0]
open("data.csv", "w").write("nothing of this matters")
if len(sys.argv) > 1:
    raise ValueError(sys.argv[1])
out = plain(x.t(), scale=2.0)
assert out.shape == (8192, 16384)
"""


def recorded(symbol: str, *arguments: str, script: str = SCRIPT) -> RecordResult:
    with tempfile.TemporaryDirectory() as folder:
        with tarfile.open(Path(folder) / "tree.tar.gz", "w:gz") as archive:
            for path, text in {"repo/src/library.py": LIBRARY, "repo/benchmark/script.py": script}.items():
                entry = tarfile.TarInfo(path)
                entry.size = len(text.encode())
                archive.addfile(entry, io.BytesIO(text.encode()))
        request = RecordRequest("tree.tar.gz", "benchmark/script.py", "library", symbol, ("src",), arguments=arguments)
        return recording.run(request, RunContext(Path(folder), Limits(time_s=60.0)))


def test_the_calls_of_a_function_are_noted_whatever_name_it_was_bound_to_and_before_an_error() -> None:
    result = recorded("Scale", "broken")
    assert [call.arguments[0] for call in result.calls] == [
        RecordedTensor((4096, 8192), "bfloat16", contiguous=True, grad=True),
        RecordedTensor((16384, 8192), "bfloat16", contiguous=True, grad=True),
    ]
    assert result.calls[0].arguments[1:] == (RecordedTensor((1, 8192), "float32", True, True), 1e-06, "llama")
    assert result.error == "ValueError: broken (benchmark/script.py:27)"


def test_a_plain_function_is_noted_where_it_was_imported_too() -> None:
    result = recorded("plain")
    assert result.error is None
    assert result.calls == (RecordedCall((RecordedTensor((8192, 16384), "bfloat16", False, True), 2.0)),)


def test_a_script_that_ends_its_process_has_been_heard_up_to_there() -> None:
    result = recorded("Scale", script=SCRIPT.replace("if len(", "import os\nos._exit(3)\nif len("))
    assert len(result.calls) == 2
    assert result.error is not None


def test_no_more_distinct_calls_are_given_than_were_asked_for() -> None:
    assert read_calls(b"[1]\n[2]\n[1]\n", 1) == (RecordedCall((1,), 2),)


def test_a_symbol_that_is_not_there_is_an_error_and_no_crash() -> None:
    result = recorded("Nothing")
    assert result.calls == ()
    assert "Nothing" in str(result.error)


@pytest.mark.parametrize(
    "line",
    [
        b"{}",
        b"not json",
        b'[{"shape": [-1], "dtype": "float32", "contiguous": true, "grad": true}]',
        b'[{"shape": "x"}]',
        b"[NaN]",
        b"[[1]]",
        b"[" * 5000,
        json.dumps([1] * 65).encode(),
    ],
)
def test_lines_that_are_not_of_the_runners_form_are_left_out(line: bytes) -> None:
    assert read_calls(line + b"\n[1]\n", 8) == (RecordedCall((1,)),)


def test_equal_numbers_of_different_kinds_are_different_calls() -> None:
    assert read_calls(b"[1]\n[true]\n[1.0]\n[1]\n", 8) == (
        RecordedCall((1,), 2),
        RecordedCall((True,)),
        RecordedCall((1.0,)),
    )
