"""More shared memory than a block has, in CuTe DSL."""

import contextlib
import functools

import cutlass
import cutlass.cute as cute
import torch


def device_context(device):
    """Launch on the device of the tensors, whichever is current."""
    if device.type == "cuda":
        return torch.cuda.device(device)
    return contextlib.nullcontext()


@cute.jit
def _inside(first, n, SHAPE: cutlass.Constexpr):
    """Whether a thread has each of its vectors: elements that lie next to each other, and are there all or none."""
    VECTOR, VECTORS, THREADS = SHAPE
    inside = cute.make_rmem_tensor((1, VECTORS), cutlass.Boolean)
    for i in cutlass.range_constexpr(VECTORS):
        inside[0, i] = first + i * (THREADS * VECTOR) < n
    return inside


@cute.jit
def _vectors(tensor, offset, SHAPE: cutlass.Constexpr):
    """A thread's vectors in memory from an offset on, and how one is copied: by one access."""
    VECTOR, VECTORS, THREADS = SHAPE
    dtype = tensor.element_type
    access = cute.make_copy_atom(cute.nvgpu.CopyUniversalOp(), dtype, num_bits_per_copy=VECTOR * dtype.width)
    layout = cute.make_layout(((VECTOR, 1), VECTORS), stride=((1, 0), THREADS * VECTOR))
    return cute.make_tensor(tensor.iterator + cute.assume(offset, divby=VECTOR), layout), access


@cute.jit
def _load(tensor, offset, inside, other, SHAPE: cutlass.Constexpr):
    """A thread's elements of a tensor from an offset on, and ``other`` where there is none."""
    VECTOR, VECTORS, THREADS = SHAPE
    place, access = _vectors(tensor, offset, SHAPE)
    values = cute.make_rmem_tensor(((VECTOR, 1), VECTORS), tensor.element_type)
    values.fill(other)
    cute.copy(access, place, values, pred=inside)
    return values.load()


@cute.jit
def _store(tensor, offset, inside, value, SHAPE: cutlass.Constexpr):
    """Store a thread's elements in a tensor's dtype from an offset on."""
    VECTOR, VECTORS, THREADS = SHAPE
    place, access = _vectors(tensor, offset, SHAPE)
    values = cute.make_rmem_tensor(((VECTOR, 1), VECTORS), tensor.element_type)
    values.store(value.to(tensor.element_type))
    cute.copy(access, values, place, pred=inside)








@cute.jit
def _slots(SHAPE: cutlass.Constexpr):
    """Shared memory for a number of each warp."""
    n_warps = SHAPE[2] // 32
    return cute.make_tensor(cute.arch.alloc_smem(cutlass.Float32, n_warps), cute.make_layout(n_warps))


@cute.jit
def _of_warps(number, slots):
    """The number of each warp, in every thread."""
    cute.arch.sync_threads()  # nobody reads the last ones any more
    slots[cute.arch.warp_idx()] = number
    cute.arch.sync_threads()
    return slots.load()


@cute.jit
def _pair_sum(x, y):
    return x + y


@cute.jit
def _row_sum(value, slots, SHAPE: cutlass.Constexpr):
    """The sum of a row, beside each of its elements."""
    VECTOR, VECTORS, THREADS = SHAPE
    own = value.reduce(cute.ReductionOp.ADD, 0.0, 0)
    own = cute.arch.warp_reduction(own, _pair_sum)
    total = _of_warps(own, slots).reduce(cute.ReductionOp.ADD, 0.0, 0)
    return cute.full(((VECTOR, 1), VECTORS), total, cutlass.Float32)


def _element(dtype):
    """CuTe DSL's name of a dtype."""
    return {torch.float32: cutlass.Float32, torch.bfloat16: cutlass.BFloat16, torch.float16: cutlass.Float16}[dtype]


@functools.cache
def _compiled(launch, tensors, numbers, SHAPE):
    """The launcher compiled for contiguous tensors, by their elements and bytes of an access, and for numbers of some types."""
    return cute.compile(
        launch,
        *(
            cute.runtime.make_fake_compact_tensor(element, (cute.sym_int64(),), assumed_align=align)
            for element, align in tensors
        ),
        *(number(1) for number in numbers),
        SHAPE,
        cute.runtime.make_fake_stream(use_tvm_ffi_env_stream=True),
        options="--enable-tvm-ffi",
    )


def _widest(*tensors):
    """The elements of an access of 16 bytes."""
    return 16 // max(tensor.element_size() for tensor in tensors)


def _vector(most, n, *tensors):
    """The elements of an access: as many where rows and tensors begin at multiples of them, else one."""
    return most if all(count % most == 0 for count in (n, *(t.storage_offset() for t in tensors))) else 1


def _row_shape(n_cols, vector):
    """The vectors of a thread, and threads for a row: of 16 elements each, more where rows are wide."""
    elements = max(32 * vector, 1 << (n_cols - 1).bit_length())
    threads = min(256, max(32, elements // 16))
    return vector, elements // (threads * vector), threads



@cute.kernel
def _rms_kernel(y_tensor: cute.Tensor, x_tensor: cute.Tensor, eps, n_cols, n_rows, SHAPE: cutlass.Constexpr):
    eps = cutlass.Float32(eps)
    row = cute.arch.block_idx()[0]
    first = cute.arch.thread_idx()[0] * SHAPE[0]
    inside = _inside(first, n_cols, SHAPE)
    cute.arch.alloc_smem(cutlass.Float32, 65536)
    slots = _slots(SHAPE)
    offset = cutlass.Int64(row) * n_cols + first
    x = _load(x_tensor, offset, inside, 0.0, SHAPE).to(cutlass.Float32)
    rstd = cute.math.rsqrt(_row_sum(x * x, slots, SHAPE) / n_cols + eps)
    _store(y_tensor, offset, inside, x * rstd, SHAPE)

@cute.jit
def _rms_launch(
    y_tensor: cute.Tensor,
    x_tensor: cute.Tensor,
    eps: cutlass.Float32,
    n_cols: cutlass.Int32,
    n_rows: cutlass.Int32,
    SHAPE: cutlass.Constexpr,
    stream,
):
    kernel = _rms_kernel(y_tensor, x_tensor, eps, n_cols, n_rows, SHAPE)
    kernel.launch(grid=(n_rows, 1, 1), block=(SHAPE[2], 1, 1), stream=stream)

def candidate(x, eps=1e-6):
    x = x.contiguous()
    n_cols = x.shape[-1]
    n_rows = x.numel() // n_cols
    SHAPE = _row_shape(n_cols, _vector(_widest(x), n_cols, x))
    y = torch.empty_like(x)
    with device_context(x.device):
        if n_rows:
            launch = _compiled(
                _rms_launch,
                (
                    (_element(y.dtype), SHAPE[0] * y.element_size()),
                    (_element(x.dtype), SHAPE[0] * x.element_size()),
                ),
                (cutlass.Float32, cutlass.Int32, cutlass.Int32),
                SHAPE,
            )
            launch(y.view(-1), x.view(-1), float(eps), n_cols, n_rows)
    return y
