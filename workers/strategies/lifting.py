"""What each value of a kernel depends on, its row, its columns or both, and the edits that give it rows. Pure.

The number of a row becomes a column of numbers ``[R, 1]`` and the columns a line ``[1, BLOCK]``, so that everything computed from
them has the right form by broadcasting, and no expression but these, reductions and masks changes.
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass, field

from workers.strategies.fitting import KeptError
from workers.strategies.syntax import KernelFile, called, constexprs_of, names_in, parameters_of

Form = frozenset[str]
NONE: Form = frozenset()
ROW: Form = frozenset({"row"})
COLUMNS: Form = frozenset({"columns"})
BOTH: Form = ROW | COLUMNS
# What a value may be; more than one where a compile-time constant decides.
Forms = frozenset[Form]
SAME: Forms = frozenset({NONE})

REDUCTIONS = ("tl.sum", "tl.max", "tl.min")
MADE = ("tl.arange", "tl.zeros", "tl.full")
POINTWISE = """exp exp2 log log2 sqrt sqrt_rn rsqrt sigmoid abs erf sin cos floor ceil fma clamp where maximum minimum cast cdiv
div_rn fdiv float32 float16 bfloat16 int32 int64 multiple_of max_contiguous softplus"""
ELEMENTWISE = frozenset(f"tl.{name}" for name in re.findall(r"\w+", POINTWISE))
MODULES = ("tl.math.", "tl.extra.", "libdevice.", "triton.language.math.", "triton.language.extra.")
BUILTINS = frozenset({"float", "int", "min", "max", "abs"})
METHODS = frozenset({"to", "cast"})
ATTRIBUTES = frozenset({"dtype", "element_ty", "type", "scalar"})
QUIET = frozenset({"tl.debug_barrier", "tl.static_assert", "tl.static_print", "tl.device_assert"})


@dataclass
class Lifted:
    """What a kernel's text needs: reductions, made vectors, and accesses with the forms of their addresses."""

    reductions: list[ast.Call] = field(default_factory=list)
    vectors: list[ast.Call] = field(default_factory=list)
    accesses: list[tuple[ast.Call, Form]] = field(default_factory=list)


def lifted(file: KernelFile, kernel: ast.FunctionDef, start: ast.Assign, row: str) -> Lifted:
    """Find what has to change for a kernel to handle several rows.

    Raises:
        KeptError: a statement that this cannot surely change.
    """
    walk = _Walk(file, kernel, start, {row: frozenset({ROW})})
    for statement in kernel.body:
        walk.statement(statement)
    if not any(form == BOTH for _, form in walk.found.accesses):
        raise KeptError("nothing in it is addressed by row and column")
    return walk.found


