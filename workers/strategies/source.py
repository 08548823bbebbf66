"""A kernel file as syntax: its kernels, launches and pointers, and patches that leave every other byte as it is. Pure."""

from __future__ import annotations

import ast
import hashlib
import io
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from functools import cached_property, lru_cache

from gpu_runner.contracts import Pass
from gpu_runner.contracts.reading import UNPARSABLE, walk

MAX_SOURCE_BYTES = 1 << 20
PASS_OF_METHOD = {"forward": Pass.forward, "backward": Pass.backward}


@dataclass(frozen=True)
class Launch:
    """``kernel[grid](...)`` and the top-level function or method around it."""

    kernel: str
    function: ast.FunctionDef
    call: ast.Call
    grid: ast.expr
    arguments: tuple[tuple[str, ast.expr], ...]  # by the kernel's parameters, in the order of the call
    timed_pass: Pass | None  # None: of both passes, or of none that could be found

    def argument(self, parameter: str) -> ast.expr | None:
        """What is handed over for a parameter; None where it is left out or comes from a dict."""
        return dict(self.arguments).get(parameter)

    @property
    def starred(self) -> tuple[ast.keyword, ...]:
        """The dicts that are unpacked into the call."""
        return tuple(keyword for keyword in self.call.keywords if keyword.arg is None)


@dataclass(frozen=True)
class KernelFile:
    """A parsed file."""

    source: str = field(repr=False)
    tree: ast.Module = field(repr=False)

    @cached_property
    def kernels(self) -> dict[str, ast.FunctionDef]:
        """The functions under ``@triton.jit``, device functions too."""
        return {node.name: node for node in self._functions() if any(_is_jit(d) for d in node.decorator_list)}

    @cached_property
    def classes(self) -> dict[str, ast.ClassDef]:
        """The autograd Functions."""
        nodes = [n for n in self.tree.body if isinstance(n, ast.ClassDef)]
        return {c.name: c for c in nodes if any(ast.unparse(b).split(".")[-1] == "Function" for b in c.bases)}

    @cached_property
    def functions(self) -> dict[str, ast.FunctionDef]:
        """The top-level functions that run on the host."""
        return {node.name: node for node in self._functions() if node.name not in self.kernels}

    @cached_property
    def passes(self) -> dict[str, frozenset[Pass]]:
        """The passes that reach each host function, through the methods of the autograd Functions."""
        by_function: dict[str, set[Pass]] = {}
        for owner in self.classes.values():
            for method_name, timed_pass in PASS_OF_METHOD.items():
                method = method_of(owner, method_name)
                if method is not None:
                    for name in self._reached(method):
                        by_function.setdefault(name, set()).add(timed_pass)
        return {name: frozenset(passes) for name, passes in by_function.items()}

    @cached_property
    def launches(self) -> tuple[Launch, ...]:
        """The launches of the file's own kernels, from top to bottom."""
        places = [(f, self.passes.get(f.name, frozenset())) for f in self.functions.values()]
        for owner in self.classes.values():
            for name, timed_pass in PASS_OF_METHOD.items():
                method = method_of(owner, name)
                places += [] if method is None else [(method, frozenset({timed_pass}))]
        all_launches = [launch for function, passes in places for launch in self._launches_in(function, passes)]
        return tuple(sorted(all_launches, key=lambda launch: launch.call.lineno))

    def segment(self, node: ast.expr | ast.stmt | ast.arg | ast.keyword) -> str:
        """A node's source text."""
        lines = self._lines[node.lineno - 1 : node.end_lineno]
        lines[-1] = lines[-1][: node.end_col_offset]
        lines[0] = lines[0][node.col_offset :]
        return b"".join(lines).decode()

    @cached_property
    def _lines(self) -> list[bytes]:
        """As Python counts them; offsets of nodes are bytes."""
        return [line.encode() for line in io.StringIO(self.source, newline="")]

    def _functions(self) -> list[ast.FunctionDef]:
        return [node for node in self.tree.body if isinstance(node, ast.FunctionDef)]

    def _reached(self, start: ast.FunctionDef) -> set[str]:
        seen: set[str] = set()
        waiting = [start]
        while waiting:
            for node in walk(waiting.pop()):
                if isinstance(node, ast.Name) and node.id in self.functions and node.id not in seen:
                    seen.add(node.id)
                    waiting.append(self.functions[node.id])
        return seen

    def _launches_in(self, function: ast.FunctionDef, passes: frozenset[Pass]) -> Iterator[Launch]:
        for node in walk(function):
            if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Subscript)):
                continue
            if isinstance(node.func.value, ast.Name) and node.func.value.id in self.kernels:
                name = node.func.value.id
                timed_pass = next(iter(passes)) if len(passes) == 1 else None
                arguments = _bound(self.kernels[name], node)
                yield Launch(name, function, node, node.func.slice, arguments, timed_pass)


