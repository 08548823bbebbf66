"""What a kernel is to compute: from what a person wrote to a problem file, or to the wish that a model makes one of."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from markdown_it import MarkdownIt

from gpu_runner.contracts import Problem, ProblemError, parse_problem
from gpu_runner.contracts.reading import UNPARSABLE
from workers.authors.llm.protocol import Example
from workers.contracts import Failure, FailureCode, ProblemKind, ProblemText, UserFacingError
from workers.layouts.protocol import Layout
from workers.stages.code_source import PACKAGE, Read, defined_names, imported_code, installed_reader, piece, place_of
from workers.tree import Tree

WHAT_TO_PASTE = (
    "Paste a fenced Python block under the command that imports torch alone and defines `def reference(...)`, "
    '`INPUTS = {"x": "T H"}` and `WORKLOADS = [{"T": 4096, "H": 8192}]`, or point at such a file with `from PATH`.'
)
WHAT_TO_CONFIGURE = "Or an operator configures a language model, with a key, a name and a budget (docs/models.md)."
LABELS = ("", "python", "python3", "py", "py3")  # of a fence that may hold Python


def problem_source(given: ProblemText, tree: Tree) -> str:
    """The source of the requested problem.

    Raises:
        UserFacingError: no program can read what was given, or the path is not in the repository.
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
    """The problem after a review: the last fenced Python block in its text, or what stood before."""
    for text in reversed(texts):
        fences = [token for token in MarkdownIt("commonmark").parse(text) if token.type == "fence"]
        blocks = [fence.content for fence in fences if fence.info.strip().lower() in LABELS]
        problems = [block for block in blocks if "def reference" in block or "class Model" in block]
        if problems:
            return problems[-1]
    return before


def parse(source: str) -> Problem:
    """Parse a problem, with its errors as text for a maintainer.

    Raises:
        UserFacingError: the problem cannot be used.
    """
    try:
        return parse_problem(source)
    except ProblemError as error:
        failure = Failure(FailureCode.problem, f"the problem cannot be used: {error.message}", error.fix, error.line)
        raise UserFacingError(failure) from error


def refuse(message: str, fix: str) -> UserFacingError:
    """Build the error of a problem that is not there."""
    return UserFacingError(Failure(FailureCode.problem, message, fix))


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


# Names do not hang on what is computed.
ANY_PROBLEM = """\
import torch


def reference(x):
    return torch.neg(x)


INPUTS = {"x": "T H"}
WORKLOADS = [{"T": 8, "H": 8}]
"""


@dataclass(frozen=True)
class Wish:
    """What is asked for. ``origin`` is where it comes from, ``beside`` what its code imports."""

    request: str
    code: bool
    origin: str = ""
    beside: tuple[Example, ...] = ()


def wish_of(given: ProblemText, tree: Tree) -> Wish | None:
    """What a model is to make a problem of; None where the problem is complete, or nothing was given.

    Raises:
        UserFacingError: it names a file or a symbol that is not there.
    """
    if given.kind is ProblemKind.missing:
        return None
    if given.kind is ProblemKind.words:
        return Wish(given.text, code=False, origin="the command")
    if given.kind is ProblemKind.path:
        return _from_installed(given) if is_installed(given, tree) else _from_tree(given, tree)
    if not is_wish(given):
        return None
    return Wish(given.text, code=True, origin=given.url or "the command")


def is_installed(given: ProblemText, tree: Tree | None = None) -> bool:
    """Whether a path names a component of an installed package, as ``transformers:llama.LlamaRMSNorm``."""
    named = given.kind is ProblemKind.path and given.path == PACKAGE and bool(given.symbol)
    return named and (tree is None or tree.read(PACKAGE) is None)


def is_wish(given: ProblemText) -> bool:
    """Whether a text that was given, not a file of a repository, is words, or code that does not stand alone."""
    if given.kind is ProblemKind.words:
        return True
    if given.kind not in (ProblemKind.block, ProblemKind.permalink) or not given.text.strip():
        return False
    # A block that does not parse was meant as a problem; lines out of a file were cut where they were cut.
    return not stands_alone(given.text) and (given.kind is ProblemKind.permalink or _parses(given.text))


def named_freely(kernel: str, layout: Layout, tree: Tree) -> None:
    """Require that a kernel's name is free, before there is a problem.

    Raises:
        UserFacingError: there is such a kernel, or it is no name.
    """
    layout.names(kernel, parse(ANY_PROBLEM), tree)


def stands_alone(text: str) -> bool:
    """Whether a text is a problem file: its function with its inputs, or a ``Model`` with what makes its inputs."""
    try:
        names = {name for node in ast.parse(text).body for name in _names(node)}
    except UNPARSABLE:
        return False
    return {"reference", "INPUTS"} <= names or {"Model", "get_inputs"} <= names


def _from_tree(given: ProblemText, tree: Tree) -> Wish | None:
    path = given.path or ""
    text = tree.read(path)
    if text is None or (stands_alone(text) and given.symbol in (None, "reference", "Model")):
        return None  # what is wrong with the path is said where it is read
    if given.symbol is None:
        return Wish(text, code=True, origin=path) if _parses(text) else None
    return _piece(text, path, given.symbol.partition(".")[0], tree.read)


def _from_installed(given: ProblemText) -> Wish:
    symbol = given.symbol or ""
    read = installed_reader()
    if read is None:
        raise refuse(
            "transformers is not installed where jobs are carried out", "Paste the code of the component instead."
        )
    place = place_of(symbol, read)
    if place is None:
        fix = "Name it as `from transformers:llama.LlamaRMSNorm`, or with its module in full."
        raise refuse(f"the installed transformers has no module for `{symbol}`", fix)
    path, name = place
    return _piece(read(path) or "", path, name, read)


def _piece(text: str, path: str, symbol: str, read: Read) -> Wish:
    try:
        code = piece(text, symbol)
        known = defined_names(text)
    except UNPARSABLE as error:
        raise refuse(f"`{path}` does not parse", "Correct the file.") from error
    if code is None:
        near = ", ".join(f"`{name}`" for name in known[:40]) or "nothing"
        raise refuse(f"`{path}` defines no `{symbol}`", f"It defines: {near}.")
    return Wish(code.text, code=True, origin=f"{path}:{symbol}", beside=imported_code(code, path, read))


def _parses(text: str) -> bool:
    try:
        ast.parse(text)
    except UNPARSABLE:
        return False
    return True


def _names(node: ast.stmt) -> set[str]:
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        return {node.name}
    targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
    return {target.id for target in targets if isinstance(target, ast.Name)}
