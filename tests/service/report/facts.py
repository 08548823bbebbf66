"""The same job, profile, verdict and measurements for every message that is compared."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from gpu_runner.contracts import (
    BenchmarkResult,
    CaseOutcome,
    Check,
    Evidence,
    Pass,
    Status,
    TestCase,
    TestsResult,
    Timing,
    Verdict,
    Word,
    Workload,
    WorkloadTiming,
)
from service.report.layout import Links
from workers.contracts import (
    AnalyzeSummary,
    CheckpointUpdate,
    CheckpointView,
    Failure,
    FailureCode,
    GenerateSummary,
    Image,
    JobRequest,
    JobState,
    JobView,
    KernelProfile,
    LearnableParameter,
    ModuleParameter,
    Origin,
    ProblemKind,
    ProblemText,
    ProfileTensor,
    StageName,
    StageState,
    StageView,
    StyleOutcome,
    ValidateSummary,
    Verb,
)

SHA = "1f2e3d4c5b6a79880011223344556677889900aa"
LINKS = Links("https://bot.example/jobs/j7k2", "https://github.com/octo-org/library", "kernelsmith[bot]")
PROBLEM = "def reference(a, b):\n    return F.relu(a) * b\n"
REQUEST = JobRequest(
    key="octo-org/library#12/comment-34/1",
    verb=Verb.create,
    kernel="reglu",
    origin=Origin(
        "octo-org/library",
        12,
        "octocat",
        34,
        url="https://github.com/octo-org/library/issues/12#issuecomment-34",
    ),
    base_ref="main",
    base_sha="0" * 40,
    snapshot="sha256:0",
    problem=ProblemText(ProblemKind.block, PROBLEM),
)
PIPELINE = (StageName.analyze, StageName.generate, StageName.validate)
PROFILE = KernelProfile(
    operation_name="reglu",
    function_class_name="LigerReGLUFunction",
    module_class_name="LigerReGLU",
    functional_name="liger_reglu",
    tier=1,
    tier_description="element-wise",
    closest_existing_kernel="geglu",
    forward_inputs=(ProfileTensor("a", "(T, I)", "input dtype"), ProfileTensor("b", "(T, I)", "input dtype")),
    forward_outputs=(ProfileTensor("y", "(T, I)", "same as input"),),
    forward_computation="y = max(a, 0) * b",
    precision_sensitive_ops=(),
    backward_saved_tensors=("a", "b"),
    backward_recompute="the mask of a",
    gradient_formulas=(("da", "dy * b where a > 0"), ("db", "dy * max(a, 0)")),
    grid_dimensions="1D",
    grid_description="one program per row",
    block_size_source="calculate_settings(n_cols)",
    needs_sm_parallelism=False,
    module_init_params=(ModuleParameter("bias", "bool", "False"),),
    learnable_params=(LearnableParameter("weight", "(I,)", "ones"),),
    benchmark_variable="T",
    benchmark_x_label="sequence length",
    benchmark_x_values_suggestion=(1024, 2048),
    benchmark_providers=("liger", "torch"),
    benchmark_fixed_config=(("I", "14336"),),
)
VERDICT = Verdict(
    Status.passed,
    checks=(
        Check("values", "T=7 I=129 float32", True, "output 0", 1e-7, 2e-6),
        Check("values", "T=1 I=1 bfloat16", True, "output 0", 3e-3, 8e-3),
        Check("gradient", "T=7 I=129 float32", True, "gradient of a", 2e-7, 2e-6),
        Check("written", "T=7 I=129 float32", True),
    ),
    deterministic=True,
    seeds=5,
    kernels=("_reglu_forward", "_reglu_backward"),
    peak_forward_bytes=3 * 2**20,
    peak_backward_bytes=5 * 2**20,
)
WRONG = Verdict(
    Status.incorrect_gradient,
    evidence=(
        Evidence(
            "gradient",
            "The gradient of `a` is wrong in 3 rows.",
            "T=7 I=129 float32",
            "gradient of a",
            (3, 17),
            0.5,
            0.25,
            0.31,
            2e-6,
            41,
            "Traceback\n```\n@octocat",
        ),
    ),
    checks=(Check("gradient", "T=7 I=129 float32", False, "gradient of a", 0.31, 2e-6),),
    deterministic=False,
    seeds=1,
)
WORKLOAD = Workload((("T", 4096), ("I", 14336)), "bfloat16")


def timed(timed_pass: Pass, candidate_us: float, word: Word, speedup: float) -> WorkloadTiming:
    """Give one measured row."""
    timings = (
        Timing("candidate", candidate_us, candidate_us * 0.99, candidate_us * 1.02, 20, 2**20),
        Timing("eager", candidate_us * 2, blocks=20, peak_bytes=3 * 2**20),
        Timing("torch_compile", candidate_us * speedup, blocks=20, peak_bytes=2**20),
    )
    bounds = (speedup * 0.98, speedup * 1.02, "torch_compile")
    return WorkloadTiming(WORKLOAD, timed_pass, timings, 2**28, 2**24, candidate_us * 0.9, speedup, *bounds, word)


MEASURED = BenchmarkResult(
    (timed(Pass.forward, 120.0, Word.faster, 1.25), timed(Pass.full, 1480.0, Word.same, 1.0)),
    predicted=False,
    gpu="NVIDIA H200",
    bandwidth_gbps=4240.0,
)
PREDICTED = BenchmarkResult(
    (WorkloadTiming(WORKLOAD, Pass.forward, (Timing("candidate", 83.2),), 2**28, 2**24, 83.2),),
    predicted=True,
    gpu="NVIDIA H200",
    bandwidth_gbps=4240.0,
)
TESTS = TestsResult(
    True,
    0,
    (TestCase("test/test_reglu.py::test_correct[1]", CaseOutcome.passed, 0.5),),
    "1 passed in 0.50s",
    "",
)
ANALYZED = AnalyzeSummary(PROFILE, PROBLEM, "compiler", ("Rows are wide, so one program takes one row.",))
GENERATED = GenerateSummary(
    VERDICT, ("src/ops/reglu.py", "test/test_reglu.py"), "compiler", "y = max(a, 0) * b", PROFILE.gradient_formulas
)
VALIDATED = ValidateSummary(
    StyleOutcome(True, ("ruff check", "ruff format --check")),
    TESTS,
    VERDICT,
    MEASURED,
    TESTS,
    (Image("speed.png", "sha256:1", "Speed of reglu by sequence length"),),
    (("GPU", "NVIDIA H200"), ("torch", "2.13.0"), ("base commit", "000000000000")),
    "kernelsmith create problem.py --name reglu --repo . --auto",
)
INTERPRETED = replace(
    VALIDATED, verdict=replace(VERDICT, interpreted=True), benchmark=PREDICTED, script=None, images=()
)
FAILURE = Failure(
    FailureCode.tests,
    "the library's tests still fail after 3 attempts",
    "Look at the first failing test.",
    log="E   AssertionError: 0.5 != 0.25",
    attempts=("attempt 1: 2 failed", "attempt 2: 1 failed"),
)


def job(state: JobState, *stages: StageView, **fields: Any) -> JobView:
    """Give a job with these stage attempts."""
    common: dict[str, Any] = {
        "job_id": "j7k2",
        "request": REQUEST,
        "state": state,
        "pipeline": PIPELINE,
        "stages": stages,
        "created_at": "2026-05-04T10:00:00Z",
        "updated_at": "2026-05-04T10:05:00Z",
        "branch": "kernelsmith/reglu-j7k2",
    }
    return JobView(**(common | fields))


def attempt(stage: StageName, state: StageState, number: int = 1, **fields: Any) -> StageView:
    """Give one attempt of a stage."""
    return StageView(stage, number, state, **fields)


WAITING = job(
    JobState.waiting,
    attempt(StageName.analyze, StageState.waiting),
    head_sha=SHA,
    pull_number=13,
    checkpoint=CheckpointView(StageName.analyze, 1, SHA),
)
STOPPED = job(
    JobState.failed,
    attempt(StageName.analyze, StageState.done),
    attempt(StageName.generate, StageState.done),
    attempt(StageName.validate, StageState.failed, failure=FAILURE),
    head_sha=SHA,
    pull_number=13,
    failure=FAILURE,
)
DONE = job(JobState.done, *(attempt(stage, StageState.done) for stage in PIPELINE), head_sha=SHA, pull_number=13)
CHECKPOINTS = {
    "analyze": CheckpointUpdate(StageName.analyze, 1, ANALYZED),
    "generate": CheckpointUpdate(StageName.generate, 2, GENERATED),
    "validate": CheckpointUpdate(StageName.validate, 1, VALIDATED),
}
