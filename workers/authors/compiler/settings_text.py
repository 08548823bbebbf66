"""Functions beside the kernels: the target's helpers where it lacks them, and launch settings, as source. Pure."""

from __future__ import annotations

CALCULATE_SETTINGS = '''def calculate_settings(n):
    """Give the block size and the number of warps for n elements."""
    BLOCK_SIZE = triton.next_power_of_2(n)
    if BLOCK_SIZE > 65536:
        raise RuntimeError(f"{n} elements are more than one block holds")
    num_warps = 4
    if BLOCK_SIZE >= 32768:
        num_warps = 32
    elif BLOCK_SIZE >= 8192:
        num_warps = 16
    elif BLOCK_SIZE >= 2048:
        num_warps = 8
    return BLOCK_SIZE, num_warps'''

ENSURE_CONTIGUOUS = '''def ensure_contiguous(fn):
    """Hand contiguous tensors to forward and backward."""

    @functools.wraps(fn)
    def wrapper(ctx, *args):
        return fn(ctx, *(arg.contiguous() if isinstance(arg, torch.Tensor) else arg for arg in args))

    return wrapper'''

DEVICE_CONTEXT = '''def device_context(device):
    """Launch on the device of the tensors, whichever is current."""
    if device.type == "cuda":
        return torch.cuda.device(device)
    return contextlib.nullcontext()'''

HELPERS = {
    "calculate_settings": (CALCULATE_SETTINGS, None),
    "device_context": (DEVICE_CONTEXT, "contextlib"),
    "ensure_contiguous": (ENSURE_CONTIGUOUS, "functools"),
}

# Elements of a tile: enough bytes in flight for one program, few enough to stay in registers.
PERSISTENT_SETTINGS = '''def _persistent_settings(n_cols):
    """A program takes many tiles of whole rows: 8192 elements a turn keep enough bytes on their way."""
    BLOCK_SIZE, _ = calculate_settings(n_cols)
    return max(1, 8192 // BLOCK_SIZE), BLOCK_SIZE, 8'''

TILE_SETTINGS = '''def _tile_settings(n_cols, n_tensors):
    """Short rows share a program; few warps reduce a row fastest, as long as the row's tensors stay in their registers."""
    BLOCK_SIZE, most_warps = calculate_settings(n_cols)
    BLOCK_ROWS = max(1, 4096 // BLOCK_SIZE)
    num_warps = max(4, min(most_warps, n_tensors * BLOCK_SIZE // 2048))
    return BLOCK_ROWS, BLOCK_SIZE, num_warps'''

BLOCK_SETTINGS = '''def _block_settings(n_cols):
    """A tile is a block of columns of one row, or of several where rows are short."""
    BLOCK_SIZE, _ = calculate_settings(min(n_cols, 4096))
    return max(1, 4096 // BLOCK_SIZE), BLOCK_SIZE, 8'''

NUM_PROGRAMS = '''def _num_programs(device, n_tiles):
    """One program a multiprocessor, each with its own partial sums."""
    if device.type == "cuda":
        return min(n_tiles, torch.cuda.get_device_properties(device).multi_processor_count)
    return min(n_tiles, 8)'''

NUM_STAGES = '''def _num_stages(device, tile_bytes):
    """The next rows are on their way while a row is computed, as far as shared memory holds them."""
    if device.type != "cuda" or torch.version.hip is not None:
        return 1
    capacity = torch.cuda.get_device_properties(device).shared_memory_per_block_optin
    return max(1, min(3, capacity // tile_bytes))'''
