"""Code that a wish names: a symbol with what it uses of its file, its repository or an installed transformers; pure text."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.machinery import PathFinder
from pathlib import Path, PurePosixPath

from gpu_runner.contracts.reading import UNPARSABLE
from workers.authors.llm.protocol import Example

Read = Callable[[str], str | None]  # a path's text, None where there is none
Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Assign | ast.AnnAssign
MOST_IMPORTED = 6
ROOTS = ("", "src/")
WHY = "the code imports it"


@dataclass(frozen=True)
class Code:
    """A piece of a file. ``imports`` are the names that it uses from elsewhere: module, level of a relative import, name."""

    text: str
    imports: tuple[tuple[str, int, str], ...]


def defined_names(text: str) -> tuple[str, ...]:
    """The functions and classes that a file defines, sorted.

    Raises:
        SyntaxError: it is no Python.
    """
    body = ast.parse(text).body
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    return tuple(sorted(node.name for node in body if isinstance(node, kinds)))


def piece(text: str, symbol: str) -> Code | None:
    """A symbol with the imports, functions, classes and constants of its file that it uses, in their order.

    Raises:
        SyntaxError: the file is no Python.
    """
    body = ast.parse(text).body
    places = {name: index for index, node in enumerate(body) for name in _defines(node)}
    if symbol not in places:
        return None
    wanted, waiting = set[int](), [places[symbol]]
    while waiting:
        index = waiting.pop()
        if index in wanted:
            continue
        wanted.add(index)
        waiting += [places[name] for name in _names(body[index]) if name in places]
    kept = [body[index] for index in sorted(wanted)]
    used = {name for node in kept for name in _names(node)}
    imported = [node for node in body if isinstance(node, ast.Import | ast.ImportFrom) and _bound(node) & used]
    lines = [ast.get_source_segment(text, node) or "" for node in imported]
    parts = [_segment(text, node) for node in kept]
    return Code("\n\n\n".join(["\n".join(lines), *parts] if lines else parts) + "\n", _from(imported, used))


def imported_code(code: Code, path: str, read: Read) -> tuple[Example, ...]:
    """What a piece imports from files that can be read, each as a piece of its own."""
    examples: dict[tuple[str, str], Example] = {}
    for module, level, name in code.imports:
        for candidate in _paths(module, level, path):
            text = read(candidate)
            if text is None or (candidate, name) in examples or len(examples) >= MOST_IMPORTED:
                continue
            try:
                example = piece(text, name)
            except UNPARSABLE:
                example = None
            if example is not None:
                examples[candidate, name] = Example(candidate, example.text, WHY)
                break
    return tuple(examples.values())


def _paths(module: str, level: int, path: str) -> Iterator[str]:
    parts = "/".join(part for part in module.split(".") if part)
    if level:
        folder = PurePosixPath(path).parent
        for _ in range(level - 1):
            folder = folder.parent
        roots: tuple[str, ...] = ("" if str(folder) == "." else f"{folder}/",)
    else:
        roots = ROOTS
    for root in roots:
        place = f"{root}{parts}".rstrip("/")
        yield f"{place}.py"
        yield f"{place}/__init__.py"


def _from(imported: list[ast.Import | ast.ImportFrom], used: set[str]) -> tuple[tuple[str, int, str], ...]:
    return tuple(
        (node.module or "", node.level, alias.name)
        for node in imported
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
        if (alias.asname or alias.name) in used
    )


def _bound(node: ast.Import | ast.ImportFrom) -> set[str]:
    return {(alias.asname or alias.name).partition(".")[0] for alias in node.names}


def _defines(node: ast.stmt) -> set[str]:
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return {node.name}
    targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
    return {target.id for target in targets if isinstance(target, ast.Name)}


def _names(node: ast.AST) -> set[str]:
    return {inner.id for inner in ast.walk(node) if isinstance(inner, ast.Name)}


def _segment(text: str, node: ast.stmt) -> str:
    decorators = getattr(node, "decorator_list", [])
    first = min([node.lineno, *(decorator.lineno for decorator in decorators)])
    return "\n".join(text.splitlines()[first - 1 : node.end_lineno])


PACKAGE = "transformers"
MOST_BYTES = 2 * 2**20


def installed_reader() -> Read | None:
    """What reads files of the installed package by their path below its parent folder, None where it is not installed."""
    spec = PathFinder.find_spec(PACKAGE)
    places = None if spec is None else spec.submodule_search_locations
    if not places:
        return None
    root = Path(next(iter(places))).resolve().parent

    def read(path: str) -> str | None:
        place = (root / path).resolve()
        inside = place.is_relative_to(root / PACKAGE)
        if not inside or not place.is_file() or place.stat().st_size > MOST_BYTES:
            return None
        return place.read_text(encoding="utf-8", errors="replace")

    return read


def place_of(symbol: str, read: Read) -> tuple[str, str] | None:
    """The file and the class of ``MODULE.Class``, such as ``llama.LlamaRMSNorm``; None where there is none."""
    *parts, name = symbol.split(".")
    if not parts:
        return None
    short = [f"models/{parts[0]}/modeling_{parts[0]}"] if len(parts) == 1 else []
    for place in ["/".join(parts), *short]:
        for ending in (".py", "/__init__.py"):
            path = f"{PACKAGE}/{place}{ending}"
            if read(path) is not None:
                return path, name
    return None
