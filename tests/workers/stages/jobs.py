"""Optimize jobs in memory, brought as far as a test wants them."""

from __future__ import annotations

from typing import Any

import pytest

from gpu_runner.contracts import from_json, to_json
from tests.workers.stages.answers import answers
from tests.workers.stages.context import Answers, FakeContext, optimizing
from workers.contracts import FinalizeSummary, Notes, OptimizeSummary, PlannedStrategy, StageName
from workers.engine.protocol import StageResult
from workers.stages.finalize import Finalize
from workers.stages.optimize import Optimize
from workers.stages.profiling import Profile
from workers.strategies.protocol import Proposed, Situation


class Written:
    """A strategy whose change is one line that the test gives."""

    document = "none.md"

    def __init__(self, number: int, line: str) -> None:
        self.id, self.title, self.line = f"s{number}", f"Strategy {number}", line

    def plan(self, situation: Situation) -> PlannedStrategy:
        assert situation.source
        return PlannedStrategy(self.id, self.title, "It is there.", 1.0, 1.3)

    def propose(self, situation: Situation) -> Proposed:
        return Proposed(situation.source + self.line + "\n", Notes("It may help.", "One line.", "Some."))


def profiled(made: Answers | None = None, tree: Any = None, **options: Any) -> FakeContext:
    """Give a job whose profile stands."""
    context = optimizing(answers() if made is None else made, tree, **options)
    context.run(Profile())
    return context.again()


def scripted(monkeypatch: pytest.MonkeyPatch, context: FakeContext, *lines: str) -> FakeContext:
    """Have the strategies that will be tried be these, each adding a line to the file that it starts from."""
    table = {made.id: made for made in (Written(number, line) for number, line in enumerate(lines, 1))}
    monkeypatch.setattr("workers.stages.variants.strategy_named", table.__getitem__)
    planned = [PlannedStrategy(s.id, s.title, "It is there.", 1.0, 1.3) for s in table.values()]
    context.results[StageName.profile] |= {"strategies": to_json(tuple(planned))}
    return context


def different(count: int) -> list[str]:
    """Give so many lines of code, no two of them the same."""
    return [f"LINE_{number} = {number}" for number in range(1, count + 1)]


def optimized(context: FakeContext) -> OptimizeSummary:
    """Run the stage and give what it leaves."""
    return from_json(OptimizeSummary, context.run(Optimize()).output["summary"])


def finalized(context: FakeContext) -> tuple[FinalizeSummary, StageResult]:
    """Run the stage and give what it leaves, with the updates that it asks for."""
    result = context.run(Finalize())
    return from_json(FinalizeSummary, result.output["summary"]), result


def text_of(context: FakeContext, name: str) -> str:
    """Give a variant's file."""
    return context.load(context.names[f"{name}.py"]).decode()
