"""A port in a library's registry by operation, through which its functional API dispatches. Pure."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from workers.contracts import FileChange
from workers.layouts.liger import paths
from workers.layouts.naming import import_name
from workers.tree import Tree

DECLARED = "declare_op_locations"
REGISTERS = ("register_op", "register_impl")
LOCATIONS = f"src/{paths.PACKAGE}/functional.py"
ANNOTATED = ("Literal", "Optional", "Tuple", "Union")


@dataclass(frozen=True)
class Registration:
    """Where and as what a backend's operators are registered by operation.

    ``shared`` is the backend's module with the capability, rank and tolerances that all of them have, by these names.
    """

    folder: str
    impl: str  # such as "ascend-triton"
    suffix: str  # of the registered functions
    shared: str
    capability: str
    rank: str
    tolerances: str

    def path(self, name: str) -> str:
        """The file that registers the operator of that name."""
        return f"{self.folder}/{name}.py"

    def module(self, name: str) -> str:
        """The module of that file."""
        return import_name(self.path(name))

    def changes(self, name: str, function: str, port: str, language: str, tree: Tree) -> tuple[FileChange, ...]:
        """The registration of a port whose operator the default implementation registers; none where it is there already.

        The registered function has the parameters of the default's, and gives them to ``function`` of the module ``port`` as
        that does.
        """
        default = tree.read(f"{paths.OPS}/backends/_triton/{name}.py")
        locations = tree.read(LOCATIONS)
        if default is None or locations is None or tree.read(f"{self.folder}/{self.shared}.py") is None:
            return ()
        registered = _registered(default, name, function)
        if registered is None:
            return ()
        changes = (
            []
            if tree.exists(self.path(name))
            else [FileChange(self.path(name), self._source(*registered, port, language))]
        )
        declared = with_location(locations, name, self.module(name))
        changes += [FileChange(LOCATIONS, declared)] if declared != locations else []
        return tuple(changes)

    def _source(self, node: ast.FunctionDef, call: ast.Call, port: str, language: str) -> str:
        name = ast.literal_eval(next(d for d in node.decorator_list if isinstance(d, ast.Call)).args[0])
        function = ast.unparse(call.func).partition(".")[0]
        shared = import_name(f"{self.folder}/{self.shared}.py")
        signature = ast.unparse(node.args)
        typing = [
            known
            for known in ANNOTATED
            if known in signature or known in ast.unparse(node.returns or ast.Constant(None))
        ]
        imported = sorted((self.capability, self.rank, self.tolerances))
        return "\n".join(
            [
                f'"""{language} registration of ``{name}``."""',
                "",
                "from __future__ import annotations",
                "",
                *(f"from typing import {known}" for known in typing),
                *([""] if typing else []),
                "import torch",
                "",
                f"from {paths.PACKAGE}.backends import register_op",
                *(f"from {shared} import {known}" for known in imported),
                f"from {port} import {function}",
                "",
                "",
                "@register_op(",
                f'    "{name}",',
                f'    impl_name="{self.impl}",',
                f"    capability={self.capability},",
                '    modes=("default",),',
                '    default_mode="default",',
                f"    preference_rank={self.rank},",
                f"    tolerances={self.tolerances},",
                f'    notes="{language} {name}; preferred over the default where its device is.",',
                ")",
                f"def {name}{self.suffix}({signature}) -> {ast.unparse(node.returns) if node.returns else 'torch.Tensor'}:",
                '    if mode not in (None, "default"):',
                f"        raise ValueError(f\"{self.impl} {name} has only mode='default'; got mode={{mode!r}}.\")",
                f"    return {ast.unparse(call)}",
                "",
            ]
        )


def with_location(source: str, name: str, module: str) -> str:
    """The functional module's source with a module among those that register an operation; the same where it is there."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == DECLARED and len(node.args) == 2:
            operation, places = node.args
            if not (isinstance(operation, ast.Constant) and operation.value == name and isinstance(places, ast.Tuple)):
                continue
            known = [place.value for place in places.elts if isinstance(place, ast.Constant)]
            if module in known or not places.elts:
                return source
            last = places.elts[-1]
            lines = source.splitlines(keepends=True)
            row, column = (last.end_lineno or 1) - 1, last.end_col_offset or 0
            own_line = places.lineno != last.lineno
            added = f',\n{" " * last.col_offset}"{module}"' if own_line else f', "{module}"'
            lines[row] = lines[row][:column] + added + lines[row][column:]
            return "".join(lines)
    return source


def _registered(source: str, name: str, function: str) -> tuple[ast.FunctionDef, ast.Call] | None:
    """The function that a module registers for an operation, with its call of an autograd Function."""
    for node in ast.parse(source).body:
        decorators = node.decorator_list if isinstance(node, ast.FunctionDef) else []
        operations = [
            decorator.args[0].value
            for decorator in decorators
            if isinstance(decorator, ast.Call) and ast.unparse(decorator.func) in REGISTERS
            if decorator.args and isinstance(decorator.args[0], ast.Constant)
        ]
        if not isinstance(node, ast.FunctionDef) or operations != [name]:
            continue
        calls = [each for each in ast.walk(node) if isinstance(each, ast.Call)]
        applied = [each for each in calls if ast.unparse(each.func) == f"{function}.apply"]
        takes_mode = "mode" in [argument.arg for argument in node.args.kwonlyargs]
        if len(applied) == 1 and takes_mode:
            return node, applied[0]
    return None
