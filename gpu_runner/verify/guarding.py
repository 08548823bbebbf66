"""Guards in front of code of the original: where one fails, the original's own statements run, word for word. Pure.

That is read from the two files, for a candidate in whose library something cannot be evaluated, so that no call shows it.
"""

from __future__ import annotations

import ast
import builtins
import re
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field

import torch

from gpu_runner.contracts.reading import parse_bounded, walk
from gpu_runner.program.coverage import text_of
from gpu_runner.program.scopes import binds, free_names, names_in, own_nodes

_ASKING = frozenset(
    ["all", "type", "isinstance", "len"]
)  # functions, and methods of what it is given, that a guard may call
_ASKING_METHODS = frozenset(["dim", "element_size", "is_contiguous", "is_floating_point", "numel", "size", "stride"])
_COMPILING = "torch.compiler.is_compiling"
_OF_THE_WHOLE = (ast.Global, ast.Nonlocal, ast.Yield, ast.YieldFrom, ast.Await)
_PLAIN = (ast.Name, ast.Attribute, ast.Constant, ast.Load)
# What may be evaluated as a file is loaded: it has no effect, and binds nothing.
_INERT = (*_PLAIN, ast.Tuple, ast.List, ast.Dict, ast.UnaryOp, ast.unaryop, ast.BinOp, ast.operator)
_KERNEL = "triton.jit"
_OF_CASES = ("forward", "setup_context")  # where a context is filled
_PACKAGES = frozenset(
    ["torch", "triton", "math"]
)  # of which an import registers nothing that an original could ask for


@dataclass
class _Added:
    """What a file adds to the original's: functions, and the flags that hold what one of them says."""

    words: frozenset[str]  # of the original's file
    modules: frozenset[str]  # that it imports, or imports from
    functions: dict[str, ast.FunctionDef] = field(default_factory=dict)
    flags: dict[tuple[str, str], str] = field(default_factory=dict)  # class and attribute; the function that sets it
    tests: list[ast.expr] = field(default_factory=list)  # of statements that end the call by another way
    asked: set[str] = field(default_factory=set)  # functions on which these hang

    def is_new(self, name: str) -> bool:
        """Whether nothing in the original's file, and nothing of Python's, can mean this name."""
        is_free = name not in self.words and not hasattr(builtins, name)
        return is_free and name.isidentifier() and not name.startswith("__")


def guarded(text: str, original: str) -> frozenset[tuple[int, str]]:
    """The conditions of a file, by line and as decisions quote them, without which a call is left to the original's statements.

    Without what it adds the file must be the original's. It may add functions, imports and values by names that the original's
    file has nowhere, nothing of which does anything as the file is loaded; and to a function ``ctx.fast = guard(...)`` and
    ``if ctx.fast: ... return ...``, where the guard is one expression that only asks.
    """
    now, before = parse_bounded(text), parse_bounded(original)
    if any(alias.name == "*" for node in walk(before) if isinstance(node, ast.ImportFrom) for alias in node.names):
        return frozenset()  # it means names that it does not say
    added = _Added(frozenset(re.findall(r"\w+", original)), frozenset(map(_module_of, _imports_of(before))))
    added.functions = {
        node.name: node
        for node in now.body
        if isinstance(node, ast.FunctionDef) and added.is_new(node.name) and not node.decorator_list
    }
    if not _is_extended(now.body, before.body, added, None):
        return frozenset()
    conditions = [*added.tests]
    bound = Counter(name for statement in now.body for node in own_nodes(statement) for name in binds(node))
    if any(bound[name] != 1 for name in added.asked) or any(bound[name] for name in _ASKING):
        return frozenset()
    for name in added.asked:
        conjuncts = _conjuncts(added.functions[name])
        if conjuncts is None:
            return frozenset()
        conditions += conjuncts
    return frozenset((node.lineno, text_of(node)) for node in conditions)


@dataclass(frozen=True)
class _Inside:
    """What a statement is added to: a function of the original's, one of a class or not, behind these of its statements."""

    function: ast.FunctionDef
    owner: ast.ClassDef | None
    passed: Sequence[ast.stmt]


