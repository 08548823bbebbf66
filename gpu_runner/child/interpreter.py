"""Triton's interpreter, made to compute as a GPU does, and faster.

By itself it takes the bits of bfloat16 for whole numbers. Here every operation goes by float32 and is rounded to the nearest
even, so a value is what the hardware's float32 unit would give. A float argument becomes a float32 scalar of the kernel, as it does
when the kernel is compiled. Maxima and minima of NaN are the other number, unless the kernel asks for NaN. The functions of
libdevice, which by themselves are empty there, are computed by numpy, in float32.
Source: Triton's documentation of the interpreter's limits (``bfloat16`` numerics are unsupported in it); triton.language.maximum,
its parameter ``propagate_nan``; PTX ISA, ``max`` without and with ``.NaN``.
"""

from __future__ import annotations

import dataclasses
import inspect
import operator
from collections.abc import Callable, Sequence
from typing import Any

from gpu_runner.program import nans

_CANONICAL_NAN = 0x7FC0
_BITWISE = frozenset({"bitwise_and", "bitwise_or", "bitwise_xor", "left_shift", "right_shift"})


def teach_interpreter() -> None:
    """Have the interpreter of this process compute in bfloat16 as a GPU does; a second time changes nothing."""
    from triton.runtime import interpreter

    builder = interpreter.InterpreterBuilder
    if getattr(builder, "computes_bfloat16", False):
        return
    builder.computes_bfloat16 = True
    hasten_interpreter()
    builder.binary_op = _binary(builder.binary_op)
    builder.unary_op = _unary(builder.unary_op)
    builder.cast_impl = _cast(builder.cast_impl)
    builder.get_bf16 = _constant
    builder.create_atomic_rmw = _atomic(builder.create_atomic_rmw)
    for name in ("create_fma", "create_dot"):
        setattr(builder, name, _widened(getattr(builder, name)))
    interpreter._implicit_cvt = _scalars(interpreter._implicit_cvt)  # noqa: SLF001 - there is no public place for it
    builder.create_fp_to_fp = _eight_bits(builder.create_fp_to_fp)
    builder.create_tensor_pointer_load = _padded_pointer(builder.create_tensor_pointer_load)
    builder.create_descriptor_load = _padded_descriptor(builder.create_descriptor_load)
    interpreter.ScanOps.cumsum = _scanned(operator.add, interpreter.ScanOps.cumsum)
    interpreter.ScanOps.cumprod = _scanned(operator.mul, interpreter.ScanOps.cumprod)
    interpreter.ScanOps.generic_scan = _scan_by_doubling
    interpreter.ReduceOps.generic_reduce = _reduce_by_halves
    for kind in (interpreter.ReduceOps, interpreter.ScanOps):
        kind.apply_impl = _reduced(kind.apply_impl)


def _scan_by_doubling(self: Any, input: Any) -> Any:
    """A scan by the kernel's own associative function, on whole blocks, as threads of a warp have it.

    Triton's own goes element by element, and rounds as often as there are elements.
    """
    columns, step = [item.handle.data.swapaxes(self.axis, -1).copy() for item in input], 1
    while step < columns[0].shape[-1]:
        # The first lanes have nothing before them: what is computed there is dropped, and a block keeps its power of two.
        earlier = [data.copy() for data in columns]
        for shifted, data in zip(earlier, columns, strict=True):
            shifted[..., step:] = data[..., :-step]
        for data, given in zip(columns, _combined(self, input, earlier, columns), strict=True):
            data[..., step:] = given[..., step:]
        step *= 2
    return [self.to_tensor(data.swapaxes(self.axis, -1), item.dtype) for data, item in zip(columns, input, strict=True)]


