"""What may be wrong with an answer: its form, hidden characters, Python that reaches too far, edits that do not fit. Pure."""

from __future__ import annotations

import ast
import builtins
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

from gpu_runner.contracts import read_source
from gpu_runner.contracts.reading import SourceError, dotted, parse_bounded, walk
from workers.authors.llm.prompts import hidden_in
from workers.authors.llm.protocol import AnswerFault, KernelBrief, Remark, Reply, UnusableAnswer
from workers.authors.protocol import SourceStyle
from workers.models.forms import FormError, check
from workers.models.protocol import Answer, Form

NOT_OF_A_NAME = re.compile(r"[^A-Za-z0-9_./\[\]:*-]")
MOST_NAME = 80


def checked_data(answer: Answer, form: Form) -> dict[str, Any]:
    """The answer's object, which fits the form and whose texts can be seen whole.

    Raises:
        UnusableAnswer: it does not.
    """
    if not isinstance(answer.data, dict):
        raise UnusableAnswer(AnswerFault.form, f"the answer is not given by the form `{form.name}`")
    try:
        check(answer.data, form)
    except FormError as error:
        raise UnusableAnswer(AnswerFault.form, str(error)) from None
    except (RecursionError, ValueError, TypeError):  # what no JSON spells, or nests too deep
        raise UnusableAnswer(AnswerFault.form, "the answer is no plain JSON object") from None
    for place, text in _texts(answer.data):
        hidden = hidden_in(text)
        if hidden is not None:
            sentence = (
                f"`{named(place)}` holds the character U+{ord(hidden):04X}, which cannot be seen; write it as an escape"
            )
            raise UnusableAnswer(AnswerFault.form, sentence)
        if not text.strip() and not place.endswith(".new"):
            raise UnusableAnswer(AnswerFault.form, f"`{named(place)}` says nothing")
    return answer.data


def _texts(value: object, place: str = "$") -> list[tuple[str, str]]:
    """The depth is bounded: the value fits a form."""
    if isinstance(value, str):
        return [(place, value)]
    if isinstance(value, dict):
        return [entry for key, inner in value.items() for entry in _texts(inner, f"{place}.{key}")]
    if isinstance(value, list):
        return [entry for index, inner in enumerate(value) for entry in _texts(inner, f"{place}[{index}]")]
    return []


def replies_to(remarks: tuple[Remark, ...], given: list[dict[str, Any]]) -> tuple[Reply, ...]:
    """The replies in the order of the remarks.

    Raises:
        UnusableAnswer: a remark has none, has two, or a reply is to no remark.
    """
    asked = [remark.number for remark in remarks]
    counted = Counter(int(reply["number"]) for reply in given)
    for number in sorted(counted):
        if number not in asked:
            raise UnusableAnswer(AnswerFault.form, f"there is a reply to remark {number}, which nobody made")
        if counted[number] > 1:
            raise UnusableAnswer(AnswerFault.form, f"remark {number} has more than one reply")
    missing = [str(number) for number in asked if number not in counted]
    if missing:
        raise UnusableAnswer(AnswerFault.form, f"there is no reply to remark {', '.join(missing)}")
    texts = {int(reply["number"]): str(reply["text"]) for reply in given}
    return tuple(Reply(number, texts[number]) for number in asked)


def named(text: str) -> str:
    """A name out of an answer as a sentence may quote it: one line, short, no markup."""
    return NOT_OF_A_NAME.sub("?", text[:MOST_NAME])


MOST_BYTES = 200 * 1024
MOST_LINES = 5_000
FENCE = "```"


def words(text: str) -> frozenset[str]:
    """The words of a text, the way a closed list of names is written."""
    return frozenset(text.split())


# Of those in the runner's language of host code (gpu_runner/program/language.py), to which a test holds them.
MODULES = words("""
    torch torch.autograd triton triton.language math functools typing dataclasses contextlib enum collections collections.abc
    itertools operator __future__
    """)
PREFIXES = ("triton.language.",)


@dataclass(frozen=True)
class WrittenLanguage:
    """What a module in a language is known by."""

    modules: frozenset[str]
    decorators: tuple[str, ...]  # of kernels and device functions, that of a kernel first
    launch: str  # as a sentence has it


LANGUAGES = {  # by target
    "gpu": WrittenLanguage(words("triton triton.language"), ("triton.jit", "jit"), "kernel[grid](...)"),
    "cutile": WrittenLanguage(words("cuda.tile"), ("ct.kernel", "ct.function"), "ct.launch(...)"),
    "cutedsl": WrittenLanguage(words("cutlass cutlass.cute"), ("cute.kernel", "cute.jit"), "kernel.launch(...)"),
}
REACHING_NAMES = words("eval exec compile __import__ open globals locals vars setattr delattr breakpoint exit quit")
# Parts of torch that read and write files, load code or start processes.
REACHING_TORCH = words(
    "hub load save utils multiprocessing package jit classes ops _C _dynamo _inductor serialization from_file"
)
AS_A_VALUE, RENAMED = "torch as a value", "torch by another name"
ORDINARY = frozenset({"__name__", "__doc__", "__version__", "__init__", "__post_init__"})
BUILTINS = frozenset(dir(builtins))


