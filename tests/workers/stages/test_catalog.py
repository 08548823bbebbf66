"""Entries of the strategy catalog for a kernel that is yet to be written: which hold, and that the request tells of them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from gpu_runner.contracts import BenchmarkResult, CaptureResult, Graph, Pass, Timing, Workload, WorkloadTiming
from tests.workers.compiler.captured import captured
from tests.workers.stages.context import FakeContext
from tests.workers.stages.creating import answers, creating, kernel
from tests.workers.stages.test_beating import analyzed as beating
from tests.workers.stages.test_search import down, generated
from workers.authors.llm.prompts import QuoteKind, quoted
from workers.authors.protocol import Proposal
from workers.contracts import AuthorName, Outcome, ProblemKind, ProblemText, UserFacingError
from workers.models.protocol import Question
from workers.stages.analyze import Analyze
from workers.stages.bench import CreateBench, reopen_create
from workers.stages.briefs import MOST_IDEAS, kernel_brief, situation_of_new
from workers.stages.generate import Generate
from workers.stages.headroom import counted
from workers.store import gains
from workers.strategies.catalog import STRATEGIES
from workers.strategies.gains import Trial
from workers.strategies.order import ordered
from workers.strategies.protocol import Stands

OF_THE_LIBRARY = {strategy.title for strategy in STRATEGIES if strategy.needs_kernel}
CALLED = '\nCALL = "RMSNormFunction.apply(x, weight, eps)"\n'


def with_another_operator(graph: Graph) -> Graph:
    """Give the graph with a step that the compiler does not know."""
    nodes = tuple(replace(n, op="aten.special_erfcx.default") if n.op == "rsqrt" else n for n in graph.nodes)
    return replace(graph, nodes=nodes)


def analyzed(name: str = "rms_norm", *, refused: bool = False, called: bool = False) -> FakeContext:
    """Give a create of a captured problem whose first stage stands, and whose model will not answer."""
    problem, graph = captured(name)
    source = problem.source + (CALLED if called else "")
    made = answers(capture=CaptureResult(with_another_operator(graph) if refused else graph))
    given = ProblemText(ProblemKind.block, source)
    context = creating([down()] * 3, made, given, name, author=AuthorName.llm, candidates=3)
    context.run(Analyze())
    return context


def bench_of(context: FakeContext) -> CreateBench:
    context.stage = Generate.name
    return reopen_create(context)


def asked(context: FakeContext) -> list[str]:
    with pytest.raises(UserFacingError):
        context.run(Generate())
    return [text_of(question) for question in context.questions.values()]


def text_of(question: Question) -> str:
    return "\n".join(part.text for message in question.messages for part in message.parts)


def titles(context: FakeContext) -> list[str]:
    return [idea.title for idea in kernel_brief(bench_of(context)).ideas]


def test_entries_whose_triggers_the_compilers_kernel_shows_stand_in_every_request() -> None:
    context = analyzed()
    bench = bench_of(context)
    start = bench.compiled()
    assert isinstance(start, Proposal)
    situation = situation_of_new(bench, counted(bench.problem, bench.graph), start.source, None)
    holding = [planned.title for planned in ordered(situation)]
    assert situation.stands is Stands.start and "Eviction hints on streamed loads" in holding
    brief = kernel_brief(bench)
    assert [idea.title for idea in brief.ideas] == [
        *holding,
        "Warps by block size alone",
        "Only innermost loops are pipelined",
    ]
    assert "of its floor" not in "".join(idea.text for idea in brief.ideas), "nothing was measured"
    for text in asked(context):
        assert all(quoted(QuoteKind.idea, idea.title, idea.text) in text for idea in brief.ideas)
        assert (
            text.index("# The compiled kernel") < text.index("# Entries of the strategy catalog") < text.index("# Your")
        )


def test_without_a_start_entries_are_told_by_the_problem_alone() -> None:
    context = analyzed(refused=True)
    brief = kernel_brief(bench_of(context))
    assert (brief.compiled, bool(brief.refused)) == (None, True)
    assert [(idea.title, idea.text[: idea.text.index(": memory") + 8]) for idea in brief.ideas] == [
        (
            "Recompute instead of save",
            "Backward needs what forward computes by `mul` at the size of an input, and memory bounds it. "
            "A kernel with it is expected to be 1.00 to 1.25 times as fast as one without; against: memory",
        ),
        (
            "A loop over rows on each multiprocessor",
            "1 of 1 sizes have at least 1024 rows, and every row reads all of `weight`. "
            "A kernel with it is expected to be 1.00 to 1.20 times as fast as one without; against: memory",
        ),
        (
            "Eviction hints on streamed loads",
            "Every row reads all of `weight`, and `x` only once: loads of that can be marked as evicted first. "
            "A kernel with it is expected to be 1.00 to 1.05 times as fast as one without; against: memory",
        ),
    ]
    assert brief.ideas[0].text.endswith("before they are rounded as they were.")
    assert "Counter-evidence: Arithmetic in backward" in brief.ideas[0].text
    for text in asked(context):
        assert all(quoted(QuoteKind.idea, idea.title, idea.text) in text for idea in brief.ideas)


def test_without_a_start_nothing_is_told_that_the_problem_does_not_show() -> None:
    assert titles(analyzed("sort")) == ["Several rows a program"]


@pytest.mark.parametrize("refused", [False, True])
def test_what_is_for_a_kernel_of_the_library_is_never_told_for_a_new_one(refused: bool) -> None:
    """A problem may say how a kernel is called; there is none to put a fast path in front of, or whose settings are measured."""
    assert "Compiled kernels as a fast path" in OF_THE_LIBRARY and "Launch settings by measurement" in OF_THE_LIBRARY
    context = analyzed(refused=refused, called=True)
    assert bench_of(context).problem.call is not None
    told = titles(context)
    assert told and not OF_THE_LIBRARY & set(told)


def test_the_measured_gap_is_told_where_the_compilers_kernel_is_to_be_beaten() -> None:
    context = beating([kernel()], over_floor=2.0)
    generated(context)
    text = text_of(context.questions["better-candidate-1"])
    ideas = text.partition("# Entries of the strategy catalog")[2]
    assert "forward runs at 0.50 of its floor, backward runs at 0.50 of its floor" in ideas
    assert "against: memory" in ideas
    assert "the floor is 50% of its time, bound by memory" in text.partition("# Entries")[0]


def test_no_entry_promises_more_than_the_measured_gap() -> None:
    bench = bench_of(analyzed())
    rows = tuple(
        WorkloadTiming(Workload((("B", 4),)), timed_pass, (Timing("candidate", 104.0),), 1, 1, 100.0, bound="compute")
        for timed_pass in (Pass.forward, Pass.backward)
    )
    near = BenchmarkResult(rows, predicted=False, gpu="NVIDIA H200", bandwidth_gbps=4240.0)
    ideas = kernel_brief(bench, measured=near).ideas[:-2]  # the last ones are of the language
    assert ideas
    assert all("1.00 to 1.04 times as fast; against: compute." in idea.text for idea in ideas)


def test_a_request_tells_what_the_problem_must_move_and_compute() -> None:
    for text in asked(analyzed(refused=True)):
        assert "forward at B=4 T=4096 H=8192: at least 536887296 bytes" in text


def test_entries_are_few_and_the_same_in_each_run() -> None:
    for name in ("rms_norm", "softmax", "cross_entropy"):
        context = analyzed(name)
        assert titles(context) == titles(context)
        assert len(titles(context)) <= MOST_IDEAS


def test_repairs_and_revisions_are_told_the_same_entries() -> None:
    bench = bench_of(analyzed())
    plain = kernel_brief(bench)
    changed: dict[str, Any] = {"before": "x = 1\n"}
    assert kernel_brief(bench, **changed).ideas == plain.ideas


def test_what_earlier_jobs_measured_is_told_with_the_gain() -> None:
    context = analyzed(refused=True)
    before = {
        f"v{n}": Trial("eviction_hints", "sm_90", f"lab/library {n}", Outcome.kept, ((2, 1.3),)) for n in range(9)
    }
    context.history(lambda session: gains.add(session, "earlier", before))
    first = kernel_brief(bench_of(context)).ideas[0]
    assert first.title == "Eviction hints on streamed loads"
    assert (
        "Tried 9 times before, on 9 kernels on other GPUs; 0 of these were unusable. A kernel with it is expected to be 1."
        in first.text
    )
