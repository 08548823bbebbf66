"""What kernels decide and compute in Triton's interpreter, by the expression at which they stand."""

from __future__ import annotations

import ast
import builtins
import copy
import functools
import inspect
import linecache
import operator
import sys
import types
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

from gpu_runner.messages import Place
from gpu_runner.program import lookups, nans, tiles
from gpu_runner.program.coverage import (
    BOTH,
    FAILED,
    HELD,
    MOST_ITEMS,
    UNCHANGED,
    UNSEEN,
    VARIES,
    Decisions,
    Lanes,
    is_plain,
    join_value,
    place_of,
    text_of,
)
from gpu_runner.program.language import words
from gpu_runner.program.objects import unproved

MOST_PLACES = 2**16  # at which kernels compute; each step of a loop with written bounds is one
MOST_COMPARED = 8  # elements along an axis of which each is to be the largest once
MOST_BETWEEN = 4  # frames of Triton's between a kernel and one that it calls
# What gives the same in every program and call, of the same arguments. Whatever else a kernel calls may read memory or its place.
_SAME = frozenset(
    [
        "arange",
        "cdiv",
        "next_power_of_2",
        "zeros",
        "full",
        "where",
        "minimum",
        "maximum",
        "cast",
        "astype",
        "range",
        "static_range",
        "to",
    ]
)
# Those of the least normal number of float32, and of the least number that one less something may be.
_LEAST_LOGARITHMS = {"log": -87.4, "log2": -126.1, "log10": -38.0, "log1p": -16.7}
_FOLDED = frozenset(["cdiv", "next_power_of_2", "range", "static_range"])  # those that a compiler computes of constants


_ASKING = _SAME | {
    "is_floating",
    "is_fp16",
    "is_bf16",
    "is_int",
    "is_fp8",
    "is_ptr",
    "constexpr",
}  # what a test may call


# Operations that only move, shape or convert, or that others of this file see.
_KEEPING = words("""
    get_program_id get_num_programs load store masked_load masked_store tensor_pointer_load tensor_pointer_store
    make_block_ptr advance make_tensor_descriptor descriptor_load descriptor_store descriptor_gather descriptor_scatter
    expand_dims broadcast splat unsplat cat join split reshape trans make_range addptr print assert assume barrier
    si_to_fp ui_to_fp fp_ext fp_trunc fp_to_fp bitcast int_to_ptr ptr_to_int idiv fp_to_si fp_to_ui atomic_rmw atomic_cas
    """)
_REDUCTIONS = words(
    "argmax argmin max min sum xor_sum reduce_or cumsum cumprod"
)  # of Triton's language, which reduce at once
_SWAPS = "_compare_and_swap"  # of two elements, in which sorts of Triton's language consist
_SORTS = words(f"sort sort_impl topk bitonic_merge _bitonic_merge _bitonic_merge_hypercube {_SWAPS}")
_WATCHED = frozenset(["binary_op", "unary_op", "ternary_op"])


class Noted(Enum):
    """What is noted of the kernels that this process interprets."""

    nothing = "nothing"
    decisions = "decisions"
    nans = "decisions, and what hangs on NaN"  # of a case that holds some


_Methods = dict[tuple[type, str], Any]  # by class and name
_methods: dict[Noted, _Methods] = {}  # those of the interpreter that are others for each of them
_noted: list[Noted] = [Noted.nothing]


def watch_blocks(decisions: Decisions) -> None:
    """Have the interpreter of this process note what kernels decide; once."""
    from triton.runtime import interpreter

    owners = interpreter.InterpreterBuilder, interpreter.ReduceOps, interpreter.ScanOps
    methods = {Noted.nothing: _methods_of(owners)}
    for noted in (Noted.nans, Noted.decisions):
        _put(methods[Noted.nothing])
        _watch_methods(interpreter, decisions, follows_nans=noted is Noted.nans)
        methods[noted] = _methods_of(owners)
    every = list(methods.values())
    differ = [key for key in methods[Noted.decisions] if any(each.get(key) is not every[0].get(key) for each in every)]
    _methods.update({noted: {key: each[key] for key in differ} for noted, each in methods.items()})
    _noted[0] = Noted.decisions
    _watch_constants(interpreter, decisions)
    tiles.notes.append(functools.partial(_note_tile, decisions))
    _forget_frames(interpreter)


def _methods_of(owners: Iterable[type]) -> _Methods:
    names = [(owner, name) for owner in owners for name in dir(owner) if not name.startswith("__")]
    return {(owner, name): inspect.getattr_static(owner, name) for owner, name in names}


def _put(methods: _Methods) -> None:
    for (owner, name), method in methods.items():
        setattr(owner, name, method)


def note(noted: Noted) -> Noted:
    """Have the interpreter of this process, where there is one, note this in the next case; gives what it noted before."""
    before = _noted[0]
    nans.begin(has_some=noted is Noted.nans)
    if noted is not before and _methods:
        _put(_methods[noted])
        _noted[0] = noted
    return before


def _watch_methods(interpreter: Any, decisions: Decisions, *, follows_nans: bool) -> None:
    _watch_arithmetic(interpreter, decisions)
    _watch_memory(interpreter)
    _watch_bounds(interpreter.InterpreterBuilder, decisions)
    if follows_nans:
        nans.watch(interpreter)
    _watch_others(interpreter, decisions)
    _watch_atomics(interpreter, decisions)
    lookups.watch(interpreter, functools.partial(_place_of_look_up, decisions))


def _watch_arithmetic(interpreter: Any, decisions: Decisions) -> None:
    numpy, builder = interpreter.np, interpreter.InterpreterBuilder
    orders = frozenset([numpy.less, numpy.less_equal, numpy.greater, numpy.greater_equal])
    compares = orders | {numpy.equal, numpy.not_equal}
    joins = frozenset([numpy.bitwise_and, numpy.bitwise_or])
    picks = frozenset([numpy.minimum, numpy.maximum, numpy.fmin, numpy.fmax])
    binary, ternary, unary = builder.binary_op, builder.ternary_op, builder.unary_op
    divide = builder.create_idiv

    def binary_op(self: Any, lhs: Any, rhs: Any, op: Any) -> Any:
        result = binary(self, lhs, rhs, op)
        (_carry_picked if op in picks else _carry)(result, lhs, rhs)
        result.asks_for_nan = op in compares and lhs.data is rhs.data
        nans.mark(result, lhs, rhs, is_asked=result.asks_for_nan)
        if op in compares or (op in joins and result.data.dtype == bool):
            site = _undecided(decisions, "")
            if site is None or (op in (numpy.less, numpy.greater_equal) and _is_below_zero(lhs, rhs, numpy)):
                return result
            if site.is_between:  # such as whether a lock is held, which is a decision where what the lock holds changes
                _compute_at(site, decisions, op.__name__, result, lhs, rhs)
            else:
                counts = _against_limit(result, lhs, rhs) if op in orders else _read(result)
                if site.is_sorting:
                    counts = _where_all(counts, (_first_of_pairs(result.data, numpy),))
                _note(decisions, site, _outcome, result.data, counts)
        elif op in picks:
            _note_picked(decisions, result, lhs, rhs)
        else:
            _note_unchanged(decisions, op, result, lhs)
            _compute(decisions, op.__name__, result, lhs, rhs)
        return result

    def ternary_op(self: Any, first: Any, second: Any, third: Any, op: Any) -> Any:
        result = nans.mark(ternary(self, first, second, third, op), first, second, third, is_choice=op is numpy.where)
        if op is numpy.clip:
            _carry(result, first)
            site = _undecided(decisions, "a limit")
            if site is not None:
                _note(decisions, site, _happened, first.data != result.data, _read(result), "a limit")
        elif op is numpy.where:
            _carry_chosen(result, first, second, third, numpy)
            is_asked = getattr(first, "asks_for_nan", False)
            _compute(decisions, "where", result, second, third, has_odd=is_asked)
        return result

    def unary_op(self: Any, operand: Any, op: Any) -> Any:
        result = _carry(unary(self, operand, op), operand)
        result.function = op.__name__
        _note_signs(decisions, op, result, operand)
        _compute(decisions, op.__name__, result, operand)
        return result

    def create_idiv(self: Any, lhs: Any, rhs: Any) -> Any:
        _refuse_undefined(decisions, rhs.data == 0, "a division by zero")
        result = _carry(divide(self, lhs, rhs), lhs, rhs)
        _compute(decisions, "floor_divide", result, lhs, rhs)
        return result

    builder.binary_op, builder.ternary_op, builder.unary_op = binary_op, ternary_op, unary_op
    builder.create_idiv = create_idiv
    for name in ("create_fp_to_si", "create_fp_to_ui"):
        setattr(builder, name, _rounding(getattr(builder, name), decisions))


