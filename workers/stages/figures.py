"""What was measured of a kernel and its variants, and what it runs on, as lines for a model. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from gpu_runner.contracts import BenchmarkResult, GpuPeaks, KernelCounters, ProfileResult, Roofline, WorkloadTiming
from gpu_runner.peaks import DEFAULT, Gpu, find
from workers.contracts import Goal, Outcome, Scope, SourceReading, Variant
from workers.stages.bench import Profiled
from workers.stages.headroom import LAUNCH_US, time_of
from workers.strategies.evidence import original_us
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
OTHERS = ("eager", "torch_compile")
NAMES = {"torch_compile": "torch.compile"}
TERMS = (
    "Another kernel takes its place only where it is proved and, timed beside it in one run, is faster over all sizes, slower at "
    f"none in any pass, and needs at most {OTHER_METRIC - 1:.0%} more memory."
)


def figures(known: Profiled, goal: Goal, scope: Scope, parent: Variant | None) -> str:
    """A page on a kernel: its limits, what bounds it by which evidence, its times, and those of the variant to start from."""
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
    """Each variant's change and what was learned by it; an unchanged one taught nothing."""
    tried = [variant for variant in variants if variant.outcome is not Outcome.does_not_apply]
    return tuple((_changed(variant), _learned(variant)) for variant in tried)


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
        f"rule {finding.rule} on {finding.subject}: {finding.metric} is {finding.value:.3g}, threshold {finding.threshold:.3g}: "
        f"{finding.bound.value}"
        for finding in profile.findings[:MOST_FINDINGS]
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
    parts = [f"{launch.duration_us:.1f} us"] if launch.duration_us is not None else []
    parts += [f"{name} {share:.0%}" for name, share in shares if share is not None]
    parts += [f"{count} {name}" for name, count in counts if count is not None]
    parts += [f"stalled on {stall.reason} {stall.share:.0%}" for stall in launch.stalls[:MOST_STALLS]]
    whose = "" if launch.own else " (torch's)"
    return f"{launch.kernel}{whose}, {launch.timed_pass.value} at {launch.workload.label()}: {', '.join(parts)}"


def _times(known: Profiled, parent: Variant | None) -> list[str]:
    if known.benchmark.predicted:
        return [NOT_TIMED]
    rows = known.benchmark.rows[:MOST_ROWS]
    return [_time(row, parent.name if parent else "", parent.rows if parent else ()) for row in rows]


def _time(row: WorkloadTiming, name: str, of_parent: Sequence[WorkloadTiming]) -> str:
    others = {timing.contender: timing.median_us for timing in row.timings}
    now = original_us(row)
    parts = [f"v0 {now:.1f} us" if now is not None else "v0 was not timed"]
    same = next((o for o in of_parent if (o.workload, o.timed_pass) == (row.workload, row.timed_pass)), None)
    theirs = None if same is None else next((t.median_us for t in same.timings if t.contender == VARIANT), None)
    parts += [f"{name} {theirs:.1f} us"] if theirs is not None else []
    parts += [f"floor {row.floor_us:.1f} us"] if row.floor_us else []
    parts += [
        f"{other} {others[other]:.1f} us" for other in ("eager", "torch_compile") if others.get(other) is not None
    ]
    peak = next((t.peak_bytes for t in row.timings if t.contender in ("original", VARIANT) and t.peak_bytes), None)
    parts += [f"peak memory {peak} bytes"] if peak is not None else []
    return f"{row.timed_pass.value} at {row.workload.label()}: {', '.join(parts)}"


def _reading(reading: SourceReading) -> list[str]:
    saved = f"saved for backward: {', '.join(reading.saved_tensors)}" if reading.saved_tensors else ""
    return [line for line in (saved, *reading.notes[:MOST_REMARKS]) if line]


def _limits(known: Profiled, goal: Goal, scope: Scope) -> list[str]:
    lines = [
        f"goal: {goal.value}; scope: {scope.value}; another metric may get {OTHER_METRIC - 1:.0%} worse at most, another pass "
        f"{OTHER_PASS - 1:.0%}, at any size"
    ]
    overwrites = ", ".join(known.verdict.overwrites)
    return [*lines, f"v0 overwrites, and a variant may: {overwrites}"] if overwrites else lines


