"""The language of host code and of kernels: which members of which libraries, which attributes, which builtins. One table for
the static check and for the evaluator.

A member is listed by its full documented name. A module is never a value, and what a module happens to have imported is no member.
"""

from __future__ import annotations

import builtins
import functools
import importlib.util
import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from gpu_runner.contracts.verify import Status
from gpu_runner.program.objects import Facade, Violation


def words(text: str) -> frozenset[str]:
    """The words of a text."""
    return frozenset(text.split())


def _under(prefix: str, text: str) -> frozenset[str]:
    return frozenset(f"{prefix}.{name}" for name in text.split())


DTYPES = """
    float16 half bfloat16 float32 float float64 double int8 int16 short int32 int int64 long uint8 uint16 uint32 uint64 bool
    float8_e4m3fn float8_e5m2 float8_e4m3fnuz float8_e5m2fnuz complex64 complex128
"""
TORCH = _under("torch", DTYPES) | _under(
    "torch",
    """
    Tensor Size dtype device finfo iinfo contiguous_format preserve_format channels_last strided memory_format
    FloatTensor HalfTensor BFloat16Tensor LongTensor IntTensor BoolTensor DoubleTensor
    autograd.Function autograd.function.once_differentiable autograd.function.FunctionCtx autograd.function.Function
    empty empty_like empty_strided zeros zeros_like ones ones_like full full_like arange tensor scalar_tensor
    no_grad enable_grad inference_mode is_grad_enabled is_tensor is_floating_point is_complex promote_types result_type
    broadcast_shapes broadcast_tensors equal numel
    sum cumsum amax amin max min any all eq ne lt le gt ge add sub mul div neg abs sqrt rsqrt square reciprocal clamp where
    gather masked_select sort count_nonzero cat stack flatten reshape transpose permute squeeze unsqueeze unbind split chunk
    cpu.device xpu.device
    cuda.get_device_properties cuda.get_device_capability cuda.get_device_name cuda.current_device cuda.device cuda.is_available
    cuda.device_count cuda.is_bf16_supported get_float32_matmul_precision
    xpu.get_device_properties xpu.is_available distributed.is_nccl_available
    compiler.is_compiling compiler.is_dynamo_compiling compiler.disable jit.is_scripting jit.is_tracing
    version.hip version.cuda version.__version__ version.xpu __version__
    amp.custom_fwd amp.custom_bwd cuda.amp.custom_fwd cuda.amp.custom_bwd
    library.triton_op library.wrap_triton library.custom_op library.register_fake library.register_autograd
    nn.Module nn.Parameter nn.parameter.Parameter nn.init.ones_ nn.init.zeros_ nn.init.constant_
    distributed.tensor.DTensor
    """,
)
# What PyTorch's convolutions are set to: for kernels that take their place.
CONVOLUTIONS = frozenset({"torch.backends.cudnn.allow_tf32"})
TRITON = _under(
    "triton",
    """
    jit cdiv next_power_of_2 constexpr_function autotune heuristics Config __version__ set_allocator
    runtime.driver.active.utils.get_device_properties runtime.driver.active.get_current_target
    runtime.driver.active.get_current_device
    tools.tensor_descriptor.TensorDescriptor runtime.JITFunction
    """,
)
# What documents call the language of kernels; taken from it as far as the installed version has it.
TRITON_LANGUAGE = _under(
    "triton.language",
    """
    program_id num_programs load store arange zeros zeros_like full cat join interleave split broadcast broadcast_to expand_dims
    permute ravel reshape trans view dot dot_scaled swizzle2d where flip gather make_block_ptr advance make_tensor_descriptor
    load_tensor_descriptor store_tensor_descriptor abs cdiv ceil clamp cos div_rn erf exp exp2 fdiv floor fma log log2 maximum
    minimum rsqrt sigmoid sin softmax sqrt sqrt_rn umulhi argmax argmin max min reduce sum xor_sum reduce_or associative_scan
    cumprod cumsum histogram sort topk atomic_add atomic_and atomic_cas atomic_max atomic_min atomic_or atomic_xchg atomic_xor
    randint4x randint rand randn philox pair_uniform_to_normal range static_range static_print static_assert device_print
    device_assert debug_barrier multiple_of max_contiguous max_constancy assume cast bitcast
    constexpr const dtype tensor pointer_type block_type tuple PropagateNan PropagateNan.ALL PropagateNan.NONE
    tensor_descriptor constexpr_type
    void int1 int8 int16 int32 int64 uint8 uint16 uint32 uint64 float8e5 float8e5b16 float8e4nv float8e4b8 float8e4b15 float16
    bfloat16 float32 float64 pi32_t
    math.abs math.acos math.asin math.atan math.ceil math.cos math.div_rn math.erf math.exp math.exp2 math.fdiv math.floor math.fma
    math.log math.log2 math.rsqrt math.sin math.sqrt math.sqrt_rn math.umulhi math.tanh math.sigmoid math.softmax math.cdiv
    math.clamp math.maximum math.minimum math.max math.min
    """,
)
# cuTile, as its package documents it, but for what prints, what steers the compiler, and what reaches beyond arrays.
TILE_HOST = _under("cuda.tile", "kernel function launch") | {"torch.cuda.current_stream"}
TILE_LANGUAGE = _under(
    "cuda.tile",
    """
    ByTarget MemoryOrder MemoryScope PaddingMode RoundingMode Constant Array Tile Scalar
    PaddingMode.UNDETERMINED PaddingMode.ZERO PaddingMode.NEG_ZERO PaddingMode.NAN PaddingMode.POS_INF PaddingMode.NEG_INF
    RoundingMode.RN RoundingMode.RZ RoundingMode.RM RoundingMode.RP RoundingMode.RA RoundingMode.FULL RoundingMode.APPROX
    bfloat16 bool_ float4_e2m1fn float8_e4m3fn float8_e5m2 float8_e8m0fnu float16 float32 float64 int8 int16 int32 int64 tfloat32
    uint8 uint16 uint32 uint64
    abs add arange argmax argmin astile astype atan2 atomic_add atomic_and atomic_cas atomic_max atomic_min atomic_or atomic_xchg
    atomic_xor bitwise_and bitwise_lshift bitwise_not bitwise_or bitwise_rshift bitwise_xor bid bitcast broadcast_to cat cdiv ceil
    cos cosh cumprod cumsum divmod equal exp exp2 expand_dims extract floor floordiv full gather greater greater_equal insert less
    less_equal load log log2 matmul max maximum min minimum mma mma_scaled mod mul negative isnan not_equal num_blocks num_tiles
    ones permute pow prod reduce reshape rsqrt scan scatter sin sinh sqrt static_assert static_iter store sub sum tan tanh
    transpose truediv where zeros
    """,
)
TILE_ATTRIBUTES = words("dtype shape strides ndim astype reshape permute transpose extract item")
# CuTe DSL, as far as its kernels are interpreted here.
THREAD_HOST = _under(
    "cutlass.cute", "kernel jit compile runtime.make_fake_compact_tensor runtime.make_fake_stream sym_int64"
)
THREAD_LANGUAGE = _under("cutlass", "Constexpr range_constexpr Float32 BFloat16 Float16 Int64 Int32 Boolean") | _under(
    "cutlass.cute",
    """
    Tensor ReductionOp ReductionOp.ADD ReductionOp.MAX ReductionOp.MIN
    make_layout make_copy_atom make_rmem_tensor make_tensor assume copy full full_like where nvgpu.CopyUniversalOp
    arch.thread_idx arch.block_idx arch.grid_dim arch.warp_idx arch.sync_threads arch.alloc_smem arch.warp_reduction
    arch.warp_reduction_sum arch.fmax arch.fmin
    math.abs math.exp math.exp2 math.log math.log2 math.log1p math.expm1 math.sqrt math.rsqrt math.tanh math.erf math.sin math.cos
    math.floor math.ceil math.trunc math.roundeven
    """,
)
THREAD_ATTRIBUTES = words("element_type iterator width inf to reduce load store fill launch")
LIBDEVICE = """
    abs acos acosh add_rd add_rn add_ru add_rz asin asinh atan atan2 atanh brev byte_perm cbrt ceil clz copysign cos
    cosh cospi cyl_bessel_i0 cyl_bessel_i1 div_rd div_rn div_ru div_rz erf erfc erfcinv erfcx erfinv exp exp10 exp2
    expm1 fast_cosf fast_dividef fast_exp10f fast_expf fast_log10f fast_log2f fast_logf fast_powf fast_sinf fast_tanf
    fast_tanhf fdim ffs finitef float2int_rd float2int_rn float2int_ru float2int_rz floor fma fma_rd fma_rn fma_ru
    fma_rz fmod hadd hypot ilogb int2float_rn isfinited isinf isnan j0 j1 ldexp lgamma llrint llround log log10 log1p
    log2 logb max min mul24 mul_rd mul_rn mul_ru mul_rz nearbyint nextafter norm3d norm4d normcdf normcdfinv popc pow
    rcbrt rcp64h rcp_rd rcp_rn rcp_ru rcp_rz remainder rhadd rhypot rint rnorm3d round rsqrt rsqrt_rn sad saturatef
    scalbn signbit sin sinh sinpi sqrt sqrt_rd sqrt_rn sqrt_ru sqrt_rz sub_rd sub_rn sub_ru sub_rz tan tanh tgamma
    trunc umul24 y0 y1
"""
_LIBDEVICES = (
    "triton.language.extra.libdevice",
    "triton.language.extra.cuda.libdevice",
    "triton.language.extra.hip.libdevice",
)
STANDARD = (
    _under(
        "math",
        """ceil floor sqrt log log2 log10 log1p exp expm1 pow prod gcd lcm isqrt fabs copysign isclose isfinite isinf isnan trunc
        tanh erf sin cos pi e inf nan tau frexp ldexp comb factorial fsum hypot""",
    )
    | _under("functools", "partial wraps reduce cache lru_cache cached_property")
    | _under("operator", "eq ne lt le gt ge add sub mul truediv floordiv mod neg and_ or_ xor getitem")
    | _under("contextlib", "contextmanager nullcontext")
    | _under("dataclasses", "dataclass field")
    | _under("enum", "Enum IntEnum StrEnum Flag IntFlag auto")
    | _under("itertools", "product accumulate chain islice repeat takewhile zip_longest pairwise")
    | _under("collections", "namedtuple OrderedDict")
    | _under("packaging.version", "Version parse")
    | _under("packaging", "version.Version version.parse")
    | _under("importlib.metadata", "version PackageNotFoundError")
    | _under("warnings", "warn")
    | _under("logging", "getLogger")
    | frozenset({"importlib.import_module"})
)
TYPING = _under(
    "typing",
    """Any Callable ClassVar Dict Final FrozenSet Generic Iterable Iterator List Literal Mapping NamedTuple NewType NoReturn
    Optional Protocol Sequence Set Tuple Type TypeAlias TypeVar Union cast overload TYPE_CHECKING Annotated
    Concatenate ParamSpec Self""",
) | _under(
    "collections.abc", "Callable Generator Iterable Iterator Mapping MutableMapping Sequence Collection Hashable"
)
MEMBERS = (
    TORCH
    | CONVOLUTIONS
    | TRITON
    | TRITON_LANGUAGE
    | TILE_HOST
    | TILE_LANGUAGE
    | THREAD_HOST
    | THREAD_LANGUAGE
    | STANDARD
    | TYPING
    | frozenset(f"{path}.{name}" for path in _LIBDEVICES for name in LIBDEVICE.split())
)
LIBRARY_ONLY = frozenset({"importlib.import_module"})  # by the modules around a candidate, never by its own
PREFIXES = frozenset(
    ".".join(parts[:n]) for parts in (member.split(".") for member in MEMBERS) for n in range(1, len(parts))
)
# Members in the place of which the evaluator has a model of its own: what they do is not done by the real one.
ANNOTATIONS_ONLY = (
    TYPING
    - {
        "typing.NamedTuple",
        "typing.cast",
        "typing.TYPE_CHECKING",
        "typing.TypeVar",
        "typing.NewType",
    }
    | {"cuda.tile.Constant", "cuda.tile.Array", "cuda.tile.Tile", "cuda.tile.Scalar"}
    | {
        "cutlass.Constexpr",
        "cutlass.cute.Tensor",
    }
)