def _first_of_pairs(data: Any, numpy: Any) -> Any:
    """The lanes in which a step of a sort compares a pair: its other element has the opposite outcome."""
    frame: types.FrameType | None = sys._getframe(2)  # noqa: SLF001 - as above
    while frame is not None and frame.f_code.co_name != _SWAPS:
        frame = frame.f_back
    axis = None if frame is None else _value_of(frame.f_locals.get("i"))
    first = numpy.zeros(data.shape, bool)
    if isinstance(axis, int) and axis < data.ndim:
        first.swapaxes(0, data.ndim - 1 - axis)[0] = True
    return first


def _computing(name: str, method: Callable[..., Any], decisions: Decisions, handle: type) -> Callable[..., Any]:
    """Note what an operation computes that is neither arithmetic nor known to change nothing.

    ``name`` is the builder's: many of its methods are lambdas, and one operator of Triton may call two of them.
    """

    @functools.wraps(method)
    def computing(self: Any, *given: Any, **named: Any) -> Any:
        result = method(self, *given, **named)
        operands = [each for each in (*given, *named.values()) if isinstance(each, handle)]
        if isinstance(result, handle) and operands:
            _compute(decisions, name, result, *operands)
        return result

    return computing


def _rounding(method: Callable[..., Any], decisions: Decisions) -> Callable[..., Any]:
    """Note what a conversion to whole numbers gives, which of numbers beyond the range of the dtype is anything."""

    @functools.wraps(method)
    def rounding(self: Any, source: Any, dtype: Any) -> Any:
        if source.data.dtype.kind == "f":
            size, is_unsigned = dtype.scalar.primitive_bitwidth, dtype.scalar.is_int_unsigned()
            high = 2.0 ** (size - (not is_unsigned))
            is_within = (source.data < high) & (source.data >= (0.0 if is_unsigned else -high))
            _refuse_undefined(decisions, ~is_within, "a conversion to whole numbers beyond their range")
        result = method(self, source, dtype)
        _compute(decisions, "to", result, source)
        return result

    return rounding


def _reducing(method: Callable[..., Any], decisions: Decisions) -> Callable[..., Any]:
    """Note what a reduction or scan gives."""

    @functools.wraps(method)
    def reducing(self: Any, given: Any) -> Any:
        results = method(self, given)
        if isinstance(given, tuple):
            for at, result in enumerate(results):
                _compute(decisions, f"{type(self).__name__} {at}", result.handle, *(each.handle for each in given))
            _note_extremes(decisions, self, given[0].handle)
        return results

    return reducing


