"""The length of a row becomes a compile-time constant, so that masks and divisions by it are known. Pure."""

from __future__ import annotations

import ast

from workers.strategies.patches import Patches
from workers.strategies.pointers import size_parameter
from workers.strategies.rewriting import Change, Rewriting
from workers.strategies.syntax import KernelFile, constexprs_of


def with_constant_sizes(file: KernelFile) -> Change | None:
    """Give a file whose kernels take the length of a row as a constant; a kernel is then compiled once a length."""
    patches, places = Patches(file.source), []
    launched = {launch.kernel for launch in file.launches}
    for name, kernel in file.kernels.items():
        size = size_parameter(kernel)
        if name not in launched or size is None or size in constexprs_of(kernel) or not _stays_a_number(kernel, size):
            continue
        for argument in (*kernel.args.posonlyargs, *kernel.args.args):
            if argument.arg == size and argument.annotation is None and _fits(file, argument):
                patches.replace(argument, f"{size}: tl.constexpr")
                places.append(f"`{size}` of `{name}`")
    return Change(patches.result(), tuple(places)) if places else None


def _stays_a_number(kernel: ast.FunctionDef, size: str) -> bool:
    """A constant has no ``.to()``, and cannot be assigned to."""
    for node in ast.walk(kernel):
        if isinstance(node, ast.Name) and node.id == size and isinstance(node.ctx, ast.Store):
            return False
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == size:
            return False
    return True


def _fits(file: KernelFile, argument: ast.arg) -> bool:
    return len(file.source.split("\n")[argument.lineno - 1]) + len(": tl.constexpr") <= 120


CONSTANT_SIZES = Rewriting(
    "constant_sizes",
    "Row lengths as constants",
    "constant_sizes.md",
    with_constant_sizes,
    "With the length of a row known to the compiler, masks of whole blocks and divisions by it fall away.",
    "The length of a row is a compile-time constant",
    "Every launched kernel knows the length of its rows already, or computes with it as a tensor.",
    1.08,
)
