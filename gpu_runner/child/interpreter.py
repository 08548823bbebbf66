"""Triton's interpreter, made to compute as a GPU does, and faster.

By itself it takes the bits of bfloat16 for whole numbers. Here every operation goes by float32 and is rounded to the nearest
even, so a value is what the hardware's float32 unit would give. A float argument becomes a float32 scalar of the kernel, as it does
when the kernel is compiled. Maxima and minima of NaN are the other number, unless the kernel asks for NaN. The functions of
libdevice, which by themselves are empty there, are computed by numpy, in float32. Stores through tensor descriptors write
whole 16 bytes.
Source: Triton's documentation of the interpreter's limits (``bfloat16`` numerics are unsupported in it); triton.language.maximum,
its parameter ``propagate_nan``; PTX ISA, ``max`` without and with ``.NaN``; issue 11583 of triton-lang/triton, stores on Hopper.
"""

from __future__ import annotations

import ast
import dataclasses
import functools
import inspect
import logging
import operator
from collections.abc import Callable, Sequence
from typing import Any

from gpu_runner.program import altered, nans, pipelines, tiles, unordered

_log = logging.getLogger(__name__)

_CANONICAL_NAN = 0x7FC0
_CHUNK = 16  # bytes that a store through a tensor descriptor writes at once
_BITWISE = frozenset({"bitwise_and", "bitwise_or", "bitwise_xor", "left_shift", "right_shift"})


def teach_interpreter() -> None:
    """Have the interpreter of this process compute in bfloat16 as a GPU does; a second time changes nothing."""
    from triton.runtime import interpreter

    builder = interpreter.InterpreterBuilder
    if getattr(builder, "computes_bfloat16", False):
        return
    builder.computes_bfloat16 = True
    hasten_interpreter()
    interpreter._patch_lang_tensor = _indexing(interpreter._patch_lang_tensor)  # noqa: SLF001 - there is no public place for it
    builder.binary_op = _binary(builder.binary_op)
    builder.unary_op = _unary(builder.unary_op)
    builder.cast_impl = _cast(builder.cast_impl)
    builder.get_bf16 = _constant
    builder.create_atomic_rmw = _atomic(builder.create_atomic_rmw)
    builder.create_idiv = _floored(interpreter.np.floor_divide, builder.create_idiv)
    builder.create_fdiv = _dividing(builder.create_fdiv)
    builder.create_fp_to_ui = _from_zero(builder.create_fp_to_ui)
    for name in ("create_fp_to_si", "create_fp_to_ui", "create_floor", "create_ceil"):
        setattr(builder, name, _cutting(getattr(builder, name)))
    builder.create_sqrt = _approximate_root(builder.create_sqrt)
    builder.create_fmul = _multiplying(builder.create_fmul)
    builder.create_fadd = _contracted(builder.create_fadd, 1)
    builder.create_fsub = _contracted(builder.create_fsub, -1)
    builder.create_srem = _floored(interpreter.np.remainder, builder.create_srem)
    interpreter.interpreter_builder.codegen_fns["min_dot_size"] = _least_of_a_product
    builder.create_dot = _summed_alike(builder.create_dot)
    for name in ("create_fma", "create_dot"):
        setattr(builder, name, _widened(getattr(builder, name)))
    interpreter._implicit_cvt = _scalars(interpreter._implicit_cvt)  # noqa: SLF001 - as above
    builder.create_fp_to_fp = _eight_bits(builder.create_fp_to_fp)
    builder.create_tensor_pointer_load = _padded_pointer(builder.create_tensor_pointer_load)
    builder.create_descriptor_load = _padded_descriptor(builder.create_descriptor_load)
    builder.create_descriptor_store = _store_of_whole_chunks
    interpreter.ScanOps.cumsum = _scanned(operator.add, interpreter.ScanOps.cumsum)
    interpreter.ScanOps.cumprod = _scanned(operator.mul, interpreter.ScanOps.cumprod)
    interpreter.ScanOps.generic_scan = _scan_by_doubling
    interpreter.ReduceOps.generic_reduce = _reduce_by_halves
    for kind in (interpreter.ReduceOps, interpreter.ScanOps):
        kind.apply_impl = _reduced(kind.apply_impl)
    pipelines.watch(interpreter)
    interpreter.interpreter_semantic.counted = _counted  # a name that every kernel sees, as `to_tensor` has there
    interpreter.ASTTransformer.visit_For = _over_counted


class _Counter(int):
    """A number that a loop counts. A compiled kernel has it as a tensor; here it stays Python's own, which is faster."""

    def to(self, dtype: Any, *args: Any, **named: Any) -> Any:
        """The number as a scalar of the kernel in a dtype."""
        from triton.runtime import interpreter

        return interpreter.interpreter_semantic.to_tensor(int(self)).to(dtype, *args, **named)