@lru_cache(maxsize=64)  # a stage that goes on reads the same files again
def parsed(source: str) -> KernelFile:
    """Parse a file.

    Raises:
        ValueError: it is no Python, too large, or nested too deeply.
    """
    if len(source.encode("utf-8", "replace")) > MAX_SOURCE_BYTES:
        message = f"the file is larger than {MAX_SOURCE_BYTES >> 10} KiB"
        raise ValueError(message)
    try:
        return KernelFile(source, ast.parse(source))
    except (SyntaxError, RecursionError, MemoryError) as error:
        message = f"the file cannot be parsed: {getattr(error, 'msg', None) or type(error).__name__}"
        raise ValueError(message) from error


def method_of(owner: ast.ClassDef, name: str) -> ast.FunctionDef | None:
    """A method of a class."""
    return next((n for n in owner.body if isinstance(n, ast.FunctionDef) and n.name == name), None)


def parameters_of(function: ast.FunctionDef) -> tuple[str, ...]:
    """The names of a function's parameters, in order."""
    arguments = function.args
    return tuple(a.arg for a in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs))


def constexprs_of(kernel: ast.FunctionDef) -> tuple[str, ...]:
    """The parameters that are compile-time constants."""
    arguments = (*kernel.args.posonlyargs, *kernel.args.args, *kernel.args.kwonlyargs)
    return tuple(a.arg for a in arguments if a.annotation is not None and "constexpr" in ast.unparse(a.annotation))


def autotune_of(kernel: ast.FunctionDef) -> ast.Call | None:
    """The ``@triton.autotune(...)`` of a kernel."""
    calls = [d for d in kernel.decorator_list if isinstance(d, ast.Call)]
    return next((d for d in calls if ast.unparse(d.func).split(".")[-1] in ("autotune", "heuristics")), None)


def names_in(node: ast.AST) -> frozenset[str]:
    """The names that an expression or statement mentions."""
    return frozenset(n.id for n in walk(node) if isinstance(n, ast.Name))


def called(node: ast.AST) -> str:
    """The dotted name that a call calls; empty where the node is no such call."""
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name | ast.Attribute):
        return ""
    return ast.unparse(node.func)


def _is_jit(decorator: ast.expr) -> bool:
    target = decorator.func if isinstance(decorator, ast.Call) else decorator
    return ast.unparse(target) in ("triton.jit", "jit")


def _bound(kernel: ast.FunctionDef, call: ast.Call) -> tuple[tuple[str, ast.expr], ...]:
    bound: list[tuple[str, ast.expr]] = []
    if not any(isinstance(a, ast.Starred) for a in call.args):
        bound += zip(parameters_of(kernel), call.args, strict=False)
    bound += [(k.arg, k.value) for k in call.keywords if k.arg is not None]
    return tuple(bound)


