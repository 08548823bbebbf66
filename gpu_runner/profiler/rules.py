"""From counters to findings by rules that name their thresholds, and from findings to a diagnosis of each pass. Pure.

Source of the thresholds of shares: the rules that come with Nsight Compute (sections/SpeedOfLight.py, SOLBottleneck: under 60% of
both compute and memory is called latency, above 80% well used; sections/CPIStall.py: a reason of more than 30% is named;
sections/Occupancy.py), and CUDA C++ Best Practices Guide, sections Occupancy and Thread and Block Heuristics.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from gpu_runner.contracts.benchmark import Pass
from gpu_runner.contracts.profiling import Bound, Finding, GpuPeaks, KernelCounters, Roofline

BUSY = 0.6
IDLE = 0.4
LOW_OCCUPANCY = 0.25
LONG_STALL = 0.3
REFETCHED = 1.3  # times the bytes that must move
OTHERS_SHARE = 0.1  # of a pass's time
# Under this a pass is shorter than what it takes to launch it from Python.
# Source: a Triton launch takes the host 5 to 20 us (triton-lang/triton, issues on launch overhead); see also ``host_us``.
SHORT_US = 5.0

Measure = Callable[[KernelCounters, GpuPeaks], float | None]


@dataclass(frozen=True)
class ProfileRule:
    """A rule on one launch: it applies where ``measure`` returns a value, which is reported with the threshold."""

    name: str
    metric: str
    threshold: float
    bound: Bound
    measure: Measure


def _memory_busy(kernel: KernelCounters, _: GpuPeaks) -> float | None:
    """The device memory is the limit: no more bytes fit into the time. Source: SOLBottleneck."""
    return _at_least(kernel.dram_share, BUSY)


def _l2_busy(kernel: KernelCounters, _: GpuPeaks) -> float | None:
    """The L2 cache works hard and the device memory does not: the same data is fetched again. Source: SOLBottleneck."""
    return _at_least(kernel.l2_share, BUSY) if (kernel.dram_share or 0.0) < IDLE else None


def _compute_busy(kernel: KernelCounters, _: GpuPeaks) -> float | None:
    """The multiprocessors issue near their peak. Source: SOLBottleneck."""
    return _at_least(kernel.sm_share, BUSY)


def _tensor_busy(kernel: KernelCounters, _: GpuPeaks) -> float | None:
    """The matrix units are near their peak. Source: SOLBottleneck, pipe utilization."""
    return _at_least(kernel.tensor_share, BUSY)


def _few_programs(kernel: KernelCounters, gpu: GpuPeaks) -> float | None:
    """Fewer programs than multiprocessors leave some of them without work. Source: Best Practices Guide, block heuristics."""
    if kernel.grid is None or gpu.multiprocessors is None or not _is_idle(kernel):
        return None
    share = kernel.grid / gpu.multiprocessors
    return share if share < 1.0 else None


def _low_occupancy(kernel: KernelCounters, _: GpuPeaks) -> float | None:
    """Too few warps to hide latency, and no unit is busy. Source: Best Practices Guide, occupancy; Nsight's Occupancy rule."""
    if kernel.occupancy is None or kernel.occupancy >= LOW_OCCUPANCY or not _is_idle(kernel):
        return None
    return kernel.occupancy


def _no_unit_busy(kernel: KernelCounters, _: GpuPeaks) -> float | None:
    """No unit is busy: the time goes to waiting. Source: SOLBottleneck, its call of latency, at a stricter threshold."""
    return max(_shares(kernel)) if _is_idle(kernel) else None


def _spills(kernel: KernelCounters, _: GpuPeaks) -> float | None:
    """Registers that did not fit went through local memory. Source: Best Practices Guide, register pressure."""
    return float(kernel.spilled_bytes) if kernel.spilled_bytes else None


def _long_stall(kernel: KernelCounters, _: GpuPeaks) -> float | None:
    """Warps wait for one reason most of the time, and no unit is busy. Source: Nsight's CPIStall rule."""
    if not kernel.stalls or max(_shares(kernel), default=0.0) >= BUSY:
        return None
    return _at_least(kernel.stalls[0].share, LONG_STALL)


def _at_least(value: float | None, threshold: float) -> float | None:
    return value if value is not None and value >= threshold else None


RULES = (
    ProfileRule("memory_busy", "dram_share", BUSY, Bound.memory, _memory_busy),
    ProfileRule("compute_busy", "sm_share", BUSY, Bound.compute, _compute_busy),
    ProfileRule("tensor_busy", "tensor_share", BUSY, Bound.compute, _tensor_busy),
    ProfileRule("l2_busy", "l2_share", BUSY, Bound.locality, _l2_busy),
    ProfileRule("few_programs", "grid / multiprocessors", 1.0, Bound.latency, _few_programs),
    ProfileRule("low_occupancy", "occupancy", LOW_OCCUPANCY, Bound.latency, _low_occupancy),
    ProfileRule("nothing_busy", "largest share", IDLE, Bound.latency, _no_unit_busy),
    ProfileRule("spills", "spilled_bytes", 0.0, Bound.locality, _spills),
    ProfileRule("long_stall", "stall share", LONG_STALL, Bound.latency, _long_stall),
)


