"""What one turn of a pipelined loop loads, as source: as many turns are on their way as shared memory holds of them. Pure."""

from __future__ import annotations


def tile_bytes(tensors: int, row_numbers: int, source: str) -> str:
    """Give the bytes of a tile of whole rows, with numbers of each row of at most eight bytes, which weigh where rows are short."""
    tile = f"{_times(tensors)}BLOCK_SIZE * {source}.element_size()"
    return f"BLOCK_ROWS * ({tile} + {8 * row_numbers})" if row_numbers else f"BLOCK_ROWS * {tile}"


def block_bytes(tensors: int, vectors: int, source: str) -> str:
    """Give the bytes of a block of one row, with vectors of at most four bytes a column."""
    element = f"{_times(tensors)}{source}.element_size()"
    return f'tuned["LOOP_BLOCK"] * ({element} + {4 * vectors})' if vectors else f'tuned["LOOP_BLOCK"] * {element}'


def _times(count: int) -> str:
    return f"{count} * " if count > 1 else ""