class Patches:
    """Collects replacements and insertions of one source, and makes them all at once.

    Positions are those of the source as it was parsed; ``ast`` counts columns in bytes of UTF-8.
    """

    def __init__(self, source: str) -> None:
        self._bytes = source.encode()
        self._starts = [0]
        for line in self._bytes.splitlines(keepends=True):
            self._starts.append(self._starts[-1] + len(line))
        self._changes: list[tuple[int, int, str]] = []

    def replace(self, node: ast.expr | ast.stmt | ast.keyword | ast.arg, text: str) -> None:
        """Replace a node by text."""
        start = self._at(node.lineno, node.col_offset)
        end = self._at(node.end_lineno or node.lineno, node.end_col_offset or 0)
        self._changes.append((start, end, text))

    def replace_span(
        self, first: ast.expr | ast.keyword | ast.arg, last: ast.expr | ast.keyword | ast.arg, text: str
    ) -> None:
        """Replace everything from one node to another by text."""
        start = self._at(first.lineno, first.col_offset)
        end = self._at(last.end_lineno or last.lineno, last.end_col_offset or 0)
        self._changes.append((start, end, text))

    def append(self, node: ast.expr | ast.arg, text: str) -> None:
        """Insert text right behind a node."""
        end = self._at(node.end_lineno or node.lineno, node.end_col_offset or 0)
        self._changes.append((end, end, text))

    def insert_before(self, line: int, text: str) -> None:
        """Insert whole lines before a line, counted from 1."""
        self._changes.append((self._starts[line - 1], self._starts[line - 1], text))

    def replace_lines(self, first: int, last: int, text: str) -> None:
        """Replace the lines from first to last, counted from 1."""
        self._changes.append((self._starts[first - 1], self._starts[last], text))

    def result(self) -> str:
        """The changed source."""
        content = self._bytes
        ordered = sorted(enumerate(self._changes), key=lambda item: (item[1][0], item[0]), reverse=True)
        for _, (start, end, text) in ordered:
            content = content[:start] + text.encode() + content[end:]
        return content.decode()

    def _at(self, line: int, column: int) -> int:
        return self._starts[line - 1] + column


def rendered_call(head: str, arguments: list[str], indent: str, tail: str = "", width: int = 120) -> str:
    """``head(arguments)tail`` on one line where it fits, otherwise as a formatter breaks it.

    ``indent`` is that of the statement; the text starts behind it.
    """
    joined = ", ".join(arguments)
    plain = not any("\n" in a or "#" in a for a in arguments)
    one_line = f"{head}({joined}){tail}"
    if plain and len(indent) + len(one_line) <= width:
        return one_line
    inner = indent + "    "
    # Where the call is a part of a longer line its own length says nothing; it is broken, and its arguments kept together.
    if plain and len(inner) + len(joined) <= (width or 120):
        return f"{head}(\n{inner}{joined}\n{indent}){tail}"
    body = "".join(f"{inner}{argument},\n" for argument in arguments)
    return f"{head}(\n{body}{indent}){tail}"


def indent_of(source: str, line: int) -> str:
    """The white space that a line starts with."""
    text = source.split("\n")[line - 1]
    return text[: len(text) - len(text.lstrip())]


def first_statement_line(function: ast.FunctionDef) -> int:
    """The line of a function's first statement behind its docstring."""
    body = function.body
    documented = isinstance(body[0], ast.Expr) and isinstance(body[0].value, ast.Constant) and len(body) > 1
    return (body[1] if documented else body[0]).lineno


def line_before_definition(node: ast.FunctionDef | ast.ClassDef, source: str) -> int:
    """The line at which a definition starts, its decorators and the comments right above it included."""
    lines = source.split("\n")
    first = min([node.lineno, *(d.lineno for d in node.decorator_list)])
    while first > 1 and lines[first - 2].startswith("#"):
        first -= 1
    return first


LOADS = ("tl.load",)
STORES = ("tl.store",)
ATOMICS = "tl.atomic_"


@dataclass(frozen=True)
class MemoryAccess:
    """One load or store, and the parameter that its address starts from (None where unknown)."""

    call: ast.Call
    parameter: str | None


@dataclass(frozen=True)
class Accesses:
    """What a kernel does to memory."""

    loads: tuple[MemoryAccess, ...]
    stores: tuple[MemoryAccess, ...]
    atomics: tuple[MemoryAccess, ...]

    @property
    def read(self) -> frozenset[str]:
        """The pointers that are loaded from."""
        return frozenset(a.parameter for a in self.loads if a.parameter)

    @property
    def written(self) -> frozenset[str]:
        """The pointers that are stored to."""
        return frozenset(a.parameter for a in self.stores if a.parameter)


