"""Faults in host code: each function yields every edit of one class that a candidate's tree has room for. Pure."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tests.mutants.kernel_faults import SIZES
from tests.mutants.places import Edit, Line, Place, clone, expressions, functions, keyword, lines, parameters, text_of

_BUFFERS = ("empty", "empty_like", "zeros", "zeros_like", "new_empty", "new_zeros", "full", "full_like")


def host_numbers(tree: ast.Module) -> Iterator[Edit]:
    """A whole number of the host code one more, one less, twice, or none; a float doubled or none."""
    for place in expressions(tree, kernels=False):
        value = place.node.value if isinstance(place.node, ast.Constant) else None
        if isinstance(value, bool):
            yield place.edit(repr(not value))
        elif isinstance(value, int):
            yield from (place.edit(str(new)) for new in (value + 1, value - 1, value * 2, 0) if new != value)
        elif isinstance(value, float):
            yield from (place.edit(repr(new)) for new in (value * 2, 0.0, value * 1.01) if new != value)


def strides(tree: ast.Module) -> Iterator[Edit]:
    """A width for a stride, one dimension for another."""
    for place in expressions(tree, kernels=False):
        node = place.node
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in ("stride", "size"):
            owner, named = ast.unparse(node.func.value), [ast.unparse(item) for item in node.args]
            if node.func.attr == "stride" and named:
                yield place.edit(f"{owner}.shape[-1]")
                yield place.edit("1")
            for other in ("0", "1", "-1"):
                if named and other != named[0]:
                    yield place.edit(f"{owner}.{node.func.attr}({other})")
        elif isinstance(node, ast.Subscript) and ast.unparse(node.value).endswith("shape"):
            for other in ("0", "-1"):
                if other != ast.unparse(node.slice):
                    yield place.edit(f"{ast.unparse(node.value)}[{other}]")


def layouts(tree: ast.Module) -> Iterator[Edit]:
    """A copy of a strided tensor left out; the test for one always false, or turned round."""
    for place in expressions(tree, kernels=False):
        node = place.node
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr in ("contiguous", "clone")
        ):
            yield place.edit(clone(node.func.value))
        elif isinstance(place.parent, ast.If | ast.IfExp) and place.parent.test is node:
            yield from (place.edit(new) for new in ("True", "False", f"not {text_of(node)}"))


def buffers(tree: ast.Module) -> Iterator[Edit]:
    """Memory that is not set to zero, of another dtype, or that of a tensor that is still needed."""
    for place in expressions(tree, kernels=False):
        node = place.node
        name = node.func.attr if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) else ""
        if not isinstance(node, ast.Call) or name not in _BUFFERS:
            continue
        if "zeros" in name:
            yield place.edit(ast.unparse(node).replace("zeros", "empty", 1))
        if name.endswith("_like") and node.args:
            yield place.edit(clone(node.args[0]))
        dtype = keyword(node, "dtype")
        for other in ("torch.float16", "torch.bfloat16", "torch.float32"):
            if dtype is None or ast.unparse(dtype.value) != other:
                new = clone(node)
                assert isinstance(new, ast.Call)
                new.keywords = [item for item in new.keywords if item.arg != "dtype"]
                new.keywords.append(ast.keyword("dtype", ast.parse(other, mode="eval").body))
                yield place.edit(new)


def launch_arguments(tree: ast.Module) -> Iterator[Edit]:
    """Two arguments of a launch exchanged, or a number of it twice or half."""
    for _, place, call in _launches(tree):
        for at in range(len(call.args) - 1):
            new = clone(call)
            assert isinstance(new, ast.Call)
            new.args[at], new.args[at + 1] = new.args[at + 1], new.args[at]
            if ast.dump(new) != ast.dump(call):
                yield place.edit(new)
        for at, item in enumerate([*call.args, *call.keywords]):
            value = item.value if isinstance(item, ast.keyword) else item
            if isinstance(item, ast.keyword) and item.arg is not None and item.arg.isupper():
                yield place.edit(_with_argument(call, at, f"{text_of(value)} // 2"))
                yield place.edit(_with_argument(call, at, f"{text_of(value)} * 2"))
            elif isinstance(value, ast.Name) and "eps" in value.id:
                yield from (
                    place.edit(_with_argument(call, at, new)) for new in ("1e-6", "1e-5", "0.0", f"{value.id} * 2")
                )
            elif isinstance(value, ast.Name) and value.id.lower() in (
                "n",
                "m",
                "n_cols",
                "n_rows",
                "cols",
                "rows",
                "v",
                "n_elements",
            ):
                yield from (place.edit(_with_argument(call, at, f"{value.id} {more}")) for more in ("- 1", "+ 1"))


def grids(tree: ast.Module) -> Iterator[Edit]:
    """One program too few, half of them, one alone; a launch that does not take place, or twice."""
    for line, place, call in _launches(tree):
        assert isinstance(call.func, ast.Subscript)
        grid = call.func.slice
        if isinstance(grid, ast.Tuple) and grid.elts:
            first, rest = text_of(grid.elts[0]), "".join(f", {ast.unparse(item)}" for item in grid.elts[1:])
            for new in (f"max({first} - 1, 1)", f"({first} + 1) // 2", "1", f"{first} + 1"):
                yield place.edit(_with_grid(call, f"({new},{rest[1:]})"))
        yield line.edit()
        yield line.edit(line.node, line.node)


def conditions(tree: ast.Module) -> Iterator[Edit]:
    """One program alone where a size, a dtype, a layout or a need of gradients is met: otherwise right."""
    for _, place, call in _launches(tree):
        assert isinstance(call.func, ast.Subscript)
        grid = ast.unparse(call.func.slice)
        tensors = [a.id for a in call.args if isinstance(a, ast.Name) and _is_tensor(a.id, place.function)]
        if not tensors or grid.startswith("lambda"):
            continue
        x = tensors[0]
        tests = [f"{x}.dtype == torch.{dtype}" for dtype in ("float16", "bfloat16", "float32")]
        tests += [f"{x}.shape[0] >= {size}" for size in SIZES[:12]] + [f"{x}.shape[-1] >= {size}" for size in SIZES]
        tests += [f"{x}.numel() > {size}" for size in (1000, 5000, 20000)]
        tests += [
            f"{x}.is_contiguous()",
            f"not {x}.is_contiguous()",
            f"{x}.storage_offset() > 0",
            f"{x}.storage_offset() % 3 == 1",
        ]
        tests += [
            f"{x}.requires_grad",
            f"not {x}.requires_grad",
            "torch.is_grad_enabled()",
            "not torch.is_grad_enabled()",
        ]
        tests += [
            f"{x}.stride(0) != {x}.shape[-1]",
            f"{x}.data_ptr() % 64 == 0",
            f"{x}.stride(0) == 0",
            f"{x}.dim() != 2",
        ]
        wrong = "(1,)" if not grid.startswith("(") else "(1" + ", 1" * (len(call.func.slice.elts) - 1) + ",)"
        yield from (place.edit(_with_grid(call, f"{wrong} if {test} else {grid}")) for test in tests)


def gradients(tree: ast.Module) -> Iterator[Edit]:
    """A gradient that is zero, none, half, negative, or that of another input."""
    for place, items in _returned(tree, "backward"):
        for at, item in enumerate(items):
            if isinstance(item, ast.Constant | ast.Starred):
                continue
            text = text_of(item)
            for new in (f"torch.zeros_like({text})", "None", f"{text} * 0.5", f"-{text}", f"torch.ones_like({text})"):
                yield place.edit(_with_item(items, at, new))
            for other in range(len(items)):
                if other != at and not isinstance(items[other], ast.Constant | ast.Starred):
                    yield place.edit(_with_item(items, at, ast.unparse(items[other])))


def computed_by_torch(tree: ast.Module) -> Iterator[Edit]:
    """A step of the work in torch: of what comes back, of what goes in, of a part of it."""
    for name in ("forward", "backward"):
        for place, items in _returned(tree, name):
            for at, item in enumerate(items):
                if not isinstance(item, ast.Constant | ast.Starred):
                    text = text_of(item)
                    steps = (
                        f"{text} * 1.0", f"{text} + 0", f"torch.relu({text}) - torch.relu(-{text})",
                        f"{text}.float().to({text}.dtype)",
                        f"torch.where({text} == {text}, {text}, {text})", f"{text}.clone()", f"torch.maximum({text}, {text})",
                        f"torch.cat([{text}[:1] * 1.0, {text}[1:]])", f"{text} - {text}.mean() * 0", f"{text}.flip(0).flip(0)",
                        f"torch.sum({text}[None], 0)", f"{text}.t().contiguous().t()", f"{text} / 1.0", f"torch.abs({text})",
                    )  # fmt: skip
                    yield from (place.edit(_with_item(items, at, new)) for new in steps)
    for line, _, call in _launches(tree):
        for item in call.args:
            if isinstance(item, ast.Name) and _is_tensor(item.id, line.function):
                x = item.id
                yield line.edit(f"{x} = {x} * 1.0", line.node)
                yield line.edit(f"{x} = {x} + 0", line.node)
                yield line.edit(line.node, f"{x}.mul_(1.0)")
                yield line.edit(line.node, f"{x}[:1].mul_(0.5)")
                yield line.edit(line.node, f"{x}.zero_()")


def saved_tensors(tree: ast.Module) -> Iterator[Edit]:
    """What forward keeps for backward in another order; what backward reads exchanged, or overwritten by it."""
    for place in expressions(tree, kernels=False):
        node = place.node
        if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("save_for_backward"):
            for at in range(len(node.args) - 1):
                new = clone(node)
                assert isinstance(new, ast.Call)
                new.args[at], new.args[at + 1] = new.args[at + 1], new.args[at]
                yield place.edit(new)
            for at, item in enumerate(node.args):
                new = clone(node)
                assert isinstance(new, ast.Call)
                new.args[at] = ast.parse(f"torch.zeros_like({ast.unparse(item)})", mode="eval").body
                yield place.edit(new)
    for line in lines(tree, kernels=False):
        if isinstance(line.node, ast.Assign) and "saved_tensors" in ast.unparse(line.node.value):
            target = line.node.targets[0]
            names = [
                item.id for item in ast.walk(target) if isinstance(item, ast.Name) and isinstance(item.ctx, ast.Store)
            ]
            launches = [place for place in _launches(tree) if place[0].function is line.function]
            for name in names:
                yield line.edit(line.node, f"{name}.zero_()")
                yield line.edit(line.node, f"{name} = {name}.to(torch.bfloat16).to({name}.dtype)")
                for other, _, _ in launches:
                    yield other.edit(other.node, f"{name}.zero_()")


def names_on_the_host(tree: ast.Module) -> Iterator[Edit]:
    """One name of a launch for another of its function."""
    for _, place, call in _launches(tree):
        known = {a.id for a in call.args if isinstance(a, ast.Name)}
        for at, item in enumerate(call.args):
            if isinstance(item, ast.Name):
                yield from (place.edit(_with_argument(call, at, name)) for name in sorted(known - {item.id}))


def _launches(tree: ast.Module) -> Iterator[tuple[Line, Place, ast.Call]]:
    """Launches of kernels: the statement, the place of the call in it, the call."""
    by_node = {id(place.node): place for place in expressions(tree, kernels=False)}
    for line in lines(tree, kernels=False):
        call = line.node.value if isinstance(line.node, ast.Expr) else None
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Subscript):
            yield line, by_node[id(call)], call


def _returned(tree: ast.Module, name: str) -> Iterator[tuple[Place, list[ast.expr]]]:
    for function in functions(tree, kernels=False):
        if function.name != name:
            continue
        for place in expressions(tree, kernels=False):
            if place.function is function and isinstance(place.parent, ast.Return):
                node = place.node
                yield place, list(node.elts) if isinstance(node, ast.Tuple) else [node]


def _with_item(items: list[ast.expr], at: int, new: str) -> str:
    texts = [ast.unparse(item) for item in items]
    texts[at] = new
    return texts[0] if len(texts) == 1 else f"({', '.join(texts)})"


def _with_argument(call: ast.Call, at: int, new: str) -> ast.expr:
    changed = clone(call)
    assert isinstance(changed, ast.Call)
    value = ast.parse(new, mode="eval").body
    if at < len(changed.args):
        changed.args[at] = value
    else:
        changed.keywords[at - len(changed.args)].value = value
    return changed


def _with_grid(call: ast.Call, grid: str) -> ast.expr:
    changed = clone(call)
    assert isinstance(changed, ast.Call) and isinstance(changed.func, ast.Subscript)
    changed.func.slice = ast.parse(grid, mode="eval").body
    return changed


def _is_tensor(name: str, function: ast.FunctionDef) -> bool:
    """Whether a function uses a name as a tensor, or takes it as the first inputs are taken."""
    text = ast.unparse(function)
    used = any(
        f"{name}.{word}" in text for word in ("contiguous", "shape", "stride", "dtype", "numel", "reshape", "view")
    )
    return used or (name in parameters(function)[1:2])