# Modules with which a process reaches beyond its own computation: nobody needs these in order to write a kernel.
REACHING = words("""
    os sys subprocess threading multiprocessing concurrent asyncio socket ssl http urllib requests ctypes cffi gc inspect
    builtins traceback signal mmap shutil tempfile pathlib io pickle marshal code codeop pty resource select selectors atexit
    weakref faulthandler tracemalloc site sysconfig runpy pkgutil platform glob fcntl posix _thread _ctypes queue types
    dis time timeit random secrets uuid datetime gpu_runner
    """)
RUNS_TEXT = words("eval exec compile __import__")
REACHES = words(
    "open globals locals vars delattr dir id hash input breakpoint memoryview exit quit help object.__subclasses__ copyright"
)
BUILTINS: dict[str, Any] = {
    name: getattr(builtins, name)
    for name in words("""
    abs all any bool bytes callable complex dict divmod enumerate filter float frozenset int isinstance issubclass iter len list map
    max min next object pow property range repr reversed round set slice sorted staticmethod classmethod str sum super tuple type
    zip format hasattr getattr setattr print ord chr bin hex oct
    True False None NotImplemented Ellipsis
    Exception BaseException ArithmeticError AssertionError AttributeError ImportError IndexError KeyError LookupError
    ModuleNotFoundError NotImplementedError OverflowError RuntimeError StopIteration TypeError ValueError ZeroDivisionError
    UserWarning DeprecationWarning RuntimeWarning OSError
    """)
}
DUNDER_NAMES = words("__all__ __doc__ __version__ __author__ __slots__ __match_args__")  # that a file binds
METHOD_DUNDERS = words(
    "__init__ __post_init__ __call__ __len__ __getitem__ __iter__ __contains__ __eq__ __bool__ __enter__ __exit__"
)
DUNDER_ATTRIBUTES = words("__name__ __version__") | METHOD_DUNDERS

