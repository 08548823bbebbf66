"""Whether a decision of host code changes launch settings alone, by data flow over the syntax tree. Pure.

How many warps run a kernel, and how many stages its loops have, changes no value that it computes. So the other side of a decision
that nothing else depends on needs no case. Whatever is not understood here counts as something else.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

OPTIONS = frozenset({"num_warps", "num_stages", "maxnreg"})  # Triton's own, which change no value
_PURE = frozenset({"abs", "bool", "float", "int", "len", "max", "min", "round", "sum"})
_PURE_MEMBERS = frozenset({"triton.cdiv", "triton.next_power_of_2"})
_LOOPS = frozenset({"triton.language.range", "triton.language.static_range"})
_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)
_SIMPLE = (ast.Assign, ast.AnnAssign, ast.AugAssign)
MOST_ROUNDS = 64
ALL = -1  # every item of what a function returns


class _EscapesError(Exception):
    """What is followed reaches something that is no launch setting, or that is not understood."""


@dataclass(eq=False)
class _Function:
    """A function of the file, with what is known to depend on the decision: its names, items of dicts and of what it returns."""

    node: ast.FunctionDef
    is_plain: bool  # at the top of the file, bound once and undecorated, so that a call by its name calls it
    local: frozenset[str]  # all that it binds
    names: set[str] = field(default_factory=set)
    items: dict[str, set[str]] = field(default_factory=dict)  # of a name that is a dict, the keys of what depends
    returns: set[int | str] = field(default_factory=set)  # places of a tuple, keys of a dict

    def parameters(self) -> list[str]:
        taken = self.node.args
        return [arg.arg for arg in (*taken.posonlyargs, *taken.args)]

    def touched(self) -> set[str]:
        """The names that depend, or are dicts of which items do."""
        return self.names | self.items.keys()


class HostCode:
    """A file of a candidate, in which values are followed from a decision to where they end.

    ``elsewhere`` are the names in the candidate's other files. What other files of a library do with a public name is not followed:
    a verdict is on what the candidate's own files compute.
    """

    def __init__(self, tree: ast.Module, elsewhere: Collection[str] = ()) -> None:
        self._tree, self._elsewhere = tree, elsewhere
        bound = Counter(name for statement in tree.body for name in _bound_by(statement))
        self._once = {name for name, count in bound.items() if count == 1}
        self._inner = {name for node in ast.walk(tree) if isinstance(node, _SCOPES) for name in _local(node)}
        self._bound = {*bound, *self._inner}
        self._imports = {
            alias.asname or alias.name: f"{origin}{alias.name}"
            for statement in tree.body
            if isinstance(statement, ast.Import | ast.ImportFrom)
            for origin in [f"{statement.module}." if isinstance(statement, ast.ImportFrom) else ""]
            for alias in statement.names
        }
        defined = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
        single = {id(node) for node in tree.body if isinstance(node, ast.FunctionDef) and node.name in self._once}
        self._kernels = {node.name: node for node in defined if id(node) in single and self._is_kernel(node)}
        self._functions = [
            _Function(node, id(node) in single and not node.decorator_list, frozenset(_local(node)))
            for node in defined
            if node not in self._kernels.values()
        ]
        self._by_name = {function.node.name: function for function in self._functions if function.is_plain}
        self._catches = any(isinstance(node, ast.Try | ast.TryStar) and _catches(node) for node in ast.walk(tree))
        self._followed = {id(node) for function in self._functions for node in _own_nodes(function.node)}
        self._attributes: set[str] = set()
        self._function: _Function  # whose statements are followed
        self._decision: ast.expr | None = None

    def changes_settings_alone(self, decision: ast.expr) -> bool:
        """Whether all that depends on an expression of a function is how many warps and stages launches have."""
        self._decision = decision
        self._attributes = set()
        for function in self._functions:
            function.names, function.items, function.returns = set(), {}, set()
        try:
            self._follow()
        except _EscapesError:
            return False
        return True

    def at(self, line: int, column: int) -> list[ast.expr]:
        """The expressions that begin at a place."""
        expressions = (node for node in ast.walk(self._tree) if isinstance(node, ast.expr))
        return [node for node in expressions if (node.lineno, node.col_offset) == (line, column)]

    def _follow(self) -> None:
        owners = [
            function
            for function in self._functions
            if any(node is self._decision for node in _own_nodes(function.node))
        ]
        if len(owners) != 1 or self._catches:  # an error that is caught decides too
            raise _EscapesError
        for _ in range(MOST_ROUNDS):
            before = self._state()
            for function in self._functions:
                self._function = function
                self._statements(function.node.body)
            self._check_uses()
            if self._state() == before:
                return
        raise _EscapesError

    def _state(self) -> tuple[int, ...]:
        sizes = (len(each.names) + len(each.returns) + sum(map(len, each.items.values())) for each in self._functions)
        return len(self._attributes), *sizes

    def _check_uses(self) -> None:
        """What is returned is used by calls in this file alone, and attributes are read as such."""
        returning = [function for function in self._functions if function.returns]
        if not returning and not self._attributes:
            return
        nodes = list(ast.walk(self._tree))
        called = {id(node.func) for node in nodes if isinstance(node, ast.Call)} & self._followed
        for function in returning:
            name = function.node.name
            uses = [node for node in nodes if isinstance(node, ast.Name) and node.id == name]
            if (
                not function.is_plain
                or name in self._elsewhere
                or not uses
                or any(id(use) not in called for use in uses)
            ):
                raise _EscapesError
        if self._attributes and not self._attributes.isdisjoint(self._elsewhere):
            raise _EscapesError
        for node in nodes if self._attributes else ():
            is_read = isinstance(node, ast.Attribute) and node.attr in self._attributes
            is_by_name = isinstance(node, ast.Name) and node.id in ("getattr", "hasattr", "setattr")
            if is_by_name or isinstance(node, ast.Match) or (is_read and id(node) not in self._followed):
                raise _EscapesError

    # -- statements

    def _statements(self, body: Iterable[ast.stmt]) -> None:
        for statement in body:
            self._statement(statement)

    def _statement(self, node: ast.stmt) -> None:
        if isinstance(node, _SIMPLE):
            self._assignment(node)
        elif isinstance(node, ast.If):
            if self._depends(node.test):
                self._branches([*node.body, *node.orelse])
            self._statements([*node.body, *node.orelse])
        elif isinstance(node, ast.Return):
            self._return(node.value)
        elif isinstance(node, ast.Expr) and node.value is self._decision:
            raise _EscapesError  # what is called for its effect
        elif isinstance(node, ast.Assert | ast.Expr):
            self._depends(node.test if isinstance(node, ast.Assert) else node.value)
        elif isinstance(node, ast.With | ast.For | ast.While):
            self._block(node)
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            self._closed(node)
        elif isinstance(node, ast.Global | ast.Nonlocal):
            if self._function.touched():
                raise _EscapesError
        elif not isinstance(node, ast.Pass | ast.Break | ast.Continue | ast.Import | ast.ImportFrom):
            self._apart(node)

    def _assignment(self, node: ast.Assign | ast.AnnAssign | ast.AugAssign) -> None:
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        for target in targets:
            self._place(target)
        if isinstance(node, ast.AugAssign):
            if self._depends(node.value):
                self._bind(node.target)
        elif node.value is not None:
            for target in targets:
                self._assign(target, node.value)

    def _place(self, target: ast.expr) -> None:
        """Where something is put must not depend on the decision."""
        for part in ast.walk(target):
            if part is self._decision:
                raise _EscapesError
            if isinstance(part, ast.Attribute | ast.Subscript):
                within = [part.value] if isinstance(part, ast.Attribute) else [part.value, part.slice]
                if any(self._depends(each) for each in within):
                    raise _EscapesError

    def _block(self, node: ast.With | ast.For | ast.While) -> None:
        """What is entered, or how often something is done, is no setting."""
        if isinstance(node, ast.With):
            decided: list[ast.expr] = [item.context_expr for item in node.items]
        else:
            decided = [node.iter if isinstance(node, ast.For) else node.test]
        if isinstance(node, ast.For):
            self._place(node.target)
        if any(self._depends(each) for each in decided):
            raise _EscapesError
        self._statements(node.body if isinstance(node, ast.With) else [*node.body, *node.orelse])

    def _apart(self, node: ast.stmt) -> None:
        """Let a statement pass that has nothing to do with what is followed."""
        if any(part is self._decision for part in ast.walk(node)) or self._function.touched() & _names_in(node):
            raise _EscapesError
        for part in ast.iter_child_nodes(node):
            if isinstance(part, ast.stmt):
                self._statement(part)
            elif isinstance(part, ast.ExceptHandler | ast.match_case):
                self._statements(part.body)

    def _branches(self, body: Iterable[ast.stmt]) -> None:
        """What is done on one side of a decision that is followed: names are given values, or the call is refused."""
        for statement in body:
            if isinstance(statement, ast.If):
                self._pure(statement.test)
                self._branches([*statement.body, *statement.orelse])
            elif isinstance(statement, _SIMPLE):
                self._pure(statement.value)
                for target in statement.targets if isinstance(statement, ast.Assign) else [statement.target]:
                    self._bind_names(target)
            elif isinstance(statement, ast.Return):
                self._only_computes(self._function.node.body)  # what comes behind this is done or not, too
                self._function.returns.add(ALL)
            elif not isinstance(statement, ast.Pass | ast.Raise):
                raise _EscapesError

    def _only_computes(self, body: Iterable[ast.stmt]) -> None:
        """What a function does is to give names values and to return one."""
        for place, statement in enumerate(body):
            if isinstance(statement, ast.If):
                self._pure(statement.test)
                self._only_computes([*statement.body, *statement.orelse])
            elif isinstance(statement, _SIMPLE):
                targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
                if not all(isinstance(target, ast.Name) for target in targets):
                    raise _EscapesError
                self._pure(statement.value)
            elif isinstance(statement, ast.Return):
                self._pure(statement.value)
            elif not isinstance(statement, ast.Pass | ast.Raise) and not _is_docstring(place, statement):
                raise _EscapesError

    def _return(self, value: ast.expr | None) -> None:
        if value is None:
            return
        if (keys := self._keys(value)) is not None:
            self._function.returns |= keys
            return
        items = value.elts if isinstance(value, ast.Tuple) else [value]
        places = {place for place, item in enumerate(items) if self._depends(item)}
        if places:
            is_whole = not isinstance(value, ast.Tuple) or any(isinstance(item, ast.Starred) for item in items)
            self._function.returns |= {ALL} if is_whole else places

    def _assign(self, target: ast.expr, value: ast.expr) -> None:
        items = target.elts if isinstance(target, ast.Tuple | ast.List) else None
        if (keys := self._keys(value)) is not None:
            if not isinstance(target, ast.Name):
                raise _EscapesError
            self._function.items.setdefault(target.id, set()).update(keys)
        elif items is None or any(isinstance(item, ast.Starred) for item in items):
            if self._depends(value):
                self._bind(target)
        elif isinstance(value, ast.Tuple) and len(value.elts) == len(items):
            for item, each in zip(items, value.elts, strict=True):
                self._assign(item, each)
        else:
            places = self._items(value)
            for place, item in enumerate(items):
                if ALL in places or place in places:
                    self._bind(item)

    def _keys(self, value: ast.expr) -> set[str] | None:
        """The keys of what depends in a dict; None where no item of a dict does."""
        if isinstance(value, ast.Name):
            return self._function.items.get(value.id)
        if isinstance(value, ast.Call):
            self._depends(value)
            function = self._called(value)
            keys = set() if function is None else {each for each in function.returns if isinstance(each, str)}
            if function is not None and keys and (keys != function.returns or value is self._decision):
                raise _EscapesError
            return keys or None
        if not isinstance(value, ast.Dict):
            return None
        named: set[str] = set()
        for key, item in zip(value.keys, value.values, strict=True):
            within = self._keys(item) if key is None else None
            if within is not None:
                named |= within
            elif self._depends(item) or (key is not None and self._depends(key)):
                if not (isinstance(key, ast.Constant) and isinstance(key.value, str)) or self._depends(key):
                    raise _EscapesError
                named.add(key.value)
        return named or None

    def _items(self, value: ast.expr) -> set[int | str]:
        """Which items of a value depend on the decision."""
        depends = self._depends(value)
        function = self._called(value) if isinstance(value, ast.Call) else None
        return function.returns if function is not None else {ALL} if depends else set()

    def _bind(self, target: ast.expr) -> None:
        if isinstance(target, ast.Attribute):
            self._attributes.add(target.attr)
        else:
            self._bind_names(target)

    def _bind_names(self, target: ast.expr) -> None:
        for part in [target] if not isinstance(target, ast.Tuple | ast.List) else target.elts:
            if not isinstance(part, ast.Name):
                raise _EscapesError
            self._names().add(part.id)

    def _names(self) -> set[str]:
        return self._function.names

    # -- expressions

    def _depends(self, node: ast.AST) -> bool:
        """Whether a value depends on the decision; every part of it is looked at."""
        if isinstance(node, ast.Call):
            return self._call(node) or node is self._decision
        if isinstance(node, ast.Name):
            if node.id in self._function.items:
                raise _EscapesError
            return node.id in self._names() or node is self._decision
        if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name) and isinstance(node.ctx, ast.Load):
            keys, key = self._function.items.get(node.value.id), node.slice
            if keys is not None and isinstance(key, ast.Constant) and node.value.id not in self._names():
                return key.value in keys or node is self._decision
        if isinstance(node, ast.Lambda):
            self._closed(node)
            return False
        if isinstance(node, ast.IfExp | ast.BoolOp):
            return self._chosen(node) or node is self._decision
        if isinstance(node, ast.NamedExpr):
            depends = self._depends(node.value)
            if depends:
                self._bind_names(node.target)
            return depends or node is self._decision
        parts = [self._depends(part) for part in ast.iter_child_nodes(node) if not isinstance(part, ast.expr_context)]
        depends = any(parts) or node is self._decision
        if depends and isinstance(node, ast.Yield | ast.YieldFrom | ast.Await | ast.comprehension):
            raise _EscapesError
        return depends or (isinstance(node, ast.Attribute) and node.attr in self._attributes)

    def _chosen(self, node: ast.IfExp | ast.BoolOp) -> bool:
        parts = [node.test, node.body, node.orelse] if isinstance(node, ast.IfExp) else node.values
        depends = [self._depends(part) for part in parts]
        if any(depends[:-1]):
            for part in parts[1:]:
                self._pure(part)
        return any(depends)

    def _closed(self, node: ast.AST) -> None:
        """A function within a function may be called at any time, by anybody."""
        if self._function.touched() & _names_in(node):
            raise _EscapesError

    def _pure(self, node: ast.AST | None) -> None:
        """What is computed on one side alone does nothing but compute."""
        for part in ast.walk(node) if node is not None else ():
            if isinstance(part, ast.Call) and not self._is_pure(part.func):
                raise _EscapesError
            if isinstance(part, ast.NamedExpr | ast.Yield | ast.YieldFrom | ast.Await | ast.Lambda):
                raise _EscapesError

    def _is_pure(self, function: ast.expr) -> bool:
        if isinstance(function, ast.Name):
            return function.id in _PURE - self._bound
        return self._member(function) in _PURE_MEMBERS

    def _member(self, node: ast.expr) -> str:
        """A member of a module by its whole name, where its module's name is bound by one import alone."""
        parts: list[str] = []
        while isinstance(node, ast.Attribute):
            parts.append(node.attr)
            node = node.value
        if not isinstance(node, ast.Name) or node.id not in self._imports or node.id not in self._once - self._inner:
            return ""
        return ".".join([self._imports[node.id], *reversed(parts)])

    def _call(self, node: ast.Call) -> bool:
        given = [*node.args, *(keyword.value for keyword in node.keywords)]
        depends = [self._depends(value) for value in given]
        if self._depends(node.func):
            raise _EscapesError
        function = self._called(node)
        if not any(depends):
            return function is not None and bool(function.returns)
        if self._is_pure(node.func):
            return True
        if function is not None:
            self._give(function, node, depends)
            return bool(function.returns)
        self._launch(node, depends)
        return False

    def _called(self, node: ast.Call) -> _Function | None:
        name = node.func.id if isinstance(node.func, ast.Name) else ""
        return None if name in self._function.local else self._by_name.get(name)

    def _give(self, function: _Function, node: ast.Call, depends: Sequence[bool]) -> None:
        """Follow the arguments of a call into the function that it calls."""
        parameters = function.parameters()
        for place, name in _followed(node, depends):
            taken = name if name is not None else parameters[place] if place < len(parameters) else None
            known = function.node.args
            if taken is None or taken in [arg.arg for arg in known.posonlyargs if name is not None]:
                raise _EscapesError
            if name is None or name in _parameters(function.node):
                function.names.add(taken)
            elif known.kwarg is not None:
                function.items.setdefault(known.kwarg.arg, set()).add(taken)
            else:
                raise _EscapesError

    def _launch(self, node: ast.Call, depends: Sequence[bool]) -> None:
        """Let settings of the launch of a kernel pass; a kernel that takes a setting as its own argument computes with it."""
        target = node.func.value if isinstance(node.func, ast.Subscript) else None
        kernel = self._kernels.get(target.id) if isinstance(target, ast.Name) else None
        if kernel is None or kernel.name in self._function.local:
            raise _EscapesError
        for place, name in _followed(node, depends):
            if name in OPTIONS and name not in _parameters(kernel):
                continue
            plain = [arg.arg for arg in kernel.args.args]
            taken = name if name is not None else plain[place] if place < len(plain) else None
            if taken not in plain or not self._is_for_stages(kernel, taken):
                raise _EscapesError

    def _is_for_stages(self, kernel: ast.FunctionDef, name: str) -> bool:
        """Whether an argument of a kernel says how many stages its loops have, and nothing else."""
        calls = (node for node in ast.walk(kernel) if isinstance(node, ast.Call) and self._member(node.func) in _LOOPS)
        known = {id(keyword.value) for call in calls for keyword in call.keywords if keyword.arg == "num_stages"}
        uses = [node for node in ast.walk(kernel) if isinstance(node, ast.Name) and node.id == name]
        return all(id(use) in known for use in uses)

    def _is_kernel(self, node: ast.FunctionDef) -> bool:
        """Whether all that stands around a function is ``triton.jit``: a heuristic would compute with the settings."""
        if len(node.decorator_list) != 1:
            return False
        decorator = node.decorator_list[0]
        return self._member(decorator.func if isinstance(decorator, ast.Call) else decorator) == "triton.jit"


