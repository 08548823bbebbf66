"""Functions of a source whose settings are tuned: the look-up, the grid that may be persistent, the last sum. Pure."""

from __future__ import annotations

# The assignment is found and replaced when a table is settled.
TUNED = '''TUNED = {}


def _tuned(device, timed_pass, size, **settings):
    """Give the settings for this size; what was found by measuring on this architecture takes the place of the rule's."""
    if not TUNED:
        return settings
    architecture = device.type
    if architecture == "cuda":
        major, minor = torch.cuda.get_device_capability(device)
        architecture = f"sm_{major}{minor}"
    for largest, found in TUNED.get(architecture, {}).get(timed_pass, ()):
        if size <= largest:
            return {**settings, **found}
    return settings'''

PROGRAMS_AND_STAGES = '''def _programs_and_stages(device, n_tiles, tile_bytes, programs, most_stages):
    """Some programs a multiprocessor, each over many tiles with the next ones on their way; a program a tile for none."""
    if programs == 0:
        return n_tiles, 1
    if device.type != "cuda" or torch.version.hip is not None:
        return min(n_tiles, 8), 1
    properties = torch.cuda.get_device_properties(device)
    n_programs = programs * properties.multi_processor_count
    if n_tiles <= n_programs:
        return n_tiles, 1
    capacity = properties.shared_memory_per_block_optin // programs
    return n_programs, max(1, min(most_stages, capacity // tile_bytes))'''

STREAMING_SETTINGS = '''def _streaming_settings(n_cols):
    """A program keeps the vectors of all columns and takes many tiles of whole rows, of 16384 elements each."""
    BLOCK_SIZE, _ = calculate_settings(n_cols)
    return max(1, 16384 // BLOCK_SIZE), BLOCK_SIZE, max(16, min(32, BLOCK_SIZE // 1024))'''

LOOP_STAGES = '''def _loop_stages(device, block_bytes, most_stages):
    """The next blocks of a row are on their way while one is computed, as far as shared memory holds them."""
    if device.type != "cuda" or torch.version.hip is not None:
        return 1
    capacity = torch.cuda.get_device_properties(device).shared_memory_per_block_optin
    return max(1, min(most_stages, capacity // block_bytes))'''

SUM_PARTIALS = '''@triton.jit
def _sum_partials_kernel(
    total_ptr,
    partials_ptr,
    n_partials,
    n_cols,
    BLOCK_ROWS: tl.constexpr,
    BLOCK_SIZE: tl.constexpr,
):
    """
    total = sum_rows(partials)
    """
    cols = (tl.program_id(0) * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE))[None, :]
    total = tl.zeros((BLOCK_ROWS, BLOCK_SIZE), dtype=tl.float32)
    for start in range(0, n_partials, BLOCK_ROWS):
        rows = (start + tl.arange(0, BLOCK_ROWS))[:, None]
        mask = (rows < n_partials) & (cols < n_cols)
        total += tl.load(partials_ptr + rows * n_cols + cols, mask=mask, other=0.0)
    tl.store(total_ptr + cols, tl.sum(total, axis=0, keep_dims=True), mask=cols < n_cols)


def _sum_partials(partials, dtype):
    """Add up what the programs left, a line each, in one kernel."""
    n_partials, n_cols = partials.shape
    total = torch.empty(n_cols, dtype=dtype, device=partials.device)
    with device_context(partials.device):
        _sum_partials_kernel[(triton.cdiv(n_cols, 32),)](
            total,
            partials,
            n_partials,
            n_cols,
            BLOCK_ROWS=min(triton.next_power_of_2(n_partials), 256),
            BLOCK_SIZE=32,
            num_warps=4,
        )
    return total'''
