"""Walks a candidate's syntax tree and holds every name, call and statement against the allow-list. Pure."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field

import torch

from gpu_runner.contracts.status import Status
from gpu_runner.verify import allowed
from gpu_runner.verify.standing import Anchors, Key
from gpu_runner.verify.syntax import (
    FUNCTIONS,
    bodies,
    changed_by,
    decorators,
    is_import_only,
    is_plain_name,
    names_from_outside,
    root_of,
    sums_first_dimension,
    targets_of,
)

_VALUES = allowed.MODULES | set(allowed.FROM_ONLY)
_CONTAINERS = (ast.Dict, ast.List, ast.Set, ast.ListComp, ast.DictComp, ast.SetComp)
_MAKERS = ("dict", "list", "set", "bytearray")
_TENSOR_MAKERS = ("empty", "zeros", "ones", "full", "empty_strided")
_SETS_UP = ("__init__", "__post_init__")


@dataclass(frozen=True)
class Objection:
    """A rule that a candidate breaks."""

    status: Status
    rule: str
    message: str
    line: int | None = None
    path: str | None = None
    key: Key | None = None  # by which it is known again in another file


def objections_in(tree: ast.Module, path: str, local: frozenset[str]) -> list[Objection]:
    """Give the objections to a parsed file, by line; ``local`` are the top-level names of the candidate's own packages."""
    return sorted(_Screen(path, local, tree, Anchors(tree)).objections(), key=_order)


def _order(objection: Objection) -> tuple[int, bool]:
    return objection.line or 0, objection.status is not Status.cheating