VIEWS = words("""
    view view_as reshape flatten unflatten expand expand_as transpose t T mT permute movedim squeeze unsqueeze narrow select split
    chunk unbind detach data swapaxes diagonal as_strided tensor_split unfold ravel
    """)
SHAPES = words("""
    shape stride size dim ndim numel nelement element_size itemsize nbytes dtype device is_cuda is_cpu is_contiguous requires_grad
    is_floating_point is_complex storage_offset get_device layout is_sparse is_meta
    """)
MAKES = words("""
    contiguous to float half bfloat16 double int long bool clone new_empty new_zeros new_ones new_full new_tensor new_empty_strided
    copy_ zero_ fill_ requires_grad_ type type_as cuda cpu flip repeat repeat_interleave resize_as_
    """)
COMPUTES = words("""
    item tolist sum max min amax amin any all eq ne lt le gt ge add sub mul div add_ sub_ mul_ div_ neg abs sqrt rsqrt square clamp
    masked_select gather count_nonzero equal sort mean unique index_select cumsum logical_not logical_and logical_or square_ abs_
    """)
TENSOR = VIEWS | SHAPES | MAKES | COMPUTES
# What a program may ask of plain values, by the type that has it.
ATTRIBUTES: dict[type, frozenset[str]] = {
    str: words("""startswith endswith join format lower upper strip lstrip rstrip replace split rsplit count find isdigit
        isidentifier removeprefix removesuffix partition rpartition splitlines title capitalize zfill ljust rjust"""),
    list: words("append extend insert pop index count copy reverse sort remove clear"),
    dict: words("get items keys values update setdefault pop copy"),
    tuple: words("index count"),
    set: words("add discard union intersection difference issubset issuperset update copy remove"),
    frozenset: words("union intersection difference issubset issuperset"),
    int: words("bit_length bit_count real imag numerator denominator is_integer"),
    float: words("is_integer real imag as_integer_ratio hex"),
    complex: words("real imag conjugate"),
    range: words("start stop step index count"),
    slice: words("start stop step"),
    bytes: words("hex"),
}
TORCH_SIZE = words("numel")
DEVICE_PROPERTIES = words("""
    multi_processor_count gpu_eu_count gpu_subslice_count major minor name total_memory L2_cache_size warp_size
    max_threads_per_multi_processor shared_memory_per_block shared_memory_per_block_optin shared_memory_per_multiprocessor
    regs_per_multiprocessor gcnArchName is_integrated is_multi_gpu_board
    """)
