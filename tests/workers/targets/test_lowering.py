"""What Triton-Ascend is asked, what it answers, and how full its tiles make the buffer."""

from __future__ import annotations

import json
import os
import stat
import sys
from pathlib import Path

import pytest

from tests.workers.compiler.captured import captured
from tests.workers.compiler.test_ascend import PORTED, ported
from workers.contracts import FailureCode, KernelTiling, LoweredKernel, UserFacingError
from workers.targets import ascend_lowering, stand_in
from workers.targets.ascend import ASCEND
from workers.targets.ascend_lowering import buffer_bits, integer_compares
from workers.targets.compiling import device_functions
from workers.targets.lowering import kernel_requests, lowered
from workers.targets.module import CallVariant

LOWERED = """\
module {
  func.func @k(%arg0: memref<?xbf16>) {
    %cst = arith.constant 0.0 : f32
    %0 = tensor.empty() : tensor<1024xf32>
    %1 = linalg.fill ins(%cst : f32) outs(%0 : tensor<1024xf32>) -> tensor<1024xf32>
    scf.for %i = %a to %b step %c  : i32 {
      %alloc = memref.alloc() : memref<1024xbf16>
      %2 = bufferization.to_tensor %alloc restrict writable : memref<1024xbf16>
      %3 = arith.extf %2 : tensor<1024xbf16> to tensor<1024xf32>
      %4 = arith.mulf %3, %1 : tensor<1024xf32>
      %5 = arith.addf %4, %4 : tensor<1024xf32>
    }
    return
  }
}
"""
TILE = 1024 * 32


def test_tiles_are_alive_from_their_line_to_the_last_that_uses_them() -> None:
    # With the third line of values: its own tile and the one before; the bf16 copy is dead by then.
    assert buffer_bits(LOWERED) == 2 * TILE


def test_a_constant_tile_counts_where_a_loop_adds_to_it() -> None:
    carried = LOWERED.replace(" : i32 {", " iter_args(%t = %1) -> (tensor<1024xf32>) : i32 {")
    assert buffer_bits(carried) == 3 * TILE


def test_a_branch_in_a_loop_keeps_nothing_until_the_loop_ends() -> None:
    fill = "linalg.fill ins(%cst : bf16) outs(%alloc : memref<1024xbf16>)"
    branch = f"      scf.if %c {{\n        {fill}\n      }} {{hivm.unlikely_condition}}\n"
    assert buffer_bits(LOWERED.replace("      %2 = ", f"{branch}      %2 = ")) == 2 * TILE


def test_comparisons_of_tiles_of_whole_numbers_are_counted() -> None:
    wide = "      %6 = arith.cmpi slt, %4, %1 : tensor<1x1024xi32>\n"
    single = "      %7 = arith.cmpi slt, %4, %1 : tensor<1x1xi32>\n      %8 = arith.cmpi slt, %a, %b : i32\n"
    assert integer_compares(LOWERED + wide + single) == 1


def test_what_the_cube_multiplies_and_sums_up_is_not_in_the_buffer() -> None:
    product = LOWERED.replace(
        "      %5 = arith.addf %4, %4 : tensor<1024xf32>\n",
        "      %5 = linalg.matmul ins(%3, %4 : tensor<1024xf32>, tensor<1024xf32>) outs(%t : tensor<1024xf32>)\n",
    ).replace(" : i32 {", " iter_args(%t = %1) -> (tensor<1024xf32>) : i32 {")
    assert buffer_bits(product) == TILE // 2, "but what is loaded to be converted"


MOVED = LOWERED.replace(
    "      %2 = ", "      memref.copy %x, %alloc : memref<1024xbf16> to memref<1024xbf16>\n      %2 = "
)


def test_what_a_loop_moves_has_a_second_buffer_while_it_runs() -> None:
    assert buffer_bits(MOVED) == 2 * TILE
    assert buffer_bits(MOVED, buffered=True) == 2 * TILE + TILE // 2
    assert buffer_bits(MOVED.replace("scf.for", "scf.if"), buffered=True) == 2 * TILE, "nothing is on its way meanwhile"


