"""Faults in kernels: each function yields every edit of one class that a candidate's tree has room for. Pure."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tests.mutants.places import (
    Edit,
    Line,
    Place,
    calls,
    clone,
    expressions,
    keyword,
    lines,
    parameters,
    pointers,
    text_of,
)

# Sizes at which a fault may begin: powers of two, their neighbours, and numbers that are nobody's.
SIZES = (2, 3, 16, 33, 64, 100, 128, 200, 257, 512, 700, 1000, 1024, 2048, 3000, 4096, 5000)
_ORDER = {ast.Lt: "<=", ast.LtE: "<", ast.Gt: ">=", ast.GtE: ">", ast.Eq: "!=", ast.NotEq: "=="}
_OTHER = {ast.Add: "-", ast.Sub: "+", ast.Mult: "/", ast.Div: "*", ast.BitAnd: "|", ast.FloorDiv: "*", ast.Mod: "//"}
_ADDRESSES = ("tl.arange", "tl.program_id", "tl.num_programs", "triton.", "tl.cdiv")
_FUNCTIONS = {
    "tl.exp": ("tl.exp2",), "tl.sum": ("tl.max",), "tl.max": ("tl.min", "tl.sum"), "tl.maximum": ("tl.minimum",),
    "tl.minimum": ("tl.maximum",), "tl.sqrt": ("tl.abs",), "tl.rsqrt": ("tl.sqrt",), "tl.log": ("tl.log2",),
    "tl.sigmoid": ("tl.exp",), "tl.abs": ("",), "tl.argmax": ("tl.argmin",),
}  # fmt: skip


def constants(tree: ast.Module) -> Iterator[Edit]:
    """A number one more, one less, twice, none, or of the other sign; a float 1% off."""
    for place in expressions(tree, kernels=True):
        value = place.node.value if isinstance(place.node, ast.Constant) else None
        if isinstance(value, bool):
            yield place.edit(repr(not value))
        elif isinstance(value, int):
            yield from (place.edit(str(new)) for new in (value + 1, value - 1, value * 2, 0, -value) if new != value)
        elif isinstance(value, float):
            yield from (
                place.edit(repr(new)) for new in (value + 1, value * 2, 0.0, -value, value * 1.01) if new != value
            )


def epsilon_dropped(tree: ast.Module) -> Iterator[Edit]:
    """A sum without its small number, or the small number elsewhere by a factor."""
    for place in expressions(tree, kernels=True):
        if isinstance(place.node, ast.Name) and "eps" in place.node.id.lower():
            yield from (
                place.edit(new)
                for new in ("0.0", "1e-06", "1e-05", f"({place.node.id} * 2)", f"({place.node.id} * 1.01)")
            )


def comparisons(tree: ast.Module) -> Iterator[Edit]:
    """A bound that takes in one more or one less."""
    for place in expressions(tree, kernels=True):
        node = place.node
        if isinstance(node, ast.Compare) and len(node.ops) == 1 and type(node.ops[0]) in _ORDER:
            left, right, sign = text_of(node.left), text_of(node.comparators[0]), _sign(node.ops[0])
            yield place.edit(f"{left} {_ORDER[type(node.ops[0])]} {right}")
            yield place.edit(f"{left} {sign} {right} - 1")
            yield place.edit(f"{left} {sign} {right} + 1")


def masked_values(tree: ast.Module) -> Iterator[Edit]:
    """Another value, or none, for what a mask leaves out of a load."""
    for place in calls(tree, "tl.load"):
        assert isinstance(place.node, ast.Call)
        if keyword(place.node, "mask") is None:
            continue
        for value in ("0.0", "1.0", "-1.0", 'float("inf")', '-float("inf")', 'float("nan")', None):
            new = _without(place.node, "other")
            if value is not None:
                new.keywords.append(ast.keyword("other", ast.parse(value, mode="eval").body))
            if ast.dump(new) != ast.dump(place.node):
                yield place.edit(new)


def masks_dropped(tree: ast.Module) -> Iterator[Edit]:
    """A load, a store or a choice without its mask; a mask without one of its terms."""
    for place in expressions(tree, kernels=True):
        node = place.node
        if not isinstance(node, ast.Call):
            continue
        if keyword(node, "mask") is not None:
            yield place.edit(_without(node, "mask", "other"))
        if ast.unparse(node.func) == "tl.where" and len(node.args) == 3:
            yield from (place.edit(clone(branch)) for branch in node.args[1:])


def terms_dropped(tree: ast.Module) -> Iterator[Edit]:
    """One side of a sum or a product alone."""
    for place in expressions(tree, kernels=True):
        if isinstance(place.node, ast.BinOp):
            yield place.edit(clone(place.node.left))
            yield place.edit(clone(place.node.right))
    for line in lines(tree, kernels=True):
        if isinstance(line.node, ast.AugAssign):
            yield line.edit(f"{ast.unparse(line.node.target)} = {ast.unparse(line.node.value)}")
            yield line.edit()


def operators(tree: ast.Module) -> Iterator[Edit]:
    """Another operator or function of the same form."""
    for place in expressions(tree, kernels=True):
        node = place.node
        if isinstance(node, ast.BinOp) and type(node.op) in _OTHER:
            yield place.edit(f"{text_of(node.left)} {_OTHER[type(node.op)]} {text_of(node.right)}")
        elif isinstance(node, ast.UnaryOp):
            yield place.edit(clone(node.operand))
        elif isinstance(node, ast.Call):
            for name in _FUNCTIONS.get(ast.unparse(node.func), ()):
                inner = ", ".join(ast.unparse(item) for item in [*node.args, *node.keywords])
                yield place.edit(f"{name}({inner})")


def operands(tree: ast.Module) -> Iterator[Edit]:
    """Two operands or two branches exchanged."""
    for place in expressions(tree, kernels=True):
        node = place.node
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Sub | ast.Div | ast.FloorDiv | ast.Mod):
            yield place.edit(ast.BinOp(clone(node.right), node.op, clone(node.left)))
        elif isinstance(node, ast.Call) and ast.unparse(node.func) == "tl.where" and len(node.args) == 3:
            test, yes, no = (ast.unparse(item) for item in node.args)
            yield place.edit(f"tl.where({test}, {no}, {yes})")


def names(tree: ast.Module) -> Iterator[Edit]:
    """One pointer for another, one number for another: the row's stride for its width, a block for a width."""
    for place in expressions(tree, kernels=True):
        node = place.node
        known, memory = parameters(place.function), pointers(place.function)
        if isinstance(node, ast.Name) and node.id in known:
            alike = memory if node.id in memory else [name for name in known if name not in memory]
            yield from (place.edit(name) for name in alike if name != node.id)


