"""A program's modules: read from its files, evaluated once, and frozen, so that nothing of a call is kept in them."""

from __future__ import annotations

import ast
import functools
import inspect
import types
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from enum import Enum
from pathlib import PurePosixPath
from typing import Any

import torch

from gpu_runner.program import language
from gpu_runner.program.evaluator import Evaluator
from gpu_runner.program.imports import Library
from gpu_runner.program.objects import (
    BoundFunction,
    CallFrame,
    Class,
    Descriptor,
    Facade,
    Function,
    Instance,
    Native,
    ScopeKind,
    TypeAnnotation,
    Violation,
    unproved,
)
from gpu_runner.program.scopes import binds, own_nodes

_MISSING = inspect.Parameter.empty


class SourceModule:
    """One module. ``lazy``: a statement is evaluated when a name that it binds is asked for, as in a library around a candidate."""

    def __init__(self, program: CandidateProgram, name: str, path: str, tree: ast.Module, lazy: bool) -> None:
        self.program, self.name, self.path, self.tree = program, name, path, tree
        self.frame = CallFrame(ScopeKind.module, self)
        self.loading = 0
        self.is_deferred = False  # annotations are text
        self.is_package = PurePosixPath(path).name == "__init__.py"
        self._waiting: dict[str, list[ast.stmt]] = {}
        self._done: set[int] = set()
        if lazy:
            for statement in tree.body:
                for bound in {name for node in own_nodes(statement) for name in binds(node)}:
                    self._waiting.setdefault(bound, []).append(statement)

    def load(self) -> None:
        """Evaluate the whole module."""
        with self._loads():
            self.program.evaluator.body(self.tree.body, self.frame)
        self.program.freeze(self.frame.names.values())

    def lookup(self, name: str) -> Any:
        """What a name stands for; ``inspect.Parameter.empty`` where it stands for nothing."""
        statements = self._waiting.pop(name, None)
        if statements is not None:
            evaluator = self.program.evaluator
            line, path = evaluator.line, evaluator.path
            with self._loads():
                for statement in statements:
                    if id(statement) not in self._done:
                        self._done.add(id(statement))
                        try:
                            evaluator.statement(statement, self.frame)
                        except Violation:  # whoever asks for the name again is told the same
                            self._done.discard(id(statement))
                            self._waiting[name] = statements
                            raise
            evaluator.line, evaluator.path = line, path
            self.program.freeze(self.frame.names.values())
        return self.frame.names.get(name, _MISSING)

    @contextmanager
    def _loads(self) -> Iterator[None]:
        """Names of the module may be bound meanwhile."""
        self.loading += 1
        try:
            with self.program.evaluator.load_time():
                yield
        finally:
            self.loading -= 1


