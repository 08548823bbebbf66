"""What was measured of a kernel and its variants, as lines for a model. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from gpu_runner.contracts import GpuPeaks, KernelCounters, ProfileResult, Roofline, WorkloadTiming
from workers.contracts import Goal, Outcome, Scope, SourceReading, Variant
from workers.stages.situation import Profiled
from workers.strategies.evidence import standing_us
from workers.strategies.search import OTHER_METRIC, OTHER_PASS, VARIANT

MOST_ROWS = 24
MOST_ROOFLINES = 12
MOST_COUNTERS = 8
MOST_STALLS = 4
MOST_FINDINGS = 12
MOST_REMARKS = 20
NOT_TIMED = (
    "Nothing was timed: no GPU took part. The floor of each row is that of the GPU named above, by its data sheet."
)


def figures(known: Profiled, goal: Goal, scope: Scope, parent: Variant | None) -> str:
    """Give a page on a kernel: its limits, what bounds it by which evidence, its times, and those of the variant to start from."""
    groups = (
        _gpu(known.profile.gpu),
        [f"bound of {timed_pass.value}: {bound.value}" for timed_pass, bound in known.profile.bounds],
        _findings(known.profile),
        [_roofline(roofline) for roofline in known.profile.rooflines[:MOST_ROOFLINES]],
        [_counters(launch) for launch in known.profile.counters[:MOST_COUNTERS]],
        _times(known, parent),
        _reading(known.reading),
        _limits(known, goal, scope),
    )
    return "\n\n".join("\n".join(group) for group in groups if group)


def notebook(variants: Iterable[Variant]) -> tuple[tuple[str, str], ...]:
    """Give what each variant changed and what was learned by it; one that changed nothing taught nothing."""
    told = [variant for variant in variants if variant.outcome is not Outcome.does_not_apply]
    return tuple((_changed(variant), _learned(variant)) for variant in told)


def _changed(variant: Variant) -> str:
    settings = "".join(f"; {name}: {value}" for name, value in variant.settings)
    supposed = f" Supposed: {variant.notes.hypothesis}" if variant.notes.hypothesis else ""
    return f"{variant.name}, made from {variant.parent}, {variant.title}: {variant.notes.change}{settings}.{supposed}"


def _learned(variant: Variant) -> str:
    score = f"; {variant.score:.3f} times as good as v0 by the goal" if variant.score is not None else ""
    broken = "".join(
        f"; {b.metric} of {b.timed_pass.value} at {b.workload} is {b.ratio:.3f} times v0's, and {b.allowed:.2f} is allowed"
        for b in variant.breaches
    )
    reason = "" if variant.reason is None or variant.reason == variant.notes.learnings else f"; {variant.reason}"
    return f"{variant.outcome.value}{score}{broken}{reason}; {variant.notes.learnings}".rstrip("; ")


def _gpu(gpu: GpuPeaks) -> list[str]:
    rates = [f"{gpu.bandwidth_gbps:.0f} GB/s"]
    rates += [f"{gpu.matrix_tflops:.0f} TFLOP/s in matrix products"] if gpu.matrix_tflops else []
    rates += [f"{gpu.vector_tflops:.0f} TFLOP/s otherwise"] if gpu.vector_tflops else []
    rates += [f"L2 cache of {gpu.l2_bytes / 2**20:.0f} MiB"]
    rates += [f"{gpu.multiprocessors} multiprocessors"] if gpu.multiprocessors else []
    return [f"GPU: {gpu.name}, {', '.join(rates)} ({'measured' if gpu.measured else gpu.source})"]


def _findings(profile: ProfileResult) -> list[str]:
    return [
        f"rule {found.rule} on {found.subject}: {found.metric} is {found.value:.3g}, threshold {found.threshold:.3g}: "
        f"{found.bound.value}"
        for found in profile.findings[:MOST_FINDINGS]
    ]


def _roofline(roofline: Roofline) -> str:
    parts = [
        f"at least {roofline.moved_bytes} bytes" if roofline.moved_bytes is not None else "",
        f"{roofline.flops} operations" if roofline.flops is not None else "",
        f"{roofline.memory_us:.1f} us by bytes" if roofline.memory_us is not None else "",
        f"{roofline.compute_us:.1f} us by operations" if roofline.compute_us is not None else "",
    ]
    return f"roofline of {roofline.timed_pass.value} at {roofline.workload.label()}: {', '.join(p for p in parts if p)}"


def _counters(launch: KernelCounters) -> str:
    shares = (
        ("DRAM", launch.dram_share),
        ("L2", launch.l2_share),
        ("SM", launch.sm_share),
        ("tensor cores", launch.tensor_share),
        ("L2 hits", launch.l2_hit_share),
        ("occupancy", launch.occupancy),
    )
    counts = (
        ("bytes of DRAM", launch.dram_bytes),
        ("registers a thread", launch.registers),
        ("bytes spilled", launch.spilled_bytes),
        ("programs", launch.grid),
        ("threads a program", launch.threads),
    )
    told = [f"{launch.duration_us:.1f} us"] if launch.duration_us is not None else []
    told += [f"{name} {share:.0%}" for name, share in shares if share is not None]
    told += [f"{count} {name}" for name, count in counts if count is not None]
    told += [f"stalled on {stall.reason} {stall.share:.0%}" for stall in launch.stalls[:MOST_STALLS]]
    whose = "" if launch.own else " (torch's)"
    return f"{launch.kernel}{whose}, {launch.timed_pass.value} at {launch.workload.label()}: {', '.join(told)}"


def _times(known: Profiled, parent: Variant | None) -> list[str]:
    if known.benchmark.predicted:
        return [NOT_TIMED]
    rows = known.benchmark.rows[:MOST_ROWS]
    return [_time(row, parent.name if parent else "", parent.rows if parent else ()) for row in rows]


def _time(row: WorkloadTiming, name: str, of_parent: Sequence[WorkloadTiming]) -> str:
    others = {timing.contender: timing.median_us for timing in row.timings}
    now = standing_us(row)
    told = [f"v0 {now:.1f} us" if now is not None else "v0 was not timed"]
    same = next((o for o in of_parent if (o.workload, o.timed_pass) == (row.workload, row.timed_pass)), None)
    theirs = None if same is None else next((t.median_us for t in same.timings if t.contender == VARIANT), None)
    told += [f"{name} {theirs:.1f} us"] if theirs is not None else []
    told += [f"floor {row.floor_us:.1f} us"] if row.floor_us else []
    told += [f"{other} {others[other]:.1f} us" for other in ("eager", "torch_compile") if others.get(other) is not None]
    peak = next((t.peak_bytes for t in row.timings if t.contender in ("original", VARIANT) and t.peak_bytes), None)
    told += [f"peak memory {peak} bytes"] if peak is not None else []
    return f"{row.timed_pass.value} at {row.workload.label()}: {', '.join(told)}"


def _reading(reading: SourceReading) -> list[str]:
    saved = f"saved for backward: {', '.join(reading.saved_tensors)}" if reading.saved_tensors else ""
    return [line for line in (saved, *reading.notes[:MOST_REMARKS]) if line]


def _limits(known: Profiled, goal: Goal, scope: Scope) -> list[str]:
    told = [
        f"goal: {goal.value}; scope: {scope.value}; another metric may get {OTHER_METRIC - 1:.0%} worse at most, another pass "
        f"{OTHER_PASS - 1:.0%}, at any size"
    ]
    overwrites = ", ".join(known.verdict.overwrites)
    return [*told, f"v0 overwrites, and a variant may: {overwrites}"] if overwrites else told