def modules_for(to: str) -> frozenset[str]:
    """The modules that a kernel for a target may import."""
    return (MODULES - LANGUAGES["gpu"].modules) | LANGUAGES[to].modules


def parsed(text: str, what: str, note: str = "") -> ast.Module:
    """Parse Python; what exists already, ``note``, does not count towards its size.

    Raises:
        UnusableAnswer: it is too large, has Markdown around it, or does not parse.
    """
    if len(text.encode("utf-8", "replace")) - len(note.encode("utf-8", "replace")) > MOST_BYTES:
        raise UnusableAnswer(AnswerFault.too_large, f"{what} is larger than {MOST_BYTES // 1024} KiB")
    if text.count("\n") - note.count("\n") > MOST_LINES:
        raise UnusableAnswer(AnswerFault.too_large, f"{what} is longer than {MOST_LINES} lines")
    try:
        return read_source(text).tree
    except SourceError as error:
        # Three backquotes within a text of the program parse; those around it do not.
        if any(line.lstrip().startswith(FENCE) for line in text.splitlines()):
            sentence = f"{what} has Markdown around its code; give the file's text alone"
            raise UnusableAnswer(AnswerFault.fence, sentence) from None
        where = "" if error.line is None else f" at line {error.line}"
        why = "" if error.rule == "syntax" else f": {error.message} {error.fix}"  # a syntax error may quote the text
        raise UnusableAnswer(AnswerFault.syntax, f"{what} does not parse as Python{where}{why}") from None


def check_capabilities(
    tree: ast.Module, what: str, modules: Iterable[str] = (), before: ast.Module | None = None, to: str = "gpu"
) -> None:
    """Require that a file imports and calls only what a kernel for a target may need, ``modules``, and what it used ``before``.

    Raises:
        UnusableAnswer: it uses more; the sentence names the module or the name.
    """
    known = {*modules_for(to), *modules, *(imported(before) if before is not None else ())}
    for module in imported(tree):
        if module not in known and not (to == "gpu" and module.startswith(PREFIXES)):
            sentence = f"{what} imports `{named(module)}`, which is none of the modules that kernels need here"
            raise UnusableAnswer(AnswerFault.reach, sentence)
    used = set(reached(before)) if before is not None else set()
    for name in reached(tree):
        if name not in used:
            raise UnusableAnswer(AnswerFault.reach, f"{what} uses {quoted_name(name)}, which reaches beyond a kernel")


def imported(tree: ast.Module) -> Iterator[str]:
    """Every module that is imported, relative ones with their dots."""
    for node in walk(tree):
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
    nodes = walk(tree)
    in_attribute = {id(node.value) for node in nodes if isinstance(node, ast.Attribute)}
    for node in nodes:
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


def quoted_name(reaching: str) -> str:
    """One of ``reached``, quoted for a sentence."""
    return reaching if reaching in (AS_A_VALUE, RENAMED) else f"`{named(reaching)}`"


def bound_anywhere(tree: ast.AST) -> Iterator[str]:
    """Every name that is bound somewhere in a tree, whatever its scope."""
    for node in walk(tree):
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


def check_module(source: str, brief: KernelBrief) -> None:
    """Require that a layout can use a module.

    Raises:
        UnusableAnswer: it cannot, or uses more than kernels need.
    """
    style = brief.style
    tree = parsed(source, "the module")
    check_capabilities(tree, "the module", modules_of(style), to=style.target)
    functions = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}
    classes = {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}
    wanted = [style.forward_function]
    if _computes_gradients(brief):
        wanted.append(style.backward_function)
    if style.entry is not None and not style.section:
        wanted.append(style.entry)
    for name in wanted:
        if name not in functions:
            raise UnusableAnswer(AnswerFault.names, f"the module does not define the function `{named(name)}`")
    if style.prefix:
        _check_prefix(tree, style)
    if style.section:
        if any(isinstance(node, ast.Import | ast.ImportFrom | ast.ClassDef) for node in tree.body):
            raise UnusableAnswer(AnswerFault.names, "a section of a file holds no imports and no classes")
    elif style.function_class not in classes:
        raise UnusableAnswer(AnswerFault.names, f"the module does not define the class `{named(style.function_class)}`")
    else:
        _check_class(classes[style.function_class], brief)
        if style.once_differentiable and style.backward_function in wanted:
            _check_once_differentiable(classes, style)
    if style.entry is not None and not style.section:
        _check_entry(functions[style.entry], brief)
    check_kernels(tree, "the module", style.target)