def compiled_figures(measured: BenchmarkResult) -> str:
    """The times of the compiler's kernel at each size, their floors and what bounds them, in lines."""
    head = f"The compiled kernel, timed on {measured.gpu or 'a GPU'} at the problem's own sizes, with a cold cache."
    rates = [f"{measured.bandwidth_gbps:.0f} GB/s"] if measured.bandwidth_gbps else []
    rates += [f"{measured.matrix_tflops:.0f} TFLOP/s in matrix products"] if measured.matrix_tflops else []
    rates += [f"{measured.vector_tflops:.0f} TFLOP/s otherwise"] if measured.vector_tflops else []
    floor = f"The floor is the least time that this GPU needs, as measured: {', '.join(rates)}." if rates else ""
    launch = f"Beside it stands a launch of about {LAUNCH_US:.0f} us."
    rows = [_compiled_line(row) for row in measured.rows[:MOST_ROWS]]
    return "\n\n".join(("\n".join(filter(None, (head, floor, launch))), "\n".join(rows), TERMS))


def _compiled_line(row: WorkloadTiming) -> str:
    time_us = time_of(row)
    parts = [f"{time_us:.1f} us" if time_us is not None else "not timed"]
    parts += [f"floor {row.floor_us:.1f} us"] if row.floor_us else []
    parts += [f"the floor is {row.floor_us / time_us:.0%} of its time"] if row.floor_us and time_us else []
    parts += [f"bound by {row.bound}"] if row.bound else []
    others = ((name, time_of(row, name)) for name in OTHERS)
    parts += [f"{NAMES.get(name, name)} {other:.1f} us" for name, other in others if other is not None]
    return f"{row.timed_pass.value} at {row.workload.label()}: {', '.join(parts)}"


REGISTERS = 65_536  # of 32 bits, of a multiprocessor; 255 for a thread at most
# Shared memory of a block in KiB, and threads of a multiprocessor.
# Source: NVIDIA, CUDA C++ Programming Guide, Compute Capabilities, "Technical Specifications per Compute Capability".
LIMITS = {
    "sm_80": (163, 2048),
    "sm_86": (99, 1536),
    "sm_89": (99, 1536),
    "sm_90": (227, 2048),
    "sm_100": (227, 2048),
    "sm_120": (99, 1536),
}


def hardware(host: Iterable[tuple[str, str]], wanted: str | None = None) -> str:
    """The lines for the facts of a GPU host; where it has no GPU, for the architecture that is ``wanted``, or a usual GPU."""
    facts = dict(host)
    name = facts.get("gpu")
    gpu = find(name) if name else find(wanted or "") or DEFAULT
    lines = [
        f"GPU: {name or f'none on this host; candidates run in the interpreter. Write for {gpu.name if gpu else wanted}'}"
    ]
    lines += _gpu_limits(gpu) if gpu else []
    versions = [f"{package} {facts[package].partition('+')[0]}" for package in ("triton", "torch") if package in facts]
    return "\n".join([*lines, f"versions: {', '.join(versions)}"] if versions else lines)


def _gpu_limits(gpu: Gpu) -> list[str]:
    shared_kib, threads = LIMITS[gpu.architecture]
    return [
        f"{gpu.architecture}, {gpu.multiprocessors} multiprocessors; each has {REGISTERS} 32-bit registers (at "
        f"most 255 for a thread) "
        f"and {threads} threads; a block has at most {shared_kib} KiB of shared memory",
        f"memory {gpu.bandwidth_gbps:.0f} GB/s, L2 cache {gpu.l2_bytes >> 20} MiB",
        f"{gpu.bf16_tflops:.0f} TFLOP/s in tl.dot of bfloat16 or float16, {gpu.fp32_tflops:.0f} TFLOP/s in "
        f"float32 elsewhere: memory "
        f"bounds whatever computes less than {gpu.fp32_tflops * 1e3 / gpu.bandwidth_gbps:.0f} float32 operations, or "
        f"{gpu.bf16_tflops * 1e3 / gpu.bandwidth_gbps:.0f} in tl.dot, for each byte",
    ]
