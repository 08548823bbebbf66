"""A pipeline with stages that compute nothing, a runner that answers at once, and commands that ask for it."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from gpu_runner.contracts import Action, DoctorRequest
from workers.contracts import (
    AnalyzeSummary,
    CheckpointUpdate,
    CommitPurpose,
    CommitUpdate,
    FileChange,
    JobOptions,
    JobRequest,
    KernelProfile,
    Origin,
    ProblemKind,
    ProblemText,
    ReadyUpdate,
    StageName,
    Verb,
)
from workers.engine.protocol import Stage, StageContext, StageResult, Stages

RUNNER = (sys.executable, "-S", str(Path(__file__).with_name("fake_runner.py")))
PROFILE = KernelProfile(
    operation_name="reglu",
    function_class_name="LigerReGLUFunction",
    module_class_name="LigerReGLU",
    functional_name="liger_reglu",
    tier=1,
    tier_description="element-wise",
    closest_existing_kernel="geglu",
    forward_inputs=(),
    forward_outputs=(),
    forward_computation="relu(a) * b",
    precision_sensitive_ops=(),
    backward_saved_tensors=("a", "b"),
    backward_recompute="relu(a)",
    gradient_formulas=(),
    grid_dimensions="1",
    grid_description="a program a row",
    block_size_source="calculate_settings",
    needs_sm_parallelism=False,
    module_init_params=(),
    learnable_params=(),
    benchmark_variable="T",
    benchmark_x_label="T",
    benchmark_x_values_suggestion=(1024,),
    benchmark_providers=("liger",),
    benchmark_fixed_config=(),
)


class DiedError(BaseException):
    """Stands for the death of a process, which gives nothing back."""


class FakeStage:
    """Notes, computes, asks a GPU twice, commits and asks for a review."""

    def __init__(self, name: StageName) -> None:
        self.name = name
        self.runs = 0

    def run(self, context: StageContext) -> StageResult:
        self.runs += 1
        context.note("computing")
        value = context.memo("value", lambda: {"seen": [f.text for f in context.feedback]})
        context.emit(self._commit(context, CommitPurpose.reference, "first"))
        context.note("capturing")
        first = context.gpu("capture", DoctorRequest(), Action.doctor)
        context.artifact(f"{self.name.value}.txt", b"a log", "text/plain")
        context.note("proving")
        second = context.gpu("verify", DoctorRequest(quick=True), Action.doctor)
        assert first.request_id != second.request_id
        ending: tuple[Any, ...] = (
            self._commit(context, CommitPurpose.kernel, "second"),
            CheckpointUpdate(self.name, context.attempt, AnalyzeSummary(PROFILE, "problem", "compiler")),
        )
        if self.name is StageName.validate:
            ending = (*ending, ReadyUpdate())
        return StageResult({"stage": self.name.value, "value": value}, ending)

    def _commit(self, context: StageContext, purpose: CommitPurpose, text: str) -> CommitUpdate:
        change = FileChange(f"{self.name.value}.py", f"{text} {context.attempt}\n")
        return CommitUpdate(purpose, (change,), self.name, context.attempt)


def fake_stages() -> Stages:
    stages: dict[StageName, Stage] = {name: FakeStage(name) for name in StageName}
    return stages


def request(key: str = "comment/1", *, auto: bool = False, **changes: Any) -> JobRequest:
    plain = JobRequest(
        key=key,
        verb=Verb.create,
        kernel="reglu",
        origin=Origin("acme/kernels", 7, "mona", comment_id=11),
        base_ref="main",
        base_sha="a" * 40,
        snapshot="0" * 64,
        problem=ProblemText(ProblemKind.block, "def reference(a): return a"),
        options=JobOptions(auto=auto),
    )
    return replace(plain, **changes)
