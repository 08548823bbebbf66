"""The same profile, variants and comparisons for every message about a kernel that exists."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from gpu_runner.contracts import (
    BenchmarkResult,
    Bound,
    Comparison,
    Conditions,
    Finding,
    GpuPeaks,
    KernelCounters,
    Pass,
    ProfileResult,
    Roofline,
    Stall,
    Status,
    Timing,
    Word,
    Workload,
    WorkloadTiming,
)
from tests.service.report.facts import PROBLEM, REQUEST, SHA, TESTS, VERDICT, attempt, job
from workers.contracts import (
    Breach,
    CheckpointView,
    Failure,
    FailureCode,
    FinalizeSummary,
    Goal,
    Guardrail,
    Image,
    JobState,
    KernelReading,
    MeasuredKernel,
    MeasureSummary,
    Notes,
    OptimizeSummary,
    Origin,
    Outcome,
    PlannedStrategy,
    ProfileSummary,
    Scope,
    SourceReading,
    StageName,
    StageState,
    StopReason,
    StyleOutcome,
    Variant,
    Verb,
)

BASE = "abc0123456789000000000000000000000000000"
SIZES = (Workload((("M", 2048), ("N", 4096)), "bfloat16"), Workload((("M", 2048), ("N", 16384)), "bfloat16"))
WIDTH = 0.01  # half of an interval


def compared(speedup: float, word: Word, contender: str = "candidate", baseline: str = "original") -> Comparison:
    return Comparison(contender, baseline, speedup, speedup * (1 - WIDTH), speedup * (1 + WIDTH), word, 20)


def row(workload: Workload, timed_pass: Pass, speedup: float, word: Word, memory: float = 1.0) -> WorkloadTiming:
    """Give one measured row: 200 microseconds before, and so many times as fast now."""
    old, new = 200.0, 200.0 / speedup
    timings = (
        Timing("candidate", new, new * 0.99, new * 1.02, 20, int(2**26 * memory), host_us=14.0),
        Timing("original", old, blocks=20, peak_bytes=2**26, host_us=16.0),
        Timing("control", old * 1.002, blocks=20, peak_bytes=2**26),
        Timing("eager", 900.0, blocks=20, peak_bytes=3 * 2**26),
        Timing("torch_compile", 210.0, blocks=20, peak_bytes=2**26),
    )
    best = 210.0 / new
    return WorkloadTiming(
        workload,
        timed_pass,
        timings,
        2**28,
        2**24,
        100.0,
        best,
        best * 0.99,
        best * 1.01,
        "torch_compile",
        Word.faster if best > 1.02 else Word.same,
        comparisons=(compared(speedup, word), compared(best, Word.faster, baseline="torch_compile")),
        control=compared(1.002, Word.same, "control", "original"),
        conditions=Conditions(1950, 1980, 3201, 54, ("sw_power_cap",), 1),
        bound="memory",
    )


def measured(*speedups: tuple[Pass, float, Word], memory: float = 1.0) -> BenchmarkResult:
    """Give a measurement of every size, with these speedups over the original."""
    rows = tuple(row(size, timed_pass, value, word, memory) for timed_pass, value, word in speedups for size in SIZES)
    return BenchmarkResult(rows, predicted=False, gpu="NVIDIA H200", bandwidth_gbps=4240.0)


FASTER = measured(
    (Pass.forward, 1.1, Word.faster), (Pass.backward, 1.6, Word.faster), (Pass.full, 1.4, Word.faster), memory=0.75
)
SAME = measured((Pass.forward, 1.001, Word.same), (Pass.backward, 0.999, Word.same))
SLOWER = measured((Pass.forward, 1.0, Word.same), (Pass.backward, 0.95, Word.slower), memory=1.1)
UNDECIDED = measured((Pass.forward, 0.985, Word.undecided))
V0 = replace(
    measured((Pass.forward, 1.0, Word.same), (Pass.backward, 1.0, Word.same)),
    rows=tuple(
        replace(
            item, timings=tuple(t for t in item.timings if t.contender not in ("candidate", "control")), comparisons=()
        )
        for item in measured((Pass.forward, 1.0, Word.same), (Pass.backward, 1.0, Word.same)).rows
    ),
)
NOTHING_TIMED = BenchmarkResult(
    (WorkloadTiming(SIZES[0], Pass.forward, (Timing("candidate", None),), 2**28, 2**24, 66.0),),
    predicted=True,
    gpu="NVIDIA H200",
    bandwidth_gbps=4240.0,
)
PEAKS = GpuPeaks("NVIDIA H200", 4240.0, 740.0, 60.0, 50 * 2**20, 132, "the maker's data sheet", measured=True)
PROFILED = ProfileResult(
    rooflines=(Roofline(SIZES[0], Pass.forward, 2**28, 2**24, 0, 0.06, 66.0, 0.3, 66.0, Bound.memory),),
    gpu=PEAKS,
    counters=(
        KernelCounters(
            "_rms_norm_backward_kernel",
            Pass.backward,
            SIZES[0],
            True,
            180.0,
            0.41,
            0.33,
            0.52,
            None,
            2**27,
            0.6,
            0.38,
            96,
            0,
            264,
            256,
            (Stall("long_scoreboard", 0.44), Stall("barrier", 0.2)),
        ),
    ),
    findings=(Finding("dram_idle", "share of the DRAM bandwidth", 0.41, 0.6, Bound.latency, "backward"),),
    bounds=((Pass.forward, Bound.memory), (Pass.backward, Bound.latency)),
)
READING = SourceReading(
    "src/ops/rms_norm.py",
    2,
    (
        KernelReading(
            "_rms_norm_backward_kernel",
            101,
            ("BLOCK_SIZE",),
            (("num_warps", "num_warps"),),
            "(sm_count,)",
            5,
            2,
            6,
            1,
            0,
        ),
    ),
    ("X", "RSTD", "W"),
    in_place=True,
    autotuned=False,
    notes=("`W` is loaded again for every row.",),
)
STRATEGIES = (
    PlannedStrategy("sweep", "Settings by size", "Settings are one rule for all sizes.", 1.02, 1.3, Bound.latency),
    PlannedStrategy("recompute", "Recompute instead of save", "`X` is saved | as a copy.", 1.0, 1.0, Bound.memory),
)
PROFILE_SUMMARY = ProfileSummary(
    READING,
    VERDICT,
    V0,
    PROFILED,
    STRATEGIES,
    PROBLEM,
    Goal.speed,
    Scope.general,
    "forward < 0.1 ms @ N=4096",
    notes=("Sizes are those of `benchmark/scripts/benchmark_rms_norm.py`.",),
)
NOTES = Notes(
    "Wide rows want more warps.",
    "`num_warps` comes from a table.",
    "Backward 1.1 to 1.3 times as fast.",
    "It did: 1.6.",
)
V1 = Variant(
    "v1",
    "v0",
    "sweep",
    "Settings by size",
    NOTES,
    Outcome.kept,
    "sha256:1",
    Status.passed,
    rows=FASTER.rows,
    score=1.35,
    settings=(("num_warps", "16"),),
)
V2 = Variant(
    "v2",
    "v1",
    "recompute",
    "Recompute | instead of save",
    replace(NOTES, learnings=""),
    Outcome.guardrail,
    "sha256:2",
    Status.passed,
    reason="Forward is 12% worse, and 10% are allowed.",
    rows=SLOWER.rows,
    score=0.97,
    breaches=(Breach(Guardrail.cross_regression, "time", Pass.forward, "M=2048 N=4096 bfloat16", 1.12, 1.1),),
)
V3 = Variant(
    "v3",
    "v1",
    "pipeline",
    "Pipelined loop",
    NOTES,
    Outcome.incorrect,
    status=Status.incorrect_gradient,
    reason="dW is wrong.",
)
OPTIMIZED = OptimizeSummary(
    (V1, V2, V3), "v1", StopReason.strategies_used, Goal.speed, Scope.general, False, "NVIDIA H200"
)
DIFF = """\
--- a/src/ops/rms_norm.py
+++ b/src/ops/rms_norm.py
@@ -1 +1 @@
-num_warps = 8
+num_warps = 16
"""
FINALIZED = FinalizeSummary(
    True,
    V1,
    (V1, V2, V3),
    StyleOutcome(True, ("ruff check",)),
    TESTS,
    VERDICT,
    FASTER,
    TESTS,
    DIFF,
    (Image("speed.png", "sha256:9", "Speed by size"),),
    (("GPU", "NVIDIA H200"), ("torch", "2.11.0")),
    "kernelsmith optimize rms_norm --repo . --auto",
    StopReason.strategies_used,
)
MISSING = Failure(FailureCode.missing, "there is no benchmark script for `softmax`", "Add one, or name the kernels.")
RMS = MeasuredKernel("rms_norm", "src/ops/rms_norm.py", ("src/ops/utils.py", "src/ops/rms_norm.py"), FASTER, VERDICT)
LAYER = MeasuredKernel("layer_norm", "src/ops/layer_norm.py", ("src/ops/utils.py",), SLOWER, VERDICT)
GEGLU = MeasuredKernel("geglu", "src/ops/geglu.py", ("src/ops/utils.py",), SAME, VERDICT)
SOFTMAX = MeasuredKernel("softmax", "src/ops/softmax.py", ("src/ops/utils.py",), skipped=MISSING)
MEASURE = MeasureSummary(
    (RMS, LAYER, GEGLU, SOFTMAX),
    BASE,
    SHA,
    "the merge base with main",
    provenance=(("GPU", "NVIDIA H200"),),
    reproduce="kernelsmith compare --repo . --against main",
)
STAGES = {
    Verb.optimize: (StageName.profile, StageName.optimize, StageName.finalize),
    Verb.bench: (StageName.measure,),
    Verb.verify: (StageName.measure,),
}


def asked(verb: Verb, state: JobState, **fields: Any) -> Any:
    """Give a job of one of the commands about kernels that exist."""
    url = "https://github.com/octo-org/library/pull/21#issuecomment-35"
    origin = Origin("octo-org/library", 21, "octocat", 35, is_pull=verb is not Verb.optimize, url=url)
    more: dict[str, Any] = {"kernel": "rms_norm"}
    if verb is not Verb.optimize:
        more = {"kernel": "pull-21", "head_sha": SHA}
    request = replace(REQUEST, verb=verb, origin=origin, base_sha=BASE, **more)
    stages = fields.pop("stages", ())
    return job(state, *stages, request=request, pipeline=STAGES[verb], **fields)


PROFILE_WAITS = asked(
    Verb.optimize,
    JobState.waiting,
    stages=(attempt(StageName.profile, StageState.waiting),),
    checkpoint=CheckpointView(StageName.profile, 1, BASE),
)
OPTIMIZE_DONE = asked(Verb.optimize, JobState.done, head_sha=SHA, pull_number=22)
BENCH_DONE = asked(Verb.bench, JobState.done, stages=(attempt(StageName.measure, StageState.done),))
VERIFY_DONE = asked(Verb.verify, JobState.done, stages=(attempt(StageName.measure, StageState.done),))