def axes(tree: ast.Module) -> Iterator[Edit]:
    """Dimensions exchanged: of the grid, of a block, of a reduction."""
    for place in expressions(tree, kernels=True):
        text = ast.unparse(place.node)
        if isinstance(place.node, ast.Subscript) and text.endswith(("[:, None]", "[None, :]")):
            row = text.endswith("[:, None]")
            yield place.edit(text[: -len("[:, None]")] + ("[None, :]" if row else "[:, None]"))
        elif text.startswith(("tl.arange(", "tl.program_id(")) and isinstance(place.node, ast.Call):
            yield place.edit(f"({text} + 1)")
            if text.startswith("tl.program_id("):
                yield place.edit("0")


def loop_bounds(tree: ast.Module) -> Iterator[Edit]:
    """A loop that leaves out its first or last block, takes the first alone, or one too many."""
    for place in [*calls(tree, "range"), *calls(tree, "tl.range"), *calls(tree, "tl.static_range")]:
        assert isinstance(place.node, ast.Call)
        if keyword(place.node, "step") is None and len(place.node.args) <= 3:
            start, stop, step = _bounds(place.node)
            name = ast.unparse(place.node.func)
            for new in (
                f"{start}, {stop} - {step}",
                f"{start}, {step}",
                f"{start} + {step}, {stop}",
                f"{start}, {stop} + {step}",
            ):
                yield place.edit(f"{name}({new}, {step})")
            yield place.edit(f"{name}({start}, {stop}, {step} * 2)")


def narrow_casts(tree: ast.Module) -> Iterator[Edit]:
    """A value rounded on its way: to a narrower dtype, or with low bits of its mantissa cleared."""
    for place in _values(tree):
        if isinstance(place.node, ast.Constant):
            continue  # a number of Python, which has no dtype
        text = text_of(place.node)
        yield place.edit(f"{text}.to(tl.bfloat16).to(tl.float32)")
        yield place.edit(f"{text}.to(tl.float16).to(tl.float32)")
        for bits in (8, 12, 16):
            yield place.edit(
                f"({text}.to(tl.float32).to(tl.int32, bitcast=True) & {-(1 << bits)}).to(tl.float32, bitcast=True)"
            )