def _computes_gradients(brief: KernelBrief) -> bool:
    """Whether a gradient differs from the upstream one, which a class can pass on by itself."""
    if brief.graph is None:
        return any(spec.grad for spec in brief.problem.inputs)
    return any(node is not None and node not in brief.graph.upstream for _, node in brief.graph.gradients)


def modules_of(style: SourceStyle) -> tuple[str, ...]:
    """The target's own modules that a kernel may import from: those of its helpers."""
    return tuple(sorted({module for _, module in style.helpers}))


def kernels_of(tree: ast.Module, to: str = "gpu") -> set[str]:
    """The names of a module's kernels and device functions, in the language of a target."""
    return {node.name for node in tree.body if isinstance(node, ast.FunctionDef) and _is_kernel(node, to)}


def check_kernels(tree: ast.Module, what: str, to: str = "gpu") -> None:
    """Require a kernel in a module, and its launch.

    Raises:
        UnusableAnswer: one is missing.
    """
    kernels, language = kernels_of(tree, to), LANGUAGES[to]
    if not kernels:
        sentence = f"{what} defines no function with `@{language.decorators[0]}`: there is no kernel in it"
        raise UnusableAnswer(AnswerFault.names, sentence)
    inside = {id(inner) for node in tree.body if _is_kernel(node, to) for inner in walk(node)}
    # In CuTe DSL a device function launches.
    outside = [node for node in walk(tree) if id(node) not in inside or to == "cutedsl"]
    launches = any(isinstance(node, ast.Call) and _launches(node.func, to) for node in outside)
    # Which of several kernels is launched may be chosen before, under another name.
    if not launches or not any(isinstance(node, ast.Name) and node.id in kernels for node in outside):
        raise UnusableAnswer(AnswerFault.names, f"{what} launches none of its kernels by `{language.launch}`")


def _launches(called: ast.expr, to: str) -> bool:
    if to == "gpu":
        return isinstance(called, ast.Subscript)
    return isinstance(called, ast.Attribute) and called.attr == "launch"


def _is_kernel(node: ast.stmt, to: str) -> bool:
    if not isinstance(node, ast.FunctionDef):
        return False
    names = (dotted(one.func if isinstance(one, ast.Call) else one) for one in node.decorator_list)
    return any(name in LANGUAGES[to].decorators for name in names)


def _check_class(node: ast.ClassDef, brief: KernelBrief) -> None:
    name = named(node.name)
    if not any((dotted(base) or "").endswith("Function") for base in node.bases):
        raise UnusableAnswer(AnswerFault.names, f"the class `{name}` is no `torch.autograd.Function`")
    methods = {item.name: item for item in node.body if isinstance(item, ast.FunctionDef)}
    for method in ("forward", "backward"):
        if method not in methods or not _is_static(methods[method]):
            raise UnusableAnswer(AnswerFault.names, f"the class `{name}` has no static method `{method}`")
    parameters = brief.problem.parameters
    if parameters and not _takes(methods["forward"], 1 + len(parameters)):
        given = ", ".join(f"`{named(parameter)}`" for parameter in parameters)
        raise UnusableAnswer(AnswerFault.names, f"`{name}.forward` does not take ctx and then {given}, in this order")
    outputs = len(brief.graph.outputs) if brief.graph is not None else 0
    if outputs and not _takes(methods["backward"], 1 + outputs):
        sentence = f"`{name}.backward` does not take ctx and then one gradient for each of {outputs} outputs"
        raise UnusableAnswer(AnswerFault.names, sentence)


def _is_static(node: ast.FunctionDef) -> bool:
    return any(isinstance(d, ast.Name) and d.id == "staticmethod" for d in node.decorator_list)


def _takes(node: ast.FunctionDef, count: int) -> bool:
    """Whether a function can be called with so many positional arguments."""
    positional = len(node.args.posonlyargs) + len(node.args.args)
    required = positional - len(node.args.defaults)
    keyword_only = any(default is None for default in node.args.kw_defaults)
    return required <= count and (positional >= count or node.args.vararg is not None) and not keyword_only


def _check_entry(node: ast.FunctionDef, brief: KernelBrief) -> None:
    own = tuple(argument.arg for argument in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs))
    if brief.problem.parameters and own != brief.problem.parameters:
        given = ", ".join(named(parameter) for parameter in brief.problem.parameters)
        raise UnusableAnswer(
            AnswerFault.names, f"`{named(node.name)}` does not have the reference's parameters ({given})"
        )