def _joining(method: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(method)
    def joining(self: Any, first: Any, second: Any) -> Any:
        result = method(self, first, second)
        result.is_joined = True
        return result

    return joining


def _note_extremes(decisions: Decisions, reduction: Any, operand: Any) -> None:
    """Note which of few elements is the least or largest, as ``tl.minimum`` of two is noted."""
    name = getattr(getattr(reduction.combine_fn, "fn", None), "__name__", "")
    data, axis = operand.data, reduction.axis
    is_extreme = getattr(operand, "is_joined", False) and ("max" in name or "min" in name)
    if not is_extreme or axis is None or not 1 < data.shape[axis] <= MOST_COMPARED:
        return
    best = (data.max if "max" in name else data.min)(axis=axis, keepdims=True)
    counts = _where_all(_read(operand), _finite(operand, (operand,)))
    counts = ... if counts is ... else counts.swapaxes(axis, 0)
    for at, is_best in enumerate((data == best).swapaxes(axis, 0)):
        own = counts if counts is ... else counts[at]
        what = f"its element {at}"
        site = _undecided(decisions, what) if own is ... or own.any() else None
        if site is not None:
            _note(decisions, site, _happened, is_best, own, what)


def _watch_others(interpreter: Any, decisions: Decisions) -> None:
    """Note what is computed by operations that have no rule of their own."""
    builder = interpreter.InterpreterBuilder
    for name in (each.removeprefix("create_") for each in dir(builder) if each.startswith("create_")):
        method = getattr(builder, f"create_{name}")
        if name not in _KEEPING and not _WATCHED & set(inspect.unwrap(method).__code__.co_names):
            setattr(builder, f"create_{name}", _computing(name, method, decisions, interpreter.TensorHandle))
    builder.create_join = _joining(builder.create_join)
    for kind in (interpreter.ReduceOps, interpreter.ScanOps):
        kind.apply = _reducing(kind.apply, decisions)


def _place_of_look_up(decisions: Decisions, what: str) -> Place | None:
    site = None if decisions.is_paused else _site(sys._getframe(2))  # noqa: SLF001 - the only way to the kernel's frame
    return None if site is None else site.place_of(what)


def _watch_atomics(interpreter: Any, decisions: Decisions) -> None:
    """Note whether what is compared and swapped was equal, and whether an atomic minimum or maximum changes a number."""
    builder, handle, numpy = interpreter.InterpreterBuilder, interpreter.TensorHandle, interpreter.np
    swap, change = builder.create_atomic_cas, builder.create_atomic_rmw

    def create_atomic_cas(self: Any, ptr: Any, cmp: Any, val: Any, *rest: Any) -> Any:
        result = swap(self, ptr, cmp, val, *rest)
        _compute_between(
            decisions, "equal to what it is compared with", handle, result.data == cmp.data, (cmp, val, result)
        )
        return result

    def create_atomic_rmw(self: Any, operation: Any, ptr: Any, val: Any, mask: Any, *rest: Any) -> Any:
        result = change(self, operation, ptr, val, mask, *rest)
        if str(operation).endswith(("MAX", "MIN")):
            wins = val.data > result.data if str(operation).endswith("MAX") else val.data < result.data
            there = numpy.broadcast_to(numpy.asarray(mask.data).astype(bool), wins.shape)
            _compute_between(decisions, "another one than before", handle, wins[there], (val, result))
        return result

    builder.create_atomic_cas, builder.create_atomic_rmw = create_atomic_cas, create_atomic_rmw


def _compute_between(decisions: Decisions, what: str, handle: Any, happened: Any, operands: Sequence[Any]) -> None:
    """Note whether something happens to memory that programs share, where what they bring changes, as of locks it does not."""
    import triton.language as tl

    site = None if decisions.is_paused else _site(sys._getframe(2))  # noqa: SLF001 - as above
    if site is not None and happened.size:
        _compute_at(site, decisions, what, handle(happened, tl.int1), *operands)


def _watch_memory(interpreter: Any) -> None:
    """Mark the lanes that a mask keeps from memory, through what only moves or converts them."""
    builder = interpreter.InterpreterBuilder
    load = builder.create_masked_load

    def create_masked_load(self: Any, pointers: Any, mask: Any, *rest: Any, **named: Any) -> Any:
        result = load(self, pointers, mask, *rest, **named)
        read = interpreter.np.asarray(mask.data)  # which a block pointer has as an array of its own
        if not read.all():
            result.unread = ~read
        return result

    builder.create_masked_load = create_masked_load
    for name in ("cast_impl", "create_fp_to_fp", "create_bitcast"):
        setattr(builder, name, _carrying(getattr(builder, name)))
    for name in ("create_expand_dims", "create_broadcast"):
        setattr(builder, name, _shaping(getattr(builder, name), interpreter.TensorHandle))


def _watch_bounds(builder: Any, decisions: Decisions) -> None:
    """Note which lanes of a block lie within the bounds that a block pointer is checked against, as a mask's comparison is noted;
    of a descriptor, which always is, whether any does."""

    def watch(name: str, note: Callable[..., None]) -> None:
        method = getattr(builder, name)

        @functools.wraps(method)
        def watched(self: Any, block: Any, *rest: Any, **named: Any) -> Any:
            note(decisions, block, *rest)
            return method(self, block, *rest, **named)

        setattr(builder, name, watched)

    watch("create_tensor_pointer_load", lambda known, block, checked, *_: _note_bounds(known, block, checked))
    watch("create_tensor_pointer_store", lambda known, block, _, checked, *__: _note_bounds(known, block, checked))
    watch("create_descriptor_load", lambda known, block, at, *_: _note_reached(known, block, at))
    watch("create_descriptor_store", lambda known, block, _, at, *__: _note_reached(known, block, at))


def _within(block: Any, at: Sequence[Any], dimension: int) -> Any:
    from triton.runtime.interpreter import np as numpy

    places = at[dimension].data + numpy.arange(block.block_shape[dimension])
    return (places >= 0) & (places < block.shape[dimension].data)


def _note_bounds(decisions: Decisions, block: Any, checked: Sequence[int]) -> None:
    for dimension in checked:
        what = f"within its bounds along dimension {int(dimension)}"
        site = _undecided(decisions, what)
        if site is not None:
            _note(decisions, site, _outcome, _within(block, block.offsets, int(dimension)), ..., what)


def _note_reached(decisions: Decisions, block: Any, at: Sequence[Any]) -> None:
    what = "within its bounds anywhere"
    site = _undecided(decisions, what)
    if site is not None:
        reached = all(_within(block, at, dimension).any() for dimension in range(len(block.block_shape)))
        decisions.add_at(site.place_of(what), BOTH if reached else FAILED)


def _is_below_zero(lhs: Any, rhs: Any, numpy: Any) -> bool:
    """Whether whole numbers are compared with zero: places, which only an overflow makes negative."""
    return lhs.data.dtype.kind == "i" and not rhs.data.any() and rhs.data.size > 0 and not numpy.any(lhs.data < 0)


def _carry(result: Any, *operands: Any) -> Any:
    """The result of an operation, of whose lanes those are unread that are so in an operand: a mask kept them from memory."""
    for operand in operands:
        unread = getattr(operand, "unread", None)
        if unread is not None and unread.shape == result.data.shape:
            known = getattr(result, "unread", None)
            result.unread = unread if known is None else known | unread
    return result


def _carry_chosen(result: Any, condition: Any, first: Any, second: Any, numpy: Any) -> None:
    """Where a number takes the place of an unread lane, the lane stays unread."""
    marks = [getattr(each, "unread", None) for each in (first, second)]
    marks = [mark if mark is not None and mark.shape == result.data.shape else None for mark in marks]
    if marks[0] is not None and (marks[1] is not None or not _is_one_number(second)):
        result.unread = numpy.where(condition.data, marks[0], False if marks[1] is None else marks[1])
    elif marks[1] is not None and not _is_one_number(first):
        result.unread = numpy.where(condition.data, False, marks[1])
    elif any(mark is not None for mark in marks):
        result.unread = marks[0] if marks[0] is not None else marks[1]


def _carry_picked(result: Any, lhs: Any, rhs: Any) -> None:
    """A lane of a minimum or maximum is read where an operand is that was read there and is the result, unless it is one number."""
    _carry(result, lhs, rhs)
    for each in (lhs, rhs) if getattr(result, "unread", None) is not None else ():
        if each.data.shape == result.data.shape and not _is_one_number(each):
            is_picked = (each.data == result.data) | ((each.data != each.data) & (result.data != result.data))
            unread = getattr(each, "unread", None)
            result.unread = result.unread & ~(is_picked if unread is None else is_picked & ~unread)


def _is_one_number(value: Any) -> bool:
    return bool((value.data == value.data.flat[0]).all()) if value.data.size else True


def _carrying(method: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(method)
    def carrying(self: Any, operand: Any, *rest: Any, **named: Any) -> Any:
        return _carry(method(self, operand, *rest, **named), operand)

    return carrying


def _shaping(method: Callable[..., Any], handle: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(method)
    def shaping(self: Any, operand: Any, *rest: Any) -> Any:
        result = method(self, operand, *rest)
        if getattr(operand, "unread", None) is not None:
            result.unread = method(self, handle(operand.unread, operand.dtype), *rest).data
        return result

    return shaping


def _read(result: Any) -> Any:
    """The lanes of an operation that were read, all where none was, but for those that hang on NaN."""
    unread, by_nan = getattr(result, "unread", None), nans.marked(result)
    counts = ... if unread is None or unread.all() else ~unread
    return counts if by_nan is None else _where_all(counts, (~by_nan,))


def _finite(result: Any, operands: Sequence[Any]) -> list[Any]:
    """By operand of numbers that may be infinite, the lanes in which it is not."""
    from triton.runtime.interpreter import np as numpy

    data = [each.data for each in operands if each.data.dtype.kind == "f" and each.data.shape == result.data.shape]
    return [numpy.isfinite(each) for each in data]


def _against_limit(result: Any, *operands: Any) -> Any:
    """The lanes of a comparison that count: an infinity against a finite limit does not, whose result is judged by other rules,
    unless it is the logarithm of zero and the limit one that no other logarithm is below."""
    finite = _finite(result, operands)
    is_limit = len(finite) > 1 and any(each.all() for each in finite)
    is_limit = is_limit and not any(_is_below_logarithms(*pair) for pair in (operands, operands[::-1]))
    return _where_all(_read(result), finite if is_limit else ())


def _is_below_logarithms(limit: Any, value: Any) -> bool:
    least = _LEAST_LOGARITHMS.get(getattr(value, "function", ""))
    return least is not None and bool((limit.data < least).all())


def _where_all(counts: Any, masks: Iterable[Any]) -> Any:
    for mask in masks:
        if not mask.all():
            counts = mask if counts is ... else counts & mask
    return counts


def _outcome(data: Any) -> int:
    return (HELD if data.any() else 0) | (0 if data.all() else FAILED)


def _happened(data: Any) -> int:
    return BOTH if data.any() else FAILED


# -- plain numbers, such as constexpr arguments, with which the interpreter computes as Python does


_DECIDES, _COMPUTES, _LOOPS_OVER = "__kernelsmith_decides__", "__kernelsmith_computes__", "__kernelsmith_loops__"
_BRANCHES, _REACHES = "__kernelsmith_branches__", "__kernelsmith_reaches__"
_ASIDE = "__kernelsmith_aside__"
_LOOKS_UP, _CUTS = "__kernelsmith_looks_up__", "__kernelsmith_cuts__"
_OPERATORS: dict[str, Callable[..., Any]] = {
    "Add": operator.add, "Sub": operator.sub, "Mult": operator.mul, "Div": operator.truediv, "FloorDiv": operator.floordiv,
    "Mod": operator.mod, "Pow": operator.pow, "LShift": operator.lshift, "RShift": operator.rshift, "BitOr": operator.or_,
    "BitXor": operator.xor, "BitAnd": operator.and_, "MatMult": operator.matmul,
}  # fmt: skip
_SIGNS = "of a negative number", "of a number that is not negative"
_NO_NUMBERS = frozenset(["isinstance", "print", "getattr", "str", "tuple", "list", "range"])
noting: dict[
    str, Any
] = {}  # what the names of calls stand for that kernels are given here; none where nothing is noted


class Noting(ast.NodeTransformer):
    """A kernel's tree that has what it decides and computes of plain numbers noted, each call at the place of its expression."""

    def __init__(self) -> None:
        self._given: set[str] = set()  # parameters that are not bound again
        self._counted: set[str] = set()  # names that loops count, of which a compiled kernel has a scalar

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.FunctionDef:
        _leave_out_assertions(node)
        stored = {part.id for part in ast.walk(node) if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store)}
        self._given = {arg.arg for arg in (*node.args.args, *node.args.kwonlyargs)} - stored
        node.body = [self.visit(statement) for statement in node.body]
        return node

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AnnAssign:
        node.value = node.value and self.visit(node.value)
        return node

    def visit_AugAssign(self, node: ast.AugAssign) -> ast.stmt:
        # Triton makes a tensor of what is assigned, but not of what is added in place.
        if not isinstance(node.target, ast.Name):
            return ast.copy_location(ast.Assign([node.target], self.visit(_in_full(node))), node)
        named = ast.NamedExpr(node.target, self.visit(_in_full(node)))
        return ast.copy_location(ast.Expr(ast.copy_location(named, node)), node)

    def visit_If(self, node: ast.If | ast.While | ast.IfExp) -> ast.AST:
        if isinstance(node, ast.If) and _only_refuses(node):
            node.body, node.orelse = [[self.visit(each) for each in part] for part in (node.body, node.orelse)]
            return node
        self.generic_visit(node)
        node.test = _decided(node.test)
        return node

    def visit_While(self, node: ast.While) -> ast.AST:
        if _only_waits(node):
            node.test = _put_aside(node.test)
            return node
        return self.visit_If(node)

    def visit_IfExp(self, node: ast.IfExp) -> ast.AST:
        return self.visit_If(node)

    def visit_Compare(self, node: ast.Compare) -> ast.expr:
        self.generic_visit(node)
        # Whether something is None, host code has decided.
        return node if any(isinstance(each, ast.Is | ast.IsNot) for each in node.ops) else _call(_DECIDES, node, node)

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.expr:
        behind = [copy.deepcopy(each) for each in node.values[1:]]
        own = {part.id for part in ast.walk(node.values[0]) if isinstance(part, ast.Name)}
        self.generic_visit(node)
        node.values = [*map(_decided, node.values[:-1]), node.values[-1]]
        if any(isinstance(part, ast.Call) for each in behind for part in ast.walk(each)):
            nothing = ast.arguments([], [], None, [], [], None, [])
            rest = behind[0] if len(behind) == 1 else ast.copy_location(ast.BoolOp(node.op, behind), behind[0])
            later = ast.copy_location(ast.Lambda(nothing, rest), rest)
            stops, is_scalar = isinstance(node.op, ast.Or), bool(own & self._counted)
            first = node.values[0]
            node.values[0] = _call(_REACHES, first, first, ast.Constant(stops), ast.Constant(is_scalar), later)
        return node

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.expr:
        self.generic_visit(node)
        return _decided(node) if isinstance(node.op, ast.Not) else node

    def visit_BinOp(self, node: ast.BinOp) -> ast.expr:
        self.generic_visit(node)
        return _call(_COMPUTES, node, ast.Constant(type(node.op).__name__), node.left, node.right)

    def visit_Call(self, node: ast.Call) -> ast.expr:
        if _is_claim_of_size(node, self._given):
            node.args = [_put_aside(node.args[0])]
            return node
        if _is_assertion(node) and all(map(_asks_alone, node.args)):
            return node  # which only refuses
        self.generic_visit(node)
        # A kernel notes for itself what it computes.
        is_function = isinstance(node.func, ast.Attribute) or (
            isinstance(node.func, ast.Name) and node.func.id in dir(builtins) and node.func.id not in _NO_NUMBERS
        )
        if not is_function:
            return node
        noted = _call(_COMPUTES, node, node.func, *node.args)
        noted.keywords = node.keywords
        return noted

    def visit_Subscript(self, node: ast.Subscript) -> ast.expr:
        self.generic_visit(node)
        key = node.slice
        if not isinstance(node.ctx, ast.Load):
            return node
        if isinstance(key, ast.Slice):
            parts = [ast.Constant(None) if part is None else part for part in (key.lower, key.upper, key.step)]
            return _call(_CUTS, node, node.value, *parts)
        return node if isinstance(key, ast.Tuple | ast.Constant) else _call(_LOOKS_UP, node, node.value, key)

    def visit_For(self, node: ast.For) -> ast.For:
        if (
            isinstance(node.iter, ast.Call)
            and getattr(node.iter.func, "attr", getattr(node.iter.func, "id", "")) == "range"
        ):
            self._counted |= {part.id for part in ast.walk(node.target) if isinstance(part, ast.Name)}
        self.generic_visit(node)
        node.iter = _call(_LOOPS_OVER, node.iter, node.iter)
        return node

    def visit_comprehension(self, node: ast.comprehension) -> ast.comprehension:
        self.generic_visit(node)
        node.iter = _call(_LOOPS_OVER, node.iter, node.iter)
        node.ifs = [_decided(each) for each in node.ifs]
        return node


def _call(name: str, at: ast.expr, *args: ast.expr) -> ast.Call:
    return ast.copy_location(ast.Call(ast.Name(name, ast.Load()), list(args), []), at)


def _put_aside(node: ast.expr) -> ast.expr:
    """An expression of which nothing is noted."""
    nothing = ast.arguments([], [], None, [], [], None, [])
    return _call(_ASIDE, node, ast.copy_location(ast.Lambda(nothing, node), node))


def _decided(node: ast.expr) -> ast.expr:
    """A condition of whose parts each has its outcome noted."""
    if isinstance(node, ast.BoolOp):
        node.values = [_decided(each) for each in node.values]
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        node.operand = _decided(node.operand)
    elif not isinstance(node, ast.Constant):
        is_noted = isinstance(node, ast.Compare) or _is_noted(node)
        return _call(_BRANCHES, node, node if is_noted else _call(_DECIDES, node, node))
    return node


_AT_RUN_TIME = "device_assert"  # which a launch carries out in debugging alone, and nothing hangs on
_OF_VALUES = _ASKING | words(
    "sum max min abs exp log sqrt program_id num_programs reduce_or xor_sum"
)  # write and read no memory


def _leave_out_assertions(kernel: ast.FunctionDef) -> None:
    """Take from a kernel what it asserts as it runs, and names that it binds for that alone: it computes the same without."""
    asserted: set[str] = set()  # names
    left = True
    while left:
        read = {part.id for part in ast.walk(kernel) if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Load)}
        left = False
        for node in ast.walk(kernel):
            for name in ("body", "orelse"):
                block = getattr(node, name, None)
                if not isinstance(block, list):
                    continue
                kept = [each for each in block if not _says_nothing(each, asserted - read)]
                for each in (each for each in block if each not in kept):
                    asserted |= {part.id for part in ast.walk(each) if isinstance(part, ast.Name)}
                    left = True
                if len(kept) < len(block):
                    block[:] = kept or ([ast.copy_location(ast.Pass(), block[0])] if name == "body" else [])


def _says_nothing(statement: ast.stmt, unread: Collection[str]) -> bool:
    """Whether a statement asserts something of values as the kernel runs, or binds a name that nothing reads any more."""
    if isinstance(statement, ast.Assign):
        target = statement.targets[0]
        is_unread = len(statement.targets) == 1 and isinstance(target, ast.Name) and target.id in unread
        return is_unread and _asks_alone(statement.value, _OF_VALUES)
    if isinstance(statement, ast.If):
        is_empty = isinstance(statement.body[0], ast.Pass) and len(statement.body) == 1 and not statement.orelse
        return is_empty and _asks_alone(statement.test, _OF_VALUES)
    call = statement.value if isinstance(statement, ast.Expr) else None
    if not (isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr == _AT_RUN_TIME):
        return False
    return all(_asks_alone(each, _OF_VALUES) for each in (*call.args, *(each.value for each in call.keywords)))


def _only_waits(loop: ast.While) -> bool:
    """Whether a loop asks an atomic that changes no memory until it gives what is awaited: behind it, it has."""
    functions = [part.func for part in ast.walk(loop.test) if isinstance(part, ast.Call)]
    asked = [func.attr for func in functions if isinstance(func, ast.Attribute) and func.attr.startswith("atomic_")]
    is_empty = not loop.orelse and all(isinstance(statement, ast.Pass) for statement in loop.body)
    return (
        is_empty
        and len(asked) == 1
        and _changes_nothing(loop.test, asked[0])
        and _asks_alone(loop.test, {*_ASKING, *asked})
    )


def _changes_nothing(test: ast.expr, name: str) -> bool:
    """Whether the atomic of this name swaps a number for the same one, or adds zero."""
    calls = (part for part in ast.walk(test) if isinstance(part, ast.Call))
    given = next(call.args[1:] for call in calls if getattr(call.func, "attr", "") == name)
    if name == "atomic_cas":
        return len(given) == 2 and ast.dump(given[0]) == ast.dump(given[1])
    is_zero = len(given) == 1 and isinstance(given[0], ast.Constant) and given[0].value == 0
    return name == "atomic_add" and is_zero


def _is_claim_of_size(call: ast.Call, given: Collection[str]) -> bool:
    """Whether ``tl.assume`` says of an argument that it is above zero, as of a size: of none there is nothing to compute."""
    said = call.args[0] if len(call.args) == 1 and not call.keywords else None
    if not (isinstance(call.func, ast.Attribute) and call.func.attr == "assume" and isinstance(said, ast.Compare)):
        return False
    sides = said.left, said.comparators[0]
    larger, least = sides if isinstance(said.ops[0], ast.Gt) else sides[::-1]
    is_order = len(said.ops) == 1 and isinstance(said.ops[0], ast.Gt | ast.Lt)
    return (
        is_order
        and isinstance(larger, ast.Name)
        and larger.id in given
        and isinstance(least, ast.Constant)
        and least.value == 0
    )


def _only_refuses(node: ast.If) -> bool:
    """Whether all that hangs on a condition is whether the kernel refuses, as ``raise`` does in host code."""
    sides = node.body, node.orelse
    asserts = [[call for call in map(_assertion, side) if call is not None] for side in sides]
    is_alone = all(len(calls) == len(side) for calls, side in zip(asserts, sides, strict=True))
    refuses = any(
        len(calls) == len(side) and any(_is_false(call) for call in calls)
        for calls, side in zip(asserts, sides, strict=True)
    )
    return (is_alone or refuses) and _asks_alone(node.test)


def _assertion(statement: ast.stmt) -> ast.Call | None:
    value = statement.value if isinstance(statement, ast.Expr) else None
    return value if isinstance(value, ast.Call) and _is_assertion(value) else None


def _is_assertion(call: ast.Call) -> bool:
    return isinstance(call.func, ast.Attribute) and call.func.attr == "static_assert"


def _is_false(assertion: ast.Call) -> bool:
    asked = assertion.args[0] if assertion.args else None
    return isinstance(asked, ast.Constant) and not asked.value


def _asks_alone(node: ast.expr, asking: Collection[str] = _ASKING) -> bool:
    """Whether an expression writes no memory and calls no kernel, which may."""
    calls = [part.func for part in ast.walk(node) if isinstance(part, ast.Call)]
    return all(
        call.id in dir(builtins)
        if isinstance(call, ast.Name)
        else isinstance(call, ast.Attribute) and call.attr in asking
        for call in calls
    ) and not any(isinstance(part, ast.NamedExpr) for part in ast.walk(node))


def _is_noted(node: ast.expr) -> bool:
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id in (_DECIDES, _BRANCHES, _REACHES)
    )


