"""Which changed files a module reaches by its imports inside of a library. Pure: sources are parsed, never run.

A package's ``__init__`` that hands names on is passed through by the names that are used alone, so that one more export in it
touches nobody else.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import PurePosixPath

Imports = ast.Import | ast.ImportFrom


@dataclass(frozen=True)
class Step:
    """A module on the way: the whole file, or one name that a package hands on."""

    path: str
    name: str | None = None


@dataclass
class Library:
    """Sources of a repository by path; ``roots`` are the folders that go on ``sys.path``."""

    sources: Mapping[str, str]
    roots: tuple[str, ...]
    _parsed: dict[str, ast.Module | None] = field(default_factory=dict)

    def parsed(self, path: str) -> ast.Module | None:
        """Give a module's tree; None where it is not there or does not parse."""
        if path not in self._parsed:
            try:
                self._parsed[path] = ast.parse(self.sources[path])
            except (KeyError, SyntaxError, ValueError, RecursionError, MemoryError):
                self._parsed[path] = None
        return self._parsed[path]

    def file_of(self, module: str) -> str | None:
        """Give the file of a module by its full name."""
        inner = module.replace(".", "/")
        for root in self.roots:
            base = inner if root == "." else f"{root}/{inner}"
            for path in (f"{base}.py", f"{base}/__init__.py"):
                if path in self.sources:
                    return path
        return None

    def steps(self, step: Step) -> Iterator[Step]:
        """Give the modules that one imports."""
        tree = self.parsed(step.path)
        if tree is None:
            return
        if step.name is None:
            for node in _imports(tree):
                yield from self._targets(node, step.path)
            return
        bound = list(self.bindings(step.path, step.name))
        for node, alias in bound:
            yield from self._targets(_only(node, alias), step.path)
        if not bound:  # the package defines it itself, or makes it while it runs
            yield Step(step.path)

    def bindings(self, path: str, name: str) -> Iterator[tuple[Imports, ast.alias]]:
        """Give the imports of a module that bind a name."""
        tree = self.parsed(path)
        for node in _imports(tree) if tree is not None else ():
            for alias in node.names:
                if name in (alias.asname or alias.name, alias.name if alias.name == "*" else None):
                    yield node, alias

    def _targets(self, node: Imports, path: str) -> Iterator[Step]:
        if isinstance(node, ast.Import):
            found = [self.file_of(alias.name) for alias in node.names]
            yield from (Step(file) for file in found if file is not None)
            return
        module = self._absolute(node, path)
        if module is None:
            return
        base = self.file_of(module)
        for alias in node.names:
            inner = self.file_of(f"{module}.{alias.name}" if module else alias.name)
            if inner is not None:
                yield Step(inner)
            elif base is not None:
                handed_on = base.endswith("/__init__.py") and alias.name != "*"
                yield Step(base, alias.name if handed_on else None)

    def _absolute(self, node: ast.ImportFrom, path: str) -> str | None:
        if not node.level:
            return node.module
        for root in self.roots:
            if root != "." and not path.startswith(f"{root}/"):
                continue
            inside = PurePosixPath(path if root == "." else path.removeprefix(f"{root}/")).parent.parts
            kept = len(inside) - (node.level - 1)
            if kept < 0:
                return None
            return ".".join([*inside[:kept], *([node.module] if node.module else [])])
        return None


def own_statements(tree: ast.Module | None) -> str:
    """Give what a package does besides importing, so that two versions can be compared."""
    if tree is None:
        return ""
    kept = [node for node in tree.body if not isinstance(node, Imports) and not _is_listing(node)]
    return "\n".join(ast.dump(node) for node in kept)


def _imports(tree: ast.Module) -> Iterator[Imports]:
    waiting: list[ast.AST] = [tree]
    while waiting:
        node = waiting.pop(0)
        if isinstance(node, Imports):
            yield node
        elif isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            waiting += node.orelse
        else:
            waiting += ast.iter_child_nodes(node)


def _only(node: Imports, alias: ast.alias) -> Imports:
    if isinstance(node, ast.Import):
        return ast.Import([alias])
    return ast.ImportFrom(node.module, [alias], node.level)


def _is_listing(node: ast.stmt) -> bool:
    text = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    targets = node.targets if isinstance(node, ast.Assign) else []
    return text or any(isinstance(target, ast.Name) and target.id == "__all__" for target in targets)
