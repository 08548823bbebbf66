"""CuTe DSL's threads in Triton's interpreter: what they compute, and what of a kernel is found wrong or left open."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from functools import cache
from typing import Any

import pytest

from gpu_runner.contracts.reading import language_of, of_threads
from gpu_runner.program.threads import _in_type

HEAD = """
import json, sys
import torch
from gpu_runner.child.interpreter import teach_interpreter, teach_libdevice, teach_maxima
from gpu_runner.program import threads
from gpu_runner.program.memory import guard_memory
from gpu_runner.program.objects import Violation

teach_interpreter(); teach_libdevice(); teach_maxima(); guard_memory()
threads.stand_in()
import cutlass
import cutlass.cute as cute


def tried(kernel):
    @cute.jit
    def start(y_tensor: cute.Tensor, x_tensor: cute.Tensor, n: cutlass.Int32, SHAPE: cutlass.Constexpr, stream):
        kernel(y_tensor, x_tensor, n, SHAPE).launch(grid=(1, 1, 1), block=(64, 1, 1), stream=stream)

    given = cute.runtime.make_fake_compact_tensor(cutlass.Float32, (cute.sym_int64(),), assumed_align=4)
    stream = cute.runtime.make_fake_stream(use_tvm_ffi_env_stream=True)
    x, y = torch.arange(1.0, 65.0), torch.full((64,), -1.0)
    try:
        options = "--enable-tvm-ffi"
        cute.compile(start, given, given, cutlass.Int32(1), (4, 1, 64), stream, options=options)(y, x, 50)
        return {"y": y.tolist()}
    except Violation as violation:
        return {"status": violation.status.value, "message": violation.message}
    except Exception as error:
        return {"error": repr(error)}


answers = {}
"""
KERNEL = """
@cute.kernel
def kernel(y_tensor: cute.Tensor, x_tensor: cute.Tensor, n, SHAPE: cutlass.Constexpr):
{body}