def _in_full(node: ast.AugAssign) -> ast.BinOp:
    """What an augmented assignment computes, at its place."""
    target = copy.deepcopy(node.target)
    target.ctx = ast.Load()  # of an item too
    return ast.copy_location(ast.BinOp(target, node.op, node.value), node)


def _plain(value: Any) -> Any:
    """A number or text, a constexpr's too; None for anything else."""
    value = value.value if type(value).__name__ == "constexpr" else value
    return value if is_plain(value) else None


def _is_sequence(value: Any) -> bool:
    from triton.language import core

    return isinstance(value, tuple | list | str | range | core.tuple)


def _note_called(decisions: Decisions, name: str, value: Any, known: list[Any]) -> None:
    """Note what is computed of constants, by the name of an operation or function."""
    if name in ("min", "max"):
        for at, each in enumerate(known):
            _note_constant(decisions, BOTH if each == value else FAILED, f"its argument {at + 1}")
        return
    if name == "abs":
        for is_so, what in zip((known[0] < 0, known[0] >= 0), _SIGNS, strict=True):
            _note_constant(decisions, BOTH if is_so else FAILED, what)
    _compute_constant(decisions, name, value, known)


def _sequence_notes(decisions: Decisions) -> dict[str, Callable[..., Any]]:
    """What notes which loops ran, which entry of a sequence is taken, and where it is cut."""

    def loops_over(values: Any) -> Any:
        if isinstance(values, range | tuple | list):
            _note_constant(decisions, BOTH if values else FAILED, "not empty", is_branch=True)
        return values

    def looks_up(table: Any, key: Any) -> Any:
        value, at = table[key], _plain(key)
        if _is_sequence(table) and isinstance(at, int):
            _note_entries(decisions, table, at)
        return value

    def cuts(owner: Any, *parts: Any) -> Any:
        for end, bound in zip(("start", "stop"), map(_plain, parts), strict=False):
            if _is_sequence(owner) and isinstance(bound, int):
                _note_cut(decisions, end, bound, len(owner))
        return owner[slice(*parts)]

    return {_LOOPS_OVER: loops_over, _LOOKS_UP: looks_up, _CUTS: cuts}


