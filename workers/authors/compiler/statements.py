"""Statements and layout of emitted source: names for values, loops, docstrings, line breaks, prefixes. Pure."""

from __future__ import annotations

import ast
import re
import textwrap
from collections.abc import Callable, Iterable, Iterator, Sequence

from workers.authors.compiler.expressions import TRITON, Dialect, ExpressionText, compose
from workers.authors.compiler.names import TensorNames
from workers.authors.compiler.rerolling import RerolledLoop
from workers.authors.compiler.values import TileValue, topological
from workers.authors.protocol import SourceStyle

# An expression that is longer than this is split at its longest part.
EXPRESSION_WIDTH = 76
INDENT = "    "
TRIVIAL = {"const", "scalar"}


class ScopeStatements:
    """Lines of one scope. ``env`` maps values to names; ``shared`` are the values used more than once, which get one."""

    def __init__(
        self,
        names: TensorNames,
        scalar: Callable[[str], ExpressionText],
        shared: set[TileValue],
        depth: int,
        dialect: Dialect = TRITON,
    ) -> None:
        self.lines: list[str] = []
        self.env: dict[TileValue, str] = {}
        self.names = names
        self._scalar = scalar
        self._shared = shared
        self.depth = depth
        self._dialect = dialect

    def line(self, text: str) -> None:
        """Write a line at the scope's depth; an empty text is an empty line."""
        self.lines.append(INDENT * self.depth + text if text else "")

    def operand(self, value: TileValue) -> ExpressionText:
        """Write a value as part of an expression; values used more than once are named first."""
        if value in self.env:
            return ExpressionText(self.env[value])
        if value.op == "scalar":
            return self._scalar(str(value.datum))
        if value in self._shared and value.op not in TRIVIAL:
            return ExpressionText(self.assign(value))
        return compose(value, self._dialect, self.operand)

    def assign(self, value: TileValue, name: str | None = None) -> str:
        """Names a value in a line of its own; returns the name."""
        text = self.fitted(value)
        chosen = name or self.names.of(value)
        self.line(f"{chosen} = {text}")
        self.env[value] = chosen
        return chosen

    def fitted(self, value: TileValue, width: int = EXPRESSION_WIDTH) -> str:
        """Write a value so that it fits on a line: its longest parts are named until it does."""
        self.prepare(value)
        text = self.written(value)
        while len(text) > width:
            parts = [arg for arg in value.args if arg not in self.env and arg.args]
            if not parts:
                break
            self.assign(max(parts, key=lambda arg: len(self.operand(arg).text)))
            text = self.written(value)
        return text

    def reduced(self, value: TileValue) -> str:
        """Write what a reduction takes in: by its name where it has one or deserves one."""
        return self.operand(value).text if value in self.env or value in self._shared else self.fitted(value)

    def prepare(self, value: TileValue) -> None:
        """Name every shared value below this one, so that writing it needs no line of its own."""
        if value in self.env:
            return
        for arg in value.args:
            if arg in self.env or arg.op in TRIVIAL:
                continue
            if arg in self._shared:
                self.assign(arg)
            else:
                self.prepare(arg)

    def written(self, value: TileValue) -> str:
        """Write a value, its own name left aside."""
        if value in self.env:
            return self.env[value]
        if value.op == "scalar":
            return self._scalar(str(value.datum)).text
        return compose(value, self._dialect, self.operand).text


def worth_naming(counts: dict[TileValue, int], always: Iterable[TileValue] = ()) -> set[TileValue]:
    """The values that are used more than once, or named for another reason."""
    named = {value for value, count in counts.items() if count > 1 and value.args}
    return {value for value in named if value.op != "neg" or value.args[0].args} | set(always)


Compute = Callable[[ScopeStatements, TileValue], None]


def write_loop(outer: ScopeStatements, inner: ScopeStatements, loop: RerolledLoop, head: str, reduce: Compute) -> None:
    """Emit a loop; ``inner`` is the scope of its body, ``reduce`` emits and names a reduction.

    After it the outer scope knows the states that are needed by the names of the turns.
    """
    names = [outer.names.of(value) for value in loop.before]
    given = dict(zip(loop.starts, names, strict=True))
    for value in loop.outside:
        for one in topological(value.args):
            if one.op == "over_cols" and one not in outer.env:
                reduce(outer, one)
        if value.op == "over_cols" and value not in outer.env:
            reduce(outer, value)
        elif value.args and value not in outer.env:
            outer.assign(value, given[value] if value in loop.own else None)
    for name, start in zip(names, loop.starts, strict=True):
        known = outer.env.get(start) or outer.written(start)
        if known != name:
            outer.line(f"{name} = {known}")
    outer.line(head)
    inner.env.update({**outer.env, **dict(zip(loop.before, names, strict=True))})
    for value in loop.body:
        if value.op == "over_cols":
            reduce(inner, value)
    late = list(_assigned(inner, loop, names))
    for name, kept in late:
        inner.line(f"{name} = {kept}")
    outer.lines += inner.lines
    outer.env.update({end: name for end, name in zip(loop.ends, names, strict=True) if end is not None})


