"""Python out of an answer: its size, whether it parses, and what it reaches for. Pure; nothing of it is run."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterable, Iterator

from gpu_runner.contracts import SourceError, read_source
from workers.authors.llm.hearing import named
from workers.authors.llm.protocol import Fault, UnusableAnswer

MOST_BYTES = 200 * 1024
MOST_LINES = 5_000
FENCE = "```"


def words(text: str) -> frozenset[str]:
    """The words of a text, as a closed list of names is written."""
    return frozenset(text.split())


# Of those in the runner's language of host code (gpu_runner/program/language.py), to which a test holds them.
MODULES = words("""
    torch torch.autograd triton triton.language math functools typing dataclasses contextlib enum collections collections.abc
    itertools operator __future__
    """)
PREFIXES = ("triton.language.",)
REACHING_NAMES = words("eval exec compile __import__ open globals locals vars setattr delattr breakpoint exit quit")
# Parts of torch that read and write files, load code or start processes.
REACHING_TORCH = words(
    "hub load save utils multiprocessing package jit classes ops _C _dynamo _inductor serialization from_file"
)
AS_A_VALUE, RENAMED = "torch as a value", "torch by another name"
ORDINARY = frozenset({"__name__", "__doc__", "__version__", "__init__", "__post_init__"})
BUILTINS = frozenset(dir(builtins))


def parsed(text: str, what: str, beside: str = "") -> ast.Module:
    """Parse Python; what stands already, ``beside``, does not count towards its size.

    Raises:
        UnusableAnswer: it is too large, has Markdown around it, or does not parse.
    """
    if len(text.encode("utf-8", "replace")) - len(beside.encode("utf-8", "replace")) > MOST_BYTES:
        raise UnusableAnswer(Fault.too_large, f"{what} is larger than {MOST_BYTES // 1024} KiB")
    if text.count("\n") - beside.count("\n") > MOST_LINES:
        raise UnusableAnswer(Fault.too_large, f"{what} is longer than {MOST_LINES} lines")
    try:
        return read_source(text).tree
    except SourceError as error:
        # Three backquotes within a text of the program parse; those around it do not.
        if any(line.lstrip().startswith(FENCE) for line in text.splitlines()):
            sentence = f"{what} has Markdown around its code; give the file's text alone"
            raise UnusableAnswer(Fault.fence, sentence) from None
        where = "" if error.line is None else f" at line {error.line}"
        why = "" if error.rule == "syntax" else f": {error.message} {error.fix}"  # a syntax error may quote the text
        raise UnusableAnswer(Fault.syntax, f"{what} does not parse as Python{where}{why}") from None


def check_reach(tree: ast.Module, what: str, modules: Iterable[str] = (), before: ast.Module | None = None) -> None:
    """See to it that a file imports and calls what a kernel may need, ``modules``, and what it used ``before``, alone.

    Raises:
        UnusableAnswer: it reaches further; the sentence names the module or the name.
    """
    known = {*modules, *(imported(before) if before is not None else ())}
    for module in imported(tree):
        if module not in MODULES and module not in known and not module.startswith(PREFIXES):
            sentence = f"{what} imports `{named(module)}`, which is none of the modules that kernels need here"
            raise UnusableAnswer(Fault.reach, sentence)
    used = set(reached(before)) if before is not None else set()
    for name in reached(tree):
        if name not in used:
            raise UnusableAnswer(Fault.reach, f"{what} uses {told(name)}, which reaches beyond a kernel")


def imported(tree: ast.Module) -> Iterator[str]:
    """Every module that is imported, relative ones with their dots."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            module = "." * node.level + (node.module or "")
            # `from torch import hub` names a module as well as `import torch.hub` does.
            yield module
            if module == "torch":
                yield from (f"torch.{alias.name}" for alias in node.names if alias.name in REACHING_TORCH)


def reached(tree: ast.Module) -> Iterator[str]:
    """The names by which a file reaches beyond its own computation; torch by another name, or as a value, hides them."""
    in_attribute = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and node.id == "torch" and id(node) not in in_attribute:
            yield AS_A_VALUE
        elif isinstance(node, ast.alias) and node.name == "torch" and node.asname not in (None, "torch"):
            yield RENAMED
        if isinstance(node, ast.Name) and node.id in REACHING_NAMES:
            yield node.id
        elif isinstance(node, ast.Attribute):
            full = dotted(node)
            if full is not None and full.startswith("torch.") and full.split(".")[1] in REACHING_TORCH:
                yield full
            elif node.attr.startswith("__") and node.attr.endswith("__") and node.attr not in ORDINARY:
                yield node.attr


def told(reaching: str) -> str:
    """One of ``reached`` as a sentence may quote it."""
    return reaching if reaching in (AS_A_VALUE, RENAMED) else f"`{named(reaching)}`"


def bound_anywhere(tree: ast.AST) -> Iterator[str]:
    """Every name that is bound somewhere in a tree, whatever its scope."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            yield node.id
        elif isinstance(node, ast.arg):
            yield node.arg
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.alias):
            yield node.asname or node.name.partition(".")[0]
        elif isinstance(node, ast.ExceptHandler | ast.MatchAs | ast.MatchStar) and node.name:
            yield node.name


def dotted(node: ast.expr) -> str | None:
    """A plain dotted name as text; None for anything else."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    return ".".join([node.id, *reversed(parts)]) if isinstance(node, ast.Name) else None