@dataclass
class _Screen:
    """Walks one file. ``modules`` maps each imported name to what it stands for."""

    path: str
    local: frozenset[str]
    tree: ast.Module
    anchors: Anchors
    suspects: set[str] = field(default_factory=set)  # names whose import was objected to
    modules: dict[str, str] = field(default_factory=dict)
    ours: set[str] = field(default_factory=set)  # names imported from the candidate's own packages
    defined: set[str] = field(default_factory=set)  # attributes that the file itself defines
    top_level: set[str] = field(default_factory=set)  # names assigned at module level
    classes: set[str] = field(default_factory=set)  # names of the file's classes
    from_outside: set[int] = field(default_factory=set)  # ids of a nested function's names that are not its own
    setting_up: set[int] = field(default_factory=set)  # ids of nodes inside of a constructor
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
        # What reaches out of a candidate must stand in the very function in which it stands today.
        key = self.anchors.key(rule, node, whole=status is Status.cheating)
        return Objection(status, rule, message, getattr(node, "lineno", None), self.path, key)

    def _learn(self) -> None:
        for node in ast.walk(self.tree):
            if isinstance(node, ast.ClassDef):
                self.defined |= {item.name for item in node.body if isinstance(item, FUNCTIONS)}
                self.defined |= {name for item in node.body for name in targets_of(item)}
            elif (
                isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and root_of(node) in ("self", "ctx")
            ):
                self.defined.add(node.attr)
            elif isinstance(node, FUNCTIONS) and any(
                self._dotted(d) in allowed.JIT_DECORATORS for d in decorators(node)
            ):
                self.in_kernel |= {id(child) for child in ast.walk(node)}
            if isinstance(node, ast.FunctionDef) and node.name in _SETS_UP:
                self.setting_up |= {id(child) for child in ast.walk(node)}
        self.top_level = {name for item in self.tree.body for name in targets_of(item)}
        self.from_outside = names_from_outside(self.tree)
        named = (*FUNCTIONS, ast.ClassDef)
        self.classes = {node.name for node in ast.walk(self.tree) if isinstance(node, ast.ClassDef)}
        self.top_level |= {item.name for item in self.tree.body if isinstance(item, named)}

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
                if objection is not None and name not in allowed.MODULES:
                    self.suspects.add(name)
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
                self.suspects.add(alias.asname or alias.name)
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
            if not all(is_import_only(item) for item in bodies(node)):
                yield self._say(
                    node, "try around code", "A `try` stands around more than imports: it could hide a fallback."
                )
        elif isinstance(node, ast.Global | ast.Nonlocal):
            yield self._say(node, "remembers between calls", "`global` and `nonlocal` keep state between calls.")
        elif isinstance(node, ast.AsyncFunctionDef | ast.Await):
            yield self._say(node, "asynchronous", "A candidate runs in one thread, in order.")
        elif isinstance(node, ast.FunctionDef):
            yield from self._cached(node)
        yield from self._stores(node)
        yield from self._defaults(node)

    def _name(self, node: ast.Name, parents: dict[int, ast.AST]) -> Iterator[Objection]:
        if node.id in allowed.RUNS_TEXT:
            yield self._say(node, "runs code from text", f"It uses `{node.id}`.", Status.cheating)
        elif node.id in allowed.REACHES:
            yield self._say(node, "reaches outside", f"It uses `{node.id}`.")
        elif node.id.startswith("__") and node.id not in allowed.DUNDER_NAMES:
            yield self._say(node, "private name", f"It uses `{node.id}`.")
        elif node.id in self.suspects and isinstance(node.ctx, ast.Load):
            status = Status.cheating if self.modules[node.id].split(".")[0] in allowed.REACHING else Status.refused
            yield self._say(node, "unknown module", f"It uses `{self.modules[node.id]}`.", status)
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
        defined = node.attr in self.defined
        if defined and hasattr(torch.Tensor, node.attr):  # or the file's own name would open torch's of the same name
            defined = root_of(node) in {"self", "cls", "ctx", *self.classes}
        return (
            defined
            or node.attr in allowed.ATTRIBUTES
            or root_of(node) in self.ours
            or node.attr in allowed.DUNDER_ATTRIBUTES
        )

    def _call(self, node: ast.Call) -> Iterator[Objection]:
        name = node.func.id if isinstance(node.func, ast.Name) else None
        if name == "getattr" and not (len(node.args) >= 2 and is_plain_name(node.args[1])):
            yield self._say(node, "reaches outside", "`getattr` takes a name that is not written out.")
        if name == "type" and len(node.args) != 1:
            yield self._say(node, "runs code from text", "A class is made by `type`.")
        is_sum = isinstance(node.func, ast.Attribute) and node.func.attr == "sum" and id(node) not in self.in_kernel
        if is_sum and not sums_first_dimension(node, self._dotted(node.func) is not None):
            yield self._say(
                node, "torch operator", "`sum` may only add up partial buffers along their first dimension."
            )

    def _cached(self, node: ast.FunctionDef) -> Iterator[Objection]:
        for decorator in decorators(node):
            cached = self._dotted(decorator) in ("functools.cache", "functools.lru_cache")
            if cached and (node.args.args or node.args.posonlyargs or node.args.kwonlyargs or node.args.vararg):
                yield self._say(
                    decorator, "remembers between calls", "Only a function without parameters may be cached."
                )
            elif cached and any(self._makes(item) for item in ast.walk(node)):
                yield self._say(
                    decorator,
                    "remembers between calls",
                    "A cached function gives a number or a name, nothing that can change.",
                )

    def _makes(self, node: ast.AST) -> bool:
        """Say whether this makes a value that can change later."""
        if not isinstance(node, ast.Call):
            return isinstance(node, _CONTAINERS)
        full = self._dotted(node.func)
        made = isinstance(node.func, ast.Name) and (node.func.id in self.top_level or node.func.id in _MAKERS)
        return made or (full or "").removeprefix("torch.") in _TENSOR_MAKERS

    def _defaults(self, node: ast.AST) -> Iterator[Objection]:
        if not isinstance(node, ast.FunctionDef | ast.Lambda):
            return
        for default in [*node.args.defaults, *(item for item in node.args.kw_defaults if item is not None)]:
            if any(self._makes(item) for item in ast.walk(default)):
                yield self._say(default, "remembers between calls", "A default value that can change keeps state.")

    def _stores(self, node: ast.AST) -> Iterator[Objection]:
        changed = changed_by(node)
        if changed is not None:
            root, text = root_of(changed), ast.unparse(changed)
            held = isinstance(changed, ast.Attribute) and root != "ctx" and id(node) not in self.setting_up
            if held or root in self.modules or root in self.top_level:
                yield self._say(node, "remembers between calls", f"It changes `{text}`, which outlives a call.")
            elif id(changed) in self.from_outside:
                message = f"It changes `{text}` of the function around it, and could keep what it finds there."
                yield self._say(node, "remembers between calls", message)
        elif isinstance(node, ast.Attribute) and not isinstance(node.ctx, ast.Load):
            root = root_of(node)
            own = root == "ctx" or (root == "self" and id(node) in self.setting_up)
            if root in self.modules or root in self.ours:
                yield self._say(node, "patches a module", f"It sets `{ast.unparse(node)}`.", Status.cheating)
            elif not own and id(node) not in self.in_kernel:
                yield self._say(node, "remembers between calls", f"It sets `{ast.unparse(node)}`.")