def _reduce_by_halves(self: Any, input: Any) -> Any:
    """A reduction by the kernel's own associative function, on whole blocks: neighbours first."""
    dimensions = len(input[0].handle.data.shape)
    input, axis = self.unravel(input, self.axis)
    columns = [item.handle.data.swapaxes(axis, -1) for item in input]
    while columns[0].shape[-1] > 1:
        columns = _combined(self, input, [data[..., ::2] for data in columns], [data[..., 1::2] for data in columns])
    results = []
    for data, item in zip(columns, input, strict=True):
        one = data.swapaxes(axis, -1)
        kept = (
            one.reshape(one.shape if self.axis is not None else (1,) * dimensions)
            if self.keep_dims
            else one.squeeze(axis)
        )
        results.append(self.to_tensor(kept if kept.shape else kept.item(), item.dtype))
    return results


def _combined(self: Any, input: Any, first: Sequence[Any], second: Sequence[Any]) -> list[Any]:
    """Arrays of what the function of a scan or reduction gives for two lists of arrays."""
    from triton.runtime import interpreter

    blocks = [
        self.to_tensor(data, item.dtype) for each in (first, second) for data, item in zip(each, input, strict=True)
    ]
    given = self.combine_fn.fn(*blocks)
    results = given if isinstance(given, tuple) else (given,)
    numpy = interpreter.np
    return [
        numpy.broadcast_to(item.handle.data if hasattr(item, "handle") else item, data.shape).astype(data.dtype)
        for data, item in zip(second, results, strict=True)
    ]


def _scanned(combine: Callable[[Any, Any], Any], original: Callable[..., Any]) -> Callable[..., Any]:
    """A scan of floats by doubling, as threads of a warp have it: a term passes log2(n) roundings.

    One term after the other, the roundings of equal terms add up to errors that no GPU makes.
    """

    def scan(self: Any, input: Any) -> Any:
        if input.handle.data.dtype.kind != "f":
            return original(self, input)
        data = input.handle.data.swapaxes(self.axis, -1).copy()
        step = 1
        while step < data.shape[-1]:
            data[..., step:] = combine(data[..., step:], data[..., :-step])
            step *= 2
        return [self.to_tensor(data.swapaxes(self.axis, -1), dtype=input.dtype)]

    return scan


def widen(data: Any) -> Any:
    """Give bfloat16 bits as float32 values."""
    return (data.astype("uint32") << 16).view("float32")


def narrow(values: Any) -> Any:
    """Give float32 values as bfloat16 bits, rounded to the nearest, ties to even."""
    values = values.astype("float32")
    bits = values.view("uint32").astype("uint64")
    odd = values != values  # NaN, without a function of numpy
    rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16
    return (rounded * ~odd + _CANONICAL_NAN * odd).astype("uint16")


def _is_bfloat16(handle: Any) -> bool:
    import triton.language as tl

    return getattr(getattr(handle, "dtype", None), "scalar", None) is tl.bfloat16 or (
        getattr(handle, "dtype", None) == tl.bfloat16
    )


def _wide(handle: Any) -> Any:
    import triton.language as tl
    from triton.runtime.interpreter import TensorHandle

    return TensorHandle(widen(handle.data), tl.float32) if _is_bfloat16(handle) else handle


def _narrow(handle: Any) -> Any:
    import triton.language as tl
    from triton.runtime.interpreter import TensorHandle

    if handle.data.dtype == bool:
        return TensorHandle(handle.data, tl.int1)  # a comparison
    return TensorHandle(narrow(handle.data), tl.bfloat16)


def _constant(self: Any, value: float) -> Any:
    import triton.language as tl
    from triton.runtime import interpreter

    return interpreter.TensorHandle(narrow(interpreter.np.array([value], dtype="float32")), tl.bfloat16)


