"""Breaks lines that a change made too long, as a formatter breaks them. Pure."""

from __future__ import annotations

import ast

from workers.strategies.patches import Patches, indent_of, rendered_call
from workers.strategies.rewriting import WIDTH
from workers.strategies.syntax import KernelFile, parsed


class KeptError(ValueError):
    """A kernel is left as it is; the text says why, a sentence without its full stop."""


def fitted(source: str, before: str) -> str:
    """Give a source whose lines that are not in ``before`` are at most as long as a formatter leaves them.

    Raises:
        KeptError: such a line is no call and no header of a function, or a comment stands in it.
    """
    known = {text for line in before.split("\n") for text in (line, line.strip())}
    for _ in range(source.count("\n") + 1):
        file = parsed(source)
        long = [
            number
            for number, line in enumerate(source.split("\n"), 1)
            if len(line) > WIDTH and not (line.lstrip().startswith("#") or _stood(line, known))
        ]
        if not long:
            return source
        source = _broken(file, long[0])
    raise KeptError("a line became too long to be broken")


def _stood(line: str, known: set[str]) -> bool:
    """A line that was too long already where it stood is left to whoever wrote it, unless it was moved inwards."""
    return line in known or (line.strip() in known and len(line.strip()) + 4 > WIDTH)


def _broken(file: KernelFile, number: int) -> str:
    statements = [n for n in ast.walk(file.tree) if isinstance(n, ast.stmt) and _head_holds(n, number)]
    if not statements:
        raise KeptError(f"line {number} became too long to be broken")
    node = max(statements, key=lambda n: (n.lineno, n.col_offset))
    patches = Patches(file.source)
    indent = indent_of(file.source, node.lineno)
    if isinstance(node, ast.FunctionDef):
        first, last = node.args.args[0], node.args.defaults[-1] if node.args.defaults else node.args.args[-1]
        body = rendered_call("", _parameters(file, node), indent, width=0)
        patches.replace_span(first, last, body[1:-1] if first.lineno == node.lineno else body[1:-1].strip())
        return _changed(file, patches)
    value = node.value if isinstance(node, ast.Assign | ast.AugAssign | ast.Expr | ast.Return) else None
    call, tail = value, ""
    if isinstance(value, ast.Subscript):
        call, tail = value.value, f"[{file.segment(value.slice)}]"
    if not isinstance(call, ast.Call) or value is None or "#" in file.segment(value):
        raise KeptError(f"line {number} became too long to be broken")
    line = file.source.split("\n")[node.lineno - 1]
    if tail and value.lineno == value.end_lineno and len(line) - len(tail) + 1 <= WIDTH:
        patches.replace(value, f"{file.segment(call)}[\n{indent}    {tail[1:-1]}\n{indent}]")
        return _changed(file, patches)
    arguments = [file.segment(a) for a in call.args]
    arguments += [f"{k.arg}={file.segment(k.value)}" if k.arg else f"**{file.segment(k.value)}" for k in call.keywords]
    patches.replace(value, rendered_call(file.segment(call.func), arguments, indent, tail, width=0))
    return _changed(file, patches)


def _changed(file: KernelFile, patches: Patches) -> str:
    changed = patches.result()
    if changed == file.source:
        raise KeptError("a line became too long to be broken")
    return changed


def _head_holds(node: ast.stmt, number: int) -> bool:
    """A compound statement's own text ends before its body."""
    body = getattr(node, "body", None)
    end = (node.end_lineno or node.lineno) if not body else body[0].lineno - 1
    return node.lineno <= number <= max(end, node.lineno)


def _parameters(file: KernelFile, function: ast.FunctionDef) -> list[str]:
    arguments = function.args.args
    defaults = [None] * (len(arguments) - len(function.args.defaults)) + list(function.args.defaults)
    texts = []
    for argument, default in zip(arguments, defaults, strict=True):
        equals = " = " if argument.annotation else "="
        texts.append(file.segment(argument) + (f"{equals}{file.segment(default)}" if default else ""))
    return texts
