"""The static check: every name and attribute of a file, reached or not, is held against the language. Pure.

The evaluator refuses what it meets; this looks at all of the text, since a file that is committed, timed and tested is run by
CPython, with the branches that no verdict took.
"""

from __future__ import annotations

import ast
import types
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from gpu_runner.contracts.reading import walk
from gpu_runner.contracts.verify import Status
from gpu_runner.program import kernels, language
from gpu_runner.program.imports import Binding, Library, NameOrigin
from gpu_runner.program.objects import Violation
from gpu_runner.program.scopes import binds, bound_names, is_plain_annotation, own_nodes

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_CACHES = frozenset({"functools.cache", "functools.lru_cache"})
_CONTAINERS = (ast.Dict, ast.List, ast.Set, ast.ListComp, ast.DictComp, ast.SetComp)
_MAKERS = frozenset({"dict", "list", "set", "bytearray"})
_TENSOR_MAKERS = language.words(
    "torch.empty torch.zeros torch.ones torch.full torch.tensor torch.arange torch.empty_strided"
)
_BASES = language.words("""
    torch.autograd.Function torch.autograd.function.Function torch.nn.Module typing.NamedTuple typing.Protocol typing.Generic
    enum.Enum enum.IntEnum enum.StrEnum enum.Flag enum.IntFlag
    """)
_ERRORS = frozenset(
    name for name, value in language.BUILTINS.items() if isinstance(value, type) and issubclass(value, BaseException)
)
_CHANGES_CONTAINER = language.MUTATES
_CHANGES = _CHANGES_CONTAINER | {"copy_", "fill_", "zero_"}
_CALLED = frozenset({"getattr", "hasattr", "type", "super"})  # names that are called where they stand, and never values
_CONSTRUCTORS = frozenset({"__init__", "__post_init__"})
_OWN = frozenset({"self", "cls", "ctx"})
# Attributes of Python's own objects and of tensors: a file that defines one of these names would open it on every value.
_DANGEROUS = frozenset(
    name
    for kind in (type(lambda: 0), type, type(ast), types.GeneratorType, BaseException, object)
    for name in dir(kind)
) | language.words("""
    gi_frame gi_code f_globals f_locals f_builtins f_back tb_frame tb_next handle ctypes numpy backward_hooks
    """)


@dataclass(frozen=True)
class RuleRemark:
    """A rule that a file breaks, and the node that breaks it."""

    node: ast.AST
    violation: Violation


def check(tree: ast.Module, module: str, library: Library) -> list[RuleRemark]:
    """What in a parsed file is outside of the language, in the order of its lines."""
    checker = _Checker(tree, module, library)
    remarks = list(checker.remarks())
    return sorted(remarks, key=lambda r: (getattr(r.node, "lineno", 0) or 0, r.violation.status is not Status.cheating))


@dataclass
class _Scope:
    """The names of a function, class or module, and the scope around it."""

    bound: frozenset[str]
    imports: dict[str, list[NameOrigin]]
    parent: _Scope | None = None
    is_type: bool = False
    is_constructor: bool = False
    is_comprehension: bool = False