@lru_cache(maxsize=256)  # many strategies ask for those of the same kernels
def accesses_of(kernel: ast.FunctionDef) -> Accesses:
    """Every access of a kernel."""
    roots = _roots(kernel)
    kinds: dict[str, list[MemoryAccess]] = {"load": [], "store": [], "atomic": []}
    for node in [node for node in walk(kernel) if isinstance(node, ast.Call)]:
        name = called(node)
        kind = (
            "load" if name in LOADS else "store" if name in STORES else "atomic" if name.startswith(ATOMICS) else None
        )
        if kind is not None and node.args:
            kinds[kind].append(MemoryAccess(node, _root(node.args[0], roots)))
    ordered = {kind: tuple(sorted(accesses, key=lambda a: a.call.lineno)) for kind, accesses in kinds.items()}
    return Accesses(ordered["load"], ordered["store"], ordered["atomic"])


def size_parameter(kernel: ast.FunctionDef) -> str | None:
    """The parameter that bounds the columns: what an offset is compared with, as in ``offsets < n_cols``.

    Where rows are bounded too it is the bound of the offsets that do not depend on the program.
    """
    parameters = parameters_of(kernel)
    of_program = derived(kernel, frozenset({"program_id"}))
    compared = [n for n in walk(kernel) if isinstance(n, ast.Compare) and isinstance(n.ops[0], ast.Lt)]
    candidates: list[tuple[bool, int, str]] = []
    for node in compared:
        bound = node.comparators[0]
        if isinstance(bound, ast.Name) and bound.id in parameters:
            candidates.append((bool(names_in(node.left) & of_program), node.lineno, bound.id))
    return min(candidates)[2] if candidates else None


def _roots(kernel: ast.FunctionDef) -> dict[str, str]:
    roots = {name: name for name in parameters_of(kernel)}
    assignments = [n for n in walk(kernel) if isinstance(n, ast.Assign) and isinstance(n.targets[0], ast.Name)]
    for node in sorted(assignments, key=lambda n: n.lineno):
        root = _root(node.value, roots)
        target = node.targets[0]
        if root is not None and isinstance(target, ast.Name):
            roots.setdefault(target.id, root)
    return roots


def _root(address: ast.expr, roots: dict[str, str]) -> str | None:
    """The pointer of an address is its leftmost summand, as in ``X_ptr + row * stride + columns``."""
    if isinstance(address, ast.BinOp) and isinstance(address.op, ast.Add | ast.Sub):
        return _root(address.left, roots)
    return roots.get(address.id) if isinstance(address, ast.Name) else None


def loops_over_blocks(kernel: ast.FunctionDef, block: str) -> bool:
    """Whether a kernel goes over a row in blocks, so that the block's size is free: no block must hold a whole row."""
    over = [n for n in walk(kernel) if isinstance(n, ast.For) and _steps_by(n.iter, block)]
    if not over or any(called(n) == "tl.dot" for n in walk(kernel)):
        return False
    inside = {id(n) for loop in over for n in walk(loop)}
    moved = [n for n in walk(kernel) if called(n) in (*LOADS, *STORES)]
    # An access outside of these loops that depends on the block would see the first block of a row alone.
    offsets = derived(kernel, frozenset({block}))
    return not any(
        id(n) not in inside and isinstance(n, ast.Call) and n.args and names_in(n.args[0]) & offsets for n in moved
    )


def _steps_by(iterated: ast.expr, block: str) -> bool:
    """``range(0, n, BLOCK)``, or ``range(cdiv(n, BLOCK))``."""
    if called(iterated) not in ("range", "tl.range") or not isinstance(iterated, ast.Call):
        return False
    last = iterated.args[-1] if iterated.args else None
    if len(iterated.args) == 3:
        return isinstance(last, ast.Name) and last.id == block
    return called(last) == "tl.cdiv" and block in names_in(last) if last is not None else False


@lru_cache(maxsize=256)  # as of `accesses_of`
def derived(kernel: ast.FunctionDef, sources: frozenset[str]) -> frozenset[str]:
    """The names that are computed from others (names, or functions of ``tl``), themselves included."""
    names = set(sources)
    for node in sorted((n for n in walk(kernel) if isinstance(n, ast.Assign)), key=lambda n: n.lineno):
        mentioned = names_in(node.value) | {n.attr for n in walk(node.value) if isinstance(n, ast.Attribute)}
        if mentioned & names:
            names |= {t.id for t in node.targets if isinstance(t, ast.Name)}
    return frozenset(names)


Documented = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


