"""What a program computes, as readable mathematics. Pure."""

from __future__ import annotations

from workers.authors.compiler.expressions import COMPARE, FORMULA, Text
from workers.authors.compiler.kernels import Store
from workers.authors.compiler.loops import write_loop
from workers.authors.compiler.naming import Names
from workers.authors.compiler.repetition import repetitions_of
from workers.authors.compiler.statements import Statements, worth_naming
from workers.authors.compiler.values import OFFSET, Value, ordered, use_counts

FORMULA_WIDTH = 96


def formula_lines(names: Names, stores: tuple[Store, ...], columns: str | None = None) -> tuple[str, ...]:
    """Give one line for each tensor, after the lines that define what is used more than once.

    ``columns`` is the size that reads ``n_cols``.
    """
    fork = names.fork()
    roots = [store.value for store in stores]
    weights = _weights(ordered(roots))
    heavy = {value for value in worth_naming(use_counts(roots)) if weights[value] > 2}

    def scalar(text: str) -> Text:
        text = text.removeprefix(OFFSET)
        text = "n_cols" if text == columns else text
        return Text(text) if text.isidentifier() else Text(text, COMPARE)

    writer = Statements(fork, scalar, heavy, 0, FORMULA)
    for value in ordered(roots):
        if value.op == "load":
            writer.env[value] = names.tensors[str(value.datum)]
        elif value.op == "column":
            writer.env[value] = "column"
        elif value.op == "pick":
            writer.env[value] = f"{names.tensors[str(value.datum)]}[{writer.written(value.args[0])}]"
    for loop in repetitions_of(roots):
        inner = Statements(fork, scalar, heavy, 1, FORMULA)
        write_loop(writer, inner, loop, f"{loop.count} times:", lambda *_: None)
    for store in stores:
        writer.prepare(store.value)
        if writer.env.get(store.value) == store.name:
            continue
        text = writer.fitted(store.value, FORMULA_WIDTH)
        writer.line(f"{store.name} = sum_rows({text})" if store.summed else f"{store.name} = {text}")
        if not store.summed:
            writer.env.setdefault(store.value, store.name)
    return tuple(writer.lines)


def formula(names: Names, store: Store) -> str:
    """Give one tensor's formula in one line."""
    lines = formula_lines(names, (store,))
    result = lines[-1].removeprefix(f"{store.name} = ")
    return result if len(lines) == 1 else f"{result} where {', '.join(line.strip() for line in lines[:-1])}"


def _weights(values: list[Value]) -> dict[Value, int]:
    weights: dict[Value, int] = {}
    for value in values:
        weights[value] = 1 + sum(weights[arg] for arg in value.args if arg.args)
    return weights