def _atomic(original: Callable[..., Any]) -> Callable[..., Any]:
    def create_atomic_rmw(self: Any, operation: Any, ptr: Any, val: Any, mask: Any, *rest: Any) -> Any:
        import triton.language as tl
        from triton.runtime import interpreter

        if not _is_bfloat16(val) or not str(operation).endswith("FADD"):
            return original(self, operation, ptr, val, mask, *rest)
        memory, zero = interpreter._interpreter, interpreter.np.zeros(1, dtype="uint16")  # noqa: SLF001 - as below
        before = interpreter.np.zeros_like(val.data)
        # One after the other: two elements of a block may add to the same address.
        for place in range(val.data.size):
            at, there = ptr.data.reshape(-1)[place : place + 1], mask.data.reshape(-1)[place : place + 1]
            old = memory.load(at, there, zero, zero.dtype)
            memory.store(at, narrow(widen(old) + widen(val.data.reshape(-1)[place : place + 1])), there)
            before.reshape(-1)[place] = old[0]
        return interpreter.TensorHandle(before, tl.bfloat16)

    return create_atomic_rmw


def _scalars(original: Callable[..., Any]) -> Callable[..., Any]:
    import torch
    import triton.language as tl
    from triton.runtime.interpreter import TensorHandle

    def implicit_cvt(arg: Any) -> Any:
        if not isinstance(arg, float):
            return original(arg)
        data = torch.tensor([arg], dtype=torch.float32).numpy()
        return tl.core.tensor(TensorHandle(data, tl.float32), tl.float32)

    return implicit_cvt


def _binary(original: Callable[..., Any]) -> Callable[..., Any]:
    def binary_op(self: Any, lhs: Any, rhs: Any, op: Any) -> Any:
        if getattr(op, "__name__", "") in _BITWISE or not (_is_bfloat16(lhs) or _is_bfloat16(rhs)):
            return original(self, lhs, rhs, op)
        return _narrow(original(self, _wide(lhs), _wide(rhs), op))

    return binary_op


def _unary(original: Callable[..., Any]) -> Callable[..., Any]:
    def unary_op(self: Any, arg: Any, op: Any) -> Any:
        return _narrow(original(self, _wide(arg), op)) if _is_bfloat16(arg) else original(self, arg, op)

    return unary_op


def _cast(original: Callable[..., Any]) -> Callable[..., Any]:
    def cast_impl(self: Any, src: Any, dst_type: Any) -> Any:
        import triton.language as tl
        from triton.runtime.interpreter import TensorHandle

        target = dst_type.scalar
        if target == tl.bfloat16 and not _is_bfloat16(src):
            return TensorHandle(narrow(src.data), tl.bfloat16)
        return original(self, _wide(src), dst_type) if target != tl.bfloat16 else src

    return cast_impl


def _widened(original: Callable[..., Any]) -> Callable[..., Any]:
    def create(self: Any, first: Any, second: Any, third: Any, *rest: Any) -> Any:
        if not any(_is_bfloat16(handle) for handle in (first, second, third)):
            return original(self, first, second, third, *rest)
        given = original(self, _wide(first), _wide(second), _wide(third), *rest)
        return _narrow(given) if _is_bfloat16(third) else given

    return create


def _eight_bits(original: Callable[..., Any]) -> Callable[..., Any]:
    """Convert to and from float8 by torch: the interpreter drops the carry of a mantissa that rounds up.

    Beyond the largest number it gives that one, as the GPU's instruction does.
    Source: PTX ISA, "cvt" with ``.satfinite``, to which Triton compiles these conversions.
    """
    import torch
    import triton.language as tl
    from triton.runtime.interpreter import TensorHandle

    small = {"fp8e5": torch.float8_e5m2, "fp8e4nv": torch.float8_e4m3fn}

    def create_fp_to_fp(self: Any, src: Any, dst_type: Any, rounding_mode: Any) -> Any:
        source, target = src.dtype.scalar, dst_type.scalar
        nearest = rounding_mode is None or str(rounding_mode).endswith("RTNE")
        if target.name in small and source.name in ("bf16", "fp16", "fp32") and nearest:
            kind = small[target.name]
            values = torch.from_numpy(_wide(src).data.astype("float32"))
            most = torch.finfo(kind).max
            data = values.clamp(-most, most).to(kind).view(torch.uint8).numpy()
            return TensorHandle(data, target)
        if source.name in small and target.name in ("bf16", "fp32"):
            values = torch.from_numpy(src.data.astype("uint8")).view(small[source.name]).float().numpy()
            return TensorHandle(narrow(values) if target == tl.bfloat16 else values, target)
        return original(self, src, dst_type, rounding_mode)

    return create_fp_to_fp