@lru_cache(maxsize=256)
def fingerprint(source: str) -> str:
    """The digest of a file's syntax; of its text where it is no Python."""
    try:
        tree = ast.parse(source)
        for node in walk(tree):
            if isinstance(node, Documented) and ast.get_docstring(node, clean=False) is not None:
                node.body = node.body[1:]
        text = ast.dump(tree)
    except UNPARSABLE:
        text = source
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def changed_but_idle(before: str, after: str, launched: Collection[str]) -> tuple[str, ...]:
    """The kernels that a file changes, where none of them was launched, or called by one that was; none where a launched one is,
    where no kernel is changed, or where it is not known which were launched.
    """
    known = {ast.dump(kernel) for kernel in parsed(before).kernels.values()}
    kernels = parsed(after).kernels
    changed = {name for name, kernel in kernels.items() if ast.dump(kernel) not in known}
    running, waiting = set[str](), [name for name in launched if name in kernels]
    while waiting:
        running.add(name := waiting.pop())
        waiting += (names_in(kernels[name]) & kernels.keys()) - running
    return tuple(sorted(changed)) if running and not changed & running else ()


WIDTH = 120


def add_argument(patches: Patches, file: KernelFile, call: ast.Call, text: str) -> bool:
    """Add a keyword argument to a call; False where the call is written in a way that this cannot preserve."""
    segment = file.segment(call)
    line = file.source.split("\n")[call.lineno - 1]
    arguments: list[ast.expr | ast.keyword] = [*call.args, *call.keywords]
    last = arguments[-1]
    if call.lineno != call.end_lineno:
        closing = file.source.split("\n")[(last.end_lineno or last.lineno) - 1]
        if "#" in segment or last.lineno == call.lineno:
            return False
        if closing.rstrip().endswith(","):
            patches.insert_before(
                (last.end_lineno or last.lineno) + 1, f"{indent_of(file.source, last.lineno)}{text},\n"
            )
            return True
        patches.replace(
            call, rendered_call(file.segment(call.func), _texts(file, call, text), indent_of(file.source, call.lineno))
        )
        return True
    if "#" in line:
        return False
    if len(line) + len(text) + 2 <= WIDTH:
        patches.replace(call, f"{segment[:-1]}, {text})")
        return True
    behind = line.encode()[call.end_col_offset or 0 :].lstrip()
    if behind.startswith((b".", b"[")):
        # A formatter breaks a chain at another place, and not the better one.
        return False
    indent = indent_of(file.source, call.lineno)
    patches.replace(call, rendered_call(file.segment(call.func), _texts(file, call, text), indent, width=0))
    return True


def _texts(file: KernelFile, call: ast.Call, more: str) -> list[str]:
    named = (f"{k.arg}={file.segment(k.value)}" if k.arg else f"**{file.segment(k.value)}" for k in call.keywords)
    return [*(file.segment(a) for a in call.args), *named, more]


def add_parameter(patches: Patches, file: KernelFile, function: ast.FunctionDef, text: str) -> None:
    """A function one more parameter, the last; with a default it may stand behind others that have one."""
    arguments = function.args.args
    defaults = [None] * (len(arguments) - len(function.args.defaults)) + list(function.args.defaults)
    end: ast.expr | ast.arg = defaults[-1] or arguments[-1]
    line = file.source.split("\n")[(end.end_lineno or end.lineno) - 1]
    if line.split("#")[0].rstrip().endswith(","):
        patches.insert_before((end.end_lineno or end.lineno) + 1, f"{indent_of(file.source, end.lineno)}{text},\n")
    elif len(line) + len(text) + 2 <= WIDTH or "#" in line:
        patches.append(end, f", {text}")
    else:
        indent = indent_of(file.source, function.lineno) + "    "
        texts = [_parameter(file, a, d) for a, d in zip(arguments, defaults, strict=True)]
        broken = f",\n{indent}".join([*texts, text]) + ","
        same_line = arguments[0].lineno == function.lineno
        patches.replace_span(arguments[0], end, f"\n{indent}{broken}\n" if same_line else broken)


def _parameter(file: KernelFile, argument: ast.arg, default: ast.expr | None) -> str:
    text = file.segment(argument)
    if default is None:
        return text
    return f"{text} = {file.segment(default)}" if argument.annotation else f"{text}={file.segment(default)}"