def _counted(values: Any) -> Any:
    return pipelines.stepped(values, map(_Counter, values)) if type(values) is range else values


def _over_counted(self: ast.NodeTransformer, node: ast.For) -> ast.For:
    self.generic_visit(node)
    counted = ast.Attribute(ast.Name("interpreter_semantic", ast.Load()), "counted", ast.Load())
    node.iter = ast.copy_location(ast.Call(counted, [node.iter], []), node.iter)
    return node


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
    """A reduction by the kernel's own function, on whole blocks: neighbours first, or in an order that is drawn."""
    dimensions = len(input[0].handle.data.shape)
    input, axis = self.unravel(input, self.axis)
    columns = [unordered.reordered(item.handle.data.swapaxes(axis, -1)) for item in input]
    if (own := unordered.elements_of_a_thread(columns[0].shape[-1])) > 1:
        parts = [data.reshape(*data.shape[:-1], -1, own) for data in columns]
        columns = [part[..., 0] for part in parts]
        for place in range(1, own):  # a thread takes one after the other
            columns = _combined(self, input, columns, [part[..., place] for part in parts])
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
    """The float32 values of bfloat16 bits."""
    return (data.astype("uint32") << 16).view("float32")


def narrow(values: Any) -> Any:
    """Float32 values as bfloat16 bits, rounded to the nearest, ties to even."""
    values = values.astype("float32")
    bits = values.view("uint32").astype("uint64")
    odd = values != values  # NaN, without a function of numpy
    rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16
    return (rounded * ~odd + _CANONICAL_NAN * odd).astype("uint16")


def _is_bfloat16(handle: Any) -> bool:
    kind = getattr(handle, "dtype", None)
    return kind is not None and bool(kind.name == "bf16" or kind.scalar.name == "bf16")


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


def _least_of_a_product(left: Any, right: Any) -> tuple[int, int, int]:
    """The least sizes of a product of blocks that Triton compiles for NVIDIA's GPUs."""
    return 1, 1, 32 if left.scalar.primitive_bitwidth == 8 else 16


def _constant(self: Any, value: float) -> Any:
    import triton.language as tl
    from triton.runtime import interpreter

    return interpreter.TensorHandle(narrow(interpreter.np.array([value], dtype="float32")), tl.bfloat16)


def _atomic(original: Callable[..., Any]) -> Callable[..., Any]:
    """Atomic additions of halves: the interpreter has none of bfloat16, and fails where one of float16 overflows."""

    def create_atomic_rmw(self: Any, operation: Any, ptr: Any, val: Any, mask: Any, *rest: Any) -> Any:
        import triton.language as tl
        from triton.runtime import interpreter

        np = interpreter.np
        is_half = val.dtype.scalar == tl.float16
        if not (is_half or _is_bfloat16(val)) or not str(operation).endswith("FADD"):
            return original(self, operation, ptr, val, mask, *rest)
        wider, narrower = (np.float32, np.float16) if is_half else (widen, narrow)
        memory, zero = interpreter._interpreter, np.zeros(1, dtype=val.data.dtype)  # noqa: SLF001 - as below
        memory = memory.adding(ptr.data, mask.data, 2) if hasattr(memory, "adding") else memory
        before = np.zeros_like(val.data)
        # One after the other: two elements of a block may add to the same address.
        with np.errstate(over="ignore"):
            for place in range(val.data.size):
                at, there = ptr.data.reshape(-1)[place : place + 1], mask.data.reshape(-1)[place : place + 1]
                old = memory.load(at, there, zero, zero.dtype)
                memory.store(at, narrower(wider(old) + wider(val.data.reshape(-1)[place : place + 1])), there)
                before.reshape(-1)[place] = old[0]
        return interpreter.TensorHandle(before, tl.float16 if is_half else tl.bfloat16)

    return create_atomic_rmw


_takes_arguments = [False]  # whether a launch makes values of a kernel of its arguments


def _scalars(original: Callable[..., Any]) -> Callable[..., Any]:
    import torch
    import triton.language as tl
    from triton.runtime.interpreter import TensorHandle

    def implicit_cvt(arg: Any) -> Any:
        if not isinstance(arg, float):
            before, _takes_arguments[0] = (
                _takes_arguments[0],
                True,
            )  # a descriptor among them was made by the host, which needs no memory of the kernel's
            try:
                return original(arg)
            finally:
                _takes_arguments[0] = before
        data = torch.tensor([arg], dtype=torch.float32).numpy()
        return tl.core.tensor(TensorHandle(data, tl.float32), tl.float32)

    return implicit_cvt


