"""What a kernel computes element by element from what it loads, written again for another kernel that loads the same. Pure."""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import dataclass

from workers.strategies.fitting import KeptError
from workers.strategies.lifting import ELEMENTWISE, METHODS, mask_of
from workers.strategies.patches import Patches
from workers.strategies.pointers import LOADS
from workers.strategies.syntax import KernelFile, called, names_in, parameters_of, parsed

MOST_STATEMENTS = 12


def unified(one: ast.AST, other: ast.AST, names: dict[str, str]) -> bool:
    """Tell whether two expressions are the same but for names, which are kept in ``names``, one for one."""
    if type(one) is not type(other):
        return False
    if isinstance(one, ast.Name) and isinstance(other, ast.Name):
        return names.setdefault(one.id, other.id) == other.id and list(names.values()).count(other.id) == 1
    for field in one._fields:
        if field == "ctx":
            continue
        mine, theirs = getattr(one, field), getattr(other, field)
        if isinstance(mine, ast.AST):
            if not isinstance(theirs, ast.AST) or not unified(mine, theirs, names):
                return False
        elif isinstance(mine, list):
            if len(mine) != len(theirs) or not all(unified(a, b, names) for a, b in zip(mine, theirs, strict=True)):
                return False
        elif mine != theirs:
            return False
    return True


@dataclass(frozen=True)
class Address:
    """Where a load or store goes, a pointer by its parameter, and by what the kernel moved that pointer before."""

    expression: ast.expr
    moves: tuple[ast.AugAssign, ...]

    def unified(self, other: Address, names: dict[str, str]) -> bool:
        """Tell whether two kernels address the same elements, but for names."""
        moves = len(self.moves) == len(other.moves) and all(
            unified(a.value, b.value, names) for a, b in zip(self.moves, other.moves, strict=True)
        )
        return moves and unified(self.expression, other.expression, names)


def address_of(kernel: ast.FunctionDef, call: ast.Call) -> Address:
    """Give the address of an access.

    Raises:
        KeptError: its pointer is moved in another way than by adding to it before.
    """
    stores: dict[str, list[ast.stmt]] = {}
    for statement in ast.walk(kernel):
        targets = statement.targets if isinstance(statement, ast.Assign) else []
        targets = [statement.target] if isinstance(statement, ast.AugAssign | ast.For) else targets
        for node in targets:
            if isinstance(node, ast.Name) and isinstance(statement, ast.stmt):
                stores.setdefault(node.id, []).append(statement)
    address = call.args[0]
    spine = address
    while isinstance(spine, ast.BinOp):
        spine = spine.left
    if not isinstance(spine, ast.Name) or spine.id not in parameters_of(kernel):
        raise KeptError("a pointer is computed in more than one step")
    moves = stores.get(spine.id, [])
    plain = [m for m in moves if isinstance(m, ast.AugAssign) and isinstance(m.op, ast.Add) and m in kernel.body]
    if len(plain) != len(moves) or any(m.lineno > call.lineno for m in moves):
        raise KeptError("a pointer is moved in another way than by adding to it once")
    return Address(address, tuple(plain))


def same_load(
    one: ast.FunctionDef, wanted: ast.Assign, other: ast.FunctionDef, found: ast.Assign, names: dict[str, str]
) -> bool:
    """Tell whether statements of two kernels load the same elements in the same way; their names are kept in ``names``."""
    loads = plain_load(wanted), plain_load(found)
    if loads[0] is None or loads[1] is None:
        return False
    places = address_of(one, loads[0]), address_of(other, loads[1])
    return places[0].unified(places[1], names) and unified(wanted.value, found.value, names)


