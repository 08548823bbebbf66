"""How a problem's CALL reaches an autograd Function of a file: which parameter holds what, and what the call fixes. Pure."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from gpu_runner.contracts import Problem
from workers.strategies.syntax import KernelFile, method_of, names_in


class UncallableError(ValueError):
    """The CALL does not reach a Function of the file in a way that can be followed; the text is a sentence."""


@dataclass(frozen=True)
class Called:
    """A CALL, bound to the Function's parameters (without ``ctx``)."""

    owner: ast.ClassDef
    forward: ast.FunctionDef
    backward: ast.FunctionDef
    parameters: tuple[str, ...]
    places: dict[str, str]  # input or scalar of the problem: the parameter that holds it
    fixed: tuple[tuple[str, ast.expr], ...]  # parameter: what the call gives it, over the parameters
    result: int | None  # which element of the returned tuple the problem speaks of

    @property
    def constants(self) -> dict[str, object]:
        """Give the parameters that are plain values in this call."""
        return {name: node.value for name, node in self.fixed if isinstance(node, ast.Constant)}


def bound_call(file: KernelFile, problem: Problem) -> Called:
    """Bind a problem's CALL.

    Raises:
        UncallableError: the call cannot be followed into this file.
    """
    if problem.call is None:
        raise UncallableError("The problem does not say how the library's kernel is called for it (CALL).")
    tree = ast.parse(problem.call, mode="eval").body
    result = None
    if isinstance(tree, ast.Subscript) and isinstance(tree.slice, ast.Constant) and isinstance(tree.slice.value, int):
        result, tree = tree.slice.value, tree.value
    owner = _owner(file, tree)
    forward, backward = method_of(owner, "forward"), method_of(owner, "backward")
    if forward is None or backward is None or not isinstance(tree, ast.Call):
        raise UncallableError(f"`{owner.name}` has no forward and backward that could be extended.")
    if forward.args.vararg or forward.args.kwarg or forward.args.kwonlyargs:
        raise UncallableError(f"`{owner.name}.forward` takes arguments that are not named one by one.")
    parameters = tuple(a.arg for a in (*forward.args.posonlyargs, *forward.args.args))[1:]
    if len(tree.args) > len(parameters):
        raise UncallableError("The CALL gives more arguments than the Function takes.")
    given = dict(zip(parameters, tree.args, strict=False))
    places = _places(given, problem)
    fixed = [(name, _over_parameters(node, places)) for name, node in given.items() if name not in places.values()]
    fixed += [(name, node) for name, node in _defaults(forward).items() if name not in given]
    return Called(owner, forward, backward, parameters, places, tuple(fixed), result)


def _owner(file: KernelFile, tree: ast.expr) -> ast.ClassDef:
    func = tree.func if isinstance(tree, ast.Call) else None
    if isinstance(func, ast.Attribute) and func.attr == "apply":
        name = ast.unparse(func.value).split(".")[-1]
        if name in file.classes:
            return file.classes[name]
    raise UncallableError("The CALL does not apply an autograd Function of this file.")


def _places(given: dict[str, ast.expr], problem: Problem) -> dict[str, str]:
    places: dict[str, str] = {}
    for parameter, node in given.items():
        if isinstance(node, ast.Name):
            if node.id in places:
                raise UncallableError(f"The CALL hands `{node.id}` over twice.")
            places[node.id] = parameter
    missing = [name for name in problem.parameters if name not in places]
    if missing:
        raise UncallableError(f"The CALL does not hand `{missing[0]}` over as it is.")
    return places


def _over_parameters(node: ast.expr, places: dict[str, str]) -> ast.expr:
    renamed = ast.parse(ast.unparse(node), mode="eval").body
    for name in ast.walk(renamed):
        if isinstance(name, ast.Name):
            name.id = places.get(name.id, name.id)
    if names_in(renamed) - set(places.values()):
        raise UncallableError(f"`{ast.unparse(node)}` in the CALL cannot be told from the Function's arguments.")
    return renamed


def _defaults(forward: ast.FunctionDef) -> dict[str, ast.expr]:
    arguments = [*forward.args.posonlyargs, *forward.args.args]
    found = {a.arg: None for a in arguments[1:]} | dict(
        zip(
            [a.arg for a in arguments[len(arguments) - len(forward.args.defaults) :]],
            forward.args.defaults,
            strict=True,
        )
    )
    return {name: node for name, node in found.items() if node is not None}
