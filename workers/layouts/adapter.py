"""The file that gives a standing kernel the signature of its problem's reference, so that the runner can judge it. Pure."""

from __future__ import annotations

import ast
from collections.abc import Collection

from gpu_runner.contracts import CandidateSource, Problem, SourceFile
from workers.contracts import Failure, FailureCode, FileChange, UserFacingError
from workers.layouts.calls import Call, read_call

# It has a folder of its own that stands first on the path, so that no file of the repository can take its place.
FOLDER = ".kernelsmith/form"
MODULE = "kernelsmith_form"
PATH = f"{FOLDER}/{MODULE}.py"
SYMBOL = "candidate"


def kernel_form(
    problem: Problem, module: str, roots: tuple[str, ...], changes: tuple[FileChange, ...], tree_file: str
) -> CandidateSource:
    """Give a standing kernel, with changes laid over its repository, as its problem's CALL calls it.

    Raises:
        UserFacingError: the problem has no CALL that can be used.
    """
    files = tuple(SourceFile(c.path, c.text) for c in changes if c.text is not None and c.path != PATH)
    return CandidateSource(
        files=(*files, SourceFile(PATH, adapter_source(problem, module))),
        module=MODULE,
        symbol=SYMBOL,
        tree=tree_file,
        import_roots=(FOLDER, *roots),
        screened=(*(file.path for file in files if file.path.endswith(".py")), PATH),
    )


def adapter_source(problem: Problem, module: str) -> str:
    """Give the adapter's source. It is built from what was parsed, so that nothing of CALL's text can leave its expression.

    Raises:
        UserFacingError: the problem has no CALL that can be used.
    """
    call, arguments = call_of(problem), _signature(problem)
    names = {node.id for argument in call.arguments for node in ast.walk(argument) if isinstance(node, ast.Name)}
    if not names <= set(problem.parameters):
        raise _unusable("it uses names that `reference` does not take")
    alias = _free("standing_kernel", {*problem.parameters, SYMBOL})
    imported = f"from {module} import {call.symbol} as {alias}"
    return f"{imported}\n\n\ndef {SYMBOL}({arguments}):\n    return {call.source(alias)}\n"


def call_of(problem: Problem) -> Call:
    """Give the CALL of a problem.

    Raises:
        UserFacingError: there is none, or it is not of a form that is taken.
    """
    if problem.call is None:
        raise _unusable("it says nowhere how the library's kernel is called")
    call = read_call(problem.call)
    if call is None:
        raise _unusable("its CALL is more than one call with plain arguments")
    return call


def _signature(problem: Problem) -> str:
    functions = [n for n in ast.parse(problem.source).body if isinstance(n, ast.FunctionDef) and n.name == "reference"]
    if not functions:
        raise _unusable("it has no `reference`")
    arguments = functions[-1].args
    for argument in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs):
        argument.annotation = None
    return ast.unparse(arguments)


def _free(name: str, taken: Collection[str]) -> str:
    while name in taken:
        name += "_"
    return name


def _unusable(why: str) -> UserFacingError:
    cure = 'Write the call into the problem, such as CALL = "LigerFooFunction.apply(x, w, eps)".'
    return UserFacingError(
        Failure(FailureCode.problem, f"the problem cannot be used for a standing kernel: {why}", cure)
    )
