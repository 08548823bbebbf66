"""What conversations about modify share: two libraries, changes as a model would give them, and a model that gives them."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from gpu_runner.contracts import CaptureResult, CaseOutcome, TestCase, TestsResult, to_json
from tests.conversations.optimizing import so_fast
from tests.conversations.talk import Talk
from tests.recorded.libraries import PLAIN, STANDING
from tests.service.report.facts import VERDICT
from tests.workers.stages.library import PATH, SUITE
from workers import runtime
from workers.models.ledger import Models
from workers.models.protocol import Answer, ModelError, Question, Trouble, Usage

LIGER_SUITE = """\
import torch

from liger_kernel.ops.geglu import LigerGELUMulFunction


def expected(a, b):
    return torch.sigmoid(1.702 * a) * a * b


def test_values():
    a, b = torch.randn(4, 8), torch.randn(4, 8)
    torch.testing.assert_close(LigerGELUMulFunction.apply(a, b), expected(a, b))
"""
LIGER = STANDING | {SUITE: LIGER_SUITE.encode()}
ADDED = """\
def test_slope():
    a, b = torch.randn(4, 8), torch.randn(4, 8)
    wanted = torch.sigmoid(2.0 * a) * a * b
    torch.testing.assert_close(LigerGELUMulFunction.apply(a, b, 2.0), wanted)
"""
PROBLEM = '''\
"""A gated unit with a sigmoid of any slope on the gate."""

import torch


def reference(a: torch.Tensor, b: torch.Tensor, slope: float = 1.702) -> torch.Tensor:
    return (a.float() * torch.sigmoid(slope * a.float())).to(b.dtype) * b


INPUTS = {"a": "T I", "b": "T I"}
WORKLOADS = [{"T": 4096, "I": 11008, "slope": 2.0}]
CALL = "LigerGELUMulFunction.apply(a, b, slope)"
'''
SLOPE = (
    ("c_ptr, stride, n_cols, BLOCK_SIZE: tl.constexpr):", "c_ptr, stride, n_cols, slope, BLOCK_SIZE: tl.constexpr):"),
    ("(a * tl.sigmoid(1.702 * a)).to(b.dtype) * b", "(a * tl.sigmoid(slope * a)).to(b.dtype) * b"),
    ("da_ptr, db_ptr, stride, n_cols, BLOCK_SIZE", "da_ptr, db_ptr, stride, n_cols, slope, BLOCK_SIZE"),
    ("gate = tl.sigmoid(1.702 * a)", "gate = tl.sigmoid(slope * a)"),
    ("dc * b * (gate * (1 + 1.702 * a * (1 - gate)))", "dc * b * (gate * (1 + slope * a * (1 - gate)))"),
    ("def geglu_forward(a, b):", "def geglu_forward(a, b, slope=1.702):"),
    ("(a, b, c, a.stride(0), n_cols, BLOCK_SIZE", "(a, b, c, a.stride(0), n_cols, slope, BLOCK_SIZE"),
    ("def geglu_backward(a, b, dc):", "def geglu_backward(a, b, dc, slope=1.702):"),
    ("    _geglu_backward_kernel[(dc.shape[0],)](dc, a, b, da, db, a.stride(0), n_cols, BLOCK_SIZE=BLOCK_SIZE, num_warps=4)",
     "    _geglu_backward_kernel[(dc.shape[0],)](\n"
     "        dc, a, b, da, db, a.stride(0), n_cols, slope, BLOCK_SIZE=BLOCK_SIZE, num_warps=4\n"
     "    )"),
    ("    def forward(ctx, a, b):", "    def forward(ctx, a, b, slope=1.702):"),
    ("a, b, c = geglu_forward(a, b)", "a, b, c = geglu_forward(a, b, slope)"),
    ("ctx.save_for_backward(a, b)", "ctx.save_for_backward(a, b)\n        ctx.slope = slope"),
    ("geglu_backward(a, b, dc)\n        return", "geglu_backward(a, b, dc, ctx.slope)\n        return"),
    ("da.view(dc.shape), db.view(dc.shape)", "da.view(dc.shape), db.view(dc.shape), None"),
)  # fmt: skip
WORDS = "let the caller choose the slope of the gate"
NODES = ("test_values", "test_slope")

PLAIN_PATH, PLAIN_SUITE = "small/kernels/scale.py", "tests/test_scale.py"
PLAIN_PROBLEM = '''\
"""Scaling."""

import torch


def reference(x: torch.Tensor, factor: float = 3.0) -> torch.Tensor:
    return x * factor


INPUTS = {"x": {"dims": "T H", "grad": False}}
WORKLOADS = [{"T": 64, "H": 128}]
DTYPES = ["float32"]
CALL = "scale(x, factor)"
'''
PLAIN_TESTS = """\
import torch