class CandidateProgram:
    """The modules of a candidate: ``sources`` are its parsed files by path, ``roots`` the folders that module names begin in.

    ``own`` are the paths that the candidate wrote: they are evaluated whole, the library around them by need.
    """

    def __init__(
        self, evaluator: Evaluator, sources: Mapping[str, ast.Module], roots: Iterable[str], own: Iterable[str]
    ) -> None:
        self.evaluator = evaluator
        self._sources = sources
        self._library = Library(sources, roots)
        self._own = frozenset(own)
        self._modules: dict[str, SourceModule] = {}
        evaluator.import_module = self.imported
        evaluator.attribute_of.insert(0, self._attribute)
        evaluator.special["importlib.import_module"] = self._import_by_name

    def module(self, name: str) -> SourceModule | None:
        """The module of that dotted name, evaluated; None where the candidate has none."""
        if name in self._modules:
            return self._modules[name]
        path = self._library.path_of(name)
        if path is None:
            return None
        package = name.rpartition(".")[0]
        if package:
            self.module(package)
            if name in self._modules:
                return self._modules[name]
        if path in self._own and name.partition(".")[0] in _TAKEN:
            raise unproved(f"A module of the candidate has the name `{name}` of a library's.")
        made = SourceModule(self, name, path, self._sources[path], path not in self._own)
        self._modules[name] = made
        if path in self._own:
            try:
                made.load()
            except BaseException:
                del self._modules[name]
                raise
        return made

    @functools.cached_property
    def _defined(self) -> dict[str, list[ast.FunctionDef]]:
        functions: dict[str, list[ast.FunctionDef]] = {}
        for node in (node for tree in self._sources.values() for node in ast.walk(tree)):
            if isinstance(node, ast.FunctionDef):
                functions.setdefault(node.name, []).append(node)
        return functions

    @functools.cached_property
    def _stored(self) -> frozenset[str]:
        nodes = [node for tree in self._sources.values() for node in ast.walk(tree)]
        attributes = {n.attr for n in nodes if isinstance(n, ast.Attribute) and isinstance(n.ctx, ast.Store)}
        of_classes = [part for n in nodes if isinstance(n, ast.ClassDef) for each in n.body for part in own_nodes(each)]
        fields = {name for part in of_classes for name in binds(part)}
        return frozenset(attributes | fields)

    def definitions(self, name: str) -> list[ast.FunctionDef]:
        """The functions of that name, wherever they stand."""
        return self._defined.get(name, [])

    def is_stored(self, name: str) -> bool:
        """Whether an object of the program may have an attribute of that name, other than a method."""
        return name in self._stored

    def is_library(self) -> bool:
        """Whether the code that is evaluated stands around the candidate, and is not its own."""
        return self.evaluator.path is not None and self.evaluator.path not in self._own

    def _import_by_name(self, name: str) -> Any:
        if not self.is_library():
            raise language.unlisted("importlib.import_module")
        return self._absolute(name)

    def imported(self, frame: CallFrame, name: str, level: int) -> Any:
        """What an import statement binds.

        Raises:
            ImportError: there is no such module.
        """
        if level:
            own = frame.module.name.split(".")
            package = own if frame.module.is_package else own[:-1]
            package = package[: len(package) - (level - 1)]
            name = ".".join([*package, *([name] if name else [])])
        return self._absolute(name)

    def _absolute(self, name: str) -> Any:
        module = self.module(name)
        if module is not None:
            return module
        if self._library.is_own(name):
            return Package(self, name)
        top = name.partition(".")[0]
        if name in language.PREFIXES or top in language.REACHING or name in ("torch", "triton"):
            return Facade(name)
        if name in language.MEMBERS:
            return self.evaluator.member(name)
        if top in ("torch", "triton"):
            raise language.unlisted(name)
        raise ModuleNotFoundError(f"No module named '{name}'")

    def _attribute(self, value: Any, name: str) -> Any:
        if isinstance(value, Package):
            member = self.module(f"{value.name}.{name}")
            if member is None and not self._library.is_own(f"{value.name}.{name}"):
                raise AttributeError(f"module '{value.name}' has no attribute '{name}'")
            return member or Package(self, f"{value.name}.{name}")
        if not isinstance(value, SourceModule):
            return NotImplemented
        if name.startswith("__") and name not in value.frame.names:
            raise Violation("private name", f"It uses `{name}` of a module.")
        member = value.lookup(name)
        if member is not _MISSING:
            return member
        if value.is_package:
            inner = self.module(f"{value.name}.{name}")
            if inner is not None:
                return inner
        raise AttributeError(f"module '{value.name}' has no attribute '{name}'")

    def freeze(self, values: Iterable[Any]) -> None:
        """Mark everything that these values reach as what no call may change.

        Raises:
            Violation: one of them is memory, or an iterator, which every use changes.
        """
        frozen = self.evaluator.frozen
        waiting = list(values)
        while waiting:
            value = waiting.pop()
            if isinstance(value, torch.Tensor):
                raise Violation(
                    "memory made at import", "A tensor is made when the module is imported, and outlives every call."
                )
            if (
                isinstance(value, language.IMMUTABLE)
                or id(value) in frozen
                or getattr(value, "kind", None) is ScopeKind.module
            ):
                continue
            if hasattr(type(value), "__next__"):
                raise Violation(
                    "remembers between calls", "An iterator outlives a call, and every use of it changes it."
                )
            parts = list(_parts(value))
            if parts or isinstance(value, list | dict | set | Instance | CallFrame | Class | Function):
                frozen[id(value)] = value
            waiting += parts


class Package:
    """A folder of modules without an ``__init__`` of its own."""

    def __init__(self, program: CandidateProgram, name: str) -> None:
        self.program, self.name = program, name


def _parts(value: Any) -> Iterator[Any]:
    """What a value reaches.

    Raises:
        Violation: nobody knows.
    """
    if isinstance(value, list | tuple | set | frozenset):
        yield from value
    elif isinstance(value, dict):
        yield from value
        yield from value.values()
    elif isinstance(value, slice):
        yield from (value.start, value.stop, value.step)
    elif isinstance(value, Function):
        yield from (parameter.default for parameter in value.signature.parameters.values())
        yield value.closure
        yield value.attributes
    elif isinstance(value, CallFrame):
        if value.kind is not ScopeKind.module:
            yield from value.names.values()
            yield value.parent
    elif isinstance(value, Class):
        yield from value.bases
        yield from value.names.values()
        yield from value.defaults.values()
    elif isinstance(value, Instance):
        yield value.type
        yield from value.fields.values()
    elif isinstance(value, BoundFunction | Native | Descriptor | functools.partial):
        yield from _parts_of_function(value)
    elif isinstance(value, BaseException):
        yield from value.args
    elif type(value).__name__ == "constexpr":
        yield value.value
    elif type(value).__name__ in ("Config", "_Field", "nullcontext", "ContextCall", "Kernel", "Operator"):
        yield from vars(value).values() if type(value).__name__ != "Kernel" else [value.function, *value.holds]
    elif not isinstance(value, _SAFE) and type(value).__name__ not in _SAFE_NAMES:
        raise Violation(
            "remembers between calls", f"A {type(value).__name__} outlives a call, and may keep what is in it."
        )


def _parts_of_function(value: Any) -> Iterator[Any]:
    if isinstance(value, BoundFunction):
        yield from (value.function, value.first)
    elif isinstance(value, functools.partial):
        yield from (value.func, value.args, value.keywords)
    else:
        yield value.owner if isinstance(value, Native) else value.function


_TAKEN = {path.partition(".")[0] for path in language.MEMBERS}
_SAFE = (
    type, Facade, TypeAnnotation, SourceModule, Package, Enum, torch.dtype, torch.device, torch.finfo, torch.iinfo,
    torch.memory_format, torch.layout, types.BuiltinFunctionType,
)  # fmt: skip
_SAFE_NAMES = frozenset(
    [
        "Version",
        "GPUTarget",
        "_Silent",
        "_GradMode",
        "_Bridge",
        "dtype",
        "JITFunction",
        "InterpretedFunction",
        "ConstexprFunction",
        "_CudaDeviceProperties",
        "_XpuDeviceProperties",
    ]
)