@dataclass
class _Checker:
    tree: ast.Module
    module: str
    library: Library
    defined: set[str] = field(default_factory=set)
    classes: set[str] = field(default_factory=set)
    top_level: set[str] = field(default_factory=set)
    tuples: set[str] = field(default_factory=set)  # classes under `typing.NamedTuple`

    def remarks(self) -> Iterator[RuleRemark]:
        names = frozenset(name for node in self.tree.body for own in own_nodes(node) for name in binds(own))
        self.top_level = {
            name for item in self.tree.body if not isinstance(item, ast.Import | ast.ImportFrom) for own in own_nodes(item)
            if not isinstance(own, ast.Import | ast.ImportFrom) for name in binds(own)
        }  # fmt: skip
        classes = [node for node in walk(self.tree) if isinstance(node, ast.ClassDef)]
        self.classes = {node.name for node in classes}
        # Values of these cannot change, unless the file has a `NamedTuple` of its own.
        self.tuples = (
            set() if "NamedTuple" in self.classes | self.top_level else set(filter(None, map(_tuple, classes)))
        )
        self.defined = set(self._defines())
        scope = _Scope(names, self._imports(self.tree.body))
        yield from self._walk(self.tree.body, scope, None)

    # -- what the file binds

    def _imports(self, body: list[ast.stmt]) -> dict[str, list[NameOrigin]]:
        imports: dict[str, list[NameOrigin]] = {}
        for statement in body:
            for node in own_nodes(statement):
                for name, origin in self.library.imported(node, self.module):
                    imports.setdefault(name, []).append(origin)
        return imports

    def _defines(self) -> Iterator[str]:
        """Attributes that the file itself defines: methods, fields and what is set on an object of its own."""
        for node in walk(self.tree):
            if isinstance(node, ast.ClassDef):
                for item in node.body:
                    yield from (name for own in own_nodes(item) for name in binds(own))
            elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and root_of(node) in _OWN:
                yield node.attr
            elif isinstance(node, ast.Call) and getattr(node.func, "attr", "") in (
                "register_buffer",
                "register_parameter",
            ):
                yield from (str(given.value) for given in node.args[:1] if isinstance(given, ast.Constant))
            elif isinstance(node, ast.Call) and self._is_named_tuple(node):
                yield from _field_names(node)

    def _is_named_tuple(self, node: ast.Call) -> bool:
        name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        return name == "namedtuple"

    # -- the walk

    def _walk(self, body: Any, scope: _Scope, owner: ast.ClassDef | None) -> Iterator[RuleRemark]:
        for node in body if isinstance(body, list) else [body]:
            yield from self._node(node, scope, owner, None)

    def _node(
        self, node: ast.AST, scope: _Scope, owner: ast.ClassDef | None, parent: ast.AST | None
    ) -> Iterator[RuleRemark]:
        yield from self._rules(node, scope, owner, parent)
        if isinstance(node, _FUNCTIONS):
            yield from self._function(node, scope, owner)
            return
        if isinstance(node, ast.Lambda):
            bound, _ = bound_names(node)
            yield from self._arguments(node.args, scope)
            yield from self._node(node.body, _Scope(bound, {}, scope), owner, node)
            return
        if isinstance(node, ast.ClassDef):
            yield from self._class(node, scope)
            return
        if isinstance(node, ast.Attribute) and self._resolved(node, scope) is not None:
            return  # a whole dotted name, looked at in ``_rules``
        if isinstance(node, ast.AnnAssign):
            for part in (node.target, node.annotation, node.value):
                if part is not None:
                    yield from self._node(part, scope, owner, node)
            return
        inner = scope
        if isinstance(node, ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp):
            names = {n.id for g in node.generators for n in walk(g.target) if isinstance(n, ast.Name)}
            inner = _Scope(frozenset(names), {}, scope, is_comprehension=True)
        for child in ast.iter_child_nodes(node):
            yield from self._node(child, inner, owner, node)

    def _function(
        self, node: ast.FunctionDef | ast.AsyncFunctionDef, scope: _Scope, owner: ast.ClassDef | None
    ) -> Iterator[RuleRemark]:
        for decorator in node.decorator_list:
            yield from self._node(decorator, scope, owner, node)
        yield from self._arguments(node.args, scope)
        if node.returns is not None:
            yield from self._node(node.returns, scope, owner, node)
        if isinstance(node, ast.AsyncFunctionDef):
            return
        bound, _ = bound_names(node)
        inner = _Scope(bound, self._imports(node.body), scope, is_constructor=node.name in _CONSTRUCTORS)
        made_by = {self._dotted(item, scope) for item in decorators(node)}
        for spoken in language.KERNEL_LANGUAGES:
            if made_by & spoken.decorators:
                yield from self._kernel(node, inner, spoken)
                return
        for statement in node.body:
            yield from self._node(statement, inner, owner, node)

    def _arguments(self, arguments: ast.arguments, scope: _Scope) -> Iterator[RuleRemark]:
        named = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, arguments.vararg, arguments.kwarg]
        for arg in named:
            if arg is not None and arg.annotation is not None:  # CPython evaluates it where the function is defined
                yield from self._node(arg.annotation, scope, None, arg)
        for default in [*arguments.defaults, *(item for item in arguments.kw_defaults if item is not None)]:
            yield from self._node(default, scope, None, arguments)
            if any(self._makes(item, scope) for item in walk(default)):
                yield _remark(default, "remembers between calls", "A default value that can change keeps state.")

    def _class(self, node: ast.ClassDef, scope: _Scope) -> Iterator[RuleRemark]:
        for part in [*node.bases, *node.decorator_list]:
            yield from self._node(part, scope, node, node)
        if node.keywords:
            yield _remark(node, "metaclass", "A class takes no metaclass or keyword.")
        for base in node.bases:
            base = base.value if isinstance(base, ast.Subscript) else base
            full, name = self._dotted(base, scope), root_of(base)
            known = name in self.classes or (isinstance(base, ast.Name) and name in _ERRORS | {"object"})
            if full is None and name is not None:
                known = known or any(o.kind is Binding.own for o in self._origins(name, scope) or [])
            if full not in _BASES and not known:
                yield _remark(base, "class", f"A class cannot derive from `{ast.unparse(base)}`.")
        names = frozenset(name for item in node.body for own in own_nodes(item) for name in binds(own))
        inner = _Scope(names, self._imports(node.body), scope, is_type=True)
        for item in node.body:
            if isinstance(item, _FUNCTIONS) and item.name.startswith("__") and item.name not in language.METHOD_DUNDERS:
                yield _remark(item, "private name", f"A class defines `{item.name}`.")
            yield from self._node(item, inner, node, node)

    def _kernel(self, node: ast.FunctionDef, scope: _Scope, spoken: language.KernelLanguage) -> Iterator[RuleRemark]:
        for violation in kernels.violations_in(node, spoken):
            at = ast.copy_location(ast.Pass(), node)
            at.lineno = violation.line or node.lineno
            yield RuleRemark(at, violation)
        attributes = [child for child in walk(ast.Module(node.body, [])) if isinstance(child, ast.Attribute)]
        inner = {id(child.value) for child in attributes}
        for child in attributes:
            resolved = self._resolved(child, scope) if id(child) not in inner else None
            if resolved is not None:
                yield from self._listed(child, resolved, None)

    # -- rules

    def _rules(
        self, node: ast.AST, scope: _Scope, owner: ast.ClassDef | None, parent: ast.AST | None
    ) -> Iterator[RuleRemark]:
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield from self._import(node)
        elif isinstance(node, ast.Name):
            yield from self._name(node, scope, parent)
        elif isinstance(node, ast.Attribute):
            yield from self._attribute(node, scope, parent)
        elif isinstance(node, ast.Call):
            yield from self._call(node, scope)
        elif isinstance(node, ast.Try | ast.TryStar):
            if not all(_only_imports(item) for item in bodies(node)):
                yield _remark(
                    node, "try around code", "A `try` stands around more than imports: it could hide a fallback."
                )
        elif isinstance(node, ast.Global | ast.Nonlocal):
            yield _remark(node, "remembers between calls", "`global` and `nonlocal` keep state between calls.")
        elif isinstance(node, ast.AsyncFunctionDef | ast.Await | ast.AsyncFor | ast.AsyncWith):
            yield _remark(node, "asynchronous", "A candidate runs in one thread, in order.")
        elif isinstance(node, ast.FunctionDef):
            if node.name.startswith("__") and (owner is None or node not in owner.body):
                yield _remark(node, "private name", f"It defines `{node.name}`.")
            yield from self._cached(node, scope)
        if isinstance(node, ast.Assert) and any(_has_effect(part) for part in walk(node.test)):
            yield _remark(node, "assert", "An `assert` that changes something does so only without `python -O`.")
        yield from self._quiet_reads(node)
        yield from self._stores(node, scope, owner)

    def _quiet_reads(self, node: ast.AST) -> Iterator[RuleRemark]:
        """What reads attributes or runs code without looking so: class patterns, and annotations."""
        for name in node.kwd_attrs if isinstance(node, ast.MatchClass) else ():
            yield from self._value_attribute(node, name, "")
        for annotation in annotations_of(node):
            if not is_plain_annotation(annotation):
                yield _remark(annotation, "annotation", "An annotation holds names, brackets and text alone.")

    def _import(self, node: ast.Import | ast.ImportFrom) -> Iterator[RuleRemark]:
        if isinstance(node, ast.ImportFrom) and any(alias.name == "*" for alias in node.names):
            yield _remark(node, "unknown module", "A star import hides which names it binds.")
            return
        for name, origin in self.library.imported(node, self.module):
            if name.startswith("__"):
                yield _remark(node, "private name", f"It imports `{name}`.")
            elif origin.kind is Binding.unlisted:
                yield RuleRemark(node, language.unlisted(origin.path))
            elif origin.kind is Binding.missing:
                yield _remark(node, "unknown module", f"`{origin.path}` is not defined there.")

    def _name(self, node: ast.Name, scope: _Scope, parent: ast.AST | None) -> Iterator[RuleRemark]:
        if not isinstance(node.ctx, ast.Load):
            if node.id.startswith("__") and node.id not in language.DUNDER_NAMES:
                yield _remark(node, "private name", f"It binds `{node.id}`.")
            return
        origins = self._origins(node.id, scope)
        if origins is None:
            if not self._is_bound(node.id, scope):
                yield from self._builtin(node, parent)
            return
        for origin in origins:
            is_module = origin.kind is Binding.module
            asks = (
                isinstance(parent, ast.Call)
                and getattr(parent.func, "id", "") in ("hasattr", "getattr")
                and parent.args[0] is node
            )
            if is_module and not isinstance(parent, ast.Attribute) and not asks:
                yield _remark(node, "module as a value", f"The module `{node.id}` is used as a value.")
            elif origin.kind is Binding.unlisted:
                yield RuleRemark(node, language.unlisted(origin.path))

    def _builtin(self, node: ast.Name, parent: ast.AST | None) -> Iterator[RuleRemark]:
        called = isinstance(parent, ast.Call) and parent.func is node
        if node.id in language.RUNS_TEXT:
            yield _remark(node, "runs code from text", f"It uses `{node.id}`.", Status.cheating)
        elif node.id in language.REACHES or node.id in ("setattr", "object") or (node.id in _CALLED and not called):
            yield _remark(node, "reaches outside", f"It uses `{node.id}`.")
        elif node.id in ("__name__", "__file__") and not _names_a_logger(node, parent):
            yield _remark(
                node, "recognises its caller", f"It looks at `{node.id}`, by which a program knows where it runs."
            )
        elif node.id.startswith("__") and node.id not in (*language.DUNDER_NAMES, "__name__"):
            yield _remark(node, "private name", f"It uses `{node.id}`.")
        elif node.id not in language.BUILTINS and not node.id.startswith("__"):
            yield _remark(
                node,
                "unknown name",
                f"`{node.id}` is neither defined in the file nor a builtin that host code may use.",
            )

    def _attribute(self, node: ast.Attribute, scope: _Scope, parent: ast.AST | None) -> Iterator[RuleRemark]:
        resolved = self._resolved(node, scope)
        if resolved is not None:
            yield from self._listed(node, resolved, parent)
        elif not isinstance(node.ctx, ast.Store):
            yield from self._value_attribute(node, node.attr, root_of(node) or "")

    def _listed(self, node: ast.Attribute, origin: NameOrigin, parent: ast.AST | None) -> Iterator[RuleRemark]:
        if isinstance(node.ctx, ast.Store | ast.Del):
            yield _remark(node, "patches a module", f"It sets `{ast.unparse(node)}`.", Status.cheating)
        elif origin.kind is Binding.unlisted:
            yield RuleRemark(node, language.unlisted(origin.path))
        elif origin.kind is Binding.missing:
            yield _remark(node, "unknown module", f"`{origin.path}` is not defined there.")
        elif origin.kind is Binding.module and not isinstance(parent, ast.Attribute):
            yield _remark(node, "module as a value", f"The module `{origin.path}` is used as a value.")

    def _value_attribute(self, node: ast.AST, name: str, root: str) -> Iterator[RuleRemark]:
        if name in language.NAMES or name in language.DUNDER_ATTRIBUTES:
            return
        if name in self.defined and (
            name not in _DANGEROUS and (not _is_of_tensors(name) or root in _OWN | self.classes)
        ):
            return
        if name.startswith("_"):
            yield _remark(node, "private name", f"It uses the attribute `{name}`.")
            return
        message = f"The attribute `{name}` is not among those that host code may use."
        yield _remark(node, "unknown attribute", message)

    def _call(self, node: ast.Call, scope: _Scope) -> Iterator[RuleRemark]:
        name = node.func.id if isinstance(node.func, ast.Name) and not self._is_bound(node.func.id, scope) else None
        if name in ("getattr", "hasattr"):
            asked = node.args[1] if len(node.args) > 1 else None
            if not isinstance(asked, ast.Constant) or not isinstance(asked.value, str):
                yield _remark(node, "reaches outside", f"`{name}` takes a name that is not written out.")
            elif self._origins(root_of(node.args[0]) or "", scope) is None:
                yield from self._value_attribute(node, asked.value, root_of(node.args[0]) or "")
            elif name == "getattr":
                yield _remark(node, "reaches outside", "`getattr` takes a module.")
        if name == "type" and len(node.args) != 1:
            yield _remark(node, "runs code from text", "A class is made by `type`.", Status.cheating)
        if (
            isinstance(node.func, ast.Attribute)
            and node.func.attr == "format"
            and self._dotted(node.func, scope) is None
        ):
            text = node.func.value.value if isinstance(node.func.value, ast.Constant) else None
            if not isinstance(text, str) or "." in text.replace("}", "{").split("{")[1::2] or "__" in text:
                yield _remark(
                    node, "reaches outside", "`format` takes a text that is not written out, or asks for attributes."
                )

    def _cached(self, node: ast.FunctionDef, scope: _Scope) -> Iterator[RuleRemark]:
        if not any(self._dotted(item, scope) in _CACHES for item in decorators(node)):
            return
        if any(self._makes(item, scope) for statement in node.body for item in walk(statement)):
            message = "A cached function gives a number or a name, nothing that can change."
            yield _remark(node, "remembers between calls", message)

    def _makes(self, node: ast.AST, scope: _Scope) -> bool:
        """Whether this makes a value that can change later."""
        if not isinstance(node, ast.Call):
            return isinstance(node, _CONTAINERS)
        name = node.func.id if isinstance(node.func, ast.Name) else ""
        made = name in self.classes - self.tuples or name in _MAKERS
        return made or self._dotted(node.func, scope) in _TENSOR_MAKERS

    def _stores(self, node: ast.AST, scope: _Scope, owner: ast.ClassDef | None) -> Iterator[RuleRemark]:
        changed = changed_by(node)
        if changed is not None:
            root = root_of(changed)
            known = root is not None and (root in self.top_level or self._origins(root, scope) is not None)
            outlives = (known and not self._is_local(root or "", scope)) or self._is_of_outer_function(
                root or "", scope
            )
            if outlives:
                message = f"It changes `{ast.unparse(changed)}`, which outlives a call."
                yield _remark(node, "remembers between calls", message)
        elif (
            isinstance(node, ast.Attribute)
            and not isinstance(node.ctx, ast.Load)
            and self._resolved(node, scope) is None
        ):
            root = root_of(node)
            own = root == "ctx" or (root == "self" and scope.is_constructor)
            if not own and (root in _OWN or root in self.classes or not self._is_local(root or "", scope)):
                yield _remark(node, "remembers between calls", f"It sets `{ast.unparse(node)}`.")

    # -- names

    def _origins(self, name: str, scope: _Scope | None) -> list[NameOrigin] | None:
        """Where a name was imported from; None where it is bound in another way, or not at all."""
        first = True
        while scope is not None:
            if (first or not scope.is_type) and name in scope.bound:
                return scope.imports.get(name)
            first, scope = False, scope.parent
        return None

    def _is_bound(self, name: str, scope: _Scope | None) -> bool:
        while scope is not None:
            if name in scope.bound:
                return True
            scope = scope.parent
        return False

    def _is_local(self, name: str, scope: _Scope | None) -> bool:
        """Whether the nearest scope that binds a name is a function's."""
        while scope is not None:
            if name in scope.bound and not scope.is_type:
                return scope.parent is not None
            scope = scope.parent
        return False

    def _is_of_outer_function(self, name: str, scope: _Scope | None) -> bool:
        """Whether a name stands for something of a function around the innermost one."""
        functions = []
        while scope is not None and scope.parent is not None:
            if not scope.is_type and not scope.is_comprehension:
                functions.append(scope)
            scope = scope.parent
        return bool(functions) and name not in functions[0].bound and any(name in f.bound for f in functions[1:])

    def _resolved(self, node: ast.expr, scope: _Scope) -> NameOrigin | None:
        """What a dotted name that begins with an import stands for: the first origin that is not listed, else the first."""
        parts: list[str] = []
        while isinstance(node, ast.Attribute):
            parts.append(node.attr)
            node = node.value
        origins = self._origins(node.id, scope) if isinstance(node, ast.Name) else None
        if not origins:
            return None
        steps = (self.library.step(origin, list(reversed(parts))) for origin in origins)
        ends = [end for end in steps if end is not None]
        bad = [end for end in ends if end.kind in (Binding.unlisted, Binding.missing)]
        return next(iter([*bad, *ends]), None)

    def _dotted(self, node: ast.expr, scope: _Scope) -> str | None:
        """The full name of a listed member."""
        node = node.func if isinstance(node, ast.Call) else node
        if isinstance(node, ast.Name):
            origins = self._origins(node.id, scope)
            return origins[0].path if origins else None
        origin = self._resolved(node, scope)
        return None if origin is None else origin.path