def _pads_by_nan(pointers: Any, padding: Any) -> bool:
    import triton.language as tl

    return pointers.get_element_ty() == tl.bfloat16 and str(padding).endswith("PAD_NAN")


def _nan_of(pointers: Any) -> Any:
    import triton.language as tl
    from triton.runtime import interpreter

    return interpreter.TensorHandle(interpreter.np.full(pointers.data.shape, _CANONICAL_NAN, "uint16"), tl.bfloat16)


def _padded_pointer(original: Callable[..., Any]) -> Callable[..., Any]:
    def create_tensor_pointer_load(self: Any, ptr: Any, boundary_check: Any, padding_option: Any, *rest: Any) -> Any:
        if not _pads_by_nan(ptr.base, padding_option):
            return original(self, ptr, boundary_check, padding_option, *rest)
        pointers, mask = ptr.materialize_pointers(boundary_check)
        return self.create_masked_load(pointers, _mask(mask), _nan_of(pointers), *rest)

    return create_tensor_pointer_load


def _padded_descriptor(original: Callable[..., Any]) -> Callable[..., Any]:
    def create_descriptor_load(self: Any, desc: Any, indices: Any, cache_modifier: Any, eviction_policy: Any) -> Any:
        if not _pads_by_nan(desc.base, desc.padding):
            return original(self, desc, indices, cache_modifier, eviction_policy)
        pointers, mask = desc.materialize_pointers(indices)
        return self.create_masked_load(pointers, _mask(mask), _nan_of(pointers), cache_modifier, eviction_policy, False)

    return create_descriptor_load


def _mask(mask: Any) -> Any:
    import triton.language as tl
    from triton.runtime.interpreter import TensorHandle

    return mask if isinstance(mask, TensorHandle) else TensorHandle(mask, tl.int1)


def _reduced(original: Callable[..., Any]) -> Callable[..., Any]:
    """Widen what numpy computes in one step; a combine function sees bfloat16, and each of its steps is rounded."""
    from triton.language import standard

    names = (
        *("_argmin_combine_tie_break_left", "_argmax_combine_tie_break_left", "_elementwise_max", "_elementwise_min"),
        *("_sum_combine", "_prod_combine"),
    )
    at_once = [getattr(standard, name) for name in names if hasattr(standard, name)]

    def apply_impl(self: Any, input: Any) -> Any:
        is_at_once = any(self.combine_fn == function for function in at_once)
        if not is_at_once or not any(_is_bfloat16(item.handle) for item in input):
            return original(self, input)
        given = original(self, tuple(_retyped(item, _wide) if _is_bfloat16(item.handle) else item for item in input))
        results = list(given) if isinstance(given, list | tuple) else [given]
        narrowed = [
            _retyped(result, _narrow) if place < len(input) and _is_bfloat16(input[place].handle) else result
            for place, result in enumerate(results)
        ]
        return narrowed if isinstance(given, list | tuple) else narrowed[0]

    return apply_impl


def _retyped(tensor: Any, change: Callable[[Any], Any]) -> Any:
    import triton.language as tl

    handle = change(tensor.handle)
    shape = list(handle.data.shape)
    return tl.core.tensor(handle, tl.block_type(handle.dtype, shape) if tensor.type.is_block() else handle.dtype)


