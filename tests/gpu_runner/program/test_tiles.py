"""Launches of cuTile's own kernels: what is compiled ahead, and what a launch waits for."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import pytest
import torch

from gpu_runner.contracts.reading import of_tiles
from gpu_runner.program import tiles
from gpu_runner.program.objects import Violation


def computes() -> None:
    """The Python function of a kernel."""


class Real:
    """A kernel as the package makes it."""

    def __init__(self) -> None:
        self._pyfunc = computes


class Run:
    """A log that carries launches out."""

    def __init__(self, ahead: Callable[[], AbstractContextManager[None]] | None = None) -> None:
        self.ahead = ahead
        self.launched: list[Any] = []

    def launch(self, fn: Any, grid: Any, arguments: list[Any], run: Any) -> None:
        self.launched.append((fn, grid, arguments))
        run()


def test_a_launch_waits_for_the_kernel_that_is_compiled_ahead_and_is_noted_with_its_arguments(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    done, may_end = list[str](), threading.Event()

    def real(stream: Any, grid: Any, kernel: Any, arguments: tuple[Any, ...]) -> None:
        if arguments == ("ahead",):
            may_end.wait(10)
        done.append(*arguments)

    monkeypatch.setattr(tiles, "_real_launch", lambda: real)
    kernel, ahead, usual = Real(), Run(nullcontext), Run()
    tiles.watch(lambda: ahead)  # type: ignore[arg-type, return-value]  # what of a log is asked
    tiles.launch(None, (1,), kernel, ("ahead",))
    assert done == [], "nobody waits for what is compiled ahead"
    tiles.watch(lambda: usual)  # type: ignore[arg-type, return-value]
    threading.Timer(0.2, may_end.set).start()
    tiles.launch(None, [2], kernel, ("now",))
    assert done == ["ahead", "now"]
    assert usual.launched == [(computes, (2,), [["now"], {}])]


def of_rows(x_array: Any, n_rows: int, BLOCK_SIZE: tiles.Constant[int]) -> None:
    """The Python function of a kernel with a tensor, a number and a constant."""


of_rows.__annotations__ = {"BLOCK_SIZE": tiles.Constant[int]}  # as kernels have it


@pytest.mark.parametrize(
    ("other", "is_alike"),
    [
        ((torch.zeros(35, 37), 35, 64), True),
        ((torch.zeros(35, 37), 35, 32), False),
        ((torch.zeros(32, 37), 32, 64), False),
        ((torch.zeros(35, 36), 35, 64), False),
        ((torch.zeros(33 * 37 + 1)[1:].view(33, 37), 33, 64), False),
        ((torch.zeros(37, 33).T, 33, 64), False),
        ((torch.zeros(35, 37, dtype=torch.float16), 35, 64), False),
    ],
)
def test_what_is_compiled_alike_is_compiled_ahead_once_and_nothing_else_is_waited_for(
    monkeypatch: pytest.MonkeyPatch, other: tuple[Any, ...], is_alike: bool
) -> None:
    begun, is_begun, may_end = list[Any](), threading.Event(), threading.Event()

    def real(stream: Any, grid: Any, kernel: Any, arguments: tuple[Any, ...]) -> None:
        begun.append(arguments[0])
        is_begun.set()
        if stream == "ahead":
            may_end.wait(10)

    monkeypatch.setattr(tiles, "_real_launch", lambda: real)
    kernel = Real()
    kernel._pyfunc = of_rows
    tiles.watch(lambda: Run(nullcontext))  # type: ignore[arg-type, return-value]
    first = (torch.zeros(33, 37), 33, 64)
    tiles.launch("ahead", (1,), kernel, first)
    assert is_begun.wait(10)
    tiles.watch(Run)  # type: ignore[arg-type, return-value]
    if is_alike:
        threading.Timer(0.2, may_end.set).start()
    tiles.launch(None, (1,), kernel, other)
    assert begun[-1] is other[0] and may_end.is_set() is is_alike
    may_end.set()
    tiles.watch(lambda: Run(nullcontext))  # type: ignore[arg-type, return-value]
    tiles.launch("ahead", (1,), kernel, first)
    assert len(begun) == 2, "what was begun is not begun again"


def test_what_is_no_kernel_is_not_launched() -> None:
    with pytest.raises(TypeError, match="a str is no kernel of cuTile"):
        tiles.launch(None, (1,), "kernel", ())


@pytest.mark.parametrize(
    ("text", "is_of_it"),
    [("import cuda.tile as ct\n", True), ("from cuda.tile import kernel\n", True), ("from cuda import tile\n", True),
     ("import triton  # no cuda.tile here\n", False), ("import cuda_tile\n", False)],
)  # fmt: skip
def test_a_file_is_of_cutile_by_its_imports(text: str, is_of_it: bool) -> None:
    assert of_tiles(text) is is_of_it


def test_hints_are_taken_but_for_the_one_with_which_values_were_others() -> None:
    def kernel() -> None:
        """Does nothing."""

    assert isinstance(tiles.kernel(occupancy=4, num_worker_warps=8)(kernel), tiles.Kernel)
    with pytest.raises(Violation, match="num_ctas"):
        tiles.kernel(num_ctas=2)
