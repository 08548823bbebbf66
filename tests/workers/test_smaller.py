"""A KernelBench problem at smaller sizes: what may be smaller, what stays, and in which order."""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping

from gpu_runner.contracts import Problem, parse_problem
from workers.smaller import smaller

MODULE = """import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.scale = nn.Parameter(torch.randn(channels, 1))

    def forward(self, x):
        batch = x.shape[0]
        return (x * self.scale).view(batch, -1)


batch = 32 * 8
channels = 64
shape = (channels, 4095)


def get_inputs():
    return [torch.rand(batch, *shape)]


def get_init_inputs():
    return [channels]
"""
NAMED = """import torch


def reference(x, scale):
    return x


INPUTS = {"x": "D0 64 D1", "scale": {"dims": "64 1", "role": "parameter"}}
"""


def rewritten(workload: Mapping[str, int]) -> Problem:
    return parse_problem(f"{NAMED}WORKLOADS = [{dict(workload)!r}]\n")


def count(problem: Problem, sizes: Mapping[str, int]) -> int:
    return math.prod(int(dim) if dim.isdigit() else sizes[dim] for dim in problem.inputs[0].dims)


def made(source: str, most: int, workload: Mapping[str, int] | None = None) -> str | None:
    problem = rewritten(workload or {"D0": 256, "D1": 4095})
    return smaller(source, problem, functools.partial(count, problem), most)


def test_first_dimensions_are_halved_first_and_rows_stay_as_long_as_they_are() -> None:
    assert made(MODULE, 2**23) == MODULE.replace("batch = 32 * 8", "batch = 32")
    assert made(MODULE, 2**20) == MODULE.replace("batch = 32 * 8", "batch = 16").replace("4095", "1023")


def test_no_problem_is_made_larger_or_the_same() -> None:
    assert made(MODULE, 2**30) is None


def test_a_size_that_has_no_name_of_its_own_stays() -> None:
    baked = parse_problem(f"{NAMED.replace('D0', '256')}WORKLOADS = [{{'D1': 4095}}]\n")
    assert smaller(MODULE, baked, functools.partial(count, baked), 2**16) == MODULE.replace("4095", "3")
    assert made(MODULE, 2**10, {"D0": 256, "D1": 1000}) is None  # its get_inputs says other sizes


def test_a_size_stays_that_more_than_the_inputs_depends_on() -> None:
    source = MODULE.replace("return [channels]", "return [channels + batch]")
    assert made(source, 2**16) == source.replace("4095", "3")
    shared = MODULE.replace("return [channels]", "return [shape]").replace("(channels, 4095)", "(channels, width)")
    assert made(f"width = 4095\n{shared}", 2**16) == f"width = 4095\n{shared}".replace("batch = 32 * 8", "batch = 2")


def test_names_that_a_function_binds_itself_are_not_the_modules() -> None:
    found = made(MODULE, 2**22)
    assert found is not None and "batch = x.shape[0]" in found and "batch = 16" in found


def test_what_one_number_says_stays_one_size() -> None:
    source = MODULE.replace("shape = (channels, 4095)", "shape = (channels, batch)")
    found = made(source, 2**14, {"D0": 256, "D1": 256})
    assert found is not None and "batch = 16" in found