def teach_maxima() -> None:
    """Have maxima and minima be as on a GPU where one number is NaN; a second time changes nothing."""
    from triton.runtime import interpreter

    for name, operation in (("create_maxnumf", interpreter.np.fmax), ("create_minnumf", interpreter.np.fmin)):
        setattr(interpreter.InterpreterBuilder, name, _of(operation))


def _of(operation: Any) -> Any:
    def create(self: Any, lhs: Any, rhs: Any) -> Any:
        return self.binary_op(lhs, rhs, operation)

    return create


_MODULES = (
    "triton.language.extra.libdevice",
    "triton.language.extra.cuda.libdevice",
    "triton.language.extra.hip.libdevice",
)
# libdevice's names and numpy's; the fast forms lose some bits on a GPU and none here.
_BY_NUMPY = {
    "tanh": "tanh", "fast_tanhf": "tanh", "sinh": "sinh", "cosh": "cosh", "tan": "tan", "fast_tanf": "tan",
    "sin": "sin", "fast_sinf": "sin", "cos": "cos", "fast_cosf": "cos",
    "asin": "arcsin", "acos": "arccos", "atan": "arctan", "asinh": "arcsinh", "acosh": "arccosh", "atanh": "arctanh",
    "exp": "exp", "fast_expf": "exp", "exp2": "exp2", "expm1": "expm1", "log": "log", "fast_logf": "log",
    "log2": "log2", "fast_log2f": "log2", "log10": "log10", "fast_log10f": "log10", "log1p": "log1p",
    "sqrt": "sqrt", "cbrt": "cbrt", "floor": "floor", "ceil": "ceil", "trunc": "trunc", "rint": "rint",
    "nearbyint": "rint", "abs": "abs", "isinf": "isinf", "isnan": "isnan",
    "pow": "power", "fast_powf": "power", "atan2": "arctan2", "fmod": "fmod", "hypot": "hypot", "copysign": "copysign",

}  # fmt: skip


def teach_libdevice() -> None:
    """Fill in libdevice's functions, for modules that are imported from now on."""
    import importlib

    from triton.runtime import interpreter

    functions = {name: getattr(interpreter.np, other, None) for name, other in _BY_NUMPY.items()}
    functions |= {"rsqrt": _rsqrt, "rcp_rn": _reciprocal, "exp10": _exp10}
    functions |= {"erf": _each("erf"), "erfc": _each("erfc"), "lgamma": _each("lgamma"), "tgamma": _each("gamma")}
    for place in _MODULES:
        module = importlib.import_module(place)
        for name, function in functions.items():
            if function is not None and hasattr(module, name):
                setattr(module, name, _on_tensors(function))


def _on_tensors(function: Callable[..., Any]) -> Callable[..., Any]:
    import triton.language as tl
    from triton.runtime.interpreter import TensorHandle
    from triton.runtime.interpreter import np as numpy

    def call(*given: Any, **_: Any) -> Any:
        tensors = [item for item in given if isinstance(item, tl.core.tensor)]
        like = tensors[0]
        # A GPU's libdevice has no half precisions: whoever calls it with one gets an error there, and here too.
        if any(tensor.dtype.scalar not in (tl.float32, tl.float64) for tensor in tensors):
            raise TypeError(f"libdevice has no such function for {like.dtype.scalar}")
        operands = [item.handle.data if isinstance(item, tl.core.tensor) else item for item in given]
        data = function(*operands)
        kind = tl.int32 if data.dtype.kind == "b" else like.dtype.scalar
        data = data.astype("int32" if data.dtype.kind == "b" else like.handle.data.dtype)
        whole = tl.block_type(kind, list(data.shape)) if like.type.is_block() else kind
        handles, is_asked = [tensor.handle for tensor in tensors], function in (numpy.isnan, numpy.isinf)
        return tl.core.tensor(nans.mark(TensorHandle(data, kind), *handles, is_asked=is_asked), whole)

    return call