OTHERS: dict[str, frozenset[str]] = {  # by the name of the class
    "dtype": words(
        "itemsize is_floating_point is_complex is_signed name primitive_bitwidth scalar is_floating is_int to_real"
    ),
    "device": words("type index"),
    "finfo": words("eps max min tiny bits smallest_normal resolution dtype"),
    "iinfo": words("max min bits dtype"),
    "constexpr": words("value"),
    "Version": words("major minor micro release base_version"),
    "Config": words("kwargs num_warps num_stages num_ctas maxnreg all_kwargs"),
    "GPUTarget": words("backend arch warp_size"),
}
CONTEXT = words("""
    save_for_backward saved_tensors needs_input_grad mark_non_differentiable set_materialize_grads mark_dirty save_for_forward
    """)
KERNEL_ARGUMENT_ATTRIBUTES = words("""
    dtype shape T type element_ty scalar to value trans permute view reshape broadcast_to expand_dims sum max min argmax argmin
    abs cast store load gather scatter numel is_floating is_int is_ptr primitive_bitwidth atomic_add is_block nbytes itemsize
    cumsum cumprod sort logical_and logical_or split ravel reduce associative_scan xor_sum sigmoid softmax exp log sqrt rsqrt
    cos sin exp2 log2 floor ceil erf advance int_bitwidth flip strides block_shape is_fp32 is_fp16 is_bf16 is_fp64 is_int32
    is_int64 is_standard_floating is_fp8 is_int8 is_int1
    """)
