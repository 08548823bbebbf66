"""What a kernel's test file needs of the host that runs it: the modules that it imports, and the library's dev extra. Pure."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import PurePosixPath

from workers.layouts.imports import Import, read_imports
from workers.toml import read_toml, table_in
from workers.tree import Tree


@dataclass(frozen=True)
class Needs:
    """``modules`` are to be imported with ``roots`` on ``sys.path``; ``dev`` are requirements as pip reads them."""

    modules: tuple[str, ...]
    roots: tuple[str, ...]
    dev: tuple[str, ...]


def needed_modules(suite: str, imports: Iterable[Import], tree: Tree, roots: tuple[str, ...]) -> tuple[str, ...]:
    """The modules that a test file and the conftest files above it import at their top level.

    Left out are those of Python itself, and those of the library that are not in ``tree``: a kernel that is yet to be written.
    """
    above = (f"{folder}/conftest.py".removeprefix("./") for folder in PurePosixPath(suite).parents)
    found = [*imports, *(one.imported for path in above for one in read_imports(tree.read(path) or ""))]
    modules = dict.fromkeys(["pytest", *(one.module for one in found)])
    return tuple(module for module in modules if _is_needed(module, tree, roots))


def is_own(module: str, tree: Tree, roots: tuple[str, ...]) -> bool:
    """Whether a module belongs to the repository, by its first name."""
    return _is_there(module.partition(".")[0], tree, roots)


def _is_needed(module: str, tree: Tree, roots: tuple[str, ...]) -> bool:
    if module.startswith("."):
        return False
    if is_own(module, tree, roots):
        return _is_there(module, tree, roots)
    return module.partition(".")[0] not in sys.stdlib_module_names


def _is_there(module: str, tree: Tree, roots: tuple[str, ...]) -> bool:
    inner = module.replace(".", "/")
    places = [inner if root == "." else f"{root}/{inner}" for root in roots]
    return any(tree.exists(f"{place}.py") or tree.paths(f"{place}/", ".py") for place in places)


def dev_extra(tree: Tree) -> tuple[str, ...]:
    """The dev extra as pyproject.toml lists it; empty where it is not there."""
    listed = table_in(read_toml(tree.read("pyproject.toml") or ""), "project", "optional-dependencies").get("dev")
    return tuple(text for text in listed if isinstance(text, str)) if isinstance(listed, list) else ()