def _followed(node: ast.Call, depends: Sequence[bool]) -> Iterator[tuple[int, str | None]]:
    """The arguments that depend on the decision, by place and name."""
    if any(isinstance(value, ast.Starred) for value in node.args) or any(word.arg is None for word in node.keywords):
        raise _EscapesError
    for place, does in enumerate(depends):
        if does:
            yield place, node.keywords[place - len(node.args)].arg if place >= len(node.args) else None


def _is_docstring(place: int, statement: ast.stmt) -> bool:
    return not place and isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)


def _parameters(node: ast.FunctionDef) -> set[str]:
    return {arg.arg for arg in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)}


def _own_nodes(function: ast.FunctionDef) -> Iterator[ast.AST]:
    """The nodes of a function's body without those of functions and classes within it."""
    waiting: list[ast.AST] = list(function.body)
    while waiting:
        node = waiting.pop()
        yield node
        if not isinstance(node, _SCOPES):
            waiting += ast.iter_child_nodes(node)


def _local(scope: ast.AST) -> Iterator[str]:
    """The names that a function or class binds."""
    for node in ast.walk(scope):
        if isinstance(node, ast.arg):
            yield node.arg
        elif node is not scope:
            yield from _bound_by(node)


def _bound_by(node: ast.AST) -> Iterator[str]:
    """The names that a node binds: where it is a statement, those of the whole statement but for what is within functions."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        yield node.name
    elif isinstance(node, ast.Import | ast.ImportFrom):
        yield from ((alias.asname or alias.name.partition(".")[0]) for alias in node.names)
    elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store | ast.Del):
        yield node.id
    elif isinstance(node, ast.stmt):
        for part in ast.iter_child_nodes(node):
            yield from _bound_by(part)
    elif isinstance(
        node, ast.expr | ast.ExceptHandler | ast.match_case | ast.withitem | ast.comprehension | ast.pattern
    ):
        name = getattr(node, "name", None)
        if isinstance(name, str):
            yield name
        for part in ast.iter_child_nodes(node):
            yield from _bound_by(part)


def _names_in(node: ast.AST) -> set[str]:
    return {part.id for part in ast.walk(node) if isinstance(part, ast.Name)}


def _catches(node: ast.Try | ast.TryStar) -> bool:
    return not all(isinstance(statement, ast.Import | ast.ImportFrom) for statement in node.body)
