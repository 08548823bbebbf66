"""What a Liger library exports, and the edits that make it export one kernel more. Pure."""

from __future__ import annotations

import ast

from gpu_runner.contracts import SourceError, read_source
from gpu_runner.contracts.syntax import UNPARSABLE
from workers.contracts import Failure, FailureCode, FileChange, UserFacingError
from workers.layouts.dimensions import axes_of
from workers.layouts.edits import with_function, with_listed_name
from workers.layouts.imports import Import, read_imports, with_import
from workers.layouts.liger.paths import FUNCTIONAL, MODULE_EXPORTS, OPS_EXPORTS, PACKAGE
from workers.layouts.module_form import module_form
from workers.layouts.protocol import Design
from workers.tree import Tree

UNUSED_IMPORT = "  # noqa: F401"


def exported(tree: Tree) -> dict[str, str]:
    """Give every public name of the three exporting files, with the file that has it."""
    found: dict[str, str] = {}
    for path in (OPS_EXPORTS, MODULE_EXPORTS, FUNCTIONAL):
        source = tree.read(path) or ""
        for statement in read_imports(source):
            found.setdefault(statement.imported.bound, path)
        for name in _defined(source):
            found.setdefault(name, path)
    return found


def function_module(name: str, tree: Tree) -> str:
    """Give the module that the autograd function is imported from: the package, or the kernel's own if the package exports none."""
    return f"{PACKAGE}.ops" if _exports_ops(tree) else f"{PACKAGE}.ops.{name}"


def export_changes(design: Design, tree: Tree, line_length: int = 120) -> tuple[FileChange, ...]:
    """Give the changed exporting files.

    Raises:
        UserFacingError: a file is missing or has no import to stand beside.
    """
    names = design.names
    function, module, functional = names.function or "", names.module or "", names.functional or ""
    changes: list[FileChange] = []
    if _exports_ops(tree):
        text = _source(tree, OPS_EXPORTS)
        for name in _public_names(design):
            text = _import(text, Import(f"{PACKAGE}.ops.{design.name}", name), OPS_EXPORTS, line_length)
        changes.append(FileChange(OPS_EXPORTS, text))
    text = _source(tree, MODULE_EXPORTS)
    text = _import(text, Import(f"{PACKAGE}.transformers.{design.name}", module), MODULE_EXPORTS, line_length)
    changes.append(FileChange(MODULE_EXPORTS, with_listed_name(text, module)))
    text = _import(
        _source(tree, FUNCTIONAL), Import(function_module(design.name, tree), function), FUNCTIONAL, line_length
    )
    form = module_form(design.problem, axes_of(design.problem))
    changes.append(
        FileChange(FUNCTIONAL, with_function(text, functional, form.function_source(functional, f"{function}.apply")))
    )
    return tuple(changes)


def _public_names(design: Design) -> tuple[str, ...]:
    wanted = {design.names.function, f"{design.name}_forward", f"{design.name}_backward"}
    return tuple(sorted(name for name in _defined(design.source or "") if name in wanted))


def _import(source: str, new: Import, path: str, width: int) -> str:
    comment = UNUSED_IMPORT if path.endswith("__init__.py") and UNUSED_IMPORT.strip() in source else ""
    try:
        return with_import(source, new, comment, width)
    except ValueError as error:
        raise _unlike(path, f"it has no import from `{PACKAGE}` to stand beside") from error


def _source(tree: Tree, path: str) -> str:
    source = tree.read(path)
    if source is None:
        raise _unlike(path, "it is missing or no text")
    try:
        read_source(source)
    except SourceError as error:
        raise _unlike(path, str(error)) from error
    return source


def _unlike(path: str, why: str) -> UserFacingError:
    cure = "Give `--layout plain`, or bring the file back into the form of a Liger library."
    return UserFacingError(Failure(FailureCode.layout, f"`{path}` cannot be extended: {why}", cure))


def _exports_ops(tree: Tree) -> bool:
    source = tree.read(OPS_EXPORTS) or ""
    return any(s.imported.module.startswith(f"{PACKAGE}.ops.") for s in read_imports(source))


def _defined(source: str) -> set[str]:
    try:
        body = ast.parse(source).body
    except UNPARSABLE:
        return set()
    return {
        node.name for node in body if isinstance(node, ast.FunctionDef | ast.ClassDef) and not node.name.startswith("_")
    }
