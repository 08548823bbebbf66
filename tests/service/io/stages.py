"""Stages that compute nothing and publish everything that the real ones publish."""

from __future__ import annotations

from typing import Any

from gpu_runner.contracts import BenchmarkResult, Status, TestsResult, Verdict
from tests.service.io.pictures import PNG
from tests.service.io.standing_stages import Finalize, Measure, Optimize, Profile
from tests.workers.engine.fakes import PROFILE
from workers.contracts import (
    AnalyzeSummary,
    AssetsUpdate,
    CheckpointUpdate,
    CommitPurpose,
    CommitUpdate,
    Failure,
    FailureCode,
    FileChange,
    GenerateSummary,
    Image,
    PullRequestUpdate,
    ReadyUpdate,
    StageName,
    StyleOutcome,
    UserFacingError,
    ValidateSummary,
)
from workers.engine.protocol import Stage, StageContext, StageResult, Stages

VERDICT = Verdict(Status.passed, interpreted=True, seeds=3)


class Analyze:
    """Commits the reference, opens the pull request, asks."""

    name = StageName.analyze

    def __init__(self) -> None:
        self.fails: list[Failure] = []
        self.header = ""  # of the test file

    def run(self, context: StageContext) -> StageResult:
        if self.fails:
            raise UserFacingError(self.fails.pop(0))
        summary = AnalyzeSummary(PROFILE, "def reference(a): ...", "compiler")
        text = "".join(f"# asked: {item.text}\n" for item in context.feedback)
        change = FileChange("test/test_reglu.py", f"{self.header}REFERENCE = {context.attempt}\n{text}")
        return StageResult(
            {},
            (
                CommitUpdate(CommitPurpose.reference, (change,), self.name, context.attempt),
                PullRequestUpdate(PROFILE, "def reference(a): ..."),
                CheckpointUpdate(self.name, context.attempt, summary, not context.request.options.auto),
            ),
        )


class Generate:
    """Commits the kernel, asks."""

    name = StageName.generate

    def run(self, context: StageContext) -> StageResult:
        summary = GenerateSummary(VERDICT, ("ops/reglu.py",), "compiler", "relu(a) * b", ())
        change = FileChange("ops/reglu.py", f"KERNEL = {context.attempt}\r\n")
        return StageResult(
            {},
            (
                CommitUpdate(CommitPurpose.kernel, (change,), self.name, context.attempt),
                PullRequestUpdate(PROFILE, "def reference(a): ...", VERDICT),
                CheckpointUpdate(self.name, context.attempt, summary, not context.request.options.auto),
            ),
        )


class Validate:
    """Shows images, takes the pull request out of draft, asks."""

    name = StageName.validate

    def run(self, context: StageContext) -> StageResult:
        images = (Image("speed.png", context.artifact("speed.png", PNG, "image/png"), "a table of speed"),)
        tests = TestsResult(True, 0, (), "12 passed", "")
        benchmark = BenchmarkResult((), True, None, None)
        summary = ValidateSummary(
            StyleOutcome(True, ("ruff check",)), tests, VERDICT, benchmark, None, images, (), "kernelsmith bench"
        )
        updates: tuple[Any, ...] = (
            AssetsUpdate(images),
            ReadyUpdate(),
            CheckpointUpdate(self.name, context.attempt, summary, not context.request.options.auto),
        )
        return StageResult({}, updates)


def broken(message: str = "the problem does not run") -> Failure:
    return Failure(FailureCode.problem, message, "Correct it.", 3)


def stages(analyze: Analyze | None = None, measure: Measure | None = None) -> Stages:
    found: dict[StageName, Stage] = {
        StageName.analyze: analyze or Analyze(),
        StageName.generate: Generate(),
        StageName.validate: Validate(),
        StageName.profile: Profile(),
        StageName.optimize: Optimize(),
        StageName.finalize: Finalize(),
        StageName.measure: measure or Measure(),
    }
    return found
