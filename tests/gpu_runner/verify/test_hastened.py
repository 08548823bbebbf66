"""What Triton's interpreter is spared changes nothing that it computes."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
import triton.language as tl
from triton.runtime import interpreter

from gpu_runner.child.interpreter import hasten_interpreter
from gpu_runner.session import has_gpu
from tests.gpu_runner.verify.test_taught import PLAIN, STORE, ran

pytestmark = pytest.mark.skipif(has_gpu(), reason="on a GPU nothing is interpreted")


def kernel() -> None:
    """Stand for what is launched, and for a function that it calls: both see the language."""


@pytest.fixture
def hastened(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("_patch_builtin", "_get_np_dtype"):
        monkeypatch.setattr(interpreter, name, getattr(interpreter, name))
    monkeypatch.setattr(interpreter.interpreter_builder, "options", interpreter.interpreter_builder.options)
    hasten_interpreter()


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
