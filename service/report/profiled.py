"""What bounds a kernel, and which strategies follow from it. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gpu_runner.contracts import Bound, Choice, Finding, GpuPeaks, KernelCounters, ProfileResult, Status, TuneResult
from service.escape import code, code_block, inline, sentence
from service.report.benchmarks import (
    CANDIDATE,
    CONTENDERS,
    ORIGINAL,
    benchmark_table,
    median_us,
    memory_table,
    with_interval,
)
from service.report.layout import (
    DASH,
    bullets,
    counted,
    duration_us,
    folded,
    geometric_mean,
    paragraphs,
    percent,
    pictures,
    ratio,
    size_bytes,
    table,
    usable,
)
from service.report.verdicts import excused_errors, verdict_section, verdict_words
from workers.contracts import (
    JobView,
    KernelReading,
    ModelReading,
    PlannedStrategy,
    ProfileSummary,
    Scope,
    SourceReading,
    format_scope,
)
from workers.npu_profile import NpuKernel

MAX_COUNTERS = 24
MAX_STALLS = 3
COUNTER_HEADER = (
    "kernel",
    "pass",
    "on",
    "time",
    "DRAM",
    "L2",
    "SM",
    "tensor cores",
    "occupancy",
    "registers",
    "spilled",
    "waits for",
)


def counters_section(counters: tuple[KernelCounters, ...]) -> str:
    """Every kernel of the passes, those of the library first; columns that nothing was measured of are left out."""
    ordered = sorted(counters, key=lambda each: not each.own)
    rows = [_counter_row(each) for each in ordered[:MAX_COUNTERS]]
    used = [i for i in range(len(COUNTER_HEADER)) if i < 3 or any(row[i] != DASH for row in rows)]
    more = len(ordered) - len(rows)
    return paragraphs(
        table([COUNTER_HEADER[i] for i in used], [[row[i] for i in used] for row in rows]),
        f"{counted(more, 'more launch').replace('launchs', 'launches')} not shown." if more > 0 else "",
    )


NPU_HEADER = (
    "kernel",
    "launches",
    "median",
    "bound by",
    "vector",
    "cube",
    "scalar",
    "loads",
    "stores",
    "GB/s",
    "programs",
)


def npu_kernels(kernels: Sequence[NpuKernel]) -> str:
    """What was counted of each kernel on an NPU, those that took most time first."""
    rows = [_npu_row(kernel) for kernel in kernels[:MAX_COUNTERS]]
    return table(NPU_HEADER, rows, numeric=range(1, len(NPU_HEADER)))


def _npu_row(kernel: NpuKernel) -> list[str]:
    shares = (kernel.vector_share, kernel.cube_share, kernel.scalar_share, kernel.load_share, kernel.store_share)
    moved = [f"{rate:.0f}" for rate in (kernel.read_gbps, kernel.write_gbps) if rate is not None]
    return [
        code(kernel.kernel, 80),
        str(kernel.launches),
        duration_us(kernel.duration_us),
        kernel.bound or DASH,
        *map(percent, shares),
        " + ".join(moved) or DASH,
        DASH if kernel.programs is None else str(kernel.programs),
    ]


def peaks_line(peaks: GpuPeaks) -> str:
    """What the GPU can do, and how that is known."""
    facts = [f"{peaks.bandwidth_gbps:.0f} GB/s"]
    facts += [f"{peaks.matrix_tflops:.0f} TFLOP/s in matrix products"] if peaks.matrix_tflops else []
    facts += [f"{peaks.vector_tflops:.0f} TFLOP/s otherwise"] if peaks.vector_tflops else []
    how = "measured in the same run" if peaks.measured else f"by {inline(peaks.source, 160)}"
    return f"<sub>Limits of {inline(peaks.name, 60)}: {', '.join(facts)}; {how}.</sub>"


def _counter_row(counters: KernelCounters) -> list[str]:
    stalls = ", ".join(f"{inline(stall.reason, 40)} {percent(stall.share)}" for stall in counters.stalls[:MAX_STALLS])
    shares = (counters.dram_share, counters.l2_share, counters.sm_share, counters.tensor_share, counters.occupancy)
    return [
        code(counters.kernel, 80) + ("" if counters.own else " (not the library's)"),
        counters.timed_pass.value,
        code(counters.workload.label(), 80),
        duration_us(counters.duration_us),
        *(percent(share) for share in shares),
        str(counters.registers) if counters.registers is not None else DASH,
        size_bytes(counters.spilled_bytes) if counters.spilled_bytes else DASH,
        stalls or DASH,
    ]


TIERS = {1: "element-wise", 2: "reduction", 3: "fused"}
NONE = "none"
MAX_KERNELS = 20
KERNEL_HEADER = ("kernel", "line", "block sizes", "launch", "grid", "loads", "stores", "casts", "loops", "atomics")


def reading_section(reading: SourceReading) -> str:
    """What was read."""
    tier = f"tier {reading.tier}, {TIERS[reading.tier]}" if reading.tier in TIERS else f"tier {reading.tier}"
    facts = [
        f"{code(reading.path, 160)}: {tier}",
        f"saved for backward: {', '.join(code(name, 60) for name in reading.saved_tensors[:20]) or NONE}",
        "an input is overwritten" if reading.in_place else "inputs are not modified",
        "its settings are tuned at run time" if reading.autotuned else "its settings are fixed rules",
        *(sentence(note) for note in reading.notes[:20]),
    ]
    rows = [_kernel_row(kernel) for kernel in reading.kernels[:MAX_KERNELS]]
    return paragraphs(bullets(facts), table(KERNEL_HEADER, rows, numeric=(1, 5, 6, 7, 8, 9)))


def _kernel_row(kernel: KernelReading) -> tuple[str, ...]:
    launch = ", ".join(code(f"{name}={value}", 60) for name, value in kernel.launch[:8])
    counts = (kernel.loads, kernel.stores, kernel.casts, kernel.loops, kernel.atomics)
    return (
        code(kernel.name, 80),
        str(kernel.line),
        ", ".join(code(name, 40) for name in kernel.block_sizes[:8]) or NONE,
        launch or NONE,
        code(kernel.grid, 100) if kernel.grid else inline("not found"),
        *(str(count) for count in counts),
    )


MAX_SETTINGS = 60


def tuned_section(result: TuneResult) -> str:
    """The settings that won, at every size, with what they gain over the default."""
    if result.architecture is None:
        return "**Nothing was tuned:** no GPU is available. The candidate was written unchanged."
    won = sum(bool(choice.settings) for choice in result.choices)
    ended = "" if result.complete else " The time ended before the search did."
    text = f"**{counted(won, 'setting')} better than the default**, of {counted(len(result.choices), 'size')} on"
    failed = [f"{code(settings)}: {inline(why, 160)}" for settings, why in result.failed[:MAX_SETTINGS]]
    header = ("pass", "workload", "size", "settings", "over the default (95% interval)", "tried")
    return paragraphs(
        f"{text} {inline(result.gpu or result.architecture, 60)}.{ended}",
        table(header, [_setting_row(choice) for choice in result.choices[:MAX_SETTINGS]], numeric=(2, 4, 5)),
        bullets([inline(note) for note in result.notes]),
        folded("Settings that do not run", bullets(failed)),
    )


def _setting_row(choice: Choice) -> tuple[str, ...]:
    settings = ", ".join(code(f"{name}={value}", 60) for name, value in choice.settings) or "the default"
    gained = with_interval(choice.speedup, choice.speedup_low, choice.speedup_high)
    return choice.tuned_pass.value, code(choice.workload.label()), str(choice.size), settings, gained, str(choice.tried)


BOUND_WORDS: dict[Bound, str] = {
    Bound.memory: "memory-bound",
    Bound.compute: "compute-bound",
    Bound.latency: "latency-bound",
    Bound.locality: "bound by locality",
    Bound.unknown: "of no known bound",
}
TITLES = {**CONTENDERS, CANDIDATE: "v0", ORIGINAL: "v0"}
IMPRECISE = (
    "**The existing kernel's errors exceed the tolerance for a new kernel**, but it computes the right function. It is "
    "measured as it is, and a variant's errors may be as large and no larger."
)
MAX_FINDINGS = 8
MAX_STEPS = 16
MODELS_WORDS = "Written by a model. Everything outside of this section is measured, or derived by rules."
MAX_STRATEGIES = 32
MAX_ROOFLINES = 60


def profiled_verdict(summary: ProfileSummary, job: JobView) -> str:
    """The bottleneck with its evidence in one line."""
    kernel = code(job.request.kernel)
    if summary.verdict.status is not Status.passed:
        return f"**{kernel} does not compute what its problem says:** {verdict_words(summary.verdict)}."
    gpu = inline(summary.profile.gpu.name, 60)
    if summary.nothing_to_gain:
        return (
            f"**{kernel} is already at the hardware limit on {gpu}, so there is nothing to gain:** {_limits(summary)}."
        )
    return f"**{kernel} is {_bounds(summary.profile)} on {gpu}:** {_limits(summary)}."


def profiled_sections(summary: ProfileSummary, image_urls: Mapping[str, str]) -> str:
    """The profile below its verdict: evidence, v0 at every size, the strategies in order, the source; the rest folded."""
    counters = summary.profile.counters_error
    return paragraphs(
        _aim(summary),
        _imprecision(summary),
        bullets([_finding(finding) for finding in summary.profile.findings[:MAX_FINDINGS]]),
        _diagnosis(summary.diagnosis),
        benchmark_table(summary.benchmark, TITLES),
        pictures(summary.images, image_urls),
        _strategies(summary),
        bullets([sentence(note) for note in summary.notes]),
        folded("Reading of the source", reading_section(summary.reading)),
        folded("Nsight Compute", counters_section(summary.profile.counters)),
        f"Nsight Compute was not used: {sentence(counters)}" if counters else "",
        folded("Proof of v0", verdict_section(summary.verdict)),
        folded("Peak memory", memory_table(summary.benchmark, TITLES)),
        folded("Problem", code_block(summary.problem_source, "python")),
        peaks_line(summary.profile.gpu),
    )


def _diagnosis(reading: ModelReading | None) -> str:
    """What a model says beside the rules; nothing where none was asked, or it gave nothing."""
    if reading is None:
        return ""
    steps = "\n".join(f"{n}. {inline(step, 600)}" for n, step in enumerate(reading.steps[:MAX_STEPS], 1))
    return folded(
        "A model's reading",
        paragraphs(
            MODELS_WORDS,
            inline(reading.bottleneck, 1_200),
            bullets([inline(line, 600) for line in reading.evidence[:MAX_STEPS]]),
            steps,
        ),
    )


def _imprecision(summary: ProfileSummary) -> str:
    """Say what today's kernel errs beyond what a new one would be allowed; nothing where it does not."""
    verdict = summary.verdict
    if not verdict.excused:
        return ""
    unsteady = " Two runs on the same inputs are not bitwise identical." if verdict.deterministic is False else ""
    return paragraphs(f"{IMPRECISE}{unsteady}", bullets(excused_errors(verdict)))


