"""Tables as Nsight Compute prints them with ``--csv --page raw``: lines of its own, a header, a row of units, a row a launch."""

from __future__ import annotations

from gpu_runner.profiler import metrics

_FIRST = (
    "ID", "Process ID", "Process Name", "Host Name", "Kernel Name", "Context", "Stream", "Block Size", "Grid Size", "Device",
    "CC",
)  # fmt: skip
_COUNTERS = (
    (metrics.DRAM_BYTES, "byte"), (metrics.DRAM_SHARE, "%"), (metrics.DURATION, "ns"),
    (metrics.SPILLED[0], "byte"), (metrics.SPILLED[1], "byte"),
    (metrics.BLOCK, ""), (metrics.GRID, ""), (metrics.REGISTERS, "register/thread"),
    (metrics.L2_HITS, "%"), (metrics.L2_SHARE, "%"), (metrics.TENSOR_SHARE, "%"), (metrics.SM_SHARE, "%"),
    (metrics.OCCUPANCY, "%"),
    (metrics.stall_metric("long_scoreboard"), "inst"), (metrics.stall_metric("barrier"), "inst"),
    (metrics.stall_metric("selected"), "inst"),
)  # fmt: skip
NORM = "_rms_norm_forward_kernel"
SPIN = "at::cuda::<unnamed>::spin_kernel(long)"
FILL = "void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<float>, std::array<char *, 1>>(int, T2, T3)"


def row(kernel: str, *values: str) -> list[str]:
    """Give a launch; the counters in the order of the table."""
    first = ("0", "20101", "python3.11", "127.0.0.1", kernel, "1", "7", "(512, 1, 1)", "(16384, 1, 1)", "0", "9.0")
    return [*first, *values]


MEMORY_BOUND = row(
    NORM, "536,887,296", "88.40", "138,912", "0", "0", "512", "16,384", "40", "49.97", "61.20", "0", "31.05", "92.11",
    "21.40", "1.10", "1.00",
)  # fmt: skip
NOTHING = row(
    SPIN, "128", "0.01", "3,200", "0", "0", "1", "1", "16", "80.1", "0.1", "0", "0.1", "1.5", "n/a", "n/a", "n/a"
)
SPILLING = row(
    "_rms_norm_backward_kernel", "1,610,612,736", "35.00", "410,000.5", "4,194,304", "2,097,152", "1,024", "132", "255",
    "12.00", "38.00", "0", "22.50", "24.00", "40.00", "10.00", "1.00",
)  # fmt: skip
OTHER = row(
    FILL,
    "32,768",
    "12.00",
    "90,000",
    "0",
    "0",
    "128",
    "64",
    "16",
    "50.0",
    "8.00",
    "n/a",
    "3.00",
    "30.00",
    "5.00",
    "0",
    "1.0",
)


def sheet(*rows: list[str], before: str = "") -> str:
    """Give the whole text."""
    header = [*_FIRST, *(name for name, _ in _COUNTERS)]
    units = ["" for _ in _FIRST] + [unit for _, unit in _COUNTERS]
    lines = [",".join(f'"{cell}"' for cell in cells) for cells in (header, units, *rows)]
    own = [
        "==PROF== Connected to process 20101 (/usr/bin/python3.11)",
        f'==PROF== Profiling "{NORM}" - 0: 0%....50%....100% - 9 passes',
        "==PROF== Disconnected from process 20101",
    ]
    return "\n".join([*([before] if before else []), *own, *lines]) + "\n"
