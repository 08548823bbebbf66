"""The program of a cut: what stays with torch, in the model's order, around calls of the parts. Pure.

With the references of the parts it is the refactored PyTorch program, with their proved kernels the composed one.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from workers.authors.kernelbench import model_new
from workers.fuse.cut import Cut, in_order
from workers.fuse.operators import Kind
from workers.fuse.part import call_of, renamed_size
from workers.fuse.traced import Traced, sources

ENTRY = "candidate"


@dataclass(frozen=True)
class Program:
    """A standalone file. Torch computes at ``torch_lines``; ``calls`` says how often one forward calls each part."""

    source: str
    torch_lines: tuple[int, ...]
    calls: Mapping[str, int]


def program(traced: Traced, cut: Cut, bodies: Mapping[str, str], title: str) -> Program:
    """The program in which the parts of ``bodies`` are functions of these sources; all other operators are torch's."""
    used = [name for name in cut.parts if name in bodies]
    imports, texts = _imports_of(bodies[name] for name in used), [split(bodies[name])[1] for name in used]
    head = f'"""{title}"""\n\n{imports}\n\n\n'
    before = head + "".join(f"{text.strip()}\n\n\n" for text in texts)
    glue, calls = _glue(traced, cut, used)
    first = before.count("\n") + 1
    torch_lines = [first + place for place, (_, is_torch) in enumerate(glue) if is_torch]
    source = before + "".join(f"{line}\n" for line, _ in glue)
    if traced.is_model:
        source += model_new(traced.problem, traced.tied)
    return Program(source, tuple(torch_lines), Counter(calls))


def split(source: str) -> tuple[list[str], str]:
    """The import lines at the beginning of a file, and the rest as it is."""
    lines, end, found = source.splitlines(keepends=True), 0, []
    for node in ast.parse(source).body:
        if isinstance(node, ast.Import | ast.ImportFrom):
            found.append(ast.unparse(node))
        elif not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)):
            break
        end = node.end_lineno or 0
    return found, "".join(lines[end:])


def _imports_of(sources: Iterable[str]) -> str:
    lines = {line for source in sources for line in split(source)[0]} | {"import torch"}
    plain = sorted(line for line in lines if line.startswith("import "))
    return "\n".join([*plain, *sorted(lines - set(plain))])


def _glue(traced: Traced, cut: Cut, used: Sequence[str]) -> tuple[list[tuple[str, bool]], list[str]]:
    """The lines of the program's own function, each with whether torch computes there; and the parts as they are called."""
    places = {where.nodes[0]: (name, where) for name in used for where in cut.places[name]}
    owner = {name: name for name in traced.nodes}
    owner |= {node: where.nodes[0] for _, where in places.values() for node in where.nodes}
    parameters = traced.problem.parameters
    names = {name: name for name in traced.nodes}
    sizes = {spec.name: spec.name for spec in traced.problem.scalars} | _sizes(traced)
    device = next(f"{spec.name}.device" for spec in traced.problem.inputs)
    lines: list[tuple[str, bool]] = [(f"def {ENTRY}({', '.join(parameters)}):", False)]
    calls = []
    for unit in in_order(traced, owner):
        if unit in places:
            name, where = places[unit]
            lines.append((f"    {', '.join(where.outputs)} = {name}({', '.join(where.inputs)})", False))
            calls.append(name)
        elif unit not in traced.graph.inputs:
            node = traced.nodes[unit]
            makes = None if sources(node) or traced.kind(unit) is not Kind.made else device
            lines.append((f"    {unit} = {call_of(node, names, lambda text: renamed_size(text, sizes), makes)}", True))
    outputs = traced.graph.outputs
    comma = "," if traced.graph.tuple_output and len(outputs) == 1 else ""
    return [*lines, (f"    return {', '.join(outputs)}{comma}", False)], calls


def _sizes(traced: Traced) -> dict[str, str]:
    found: dict[str, str] = {}
    for spec in traced.problem.inputs:
        for place, dim in enumerate(spec.dims):
            if not dim.isdigit():
                found.setdefault(dim, f"{spec.name}.shape[{place}]")
    return found


def faults(source: str, expected: Program, bodies: Mapping[str, str]) -> list[str]:
    """What a composed file does otherwise than was proved, a sentence each: parts that are others, or are not called."""
    found = [
        f"the part `{n}` is not the one that was proved"
        for n in expected.calls
        if split(bodies[n])[1].strip() not in source
    ]
    try:
        tree = ast.parse(source)
    except SyntaxError as error:
        return [f"it cannot be read: {error.msg}"]
    entry = next((n for n in tree.body if isinstance(n, ast.FunctionDef) and n.name == ENTRY), None)
    if entry is None:
        return [*found, f"it has no function `{ENTRY}`"]
    called = [n.func for n in ast.walk(entry) if isinstance(n, ast.Call)]
    counts = Counter(f.id for f in called if isinstance(f, ast.Name))
    for name, count in expected.calls.items():
        if counts[name] != count:
            found.append(f"the part `{name}` is called {counts[name]} times, not {count}")
    if not found and source != expected.source:
        pairs = zip(source.splitlines(), expected.source.splitlines(), strict=False)
        line = next((number for number, (a, b) in enumerate(pairs, 1) if a != b), len(source.splitlines()))
        found.append(f"line {line} is not what the cut composes to")
    return found
