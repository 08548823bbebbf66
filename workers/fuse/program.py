"""The program of a cut: what stays with torch, in the model's order, around calls of the parts. Pure.

With the references of the parts it is the refactored PyTorch program, with their proved kernels the composed one.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from gpu_runner.contracts import Composed, Status, Verdict
from workers.authors.kernelbench import model_new
from workers.authors.llm.protocol import AnswerFault, UnusableAnswer
from workers.contracts import Failure, FailureCode
from workers.fuse.cut import Cut, in_order
from workers.fuse.operators import OperatorKind
from workers.fuse.part import call_of, renamed_size
from workers.fuse.traced import Traced

ENTRY = "candidate"
ALIKE = "in_one_dtype"
_ALIKE = f'''def {ALIKE}(*given):
    """What autocast hands on in several dtypes, in the widest of them, as the part's operators would compute it."""
    if not torch.is_autocast_enabled(given[0].device.type):
        return given
    widest = functools.reduce(torch.promote_types, [x.dtype for x in given if x.is_floating_point()])
    return [x.to(widest) if x.is_floating_point() and x.dtype != widest else x for x in given]


'''


@dataclass(frozen=True)
class Program:
    """A standalone file. Torch computes at ``torch_lines``; ``calls`` says how often one forward calls each part."""

    source: str
    torch_lines: tuple[int, ...]
    calls: Mapping[str, int]


def program(traced: Traced, cut: Cut, bodies: Mapping[str, str], title: str) -> Program:
    """The program in which the parts of ``bodies`` are functions of these sources; all other operators are torch's."""
    used = [name for name in cut.parts if name in bodies]
    traced = traced.rejoined(cut.inside(used))
    glue, calls = _glue(traced, cut, used)
    shared = _ALIKE if any(f"(*{ALIKE}(" in line for line, _ in glue) else ""
    imports = _imports_of([*(bodies[name] for name in used), "import functools\n" if shared else ""])
    head = f'"""{title}"""\n\n{imports}\n\n\n'
    before = head + "".join(f"{split(bodies[name])[1].strip()}\n\n\n" for name in used) + shared
    first = before.count("\n") + 1
    torch_lines = [first + place for place, (_, is_torch) in enumerate(glue) if is_torch]
    source = before + "".join(f"{line}\n" for line, _ in glue)
    if traced.is_model:
        source += model_new(traced.problem, traced.tied)
    return Program(source, tuple(torch_lines), Counter(calls))


def refactored(traced: Traced, cut: Cut) -> str:
    """The model with its parts as functions of PyTorch."""
    references = {name: f"import torch\n\n\n{part.function}" for name, part in cut.parts.items()}
    return program(traced, cut, references, "The model with its parts as functions of PyTorch.").source


def composed_of(traced: Traced, cut: Cut, bodies: Mapping[str, str]) -> Program:
    """The model with the proved parts of ``bodies``."""
    return program(traced, cut, bodies, "The model, with its parts computed by the kernels below.")


@dataclass(frozen=True)
class Claim:
    """What is to be judged of a program: a callable in it against a problem, and where torch computes."""

    symbol: str
    problem: str
    composed: Composed


def claims(traced: Traced, source: str, composed: Composed) -> tuple[Claim, ...]:
    """A program's function with all gradients, then, of a model, the module that calls it: of that the verdict runs no backward."""
    function = Claim(ENTRY, traced.problem.source, composed)
    return (function, Claim("ModelNew", source, Composed(composed.torch_lines, ()))) if traced.is_model else (function,)


def torch_anywhere(source: str) -> Composed:
    """The claim of a program without kernels."""
    return Composed(tuple(range(1, source.count("\n") + 1)), ())


def first_failing(verdicts: Iterable[Verdict]) -> Verdict:
    """The first verdict that is not passed, else the first one; none is asked for behind it."""
    first: Verdict | None = None
    for verdict in verdicts:
        if verdict.status is not Status.passed:
            return verdict
        first = first or verdict
    assert first is not None, "a program has a claim"
    return first


def why(verdict: Verdict) -> str:
    """A verdict in a sentence."""
    return f"{verdict.status.value}: {verdict.evidence[0].message}" if verdict.evidence else verdict.status.value


def cut_failure(verdict: Verdict) -> Failure:
    """A cut that changes what is computed is a fault of the cut; of a model that any program would pass for nothing can be said."""
    if verdict.status is Status.degenerate_problem:
        return Failure(FailureCode.problem, f"the model cannot be judged: {why(verdict)}")
    message = f"cut into parts, the model already computes something else in PyTorch: {why(verdict)}"
    return Failure(FailureCode.refused, message)


def moved(whole: Program, formatted: str) -> Program | None:
    """The same program as a formatter left it, with the lines at which torch computes there; None where it is another one."""
    before, after = _body(whole.source), _body(formatted)
    if list(map(ast.dump, before)) != list(map(ast.dump, after)):
        return None
    torch = [new for old, new in zip(before, after, strict=True) if old.lineno in whole.torch_lines]
    lines = (line for node in torch for line in range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return Program(formatted, tuple(lines), whole.calls)


def _body(source: str) -> list[ast.stmt]:
    return next(n.body for n in ast.parse(source).body if isinstance(n, ast.FunctionDef) and n.name == ENTRY)


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
            given, floating = ", ".join(where.inputs), [traced.nodes[n].meta.dtype for n in where.inputs]
            given = f"*{ALIKE}({given})" if sum("float" in dtype for dtype in floating) > 1 else given
            lines.append((f"    {', '.join(where.outputs)} = {name}({given})", False))
            calls.append(name)
        elif unit not in traced.graph.inputs:
            node = traced.nodes[unit]
            makes = None if node.operands or traced.kind(unit) is not OperatorKind.made else device
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


def entry_of(whole: Program) -> str:
    """The program's own function."""
    return "\n".join(whole.source.splitlines()[slice(*_entry_lines(whole))]) + "\n"


def _entry_lines(whole: Program) -> tuple[int, int]:
    node = next(n for n in ast.parse(whole.source).body if isinstance(n, ast.FunctionDef) and n.name == ENTRY)
    return node.lineno - 1, node.end_lineno or node.lineno


def with_entry(whole: Program, text: str) -> Program:
    """The program with another text of its own function, which does with the same parts and operators what a cut would.

    Raises:
        UnusableAnswer: it does something else.
    """
    before, now = ast.parse(entry_of(whole)).body[0], ast.parse(text).body
    if len(now) != 1 or not isinstance(now[0], ast.FunctionDef) or now[0].name != ENTRY or now[0].decorator_list:
        raise UnusableAnswer(AnswerFault.names, f"the answer is not one function `{ENTRY}`")
    assert isinstance(before, ast.FunctionDef), "a program has a function"
    if ast.dump(before.args) != ast.dump(now[0].args):
        raise UnusableAnswer(AnswerFault.names, f"`{ENTRY}` has other parameters")
    sums = {ast.unparse(part) for part in ast.walk(before) if isinstance(part, ast.BinOp)}
    for node in (part for statement in now[0].body for part in ast.walk(statement)):
        is_changed = isinstance(node, ast.Attribute | ast.Subscript) and isinstance(node.ctx, ast.Store)
        if (
            not isinstance(node, _STRAIGHT)
            or is_changed
            or (isinstance(node, ast.BinOp) and ast.unparse(node) not in sums)
        ):
            where = getattr(node, "lineno", now[0].lineno)
            raise UnusableAnswer(
                AnswerFault.reach, f"`{ENTRY}` has {type(node).__name__} in line {where}, which is no call"
            )
    known, calls = _calls(before), _calls(now[0])
    more = [name for name in calls if calls[name] > known[name]]
    less = [name for name in whole.calls if calls[name] < known[name]]
    if more or less:
        name = (more or less)[0]
        raise UnusableAnswer(AnswerFault.same, f"`{ENTRY}` calls `{name}` {calls[name]} times, not {known[name]}")
    start, end = _entry_lines(whole)
    lines = whole.source.splitlines()
    source = "\n".join([*lines[:start], *text.rstrip("\n").splitlines(), *lines[end:]]) + "\n"
    computing = [node for node in now[0].body if isinstance(node, ast.Assign) or _calls(node)]
    torch = [node for node in computing if not whole.calls.keys() & _calls(node).keys()]
    places = (line for node in torch for line in range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return Program(source, tuple(start + line for line in places), whole.calls)


# What a function of calls alone is made of.
_STRAIGHT = (
    ast.Assign, ast.Delete, ast.Return, ast.Call, ast.keyword, ast.Name, ast.Attribute, ast.Subscript, ast.Slice, ast.Tuple,
    ast.List, ast.Constant, ast.Starred, ast.BinOp, ast.operator, ast.UnaryOp, ast.USub, ast.expr_context, ast.Expr,
)  # fmt: skip


def _calls(node: ast.AST) -> Counter[str]:
    return Counter(ast.unparse(part.func) for part in ast.walk(node) if isinstance(part, ast.Call))


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