def profile_section(result: ProfileResult) -> str:
    """A profile by itself: what bounds each pass, by which evidence, and the roofline at every size."""
    rows = [
        (
            code(roofline.workload.label()),
            roofline.timed_pass.value,
            size_bytes(roofline.moved_bytes),
            f"{roofline.intensity:.3g}" if usable(roofline.intensity) else DASH,
            duration_us(roofline.memory_us),
            duration_us(roofline.compute_us),
            BOUND_WORDS[roofline.bound],
        )
        for roofline in result.rooflines[:MAX_ROOFLINES]
    ]
    header = ("workload", "pass", "bytes to move", "operations a byte", "by bytes", "by operations", "bound")
    counters = result.counters_error
    return paragraphs(
        f"**{_bounds(result)}** on {inline(result.gpu.name, 60)}",
        bullets([_finding(finding) for finding in result.findings[:MAX_FINDINGS]]),
        table(header, rows, numeric=(2, 3, 4, 5)),
        counters_section(result.counters),
        f"Nsight Compute was not used: {sentence(counters)}" if counters else "",
        peaks_line(result.gpu),
    )


def profiled_holds(summary: ProfileSummary) -> bool:
    """Whether what stands today computes what its problem says."""
    return summary.verdict.status is Status.passed


def _bounds(profile: ProfileResult) -> str:
    known = dict(profile.bounds)
    if not known:
        return BOUND_WORDS[Bound.unknown]
    if len(set(known.values())) == 1:
        return BOUND_WORDS[next(iter(known.values()))]
    return ", ".join(f"{BOUND_WORDS[bound]} in {name.value}" for name, bound in known.items())


