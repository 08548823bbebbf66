"""Tells whether two files are the same code: comments, docstrings and formatting do not count. Pure."""

from __future__ import annotations

import ast
import hashlib

from gpu_runner.contracts.syntax import UNPARSABLE

Documented = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


def fingerprint(source: str) -> str:
    """Give the digest of a file's syntax; of its text where it is no Python."""
    try:
        tree = ast.parse(source)
        for node in ast.walk(tree):
            if isinstance(node, Documented) and ast.get_docstring(node, clean=False) is not None:
                node.body = node.body[1:]
        text = ast.dump(tree)
    except UNPARSABLE:
        text = source
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