def _computed_aside(decisions: Decisions, compute: Callable[[], Any]) -> Any:
    before, decisions.is_paused = decisions.is_paused, True
    try:
        return compute()
    finally:
        decisions.is_paused = before


def _reaching(decisions: Decisions) -> Callable[..., Any]:
    """What carries out the loads behind `and` and `or` where Python stops before them: of scalars a compiled kernel goes by all
    operands."""
    from triton.language import core

    def reaches(value: Any, stops: bool, is_counted: bool, behind: Callable[[], Any]) -> Any:
        if (is_counted or isinstance(value, core.tensor)) and bool(value) is stops:
            _computed_aside(decisions, behind)
        return value

    return reaches


def _watch_constants(interpreter: Any, decisions: Decisions) -> None:
    """Note what kernels decide and compute of plain numbers, and which loops ran."""
    from triton.language import core

    def decides(value: Any) -> Any:
        if _plain(value) is not None:
            _note_constant(decisions, HELD if value else FAILED)
        elif _is_sequence(value):
            _note_constant(decisions, HELD if len(value) else FAILED)
        elif isinstance(value, interpreter.tl.core.tensor) and value.handle.data.size == 1:
            site = _undecided(decisions, "")  # such as one that was loaded
            if site is not None:
                _note(decisions, site, _outcome, value.handle.data.astype(bool), _read(value.handle))
        return value

    def branches(value: Any) -> Any:
        if isinstance(value, core.tensor) and value.handle.data.size == 1:
            site = None if decisions.is_paused else _site(sys._getframe(1))  # noqa: SLF001 - as above
            if site is not None and _is_fixed(site, decisions) and site.text.is_run_time(site.node):
                _note(decisions, site, _outcome, value.handle.data.astype(bool), ...)
        return value

    def computes(operation: Any, *operands: Any, **named: Any) -> Any:
        result = (_OPERATORS[operation] if isinstance(operation, str) else operation)(*operands, **named)
        if type(result) is core.tensor:  # of which most are, and which the interpreter notes itself
            return result
        value, known = _plain(result), [_plain(each) for each in (*operands, *named.values())]
        if value is None or not known or None in known:
            return result
        name = operation if isinstance(operation, str) else operation.__name__
        _note_called(decisions, name, value, known)
        return result

    noting.update({_DECIDES: decides, _BRANCHES: branches, _COMPUTES: computes, _REACHES: _reaching(decisions)})
    noting[_ASIDE] = functools.partial(_computed_aside, decisions)
    noting.update(_sequence_notes(decisions))
    transform = interpreter.FunctionRewriter._transform_ast  # noqa: SLF001 - there is no public place for it

    @functools.wraps(transform)
    def transform_ast(self: Any, text: str) -> ast.AST:
        if not isinstance(_KERNELS[self.filename], KernelText):
            return transform(self, text)  # type: ignore[no-any-return]
        self.fn.__globals__.update(noting)
        plain, self.ast_transformer = self.ast_transformer, _Before(self.ast_transformer)
        try:
            return transform(self, text)  # type: ignore[no-any-return]
        finally:
            self.ast_transformer = plain

    interpreter.FunctionRewriter._transform_ast = transform_ast  # noqa: SLF001 - as above


