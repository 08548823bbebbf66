"""What a candidate may import, name and call: the tables of the static screen."""

from __future__ import annotations


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# Modules that do no more than write kernels down. What is on no list is refused.
MODULES = _words(
    "torch triton triton.language math functools typing dataclasses contextlib enum collections.abc __future__"
)
MODULE_PREFIXES = ("triton.language.",)
FROM_ONLY = {
    "operator": _words("eq ne lt le gt ge add sub mul truediv floordiv"),
    "functools": _words("partial wraps reduce cache lru_cache"),
    "contextlib": _words("contextmanager nullcontext"),
}
# Modules with which a process reaches beyond its own computation: nobody needs these in order to write a kernel.
REACHING = _words("""
    os sys subprocess threading multiprocessing concurrent asyncio socket ssl http urllib requests ctypes cffi gc inspect importlib
    builtins traceback signal mmap shutil tempfile pathlib io pickle marshal code codeop pty resource select selectors atexit
    weakref faulthandler tracemalloc site sysconfig runpy pkgutil platform glob fcntl posix _thread _ctypes queue types
    dis time timeit
    random secrets uuid datetime gpu_runner
    """)
# Built-in names that run text as code, or reach what was not handed in.
RUNS_TEXT = _words("eval exec compile __import__")
REACHES = _words("open globals locals vars setattr delattr dir id hash input breakpoint memoryview exit quit help")
DUNDER_NAMES = _words("__name__ __all__ __doc__")
DUNDER_ATTRIBUTES = _words("__name__ __version__ __doc__ __init__ __post_init__")

TORCH = _words("""
    Tensor Size dtype device autograd.Function autograd.function.once_differentiable autograd.function.FunctionCtx
    empty empty_like empty_strided zeros zeros_like ones ones_like full full_like
    float16 half bfloat16 float32 float float64 double int8 int16 short int32 int int64 long uint8 uint16 uint32 bool
    float8_e4m3fn float8_e5m2 contiguous_format preserve_format channels_last strided
    no_grad is_grad_enabled is_tensor is_floating_point finfo iinfo promote_types result_type broadcast_shapes sum
    cuda.get_device_properties cuda.get_device_capability cuda.current_device cuda.device cuda.is_available cuda.device_count
    xpu.get_device_properties xpu.is_available compiler.is_compiling version.hip version.cuda version.__version__ __version__
    amp.custom_fwd amp.custom_bwd cuda.amp.custom_fwd cuda.amp.custom_bwd
    distributed.tensor distributed.tensor.DTensor distributed.tensor.DTensor.from_local distributed.tensor.distribute_tensor
    nn nn.Module nn.Parameter
    """)
TRITON = _words("""
    jit cdiv next_power_of_2 language constexpr_function __version__ runtime.driver.active.utils.get_device_properties
    """)
# Attributes of tensors, contexts, device properties and plain containers that compute no answer.
ATTRIBUTES = _words("""
    shape stride size dim ndim numel nelement element_size itemsize dtype device type is_cuda is_contiguous contiguous view view_as
    reshape flatten unflatten expand expand_as transpose t T mT permute movedim squeeze unsqueeze narrow split chunk unbind to float
    half bfloat16 double clone detach copy_ zero_ fill_ new_empty new_zeros new_ones new_full data_ptr storage_offset requires_grad
    requires_grad_ is_floating_point item sum data index
    save_for_backward saved_tensors needs_input_grad mark_non_differentiable set_materialize_grads mark_dirty apply forward backward
    multi_processor_count gpu_eu_count gpu_subslice_count major minor name total_memory L2_cache_size warp_size
    max_threads_per_multi_processor shared_memory_per_block shared_memory_per_block_optin shared_memory_per_multiprocessor
    regs_per_multiprocessor gcnArchName eps max min tiny bits
    append extend get items keys values update setdefault pop copy insert startswith endswith join format lower upper strip replace
    count bit_length is_integer
    register_parameter register_buffer add_module get_submodule named_parameters named_buffers parameters weight bias
    device_mesh placements to_local from_local value
    """)
JIT_DECORATORS = frozenset({"triton.jit", "triton.constexpr_function"})
