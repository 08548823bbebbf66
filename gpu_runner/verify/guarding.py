"""Guards in front of code of the original: where one fails, the original's own statements run, word for word. Pure.

That is read from the two files, for a candidate in whose library something cannot be evaluated, so that no call shows it.
"""

from __future__ import annotations

import ast
import builtins
import functools
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from gpu_runner.contracts.reading import parse_bounded, walk
from gpu_runner.program.coverage import text_of
from gpu_runner.program.scopes import binds, free_names, own_nodes

_ASKING = frozenset(["all", "type", "isinstance", "len"])  # functions, and methods, that a guard may call
_ASKING_METHODS = frozenset(
    ["dim", "element_size", "is_compiling", "is_contiguous", "is_floating_point", "numel", "size", "stride"]
)
_OF_THE_WHOLE = (ast.Global, ast.Nonlocal, ast.Yield, ast.YieldFrom, ast.Await)
_PLAIN = (ast.Name, ast.Attribute, ast.Constant, ast.Load)


@dataclass
class _Added:
    """What a file adds to the original's: functions, and the flags that hold what one of them says."""

    words: frozenset[str]  # of the original's file
    functions: dict[str, ast.FunctionDef] = field(default_factory=dict)
    flags: dict[str, str] = field(default_factory=dict)  # attributes, and the function that each is set by
    tests: list[ast.expr] = field(default_factory=list)  # of statements that end the call by another way
    asked: set[str] = field(default_factory=set)  # functions on which these hang

    def is_new(self, name: str) -> bool:
        """Whether nothing in the original's file can mean this name."""
        return name not in self.words and not hasattr(builtins, name)


def guarded(text: str, original: str) -> frozenset[tuple[int, str]]:
    """The conditions of a file, by line and as decisions quote them, without which a call is left to the original's statements.

    Without what it adds the file must be the original's. It may add functions, imports and values by names that the original's
    file has nowhere; and to a function ``ctx.fast = guard(...)`` and ``if ctx.fast: ... return ...``, where the guard is one
    expression that only asks.
    """
    now, before = parse_bounded(text), parse_bounded(original)
    if any(alias.name == "*" for node in walk(before) if isinstance(node, ast.ImportFrom) for alias in node.names):
        return frozenset()  # it means names that it does not say
    added = _Added(frozenset(re.findall(r"\w+", original)))
    added.functions = {
        node.name: node
        for node in now.body
        if isinstance(node, ast.FunctionDef) and added.is_new(node.name) and not node.decorator_list
    }
    if not _is_extended(now.body, before.body, added, _is_new_of_a_module):
        return frozenset()
    conditions = [*added.tests]
    bound = Counter(name for statement in now.body for node in own_nodes(statement) for name in binds(node))
    if any(bound[name] != 1 for name in added.asked):
        return frozenset()
    for name in added.asked:
        conjuncts = _conjuncts(added.functions[name])
        if conjuncts is None:
            return frozenset()
        conditions += conjuncts
    return frozenset((node.lineno, text_of(node)) for node in conditions)


def _is_extended(
    now: Sequence[ast.stmt],
    before: Sequence[ast.stmt],
    added: _Added,
    may_be_added: Callable[[ast.stmt, _Added], bool],
) -> bool:
    """Whether statements are those of ``before``, in their order, and others that may be added."""
    left = list(before)
    for statement in now:
        if left and _is_same(statement, left[0], added):
            del left[0]
        elif not may_be_added(statement, added):
            return False
    return not left


def _is_same(now: ast.stmt, before: ast.stmt, added: _Added) -> bool:
    if ast.dump(now) == ast.dump(before):
        return True
    kind = type(now)
    if kind is not type(before) or not isinstance(now, ast.FunctionDef | ast.ClassDef):
        return False
    assert isinstance(before, ast.FunctionDef | ast.ClassDef)
    if _head(now) != _head(before):
        return False
    own = functools.partial(_is_guard, before) if isinstance(before, ast.FunctionDef) else _is_nothing
    return _is_extended(now.body, before.body, added, own)


def _head(node: ast.FunctionDef | ast.ClassDef) -> str:
    return ast.dump(type(node)(**dict(ast.iter_fields(node)) | {"body": []}))


def _is_nothing(statement: ast.stmt, added: _Added) -> bool:
    return False


def _is_new_of_a_module(statement: ast.stmt, added: _Added) -> bool:
    """Whether it binds names alone that are new."""
    if isinstance(statement, ast.FunctionDef):
        return added.is_new(statement.name)
    if isinstance(statement, ast.Import | ast.ImportFrom):
        return all(added.is_new((alias.asname or alias.name).partition(".")[0]) for alias in statement.names)
    if isinstance(statement, ast.Assign):
        names = [target.id for target in statement.targets if isinstance(target, ast.Name)]
        return len(names) == len(statement.targets) and all(map(added.is_new, names))
    return False


def _is_guard(function: ast.FunctionDef, statement: ast.stmt, added: _Added) -> bool:
    """Whether it sets a flag by a new function, or ends the call in another way where one holds; neither changes what the
    original's ``function`` means where it goes on."""
    holder = function.args.args[0].arg if function.args.args else None
    if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
        target, name = statement.targets[0], _asked_in(statement.value, added)
        if not isinstance(target, ast.Attribute) or not added.is_new(target.attr) or name is None:
            return False
        if not _is_name(target.value, holder) or added.flags.setdefault(target.attr, name) != name:
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
    test, name = statement.test, _asked_in(statement.test, added)
    if name is not None:
        added.asked.add(name)
    elif not (isinstance(test, ast.Attribute) and _is_name(test.value, holder) and test.attr in added.flags):
        return False
    added.tests.append(test)
    return True


def _is_name(node: ast.expr, name: str | None) -> bool:
    return isinstance(node, ast.Name) and node.id == name


def _asked_in(node: ast.expr, added: _Added) -> str | None:
    """The new function that an expression calls with plain names, and nothing else."""
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name) or node.func.id not in added.functions:
        return None
    arguments = [*node.args, *(keyword.value for keyword in node.keywords)]
    is_plain = all(isinstance(part, _PLAIN) for argument in arguments for part in walk(argument))
    return node.func.id if is_plain else None


def _conjuncts(function: ast.FunctionDef) -> list[ast.expr] | None:
    """What must hold for a guard to hold, each by itself; None where it does more than ask."""
    body = function.body[1:] if ast.get_docstring(function) is not None else function.body
    if len(body) != 1 or not isinstance(body[0], ast.Return) or body[0].value is None:
        return None
    value = body[0].value
    if not all(_only_asks(part) for part in walk(value)):
        return None
    conjuncts = value.values if isinstance(value, ast.BoolOp) and isinstance(value.op, ast.And) else [value]
    return [*conjuncts, *(item for each in conjuncts for item in _each_of_all(each))]


def _each_of_all(node: ast.expr) -> Iterator[ast.expr]:
    """What is asked of each item, where all must hold."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "all":
        yield from (part.elt for part in node.args if isinstance(part, ast.GeneratorExp))


def _only_asks(node: ast.AST) -> bool:
    if isinstance(node, ast.Call):
        method = isinstance(node.func, ast.Attribute) and node.func.attr in _ASKING_METHODS
        return method or (isinstance(node.func, ast.Name) and node.func.id in _ASKING)
    return not isinstance(node, ast.NamedExpr | ast.Lambda | ast.Await | ast.Yield | ast.YieldFrom)
