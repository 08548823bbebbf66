"""What a launcher of rows in segments computes beside what every launcher does. Pure."""

from __future__ import annotations

from workers.authors.compiler.hand import Hand
from workers.authors.compiler.kernels import Store

SEGMENT_SETTINGS = '''def _segment_settings(n_segments, segment_size):
    """A tile holds whole segments where they are short: 8192 elements keep enough bytes on their way."""
    BLOCK_SIZE = min(triton.next_power_of_2(segment_size), 8192)
    BLOCK_SEGMENTS = min(triton.next_power_of_2(n_segments), 8192 // BLOCK_SIZE)
    return BLOCK_SEGMENTS, BLOCK_SIZE, max(4, min(16, BLOCK_SEGMENTS * BLOCK_SIZE // 512))'''
SETTING_LINE = "BLOCK_SEGMENTS, BLOCK_SIZE, num_warps = _segment_settings(n_segments, segment_size)"
SETTINGS = ("BLOCK_SEGMENTS=BLOCK_SEGMENTS", "BLOCK_SIZE=BLOCK_SIZE", "num_warps=num_warps")
GRID = "(n_rows,)"


def segment_size_lines(hand: Hand) -> list[str]:
    """Compute how many segments a row has and how long one is."""
    domain = hand.program.domain
    axes = domain.segment_axes
    lines = [f"n_segments = {hand.product(axes)}", f"segment_size = {hand.product(domain.col_axes[len(axes) :])}"]
    return [*lines, "n_cols = n_segments * segment_size", f"n_rows = {hand.rows}"]


def segment_buffer(store: Store, device: str) -> str:
    """Allocate what the programs leave of a sum."""
    size = "(n_rows, n_segments)" if store.space.segments else "n_rows"
    return f"{store.buffer} = torch.empty({size}, dtype=torch.float32, {device})"


def segment_total(hand: Hand, store: Store, node: str, dtype: str) -> str:
    """Add up the sums of all rows of a segment, in the shape of the tensor."""
    dims = ", ".join(hand.product(dim) for dim in hand.program.domain.shapes[node])
    return f"{store.name} = {store.buffer}.view(-1, {dims}).sum(dim=0).to({dtype})"
