"""Kernels of a port to ROCm through Triton's own compiler for GPUs of AMD, which needs none."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpu_runner.contracts import Problem
from tests.workers.compiler.captured import captured
from workers.authors.compiler import CompilerAuthor
from workers.authors.protocol import Brief, Proposal
from workers.contracts import UserFacingError
from workers.targets import amd
from workers.targets.rocm import ROCM


def proposal(name: str) -> tuple[Problem, Proposal]:
    problem, graph = captured(name)
    made = CompilerAuthor().propose(Brief(name, problem, graph, ROCM.style(name)))
    assert isinstance(made, Proposal)
    return problem, made


def test_a_kernel_is_asked_for_at_its_widest_rows_or_at_the_block_that_its_launch_writes() -> None:
    asked = {str(request["name"]): request for request in amd.requests(*proposal("softmax"))}
    assert asked["_softmax_forward_kernel"]["constants"] == {"BLOCK_ROWS": 1, "BLOCK_SIZE": 32768}
    assert asked["_softmax_forward_kernel_wide"]["constants"] == {"BLOCK_SIZE": 8192}
    assert {request["warps"] for request in asked.values()} == {16}


@pytest.mark.parametrize("name", ["rms_norm", "mse"])
def test_every_kernel_compiles_for_both_architectures(name: str) -> None:
    sentence = amd.compiled([proposal(name)])
    assert sentence.startswith("Compiled by Triton for gfx90a and gfx942 in bfloat16: at most ")
    assert "of 65,536 bytes of shared memory; " in sentence


def test_a_kernel_that_does_not_compile_is_refused_with_the_compilers_words() -> None:
    problem, made = proposal("mse")
    wrong = made.source.replace("tl.num_programs(0)", "tl.no_such_thing(0)")
    assert wrong != made.source
    with pytest.raises(UserFacingError) as raised:
        amd.compiled([(problem, replace(made, source=wrong))])
    assert "does not compile" in raised.value.failure.message and "no_such_thing" in (raised.value.failure.log or "")


def test_spills_are_named_and_more_shared_memory_than_there_is_is_refused() -> None:
    one: dict[str, object] = {"name": "k", "architecture": "gfx942", "registers": 512, "spilled": 3, "shared_bytes": 64}
    assert "spilled registers: `k` (3, gfx942)" in amd.told([one])
    with pytest.raises(UserFacingError, match="`k` takes 65,540 bytes of shared memory on gfx942"):
        amd.told([{**one, "shared_bytes": 65_540}])