def _is_extended(
    now: Sequence[ast.stmt],
    before: Sequence[ast.stmt],
    added: _Added,
    parent: ast.FunctionDef | ast.ClassDef | None,
    owner: ast.ClassDef | None = None,
) -> bool:
    """Whether statements are those of ``before``, in their order, and others that may be added to ``parent``, or to the module."""
    left = list(before)
    for statement in now:
        if left and _is_same(statement, left[0], added, parent):
            del left[0]
        elif isinstance(parent, ast.FunctionDef):
            passed = before[: len(before) - len(left)]
            if not _is_guard(statement, added, _Inside(parent, owner, passed)):
                return False
        elif parent is not None or not _is_new_of_a_module(statement, added):
            return False
    return not left


def _is_same(now: ast.stmt, before: ast.stmt, added: _Added, parent: ast.AST | None) -> bool:
    if ast.dump(now) == ast.dump(before):
        return True
    kind = type(now)
    if kind is not type(before) or not isinstance(now, ast.FunctionDef | ast.ClassDef):
        return False
    assert isinstance(before, ast.FunctionDef | ast.ClassDef)
    owner = parent if isinstance(parent, ast.ClassDef) else None
    return _head(now) == _head(before) and _is_extended(now.body, before.body, added, before, owner)


def _head(node: ast.FunctionDef | ast.ClassDef) -> str:
    return ast.dump(type(node)(**dict(ast.iter_fields(node)) | {"body": []}))


def _imports_of(tree: ast.AST) -> Iterator[tuple[ast.Import | ast.ImportFrom, ast.alias]]:
    for node in walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield from ((node, alias) for alias in node.names)


def _module_of(imported: tuple[ast.Import | ast.ImportFrom, ast.alias]) -> str:
    node, alias = imported
    return alias.name if isinstance(node, ast.Import) else "." * node.level + (node.module or "")


def _is_new_of_a_module(statement: ast.stmt, added: _Added) -> bool:
    """Whether it binds names alone that are new, and does nothing else."""
    if isinstance(statement, ast.FunctionDef):
        given = statement.args
        parameters = [arg for arg in walk(given) if isinstance(arg, ast.arg)]
        evaluated = [*given.defaults, *given.kw_defaults, statement.returns, *(arg.annotation for arg in parameters)]
        is_plain = all(ast.unparse(decorator) == _KERNEL for decorator in statement.decorator_list)
        return is_plain and added.is_new(statement.name) and all(part is None or _is_inert(part) for part in evaluated)
    if isinstance(statement, ast.Import | ast.ImportFrom):
        return all(
            added.is_new((alias.asname or alias.name).partition(".")[0]) and _is_known(_module_of((node, alias)), added)
            for node, alias in _imports_of(statement)
        )
    if isinstance(statement, ast.Assign) and _is_inert(statement.value):
        names = [target.id for target in statement.targets if isinstance(target, ast.Name)]
        return len(names) == len(statement.targets) and all(map(added.is_new, names))
    return False


def _is_inert(node: ast.expr) -> bool:
    return all(isinstance(part, _INERT) for part in walk(node))


def _is_known(module: str, added: _Added) -> bool:
    """Whether loading a module changes nothing: the original loads it, or it has nothing to do with the library."""
    return module in added.modules or module.partition(".")[0] in _PACKAGES