def _binary(original: Callable[..., Any]) -> Callable[..., Any]:
    def binary_op(self: Any, lhs: Any, rhs: Any, op: Any) -> Any:
        if not (_is_bfloat16(lhs) or _is_bfloat16(rhs)) or getattr(op, "__name__", "") in _BITWISE:
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


def _summed_alike(original: Callable[..., Any]) -> Callable[..., Any]:
    """Add up products in float64: an element depends neither on the block that it is in nor on which operand is the left one.

    A GPU adds in the order of the inner dimension, whatever the block, so that a backward kernel computes the scores of forward
    again to the last bit. BLAS adds in another order for each shape of operands. Of float32 in TF32, which is what a product takes
    that asks for nothing else, the tensor cores of a GPU ignore the last 13 bits.
    """
    from triton._C.libtriton import ir
    from triton.runtime.interpreter import TensorHandle, np

    def create(self: Any, first: Any, second: Any, third: Any, precision: Any, *rest: Any) -> Any:
        if any(handle.data.dtype != np.float32 for handle in (first, second, third)):
            return original(self, first, second, third, precision, *rest)
        left, right = first.data, second.data
        if precision == ir.INPUT_PRECISION.TF32:
            left, right = (
                (np.ascontiguousarray(data).view(np.int32) & -(2**13)).view(np.float32) for data in (left, right)
            )
        product = np.matmul(left, right, dtype=np.float64).astype(np.float32)
        return TensorHandle(product + third.data, third.dtype.scalar)

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


def _floored(by_python: Callable[..., Any], original: Callable[..., Any]) -> Callable[..., Any]:
    def divide(self: Any, lhs: Any, rhs: Any) -> Any:
        from triton.runtime.interpreter import TensorHandle

        if not tiles.is_floored():
            return original(self, lhs, rhs)
        return TensorHandle(by_python(lhs.data, rhs.data), lhs.dtype.scalar)

    return divide


def _dividing(original: Callable[..., Any]) -> Callable[..., Any]:
    """Note of quotients of whole numbers in float32 which are whole: compiled, `div.full.f32` may be off by 2 units.

    Source: PTX ISA, "div"; of divisors that are powers of two the quotient is taken to be exact.
    """

    @functools.wraps(original)
    def create_fdiv(self: Any, lhs: Any, rhs: Any) -> Any:
        import triton.language as tl

        result = original(self, lhs, rhs)
        if lhs.dtype.scalar == tl.float32:
            result.divided = lhs.data, rhs.data
        return result

    return create_fdiv


def _multiplying(original: Callable[..., Any]) -> Callable[..., Any]:
    """Note the factors of products in float32, by which a sum may be contracted."""

    def create_fmul(self: Any, lhs: Any, rhs: Any) -> Any:
        result = original(self, lhs, rhs)
        if result.data.dtype.char == "f" and lhs.data.dtype.char == rhs.data.dtype.char == "f":
            result.factors = lhs.data, rhs.data
        return result

    return create_fmul


def _contracted(original: Callable[..., Any], sign: int) -> Callable[..., Any]:
    """Round a product and a sum in float32 once, as the multiply-add does of which Triton lets LLVM make one.

    Source: the option ``enable_fp_fusion`` of a launch, which is on by default.
    """
    from triton.runtime import interpreter

    wide, operate = interpreter.np.float64, interpreter.np.add if sign > 0 else interpreter.np.subtract

    def add(self: Any, lhs: Any, rhs: Any) -> Any:
        result = original(self, lhs, rhs)
        factors = getattr(lhs, "factors", None)
        first, second = factors, None if factors else getattr(rhs, "factors", None)
        if (first or second) and result.data.dtype.char == "f":
            one, other = (
                pair[0].astype(wide) * pair[1] if pair else each.data for pair, each in ((first, lhs), (second, rhs))
            )
            result.data = operate(one, other).astype(result.data.dtype)
        return result

    return add


def _approximate_root(original: Callable[..., Any]) -> Callable[..., Any]:
    """Have the root in float32 of a square be the number before it, unless it is a power of two: a cut shows it.

    Source: PTX ISA, ``sqrt.approx``, which may be off by one unit.
    """
    from triton.runtime import interpreter

    numpy = interpreter.np

    def create_sqrt(self: Any, arg: Any) -> Any:
        result = original(self, arg)
        if result.data.dtype.char == "f":
            with numpy.errstate(all="ignore"):
                is_square = (result.data == numpy.floor(result.data)) & (result.data * result.data == arg.data)
                is_square &= (numpy.frexp(result.data)[0] != 0.5) & numpy.isfinite(result.data) & (result.data > 0)
            if is_square.any():
                result.data = numpy.where(is_square, numpy.nextafter(result.data, numpy.float32(0)), result.data)
        return result

    return create_sqrt