def _rsqrt(data: Any) -> Any:
    return 1 / data**0.5


def _reciprocal(data: Any) -> Any:
    return 1 / data


def _exp10(data: Any) -> Any:
    return 10.0**data


def _each(name: str) -> Callable[[Any], Any]:
    import math

    from triton.runtime import interpreter

    function: Callable[[float], float] = getattr(math, name)

    def call(data: Any) -> Any:
        return interpreter.np.vectorize(function, otypes=[data.dtype])(data)

    return call


def hasten_interpreter() -> None:
    """Spare the interpreter work that it repeats, or whose result it throws away, once; what it computes stays.

    Measured: 2026-11-22, on a CPU, the cases of ``tests/workers/compiler/test_values_in_the_interpreter.py`` and
    ``test_forms_in_the_interpreter.py``, with and without it side by side: 39 and 61 s of CPU time.
    """
    from triton.runtime import interpreter

    interpreter._patch_builtin = _patching(interpreter)  # noqa: SLF001 - as bfloat16: there is no public place for it
    interpreter._get_np_dtype = _numbered(interpreter._get_np_dtype)  # noqa: SLF001 - as above
    interpreter.ReduceOps.generic_reduce = _by_slices
    interpreter._patch_lang_tensor = _indexing(interpreter._patch_lang_tensor)  # noqa: SLF001 - as above
    _hasten_types()
    interpreter.TritonSemantic.broadcast_impl_value = _of_one_shape(interpreter.TritonSemantic.broadcast_impl_value)
    builder = interpreter.interpreter_builder
    # Each sum and product of whole numbers is done once more in int64, for an assertion that is made in debugging alone.
    if not builder.options.debug:
        builder.options = dataclasses.replace(builder.options, sanitize_overflow=False)


def _indexing(original: Callable[..., None]) -> Callable[..., None]:
    """Let a scalar be an index where it is an array of one element: numpy from 2.4 on refuses what Triton up to 3.6 asks of it."""

    def patch_lang_tensor(tensor: Any, scope: Any) -> None:
        original(tensor, scope)
        scope.set_attr(tensor, "__index__", lambda self: self.handle.data.item())

    return patch_lang_tensor


def _by_slices(self: Any, input: tuple[Any, ...]) -> list[Any]:
    """Reduce by a function of the kernel's own, a whole slice at each step along the axis in place of single elements."""
    from triton.runtime.interpreter import np

    given, axis = self.unravel(input, self.axis)
    slices = [np.moveaxis(arg.handle.data, axis, 0) for arg in given]
    shape = slices[0].shape[1:]

    def at(place: int) -> tuple[Any, ...]:
        return tuple(
            self.to_tensor(data[place].reshape(shape or (1,)), arg.dtype)
            for data, arg in zip(slices, given, strict=True)
        )

    found = at(0)
    for place in range(1, len(slices[0])):
        combined = self.combine_fn.fn(*found, *at(place))
        found = combined if isinstance(combined, tuple) else (combined,)
    kept = [1 if dim == axis else size for dim, size in enumerate(given[0].handle.data.shape)]
    if self.axis is None:
        kept = [1] * len(input[0].handle.data.shape)
    results = []
    for part, data, arg in zip(found, slices, given, strict=True):
        values = part.handle.data if hasattr(part, "handle") else part
        values = np.broadcast_to(np.asarray(values).astype(data.dtype), shape or (1,))
        values = values.reshape(kept) if self.keep_dims else values.reshape(shape) if shape else values.item()
        results.append(self.to_tensor(values, arg.dtype))
    return results