answers[{name!r}] = tried(kernel)
"""
COPIED = """
thread = cute.arch.thread_idx()[0]
inside = cute.make_rmem_tensor((1, 1), cutlass.Boolean)
inside[0, 0] = thread * 4 < n
access = cute.make_copy_atom(cute.nvgpu.CopyUniversalOp(), x_tensor.element_type, num_bits_per_copy=128)
layout = cute.make_layout(((4, 1), 1), stride=((1, 0), 256))
values = cute.make_rmem_tensor(((4, 1), 1), x_tensor.element_type)
values.fill(0.0)
cute.copy(access, cute.make_tensor(x_tensor.iterator + cute.assume(thread * 4, divby=4), layout), values, pred=inside)
kept = cute.make_rmem_tensor(((4, 1), 1), y_tensor.element_type)
kept.store(values.load() * 2.0)
cute.copy(access, kept, cute.make_tensor(y_tensor.iterator + cute.assume(thread * 4, divby=4), layout), pred=inside)
"""
REDUCED = """
slots = cute.make_tensor(cute.arch.alloc_smem(cutlass.Float32, 2), cute.make_layout(2))
number = cutlass.Float32(cute.arch.thread_idx()[0])
own = cute.arch.warp_reduction_sum(number)
slots[cute.arch.warp_idx()] = own
cute.arch.sync_threads()
total = cute.full(((1, 1), 1), slots.load().reduce(cute.ReductionOp.ADD, 0.0, 0), cutlass.Float32)
y_tensor[0] = total[0]
"""

FLOORED = """
below = cute.arch.block_idx()[0] - 7
y_tensor[0] = cutlass.Float32(below // 2 * 10 + below % 4)
"""
AGAIN = (
    COPIED
    + """
cute.arch.sync_threads()
every = cute.make_rmem_tensor((1, 1), cutlass.Boolean)
every.fill(True)
again = cute.make_rmem_tensor(((4, 1), 1), y_tensor.element_type)
again.fill(0.0)
cute.copy(access, cute.make_tensor(y_tensor.iterator + cute.assume(thread * 0, divby=4), layout), again, pred=every)
"""
)


@cache
def answers() -> dict[str, dict[str, Any]]:
    """What comes of each kernel of 64 threads, all of them in one process."""
    bodies = {"copied": COPIED, "reduced": REDUCED, "floored": FLOORED, "again": AGAIN} | {
        name: body for name, (body, _, _) in WRONG.items()
    }
    kernels = [KERNEL.format(name=name, body=textwrap.indent(body.strip(), "    ")) for name, body in bodies.items()]
    environment = os.environ | {"TRITON_INTERPRET": "1", "TRITON_FRONT_END_DEBUGGING": "1"}
    command = [sys.executable, "-c", "\n".join([HEAD, *kernels, "print(json.dumps(answers))"])]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    found: dict[str, dict[str, Any]] = json.loads(done.stdout.splitlines()[-1])
    return found


def test_vectors_are_copied_where_they_are_said_to_be() -> None:
    # Whole vectors of four: 50 elements are twelve of them, and the one that begins at 48.
    assert answers()["copied"]["y"] == [2.0 * number for number in range(1, 53)] + [-1.0] * 12


def test_a_warps_numbers_are_summed_and_warps_meet_behind_a_barrier() -> None:
    assert answers()["reduced"]["y"] == [float(sum(range(64)))] + [-1.0] * 63


def test_whole_numbers_below_zero_are_divided_as_python_divides_them() -> None:
    assert answers()["floored"]["y"] == [-39.0] + [-1.0] * 63


def test_warps_read_behind_a_barrier_what_others_wrote_to_memory() -> None:
    assert answers()["again"] == answers()["copied"]


@pytest.mark.parametrize(
    ("number", "kind", "given"),
    [
        (0.7, "Float16", 0.7001953125),
        (0.7, "BFloat16", 0.69921875),
        (0.5, "Float32", 0.5),
        (7, "Int32", 7),
        (2, "Boolean", True),
    ],
)
def test_a_number_has_the_type_that_its_launcher_was_compiled_for(number: float, kind: str, given: float) -> None:
    assert _in_type(number, kind) == given


@pytest.mark.parametrize(("number", "error"), [(2**31, RuntimeError), (0.5, TypeError)])
def test_a_number_that_is_none_of_the_type_of_its_launcher_is_refused(number: float, error: type[Exception]) -> None:
    with pytest.raises(error):
        _in_type(number, "Int32")


WRONG = {
    "a warp reads in memory what another wrote": (
        AGAIN.replace("cute.arch.sync_threads()\n", ""), "nondeterministic", "reads what another warp",
    ),
    "no barrier": (
        REDUCED.replace("cute.arch.sync_threads()\n", ""),
        "nondeterministic", "reads shared memory that others wrote",
    ),
    "one place for all warps": (
        REDUCED.replace("cute.arch.warp_idx()]", "cute.arch.warp_idx() * 0]"),
        "nondeterministic", "writes shared",
    ),
    "a warp without a number": (
        REDUCED.replace("Float32, 2), cute.make_layout(2)", "Float32, 3), cute.make_layout(3)"),
        "out_of_bounds", "nobody wrote",
    ),
    "beyond shared memory": (REDUCED.replace("warp_idx()]", "warp_idx() + 1]"), "out_of_bounds", "beyond its shared memory"),
    "several numbers for one element": (REDUCED.replace("total[0]", "number"), "nondeterministic", "several numbers"),
    "a place that is no multiple": (
        COPIED.replace("assume(thread * 4,", "assume(thread * 4 + 1,"),
        "out_of_bounds", "multiple of 4",
    ),
    "a vector at no multiple of its size": (
        COPIED.replace("cute.assume(thread * 4, divby=4)", "(thread * 4 + 1)"),
        "launch_error", "multiple of its size",
    ),
    "registers that nobody set": (COPIED.replace("kept.store(values.load() * 2.0)\n", ""), "out_of_bounds", "did not set"),
    "a copy over registers as they are": (COPIED.replace("values.fill(0.0)\n", ""), "unproved", "filled before"),
    "what has no place here": ("cute.arch.fmax(cute.gemm, 0.0)", None, ""),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_or_left_open_is_said(name: str) -> None:
    _, status, words = WRONG[name]
    answer = answers()[name]
    if status is None:
        assert "gemm" in answer["error"]
    else:
        assert (answer["status"], words in answer["message"]) == (status, True), answer


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("import cutlass\n", "CuTe DSL"),
        ("import cutlass.cute as cute\n", "CuTe DSL"),
        ("from cutlass import cute\n", "CuTe DSL"),
        ("import cuda.tile as ct\n", "cuTile"),
        ("import triton  # no cutlass here\nimport cutlasses\n", "Triton"),
    ],
)
def test_a_files_language_is_known_by_its_imports(text: str, language: str) -> None:
    assert (language_of([text]), of_threads(text)) == (language, language == "CuTe DSL")