def _tuple(node: ast.ClassDef) -> str | None:
    """The name of a class that derives from ``NamedTuple`` alone."""
    bases = [ast.unparse(base).rpartition(".")[2] for base in node.bases]
    return node.name if bases == ["NamedTuple"] else None


def _remark(node: ast.AST, rule: str, message: str, status: Status = Status.refused) -> RuleRemark:
    return RuleRemark(node, Violation(rule, message, status))


def _has_effect(node: ast.AST) -> bool:
    changes = isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _CHANGES
    return changes or isinstance(node, ast.NamedExpr)


def _names_a_logger(node: ast.Name, parent: ast.AST | None) -> bool:
    function = parent.func if isinstance(parent, ast.Call) else None
    return isinstance(function, ast.Attribute) and function.attr == "getLogger" and node.id == "__name__"


def _is_of_tensors(name: str) -> bool:
    import torch

    return hasattr(torch.Tensor, name)


def _field_names(node: ast.Call) -> Iterator[str]:
    for given in node.args[1:]:
        if isinstance(given, ast.Constant) and isinstance(given.value, str):
            yield from given.value.replace(",", " ").split()
        elif isinstance(given, ast.List | ast.Tuple):
            yield from (str(item.value) for item in given.elts if isinstance(item, ast.Constant))


