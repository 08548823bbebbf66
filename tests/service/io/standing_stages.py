"""Stages of optimize, bench and verify that compute nothing and publish everything that the real ones publish."""

from __future__ import annotations

from typing import Any

from tests.service.io.pictures import PNG
from tests.service.report.kernels_facts import FINALIZED, MEASURE, OPTIMIZED, PROFILE_SUMMARY
from workers.contracts import (
    AssetsUpdate,
    CheckpointUpdate,
    CommitPurpose,
    CommitUpdate,
    FileChange,
    Image,
    MeasureSummary,
    PullRequestUpdate,
    ReadyUpdate,
    ReportUpdate,
    StageName,
)
from workers.engine.protocol import StageContext, StageResult


class Profile:
    """Shows an image and asks, before anything was committed."""

    name = StageName.profile

    def run(self, context: StageContext) -> StageResult:
        image = Image("today.png", context.artifact("today.png", PNG, "image/png"), "speed today")
        asked = CheckpointUpdate(self.name, context.attempt, PROFILE_SUMMARY, not context.request.options.auto)
        return StageResult({}, (AssetsUpdate((image,)), asked))


class Optimize:
    """Asks which variant to apply."""

    name = StageName.optimize

    def run(self, context: StageContext) -> StageResult:
        asked = CheckpointUpdate(self.name, context.attempt, OPTIMIZED, not context.request.options.auto)
        return StageResult({"feedback": [item.text for item in context.feedback]}, (asked,))


class Finalize:
    """Commits, opens the pull request, asks."""

    name = StageName.finalize

    def run(self, context: StageContext) -> StageResult:
        change = FileChange("kernels/geglu.py", "def geglu(a, b):\n    return b * a\n")
        updates: tuple[Any, ...] = (
            CommitUpdate(CommitPurpose.optimization, (change,), self.name, context.attempt),
            PullRequestUpdate(None, "def reference(a): ...", None, FINALIZED),
            ReadyUpdate(),
            CheckpointUpdate(self.name, context.attempt, FINALIZED, not context.request.options.auto),
        )
        return StageResult({}, updates)


class Measure:
    """Reports on the commits that it was asked for; ``before`` runs first, as something that happens meanwhile."""

    name = StageName.measure

    def __init__(self) -> None:
        self.before: list[Any] = []

    def run(self, context: StageContext) -> StageResult:
        request = context.request
        for happens in self.before:
            happens()
        summary = MeasureSummary(MEASURE.kernels, request.base_sha, request.head_sha or "", "the merge base with main")
        return StageResult({}, (ReportUpdate(summary),), checkpoint=False)
