"""Which statements of a kernel are the same for every row, and a kernel's text with the others in a loop over rows. Pure."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from workers.strategies.fitting import KeptError
from workers.strategies.patches import Patches, indent_of
from workers.strategies.pointers import LOADS, accesses_of
from workers.strategies.row_programs import RowKernel
from workers.strategies.syntax import KernelFile, called, names_in, parameters_of, parsed

EFFECTS = ("tl.store", "tl.debug_barrier", "tl.atomic_", "tl.device_")
OPERATORS = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.FloorDiv: "//", ast.Mod: "%"}
INNER = "    "


@dataclass(frozen=True)
class Split:
    """The statements before a loop over rows, and those inside of it."""

    shared: tuple[ast.stmt, ...]
    own: tuple[ast.stmt, ...]

    @property
    def shared_loads(self) -> int:
        """Give how many loads every row would make again."""
        return sum(1 for s in self.shared for n in ast.walk(s) if called(n) in LOADS)

    @property
    def carried(self) -> frozenset[str]:
        """Give the names that a row changes although they had a value before it."""
        return frozenset[str]().union(*(_stored(s) for s in self.own))


def split(found: RowKernel) -> Split:
    """Part a kernel's statements by whether they know of the row.

    Raises:
        KeptError: it goes over rows already, or has effects that have an order.
    """
    accesses = accesses_of(found.kernel)
    if accesses.atomics:
        raise KeptError("it adds with atomics")
    written = accesses.written | written_twice(found)
    roots = {id(a.call): a.parameter for a in accesses.loads}
    own_names = {found.row}
    read: set[str] = set()
    shared: list[ast.stmt] = []
    for statement in _statements(found):
        nodes = list(ast.walk(statement))
        ranges = [n.iter for n in nodes if isinstance(n, ast.For)]
        if any(names_in(r) & own_names for r in ranges):
            raise KeptError("its programs go over rows already")
        effects = any(called(n).startswith(EFFECTS) for n in nodes)
        moving = any(id(n) in roots and (roots[id(n)] is None or roots[id(n)] in written) for n in nodes)
        stored = _stored(statement)
        if names_in(statement) & own_names or effects or moving or stored & read:
            own_names |= stored
            read |= names_in(statement)
        else:
            shared.append(statement)
    return _settled(found, shared)


def _statements(found: RowKernel) -> list[ast.stmt]:
    documented = ast.get_docstring(found.kernel) is not None
    return [s for s in found.kernel.body[1 if documented else 0 :] if s is not found.start]


def _settled(found: RowKernel, candidates: list[ast.stmt]) -> Split:
    """Only loads are worth a place before the loop, with what they need and what is made of them; the rest stays in its order."""
    loads = [s for s in candidates if _loads(s)]
    made, needed = set[str](), set[str]()
    for statement in candidates:
        if statement in loads or names_in(statement) & made:
            made |= _stored(statement)
    for statement in reversed(candidates):
        if statement in loads or _stored(statement) & needed or names_in(statement) & made:
            needed |= names_in(statement)
    wanted = [s for s in candidates if _stored(s) & (made | needed) or s.lineno < found.start.lineno]
    while True:
        own = [s for s in _statements(found) if s not in wanted]
        changed = frozenset[str]().union(*(_stored(s) for s in own))
        # A first value of what a row changes belongs to the row, unless it was loaded; so does what is computed from it.
        back = [s for s in wanted if _stored(s) & changed and not (_loads(s) and _sure(s))]
        lost = frozenset[str]().union(*(_stored(s) for s in back))
        back += [s for s in wanted if s not in back and names_in(s) & (lost | _made_by(own, wanted))]
        if not back:
            return Split(tuple(wanted), tuple(own))
        wanted = [s for s in wanted if s not in back]


def _made_by(own: list[ast.stmt], wanted: list[ast.stmt]) -> frozenset[str]:
    """What only the loop makes."""
    mine = frozenset[str]().union(*(_stored(s) for s in own))
    return mine - frozenset[str]().union(*(_stored(s) for s in wanted))


def _loads(statement: ast.stmt) -> bool:
    return any(called(n) in LOADS for n in ast.walk(statement))


def _sure(statement: ast.stmt) -> bool:
    """It has values behind it whatever a condition says, or behind the one condition that it is."""
    if isinstance(statement, ast.If):
        return not statement.orelse and all(isinstance(s, ast.Assign) for s in statement.body)
    return isinstance(statement, ast.Assign)


def _stored(statement: ast.stmt) -> frozenset[str]:
    return frozenset(n.id for n in ast.walk(statement) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store))


def written_twice(found: RowKernel) -> frozenset[str]:
    """Parameters that a launch gives the same tensor as one that is written."""
    written = accesses_of(found.kernel).written
    same: set[str] = set()
    for row_launch in found.launches:
        arguments = dict(row_launch.launch.arguments)
        stored = {ast.dump(arguments[name]) for name in written if name in arguments}
        same |= {name for name, value in arguments.items() if ast.dump(value) in stored}
    return frozenset(same)


def rename(patches: Patches, file: KernelFile, found: RowKernel, parts: Split) -> tuple[str, ...]:
    """Let a row have its own name for what it changes, and give the copies to be made at the top of the loop.

    Raises:
        KeptError: there is no free name for a copy.
    """
    before = frozenset(parameters_of(found.kernel)).union(*(_stored(s) for s in parts.shared))
    copies: list[str] = []
    taken = names_in(found.kernel) | frozenset(parameters_of(found.kernel))
    for name in sorted(parts.carried & before):
        new = f"own_{name}"
        if new in taken:
            raise KeptError(f"`{new}` is something else already")
        mentions = [s for s in parts.own if name in names_in(s)]
        kept: set[int] = set()
        first = mentions[0]
        target = first.target if isinstance(first, ast.AugAssign) else None
        operator = OPERATORS.get(type(first.op)) if isinstance(first, ast.AugAssign) else None
        plain = isinstance(first, ast.Assign) and len(first.targets) == 1 and isinstance(first.targets[0], ast.Name)
        if isinstance(first, ast.AugAssign) and isinstance(target, ast.Name) and target.id == name and operator:
            value = file.segment(first.value)
            simple = isinstance(first.value, ast.Name | ast.Constant | ast.Call | ast.Attribute)
            simple = simple or (operator == "+" and isinstance(first.value, ast.BinOp) and _arithmetic(first.value))
            patches.replace(first, f"{new} = {name} {operator} {value if simple else f'({value})'}")
            mentions = mentions[1:]
            if name in names_in(first.value) or names_in(first.value) & (parts.carried & before):
                raise KeptError(f"what `{name}` is moved by is moved itself")
        elif isinstance(first, ast.Assign) and plain and ast.unparse(first.targets[0]) == name:
            kept = {id(n) for n in ast.walk(first.value)}
        else:
            copies += _copy(file, parts, new, name)
        for statement in mentions:
            for node in ast.walk(statement):
                if isinstance(node, ast.Name) and node.id == name and id(node) not in kept:
                    patches.replace(node, new)
    return tuple(copies)


def _copy(file: KernelFile, parts: Split, new: str, name: str) -> list[str]:
    """A copy of what has a value behind a condition alone is made behind the same."""
    makers = [s for s in parts.shared if name in _stored(s)]
    if any(isinstance(s, ast.If) for s in makers):
        if len(makers) != 1 or not isinstance(makers[0], ast.If):
            raise KeptError(f"whether `{name}` has a value before a row could not be told")
        return [f"if {file.segment(makers[0].test)}:", f"{INNER}{new} = {name}"]
    return [f"{new} = {name}"]


def _arithmetic(node: ast.BinOp) -> bool:
    return isinstance(node.op, ast.Add | ast.Mult | ast.Sub | ast.Div | ast.FloorDiv | ast.Mod)


def looped(source: str, kernel: str, own: frozenset[int], start: int, header: str, copies: tuple[str, ...]) -> str:
    """Give a file with the statements of a kernel's body that ``own`` numbers in a loop, in the place of that at ``start``.

    Raises:
        KeptError: the kernel is written in a way that whole lines cannot be moved.
    """
    function = parsed(source).kernels[kernel]
    text = source.split("\n")
    indent = indent_of(source, function.body[-1].lineno)
    top = first = _statements_from(function, text)
    before: list[str] = []
    lead: list[str] = []
    inside: list[str] = []
    for number, statement in enumerate(function.body):
        end = statement.end_lineno or statement.lineno
        if end <= first and number == 0:
            continue  # the docstring
        if statement.lineno <= first:
            raise KeptError("two statements of it share a line")
        if _multiline_string(statement):
            raise KeptError("a text of several lines stands in it")
        group, first = text[first:end], end
        if number == start:
            lead = group[: -(end - statement.lineno + 1)]
        else:
            (inside if number in own else before).extend(group)
    moved = [INNER + line if line.strip() else line for line in _stripped(inside)]
    made = [INNER + indent + copy for copy in copies]
    gap = [""] if before else []
    head = before if text[top] == "" or not before else _stripped(before)
    text[top:first] = [*head, *gap, *_stripped(lead), f"{indent}{header}", *made, *moved]
    return "\n".join(text)


def _stripped(lines: list[str]) -> list[str]:
    first = next((number for number, line in enumerate(lines) if line.strip()), len(lines))
    return lines[first:]


def _statements_from(function: ast.FunctionDef, text: list[str]) -> int:
    """The number of lines before the statements: to the end of the docstring, or of the header."""
    if ast.get_docstring(function):
        return function.body[0].end_lineno or 0
    last = function.body[0].lineno - 1
    while last > function.lineno and (not text[last - 1].strip() or text[last - 1].lstrip().startswith("#")):
        last -= 1
    return last


def _multiline_string(statement: ast.stmt) -> bool:
    texts = (n for n in ast.walk(statement) if isinstance(n, ast.Constant) and isinstance(n.value, str))
    return any(n.lineno != n.end_lineno for n in texts)
