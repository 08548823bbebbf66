"""From how a person said it to the source of a problem file. Pure."""

from __future__ import annotations

import ast

from markdown_it import MarkdownIt

from gpu_runner.contracts import Problem, ProblemError, parse_problem
from workers.contracts import Failure, FailureCode, ProblemKind, ProblemText, UserFacingError
from workers.tree import Tree

WHAT_TO_PASTE = (
    "Paste a fenced Python block under the command that imports torch alone and defines `def reference(...)`, "
    '`INPUTS = {"x": "T H"}` and `WORKLOADS = [{"T": 4096, "H": 8192}]`, or point at such a file with `from PATH`.'
)
WHAT_TO_CONFIGURE = "Or an operator configures a language model, with a key, a name and a budget (docs/models.md)."
LABELS = ("", "python", "python3", "py", "py3")  # of a fence that may hold Python


def problem_source(given: ProblemText, tree: Tree) -> str:
    """Give the source of the problem that was asked for.

    Raises:
        UserFacingError: nothing that a program can read was given, or the path is not in the repository.
    """
    if given.kind is ProblemKind.missing:
        raise refuse("nothing says what the kernel should compute", WHAT_TO_PASTE)
    if given.kind is ProblemKind.words:
        raise refuse("words need a model author, and none is configured", f"{WHAT_TO_PASTE} {WHAT_TO_CONFIGURE}")
    if given.kind is ProblemKind.path:
        return _from_path(given, tree)
    if not given.text.strip():
        raise refuse("the problem is empty", WHAT_TO_PASTE)
    return given.text


def revised_source(texts: tuple[str, ...], before: str) -> str:
    """Give the problem after a review: the last fenced Python block in its text, or what stood before."""
    for text in reversed(texts):
        fences = [token for token in MarkdownIt("commonmark").parse(text) if token.type == "fence"]
        blocks = [fence.content for fence in fences if fence.info.strip().lower() in LABELS]
        problems = [block for block in blocks if "def reference" in block or "class Model" in block]
        if problems:
            return problems[-1]
    return before


def parse(source: str) -> Problem:
    """Parse a problem, with its errors as words for a maintainer.

    Raises:
        UserFacingError: the problem cannot be used as it stands.
    """
    try:
        return parse_problem(source)
    except ProblemError as error:
        failure = Failure(FailureCode.problem, f"the problem cannot be used: {error.message}", error.cure, error.line)
        raise UserFacingError(failure) from error


def refuse(message: str, cure: str) -> UserFacingError:
    """Build the error of a problem that is not there."""
    return UserFacingError(Failure(FailureCode.problem, message, cure))


def _from_path(given: ProblemText, tree: Tree) -> str:
    path = given.path or ""
    text = tree.read(path)
    if text is None and path == "transformers" and given.symbol:
        raise refuse(
            "a component of transformers needs a model author, and none is configured",
            f"{WHAT_TO_PASTE} {WHAT_TO_CONFIGURE}",
        )
    if text is None:
        raise refuse(
            f"there is no file `{path}` at this commit", "Check the path; it is relative to the repository's root."
        )
    if given.symbol is None:
        return text
    try:
        module = ast.parse(text)
    except SyntaxError as error:
        raise refuse(f"`{path}` does not parse: {error.msg} on line {error.lineno}", "Correct the file.") from error
    except (ValueError, RecursionError, MemoryError) as error:
        raise refuse(f"`{path}` does not parse: it nests too deeply", "Paste what is to be computed.") from error
    defined = {node.name for node in module.body if isinstance(node, ast.FunctionDef | ast.ClassDef)}
    if given.symbol not in defined:
        raise refuse(f"`{path}` defines no `{given.symbol}`", f"It defines: {', '.join(sorted(defined)) or 'nothing'}.")
    if given.symbol in {"reference", "Model"}:
        return text
    message = f"`{given.symbol}` of `{path}` does not stand alone: it has no INPUTS and WORKLOADS"
    raise refuse(message, WHAT_TO_PASTE)