def casts_dropped(tree: ast.Module) -> Iterator[Edit]:
    """Arithmetic in the dtype of the input, or float16 where float32 was asked for."""
    for place in expressions(tree, kernels=True):
        node = place.node
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in ("to", "cast"):
            yield place.edit(clone(node.func.value))
            if "float32" in ast.unparse(node):
                yield place.edit(ast.unparse(node).replace("float32", "float16"))


def scales(tree: ast.Module) -> Iterator[Edit]:
    """A result that is a little, or much, too large or small."""
    for place in _stored(tree):
        text = text_of(place.node)
        for factor in ("1.005", "0.995", "1.0005", "0.9995", "1.02", "-1.0", "0.5", "2.0"):
            yield place.edit(f"{text} * {factor}")
        yield from (place.edit(f"{text} + {more}") for more in ("1e-3", "1e-5", "1.0"))


def ranges(tree: ast.Module) -> Iterator[Edit]:
    """A value that is clamped, flushed to zero, or cleansed of NaN."""
    for place in _values(tree):
        text = text_of(place.node)
        for most in ("1.0", "4.0", "8.0", "60.0", "1e4"):
            yield place.edit(f"tl.minimum(tl.maximum({text}, -{most}), {most})")
        for least in ("1e-6", "1e-3", "0.05"):
            yield place.edit(f"tl.where(tl.abs({text}) < {least}, 0.0, {text})")
        yield place.edit(f"tl.where({text} == {text}, {text}, 0.0)")
        yield place.edit(f"tl.abs({text})")


def late_writes(tree: ast.Module) -> Iterator[Edit]:
    """After the right values are stored, wrong ones in one program, in one element of it, or in every one of a column."""
    for line, call in _stores(tree):
        address, value, mask = _store_of(call)
        column = _column(line.function, call.args[0])
        for new in ("0.0", f"{value} * 0.5", f"{value} * 1.01"):
            for program in (
                "tl.program_id(0) == 0",
                "tl.program_id(0) == 2",
                "tl.program_id(0) == tl.num_programs(0) - 1",
            ):
                yield line.edit(line.node, f"if {program}:\n    {_stored_as(address, new, mask)}")
            if column and mask:
                for where in (f"{column} == 0", f"{column} == 3", f"{column} == 90", f"{column} % 64 == 63"):
                    yield line.edit(line.node, _stored_as(address, new, f"({mask}) & ({where})"))


def rows_skipped(tree: ast.Module) -> Iterator[Edit]:
    """A store that does not take place: anywhere, in one program, or in a part of a row."""
    for line, call in _stores(tree):
        address, value, mask = _store_of(call)
        column = _column(line.function, call.args[0])
        yield line.edit()
        for program in ("0", "1", "tl.num_programs(0) - 1"):
            yield line.edit(f"if tl.program_id(0) != {program}:\n    {ast.unparse(line.node)}")
        if column and mask:
            yield from (
                line.edit(_stored_as(address, value, f"({mask}) & ({where})"))
                for where in (f"{column} != 5", f"{column} < 96")
            )


def size_guards(tree: ast.Module) -> Iterator[Edit]:
    """Right on one side of a size and wrong on the other, or wrong at one size, or where a number divides it."""
    for line, call in _stores(tree):
        address, value, mask = _store_of(call)
        memory = pointers(line.function)
        constexpr = {a.arg for a in line.function.args.args if a.annotation is not None}
        wrong = _stored_as(address, f"{value} * 0.9", mask)
        for name in parameters(line.function):
            if name in memory or name in constexpr or "eps" in name.lower():
                continue
            for size in SIZES:
                yield line.edit(f"if {name} >= {size}:\n    {wrong}\nelse:\n    {ast.unparse(line.node)}")
            for size in (1, 7, 16, 31, 96, 250, 777):
                yield line.edit(f"if {name} == {size}:\n    {wrong}\nelse:\n    {ast.unparse(line.node)}")
            for divisor in (2, 3, 16, 17):
                yield line.edit(f"if {name} % {divisor} == 0:\n    {wrong}\nelse:\n    {ast.unparse(line.node)}")


def dtype_faults(tree: ast.Module) -> Iterator[Edit]:
    """Wrong in one dtype alone."""
    for line, call in _stores(tree):
        address, value, mask = _store_of(call)
        for name in pointers(line.function):
            for dtype in ("float16", "bfloat16", "float32"):
                for factor in ("0.9", "1.02"):
                    wrong = _stored_as(address, f"{value} * {factor}", mask)
                    yield line.edit(
                        f"if {name}.dtype.element_ty == tl.{dtype}:\n    {wrong}\nelse:\n    {ast.unparse(line.node)}"
                    )


