"""The static screen: an allow-list over a candidate's syntax tree. Pure; it refuses early, the runner proves later."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import PurePosixPath

from gpu_runner.contracts.status import Status
from gpu_runner.contracts.verify import CandidateSource, SourceFile
from gpu_runner.verify import allowed

MAX_SOURCE_BYTES = 2**20
_VALUES = allowed.MODULES | set(allowed.FROM_ONLY)
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


@dataclass(frozen=True)
class Objection:
    """A rule that a candidate breaks."""

    status: Status
    rule: str
    message: str
    line: int | None = None
    path: str | None = None


def screen(candidate: CandidateSource, own: frozenset[str] = frozenset()) -> Objection | None:
    """Give the first objection to the screened files; ``own`` are the top-level names of the tree that the candidate lies in."""
    local = own | tops_under([file.path for file in candidate.files], candidate.import_roots)
    wanted = set(candidate.screened) or {file.path for file in candidate.files}
    for file in candidate.files:
        if file.path not in wanted or not file.path.endswith(".py"):
            continue
        objection = screen_text(file, local)
        if objection is not None:
            return objection
    return None


def tops_under(paths: Iterable[str], roots: tuple[str, ...]) -> set[str]:
    """Give the top-level modules that files have when these folders are on the path.

    A snapshot's files may lie in one more folder, so a root counts wherever it stands among the first two.
    """
    wanted = [PurePosixPath(root).parts for root in roots]
    tops = set()
    for path in paths:
        parts = PurePosixPath(path).parts
        for root in wanted:
            for start in (0, 1):
                if parts[start : start + len(root)] == root and len(parts) > start + len(root):
                    tops.add(parts[start + len(root)].removesuffix(".py"))
    return {top for top in tops if top.isidentifier()} - allowed.REACHING - allowed.MODULES


def screen_text(file: SourceFile, local: frozenset[str]) -> Objection | None:
    """Give the first objection to one file, by line."""
    if len(file.text.encode()) > MAX_SOURCE_BYTES:
        return Objection(Status.refused, "too large", "The file is larger than 1 MiB.", path=file.path)
    try:
        tree = ast.parse(file.text)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        line = getattr(error, "lineno", None)
        message = f"It cannot be parsed: {getattr(error, 'msg', None) or type(error).__name__}."
        return Objection(Status.compile_error, "syntax", message, line, file.path)
    found = sorted(_Screen(file.path, local, tree).objections(), key=_order)
    return found[0] if found else None


def _order(objection: Objection) -> tuple[int, bool]:
    return objection.line or 0, objection.status is not Status.cheating


@dataclass
class _Screen:
    """Walks one file. ``modules`` maps each imported name to what it stands for."""

    path: str
    local: frozenset[str]
    tree: ast.Module
    modules: dict[str, str] = field(default_factory=dict)
    ours: set[str] = field(default_factory=set)  # names imported from the candidate's own packages
    defined: set[str] = field(default_factory=set)  # attributes that the file itself defines
    top_level: set[str] = field(default_factory=set)  # names assigned at module level
    in_kernel: set[int] = field(default_factory=set)  # ids of nodes inside of a kernel

    def objections(self) -> Iterator[Objection]:
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Import | ast.ImportFrom):
                yield from self._import(node)
        self._learn()
        parents = {id(child): node for node in ast.walk(self.tree) for child in ast.iter_child_nodes(node)}
        for node in ast.walk(self.tree):
            yield from self._node(node, parents)

    def _say(self, node: ast.AST, rule: str, message: str, status: Status = Status.refused) -> Objection:
        return Objection(status, rule, message, getattr(node, "lineno", None), self.path)

    def _learn(self) -> None:
        for node in ast.walk(self.tree):
            if isinstance(node, ast.ClassDef):
                self.defined |= {item.name for item in node.body if isinstance(item, _FUNCTIONS)}
                self.defined |= {name for item in node.body for name in _targets(item)}
            elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and _root(node) in ("self", "ctx"):
                self.defined.add(node.attr)
            elif isinstance(node, _FUNCTIONS) and any(
                self._dotted(d) in allowed.JIT_DECORATORS for d in _decorators(node)
            ):
                self.in_kernel |= {id(child) for child in ast.walk(node)}
        self.top_level = {name for item in self.tree.body for name in _targets(item)}

    def _dotted(self, node: ast.expr) -> str | None:
        """Give what an expression such as ``tl.load`` stands for, in full; None where it begins with no imported name."""
        parts: list[str] = []
        while isinstance(node, ast.Attribute):
            parts.append(node.attr)
            node = node.value
        if isinstance(node, ast.Name) and node.id in self.modules:
            return ".".join([self.modules[node.id], *reversed(parts)])
        return None

    def _import(self, node: ast.Import | ast.ImportFrom) -> Iterator[Objection]:
        if isinstance(node, ast.Import):
            for alias in node.names:
                objection = self._module(node, alias.name)
                if objection is not None:
                    yield objection
                name = alias.asname or alias.name.split(".")[0]
                self.modules[name] = alias.name if alias.asname else name
            return
        module = node.module or ""
        if node.level or module.split(".")[0] in self.local:
            yield from self._own_import(node)
            return
        for alias in node.names:
            full = f"{module}.{alias.name}"
            objection = self._module(node, module) or self._full_name(node, full)
            if objection is not None:
                yield objection
            self.modules[alias.asname or alias.name] = full

    def _own_import(self, node: ast.ImportFrom) -> Iterator[Objection]:
        for alias in node.names:
            if alias.name in allowed.REACHING | allowed.RUNS_TEXT or alias.name.startswith("__") or alias.name == "*":
                yield self._say(node, "reaches outside", f"`{alias.name}` cannot be imported by way of the library.")
            self.ours.add(alias.asname or alias.name)

    def _module(self, node: ast.AST, name: str) -> Objection | None:
        top = name.partition(".")[0]
        if top in allowed.REACHING:
            return self._say(node, "reaches outside", f"It imports `{name}`.", Status.cheating)
        good = name in allowed.MODULES or name in allowed.FROM_ONLY or top in self.local
        good = good or name.startswith(allowed.MODULE_PREFIXES)
        if good or name.startswith("torch."):  # what is used of torch is looked at name by name
            return None
        return self._say(
            node, "unknown module", f"It imports `{name}`, which is none of the modules that kernels need."
        )

    def _full_name(self, node: ast.AST, full: str) -> Objection | None:
        """Hold a complete dotted name against the tables."""
        top, _, rest = full.partition(".")
        if top in allowed.FROM_ONLY and rest not in allowed.FROM_ONLY[top]:
            return self._say(node, "unknown module", f"`{full}` is nothing that a kernel needs.")
        if top == "torch" and rest not in allowed.TORCH:
            return self._say(
                node, "torch operator", f"`{full}` is not among the parts of torch that a candidate may use."
            )
        if top == "triton" and not rest.startswith("language") and rest not in allowed.TRITON:
            return self._say(node, "triton", f"`{full}` is not among the parts of Triton that a candidate may use.")
        if any(part.startswith("_") and part not in allowed.DUNDER_ATTRIBUTES for part in rest.split(".")):
            return self._say(node, "private name", f"`{full}` is private.")
        return None

    def _node(self, node: ast.AST, parents: dict[int, ast.AST]) -> Iterator[Objection]:
        if isinstance(node, ast.Name):
            yield from self._name(node, parents)
        elif isinstance(node, ast.Attribute):
            yield from self._attribute(node, parents)
        elif isinstance(node, ast.Call):
            yield from self._call(node)
        elif isinstance(node, ast.Try | ast.TryStar):
            if not all(_is_import_only(item) for item in _bodies(node)):
                yield self._say(
                    node, "try around code", "A `try` stands around more than imports: it could hide a fallback."
                )
        elif isinstance(node, ast.Global | ast.Nonlocal):
            yield self._say(node, "remembers between calls", "`global` and `nonlocal` keep state between calls.")
        elif isinstance(node, ast.AsyncFunctionDef | ast.Await):
            yield self._say(node, "asynchronous", "A candidate runs in one thread, in order.")
        elif isinstance(node, ast.FunctionDef):
            yield from self._function(node)
        yield from self._stores(node)

    def _name(self, node: ast.Name, parents: dict[int, ast.AST]) -> Iterator[Objection]:
        if node.id in allowed.RUNS_TEXT:
            yield self._say(node, "runs code from text", f"It uses `{node.id}`.", Status.cheating)
        elif node.id in allowed.REACHES:
            yield self._say(node, "reaches outside", f"It uses `{node.id}`.")
        elif node.id.startswith("__") and node.id not in allowed.DUNDER_NAMES:
            yield self._say(node, "private name", f"It uses `{node.id}`.")
        elif self.modules.get(node.id) in _VALUES and not isinstance(parents.get(id(node)), ast.Attribute):
            yield self._say(node, "module as a value", f"The module `{node.id}` is used as a value.")

    def _attribute(self, node: ast.Attribute, parents: dict[int, ast.AST]) -> Iterator[Objection]:
        if isinstance(parents.get(id(node)), ast.Attribute) and self._dotted(node) is not None:
            outer = parents[id(node)]
            assert isinstance(outer, ast.Attribute)
            if f"{self._dotted(node)}".removeprefix("torch.") not in allowed.TORCH:
                return  # part of a longer name, which is looked at as a whole
        full = self._dotted(node)
        if full is not None:
            objection = self._full_name(node, full)
            if objection is not None:
                yield objection
            return
        private = node.attr.startswith("_") and node.attr not in self.defined
        if private and node.attr not in allowed.DUNDER_ATTRIBUTES:
            yield self._say(node, "private name", f"It uses the attribute `{node.attr}`.")
        elif isinstance(node.ctx, ast.Load) and id(node) not in self.in_kernel and not self._is_known(node):
            message = f"The attribute `{node.attr}` is not among those that a candidate may use outside of its kernels."
            yield self._say(node, "unknown attribute", message)

    def _is_known(self, node: ast.Attribute) -> bool:
        known = node.attr in allowed.ATTRIBUTES or node.attr in self.defined
        return known or _root(node) in self.ours or node.attr in allowed.DUNDER_ATTRIBUTES

    def _call(self, node: ast.Call) -> Iterator[Objection]:
        name = node.func.id if isinstance(node.func, ast.Name) else None
        if name == "getattr" and not (len(node.args) >= 2 and _is_plain_name(node.args[1])):
            yield self._say(node, "reaches outside", "`getattr` takes a name that is not written out.")
        if name == "type" and len(node.args) != 1:
            yield self._say(node, "runs code from text", "A class is made by `type`.")
        is_sum = isinstance(node.func, ast.Attribute) and node.func.attr == "sum" and id(node) not in self.in_kernel
        if is_sum and not _sums_first_dimension(node, self._dotted(node.func) is not None):
            yield self._say(
                node, "torch operator", "`sum` may only add up partial buffers along their first dimension."
            )

    def _function(self, node: ast.FunctionDef) -> Iterator[Objection]:
        defaults = [*node.args.defaults, *(item for item in node.args.kw_defaults if item is not None)]
        for default in defaults:
            if isinstance(default, ast.Dict | ast.List | ast.Set | ast.ListComp | ast.DictComp):
                yield self._say(default, "remembers between calls", "A default value that can change keeps state.")
        for decorator in _decorators(node):
            cached = self._dotted(decorator) in ("functools.cache", "functools.lru_cache")
            if cached and (node.args.args or node.args.posonlyargs or node.args.kwonlyargs or node.args.vararg):
                yield self._say(
                    decorator, "remembers between calls", "Only a function without parameters may be cached."
                )

    def _stores(self, node: ast.AST) -> Iterator[Objection]:
        if isinstance(node, ast.Attribute) and not isinstance(node.ctx, ast.Load):
            root = _root(node)
            if root in self.modules or root in self.ours:
                yield self._say(node, "patches a module", f"It sets `{ast.unparse(node)}`.", Status.cheating)
            elif root not in ("self", "ctx") and id(node) not in self.in_kernel:
                yield self._say(node, "remembers between calls", f"It sets `{ast.unparse(node)}`.")
        elif isinstance(node, ast.Subscript) and not isinstance(node.ctx, ast.Load):
            root = _root(node)
            if root in self.modules or root in self.top_level:
                yield self._say(node, "remembers between calls", f"It writes into `{root}`, which outlives a call.")
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and _root(node.func) in self.top_level:
            if node.func.attr in (
                "append",
                "extend",
                "update",
                "setdefault",
                "pop",
                "insert",
                "copy_",
                "fill_",
                "zero_",
            ):
                yield self._say(
                    node, "remembers between calls", f"It changes `{_root(node.func)}`, which outlives a call."
                )


def _targets(item: ast.stmt) -> Iterator[str]:
    targets = item.targets if isinstance(item, ast.Assign) else []
    targets = [item.target] if isinstance(item, ast.AnnAssign | ast.AugAssign) else targets
    for target in targets:
        yield from (node.id for node in ast.walk(target) if isinstance(node, ast.Name))


def _root(node: ast.expr) -> str | None:
    while isinstance(node, ast.Attribute | ast.Subscript):
        node = node.value
    return node.id if isinstance(node, ast.Name) else None


def _decorators(node: ast.FunctionDef | ast.AsyncFunctionDef) -> list[ast.expr]:
    return [item.func if isinstance(item, ast.Call) else item for item in node.decorator_list]


def _bodies(node: ast.Try | ast.TryStar) -> list[ast.stmt]:
    return [*node.body, *node.orelse, *node.finalbody, *(item for handler in node.handlers for item in handler.body)]


def _is_import_only(item: ast.stmt) -> bool:
    plain = isinstance(item, ast.Assign) and not any(isinstance(node, ast.Call) for node in ast.walk(item))
    return isinstance(item, ast.Import | ast.ImportFrom | ast.Pass) or plain


def _is_plain_name(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value in allowed.ATTRIBUTES


def _sums_first_dimension(node: ast.Call, is_function: bool) -> bool:
    places = [*node.args[1 if is_function else 0 :], *(k.value for k in node.keywords if k.arg in ("dim", "axis"))]
    known = all(keyword.arg in ("dim", "axis", "dtype") for keyword in node.keywords)
    return known and all(isinstance(place, ast.Constant) and place.value == 0 for place in places)
