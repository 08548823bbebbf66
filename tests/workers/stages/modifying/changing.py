"""Modify jobs in memory: the miniature library with a gated unit, and changes as a model gives them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from gpu_runner.contracts import CaptureResult, TestsResult
from tests.conversations.modifying import LIGER, WORDS, slope, suite
from tests.workers.stages.answers import PASSED, benchmark
from tests.workers.stages.context import Answers, FakeContext, Said, Spoken, optimizing
from tests.workers.stages.library import SUITE
from workers.contracts import ProblemKind, ProblemText, Verb
from workers.tree import Tree

TREE = Tree(dict(LIGER))
TODAY, AFTER = suite(SUITE, nodes=("test_values",)), suite(SUITE)
BEFORE = suite(SUITE, "test_slope")


def answers(**more: Any) -> Answers:
    """Give answers by which every change is right, and its added test fails without it."""
    plain: Answers = {
        "capture": CaptureResult(None),
        "verify": PASSED,
        "tests": AFTER,
        "tests tests-today": TODAY,
        "tests script": TODAY,
        "benchmark": benchmark(1.0),
    }
    return plain | {f"tests before-{key}": BEFORE for key in KEYS} | more


KEYS = (*(f"candidate-{n}" for n in range(1, 9)), *(f"repair-{n}" for n in range(1, 6)), "confirm")


def modifying(
    made: Answers | None = None,
    speaks: list[Said] | Spoken | None = None,
    tree: Tree = TREE,
    words: str = WORDS,
    problem: str | None = None,
    **options: Any,
) -> FakeContext:
    """Give the context of ``/kernel modify geglu``; the model makes the change that is asked for unless it is told otherwise."""
    context = optimizing(answers() if made is None else made, tree, **({"candidates": 1} | options))
    given = ProblemText(ProblemKind.missing) if problem is None else ProblemText(ProblemKind.block, problem)
    context.request = replace(context.request, verb=Verb.modify, words=words, problem=given)
    context.speaks = [slope()] if speaks is None else speaks
    return context


def ran(*failed: str, nodes: tuple[str, ...] = ("test_values", "test_slope")) -> TestsResult:
    """Give a run of the kernel's test file."""
    return suite(SUITE, *failed, nodes=nodes)