def sliced(kernel: ast.FunctionDef, value: ast.expr) -> tuple[list[ast.Assign], list[ast.Assign]]:
    """Give the statements that a stored value is computed by, and those that load what they need, from top to bottom.

    Raises:
        KeptError: it is not computed element by element, in plain statements, from nothing but loads.
    """
    makers: dict[str, list[ast.stmt]] = {}
    for statement in kernel.body:
        for node in ast.walk(statement):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                makers.setdefault(node.id, []).append(statement)
    computed: list[ast.Assign] = []
    loaded: list[ast.Assign] = []
    waiting = _needs(value)
    while waiting:
        name = waiting.pop()
        if name in parameters_of(kernel):
            raise KeptError(f"it depends on `{name}`, which the backward pass is not surely given")
        if name not in makers:
            continue  # of the module
        maker = makers[name][0]
        if len(makers[name]) != 1 or not isinstance(maker, ast.Assign) or not isinstance(maker.targets[0], ast.Name):
            raise KeptError(f"`{name}` is made in more than one plain statement")
        if maker in computed or maker in loaded:
            continue
        if any(called(n) in LOADS for n in ast.walk(maker.value)):
            loaded.append(maker)
        else:
            computed.append(maker)
            waiting |= _needs(maker.value)
    if not loaded or len(computed) > MOST_STATEMENTS:
        raise KeptError("it is not computed from a few things that are loaded")
    return sorted(computed, key=lambda s: s.lineno), sorted(loaded, key=lambda s: s.lineno)


def _needs(value: ast.expr) -> set[str]:
    for node in ast.walk(value):
        if isinstance(node, ast.Subscript | ast.IfExp | ast.BoolOp | ast.Lambda):
            raise KeptError("it is not computed element by element")
        if isinstance(node, ast.Call):
            method = isinstance(node.func, ast.Attribute) and node.func.attr in METHODS
            if not method and called(node) not in ELEMENTWISE:
                raise KeptError(f"it calls `{called(node)}`, which may not go element by element")
    return set(names_in(value)) - {"tl"}


def plain_load(statement: ast.Assign) -> ast.Call | None:
    """Give the load of ``x = tl.load(...)``, also where it is cast at once."""
    value: ast.expr = statement.value
    while isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute) and value.func.attr in METHODS:
        value = value.func.value
    return value if isinstance(value, ast.Call) and called(value) in LOADS else None


def rewritten(
    file: KernelFile, statements: list[ast.Assign], value: ast.expr, names: dict[str, str], free: Callable[[str], str]
) -> tuple[list[str], str]:
    """Give statements and the value with another kernel's names in them; what they make gets names that are free there."""
    mine = dict(names)
    for statement in statements:
        made = ast.unparse(statement.targets[0])
        mine[made] = free(made)
    lines = [_renamed(file.segment(statement), mine) for statement in statements]
    return lines, _renamed(file.segment(value), mine)


def _renamed(text: str, names: dict[str, str]) -> str:
    if "\n" in text or "#" in text:
        raise KeptError("it is computed in a statement of several lines")
    patches = Patches(text)
    for node in ast.walk(parsed(text).tree):
        if isinstance(node, ast.Name) and node.id in names:
            patches.replace(node, names[node.id])
    return patches.result()


def other_of(load: ast.Call) -> tuple[str | None, str]:
    """Give the mask of a load and what stands where it does not hold."""
    mask = mask_of(load)
    fill = next((k.value for k in load.keywords if k.arg == "other"), None)
    return (ast.unparse(mask) if mask is not None else None), (ast.unparse(fill) if fill is not None else "0.0")


def block_of(kernel: ast.FunctionDef, loads: list[ast.Call]) -> tuple[list[ast.stmt], ast.Assign]:
    """Give the statement that makes the only one of some loads, and the statements among which it stands.

    Raises:
        KeptError: there is no such one.
    """
    bodies = [kernel.body, *(n.body for n in ast.walk(kernel) if isinstance(n, ast.For))]
    for body in bodies:
        for statement in body:
            if len(loads) == 1 and isinstance(statement, ast.Assign) and plain_load(statement) is loads[0]:
                return body, statement
    raise KeptError("backward does not load what is saved in one plain statement")


def stored_twice(kernel: ast.FunctionDef, statement: ast.Assign) -> bool:
    """Tell whether a kernel gives the name that a statement makes something else too."""
    name = ast.unparse(statement.targets[0])
    stores = [n for n in ast.walk(kernel) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)]
    return sum(1 for n in stores if n.id == name) > 1