def _limits(summary: ProfileSummary) -> str:
    """How far each pass is from its floor, where that was measured."""
    lines = []
    for timed_pass in dict.fromkeys(row.timed_pass for row in summary.benchmark.rows):
        shares = []
        for row in summary.benchmark.rows:
            median = median_us(row, CANDIDATE) or median_us(row, ORIGINAL)
            if row.timed_pass is timed_pass and usable(row.floor_us) and usable(median) and median > 0:
                shares.append(row.floor_us / median)
        mean = geometric_mean(shares)
        if mean is not None:
            lines.append(f"{timed_pass.value} reaches {percent(mean)}")
    if summary.benchmark.predicted or not lines:
        return "by bytes and operations, since no GPU was available to time it"
    return f"{', '.join(lines)} of the speed that the hardware allows"


def _aim(summary: ProfileSummary) -> str:
    scope = "both passes" if summary.scope is Scope.general else f"the {summary.scope.value} pass"
    sizes = format_scope(Scope.general, summary.regime)
    scope += f" at {code(sizes)} sizes" if summary.regime.part else f" at {code(sizes)}" if summary.regime.sizes else ""
    target = f", until {code(summary.target)}" if summary.target else ""
    return f"Goal: {summary.goal.value}, of {scope}{target}."


def _finding(finding: Finding) -> str:
    return (
        f"{code(finding.subject, 80)}: {inline(finding.metric, 80)} is {finding.value:.3g}, and the rule {code(finding.rule, 60)} "
        f"has its threshold at {finding.threshold:.3g}: {BOUND_WORDS[finding.bound]}"
    )


def _strategies(summary: ProfileSummary) -> str:
    planned = summary.strategies[:MAX_STRATEGIES]
    rows = [
        (str(number), inline(item.title, 80), sentence(item.trigger, 360), _gain(item))
        for number, item in enumerate(planned, 1)
    ]
    shown = table(("", "strategy", "because", "expected gain"), rows, numeric=(0,))
    return f"These would be tried, in this order:\n\n{shown}" if shown else ""


def _gain(item: PlannedStrategy) -> str:
    if item.gain is None:
        return "not known"
    return f"{ratio(item.gain_low)} to {ratio(item.gain_high)}"