def _check_prefix(tree: ast.Module, style: SourceStyle) -> None:
    given = {style.function_class, style.forward_function, style.backward_function, style.entry}
    for node in tree.body:
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        names = [
            inner.id
            for target in targets
            if target is not None
            for inner in ast.walk(target)
            if isinstance(inner, ast.Name)
        ]
        names += [node.name] if isinstance(node, ast.FunctionDef | ast.ClassDef) else []
        for name in names:
            if name not in given and not name.startswith(style.prefix):
                sentence = f"`{named(name)}` does not begin with `{named(style.prefix)}`, as every name of its own must"
                raise UnusableAnswer(AnswerFault.names, sentence)


def _check_once_differentiable(classes: dict[str, ast.ClassDef], style: SourceStyle) -> None:
    backward = next(node for node in classes[style.function_class].body if getattr(node, "name", "") == "backward")
    applied = {dotted(node.func) for node in ast.walk(backward) if isinstance(node, ast.Call)}
    for name, node in classes.items():
        ends = [item.body[-1] for item in node.body if isinstance(item, ast.FunctionDef) and item.name == "backward"]
        if f"{name}.apply" in applied and any(isinstance(end, ast.Raise) for end in ends):
            return
    sentence = (
        f"`{named(style.function_class)}.backward` applies no `torch.autograd.Function` whose own backward raises"
    )
    raise UnusableAnswer(AnswerFault.names, sentence)


def edited(
    edits: list[dict[str, Any]], files: dict[str, str], forbidden: frozenset[str] = frozenset()
) -> dict[str, str]:
    """The files as the edits leave them, those that change only; ``forbidden`` are the tests, which are added to alone.

    Raises:
        UnusableAnswer: a path is none of the files, or an old text is not there exactly once.
    """
    texts = dict(files)
    for place, edit in enumerate(edits, 1):
        path = check_path(str(edit["path"]), texts, forbidden)
        old, new = _ends_as(texts[path], str(edit["old"])), _ends_as(texts[path], str(edit["new"]))
        if old == new:
            raise UnusableAnswer(AnswerFault.same, f"edit {place} puts in place of a text the same text")
        matches = _count(texts[path], old)
        if matches != 1:
            times = "not there" if matches == 0 else "there more than once"
            raise UnusableAnswer(AnswerFault.edit, f"the old text of edit {place} is {times} in `{named(path)}`")
        texts[path] = texts[path].replace(old, new)
    return {path: text for path, text in texts.items() if text != files[path]}


def check_path(path: str, files: dict[str, str], forbidden: frozenset[str] = frozenset()) -> str:
    """A path, exactly as one of the files has it.

    Raises:
        UnusableAnswer: it is none of them.
    """
    if path in files:
        return path
    if path in forbidden or str(PurePosixPath(path)) in forbidden:
        sentence = f"`{named(path)}` is a test file that stands: tests are added at its end and never edited"
        raise UnusableAnswer(AnswerFault.tests, sentence)
    raise UnusableAnswer(AnswerFault.path, f"`{named(path)}` is none of the files that this change may touch")


def check_file(path: str, before: str, after: str) -> None:
    """Require that a file is still Python, uses no more than before, and keeps what others may call.

    Raises:
        UnusableAnswer: it does not.
    """
    if not path.endswith(".py"):
        return
    what = f"`{named(path)}`"
    tree, stood = parsed(after, what, before), _stood(before)
    check_capabilities(tree, what, before=stood)
    if stood is None:
        return
    lost = sorted(_public(stood) - _public(tree))
    if lost:
        raise UnusableAnswer(AnswerFault.names, f"{what} no longer defines `{named(lost[0])}`, which others may call")
    if _has_kernels(stood):
        check_kernels(tree, what)


def _stood(text: str) -> ast.Module | None:
    try:
        return parse_bounded(text)
    except SourceError:  # what stands there may be anything; then all of it is new
        return None


def _has_kernels(tree: ast.Module) -> bool:
    try:
        check_kernels(tree, "")
    except UnusableAnswer:
        return False
    return True


def _public(tree: ast.Module) -> set[str]:
    kernels = kernels_of(tree)
    defined = (node for node in tree.body if isinstance(node, ast.FunctionDef | ast.ClassDef))
    return {node.name for node in defined if not node.name.startswith("_") and node.name not in kernels}


def _count(text: str, old: str) -> int:
    """Overlapping places count too: which of them is meant nobody knows."""
    first = text.find(old)
    if first < 0:
        return 0
    return 1 if text.find(old, first + 1) < 0 else 2


def _ends_as(text: str, piece: str) -> str:
    """A model is shown ``\\n``; a file that ends its lines otherwise keeps its way."""
    return piece.replace("\n", "\r\n") if "\r\n" in text else piece
