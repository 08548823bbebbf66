"""What Nsight Compute measured, as a table. Pure."""

from __future__ import annotations

from gpu_runner.contracts import GpuPeaks, KernelCounters
from service.conversation.markdown import paragraphs, table
from service.conversation.quantities import DASH, counted, duration_us, percent, size_bytes
from service.escape import code, inline

MAX_ROWS = 24
MAX_STALLS = 3
HEADER = (
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
    """Give every kernel of the passes, those of the library first; columns that nothing was measured of are left out."""
    ordered = sorted(counters, key=lambda found: not found.own)
    rows = [_row(found) for found in ordered[:MAX_ROWS]]
    used = [i for i in range(len(HEADER)) if i < 3 or any(row[i] != DASH for row in rows)]
    more = len(ordered) - len(rows)
    return paragraphs(
        table([HEADER[i] for i in used], [[row[i] for i in used] for row in rows]),
        f"{counted(more, 'more launch').replace('launchs', 'launches')} not shown." if more > 0 else "",
    )


def peaks_line(peaks: GpuPeaks) -> str:
    """Give what the GPU can do, and how that is known."""
    facts = [f"{peaks.bandwidth_gbps:.0f} GB/s"]
    facts += [f"{peaks.matrix_tflops:.0f} TFLOP/s in matrix products"] if peaks.matrix_tflops else []
    facts += [f"{peaks.vector_tflops:.0f} TFLOP/s otherwise"] if peaks.vector_tflops else []
    how = "measured in the same run" if peaks.measured else f"by {inline(peaks.source, 160)}"
    return f"<sub>Limits of {inline(peaks.name, 60)}: {', '.join(facts)}; {how}.</sub>"


def _row(found: KernelCounters) -> list[str]:
    stalls = ", ".join(f"{inline(stall.reason, 40)} {percent(stall.share)}" for stall in found.stalls[:MAX_STALLS])
    shares = (found.dram_share, found.l2_share, found.sm_share, found.tensor_share, found.occupancy)
    return [
        code(found.kernel, 80) + ("" if found.own else " (not the library's)"),
        found.timed_pass.value,
        code(found.workload.label(), 80),
        duration_us(found.duration_us),
        *(percent(share) for share in shares),
        str(found.registers) if found.registers is not None else DASH,
        size_bytes(found.spilled_bytes) if found.spilled_bytes else DASH,
        stalls or DASH,
    ]