def _patching(interpreter: Any) -> Callable[..., None]:
    """Patch what is a builtin of the language, in turn for each call of a function: which names are is looked up once.

    What stands in for a builtin is made once too, and hands on what the wrapper of a builtin would: that one only looks whether it
    is called from a kernel.
    """
    from triton.language import core

    names: dict[Any, tuple[str, ...]] = {}
    known: dict[Any, Callable[..., Any]] = {}
    wrapper = core.builtin(lambda: None).__code__

    def interpreted(member: Any) -> Callable[..., Any]:
        call = member.__wrapped__ if getattr(member, "__code__", None) is wrapper else member

        def new_member(*args: Any, **named: Any) -> Any:
            named["_semantic"] = interpreter.interpreter_semantic
            return call(*args, **named)

        return new_member

    def patch_builtin(package: Any, builder: Any, scope: Any) -> None:
        if package not in names:
            names[package] = tuple(name for name, member in inspect.getmembers(package) if core.is_builtin(member))
        if names[package] and not core.is_builtin(getattr(package, names[package][0])):
            return  # all of it is patched already, by the kernel that calls
        for name in names[package]:
            member = getattr(package, name)
            if member not in known:
                known[member] = interpreted(member)
            scope.set_attr(package, name, known[member])

    return patch_builtin


def _hasten_types() -> None:
    """Check and name each type of block once, and what a tensor has of its type too: one is made for each operation.

    In the interpreter a type is its own form in the compiler's language.
    """
    from triton.language import core

    make_block, make_tensor, equal, unwrap = (
        core.block_type.__init__,
        core.tensor.__init__,
        core.dtype.__eq__,
        core._unwrap_if_constexpr,  # noqa: SLF001 - as above
    )
    blocks: dict[Any, dict[str, Any]] = {}

    def block(self: Any, element_ty: Any, shape: Any) -> None:
        sizes = tuple([size.value if type(size) is core.constexpr else size for size in shape])
        key = (type(element_ty), element_ty.name, getattr(element_ty, "address_space", None), sizes)
        known = blocks.get(key)
        if known is None:
            make_block(self, element_ty, shape)
            blocks[key] = dict(vars(self)) | {"_of_tensor": _facts(self)}
        else:
            self.__dict__.update(known)

    def _facts(kind: Any) -> tuple[Any, ...]:
        probe = object.__new__(core.tensor)
        make_tensor(probe, None, kind)
        return probe.numel, probe.dtype, probe.shape

    def tensor(self: Any, handle: Any, type: Any) -> None:
        known = type.__dict__.get("_of_tensor")
        if known is None:
            known = type._of_tensor = _facts(type)  # noqa: SLF001 - as above
        self.handle, self.type = handle, type
        self.numel, self.dtype, self.shape = known

    def same(self: Any, other: Any) -> Any:
        if self is other:
            return True
        return self.name == other.name if type(other) is core.dtype else equal(self, other)

    def unwrapped(given: Any) -> Any:
        kind = type(given)
        return given if kind is core.tensor or kind is int else given.value if kind is core.constexpr else unwrap(given)

    core.block_type.__init__, core.tensor.__init__, core.dtype.__eq__ = block, tensor, same
    core.block_type.to_ir = lambda self, _: self
    core._unwrap_if_constexpr = unwrapped  # noqa: SLF001 - as above


def _of_one_shape(original: Callable[..., Any]) -> Callable[..., Any]:
    """Hand on two operands of one shape, which need no other."""

    def broadcast_impl_value(self: Any, lhs: Any, rhs: Any) -> Any:
        if lhs.type.is_block() and rhs.type.is_block() and list(lhs.type.shape) == list(rhs.type.shape):
            return lhs, rhs
        return original(self, lhs, rhs)

    return broadcast_impl_value


def _numbered(original: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Look the type of numpy for a plain type of Triton up once: a table of all is made each time."""
    from triton.language import core

    found: dict[str, Any] = {}

    def get_np_dtype(kind: Any) -> Any:
        element = kind.element_ty if type(kind) is core.block_type else kind
        if type(element) is not core.dtype:
            return original(kind)
        if element.name not in found:
            found[element.name] = original(element)
        return found[element.name]

    return get_np_dtype
