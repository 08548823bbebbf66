"""What Triton's interpreter is spared changes nothing that it computes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
import triton.language as tl
from triton.runtime import interpreter

from gpu_runner.child import interpreter as hastening
from gpu_runner.child.interpreter import hasten_interpreter
from gpu_runner.session import has_gpu
from tests.gpu_runner.verify.test_taught import PLAIN, STORE, ran

pytestmark = pytest.mark.skipif(has_gpu(), reason="on a GPU nothing is interpreted")


def kernel() -> None:
    """Stand for what is launched, and for a function that it calls: both see the language."""


@pytest.fixture
def putting_back(monkeypatch: pytest.MonkeyPatch) -> None:
    replaced = hastening._replaced

    def kept(owner: Any, name: str, make: Any) -> bool:
        if hasattr(owner, name):
            monkeypatch.setattr(owner, name, getattr(owner, name))
        return replaced(owner, name, make)

    monkeypatch.setattr(hastening, "_replaced", kept)
    monkeypatch.setattr(interpreter.interpreter_builder, "options", interpreter.interpreter_builder.options)


@pytest.fixture
def hastened(putting_back: None) -> None:
    assert hasten_interpreter() == ()


def test_kernels_compute_the_same_bits_with_shortcuts_as_without() -> None:
    command = [sys.executable, "-m", "tests.gpu_runner.verify.spared"]
    environment = os.environ | {"TRITON_INTERPRET": "1"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0 and "25 results, 0 differ" in done.stdout, done.stdout + done.stderr


def test_what_another_triton_has_otherwise_stays_as_it_is(
    putting_back: None, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def cast(self: Any, input: Any, kind: Any) -> None:
        """Take other parameters."""

    monkeypatch.setattr(interpreter.TritonSemantic, "cast", cast)
    monkeypatch.delattr(interpreter, "_LangPatchScope")
    monkeypatch.delattr(interpreter.TensorHandle, "get_element_ty")
    assert hasten_interpreter() == (
        "triton.runtime.interpreter._patch_lang",
        "TensorHandle.get_element_ty",
        "TritonSemantic.cast",
    )
    assert interpreter.TritonSemantic.cast is cast and not hasattr(interpreter.TensorHandle, "get_element_ty")
    assert [record.message for record in caplog.records if "TritonSemantic.cast" in record.message]


def test_functions_of_the_language_are_called_one_in_the_other_and_again(tmp_path: Path) -> None:
    body = "tl.softmax(v) * tl.sum(tl.cumsum(v * 0.0 + 1.0)) + tl.max(tl.maximum(v, tl.sigmoid(v)), axis=0)"
    got, x = ran(PLAIN + "    v = tl.where(at < count, v, -1e9)\n" + STORE.format(body), "float32", tmp_path)
    expected = x.softmax(0) * (128 * 129 / 2) + torch.maximum(x, x.sigmoid()).max()
    torch.testing.assert_close(got, expected, rtol=1e-5, atol=1e-5)


def test_a_scan_of_equal_terms_loses_no_more_than_one_by_doubling(tmp_path: Path) -> None:
    got, _ = ran(PLAIN + STORE.format("tl.cumsum(at * 0.0 + 0.1, axis=0)"), "float32", tmp_path)
    exact = torch.arange(1, got.numel() + 1, dtype=torch.float64) * torch.tensor(0.1).double()
    assert float(((got - exact) / exact).abs().max()) < 2**-24 * (got.numel().bit_length() / 2)


def test_whole_numbers_wrap_around_as_they_do_on_a_gpu(tmp_path: Path) -> None:
    body = "((at + 2147483647) * 3).to(tl.float32)"
    got, _ = ran(PLAIN + STORE.format(body), "float32", tmp_path)
    wrapped = (torch.arange(got.numel(), dtype=torch.int32) + 2147483647) * 3
    assert torch.equal(got, wrapped.float())


def test_builtins_are_patched_for_a_launch_and_put_back_after_it(hastened: None) -> None:
    before = {name: getattr(tl, name) for name in ("load", "sum", "exp", "range")}
    for _ in range(2):
        scope = interpreter._patch_lang(kernel)
        assert tl.load is not before["load"]
        inner = interpreter._patch_lang(kernel)  # a function that the kernel calls
        inner.restore()
        assert tl.load is not before["load"]
        scope.restore()
        assert {name: getattr(tl, name) for name in before} == before


@pytest.mark.parametrize(
    ("kind", "name"),
    [(tl.int1, "bool"), (tl.float16, "float16"), (tl.bfloat16, "uint16"), (tl.pointer_type(tl.float32), "uint64")],
    ids=str,
)
def test_types_of_numpy_are_the_same_each_time(hastened: None, kind: tl.dtype, name: str) -> None:
    get, block = interpreter._get_np_dtype, tl.block_type(kind, [4])
    assert {str(found) for found in (get(kind), get(block), get(kind), get(block))} == {name}
    with pytest.raises(KeyError):
        get(tl.void)


def test_a_function_that_a_kernel_calls_patches_nothing_again(hastened: None) -> None:
    scope = interpreter._patch_lang(kernel)
    load = tl.load
    inner = interpreter._patch_lang(kernel)
    assert not inner._changes and tl.load is load
    scope.restore()


def test_the_block_of_a_number_is_made_once_for_each_type_of_the_other_operand(hastened: None) -> None:
    semantic = interpreter.interpreter_semantic
    data = interpreter.np.arange(4, dtype="int32")
    block = tl.tensor(interpreter.TensorHandle(data, tl.int32), tl.block_type(tl.int32, [4]))
    pairs = [semantic.binary_op_type_checking_impl(block, 3) for _ in range(2)]
    assert pairs[0][0] is pairs[1][0] is block and pairs[0][1] is pairs[1][1]
    assert pairs[0][1].handle.data.tolist() == [3, 3, 3, 3]
    left, right = semantic.binary_op_type_checking_impl(block, 3.0)  # which converts the block
    assert left.dtype.name == right.dtype.name == "fp32"
    with pytest.raises(ValueError, match="out of range"):
        semantic.binary_op_type_checking_impl(block, 2**31)
