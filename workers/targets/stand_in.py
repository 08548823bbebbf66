"""The unified buffer's tiling where no NPU is: laid over the library's own ``ub_manager.py`` while a port is judged. Pure."""

# The buffer of an Ascend 910B's vector core, as its compiler states it in its overflow errors.
CAPACITY_BITS = 1_572_864
LARGEST_TILE = 1_048_576  # elements, more than the buffer holds
LEAST_PADDED = 1  # of a dimension that may be tiled


def compute_default_tiling_strategy(safety_margin=0.8, dtype_size=4, memory_multiplier=10.0, shapes=(), tiling_dims=()):  # type: ignore[no-untyped-def]
    """The shapes with the dimensions that may be tiled cut to powers of two, so that so many copies fit into the buffer.

    Three quarters of it are used at most: the compiler keeps a second buffer for what is loaded while it computes.
    """
    tiled = []
    for shape, dims in zip(shapes, tiling_dims, strict=True):
        cut = (dims,) if isinstance(dims, int) else dims
        fixed = 1
        for place, size in enumerate(shape):
            fixed *= 1 if place in cut else size
        bits = memory_multiplier * fixed * dtype_size * 8
        fitting = min(int(int(CAPACITY_BITS * safety_margin) // bits), int(CAPACITY_BITS // (bits * 4.0 / 3.0)))
        most = max(1, min(fitting, LARGEST_TILE // fixed))
        largest = 1 << (most.bit_length() - 1)
        padded = [1 << (size - 1).bit_length() if size > 1 else 1 for size in shape]
        padded = [max(size, LEAST_PADDED) if place in cut else size for place, size in enumerate(padded)]
        tiled.append(tuple(min(size, largest) if place in cut else size for place, size in enumerate(padded)))
    return tuple(tiled)