NAMES = (  # of attributes that a program may write where the type of the value is not known from the text
    TENSOR
    | TORCH_SIZE
    | DEVICE_PROPERTIES
    | CONTEXT
    | frozenset().union(*ATTRIBUTES.values())
    | frozenset().union(*OTHERS.values())
) | words("""
    apply forward backward register_parameter register_buffer add_module named_parameters named_buffers parameters training
    register_autograd register_fake register_kernel name value args kwargs values index jvp setup_context
    weight bias eval from_tensor replace_hints
    """)


def resolve(path: str) -> Any:
    """The member or module of a dotted name: a ``Facade`` for a module, else the library's own object.

    Raises:
        Violation: the language has no such member. AttributeError, ImportError: the installed library has none.
    """
    if path in PREFIXES and path not in MEMBERS:
        return Facade(path)
    if path not in MEMBERS:
        raise unlisted(path)
    return _walk(path)


def is_listed(path: str) -> bool:
    """Whether the language has a member or module of that name."""
    return path in MEMBERS or path in PREFIXES


@dataclass(frozen=True)
class KernelLanguage:
    """A language of kernels: what a kernel's text may name. Whichever it is, Triton's interpreter runs it."""

    name: str
    modules: frozenset[str]  # that a kernel may have by a name
    members: frozenset[str]
    attributes: frozenset[str]  # of arguments and of what is computed
    others: frozenset[str]  # of modules
    decorators: frozenset[str]  # that make a kernel of a function

    def has(self, path: str) -> bool:
        """Whether this is a member of the language, or a function of numbers."""
        return path in self.members or path.startswith(("math.", *_LIBDEVICES))

    @functools.cached_property
    def names(self) -> frozenset[str]:
        """Every attribute that may stand in a kernel: of its arguments, and of the language's modules."""
        return self.attributes | self.others | {part for member in self.members for part in member.split(".")[2:]}


TRITON_KERNELS = KernelLanguage(
    "Triton",
    frozenset({"triton", "triton.language", "triton.language.math", "math"}),
    TRITON_LANGUAGE | {"triton.cdiv", "triton.next_power_of_2"},
    KERNEL_ARGUMENT_ATTRIBUTES,
    words(LIBDEVICE) | words("language extra libdevice cuda hip math cdiv next_power_of_2 pi e inf log2 sqrt"),
    frozenset({"triton.jit", "triton.constexpr_function"}),
)
TILE_KERNELS = KernelLanguage(
    "cuTile",
    frozenset({"cuda.tile", "math"}),
    TILE_LANGUAGE,
    TILE_ATTRIBUTES,
    words("pi e inf log2 sqrt"),
    frozenset({"cuda.tile.kernel", "cuda.tile.function"}),
)
THREAD_KERNELS = KernelLanguage(
    "CuTe DSL",
    frozenset({"cutlass", "cutlass.cute", "math"}),
    THREAD_LANGUAGE,
    THREAD_ATTRIBUTES,
    words("cute Constexpr range_constexpr Float32 BFloat16 Float16 Int64 Int32 Boolean pi e inf log2 sqrt"),
    frozenset({"cutlass.cute.kernel", "cutlass.cute.jit"}),
)
KERNEL_LANGUAGES = (TRITON_KERNELS, TILE_KERNELS, THREAD_KERNELS)


