"""A kernel file as syntax: its Triton kernels, what launches them, and in which pass. Pure; nothing of it is executed."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property

from gpu_runner.contracts import Pass

MAX_SOURCE_BYTES = 1 << 20
PASS_OF_METHOD = {"forward": Pass.forward, "backward": Pass.backward}


@dataclass(frozen=True)
class Launch:
    """``kernel[grid](...)`` and the top-level function or method in which it stands."""

    kernel: str
    function: ast.FunctionDef
    call: ast.Call
    grid: ast.expr
    arguments: tuple[tuple[str, ast.expr], ...]  # by the kernel's parameters, in the order of the call
    timed_pass: Pass | None  # None: of both passes, or of none that could be found

    def argument(self, parameter: str) -> ast.expr | None:
        """Give what is handed over for a parameter; None where it is left out or comes from a dict."""
        return dict(self.arguments).get(parameter)

    @property
    def starred(self) -> tuple[ast.keyword, ...]:
        """Give the dicts that are unpacked into the call."""
        return tuple(keyword for keyword in self.call.keywords if keyword.arg is None)


@dataclass(frozen=True)
class KernelFile:
    """A parsed file."""

    source: str = field(repr=False)
    tree: ast.Module = field(repr=False)

    @cached_property
    def kernels(self) -> dict[str, ast.FunctionDef]:
        """Give the functions under ``@triton.jit``, device functions too."""
        return {node.name: node for node in self._functions() if any(_is_jit(d) for d in node.decorator_list)}

    @cached_property
    def classes(self) -> dict[str, ast.ClassDef]:
        """Give the autograd Functions."""
        found = [n for n in self.tree.body if isinstance(n, ast.ClassDef)]
        return {c.name: c for c in found if any(ast.unparse(b).split(".")[-1] == "Function" for b in c.bases)}

    @cached_property
    def functions(self) -> dict[str, ast.FunctionDef]:
        """Give the top-level functions that run on the host."""
        return {node.name: node for node in self._functions() if node.name not in self.kernels}

    @cached_property
    def passes(self) -> dict[str, frozenset[Pass]]:
        """Give the passes that reach each host function, through the methods of the autograd Functions."""
        found: dict[str, set[Pass]] = {}
        for owner in self.classes.values():
            for method_name, timed_pass in PASS_OF_METHOD.items():
                method = method_of(owner, method_name)
                if method is not None:
                    for name in self._reached(method):
                        found.setdefault(name, set()).add(timed_pass)
        return {name: frozenset(passes) for name, passes in found.items()}

    @cached_property
    def launches(self) -> tuple[Launch, ...]:
        """Give the launches of the file's own kernels, from top to bottom."""
        places = [(f, self.passes.get(f.name, frozenset())) for f in self.functions.values()]
        for owner in self.classes.values():
            for name, timed_pass in PASS_OF_METHOD.items():
                method = method_of(owner, name)
                places += [] if method is None else [(method, frozenset({timed_pass}))]
        found = [launch for function, passes in places for launch in self._launches_in(function, passes)]
        return tuple(sorted(found, key=lambda launch: launch.call.lineno))

    def segment(self, node: ast.AST) -> str:
        """Give a node's text as it stands."""
        return ast.get_source_segment(self.source, node) or ""

    def _functions(self) -> list[ast.FunctionDef]:
        return [node for node in self.tree.body if isinstance(node, ast.FunctionDef)]

    def _reached(self, start: ast.FunctionDef) -> set[str]:
        seen: set[str] = set()
        waiting = [start]
        while waiting:
            for node in ast.walk(waiting.pop()):
                if isinstance(node, ast.Name) and node.id in self.functions and node.id not in seen:
                    seen.add(node.id)
                    waiting.append(self.functions[node.id])
        return seen

    def _launches_in(self, function: ast.FunctionDef, passes: frozenset[Pass]) -> Iterator[Launch]:
        for node in ast.walk(function):
            if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Subscript)):
                continue
            if isinstance(node.func.value, ast.Name) and node.func.value.id in self.kernels:
                name = node.func.value.id
                timed_pass = next(iter(passes)) if len(passes) == 1 else None
                arguments = _bound(self.kernels[name], node)
                yield Launch(name, function, node, node.func.slice, arguments, timed_pass)


def parsed(source: str) -> KernelFile:
    """Parse a file.

    Raises:
        ValueError: it is no Python, too large, or nested too deeply.
    """
    if len(source.encode("utf-8", "replace")) > MAX_SOURCE_BYTES:
        message = f"the file is larger than {MAX_SOURCE_BYTES >> 10} KiB"
        raise ValueError(message)
    try:
        return KernelFile(source, ast.parse(source))
    except (SyntaxError, RecursionError, MemoryError) as error:
        message = f"the file cannot be parsed: {getattr(error, 'msg', None) or type(error).__name__}"
        raise ValueError(message) from error


def method_of(owner: ast.ClassDef, name: str) -> ast.FunctionDef | None:
    """Give a method of a class."""
    return next((n for n in owner.body if isinstance(n, ast.FunctionDef) and n.name == name), None)


def parameters_of(function: ast.FunctionDef) -> tuple[str, ...]:
    """Give the names of a function's parameters, in order."""
    arguments = function.args
    return tuple(a.arg for a in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs))


def constexprs_of(kernel: ast.FunctionDef) -> tuple[str, ...]:
    """Give the parameters that are compile-time constants."""
    arguments = (*kernel.args.posonlyargs, *kernel.args.args, *kernel.args.kwonlyargs)
    return tuple(a.arg for a in arguments if a.annotation is not None and "constexpr" in ast.unparse(a.annotation))


def autotune_of(kernel: ast.FunctionDef) -> ast.Call | None:
    """Give the ``@triton.autotune(...)`` of a kernel."""
    calls = [d for d in kernel.decorator_list if isinstance(d, ast.Call)]
    return next((d for d in calls if ast.unparse(d.func).split(".")[-1] in ("autotune", "heuristics")), None)


def names_in(node: ast.AST) -> frozenset[str]:
    """Give the names that an expression or statement mentions."""
    return frozenset(n.id for n in ast.walk(node) if isinstance(n, ast.Name))


def called(node: ast.AST) -> str:
    """Give the dotted name that a call calls; empty where the node is no such call."""
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name | ast.Attribute):
        return ""
    return ast.unparse(node.func)


def _is_jit(decorator: ast.expr) -> bool:
    target = decorator.func if isinstance(decorator, ast.Call) else decorator
    return ast.unparse(target) in ("triton.jit", "jit")


def _bound(kernel: ast.FunctionDef, call: ast.Call) -> tuple[tuple[str, ast.expr], ...]:
    found: list[tuple[str, ast.expr]] = []
    if not any(isinstance(a, ast.Starred) for a in call.args):
        found += zip(parameters_of(kernel), call.args, strict=False)
    found += [(k.arg, k.value) for k in call.keywords if k.arg is not None]
    return tuple(found)
