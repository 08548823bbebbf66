"""What is judged is not tuned by time: a drawn setting is taken, on a GPU one that launches, and one is tried before."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import triton
import triton.language as tl
from triton.runtime.autotuner import Autotuner
from triton.runtime.errors import OutOfResources

from gpu_runner.child.candidate import MOST_TRIED, take_any, take_one_that_launches
from gpu_runner.program.coverage import Decisions


@triton.jit
def _doubled(x, y, count, N: tl.constexpr, PLUS: tl.constexpr):
    at = tl.arange(0, N)
    tl.store(y + at, tl.load(x + at, mask=at < count) * 2 + PLUS, mask=at < count)


@triton.jit
def _added(x, y, count, N: tl.constexpr, PLUS: tl.constexpr):
    at = tl.arange(0, N)
    tl.store(y + at, tl.load(x + at, mask=at < count) + PLUS, mask=at < count)


def _too_large(_: dict[str, Any]) -> None:
    raise OutOfResources(300_000, 232_448, "shared memory")


@pytest.fixture
def untimed(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("prune_configs", "_bench"):
        monkeypatch.setattr(Autotuner, name, getattr(Autotuner, name))  # put back at the end
    take_one_that_launches()
    take_one_that_launches()


@pytest.mark.usefixtures("untimed")
def test_a_drawn_setting_that_launches_is_taken_for_each_key_and_no_other_is_tried() -> None:
    tried: list[int] = []

    def noted(arguments: dict[str, Any]) -> None:
        tried.append(arguments["PLUS"])

    configs = [
        triton.Config({"PLUS": 1}, pre_hook=_too_large),
        *(triton.Config({"PLUS": plus}, pre_hook=noted) for plus in (2, 3, 4)),
    ]
    kernel = triton.autotune(configs, key=["count"], reset_to_zero=["y"])(_doubled)
    for count in range(1, 9):
        x, y = torch.arange(float(count)), torch.full((count,), 9.0)
        kernel[(1,)](x, y, count, N=8)
        assert torch.equal(y, x * 2 + tried[-1])
    assert len(tried) == 16  # once as a trial, once as the launch
    assert tried[::2] == tried[1::2]
    assert len(set(tried)) > 1  # but in one run of 2,187


@pytest.mark.parametrize("keeps", [{}, {"reset_to_zero": ["y"]}, {"restore_value": ["y"]}])
def test_in_the_interpreter_another_setting_is_tried_once_for_each_key(
    monkeypatch: pytest.MonkeyPatch, keeps: dict[str, Any]
) -> None:
    for name in ("prune_configs", "_bench", "run"):
        monkeypatch.setattr(Autotuner, name, getattr(Autotuner, name))  # put back at the end
    take_any(Decisions())
    kernel = triton.autotune([triton.Config({"PLUS": plus}) for plus in (1, 10, 100)], key=["count"], **keeps)(_added)
    for count in (5, 6, 7, 8, MOST_TRIED):
        y = torch.zeros(count)
        kernel[(1,)](y, y, count, N=8)
        again = torch.zeros(count)
        kernel[(1,)](again, again, count, N=8)
        assert again[0] in (1, 10, 100)
        if keeps or count == MOST_TRIED:
            assert torch.equal(y, again)
        else:
            assert int(y[0] - again[0]) in {1, 10, 100} - {int(again[0])}


@pytest.mark.usefixtures("untimed")
def test_where_no_setting_launches_the_error_is_that_of_the_launch() -> None:
    configs = [triton.Config({"PLUS": plus}, pre_hook=_too_large) for plus in (1, 2)]
    kernel = triton.autotune(configs, key=["count"])(_doubled)
    x = torch.zeros(5)
    with pytest.raises(OutOfResources):
        kernel[(1,)](x, x, 5, N=8)
