"""Where an imported name comes from: a listed member of a library, or a definition in the candidate's own modules. Pure."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum, auto
from pathlib import PurePosixPath

from gpu_runner.program import language
from gpu_runner.program.scopes import binds, own_nodes

_DEPTH = 8  # of modules that hand a name on


class Binding(Enum):
    """What an imported name stands for."""

    module = auto()  # of a library, or of the candidate
    member = auto()  # listed
    own = auto()  # defined in a module of the candidate
    unlisted = auto()
    missing = auto()  # a module of the candidate has no such name


@dataclass(frozen=True)
class NameOrigin:
    """A name's origin, by its full dotted name."""

    kind: Binding
    path: str
    is_own: bool = False  # of a module: one of the candidate's


class Library:
    """The candidate's own modules, by path under the roots of imports; parsed when they are asked for."""

    def __init__(self, sources: Mapping[str, ast.Module], roots: Iterable[str]) -> None:
        self._sources = sources
        self._roots = [PurePosixPath(root) for root in roots]

    def path_of(self, module: str) -> str | None:
        """The file of a module of the candidate; a file named like a listed library does not stand in its place."""
        if module.split(".", 1)[0] in language.PREFIXES:
            return None
        inside = PurePosixPath(*module.split("."))
        for root in self._roots:
            for path in (root / inside.with_suffix(".py"), root / inside / "__init__.py"):
                if str(path) in self._sources:
                    return str(path)
        return None

    def module_of(self, path: str) -> str:
        """The module that a file is, under the longest root that holds it."""
        inside = [
            PurePosixPath(path).relative_to(root) for root in self._roots if PurePosixPath(path).is_relative_to(root)
        ]
        parts = min(inside, key=lambda file: len(file.parts), default=PurePosixPath(path)).with_suffix("").parts
        return ".".join(parts[:-1] if parts[-1:] == ("__init__",) else parts)

    def is_own(self, module: str) -> bool:
        """Whether a module or a folder of modules is the candidate's."""
        inside = PurePosixPath(*module.split("."))
        if inside.parts[:1] and inside.parts[0] in language.PREFIXES:
            return False
        return self.path_of(module) is not None or any(
            PurePosixPath(path).is_relative_to(root / inside) for root in self._roots for path in self._sources
        )

    def imported(self, node: ast.AST, module: str) -> Iterator[tuple[str, NameOrigin]]:
        """The names that an import statement in ``module`` binds, each with its origin."""
        if isinstance(node, ast.Import):
            for alias in node.names:
                whole = self._of_module(alias.name)
                if alias.asname is not None or whole.kind is Binding.unlisted:
                    yield alias.asname or alias.name.split(".")[0], whole
                else:
                    yield alias.name.split(".")[0], self._of_module(alias.name.split(".")[0])
        elif isinstance(node, ast.ImportFrom) and node.module != "__future__":
            start = self._absolute(node, module)
            for alias in node.names:
                if alias.name != "*":
                    yield alias.asname or alias.name, self._from(start, alias.name)

    def step(self, origin: NameOrigin, parts: list[str]) -> NameOrigin | None:
        """What attributes of an origin stand for, one after the other; None once they are attributes of a value."""
        for part in parts:
            if origin.kind is not Binding.module:
                return origin if origin.kind is not Binding.own and origin.kind is not Binding.member else None
            origin = self._from(origin.path, part)
        return origin

    def _absolute(self, node: ast.ImportFrom, module: str) -> str:
        if not node.level:
            return node.module or ""
        path = self.path_of(module) or ""
        package = module.split(".") if PurePosixPath(path).name == "__init__.py" else module.split(".")[:-1]
        package = package[: len(package) - (node.level - 1)]
        return ".".join([*package, *([node.module] if node.module else [])])

    def _of_module(self, name: str) -> NameOrigin:
        if self.is_own(name):
            return NameOrigin(Binding.module, name, True)
        return NameOrigin(Binding.module if name in language.PREFIXES else Binding.unlisted, name)

    def _from(self, module: str, name: str, depth: int = 0) -> NameOrigin:
        full = f"{module}.{name}" if module else name
        if not self.is_own(module):
            if full in language.MEMBERS - language.LIBRARY_ONLY:
                return NameOrigin(Binding.member, full)
            return NameOrigin(Binding.module if full in language.PREFIXES else Binding.unlisted, full)
        path = self.path_of(module)
        if path is not None and depth < _DEPTH:
            origin = self._bound_in(path, module, name, depth)
            if origin is not None:
                return origin
        return NameOrigin(Binding.module, full, True) if self.is_own(full) else NameOrigin(Binding.missing, full)

    def _bound_in(self, path: str, module: str, name: str, depth: int) -> NameOrigin | None:
        """What a module of the candidate binds a name to; what it imports in any branch must be listed."""
        first: NameOrigin | None = None
        for statement in self._sources[path].body:
            for node in own_nodes(statement):
                if name not in binds(node):
                    continue
                if not isinstance(node, ast.Import | ast.ImportFrom):
                    first = first or NameOrigin(Binding.own, f"{module}.{name}")
                    continue
                for bound, origin in self._handed_on(node, module, depth):
                    if bound == name and (first is None or origin.kind is Binding.unlisted):
                        first = origin
        return first

    def _handed_on(
        self, node: ast.Import | ast.ImportFrom, module: str, depth: int
    ) -> Iterator[tuple[str, NameOrigin]]:
        if isinstance(node, ast.Import):
            yield from self.imported(node, module)
            return
        start = self._absolute(node, module)
        for alias in node.names:
            yield alias.asname or alias.name, self._from(start, alias.name, depth + 1)
