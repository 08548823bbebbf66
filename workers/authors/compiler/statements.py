"""Statements of a kernel's body: which values get a name, and which stay inside the expression that uses them. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from workers.authors.compiler.expressions import TRITON, Dialect, Text, compose
from workers.authors.compiler.naming import Names
from workers.authors.compiler.values import Value

# An expression that is longer than this is split at its longest part.
EXPRESSION_WIDTH = 76
INDENT = "    "
TRIVIAL = {"const", "scalar"}


class Statements:
    """Lines of one scope. ``env`` holds what has a name already; ``shared`` what deserves one, being used more than once."""

    def __init__(
        self, names: Names, scalar: Callable[[str], Text], shared: set[Value], depth: int, dialect: Dialect = TRITON
    ) -> None:
        self.lines: list[str] = []
        self.env: dict[Value, str] = {}
        self.names = names
        self._scalar = scalar
        self._shared = shared
        self.depth = depth
        self._dialect = dialect

    def line(self, text: str) -> None:
        """Write a line at the scope's depth; an empty text is an empty line."""
        self.lines.append(INDENT * self.depth + text if text else "")

    def operand(self, value: Value) -> Text:
        """Write a value as part of an expression; values used more than once are named first."""
        if value in self.env:
            return Text(self.env[value])
        if value.op == "scalar":
            return self._scalar(str(value.datum))
        if value in self._shared and value.op not in TRIVIAL:
            return Text(self.assign(value))
        return compose(value, self._dialect, self.operand)

    def assign(self, value: Value, name: str | None = None) -> str:
        """Give a value a name, and say so in a line of its own."""
        text = self.fitted(value)
        chosen = name or self.names.of(value)
        self.line(f"{chosen} = {text}")
        self.env[value] = chosen
        return chosen

    def fitted(self, value: Value, width: int = EXPRESSION_WIDTH) -> str:
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

    def reduced(self, value: Value) -> str:
        """Write what a reduction takes in: by its name where it has one or deserves one."""
        return self.operand(value).text if value in self.env or value in self._shared else self.fitted(value)

    def prepare(self, value: Value) -> None:
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

    def written(self, value: Value) -> str:
        """Write a value, its own name left aside."""
        if value in self.env:
            return self.env[value]
        if value.op == "scalar":
            return self._scalar(str(value.datum)).text
        return compose(value, self._dialect, self.operand).text


def worth_naming(counts: dict[Value, int], always: Iterable[Value] = ()) -> set[Value]:
    """Give the values that are used more than once, or named for another reason."""
    named = {value for value, count in counts.items() if count > 1 and value.args}
    return {value for value in named if value.op != "neg" or value.args[0].args} | set(always)