def _assigned(inner: ScopeStatements, loop: RerolledLoop, names: list[str]) -> Iterator[tuple[str, str]]:
    """Assign the next states; those whose last value is still to be read are kept aside, and given with their names."""
    for place, (before, after, name) in enumerate(zip(loop.before, loop.after, names, strict=True)):
        left = loop.after[place + 1 :]
        if any(_reads(inner, later, before) for later in left):
            kept = inner.assign(after, inner.names.free(f"next_{name}"))
            inner.env[after] = kept
            yield name, kept
        elif after in inner.env:
            inner.line(f"{name} = {inner.env[after]}")
        else:
            inner.assign(after, name)


def _reads(scope: ScopeStatements, value: TileValue, wanted: TileValue) -> bool:
    """Whether writing a value would still write another by its name."""
    if value is wanted:
        return True
    return value not in scope.env and any(_reads(scope, arg, wanted) for arg in value.args)


MOST_CHARACTERS = 400
QUOTE = '"""'


def docstring(lines: tuple[str, ...]) -> list[str]:
    """A docstring of several lines."""
    return [INDENT + QUOTE, *(f"{INDENT}{line}" if line else "" for line in lines), INDENT + QUOTE]


def sentence_docstring(text: str, line_length: int) -> list[str]:
    """A docstring of one sentence, wrapped between words; a text without end is cut after a word."""
    sentence = _sentence(text)
    if len(INDENT) + len(sentence) + 2 * len(QUOTE) <= line_length:
        return [f"{INDENT}{QUOTE}{sentence}{QUOTE}"]
    first, *rest = textwrap.wrap(sentence, line_length - len(INDENT), initial_indent=" " * len(QUOTE))
    if not rest:  # a formatter would put the closing quotes behind a single line, where they do not fit
        first, *rest = textwrap.wrap(sentence, line_length - len(INDENT) - len(QUOTE), initial_indent=" " * len(QUOTE))
    return [INDENT + QUOTE + first.strip(), *(INDENT + line for line in rest), INDENT + QUOTE]


def _sentence(text: str) -> str:
    words = " ".join(
        "".join(c for c in text.replace('"', "'") if c != "\\" and (c.isprintable() or c.isspace())).split()
    )
    short = textwrap.shorten(words, MOST_CHARACTERS, placeholder=" ...")
    return short if short.endswith(".") else f"{short}."


def function(style: SourceStyle, name: str, arguments: list[str], lines: list[str]) -> str:
    """A function of the module."""
    return "\n".join([*definition(style, 0, name, arguments), *fitted(style, lines, 1)])


def definition(style: SourceStyle, depth: int, name: str, arguments: list[str]) -> list[str]:
    """The line that opens a function, or one line for each argument where that is too long."""
    line = f"{INDENT * depth}def {name}({', '.join(arguments)}):"
    if len(line) <= style.line_length:
        return [line]
    return [f"{INDENT * depth}def {name}(", *(f"{INDENT * (depth + 1)}{a}," for a in arguments), f"{INDENT * depth}):"]


def fitted(style: SourceStyle, lines: list[str], depth: int) -> list[str]:
    """Indent lines; one that is a call, and too long, has its arguments one a line."""
    result = []
    for line in lines:
        text = INDENT * depth + line if line else ""
        opening = line.find("(")
        whole = line.endswith(")") and opening_of(line) == opening and is_call(line, opening)
        if len(text) <= style.line_length or not whole:
            result.append(text)
            continue
        indent = text[: len(text) - len(text.lstrip())]
        head, _, rest = text.strip().partition("(")
        result.append(f"{indent}{head}(")
        result += [f"{indent}{INDENT}{argument}," for argument in split_arguments(rest[:-1])]
        result.append(f"{indent})")
    return result


Method = tuple[str, Sequence[str], list[str]]  # name, arguments after ``ctx``, lines


def autograd_function(
    style: SourceStyle, name: str, sentence: str, methods: Iterable[Method], decorators: Sequence[str] = ()
) -> str:
    """A subclass of ``torch.autograd.Function``."""
    text = [f"class {name}(torch.autograd.Function):", *sentence_docstring(sentence, style.line_length)]
    for method, arguments, lines in methods:
        text += ["", *(f"{INDENT}@{decorator}" for decorator in ("staticmethod", *decorators))]
        text += [*definition(style, 1, method, ["ctx", *arguments]), *fitted(style, lines, 2)]
    return "\n".join(text)


QUOTES = '"""'


