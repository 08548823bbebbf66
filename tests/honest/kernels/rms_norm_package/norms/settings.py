"""How norms are launched."""

import triton

PROGRAMS = 8


def launch(n_cols: int) -> dict[str, int]:
    block = triton.next_power_of_2(n_cols)
    return {"BLOCK": block, "num_warps": max(1, min(16, block // 256))}
