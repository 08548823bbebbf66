"""The problem of a kernel that stands in a repository: where it is looked for, and when it is used. Pure.

A repository says it itself in ``.kernelsmith/problems/NAME.py``, a problem file with a CALL; that comes first. Then comes the
kernel's test file, where that states the problem, and last what is known of the library.
"""

from __future__ import annotations

from collections.abc import Iterable

from gpu_runner.contracts import Problem, ProblemError, parse_problem
from workers.contracts import Failure, FailureCode, UserFacingError
from workers.layouts.calls import fits, read_call
from workers.layouts.protocol import Standing
from workers.tree import Tree

FOLDER = ".kernelsmith/problems"


def own_path(name: str) -> str:
    """Give the path of the problem file that a repository keeps for one of its kernels."""
    return f"{FOLDER}/{name}.py"


def own_problem(standing: Standing, tree: Tree) -> str | None:
    """Give the repository's own problem file, with a CALL of the kernel's Function added where it has none; None without a file.

    Raises:
        UserFacingError: it is there and cannot be used.
    """
    path, kernel = own_path(standing.name), tree.read(standing.path) or ""
    text = tree.read(path)
    if text is None:
        return None
    try:
        problem = parse_problem(text)
    except ProblemError as error:
        failure = Failure(FailureCode.problem, f"`{path}` cannot be used: {error.message}", error.cure, error.line)
        raise UserFacingError(failure) from error
    if problem.call is None and problem.form == "reference" and standing.functions:
        call = f"{standing.functions[0]}.apply({', '.join(problem.parameters)})"
        text = f'{text.rstrip()}\nCALL = "{call}"\n'
        problem = parse_problem(text)
    if not is_of(problem, kernel):
        message = f"`{path}` cannot be used: its CALL does not call what stands in `{standing.path}`"
        cure = "Give CALL the name of a Function of that file, with as many arguments as it takes."
        raise UserFacingError(Failure(FailureCode.problem, message, cure))
    return text


def first_of(texts: Iterable[str | None], kernel: str) -> str | None:
    """Give the first problem whose CALL fits the kernel's file."""
    for text in texts:
        if text is None:
            continue
        try:
            problem = parse_problem(text)
        except ProblemError:
            continue
        if is_of(problem, kernel):
            return text
    return None


def is_of(problem: Problem, kernel: str) -> bool:
    """Tell whether a problem's CALL calls what a kernel's file defines."""
    call = read_call(problem.call or "")
    return call is not None and fits(call, kernel)