@dataclass
class _Before:
    """Triton's transformer, with Noting before it."""

    transformer: Any

    def visit(self, tree: ast.AST) -> Any:
        return self.transformer.visit(Noting().visit(tree))


@dataclass(frozen=True, eq=False)
class KernelText:
    """A kernel's text as Triton has it: its nodes by their first and last place, each with its line in the candidate's file."""

    path: str
    place: str
    nodes: dict[tuple[int, int, int, int], ast.expr]
    bound: frozenset[str]
    # By expression, the names that loops of a written number of steps bind around it.
    steps: dict[ast.expr | None, tuple[str, ...]]
    tree: ast.FunctionDef

    @functools.cache  # noqa: B019 - texts are known for as long as the process lives
    def is_fixed(self, node: ast.expr, parameters: frozenset[str], *, constant: bool) -> bool:
        """Whether an expression is the same in every launch, given the parameters that are. A ``constant`` reads no memory."""
        names = _names_in(node) & self.bound
        if constant and len(_types_in(node) & self.bound) > 1:
            return False  # whether two arguments are of one type a call decides
        if constant and names <= parameters:
            return True
        return (
            (constant or bool(parameters))
            and _calls_same(node)
            and not names & _varying(self.tree, self.bound - parameters)
        )

    @functools.cache  # noqa: B019 - as above
    def is_run_time(self, node: ast.expr) -> bool:
        """Whether a GPU computes part of an expression, of constants too: a branch on it is taken when the kernel runs."""
        return not _calls_same(node, _FOLDED) or bool(_names_in(node) & _varying(self.tree, frozenset(), _FOLDED))


_LOOPS: dict[ast.If, list[ast.AST]] = {}  # by condition, the loops around it that it may leave, or go on with


def _loops_left_by(node: ast.If) -> list[ast.AST]:
    return _LOOPS.get(node, [])


def _note_loops(tree: ast.AST) -> None:
    for loop in ast.walk(tree):
        for part in ast.walk(loop) if isinstance(loop, ast.For | ast.While) else ():
            ends = (ast.Break, ast.Continue, ast.Return)
            if isinstance(part, ast.If) and any(isinstance(end, ends) for end in ast.walk(part)):
                _LOOPS.setdefault(part, []).append(loop)


@functools.cache
def _varying(tree: ast.FunctionDef, free: frozenset[str], same: frozenset[str] = _SAME) -> frozenset[str]:
    """The names of a kernel that its launches may give other values; ``free``: what it binds, but for parameters that are fixed,
    ``same``: the calls that give the same."""
    parameters = {arg.arg for arg in tree.args.args}
    varying, before = free & parameters, None
    _note_loops(tree)
    while varying != before:
        before = varying
        varying = frozenset(varying | {name for part in ast.walk(tree) for name in _rebound(part, varying, same)})
    return varying


def _rebound(node: ast.AST, varying: frozenset[str], same: frozenset[str]) -> Iterator[str]:
    """The names that a statement may give another value."""
    read: ast.expr | None
    within: Sequence[ast.AST]
    if isinstance(node, ast.Assign | ast.AugAssign | ast.AnnAssign | ast.NamedExpr):
        read, within = node.value, node.targets if isinstance(node, ast.Assign) else [node.target]
    elif isinstance(node, ast.For):
        read, within = node.iter, [node]
        if isinstance(read, ast.Call) and isinstance(read.func, ast.Name) and read.func.id == "range":
            # Over what a kernel of the name `range` would give there is no loop.
            read = ast.Tuple(read.args, ast.Load())
    elif isinstance(node, ast.If | ast.While):
        read, within = node.test, [node]
        if isinstance(node, ast.If):
            within = [node, *_loops_left_by(node)]
    elif isinstance(node, ast.ListComp):
        read, within = node, [each.target for each in node.generators]
    else:
        return
    if read is not None and (not _calls_same(read, same) or _names_in(read) & varying):
        for part in (part for each in within for part in ast.walk(each)):
            if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store):
                yield part.id


@functools.cache
def _names_in(node: ast.AST) -> frozenset[str]:
    """The names in an expression, but those of whose values it asks the type alone, which host code and the problem decide."""
    if isinstance(node, ast.Name):
        return frozenset([node.id])
    parts = () if isinstance(node, ast.Attribute) and node.attr in ("dtype", "type") else ast.iter_child_nodes(node)
    return frozenset().union(*map(_names_in, parts))


@functools.cache
def _types_in(node: ast.AST) -> frozenset[str]:
    """The names of whose values a comparison asks the type."""
    compared = [part for part in ast.walk(node) if isinstance(part, ast.Compare)]
    asked = [part for each in compared for part in ast.walk(each) if isinstance(part, ast.Attribute)]
    types = [part.value for part in asked if part.attr in ("dtype", "type")]
    return frozenset(part.id for each in types for part in ast.walk(each) if isinstance(part, ast.Name))


@functools.cache
def _calls_same(node: ast.expr, same: frozenset[str] = _SAME) -> bool:
    """Whether all that an expression calls gives the same for the same arguments."""
    calls = (part.func for part in ast.walk(node) if isinstance(part, ast.Call))
    return all(isinstance(call, ast.Attribute) and call.attr in same for call in calls)  # a kernel may have any name


class _Files(dict[str, KernelText | str | None]):
    """By the name of a file that Triton is given, the kernel's text; _STANDARD for Triton's own functions, None for other files."""

    def __missing__(self, name: str) -> str | None:
        self[name] = _STANDARD if name.endswith("language/standard.py") else None
        return self[name]  # type: ignore[return-value]  # as above


_STANDARD = "standard"
_KERNELS = _Files()


