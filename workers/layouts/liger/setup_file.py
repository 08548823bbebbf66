"""An extra of a library as its setup.py lists it. Pure: the file is parsed, never run."""

from __future__ import annotations

import ast

from gpu_runner.contracts.syntax import UNPARSABLE


def extra_in_setup(source: str, extra: str) -> tuple[str, ...]:
    """The requirements of the first dictionary that has the extra for a key: a list of texts, or the name of one."""
    try:
        nodes = list(ast.walk(ast.parse(source)))
    except UNPARSABLE:
        return ()
    lists = {
        node.targets[0].id: node.value
        for node in nodes
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and isinstance(node.value, ast.List)
    }
    for node in nodes:
        for key, value in zip(node.keys, node.values, strict=True) if isinstance(node, ast.Dict) else ():
            if isinstance(key, ast.Constant) and key.value == extra:
                listed = lists.get(value.id) if isinstance(value, ast.Name) else value
                items = listed.elts if isinstance(listed, ast.List) else []
                return tuple(i.value for i in items if isinstance(i, ast.Constant) and isinstance(i.value, str))
    return ()