def wrapped(source: str, line_length: int) -> str:
    """Break long lines at their last pair of parentheses; docstrings stay as they are."""
    lines: list[str] = []
    quoted = False
    for line in source.splitlines():
        quoted ^= line.count(QUOTES) % 2 == 1
        code = not quoted and QUOTES not in line and not line.lstrip().startswith("#")
        lines += _broken(line, line_length) if code and len(line) > line_length else [line]
    return "\n".join(lines) + "\n"


# What a line ends with behind its last parentheses, and behind those before a cast.
_END, _CAST = re.compile(r"\):?$"), re.compile(r"\)\.to\(tl\.\w+\)$")


def _broken(line: str, line_length: int) -> list[str]:
    indent = line[: len(line) - len(line.lstrip())]
    if line.endswith("]("):  # a long grid
        head, _, grid = line.removesuffix("](").partition("[")
        return [f"{head}[", f"{indent}{INDENT}{grid}", f"{indent}]("]
    cast = _CAST.search(line)
    found = cast if cast and line.rfind("(") >= line_length else _END.search(line)
    opening = opening_of(line[: found.start()] + ")") if found else None
    if found is None or opening is None:
        return [line]
    end = found.group()
    inside = line[opening + 1 : len(line) - len(end)]
    if " = " in line and not is_call(line, opening) and len([*_pieces(line, " * ")]) > 2:
        return _enclosed(line, indent, line_length)
    if len(indent) + len(INDENT) + len(inside) <= line_length:
        return [line[: opening + 1], f"{indent}{INDENT}{inside}", indent + end]
    arguments = split_arguments(inside)
    # A comma behind what is in parentheses for its order alone would make a tuple of it.
    comma = "," * (is_call(line, opening) or len(arguments) > 1 or inside.endswith(","))
    length = line_length - len(indent + INDENT) - len(comma)
    parts = [text for part in arguments for text in _operands(part, length, comma)]
    return [line[: opening + 1], *(indent + INDENT + part for part in parts), indent + end]


def _enclosed(line: str, indent: str, line_length: int) -> list[str]:
    """A long product that is assigned, in parentheses, with a factor a line where it needs more than one."""
    head, _, value = line.partition(" = ")
    inner = indent + INDENT
    first, *rest = [value] if len(inner + value) <= line_length else _pieces(value, " * ")
    return [f"{head} = (", inner + first, *(f"{inner}* {factor}" for factor in rest), f"{indent})"]


def is_call(line: str, opening: int) -> bool:
    """Whether a parenthesis has arguments, of which the last may be followed by a comma."""
    before = line[opening - 1 : opening]
    return before.isidentifier() or before.isdigit() or before in {")", "]"}


def _operands(argument: str, length: int, comma: str) -> list[str]:
    """An argument with what follows it; of a long one an operand a line, of the operator that binds least."""
    if len(argument) > length:
        for operator in (" | ", " & ", " + "):
            first, *rest = _pieces(argument, operator)
            if rest:
                *others, last = (f"{operator.lstrip()}{piece}" for piece in rest)
                return [first, *others, last + comma]
    return [argument + comma]


def opening_of(line: str) -> int | None:
    """The place of the parenthesis that the last one closes."""
    depth = 0
    for position in range(len(line) - 1, -1, -1):
        depth += (line[position] in ")]}") - (line[position] in "([{")
        if depth == 0:
            return position
    return None


def split_arguments(text: str) -> list[str]:
    """Split at the commas that are in no parentheses."""
    return [part for part in (piece.strip() for piece in _pieces(text)) if part]


def _pieces(text: str, separator: str = ",") -> Iterator[str]:
    depth, start = 0, 0
    for position, character in enumerate(text):
        depth += (character in "([{") - (character in ")]}")
        if depth == 0 and text.startswith(separator, position):
            yield text[start:position]
            start = position + len(separator)
    yield text[start:]


def prefixed(source: str, style: SourceStyle) -> str:
    """Prefix every top-level name as the style does; what the style names itself keeps its name."""
    named = {style.forward_function, style.backward_function, style.function_class, style.entry}
    own = [name for name in _top_level(source) if name not in named]
    table = {name: _joined(style.prefix, name.lstrip("_")) for name in own if not name.startswith(style.prefix)}
    if not table:
        return source
    names = "|".join(sorted(map(re.escape, table), key=len, reverse=True))
    return re.sub(rf"(?<![\w.])(?:{names})(?!\w)", lambda match: table[match.group()], source)


def _joined(prefix: str, name: str) -> str:
    """A name with its prefix; what both have in common at the seam appears once."""
    shared = max(i for i in range(len(name)) if i == 0 or (name[i - 1] == "_" and prefix.endswith(f"_{name[:i]}")))
    return prefix + name[shared:]


def _top_level(source: str) -> list[str]:
    names = []
    for node in ast.parse(source).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.append(node.name)
        elif isinstance(node, ast.Assign):
            names += [target.id for target in node.targets if isinstance(target, ast.Name)]
    return names
