"""What the rest of a package takes of one of its modules: the names that it imports, and how it calls them. Pure."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from gpu_runner.contracts.reading import UNPARSABLE
from workers.tree import Tree

APPLY = "apply"
_WHY = ("it has not", "takes or returns something else there")


@dataclass(frozen=True)
class CallShape:
    """A call, as far as a callee's parameters and results must fit it."""

    positional: int
    keywords: tuple[str, ...]
    unpacked: int | None  # into so many names; None where the result is taken as one value
    applied: bool  # of the autograd Function's ``apply``

    def fits(self, function: ast.FunctionDef, bound: int = 0) -> bool:
        """Whether a function takes the call, and returns what it unpacks; ``bound`` parameters are filled in."""
        names = [one.arg for one in (*function.args.posonlyargs, *function.args.args)][bound:]
        given = {*names[: self.positional], *self.keywords}
        required = names[: len(names) - len(function.args.defaults)]
        return (
            self.positional <= len(names)
            and set(self.keywords) <= set(names[self.positional :])
            and set(required) <= given
            and (self.unpacked is None or set(_lengths(function)) <= {self.unpacked})
        )


@dataclass(frozen=True)
class ImportedName:
    """A name that a file imports of a module, with its calls there."""

    name: str
    path: str
    calls: tuple[CallShape, ...] = ()


def uses(tree: Tree, package: str, module: str) -> tuple[ImportedName, ...]:
    """What the files below ``package`` import of ``module``; those that only pass it on are in it without a call."""
    path = f"src/{module.replace('.', '/')}.py"
    found = list[ImportedName]()
    for file in tree.paths(f"{package}/", ".py"):
        text = tree.read(file) or ""
        if file != path and module.rpartition(".")[2] in text:
            found += _uses(text, file, module)
    return tuple(found)


def unkept(source: str, used: Iterable[ImportedName]) -> tuple[str, ...]:
    """What of the uses a module does not serve, a sentence each."""
    body = ast.parse(source).body
    defined = {node.name: node for node in body if isinstance(node, ast.FunctionDef | ast.ClassDef)}
    return tuple(
        f"`{use.path}` imports `{use.name}` of it, which {_WHY[use.name in defined]}"
        for use in used
        if not _serves(defined.get(use.name), use)
    )


def _serves(node: ast.FunctionDef | ast.ClassDef | None, use: ImportedName) -> bool:
    if node is None or any(call.applied != isinstance(node, ast.ClassDef) for call in use.calls):
        return False
    if isinstance(node, ast.FunctionDef):
        return all(call.fits(node) for call in use.calls)
    methods = {method.name: method for method in node.body if isinstance(method, ast.FunctionDef)}
    return "forward" in methods and all(call.fits(methods["forward"], bound=1) for call in use.calls)


def _uses(text: str, file: str, module: str) -> Iterator[ImportedName]:
    try:
        tree = ast.parse(text)
    except UNPARSABLE:
        return
    folder = file.removeprefix("src/").removesuffix("/__init__.py").removesuffix(".py").split("/")
    if not file.endswith("/__init__.py"):
        folder = folder[:-1]
    nodes = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    for node in nodes:
        base = folder[: len(folder) - node.level + 1] if node.level else []
        if ".".join([*base, *filter(None, [node.module])]) == module:
            for alias in node.names:
                yield ImportedName(alias.name, file, tuple(_calls(tree, alias.asname or alias.name)))


def _calls(tree: ast.Module, name: str) -> Iterator[CallShape]:
    unpacked = {
        id(node.value): len(node.targets[0].elts)
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Tuple)
    }
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call) or any(isinstance(argument, ast.Starred) for argument in node.args):
            continue
        applied = isinstance(node.func, ast.Attribute) and node.func.attr == APPLY
        called = node.func.value if isinstance(node.func, ast.Attribute) and applied else node.func
        if isinstance(called, ast.Name) and called.id == name:
            keywords = tuple(keyword.arg for keyword in node.keywords if keyword.arg is not None)
            yield CallShape(len(node.args), keywords, unpacked.get(id(node)), applied)


def _lengths(function: ast.FunctionDef) -> Iterator[int]:
    """How many values each return of a function gives, where that is to be seen."""
    for node in ast.walk(function):
        if isinstance(node, ast.Return) and isinstance(node.value, ast.Tuple):
            yield len(node.value.elts)
        elif isinstance(node, ast.Return) and not isinstance(node.value, ast.Call | ast.Starred):
            yield 1