def examine(
    rooflines: Sequence[Roofline], kernels: Sequence[KernelCounters], gpu: GpuPeaks
) -> tuple[tuple[Finding, ...], tuple[tuple[Pass, Bound], ...]]:
    findings = _of_launches(kernels, gpu)
    for line in rooflines:
        findings += _of_pass(line, [item for item in kernels if _belongs(item, line)])
    passes = list(dict.fromkeys(line.timed_pass for line in rooflines))
    return tuple(findings), tuple((item, diagnose(item, rooflines, kernels, gpu)) for item in passes)


def diagnose(
    timed_pass: Pass, rooflines: Sequence[Roofline], kernels: Sequence[KernelCounters], gpu: GpuPeaks
) -> Bound:
    """The bound of most of a pass's measured time; without measurements the roofline's."""
    lines = [line for line in rooflines if line.timed_pass is timed_pass]
    weights: dict[Bound, float] = {}
    for line in lines:
        here = [item for item in kernels if _belongs(item, line)]
        moved = _refetched(line, here)
        for kernel in here:
            bound = bound_of(kernel, gpu)
            bound = Bound.locality if moved is not None and bound is Bound.memory else bound
            weights[bound] = weights.get(bound, 0.0) + (kernel.duration_us or 0.0)
    if any(weights.values()):
        return max(weights, key=lambda bound: weights[bound])
    return _analytic(lines)


def bound_of(kernel: KernelCounters, gpu: GpuPeaks) -> Bound:
    """The bound of one launch: that of the first rule that applies, else of its busiest unit."""
    for rule in RULES:
        if rule.name != "spills" and rule.measure(kernel, gpu) is not None:
            return rule.bound
    units = [
        (kernel.dram_share, Bound.memory), (kernel.sm_share, Bound.compute), (kernel.tensor_share, Bound.compute),
        (kernel.l2_share, Bound.locality),
    ]  # fmt: skip
    known = [(share, bound) for share, bound in units if share is not None]
    return max(known, key=lambda pair: pair[0])[1] if known else Bound.unknown


def _of_launches(kernels: Sequence[KernelCounters], gpu: GpuPeaks) -> list[Finding]:
    """One finding for each rule, kernel and pass, with the median over its launches."""
    values: dict[tuple[str, str, Pass], list[float]] = {}
    for rule in RULES:
        for kernel in kernels:
            value = rule.measure(kernel, gpu)
            if value is not None:
                values.setdefault((rule.name, kernel.kernel, kernel.timed_pass), []).append(value)
    by_name = {rule.name: rule for rule in RULES}
    findings = []
    for (name, kernel_name, timed_pass), seen in values.items():
        rule = by_name[name]
        subject = f"{kernel_name} ({timed_pass})"
        findings.append(Finding(name, rule.metric, statistics.median(seen), rule.threshold, rule.bound, subject))
    return findings


def _of_pass(line: Roofline, kernels: Sequence[KernelCounters]) -> list[Finding]:
    subject = f"{line.timed_pass} at {line.workload.label()}"
    findings = []
    moved = _refetched(line, kernels)
    if moved is not None:
        findings.append(
            Finding("moves_more", "dram bytes / bytes that must move", moved, REFETCHED, Bound.locality, subject)
        )
    others = _others_share(kernels)
    if others >= OTHERS_SHARE:
        findings.append(
            Finding("other_kernels", "time share of other kernels", others, OTHERS_SHARE, Bound.locality, subject)
        )
    if line.floor_us is not None and line.floor_us < SHORT_US:
        findings.append(Finding("short", "floor_us", line.floor_us, SHORT_US, Bound.latency, subject))
    return findings


def _refetched(line: Roofline, kernels: Sequence[KernelCounters]) -> float | None:
    """Bytes moved over the bytes that must move, where the ratio is above the threshold.

    Source: none but judgement: 1.3 leaves room for partial results and for rows that straddle sectors.
    """
    if not line.moved_bytes or not kernels or any(kernel.dram_bytes is None for kernel in kernels):
        return None
    times = sum(kernel.dram_bytes or 0 for kernel in kernels) / line.moved_bytes
    return times if times > REFETCHED else None


def _others_share(kernels: Sequence[KernelCounters]) -> float:
    total = sum(kernel.duration_us or 0.0 for kernel in kernels)
    others = sum(kernel.duration_us or 0.0 for kernel in kernels if not kernel.own)
    return others / total if total else 0.0


def _analytic(lines: Sequence[Roofline]) -> Bound:
    known = [line for line in lines if line.floor_us is not None]
    if not known:
        return Bound.unknown
    longest = max(known, key=lambda line: line.floor_us or 0.0)
    return Bound.latency if (longest.floor_us or 0.0) < SHORT_US else longest.bound


def _belongs(kernel: KernelCounters, line: Roofline) -> bool:
    return kernel.timed_pass is line.timed_pass and kernel.workload == line.workload


def _shares(kernel: KernelCounters) -> list[float]:
    shares = (kernel.dram_share, kernel.l2_share, kernel.sm_share, kernel.tensor_share)
    return [share for share in shares if share is not None]


def _is_idle(kernel: KernelCounters) -> bool:
    shares = _shares(kernel)
    return bool(shares) and max(shares) < IDLE