def register(place: str, path: str, made: ast.FunctionDef, text: str, bound: frozenset[str]) -> None:
    """Know a kernel by the ``place`` of its ``text``, which is that of the tree ``made`` with the lines of the candidate's file."""
    nodes = {}
    for node, original in zip(ast.walk(ast.parse(text).body[0]), ast.walk(made), strict=True):
        if isinstance(node, ast.expr | ast.AugAssign) and isinstance(original, ast.expr | ast.AugAssign):
            ends = (node.lineno, node.end_lineno or 0, node.col_offset, node.end_col_offset or 0)
            nodes[ends] = _in_full(original) if isinstance(original, ast.AugAssign) else original
    _KERNELS[place] = KernelText(path, place, nodes, bound, _steps(made), made)


def place_in_file(text: str, line: int) -> tuple[str | None, int | None]:
    """The path and line in the candidate's files of a line of a kernel's ``text`` as Triton has it."""
    for place, known in _KERNELS.items():
        if isinstance(known, KernelText) and "".join(linecache.getlines(place)).strip() == text.strip():
            lines = [node.lineno for (first, *_), node in known.nodes.items() if first == line]
            return known.path, min(lines, default=known.tree.lineno)
    return None, None


def _steps(made: ast.FunctionDef) -> dict[ast.expr | None, tuple[str, ...]]:
    steps: dict[ast.expr | None, tuple[str, ...]] = {}
    for loop in ast.walk(made):
        if (
            not isinstance(loop, ast.For)
            or not isinstance(loop.target, ast.Name)
            or not isinstance(loop.iter, ast.Call)
        ):
            continue
        if all(isinstance(arg, ast.Constant) for arg in loop.iter.args):
            for statement in loop.body:
                for node in ast.walk(statement):
                    if isinstance(node, ast.expr):
                        steps[node] = (*steps.get(node, ()), loop.target.id)
    return steps


@dataclass(frozen=True)
class _Site:
    """Where a kernel stands: at an expression, reached by calls of kernels, in a step of loops of a written number of them."""

    text: KernelText
    node: ast.expr
    via: str
    place: Place
    callers: tuple[tuple[KernelText, ast.expr | None], ...]  # the calls of kernels that reach it, the innermost first
    is_between: bool  # programs
    is_sorting: bool  # in a step of a sort of Triton's language, which only compares

    @functools.cache  # noqa: B019 - sites are known for as long as the process lives
    def place_of(self, what: str) -> Place:
        """The place of the decision that the expression is ``what``."""
        return place_of(self.text.path, self.node, what, self.via)


def _undecided(decisions: Decisions, what: str) -> _Site | None:
    """Where the innermost kernel on the stack decides ``what``, unless both outcomes were seen or it is fixed."""
    site = None if decisions.is_paused else _site(sys._getframe(2))  # noqa: SLF001 - as above
    if site is None or decisions.outcomes.get(site.place_of(what)) == BOTH or _is_fixed(site, decisions):
        return None
    return site


def _note(
    decisions: Decisions, site: _Site, outcome: Callable[[Any], int], data: Any, counts: Any, what: str = ""
) -> None:
    """Add what a kernel decides now: of the lanes that count, or where none ever does, of all."""
    if not data.size or site.is_between:
        return
    counted = data[counts]
    if counted.size:
        decisions.add_at(site.place_of(what), outcome(counted))
    else:
        place = site.place_of(what)
        decisions.aside[place] = decisions.aside.get(place, 0) | outcome(data)


def _note_picked(decisions: Decisions, result: Any, lhs: Any, rhs: Any) -> None:
    """Add which of two operands a minimum or maximum is."""
    for operand, what in ((lhs, "its first value"), (rhs, "its second value")):
        site = _undecided(decisions, what)
        if site is not None:
            counts = _against_limit(result, lhs, rhs)
            _note(decisions, site, _happened, operand.data == result.data, counts, what)


def _note_unchanged(decisions: Decisions, operation: Any, result: Any, operand: Any) -> None:
    """Add whether a remainder or mask ever gives another number than it is given: else it is a limit beyond all cases."""
    if operation.__name__ not in ("fmod", "bitwise_and") or result.data.dtype.kind not in "iu":
        return
    site = _undecided(decisions, UNCHANGED)
    if site is not None:
        _note(decisions, site, _happened, operand.data != result.data, _read(result), UNCHANGED)


def _note_constant(decisions: Decisions, outcome: int, what: str = "", *, is_branch: bool = False) -> None:
    """Add what the innermost kernel on the stack decides now over its constants; of a ``branch``, over those of run time too."""
    site = None if decisions.is_paused else _site(sys._getframe(2))  # noqa: SLF001 - as above
    if site is None or site.is_between:
        return
    if not _is_fixed(site, decisions, constant=True) or (is_branch and site.text.is_run_time(site.node)):
        decisions.add_at(site.place_of(what), outcome)


def _note_entries(decisions: Decisions, table: Any, at: int) -> None:
    """Note which entry of a table is taken, as host code's are noted, unless the text says it, as a static loop's step does."""
    site = None if decisions.is_paused else _site(sys._getframe(2))  # noqa: SLF001 - as above
    if site is None or (
        isinstance(site.node, ast.Subscript) and _is_fixed(site, decisions, site.node.slice, constant=True)
    ):
        return
    if len(table) > MOST_ITEMS:
        _note_constant(decisions, FAILED, f"each of its {len(table)} entries")
        return
    items = [_plain(item) for item in table]
    for place, item in enumerate(items):
        is_taken = place == at % len(items) if item is None else item == items[at]
        what = f"the entry {place}" if item is None else repr(item)
        _note_constant(decisions, BOTH if is_taken else FAILED, what)


def _note_cut(decisions: Decisions, end: str, bound: int, size: int) -> None:
    """Note whether what a slice is of ends before a bound of it."""
    site = None if decisions.is_paused else _site(sys._getframe(2))  # noqa: SLF001 - as above
    if site is not None and not _is_fixed(site, decisions, constant=True):
        decisions.cut(site.place, end, bound, size)


def _note_signs(decisions: Decisions, operation: Any, result: Any, operand: Any) -> None:
    """Add of which sign a number is whose absolute value is taken."""
    if operation.__name__ != "absolute":
        return
    for is_so, what in zip((operand.data < 0, operand.data >= 0), _SIGNS, strict=True):
        site = _undecided(decisions, what)
        if site is not None:
            _note(decisions, site, _happened, is_so, _read(result), what)


def _compute_constant(decisions: Decisions, operation: str, result: Any, operands: list[Any]) -> None:
    """Note what the innermost kernel on the stack computes now of its constants."""
    if operation in ("Mod", "BitAnd") and not isinstance(result, bool):
        _note_constant(decisions, BOTH if result != operands[0] else FAILED, UNCHANGED)
    site = None if decisions.is_paused else _site(sys._getframe(2))  # noqa: SLF001 - as above
    if site is None or site.is_between or _is_fixed(site, decisions, constant=True):
        return
    key = site.place, operation
    if key not in decisions.lanes:
        _refuse_many(decisions)
        decisions.lanes[key] = Lanes(operation, UNSEEN, [UNSEEN] * len(operands))
    lanes = decisions.lanes[key]
    lanes.result = join_value(lanes.result, result)
    lanes.operands = [join_value(known, each) for known, each in zip(lanes.operands, operands, strict=True)]


def _note_tile(decisions: Decisions, axis: int, extent: int, size: int, is_beyond: bool) -> None:
    """Note whether a tile goes beyond its array, as a mask says in Triton: where the array's size varies, both must be seen."""
    _compute_constant(decisions, f"beyond along {axis}", is_beyond, [extent])


def _is_fixed(site: _Site, decisions: Decisions, node: ast.expr | None = None, *, constant: bool = False) -> bool:
    # Of a kernel that another one calls nobody knows what its parameters hang on, but for constants.
    parameters = frozenset() if site.callers and not constant else _fixed(site.text, site.callers, decisions)
    return site.text.is_fixed(node or site.node, parameters, constant=constant)