# Kernels as public reports of overflows describe theirs, and the bits of which the compiler for NPUs spoke there.
REPORTED = """
@triton.jit
def _copy_kernel(y_ptr, x_ptr, n, BLOCK: tl.constexpr):
    for block in tl.range(tl.program_id(0), tl.cdiv(n, BLOCK), tl.num_programs(0)):
        at = block * BLOCK + tl.arange(0, BLOCK)
        tl.store(y_ptr + at, tl.load(x_ptr + at, mask=at < n, other=0.0), mask=at < n)


@triton.jit
def _heads_kernel(y_ptr, x_ptr, n, HEADS: tl.constexpr, WIDTH: tl.constexpr):
    square = tl.arange(0, WIDTH)[:, None] * WIDTH + tl.arange(0, WIDTH)[None, :]
    for first in range(0, n, HEADS):
        heads = first + tl.arange(0, HEADS)[:, None, None]
        at = heads * (WIDTH * WIDTH) + square[None, :, :]
        tl.store(y_ptr + at, tl.load(x_ptr + at, mask=heads < n, other=0.0), mask=heads < n)


@triton.jit
def _bias_silu_kernel(x_ptr, b_ptr, n_rows, n_cols, BLOCK: tl.constexpr):
    for row in range(tl.program_id(0), n_rows, tl.num_programs(0)):
        for start in range(0, n_cols, BLOCK):
            cols = start + tl.arange(0, BLOCK)
            x = tl.load(x_ptr + row * n_cols + cols, mask=cols < n_cols, other=0.0).to(tl.float32)
            x += tl.load(b_ptr + cols, mask=cols < n_cols, other=0.0).to(tl.float32)
            tl.store(x_ptr + row * n_cols + cols, x * tl.sigmoid(x), mask=cols < n_cols)
"""
REPORTS = (  # constants, dtype, and the bits of the report
    ("_copy_kernel", {"BLOCK": 48000}, "fp32", 3_072_000),
    ("_heads_kernel", {"HEADS": 2, "WIDTH": 128}, "fp32", 2_097_152),
    ("_bias_silu_kernel", {"BLOCK": 16384}, "bf16", 1_966_848),
)


@pytest.mark.skipif("TRITON_ASCEND_PYTHON" not in os.environ, reason="TRITON_ASCEND_PYTHON names no Triton-Ascend")
@pytest.mark.parametrize(("name", "constants", "dtype", "reported"), REPORTS)
def test_reported_overflows_lie_between_the_estimates_without_and_with_second_buffers(
    name: str, constants: dict[str, int], dtype: str, reported: int
) -> None:
    sizes = {"_bias_silu_kernel": ("n_rows", "n_cols")}.get(name, ("n",))
    pointers = {"_bias_silu_kernel": ("x_ptr", "b_ptr")}.get(name, ("y_ptr", "x_ptr"))
    signature = dict.fromkeys(pointers, f"*{dtype}") | dict.fromkeys(sizes, "i32")
    request = {"name": name, "signature": signature, "constants": constants}
    (kernel,) = lowered(os.environ["TRITON_ASCEND_PYTHON"], REPORTED, [request])
    assert kernel.bits < reported <= kernel.buffered_bits
    assert kernel.buffered_bits > stand_in.CAPACITY_BITS, "the overflow is foreseen"


SOURCE = """
@triton.jit
def _k_forward_kernel(y_ptr, rstd_ptr, x_ptr, eps, n_rows, BLOCK_ROWS: tl.constexpr, BLOCK_SIZE: tl.constexpr):
    pass


@triton.jit
@other
def _decorated_kernel(x_ptr):
    pass


@triton.jit
def _default_kernel(x_ptr, n=print("runs when it is defined")):
    pass
"""


def test_functions_that_run_something_where_they_are_defined_are_left_out() -> None:
    assert [function.name for function in device_functions(SOURCE, ascend_lowering.is_known)] == ["_k_forward_kernel"]


def test_a_kernel_is_asked_for_at_the_tile_that_its_launcher_chooses() -> None:
    tilings = [
        KernelTiling("_k_forward", "large", 4.0, 2, 4096, 40, 1),
        KernelTiling("_k_forward", "small", 4.0, 1, 64, 4, 1),
    ]
    variant = CallVariant("rms_norm", captured("rms_norm")[0], ported("rms_norm"))
    asked = kernel_requests(SOURCE, (variant,), tilings)[0]
    assert asked["constants"] == {"BLOCK_ROWS": 2, "BLOCK_SIZE": 4096}
    assert asked["signature"] == {
        "y_ptr": "*bf16",
        "rstd_ptr": "*fp32",
        "x_ptr": "*bf16",
        "eps": "fp32",
        "n_rows": "i32",
    }


