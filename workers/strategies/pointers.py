"""Which of a kernel's parameters are pointers, and what is loaded from and stored to them. Pure."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from workers.strategies.syntax import called, names_in, parameters_of

LOADS = ("tl.load",)
STORES = ("tl.store",)
ATOMICS = "tl.atomic_"


@dataclass(frozen=True)
class Access:
    """One load or store, and the parameter that its address starts from (None where that could not be found)."""

    call: ast.Call
    parameter: str | None


@dataclass(frozen=True)
class Accesses:
    """What a kernel does to memory."""

    loads: tuple[Access, ...]
    stores: tuple[Access, ...]
    atomics: tuple[Access, ...]

    @property
    def read(self) -> frozenset[str]:
        """Give the pointers that are loaded from."""
        return frozenset(a.parameter for a in self.loads if a.parameter)

    @property
    def written(self) -> frozenset[str]:
        """Give the pointers that are stored to."""
        return frozenset(a.parameter for a in self.stores if a.parameter)


def accesses_of(kernel: ast.FunctionDef) -> Accesses:
    """Find every access of a kernel."""
    roots = _roots(kernel)
    kinds: dict[str, list[Access]] = {"load": [], "store": [], "atomic": []}
    for node in ast.walk(kernel):
        name = called(node)
        kind = (
            "load" if name in LOADS else "store" if name in STORES else "atomic" if name.startswith(ATOMICS) else None
        )
        if kind is not None and isinstance(node, ast.Call) and node.args:
            kinds[kind].append(Access(node, _root(node.args[0], roots)))
    ordered = {kind: tuple(sorted(found, key=lambda a: a.call.lineno)) for kind, found in kinds.items()}
    return Accesses(ordered["load"], ordered["store"], ordered["atomic"])


def size_parameter(kernel: ast.FunctionDef) -> str | None:
    """Give the parameter that bounds the columns: what an offset is compared with, as in ``offsets < n_cols``.

    Where rows are bounded too it is the bound of the offsets that do not depend on the program.
    """
    parameters = parameters_of(kernel)
    of_program = derived(kernel, frozenset({"program_id"}))
    compared = [n for n in ast.walk(kernel) if isinstance(n, ast.Compare) and isinstance(n.ops[0], ast.Lt)]
    found: list[tuple[bool, int, str]] = []
    for node in compared:
        bound = node.comparators[0]
        if isinstance(bound, ast.Name) and bound.id in parameters:
            found.append((bool(names_in(node.left) & of_program), node.lineno, bound.id))
    return min(found)[2] if found else None


def _roots(kernel: ast.FunctionDef) -> dict[str, str]:
    roots = {name: name for name in parameters_of(kernel)}
    assignments = [n for n in ast.walk(kernel) if isinstance(n, ast.Assign) and isinstance(n.targets[0], ast.Name)]
    for node in sorted(assignments, key=lambda n: n.lineno):
        root = _root(node.value, roots)
        target = node.targets[0]
        if root is not None and isinstance(target, ast.Name):
            roots.setdefault(target.id, root)
    return roots


def _root(address: ast.expr, roots: dict[str, str]) -> str | None:
    """The pointer of an address is its leftmost summand, as in ``X_ptr + row * stride + columns``."""
    if isinstance(address, ast.BinOp) and isinstance(address.op, ast.Add | ast.Sub):
        return _root(address.left, roots)
    return roots.get(address.id) if isinstance(address, ast.Name) else None


def loops_over_blocks(kernel: ast.FunctionDef, block: str) -> bool:
    """Tell whether a kernel goes over a row in blocks, so that the block's size is free: no block must hold a whole row."""
    over = [n for n in ast.walk(kernel) if isinstance(n, ast.For) and _steps_by(n.iter, block)]
    if not over or any(called(n) == "tl.dot" for n in ast.walk(kernel)):
        return False
    inside = {id(n) for loop in over for n in ast.walk(loop)}
    moved = [n for n in ast.walk(kernel) if called(n) in (*LOADS, *STORES)]
    # An access outside of these loops that depends on the block would see the first block of a row alone.
    offsets = derived(kernel, frozenset({block}))
    return not any(
        id(n) not in inside and isinstance(n, ast.Call) and n.args and names_in(n.args[0]) & offsets for n in moved
    )


def _steps_by(iterated: ast.expr, block: str) -> bool:
    """``range(0, n, BLOCK)``, or ``range(cdiv(n, BLOCK))``."""
    if called(iterated) not in ("range", "tl.range") or not isinstance(iterated, ast.Call):
        return False
    last = iterated.args[-1] if iterated.args else None
    if len(iterated.args) == 3:
        return isinstance(last, ast.Name) and last.id == block
    return called(last) == "tl.cdiv" and block in names_in(last) if last is not None else False


def derived(kernel: ast.FunctionDef, sources: frozenset[str]) -> frozenset[str]:
    """Give the names that are computed from others (names, or functions of ``tl``), themselves included."""
    found = set(sources)
    for node in sorted((n for n in ast.walk(kernel) if isinstance(n, ast.Assign)), key=lambda n: n.lineno):
        mentioned = names_in(node.value) | {n.attr for n in ast.walk(node.value) if isinstance(n, ast.Attribute)}
        if mentioned & found:
            found |= {t.id for t in node.targets if isinstance(t, ast.Name)}
    return frozenset(found)
