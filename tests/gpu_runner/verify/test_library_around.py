"""A call that leads into code of the library around a candidate, which cannot be evaluated, says nothing of the next one."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

import pytest

from gpu_runner.context import RunContext
from gpu_runner.contracts import CandidateSource, SourceFile, Status
from gpu_runner.contracts.problem import parse_problem
from gpu_runner.contracts.verify import Check, Verdict
from gpu_runner.messages import RunCase
from gpu_runner.verify.answer import read_answer
from gpu_runner.verify.cases import Case
from gpu_runner.verify.judge import prove
from gpu_runner.verify.one_sided import IN_LIBRARY, demanded, one_sided
from gpu_runner.verify.opening import loaded
from gpu_runner.verify.proof import make_call

PROBLEM = """
import torch


def reference(x):
    return torch.relu(x)


INPUTS = {"x": {"dims": "T H", "grad": False}}
WORKLOADS = [{"T": 8, "H": 8}]
"""
LIBRARY = """
import threading

import torch

_LOCK = threading.Lock()


def relu(x):
    with _LOCK:
        return torch.relu(x)
"""
CANDIDATE = """
import torch
import triton
import triton.language as tl

from around import relu


@triton.jit
def _kernel(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n, other=0.0)
    tl.store(y_ptr + at, tl.where(x > 0.0, x, 0.0), mask=at < n)


def candidate(x):
    if x.shape[1] > 64:
        return relu(x)
    y = torch.empty_like(x)
    _kernel[(triton.cdiv(x.numel(), 32),)](x, y, x.numel(), BLOCK=32)
    return y
"""
FILES = (SourceFile("candidate.py", CANDIDATE),)
SOURCE = CandidateSource(FILES, tree="tree.tar.gz", screened=("candidate.py",))


@pytest.fixture
def context(tmp_path: Path) -> RunContext:
    with tarfile.open(tmp_path / "tree.tar.gz", "w:gz") as tree:
        member = tarfile.TarInfo("repo-1/around.py")
        member.size = len(LIBRARY)
        tree.addfile(member, io.BytesIO(LIBRARY.encode()))
    return RunContext(tmp_path)


def test_a_call_after_one_that_was_imported_is_evaluated_again(context: RunContext) -> None:
    sizes = [(("T", 5), ("H", 40)), (("T", 3), ("H", 96)), (("T", 7), ("H", 33))]
    cases = [Case(f"{place}", each, "float32", place + 5) for place, each in enumerate(sizes)]
    proofs, _ = prove(parse_problem(PROBLEM), cases, context)
    with loaded("candidate", SOURCE, proofs[0].form, context) as session:
        calls = [make_call(proof, poison=True) for proof in proofs]
        answers = [read_answer(session.call(RunCase(call.call), call.tensors)) for call in calls]
    assert [answer.imported for answer in answers] == ["", "It uses `threading.Lock`.", ""]
    assert [bool(answer.launched) for answer in answers] == [True, False, True]
    # What the kernel decides in the last of them is noted with what it decided before.
    assert answers[2].decisions.keys() >= answers[0].decisions.keys()
    assert any(decision.in_kernel for decision in answers[2].decisions)


def test_a_verdict_says_what_of_the_library_kept_a_decision_from_being_seen(context: RunContext) -> None:
    cases = [Case("drawn", (("T", 5), ("H", 40)), "float32", 5)]
    proofs, _ = prove(parse_problem(PROBLEM), cases, context)
    with loaded("candidate", SOURCE, proofs[0].form, context) as session:
        call = make_call(proofs[0], poison=True)
        decisions = read_answer(session.call(RunCase(call.call), call.tensors)).decisions
    seen = one_sided(decisions, FILES)
    library = Check("imported_library", "It uses `threading.Lock`.", True)
    verdict = demanded(Verdict(Status.passed, checks=(library,), one_sided=seen), FILES, {})
    assert verdict.status is Status.unproved
    assert verdict.evidence[0].message.startswith("`x.shape[1] > 64` was always false")
    assert verdict.evidence[-1].message == f"{IN_LIBRARY} It uses `threading.Lock`."
