"""Whether a reference counts dimensions from the end, so that more leading ones change nothing. Pure.

What is not known to do so is taken to count from the front.
"""

from __future__ import annotations

import ast

# Functions whose dimension must be written, by the position of that argument when called as a function of torch.
DIMENSION_AT = {
    **dict.fromkeys(
        ("sum", "mean", "amax", "amin", "max", "min", "var", "std", "var_mean", "softmax", "log_softmax"), 1
    ),
    **dict.fromkeys(("softmin", "logsumexp", "unsqueeze", "size", "cat", "concat", "concatenate"), 1),
    **dict.fromkeys(("norm", "normalize", "vector_norm", "cosine_similarity", "chunk", "split", "tensor_split"), 2),
}
# Without a dimension these run over all elements; the others run over one that a rule of theirs picks.
OVER_ALL = frozenset({"sum", "mean", "amax", "amin", "max", "min", "var", "std", "var_mean", "norm", "vector_norm"})
FROM_THE_FRONT = frozenset(
    {
        "view",
        "reshape",
        "squeeze",
        "permute",
        "transpose",
        "movedim",
        "expand",
        "flatten",
        "unflatten",
        "T",
        "mT",
        "narrow",
    }
    | {"select", "unbind", "stack", "flip", "roll", "cumsum", "dim", "ndim", "stride", "numel", "repeat", "tile"}
    | {"batch_norm", "group_norm", "instance_norm", "local_response_norm", "cross_entropy", "nll_loss"}
)
MODULES = frozenset({"torch", "F", "functional", "nn", "special", "linalg"})


def counts_from_the_end(source: str, shared: frozenset[str]) -> bool:
    """Tell whether a problem's functions name no dimension from the front; ``shared`` are inputs without the leading one."""
    tree = ast.parse(source)
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    nodes = [node for function in functions for statement in function.body for node in ast.walk(statement)]
    accounted = {id(part) for node in nodes for part in _accounted(node, shared)}
    return all(id(node) in accounted or _is_harmless(node) for node in nodes)


def _accounted(node: ast.AST, shared: frozenset[str]) -> list[ast.AST]:
    """Give the parts that what is around them makes harmless."""
    if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Attribute) and node.value.attr == "shape":
        return [node, node.value] if _is_from_end(node.slice) else []
    if isinstance(node, ast.Subscript):
        return [node] if _is_trailing_index(node.slice) or _name(node.value) in shared else []
    if isinstance(node, ast.Attribute) and node.attr == "shape":
        return [node] if _name(node.value) in shared else []
    return []


def _is_harmless(node: ast.AST) -> bool:
    if isinstance(node, ast.Subscript):
        return False
    if isinstance(node, ast.Attribute):
        return node.attr != "shape" and node.attr not in FROM_THE_FRONT
    return not isinstance(node, ast.Call) or _call_is_harmless(node)


def _call_is_harmless(call: ast.Call) -> bool:
    name = _name(call.func)
    reduction = next((k.value for k in call.keywords if k.arg == "reduction"), None)
    if isinstance(reduction, ast.Constant) and reduction.value == "batchmean":
        return False
    if name not in DIMENSION_AT:
        return name not in FROM_THE_FRONT
    method = not (isinstance(call.func, ast.Attribute) and _name(call.func.value) in MODULES)
    place = DIMENSION_AT[name] - method
    named = [k.value for k in call.keywords if k.arg in {"dim", "axis", "dims"}]
    given = named or call.args[place : place + 1]
    return _is_from_end(given[0]) if given else name in OVER_ALL


def _is_from_end(node: ast.expr) -> bool:
    """Tell whether an index, a slice or a tuple of them is made of negative numbers."""
    if isinstance(node, ast.Tuple | ast.List):
        return all(_is_from_end(item) for item in node.elts)
    if isinstance(node, ast.Slice):
        return node.lower is not None and all(_is_from_end(n) for n in (node.lower, node.upper) if n is not None)
    return isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub) and isinstance(node.operand, ast.Constant)


def _is_trailing_index(index: ast.expr) -> bool:
    """``x[..., :half]`` takes of the last dimension only."""
    return isinstance(index, ast.Tuple) and isinstance(index.elts[0], ast.Constant) and index.elts[0].value is Ellipsis


def _name(node: ast.expr) -> str | None:
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else None