def _is_guard(statement: ast.stmt, added: _Added, place: _Inside) -> bool:
    """Whether it sets a flag by a new function, or ends the call in another way where one holds; neither changes what the
    original's function means where it goes on."""
    function, owner = place.function, place.owner
    holder = function.args.args[0].arg if _has_context(function, owner) else None
    if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
        target, name = statement.targets[0], _asked_in(statement.value, added, function)
        if owner is None or not isinstance(target, ast.Attribute) or not _is_name(target.value, holder) or name is None:
            return False
        # Each call that comes to a test of it has set it, and autograd knows nothing by its name.
        is_early = not any(isinstance(part, ast.Return) for one in place.passed for part in walk(one))
        is_free = added.is_new(target.attr) and not hasattr(torch.autograd.function.BackwardCFunction, target.attr)
        if not (is_early and is_free and function.name in _OF_CASES):
            return False
        if added.flags.setdefault((owner.name, target.attr), name) != name:
            return False
        added.asked.add(name)
        return True
    if not isinstance(statement, ast.If) or statement.orelse or not isinstance(statement.body[-1], ast.Return):
        return False
    # A name that is bound anywhere in a function is its own throughout, and one ``yield`` makes all of it a generator.
    if any(isinstance(part, _OF_THE_WHOLE) for part in walk(statement)):
        return False
    if {name for node in own_nodes(statement) for name in binds(node)}.intersection(free_names(function)):
        return False
    test, name = statement.test, _asked_in(statement.test, added, function)
    if name is not None:
        added.asked.add(name)
    else:
        if owner is None or not isinstance(test, ast.Attribute) or not _is_name(test.value, holder):
            return False
        if (owner.name, test.attr) not in added.flags:
            return False
    added.tests.append(test)
    return True


def _has_context(function: ast.FunctionDef, owner: ast.ClassDef | None) -> bool:
    """Whether it is one of an autograd Function's that are given its context first."""
    is_static = any(_is_name(decorator, "staticmethod") for decorator in function.decorator_list)
    bases = [ast.unparse(base) for base in owner.bases] if owner else []
    return bool(function.args.args) and is_static and any(base.endswith("autograd.Function") for base in bases)


def _is_name(node: ast.expr, name: str | None) -> bool:
    return isinstance(node, ast.Name) and node.id == name


def _asked_in(node: ast.expr, added: _Added, function: ast.FunctionDef) -> str | None:
    """The new function that an expression calls with what ``function`` is given, and nothing else."""
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name) or node.func.id not in added.functions:
        return None
    arguments = [*node.args, *(keyword.value for keyword in node.keywords)]
    is_plain = all(isinstance(part, _PLAIN) for argument in arguments for part in walk(argument))
    is_given = frozenset().union(*map(names_in, arguments)) <= _parameters(function)
    return node.func.id if is_plain and is_given else None


def _parameters(function: ast.FunctionDef) -> frozenset[str]:
    return frozenset(arg.arg for arg in walk(function.args) if isinstance(arg, ast.arg))


def _conjuncts(function: ast.FunctionDef) -> list[ast.expr] | None:
    """What must hold for a guard to hold, each by itself; None where it does more than ask."""
    body = function.body[1:] if ast.get_docstring(function) is not None else function.body
    if len(body) != 1 or not isinstance(body[0], ast.Return) or body[0].value is None:
        return None
    value = body[0].value
    items = frozenset(
        name for part in walk(value) if isinstance(part, ast.comprehension) for name in names_in(part.target)
    )
    given = _parameters(function) | items
    if given & _ASKING or not all(_only_asks(part, given) for part in walk(value)):
        return None
    conjuncts = value.values if isinstance(value, ast.BoolOp) and isinstance(value.op, ast.And) else [value]
    return [*conjuncts, *(item for each in conjuncts for item in _each_of_all(each))]


def _each_of_all(node: ast.expr) -> Iterator[ast.expr]:
    """What is asked of each item, where all must hold."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "all":
        yield from (part.elt for part in node.args if isinstance(part, ast.GeneratorExp))


def _only_asks(node: ast.AST, given: Collection[str]) -> bool:
    """Whether an expression has no effect by itself: of what it is ``given`` it calls methods that have none."""
    if isinstance(node, ast.Call):
        if isinstance(node.func, ast.Attribute) and ast.unparse(node.func) != _COMPILING:
            return node.func.attr in _ASKING_METHODS and _root_of(node.func) in given
        return isinstance(node.func, ast.Attribute) or (isinstance(node.func, ast.Name) and node.func.id in _ASKING)
    return not isinstance(node, ast.NamedExpr | ast.Lambda | ast.Await | ast.Yield | ast.YieldFrom)


def _root_of(node: ast.expr) -> str | None:
    """The name of which an expression is an attribute, or an attribute of one."""
    while isinstance(node, ast.Attribute):
        node = node.value
    return node.id if isinstance(node, ast.Name) else None