def root_of(node: ast.expr) -> str | None:
    """The name with which an expression such as ``x.y[0].z`` begins; None where it begins with no name."""
    while isinstance(node, ast.Attribute | ast.Subscript):
        node = node.value
    return node.id if isinstance(node, ast.Name) else None


def decorators(node: ast.FunctionDef | ast.AsyncFunctionDef) -> list[ast.expr]:
    """A function's decorators, without the brackets of those that are called."""
    return [item.func if isinstance(item, ast.Call) else item for item in node.decorator_list]


def annotations_of(node: ast.AST) -> Iterator[ast.expr]:
    """The annotations of a definition or of an assignment."""
    if isinstance(node, _FUNCTIONS):
        arguments = node.args
        every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, arguments.vararg, arguments.kwarg]
        yield from (arg.annotation for arg in every if arg is not None and arg.annotation is not None)
        if node.returns is not None:
            yield node.returns
    elif isinstance(node, ast.AnnAssign):
        yield node.annotation


def changed_by(node: ast.AST) -> ast.expr | None:
    """What a statement such as ``x[0] = 1`` or ``x.append(1)`` changes."""
    if isinstance(node, ast.Subscript) and not isinstance(node.ctx, ast.Load):
        return node.value
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        value = node.func.value
        if node.func.attr in (_CHANGES if isinstance(value, ast.Name) else _CHANGES_CONTAINER):
            return value
    return None


def bodies(node: ast.Try | ast.TryStar) -> list[ast.stmt]:
    """Every statement of a `try` and of its handlers."""
    return [*node.body, *node.orelse, *node.finalbody, *(item for handler in node.handlers for item in handler.body)]


def _only_imports(item: ast.stmt) -> bool:
    plain = isinstance(item, ast.Assign) and not any(isinstance(node, ast.Call) for node in walk(item))
    return isinstance(item, ast.Import | ast.ImportFrom | ast.Pass) or plain
