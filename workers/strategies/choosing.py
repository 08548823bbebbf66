"""Booleans that only say whether gradients take the memory of what is overwritten, such as ``in_place``. Pure."""

from __future__ import annotations

import ast
import re

from workers.strategies.calling import Called
from workers.strategies.patches import Patches
from workers.strategies.rewriting import add_parameter
from workers.strategies.syntax import KernelFile, called, parameters_of, parsed

FRESH = ("torch.empty_like", "torch.zeros_like")
TAKES = re.compile(r"^(?P<head>\s+(?P<result>\w+) = )(?P<taken>\w+)(?P<comment>  #.*)?$")


def choices_of_memory(file: KernelFile, bound: Called) -> tuple[str, ...]:
    """Give the parameters that the call fixes to True and that decide nothing but where gradients are written."""
    fixed = [name for name, node in bound.fixed if isinstance(node, ast.Constant) and node.value is True]
    return tuple(name for name in fixed if _kept_for_backward(file, bound, name))


def with_choice(overwriting: str, plain: str, backward: str, choice: str) -> str | None:
    """Give a section whose backward function is told last whether gradients may take memory that is there already.

    ``overwriting`` and ``plain`` are the same section written for both; None where they differ in anything else.
    """
    mine, other = overwriting.split("\n"), plain.split("\n")
    function = parsed(overwriting).functions.get(backward)
    if len(mine) != len(other) or function is None or choice in {n.id for n in _names(function)}:
        return None
    first, last = function.body[0].end_lineno or 0, function.end_lineno or 0
    told = _told_lines(function)
    changed = 0
    for number, (line, fresh) in enumerate(zip(mine, other, strict=True), 1):
        if line == fresh:
            continue
        if number in told:
            mine[number - 1] = line.replace('."""', f' if {choice}."""')
            continue
        match = TAKES.match(line)
        if match is None or not first < number <= last:
            return None
        if fresh != f"{match['head']}torch.empty_like({match['taken']})":
            return None
        mine[number - 1] = f"{match['head']}{match['taken']} if {choice} else torch.empty_like({match['taken']})"
        changed += 1
    if changed == 0:
        return None
    text = "\n".join(mine)
    file = parsed(text)
    patches = Patches(text)
    add_parameter(patches, file, file.functions[backward], choice)
    return patches.result()


def _told_lines(function: ast.FunctionDef) -> range:
    """The lines of the docstring, which says whose memory is taken."""
    node = function.body[0]
    documented = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    return range(node.lineno, (node.end_lineno or node.lineno) + 1) if documented else range(0)


def _kept_for_backward(file: KernelFile, bound: Called, name: str) -> bool:
    """Tell whether forward only keeps it on ``ctx``, and backward only hands it to what chooses memory by it."""
    if any(n.id == name and isinstance(n.ctx, ast.Store) for n in _names(bound.forward)):
        return False
    stores = [
        n.targets[0].attr
        for n in ast.walk(bound.forward)
        if isinstance(n, ast.Assign)
        and isinstance(n.value, ast.Name)
        and n.value.id == name
        and len(n.targets) == 1
        and isinstance(n.targets[0], ast.Attribute)
        and ast.unparse(n.targets[0].value) == bound.forward.args.args[0].arg
    ]
    uses = [n for n in _names(bound.forward) if n.id == name]
    if len(stores) != 1 or len(uses) != 1:
        return False
    others = [
        n for n in bound.owner.body if isinstance(n, ast.FunctionDef) and n not in (bound.forward, bound.backward)
    ]
    kept = f"{bound.backward.args.args[0].arg}.{stores[0]}"
    read = [n for n in ast.walk(bound.backward) if isinstance(n, ast.Attribute) and ast.unparse(n) == kept]
    return bool(read) and not others and all(_only_chooses(file, bound.backward, node) for node in read)


def _only_chooses(file: KernelFile, function: ast.FunctionDef, node: ast.expr) -> bool:
    """An argument of a function of the file that chooses by it, or the test of such a choice."""
    for outer in ast.walk(function):
        if isinstance(outer, ast.If) and node in (outer.test, *_operands(outer.test)):
            return all(_chooses(s) for s in (*outer.body, *outer.orelse)) and bool(outer.orelse)
        if isinstance(outer, ast.Call) and called(outer) in file.functions:
            inner = file.functions[called(outer)]
            given = dict(zip(parameters_of(inner), outer.args, strict=False))
            given |= {k.arg: k.value for k in outer.keywords if k.arg is not None}
            for parameter, value in given.items():
                if value is node:
                    uses = [n for n in _names(inner) if n.id == parameter]
                    return bool(uses) and all(_is_test(inner, use) for use in uses)
    return False


def _is_test(function: ast.FunctionDef, use: ast.Name) -> bool:
    for outer in ast.walk(function):
        if isinstance(outer, ast.If) and use in (outer.test, *_operands(outer.test)):
            return bool(outer.orelse) and all(_chooses(s) for s in (*outer.body, *outer.orelse))
    return False


def _operands(test: ast.expr) -> tuple[ast.expr, ...]:
    """``flag is True``, besides the flag itself."""
    if isinstance(test, ast.Compare) and isinstance(test.ops[0], ast.Is) and len(test.ops) == 1:
        right = test.comparators[0]
        return (test.left,) if isinstance(right, ast.Constant) and right.value is True else ()
    return ()


def _chooses(statement: ast.stmt) -> bool:
    """``dX = dY``, or fresh memory of the same form."""
    if not isinstance(statement, ast.Assign) or not isinstance(statement.targets[0], ast.Name):
        return False
    return isinstance(statement.value, ast.Name) or called(statement.value) in FRESH


def _names(function: ast.FunctionDef) -> list[ast.Name]:
    return [n for n in ast.walk(function) if isinstance(n, ast.Name)]