class _Walk:
    def __init__(
        self, file: KernelFile, kernel: ast.FunctionDef, start: ast.Assign | None, forms: dict[str, Forms]
    ) -> None:
        self.file, self.kernel, self.start = file, kernel, start
        self.forms = dict.fromkeys(parameters_of(kernel), SAME) | forms
        self.found = Lifted()

    def statement(self, node: ast.stmt) -> None:
        if node is self.start or isinstance(node, ast.Pass):
            return
        if isinstance(node, ast.Expr):
            self.expression_statement(node.value)
        elif isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
            self.forms[node.targets[0].id] = self.of(node.value)
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.value is not None:
            self.forms[node.target.id] = self.of(node.value)
        elif isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
            self.forms[node.target.id] = _joined([self.forms.get(node.target.id, SAME), self.of(node.value)])
        elif isinstance(node, ast.If):
            self.branch(node)
        elif isinstance(node, ast.For | ast.While):
            raise KeptError("it goes over its columns in a loop")
        else:
            raise KeptError(f"line {node.lineno} of the file is of a kind that is not lifted")

    def expression_statement(self, value: ast.expr) -> None:
        if isinstance(value, ast.Constant) or called(value) in QUIET:
            return
        if called(value) != "tl.store" or not isinstance(value, ast.Call):
            raise KeptError(f"it does more than load, compute and store (`{ast.unparse(value)[:60]}`)")
        if len(value.args) < 2:
            raise KeptError("a store names its value in a way that is not read")
        form = self.access(value)
        if any(not f <= form for f in self.of(value.args[1])):
            raise KeptError("a store writes more values than it has addresses")

    def branch(self, node: ast.If) -> None:
        if self.of(node.test) != SAME:
            raise KeptError("a condition depends on the row")
        before = dict(self.forms)
        ends = []
        for body in (node.body, node.orelse):
            self.forms = dict(before)
            for statement in body:
                self.statement(statement)
            ends.append(self.forms)
        constant = self.constant(node.test)
        self.forms = before
        for name in {*ends[0], *ends[1]}:
            known = [end[name] for end in ends if name in end]
            union = frozenset().union(*known)
            if not constant and len(union) > 1:
                raise KeptError("a value has other dimensions behind a condition that is known only at run time")
            self.forms[name] = union

    def constant(self, test: ast.expr) -> bool:
        stored = {n.id for n in ast.walk(self.kernel) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
        running = (set(parameters_of(self.kernel)) - set(constexprs_of(self.kernel))) | stored
        return not (names_in(test) & running)

    def of(self, node: ast.expr) -> Forms:
        if isinstance(node, ast.Constant):
            return SAME
        if isinstance(node, ast.Name):
            return self.forms.get(node.id, SAME)
        if isinstance(node, ast.BinOp):
            return _joined([self.of(node.left), self.of(node.right)])
        if isinstance(node, ast.UnaryOp):
            return self.of(node.operand)
        if isinstance(node, ast.Compare):
            return _joined([self.of(n) for n in (node.left, *node.comparators)])
        if isinstance(node, ast.BoolOp | ast.IfExp):
            parts = node.values if isinstance(node, ast.BoolOp) else [node.test]
            if any(self.of(part) != SAME for part in parts):
                raise KeptError("a condition depends on the row")
            return SAME if isinstance(node, ast.BoolOp) else self.of(node.body) | self.of(node.orelse)
        if isinstance(node, ast.Attribute):
            return self.attribute(node)
        if isinstance(node, ast.Call):
            return self.call(node)
        raise KeptError(f"`{ast.unparse(node)[:60]}` is not lifted")

    def attribute(self, node: ast.Attribute) -> Forms:
        root: ast.expr = node
        while isinstance(root, ast.Attribute):
            root = root.value
        local = isinstance(root, ast.Name) and root.id in self.forms
        if (not local and isinstance(root, ast.Name)) or node.attr in ATTRIBUTES:
            return SAME
        raise KeptError(f"`{ast.unparse(node)[:60]}` is not lifted")

    def call(self, node: ast.Call) -> Forms:
        name = called(node)
        if name in MADE:
            self.vector(node, name)
            return frozenset({COLUMNS})
        if name == "tl.load" and node.args:
            return frozenset({self.access(node)})
        if name in REDUCTIONS:
            return self.reduction(node)
        arguments = [self.of(a) for a in (*node.args, *(k.value for k in node.keywords))]
        if isinstance(node.func, ast.Attribute) and node.func.attr in METHODS and self.local(node.func.value):
            return _joined([self.of(node.func.value), *arguments])
        if name in ELEMENTWISE or name.startswith(MODULES) or name in self.mathematics():
            return _joined(arguments)
        if name in BUILTINS and all(a == SAME for a in arguments):
            return SAME
        if name in self.file.kernels and self.elementwise(self.file.kernels[name]):
            return _joined(arguments)
        raise KeptError(f"it calls `{name or ast.unparse(node.func)[:40]}`, which may not go element by element")

    def local(self, node: ast.expr) -> bool:
        """A value of the kernel, not a module."""
        return node.id in self.forms if isinstance(node, ast.Name) else not isinstance(node, ast.Attribute)

    def vector(self, node: ast.Call, name: str) -> None:
        shape = node.args[0] if node.args else None
        one = isinstance(shape, ast.Tuple | ast.List) and len(shape.elts) == 1
        ranged = name == "tl.arange" and len(node.args) == 2 and not node.keywords
        if not (one or ranged):
            raise KeptError("it makes a block that is not a line of columns")
        self.found.vectors.append(node)

    def reduction(self, node: ast.Call) -> Forms:
        axes = [*node.args[1:], *(k.value for k in node.keywords if k.arg == "axis")]
        others = [k for k in node.keywords if k.arg != "axis"]
        plain = all(isinstance(a, ast.Constant) and a.value in (0, None) for a in axes) and len(axes) <= 1
        if not plain or others or not node.args or self.of(node.args[0]) != frozenset({BOTH}):
            raise KeptError(f"`{ast.unparse(node)[:60]}` is not surely a reduction of the row")
        self.found.reductions.append(node)
        return frozenset({ROW})

    def access(self, node: ast.Call) -> Form:
        form = self.of(node.args[0])
        mask = mask_of(node)
        fill = [k.value for k in node.keywords if k.arg not in (None, "mask")]
        masks = self.of(mask) if mask is not None else SAME
        if len(form) != 1 or len(masks) != 1 or any(self.of(f) != SAME for f in fill):
            raise KeptError("what an address depends on could not be told")
        found, covered = next(iter(form)), next(iter(masks))
        if not covered <= found:
            raise KeptError("a mask has more dimensions than the address that it is for")
        self.found.accesses.append((node, found))
        return found

    def mathematics(self) -> frozenset[str]:
        """Functions that the file imports from Triton's own mathematics."""
        imports = [n for n in ast.walk(self.file.tree) if isinstance(n, ast.ImportFrom) and n.module]
        ours = [n for n in imports if f"{n.module}.".startswith(("triton.language.math.", "triton.language.extra."))]
        others = {a.asname or a.name for n in imports if n not in ours for a in n.names}
        return frozenset(a.asname or a.name for n in ours for a in n.names) - others

    def elementwise(self, function: ast.FunctionDef) -> bool:
        inner = _Walk(self.file, function, None, {})
        body = function.body[1:] if ast.get_docstring(function) else function.body
        try:
            for statement in body[:-1]:
                inner.statement(statement)
            last = body[-1]
            if not isinstance(last, ast.Return) or last.value is None:
                return False
            inner.of(last.value)
        except (KeptError, RecursionError):
            return False
        # A load or a vector of its own would have no rows.
        branches = any(isinstance(n, ast.If | ast.IfExp | ast.BoolOp) for n in ast.walk(function))
        return not (inner.found.vectors or inner.found.accesses or branches)


def mask_of(node: ast.Call) -> ast.expr | None:
    """Give the mask of a load or store."""
    named = next((k.value for k in node.keywords if k.arg == "mask"), None)
    position = 2 if called(node) == "tl.store" else 1
    return named if named is not None else node.args[position] if len(node.args) > position else None


def _joined(parts: list[Forms]) -> Forms:
    found: Forms = SAME
    for part in parts:
        found = frozenset(a | b for a in found for b in part)
    return found