def values_guarded(tree: ast.Module) -> Iterator[Edit]:
    """Wrong where a value lies in a range that not every draw reaches."""
    for place in _stored(tree):
        text = text_of(place.node)
        tests = ("> 3.0", "> 6.0", "> 30.0", "< -5.0", "== 0.0", "> 1000.0")
        yield from (place.edit(f"tl.where({text} {test}, {text} * 0.9, {text})") for test in tests)
        yield place.edit(f"tl.where(tl.abs({text}) < 1e-2, {text} * 0.9, {text})")


def atomics(tree: ast.Module) -> Iterator[Edit]:
    """A plain store in place of an atomic operation, or another operation."""
    for name in ("atomic_add", "atomic_max", "atomic_min", "atomic_cas", "atomic_xchg"):
        for place in calls(tree, f"tl.{name}"):
            assert isinstance(place.node, ast.Call)
            if name != "atomic_cas":
                address, value, mask = _store_of(place.node)
                yield place.edit(_stored_as(address, value, mask))
                yield place.edit(
                    ast.unparse(place.node).replace(name, "atomic_max" if name != "atomic_max" else "atomic_add", 1)
                )
                yield place.edit(ast.unparse(place.node).replace(name, "atomic_xchg", 1))


def _stores(tree: ast.Module) -> Iterator[tuple[Line, ast.Call]]:
    for line in lines(tree, kernels=True):
        call = line.node.value if isinstance(line.node, ast.Expr) else None
        if isinstance(call, ast.Call) and ast.unparse(call.func) == "tl.store" and len(call.args) >= 2:
            yield line, call


def _stored(tree: ast.Module) -> Iterator[Place]:
    """What stores and atomic additions write."""
    for place in expressions(tree, kernels=True):
        call = place.parent
        writes = isinstance(call, ast.Call) and ast.unparse(call.func) in ("tl.store", "tl.atomic_add")
        if writes and len(call.args) > 1 and call.args[1] is place.node:
            yield place


def _values(tree: ast.Module) -> Iterator[Place]:
    """What is computed of data, as far as a tree shows it: assigned or stored, and no address or mask."""
    for place in expressions(tree, kernels=True):
        parent = place.parent
        if isinstance(parent, ast.Assign) and parent.value is place.node and isinstance(parent.targets[0], ast.Name):
            text = ast.unparse(place.node)
            compared = any(isinstance(node, ast.Compare) for node in ast.walk(place.node)) and "tl.where" not in text
            if (
                not compared
                and not any(word in text for word in _ADDRESSES)
                and not isinstance(place.node, ast.Constant)
            ):
                yield place
    yield from _stored(tree)


def _store_of(call: ast.Call) -> tuple[str, str, str]:
    mask = keyword(call, "mask")
    third = call.args[2] if len(call.args) > 2 else None
    chosen = mask.value if mask is not None else third
    return ast.unparse(call.args[0]), text_of(call.args[1]), "" if chosen is None else ast.unparse(chosen)


def _stored_as(address: str, value: str, mask: str) -> str:
    return f"tl.store({address}, {value}{f', mask={mask}' if mask else ''})"


def _column(function: ast.FunctionDef, address: ast.expr) -> str | None:
    """The name in an address that counts the elements of a block."""
    made = {
        node.targets[0].id
        for node in ast.walk(function)
        if isinstance(node, ast.Assign)
        and isinstance(node.targets[0], ast.Name)
        and "tl.arange" in ast.unparse(node.value)
    }
    return next((node.id for node in ast.walk(address) if isinstance(node, ast.Name) and node.id in made), None)


def _without(call: ast.Call, *left_out: str) -> ast.Call:
    new = clone(call)
    assert isinstance(new, ast.Call)
    new.keywords = [item for item in new.keywords if item.arg not in left_out]
    return new


def _bounds(call: ast.Call) -> tuple[str, str, str]:
    given = [text_of(item) for item in call.args]
    if len(given) == 1:
        return "0", given[0], "1"
    return given[0], given[1], given[2] if len(given) > 2 else "1"


def _sign(operator: ast.cmpop) -> str:
    signs = {ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.Eq: "==", ast.NotEq: "!="}
    return signs[type(operator)]