def _from_zero(original: Callable[..., Any]) -> Callable[..., Any]:
    """Convert numbers below zero to zero, where the dtype has no sign, as ``cvt.rzi`` of PTX does: the interpreter wraps them."""
    from triton.runtime import interpreter

    def create_fp_to_ui(self: Any, source: Any, *rest: Any) -> Any:
        if source.data.dtype.kind == "f" and (source.data < 0).any():
            source = interpreter.TensorHandle(interpreter.np.maximum(source.data, 0), source.dtype)
        return original(self, source, *rest)

    return create_fp_to_ui


def _with_memory(original: Callable[..., Any]) -> Callable[..., Any]:
    """Make a descriptor where there is an allocator: a launch on a GPU asks it for the descriptor's memory."""
    from triton.runtime import _allocation

    @functools.wraps(original)
    def create_make_tensor_descriptor(self: Any, *given: Any, **named: Any) -> Any:
        allocator = _allocation._allocator.get()  # noqa: SLF001 - there is no public place for it
        if isinstance(allocator, _allocation.NullAllocator) and not _takes_arguments[0]:
            allocator(0, 1, None)  # raises
        return original(self, *given, **named)

    return create_make_tensor_descriptor


def _cutting(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def cut(self: Any, source: Any, *rest: Any) -> Any:
        result = original(self, _as_divided(source), *rest)
        result.data = altered.cut(result.data)
        return result

    return cut


def _as_divided(source: Any) -> Any:
    """Numbers that are cut to whole ones: in drawn lanes the neighbour of a quotient of whole numbers that is whole."""
    from triton.runtime.interpreter import TensorHandle, np

    divided = getattr(source, "divided", None)
    if divided is None:
        return source
    with np.errstate(all="ignore"):
        top, bottom = divided
        is_whole = (top == np.floor(top)) & (bottom == np.floor(bottom)) & (source.data == np.floor(source.data))
        is_exact = (np.frexp(bottom)[0] == 0.5) | (top == 0) | ~np.isfinite(source.data)
    drawn = np.random.default_rng().integers(-1, 2, source.data.shape)
    changed = is_whole & ~is_exact & (drawn != 0)
    if not changed.any():
        return source
    to = np.where(drawn > 0, np.inf, -np.inf).astype(np.float32)
    result = TensorHandle(np.where(changed, np.nextafter(source.data, to), source.data), source.dtype.scalar)
    for name in ("unread", "is_loaded"):
        if hasattr(source, name):
            setattr(result, name, getattr(source, name))
    return result


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


def _store_of_whole_chunks(self: Any, desc: Any, value: Any, indices: Any) -> Any:
    """Store a block through a descriptor, and with a row's last elements what fills up their 16 bytes, as Hopper does."""
    pointers, mask = desc.materialize_pointers(indices)
    width, size = desc.block_shape[-1], desc.base.dtype.element_ty.primitive_bitwidth // 8
    end = int(desc.shape[-1].data.item()) - int(indices[-1].data.item())  # of the row, in the block's columns
    if 0 < end < width:
        mask = mask.copy()
        mask[..., end : end + -end % (_CHUNK // size)] = mask[..., end - 1 : end]
    return self.create_masked_store(pointers, value, _mask(mask), None, None)


def _mask(mask: Any) -> Any:
    import triton.language as tl
    from triton.runtime.interpreter import TensorHandle

    return mask if isinstance(mask, TensorHandle) else TensorHandle(mask, tl.int1)


def _reduced(original: Callable[..., Any]) -> Callable[..., Any]:
    """Widen what numpy compares in one step; sums in half precision are rounded at each step, as by a combine function."""
    import triton.language as tl
    from triton.language import standard

    names = (
        *("_argmin_combine_tie_break_left", "_argmax_combine_tie_break_left"),
        *("_elementwise_max", "_elementwise_min"),
    )
    at_once = [getattr(standard, name) for name in names if hasattr(standard, name)]
    halves = (tl.float16, tl.bfloat16)

    def apply_impl(self: Any, input: Any) -> Any:
        if self.combine_fn == standard._sum_combine and input[0].dtype in halves and hasattr(self, "generic_reduce"):  # noqa: SLF001 - as above
            return self.generic_reduce(input)
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


def teach_descriptors() -> None:
    """Have descriptors need an allocator, as on a GPU; a second time changes nothing."""
    from triton.runtime import interpreter

    builder = interpreter.InterpreterBuilder
    if not hasattr(builder.create_make_tensor_descriptor, "__wrapped__"):
        builder.create_make_tensor_descriptor = _with_memory(builder.create_make_tensor_descriptor)


def teach_maxima() -> None:
    """Have maxima and minima be as on a GPU where one number is NaN; a second time changes nothing."""
    from triton.runtime import interpreter

    builder = interpreter.InterpreterBuilder
    for name, operation in (("create_maxnumf", interpreter.np.fmax), ("create_minnumf", interpreter.np.fmin)):
        setattr(builder, name, _of(operation))
    builder.create_clampf = _clamped(builder.create_clampf)


def _clamped(original: Callable[..., Any]) -> Callable[..., Any]:
    """Cut NaN to an end of a range, unless the kernel asks for NaN."""
    from triton.runtime import interpreter

    def create_clampf(self: Any, arg: Any, lo: Any, hi: Any, propagate_nans: Any) -> Any:
        result = original(self, arg, lo, hi, propagate_nans)
        if str(propagate_nans).endswith("NONE"):
            result.data = interpreter.np.where(arg.data != arg.data, lo.data, result.data)
        return result

    return create_clampf


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
        cuts = function in (numpy.floor, numpy.ceil, numpy.trunc)
        operands = [_operand(item.handle, cuts) if isinstance(item, tl.core.tensor) else item for item in given]
        data = function(*operands)
        data = altered.cut(data) if cuts else data
        kind = tl.int32 if data.dtype.kind == "b" else like.dtype.scalar
        data = data.astype("int32" if data.dtype.kind == "b" else like.handle.data.dtype)
        whole = tl.block_type(kind, list(data.shape)) if like.type.is_block() else kind
        handles, is_asked = [tensor.handle for tensor in tensors], function in (numpy.isnan, numpy.isinf)
        made = TensorHandle(data, kind)
        made.function, made.asks_for_nan = function.__name__, is_asked
        return tl.core.tensor(nans.mark(made, *handles, is_asked=is_asked), whole)

    return call


def _operand(handle: Any, cuts: bool) -> Any:
    return (_as_divided(handle) if cuts else handle).data


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


def hasten_interpreter() -> tuple[str, ...]:
    """Spare the interpreter work that it repeats, or whose result it throws away, once; what it computes stays.

    Where this version of Triton lacks what a shortcut takes the place of, or has it with other parameters, it stays as it is. Gives
    the names of these, which stand in the child's log too.

    The functions that are replaced were read in triton 3.6.0 and 3.7.1, in which they are the same.
    """
    from triton.language import core
    from triton.runtime import interpreter

    missed: list[str] = []
    builder, handle, semantic = interpreter.InterpreterBuilder, interpreter.TensorHandle, interpreter.TritonSemantic
    for owner, name, make in (
        (interpreter, "_patch_builtin", _patching),
        (interpreter, "_patch_lang", _patched_once),
        (interpreter, "_get_np_dtype", _numbered),
        (core.block_type, "__init__", _named_once),
        (core.block_type, "to_ir", _itself),
        (core.tensor, "__init__", _of_known_type),
        (core.dtype, "__eq__", _by_name),
        (core, "_unwrap_if_constexpr", _plain_first),
        (handle, "__init__", _of_plain_type),
        (handle, "get_element_ty", _element_of),
        (builder, "create_splat", _filled),
        (builder, "binary_op", _of_plain_operands),
        (builder, "create_addptr", _added_in_place),
        (semantic, "broadcast_impl_value", _of_one_shape),
        (semantic, "binary_op_type_checking_impl", _checked_once),
        (semantic, "computation_type_impl", _promoted_once),
        (semantic, "cast", _cast_directly),
        (semantic, "add", _of_one_type("create_fadd")),
        (semantic, "sub", _of_one_type("create_fsub")),
        (semantic, "mul", _of_one_type("create_fmul")),
    ):
        if not _replaced(owner, name, make):
            missed.append(f"{getattr(owner, '__name__', owner)}.{name}")
    options: Any = getattr(interpreter.interpreter_builder, "options", None)
    # Each sum and product of whole numbers is done once more in int64, for an assertion that is made in debugging alone.
    if getattr(options, "debug", True) is False and hasattr(options, "sanitize_overflow"):
        interpreter.interpreter_builder.options = dataclasses.replace(options, sanitize_overflow=False)
    if missed:
        _log.warning(
            "Triton's interpreter is slower than it could be: this version has no %s as known", ", ".join(missed)
        )
    return tuple(missed)


def _replaced(owner: Any, name: str, make: Callable[[Any], Callable[..., Any]]) -> bool:
    """Put what ``make`` makes of a function in its place, where that is there and has the same parameters."""
    try:
        original = getattr(owner, name)
        made = make(original)
        if _parameters(made) != _parameters(original):
            return False
    except (AttributeError, TypeError, ValueError):
        return False
    setattr(owner, name, made)
    return True


def _parameters(function: Callable[..., Any]) -> list[str]:
    return list(inspect.signature(function).parameters)


def _indexing(original: Callable[..., None]) -> Callable[..., None]:
    """Let a scalar be an index where it is an array of one element: numpy from 2.4 on refuses what Triton up to 3.6 asks of it."""

    def patch_lang_tensor(tensor: Any, scope: Any) -> None:
        original(tensor, scope)
        scope.set_attr(tensor, "__index__", lambda self: self.handle.data.item())

    return patch_lang_tensor


def _patching(original: Callable[..., None]) -> Callable[..., None]:
    """Patch what is a builtin of the language, in turn for each call of a function: which names are is looked up once.

    What stands in for a builtin is made once too, and hands on what the wrapper of a builtin would: that one only looks whether it
    is called from a kernel.
    """
    from triton.language import core
    from triton.runtime import interpreter

    names: dict[Any, tuple[str, ...]] = {}
    known: dict[Any, Callable[..., Any]] = {}
    wrapper, semantic = core.builtin(lambda: None).__code__, interpreter.interpreter_semantic

    def interpreted(member: Any) -> Callable[..., Any]:
        call = member.__wrapped__ if getattr(member, "__code__", None) is wrapper else member

        def new_member(*args: Any, **named: Any) -> Any:
            named["_semantic"] = semantic
            return call(*args, **named)

        return new_member

    def patch_builtin(pkg: Any, builder: Any, scope: Any) -> None:
        if pkg not in names:
            names[pkg] = tuple(name for name, member in inspect.getmembers(pkg) if core.is_builtin(member))
        if names[pkg] and not core.is_builtin(getattr(pkg, names[pkg][0])):
            return  # all of it is patched already, by the kernel that calls
        for name in names[pkg]:
            member = getattr(pkg, name)
            if member not in known:
                known[member] = interpreted(member)
            scope.set_attr(pkg, name, known[member])

    return patch_builtin


def _patched_once(original: Callable[..., Any]) -> Callable[..., Any]:
    """Patch the language for a launch alone: a function that its kernel calls finds it patched."""
    import triton.language as tl
    from triton.runtime import interpreter

    modules: dict[Any, frozenset[str]] = {}
    patched: set[str] = set()
    nothing_patched = interpreter._LangPatchScope  # noqa: SLF001 - as above

    def patch_lang(fn: Any) -> Any:
        if fn not in modules:
            named = (value for value in fn.__globals__.values() if inspect.ismodule(value))
            modules[fn] = frozenset(module.__name__ for module in named if module in (tl, tl.core))
        if modules[fn] and modules[fn] <= patched:
            return nothing_patched()
        scope = original(fn)
        put_back = scope.restore

        def restore() -> None:
            patched.clear()
            put_back()

        scope.restore = restore
        patched.update(modules[fn])
        return scope

    return patch_lang


def _named_once(original: Callable[..., None]) -> Callable[..., None]:
    """Check and name each type of block once: one is made for each operation."""
    from triton.language import core

    known: dict[Any, dict[str, Any]] = {}

    def block(self: Any, element_ty: Any, shape: Any) -> None:
        sizes = tuple([size.value if type(size) is core.constexpr else size for size in shape])
        key = (type(element_ty), element_ty.name, getattr(element_ty, "address_space", None), sizes)
        if key not in known:
            original(self, element_ty, shape)
            known[key] = dict(vars(self)) | {_FACTS: []}
        self.__dict__.update(known[key])

    return block


def _itself(original: Callable[..., Any]) -> Callable[..., Any]:
    """In the interpreter a type is its own form in the compiler's language."""

    def to_ir(self: Any, builder: Any) -> Any:
        return self

    return to_ir


_FACTS = "_of_tensor"  # the attribute of a type with what each tensor has of it; blocks of one type share the list


def _of_known_type(original: Callable[..., None]) -> Callable[..., None]:
    """Derive once what a tensor has of its type.

    Raises:
        AttributeError: a tensor has more, or less, than is known.
    """
    from triton.language import core

    def facts(kind: Any) -> tuple[Any, ...]:
        probe = object.__new__(core.tensor)
        original(probe, None, kind)
        if vars(probe).keys() != {"handle", "type", "numel", "dtype", "shape"}:
            raise AttributeError("tensor")
        return probe.numel, probe.dtype, probe.shape

    facts(core.float32)

    def tensor(self: Any, handle: Any, type: Any) -> None:
        known = type.__dict__.get(_FACTS)
        if not known:
            known = type.__dict__.setdefault(_FACTS, [])
            known += facts(type)
        self.handle, self.type = handle, type
        self.numel, self.dtype, self.shape = known

    return tensor


def _by_name(original: Callable[..., Any]) -> Callable[..., Any]:
    from triton.language import core

    def same(self: Any, other: Any) -> Any:
        if self is other:
            return True
        return self.name == other.name if type(other) is core.dtype else original(self, other)

    return same


def _plain_first(original: Callable[..., Any]) -> Callable[..., Any]:
    from triton.language import core

    plain = frozenset([core.tensor, core.dtype, int, float, bool, str, type(None)])

    def unwrapped(o: Any) -> Any:
        kind = type(o)
        return o if kind in plain else o.value if kind is core.constexpr else original(o)

    return unwrapped


def _of_plain_type(original: Callable[..., None]) -> Callable[..., None]:
    """Look at the size of a plain type's elements without a function call: a handle is made for each operation."""
    from triton.language import core

    def handle(self: Any, data: Any, dtype: Any, attr: Any = None) -> None:
        width = data.itemsize
        if type(dtype) is core.dtype and (width == 1 or width * 8 <= dtype.primitive_bitwidth):
            self.data, self.dtype, self.attr = data, dtype, {} if attr is None else attr
        else:
            original(self, data, dtype, {} if attr is None else attr)

    return handle


def _element_of(original: Callable[..., Any]) -> Callable[..., Any]:
    from triton.language import core

    def element(self: Any) -> Any:
        kind = self.dtype
        if type(kind) is core.pointer_type:
            kind = kind.element_ty
        return kind if type(kind) is core.dtype else original(self)

    return element


def _of_plain_operands(original: Callable[..., Any]) -> Callable[..., Any]:
    """Look at the size of a plain result's elements once."""
    from triton.language import core
    from triton.runtime import interpreter

    def binary_op(self: Any, lhs: Any, rhs: Any, op: Any) -> Any:
        kind = lhs.dtype
        if type(kind) is not core.dtype or kind.name == "bf16" or rhs.dtype.name == "bf16":
            return original(self, lhs, rhs, op)
        output = op(lhs.data, rhs.data)
        width = output.itemsize
        if width > 1 and width * 8 > kind.primitive_bitwidth:
            output = output.astype(interpreter._get_np_dtype(kind))  # noqa: SLF001 - as above
        return interpreter.TensorHandle(output, kind)

    return binary_op


def _added_in_place(original: Callable[..., Any]) -> Callable[..., Any]:
    """Scale offsets and add them to pointers without a block for each step."""
    from triton.runtime import interpreter

    numpy = interpreter.np
    widths = [numpy.uint64(width) for width in range(9)]  # of elements, in bytes

    def create_addptr(self: Any, ptr: Any, offset: Any) -> Any:
        width = max(1, ptr.get_element_ty().primitive_bitwidth // 8)
        addresses, pointers = offset.data.astype(numpy.uint64), ptr.data
        if width > 1:
            numpy.multiply(addresses, widths[width], out=addresses)
        is_in_place = pointers.shape == addresses.shape and pointers.dtype == numpy.uint64
        return interpreter.TensorHandle(
            numpy.add(pointers, addresses, out=addresses if is_in_place else None), ptr.dtype
        )

    return create_addptr


def _filled(original: Callable[..., Any]) -> Callable[..., Any]:
    """Fill a block without numpy's checks."""
    from triton.runtime import interpreter

    numpy = interpreter.np

    def create_splat(self: Any, ret_ty: Any, arg: Any) -> Any:
        data = numpy.empty(ret_ty.shape, interpreter._get_np_dtype(arg.dtype))  # noqa: SLF001 - as above
        data[...] = arg.data
        return interpreter.TensorHandle(data, arg.dtype.scalar)

    return create_splat


MOST_CONSTANTS = 2**21  # elements of all numbers that are kept as blocks
LEAST_OF_CONSTANT = 2**8  # each counts as so many: what is kept besides takes more


def _checked_once(original: Callable[..., Any]) -> Callable[..., Any]:
    """Hand on two operands of one type as they are, and make the block of a number once for each type of the other operand."""
    from triton.language import core

    constants: dict[tuple[Any, ...], Any] = {}
    elements = 0

    def binary_op_type_checking_impl(
        self: Any,
        lhs: Any,
        rhs: Any,
        allow_lhs_ptr: bool = False,
        allow_rhs_ptr: bool = False,
        arithmetic_check: bool = True,
        div_or_mod: bool = False,
    ) -> Any:
        nonlocal elements
        how = allow_lhs_ptr, allow_rhs_ptr, arithmetic_check, div_or_mod
        if type(lhs) is core.tensor and type(rhs) is core.tensor:
            one, other = lhs.dtype, rhs.dtype
            if type(one) is core.dtype and type(other) is core.dtype and one.name == other.name:
                if not div_or_mod or one.name not in ("fp16", "bf16"):  # of which quotients are wider
                    return self.broadcast_impl_value(lhs, rhs)
            elif allow_lhs_ptr and type(one) is core.pointer_type and type(other) is core.dtype and other.is_int():
                return self.broadcast_impl_value(lhs, rhs)
            return original(self, lhs, rhs, *how)
        number, tensor = (rhs, lhs) if type(lhs) is core.tensor else (lhs, rhs)
        if type(number) not in (int, float) or type(tensor) is not core.tensor or type(tensor.dtype) is not core.dtype:
            return original(self, lhs, rhs, *how)
        key = type(number), number, number is rhs, tensor.type.name, how
        known = constants.get(key)
        if known is None:
            left, right = original(self, lhs, rhs, *how)
            constant, same = (right, left) if number is rhs else (left, right)
            if same is tensor:  # else it is converted
                size = max(constant.handle.data.size, LEAST_OF_CONSTANT)
                elements += size
                if elements > MOST_CONSTANTS:
                    constants.clear()
                    elements = size
                constant.handle.data.flags.writeable = False
                constants[key] = constant
            return left, right
        return (tensor, known) if number is rhs else (known, tensor)

    return binary_op_type_checking_impl


_OF_FLOATS = frozenset(["fp16", "bf16", "fp32", "fp64"])


def _of_one_type(create: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Compute with two floats of one type and shape without asking what each of them is."""
    from triton.language import core

    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        def operate(self: Any, input: Any, other: Any, sanitize_overflow: bool) -> Any:
            if type(input) is core.tensor and type(other) is core.tensor and input.dtype.name in _OF_FLOATS:
                one, two = input.type, other.type
                known = one.__dict__.get(_FACTS)
                if one is two or (known is not None and known is two.__dict__.get(_FACTS)):
                    return self.tensor(getattr(self.builder, create)(input.handle, other.handle), one)
            return original(self, input, other, sanitize_overflow)

        return operate

    return make


def _promoted_once(original: Callable[..., Any]) -> Callable[..., Any]:
    """Look up once what two types are promoted to."""
    known: dict[tuple[Any, ...], Any] = {}

    def computation_type_impl(
        self: Any, a_ty: Any, a_is_scalar: Any, b_ty: Any, b_is_scalar: Any, div_or_mod: Any
    ) -> Any:
        key = a_ty.name, a_is_scalar, b_ty.name, b_is_scalar, div_or_mod
        if key not in known:
            known[key] = original(self, a_ty, a_is_scalar, b_ty, b_is_scalar, div_or_mod)
        return known[key]

    return computation_type_impl


_WHOLE = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
_CASTS = {(one, other): "create_int_cast" for one in _WHOLE for other in _WHOLE}
_CASTS |= {(half, "fp32"): "create_fp_ext" for half in ("fp16", "bf16")}
_CASTS |= {("fp32", half): "create_fp_trunc" for half in ("fp16", "bf16")}


def _cast_directly(original: Callable[..., Any]) -> Callable[..., Any]:
    """Look up how the most usual types are converted, in place of asking about all kinds of types each time.

    Raises:
        AttributeError: the interpreter has other functions for them.
    """
    from triton.language import core
    from triton.runtime import interpreter

    for name in set(_CASTS.values()):
        if len(_parameters(getattr(interpreter.InterpreterBuilder, name))) != 3 + (name == "create_int_cast"):
            raise AttributeError(name)

    def cast(self: Any, input: Any, dst_ty: Any, fp_downcast_rounding: Any = None) -> Any:
        source, target = input.dtype, dst_ty.scalar
        if fp_downcast_rounding is None and type(source) is core.dtype and type(target) is core.dtype:
            if source.name == target.name:
                return input
            name = _CASTS.get((source.name, target.name))
            if name is not None:
                kind = input.type.with_element_ty(target) if input.type.is_block() else dst_ty
                how = (source.name.startswith("int"),) if name == "create_int_cast" else ()
                return self.tensor(getattr(self.builder, name)(input.handle, kind, *how), kind)
        return original(self, input, dst_ty, fp_downcast_rounding)

    return cast


def _of_one_shape(original: Callable[..., Any]) -> Callable[..., Any]:
    """Hand on two operands of one shape, which need no other."""

    def broadcast_impl_value(self: Any, lhs: Any, rhs: Any) -> Any:
        one, other = lhs.type, rhs.type
        if one is other or (one.is_block() and other.is_block() and list(one.shape) == list(other.shape)):
            return lhs, rhs
        return original(self, lhs, rhs)

    return broadcast_impl_value


def _numbered(original: Callable[..., Any]) -> Callable[..., Any]:
    """Look the type of numpy for a plain type of Triton up once: a table of all is made each time."""
    from triton.language import core

    known: dict[str, Any] = {}

    def get_np_dtype(tt_dtype: Any) -> Any:
        element = tt_dtype.element_ty if type(tt_dtype) is core.block_type else tt_dtype
        if type(element) is not core.dtype:
            return original(tt_dtype)
        if element.name not in known:
            known[element.name] = original(element)
        return known[element.name]

    return get_np_dtype
