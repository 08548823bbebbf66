"""The CALL of a problem: how a library's kernel is called for it, read without running it. Pure."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import Any

from gpu_runner.contracts.syntax import UNPARSABLE

RAISES = "raises"  # label of what says that a double backward raises, as it may

CALL_CURE = (
    'Write one call over the reference\'s parameters as text, such as CALL = "LigerFooFunction.apply(x, w, eps)".'
)
PLAIN = (ast.Call, ast.Attribute, ast.Name, ast.Constant, ast.Subscript, ast.UnaryOp, ast.USub, ast.expr_context)


def checked_call(text: Any, parameters: Sequence[str]) -> str:
    """Give the text of a CALL that is one call with plain arguments in their order, perhaps with one item of its result taken.

    Raises:
        ValueError: it is anything else, or uses a name that is no parameter of the reference.
    """
    try:
        tree = ast.parse(text, mode="eval").body if isinstance(text, str) else None
    except UNPARSABLE as error:
        raise ValueError("CALL is not an expression") from error
    call = tree.value if isinstance(tree, ast.Subscript) and isinstance(tree.slice, ast.Constant) else tree
    if not isinstance(call, ast.Call) or call.keywords or not all(isinstance(node, PLAIN) for node in ast.walk(call)):
        raise ValueError("CALL is not one call with plain arguments in their order")
    named = {node.id for argument in call.args for node in ast.walk(argument) if isinstance(node, ast.Name)}
    for name in sorted(named - set(parameters)):
        raise ValueError(f"CALL uses `{name}`, which `reference` does not take")
    return str(text)
