"""What stands in a kernel's source, as a table. Pure."""

from __future__ import annotations

from service.conversation.markdown import bullets, paragraphs, table
from service.escape import code, inline, sentence
from workers.contracts import KernelReading, SourceReading

TIERS = {1: "element-wise", 2: "reduction", 3: "fused"}
NONE = "none"
MAX_KERNELS = 20
HEADER = ("kernel", "line", "block sizes", "launch", "grid", "loads", "stores", "casts", "loops", "atomics")


def reading_section(reading: SourceReading) -> str:
    """Give what was read."""
    tier = f"tier {reading.tier}, {TIERS[reading.tier]}" if reading.tier in TIERS else f"tier {reading.tier}"
    facts = [
        f"{code(reading.path, 160)}: {tier}",
        f"saved for backward: {', '.join(code(name, 60) for name in reading.saved_tensors[:20]) or NONE}",
        "it writes over an input" if reading.in_place else "it leaves its inputs as they are",
        "its settings are tuned at run time" if reading.autotuned else "its settings are fixed rules",
        *(sentence(note) for note in reading.notes[:20]),
    ]
    rows = [_row(kernel) for kernel in reading.kernels[:MAX_KERNELS]]
    return paragraphs(bullets(facts), table(HEADER, rows, numeric=(1, 5, 6, 7, 8, 9)))


def _row(kernel: KernelReading) -> tuple[str, ...]:
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
