"""Which counters are asked for, by Nsight Compute's names. A table.

Source: Nsight Compute documentation, Profiling Guide, sections Metrics Reference, Metrics Decoder and Warp Stall Reasons.
"""

from __future__ import annotations

DURATION = "gpu__time_duration.sum"
DRAM_SHARE = "dram__throughput.avg.pct_of_peak_sustained_elapsed"
DRAM_BYTES = "dram__bytes.sum"
L2_SHARE = "lts__throughput.avg.pct_of_peak_sustained_elapsed"
L2_HITS = "lts__t_sector_hit_rate.pct"
SM_SHARE = "sm__throughput.avg.pct_of_peak_sustained_elapsed"
TENSOR_SHARE = "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_elapsed"
OCCUPANCY = "sm__warps_active.avg.pct_of_peak_sustained_active"
REGISTERS = "launch__registers_per_thread"
# A Triton kernel has no arrays of its own in local memory: what goes there are registers that did not fit.
SPILLED = ("l1tex__t_bytes_pipe_lsu_mem_local_op_ld.sum", "l1tex__t_bytes_pipe_lsu_mem_local_op_st.sum")
GRID = "launch__grid_size"
BLOCK = "launch__block_size"

_STALL_PREFIX = "smsp__average_warps_issue_stalled_"
_STALL_SUFFIX = "_per_issue_active.ratio"
STALLS = (
    "barrier", "branch_resolve", "dispatch_stall", "drain", "imc_miss", "lg_throttle", "long_scoreboard",
    "math_pipe_throttle", "membar", "mio_throttle", "no_instruction", "not_selected", "selected", "short_scoreboard",
    "sleeping", "tex_throttle", "wait",
)  # fmt: skip
BUSY = ("selected", "not_selected")  # the warp could go on: no reason to wait


def stall_metric(reason: str) -> str:
    """The counter of a stall reason: warps in that state for each issued instruction."""
    return f"{_STALL_PREFIX}{reason}{_STALL_SUFFIX}"


METRICS = (
    DURATION, DRAM_SHARE, DRAM_BYTES, L2_SHARE, L2_HITS, SM_SHARE, TENSOR_SHARE, OCCUPANCY, REGISTERS, *SPILLED, GRID, BLOCK,
    *(stall_metric(reason) for reason in STALLS),
)  # fmt: skip