def python(folder: Path, answer: object, status: int = 0) -> str:
    """A stand-in for the other environment's Python."""
    script = folder / "python"
    script.write_text(f"#!/bin/sh\ncat > /dev/null\necho '{json.dumps(answer)}'\necho no triton >&2\nexit {status}\n")
    script.chmod(script.stat().st_mode | stat.S_IXUSR)
    return str(script)


def test_what_the_compiler_refuses_is_refused_in_its_words(tmp_path: Path) -> None:
    with pytest.raises(UserFacingError) as raised:
        lowered(python(tmp_path, {"kernels": [{"name": "k", "error": "error: unsupported"}]}), "", [])
    failure = raised.value.failure
    assert (failure.code, failure.log) == (FailureCode.verdict, "error: unsupported")
    assert failure.message == "Triton-Ascend does not compile `k`"


def test_an_environment_without_triton_ascend_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserFacingError) as raised:
        lowered(python(tmp_path, {}, status=1), "", [])
    assert raised.value.failure.code is FailureCode.environment
    assert raised.value.failure.log == "no triton" and "pip install triton-ascend" in (raised.value.failure.fix or "")


def test_kernels_that_compile_are_given_with_their_tiles(tmp_path: Path) -> None:
    answer = {"kernels": [{"name": "k", "bits": 64, "copies": 2}]}
    assert lowered(python(tmp_path, answer), "", []) == (LoweredKernel("k", 64, 2),)


@pytest.mark.parametrize(
    ("version", "sentence"),
    [("3.2.1", None), ("4.0.0", "Triton-Ascend is 4.0.0 here, and kernels are lowered with 3.2.x")],
)
def test_another_version_is_named(monkeypatch: pytest.MonkeyPatch, version: str, sentence: str | None) -> None:
    monkeypatch.setattr(ascend_lowering.importlib.metadata, "version", lambda name: version)
    monkeypatch.setattr(ascend_lowering.importlib, "import_module", lambda name: None)
    assert ascend_lowering.unusable() == sentence


def test_an_environment_with_another_triton_lacks_the_compiler_and_refuses_no_kernel() -> None:
    with pytest.raises(UserFacingError) as raised:
        lowered(sys.executable, SOURCE, [{"name": "_k_forward_kernel", "signature": {}, "constants": {}}])
    failure = raised.value.failure
    assert failure.code is FailureCode.environment and "Triton-Ascend cannot be imported" in failure.message


@pytest.mark.skipif("TRITON_ASCEND_PYTHON" not in os.environ, reason="TRITON_ASCEND_PYTHON names no Triton-Ascend")
@pytest.mark.parametrize("name", PORTED)
def test_the_real_compiler_takes_every_kernel_and_its_tiles_fit(name: str) -> None:
    proposal = ported(name)
    source = "\n".join(proposal.imports) + "\n\n\n" + proposal.source
    requests = kernel_requests(source, (), ASCEND.tilings(captured(name)[0], source))
    kernels = lowered(os.environ["TRITON_ASCEND_PYTHON"], source, requests)
    assert [kernel.name for kernel in kernels] == [request["name"] for request in requests]
    assert all(0 < kernel.bits <= stand_in.CAPACITY_BITS and kernel.copies for kernel in kernels)
    assert all(kernel.bits < kernel.buffered_bits < 1.01 * stand_in.CAPACITY_BITS for kernel in kernels)


@pytest.mark.skipif("TRITON_ASCEND_PYTHON" not in os.environ, reason="TRITON_ASCEND_PYTHON names no Triton-Ascend")
def test_the_real_compiler_refuses_a_kernel_that_is_none() -> None:
    source = ported("swiglu").source.replace("tl.sigmoid(gate)", "tl.no_such_function(gate)")
    with pytest.raises(UserFacingError) as raised:
        lowered(os.environ["TRITON_ASCEND_PYTHON"], source, kernel_requests(source, (), []))
    assert "no_such_function" in (raised.value.failure.log or "")
