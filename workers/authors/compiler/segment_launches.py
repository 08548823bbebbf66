"""What a launcher of rows in segments computes beside what every launcher does. Pure."""

from __future__ import annotations

from workers.authors.compiler.hand import Hand
from workers.authors.compiler.kernels import Store

SEGMENT_SETTINGS = '''def _segment_settings(n_segments, segment_size):
    """A tile holds whole segments where they are short: 4096 elements leave room for several programs."""
    BLOCK_SIZE = min(triton.next_power_of_2(segment_size), 4096)
    BLOCK_SEGMENTS = min(triton.next_power_of_2(n_segments), 4096 // BLOCK_SIZE)
    return BLOCK_SEGMENTS, BLOCK_SIZE, max(4, min(16, BLOCK_SEGMENTS * BLOCK_SIZE // 512))'''
CHOSEN = ("BLOCK_SEGMENTS", "BLOCK_SIZE", "num_warps")
SETTING_LINE = f"{', '.join(CHOSEN)} = _segment_settings(n_segments, segment_size)"
GRID = "(n_rows,)"


def segment_size_lines(hand: Hand) -> list[str]:
    """Compute how many segments a row has and how long one is."""
    domain = hand.program.domain
    axes = domain.segment_axes
    lines = [f"n_segments = {hand.product(axes)}", f"segment_size = {hand.product(domain.col_axes[len(axes) :])}"]
    return [*lines, "n_cols = n_segments * segment_size", f"n_rows = {hand.rows}"]


def segment_defaults() -> dict[str, str]:
    """Give the settings of a tunable pass over segments, and what the rule says of each."""
    return {**{name: name for name in CHOSEN}, "NUM_STAGES": "1"}


def segment_setting_lines(source: str, timed_pass: str | None) -> list[str]:
    """Choose the settings; those of a ``timed_pass`` may have been found by measuring."""
    if timed_pass is None:
        return [SETTING_LINE]
    given = ", ".join(f"{name}={value}" for name, value in segment_defaults().items())
    taken = ", ".join(f'tuned["{name}"]' for name in CHOSEN)
    look_up = f'tuned = _tuned({source}.device, "{timed_pass}", n_cols, {given})'
    return [SETTING_LINE, look_up, f"{', '.join(CHOSEN)} = {taken}"]


def segment_settings(tunable: bool) -> tuple[str, ...]:
    """Give the settings that a launch passes."""
    stages = ('NUM_STAGES=tuned["NUM_STAGES"]',) if tunable else ()
    return ("BLOCK_SEGMENTS=BLOCK_SEGMENTS", "BLOCK_SIZE=BLOCK_SIZE", *stages, "num_warps=num_warps")


def segment_buffer(store: Store, device: str) -> str:
    """Allocate what the programs leave of a sum."""
    size = "(n_rows, n_segments)" if store.space.segments else "n_rows"
    return f"{store.buffer} = torch.empty({size}, dtype=torch.float32, {device})"


def segment_total(hand: Hand, store: Store, node: str, dtype: str) -> str:
    """Add up the sums of all rows of a segment, in the shape of the tensor."""
    dims = ", ".join(hand.product(dim) for dim in hand.program.domain.shapes[node])
    return f"{store.name} = {store.buffer}.view(-1, {dims}).sum(dim=0).to({dtype})"