from small.kernels.scale import scale


def test_values():
    x = torch.randn(5, 7)
    torch.testing.assert_close(scale(x, 2.0), x * 2.0)
"""
SMALL = PLAIN | {
    ".kernelsmith/problems/scale.py": PLAIN_PROBLEM.encode(),
    PLAIN_SUITE: PLAIN_TESTS.encode(),
}
EMPTY = ("    n = x.numel()\n", "    n = x.numel()\n    if n == 0:\n        return y\n")
PLAIN_ADDED = """\
def test_nothing_is_scaled():
    x = torch.empty(0, 7)
    torch.testing.assert_close(scale(x, 2.0), x)
"""

Said = dict[str, Any] | ModelError | Callable[[Question], dict[str, Any]]


def change(
    path: str, edits: tuple[tuple[str, str], ...], summary: str = "It takes a slope.", **more: Any
) -> dict[str, Any]:
    """Give the form of an answer; ``tests`` are added to ``suite``, ``problem`` is the new one, ``replies`` are texts in order."""
    told: dict[str, Any] = {
        "summary": summary,
        "edits": [{"path": path, "old": old, "new": new} for old, new in edits],
        "replies": [{"number": n, "text": text} for n, text in enumerate(more.get("replies", ()), 1)],
    }
    if "tests" in more:
        told["added_tests"] = {"path": more["suite"], "text": more["tests"]}
    return told | ({"problem": more["problem"]} if "problem" in more else {})


def slope(**more: Any) -> dict[str, Any]:
    """Give the change that lets a caller choose the slope."""
    return change(PATH, SLOPE, **({"suite": SUITE, "tests": ADDED, "problem": PROBLEM} | more))


@dataclass
class Speaker:
    """A model that says what it is told, in order; ``asked`` are its questions."""

    replies: list[Said]
    asked: list[Question] = field(default_factory=list)
    name: str = "scripted"
    model: str = "model-of-the-test"
    _guard: threading.Lock = field(default_factory=threading.Lock)

    def ask(self, question: Question, timeout_s: float, cancelled: Callable[[], bool]) -> Answer:
        with self._guard:
            self.asked.append(question)
            reply = (
                self.replies.pop(0) if self.replies else ModelError(Trouble.rejected, "nothing more was written for it")
            )
        if isinstance(reply, ModelError):
            raise reply
        data = reply(question) if callable(reply) else reply
        return Answer("", data, Usage(1000, 200), self.name, self.model, "req_1")

    def told(self, number: int) -> str:
        """Give all that a question said."""
        return "\n".join(part.text for message in self.asked[number].messages for part in message.parts)


def speaks(*replies: Said) -> Speaker:
    """Have the production ask a model that says these."""
    speaker = Speaker(list(replies))
    runtime.current().models = lambda: Models((speaker,))
    return speaker


def suite(path: str, *failed: str, nodes: tuple[str, ...] = NODES) -> TestsResult:
    """Give a run of these tests, some of which failed."""
    cases = tuple(
        TestCase(f"{path}::{node}", CaseOutcome.failed if node in failed else CaseOutcome.passed, 0.1) for node in nodes
    )
    summary = f"{len(failed)} failed, {len(nodes) - len(failed)} passed" if failed else f"{len(nodes)} passed in 0.20s"
    return TestsResult(not failed, 1 if failed else 0, cases, summary, "E   wrong" if failed else "")


def answers(talk: Talk, speedup: float = 1.0) -> None:
    """Have the runner find everything right, and the change so many times as fast."""
    talk.answer("capture", to_json(CaptureResult(None)), always=True)
    talk.answer("verify", to_json(VERDICT), always=True)
    talk.answer("benchmark", to_json(so_fast(speedup)), always=True)


def runs_tests(
    talk: Talk, path: str = SUITE, nodes: tuple[str, ...] = NODES, before: tuple[str, ...] = (), today: bool = True
) -> None:
    """Have the test file pass today and with a change, and its added tests fail without; ``before`` names those that do not."""
    first = [suite(path, nodes=nodes[:1])] if today else []
    for run in (*first, suite(path, nodes=nodes), suite(path, *(n for n in nodes[1:] if n not in before), nodes=nodes)):
        talk.answer("tests", to_json(run))
