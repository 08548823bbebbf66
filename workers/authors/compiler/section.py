"""A source that is to stand in a file that exists: every name of it with a prefix, and how its functions are called. Pure."""

from __future__ import annotations

import ast
import re

from workers.authors.compiler.design import Design
from workers.authors.protocol import Signature, SourceStyle


def prefixed(source: str, style: SourceStyle) -> str:
    """Let every top-level name begin with the style's prefix; the two functions keep the names that the style gives them."""
    own = [name for name in _top_level(source) if name not in {style.forward_function, style.backward_function}]
    table = {name: _joined(style.prefix, name.lstrip("_")) for name in own if not name.startswith(style.prefix)}
    if not table:
        return source
    names = "|".join(sorted(map(re.escape, table), key=len, reverse=True))
    return re.sub(rf"(?<![\w.])(?:{names})(?!\w)", lambda match: table[match.group()], source)


def _joined(prefix: str, name: str) -> str:
    """Put the prefix before a name; what the one ends with and the other begins with stands once."""
    shared = max(i for i in range(len(name)) if i == 0 or (name[i - 1] == "_" and prefix.endswith(f"_{name[:i]}")))
    return prefix + name[shared:]


def _top_level(source: str) -> list[str]:
    names = []
    for node in ast.parse(source).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.append(node.name)
        elif isinstance(node, ast.Assign):
            names += [target.id for target in node.targets if isinstance(target, ast.Name)]
    return names


def signature_of(design: Design, backward_arguments: list[str], gradients: list[str]) -> Signature:
    """Give how the two functions are called; inputs and scalars by the problem's own names."""
    names, program = design.names, design.program
    own = {text: name for name, text in names.scalars.items()}
    own |= {names.tensors[spec.name]: spec.name for spec in program.problem.inputs}
    return Signature(
        forward_arguments=program.problem.parameters,
        outputs=names.outputs,
        saved=tuple(names.tensors[key] for key, _ in program.saved),
        backward_arguments=tuple(own.get(text, text) for text in backward_arguments),
        upstream=tuple(names.tensors[node] if node is not None else "" for node in program.graph.upstream),
        gradients=tuple(gradients),
    )