def exists(path: str) -> bool:
    """Whether a library of which some members are listed has that name, listed or not; nothing is imported for it."""
    module, _, name = path.rpartition(".")
    if module not in PREFIXES:
        return True
    try:
        return hasattr(_walk(module), name) or importlib.util.find_spec(path) is not None
    except (AttributeError, ImportError):
        return False


def unlisted(path: str) -> Violation:
    """What a program is answered that names something outside of the language."""
    top = path.partition(".")[0]
    if top in REACHING:
        return Violation("reaches outside", f"It uses `{path}`.", Status.cheating)
    if top in ("torch", "triton"):
        what = "torch operator" if top == "torch" else "triton"
        return Violation(what, f"`{path}` is not among the parts of {top} that host code may use.")
    if top in {member.partition(".")[0] for member in MEMBERS}:
        return Violation("unknown module", f"`{path}` is not among the parts of `{top}` that a kernel needs.")
    return Violation("unknown module", f"It uses `{path}`, which is none of the modules that kernels need.")


@functools.cache
def _walk(path: str) -> Any:
    parts = path.split(".")
    member: Any = importlib.import_module(parts[0])
    for n, part in enumerate(parts[1:], 2):
        if not hasattr(member, part):
            try:
                importlib.import_module(".".join(parts[:n]))
            except ModuleNotFoundError:
                raise AttributeError(f"module '{'.'.join(parts[: n - 1])}' has no attribute '{part}'") from None
        member = getattr(member, part)
    return member


def attributes_of(value: Any) -> frozenset[str]:
    """The attributes that a program may ask of a plain value."""
    for kind, names in ATTRIBUTES.items():
        if isinstance(value, kind) and not (kind is int and isinstance(value, bool)):
            return names | (TORCH_SIZE if type(value).__name__ == "Size" else frozenset())
    name = type(value).__name__
    if "DeviceProperties" in name:
        return DEVICE_PROPERTIES
    return OTHERS.get(name, frozenset())


BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "Add": operator.add, "Sub": operator.sub, "Mult": operator.mul, "Div": operator.truediv, "FloorDiv": operator.floordiv,
    "Mod": operator.mod, "Pow": operator.pow, "LShift": operator.lshift, "RShift": operator.rshift, "BitOr": operator.or_,
    "BitXor": operator.xor, "BitAnd": operator.and_, "MatMult": operator.matmul,
}  # fmt: skip
IN_PLACE: dict[str, Callable[[Any, Any], Any]] = {
    "Add": operator.iadd, "Sub": operator.isub, "Mult": operator.imul, "Div": operator.itruediv,
    "FloorDiv": operator.ifloordiv, "Mod": operator.imod, "Pow": operator.ipow, "LShift": operator.ilshift,
    "RShift": operator.irshift, "BitOr": operator.ior, "BitXor": operator.ixor, "BitAnd": operator.iand,
}  # fmt: skip
COMPARE: dict[str, Callable[[Any, Any], Any]] = {
    "Eq": operator.eq, "NotEq": operator.ne, "Lt": operator.lt, "LtE": operator.le, "Gt": operator.gt, "GtE": operator.ge,
    "Is": operator.is_, "IsNot": operator.is_not,
    "In": lambda item, among: item in among, "NotIn": lambda item, among: item not in among,
}  # fmt: skip
UNARY: dict[str, Callable[[Any], Any]] = {
    "USub": operator.neg, "UAdd": operator.pos, "Invert": operator.invert, "Not": operator.not_,
}  # fmt: skip
MUTATES = words("append extend insert pop reverse sort remove clear update setdefault add discard")
# Methods and functions that take a set without its order being seen.
KEEPS_NO_ORDER = words("union intersection difference issubset issuperset update")
PLAIN = (bool, int, float, complex, str, bytes, type(None), type(Ellipsis), type(NotImplemented), range, slice)
IMMUTABLE = (bool, int, float, complex, str, bytes, type(None), type(Ellipsis), type(NotImplemented), range)