def _fixed(
    text: KernelText, callers: tuple[tuple[KernelText, ast.expr | None], ...], decisions: Decisions
) -> frozenset[str]:
    """The parameters of a kernel that hang on nothing but the file: of one that others call, those that its call fixes."""
    if not callers:
        return decisions.fixed.get(text.place, frozenset())
    (caller, call), *others = callers
    if not isinstance(call, ast.Call) or any(isinstance(arg, ast.Starred) for arg in call.args):
        return frozenset()
    own = _fixed(caller, tuple(others), decisions)
    names = [arg.arg for arg in text.tree.args.args]
    given = dict(zip(names, call.args, strict=False)) | {each.arg: each.value for each in call.keywords if each.arg}
    return frozenset(name for name in names if name not in given or caller.is_fixed(given[name], own, constant=True))


def _compute(decisions: Decisions, operation: str, result: Any, *operands: Any, has_odd: bool = False) -> None:
    """Note what the innermost kernel on the stack computes now; ``has_odd``: infinities and NaN count."""
    site = None if decisions.is_paused else _site(sys._getframe(2))  # noqa: SLF001 - as above
    if site is not None and not (site.is_between or site.is_sorting):
        _compute_at(site, decisions, operation, result, *operands, has_odd=has_odd)


def _compute_at(
    site: _Site, decisions: Decisions, operation: str, result: Any, *operands: Any, has_odd: bool = False
) -> None:
    if not result.data.size:
        return
    key = site.place, operation
    lanes = decisions.lanes.get(key)
    if lanes is not None and lanes.result is VARIES:
        return
    if _is_fixed(site, decisions):
        return
    if lanes is None:
        _refuse_many(decisions)
        lanes = decisions.lanes[key] = Lanes(operation, UNSEEN, [UNSEEN] * len(operands))
    counts = _where_all(_read(result), () if has_odd else _finite(result, operands))
    lanes.result = _join_lanes(lanes.result, result.data[counts])
    data = [each.data[counts] if each.data.shape == result.data.shape else each.data for each in operands]
    lanes.operands = [_join_lanes(known, each) for known, each in zip(lanes.operands, data, strict=True)]


def _refuse_undefined(decisions: Decisions, lanes: Any, what: str) -> None:
    """Refuse an operation that the text alone gives operands of which each device makes something else."""
    if lanes.any():
        site = None if decisions.is_paused else _site(sys._getframe(2))  # noqa: SLF001 - as above
        if site is not None and _is_fixed(site, decisions):
            raise unproved(f"The result of {what} is not defined: {text_of(site.node)} in line {site.node.lineno}.")


def _refuse_many(decisions: Decisions) -> None:
    if len(decisions.lanes) >= MOST_PLACES:
        raise unproved(
            f"Its kernels compute in more than {MOST_PLACES:,} places, steps of loops with written bounds among them."
        )


def _join_lanes(known: Any, data: Any) -> Any:
    """What is known of an operation once it gave a block too: the one value of all its lanes so far, or VARIES."""
    if known is VARIES or not data.size:
        return known
    first = data.flat[0] if known is UNSEEN else known
    return VARIES if (data != first).any() else first


def _site(frame: types.FrameType | None) -> _Site | None:
    """The expression at which the innermost kernel on the stack stands; None in Triton's own functions."""
    within: tuple[str, ...] = ()  # functions of Triton's language
    while frame is not None:
        code = frame.f_code
        text = _KERNELS[code.co_filename]
        if type(text) is KernelText:
            if frame is not _reached[0]:
                # By calls that stay the same for as long as the frame lives, but for that of a generator.
                _reached[:] = (
                    None if code.co_flags & inspect.CO_GENERATOR else frame,
                    tuple(_kernels_above(frame.f_back)),
                )
            return _site_of((_stand(text, frame), *_reached[1]), within)
        if text is _STANDARD:
            if code.co_name not in _REDUCTIONS and code.co_name not in _SORTS:
                return None
            within = (*within, f"in {code.co_name} at {frame.f_lineno}")
        frame = frame.f_back
    return None


def line_of_kernel() -> int | None:
    """The line in the candidate's files at which the innermost kernel on the stack stands."""
    site = _site(sys._getframe(1))  # noqa: SLF001 - as above
    return None if site is None else site.node.lineno


def _forget_frames(interpreter: Any) -> None:
    """Keep no frame of a launch, and with it the arguments of all frames below, when the launch has ended."""
    executor = interpreter.GridExecutor
    call = executor.__call__

    @functools.wraps(call)
    def launch(self: Any, *args: Any, **named: Any) -> Any:
        try:
            return call(self, *args, **named)
        finally:
            _reached[:] = None, ()

    executor.__call__ = launch


_Stand = tuple[KernelText, ast.expr | None, tuple[Any, ...]]  # where a kernel is, and in which steps of its loops
_reached: list[Any] = [None, ()]  # the innermost kernel's frame that was met last, and where its callers stand


def _kernels_above(frame: types.FrameType | None) -> Iterator[_Stand]:
    """Where the kernels stand that called one another, the innermost first."""
    passed = 0
    while frame is not None and passed <= MOST_BETWEEN:
        text = _KERNELS[frame.f_code.co_filename]
        passed += 1
        if type(text) is KernelText:
            yield _stand(text, frame)
            passed = 0
        frame = frame.f_back


def _stand(text: KernelText, frame: types.FrameType) -> _Stand:
    node = _node_at(text, frame.f_code, frame.f_lasti)
    names = text.steps.get(node)
    return text, node, tuple([_value_of(frame.f_locals.get(name)) for name in names]) if names else ()


def _value_of(value: Any) -> Any:
    plain = getattr(value, "value", value)
    return plain if is_plain(plain) else None


@functools.cache
def _site_of(where: tuple[_Stand, ...], within: tuple[str, ...]) -> _Site | None:
    text, node, steps = where[0]
    if node is None:
        return None
    reached = [*within, *(f"{name} = {value}" for name, value in zip(text.steps.get(node, ()), steps, strict=True))]
    for caller, call, at in where[1:]:
        if caller is not text and call is not None:
            reached += [f"called at line {call.lineno}"]
            reached += [f"{name} = {value}" for name, value in zip(caller.steps.get(call, ()), at, strict=True)]
    via = f" ({', '.join(reached)})" if reached else ""
    texts = [each[0] for each in where]
    # A comprehension has a frame of its own.
    callers = tuple(
        (caller, call) for (caller, call, _), inner in zip(where[1:], texts, strict=False) if caller is not inner
    )
    return _Site(
        text, node, via, place_of(text.path, node, via=via), callers, _is_between_programs(node), _SWAPS in via
    )


@functools.cache
def _is_between_programs(node: ast.expr) -> bool:
    """Whether all that is asked here is what programs tell each other, such as whether a lock is held: the interpreter runs one
    after the other."""
    parts = [node.left, *node.comparators] if isinstance(node, ast.Compare) else [node]
    return any(_is_atomic(part) for part in parts)


def _is_atomic(node: ast.expr) -> bool:
    function = node.func if isinstance(node, ast.Call) else None
    return isinstance(function, ast.Attribute) and function.attr.startswith("atomic_")


_NODES: dict[tuple[str, str, int], ast.expr | None] = {}


def _node_at(text: KernelText, code: types.CodeType, at: int) -> ast.expr | None:
    key = code.co_filename, code.co_name, at
    if key not in _NODES:
        _NODES[key] = text.nodes.get(_position(code, at))
    return _NODES[key]


def _position(code: types.CodeType, at: int) -> tuple[int, int, int, int]:
    return _positions(code)[at // 2]  # an instruction takes two bytes


@functools.cache
def _positions(code: types.CodeType) -> tuple[tuple[int, int, int, int], ...]:
    return tuple(tuple(part or 0 for part in place) for place in code.co_positions())  # type: ignore[misc]
