"""Which decisions of a candidate had one outcome in all cases, and what that means for its verdict. Pure."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

import torch

from gpu_runner.contracts.reading import SourceError, parse_bounded, walk
from gpu_runner.contracts.verify import Evidence, SourceFile, Status, Verdict
from gpu_runner.program.coverage import BOTH, HELD, quoted_in, text_of
from gpu_runner.program.language import KERNEL_ARGUMENT_ATTRIBUTES
from gpu_runner.program.scopes import binds, bound_names, free_names, names_in, own_nodes
from gpu_runner.verify.answer import SeenDecision
from gpu_runner.verify.guarding import guarded
from gpu_runner.verify.laying import Laid
from gpu_runner.verify.proof import Proof
from gpu_runner.verify.settings import HostCode

MOST_QUOTED = 5
_SIDES = ("body", "orelse")
IGNORED = -100  # what torch's losses ignore unless they are told another class
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_COMBINING = ("reduce", "associative_scan")  # what a kernel hands its own function to
MOST_FOLLOWED = 64  # decisions of which it is tried whether they change launch settings alone
IMPORTED_LIBRARY = "imported_library"  # the check that says why CPython carried out a call
IN_LIBRARY = "What is decided in some calls was not seen, since code of the library around it cannot be evaluated:"
HINT = "so what it does otherwise was never judged. Let inputs, dimensions or scalars of the problem reach it, or leave it out."


def one_sided(outcomes: Mapping[SeenDecision, int], files: Sequence[SourceFile]) -> tuple[Evidence, ...]:
    """The decisions of one outcome in ``files``, but for those that change the settings of launches alone."""
    written = {file.path for file in files}
    undecided = sorted(decision for decision, seen in outcomes.items() if seen != BOTH and decision.path in written)
    code = dict(_host_code(files)) if undecided else {}
    passed = {decision for decision in undecided[:MOST_FOLLOWED] if _is_of_settings(decision, code.get(decision.path))}
    return tuple(_evidence(decision, outcomes[decision]) for decision in undecided if decision not in passed)


def constants_around(decisions: Iterable[SeenDecision], files: Sequence[SourceFile]) -> list[str]:
    """The ``tl.constexpr`` parameters of the functions in which these decisions stand, in order."""
    found: dict[str, None] = {}
    lines = {(decision.path, decision.line) for decision in decisions}
    for file in files:
        for node in walk(parse_bounded(file.text)) if any(path == file.path for path, _ in lines) else ():
            if isinstance(node, ast.FunctionDef):
                inside = range(node.lineno, (node.end_lineno or node.lineno) + 1)
                if any(path == file.path and line in inside for path, line in lines):
                    given = (*node.args.args, *node.args.kwonlyargs)
                    names = [arg.arg for arg in given if arg.annotation and "constexpr" in ast.unparse(arg.annotation)]
                    found |= dict.fromkeys(names)
    return list(found)


def with_indices_outside(proof: Proof) -> Iterator[Proof]:
    """A case with indices that are too large, what torch ignores, and further below zero by turns; each place has each once.

    Last comes one in which every second index is ignored and none is out of range, which fewer candidates refuse: its answer holds
    what was decided in calls before it that failed.
    """
    large = max((size for _, size in proof.case.sizes), default=1) + 1
    for turn in range(4):
        laid = {
            name: replace(one, raw=_outside(one, large, turn))
            for name, one in proof.laid.items()
            if one.raw.dtype in (torch.int32, torch.int64)
        }
        if laid:
            yield replace(proof, laid=proof.laid | laid, uses=(), other=None)


def _outside(laid: Laid, large: int, turn: int) -> torch.Tensor:
    raw = laid.raw.clone()
    own = laid.elements(raw)
    places = torch.arange(own.numel()).reshape(own.shape)
    most = max(large, int(own.max()) + 1) if own.numel() else large
    if turn < 3:
        own.copy_(torch.tensor((most, IGNORED, IGNORED - most))[(places + turn) % 3])
    else:
        own[places % 2 == 0] = IGNORED
    return raw


def _evidence(decision: SeenDecision, outcome: int) -> Evidence:
    is_role = re.fullmatch(r"(`.*`(?: \(.*?\))?) is ([^`]*)", decision.text)
    if is_role:
        message = "{} was {} {}.".format(is_role[1], "always" if outcome == HELD else "never", is_role[2])
    else:
        message = f"{decision.text} was always {_word(outcome)}."
    return Evidence("one_sided", message, line=decision.line)


def _word(outcome: int) -> str:
    return "true" if outcome == HELD else "false"


def _host_code(files: Sequence[SourceFile]) -> Iterator[tuple[str, HostCode]]:
    words = {file.path: frozenset(re.findall(r"\w+", file.text)) for file in files}
    for file in files:
        try:
            tree = parse_bounded(file.text)
        except SourceError:
            continue
        elsewhere = frozenset().union(*(known for path, known in words.items() if path != file.path))
        yield file.path, HostCode(tree, elsewhere)


def _is_of_settings(decision: SeenDecision, code: HostCode | None) -> bool:
    if code is None:
        return False
    nodes = [node for node in code.at(decision.line, decision.column) if decision.text.startswith(text_of(node))]
    return bool(nodes) and all(code.changes_settings_alone(node) for node in nodes)


def demanded(verdict: Verdict, files: Sequence[SourceFile], original: Mapping[str, str]) -> Verdict:
    """Prove nothing of a candidate in which a decision had one outcome, unless a statement of the original decides the same.

    Of one with statements in it, what it does on the other side must be the original's too. ``original`` are its texts by path.
    Where code of the library cannot be evaluated, a guard may always hold in front of what the original says word for word.
    """
    if verdict.status is not Status.passed or verdict.quick:
        return verdict
    before = [node for text in original.values() for node in walk(parse_bounded(text)) if isinstance(node, ast.stmt)]
    known = {(_head(node), *side) for node in before for side in _sides(node)}
    statements = [_statements_by_line(file.text) for file in files] if known else []

    def is_known(evidence: Evidence) -> bool:
        text = quoted_in(evidence.message)
        nodes = [by_line[evidence.line] for by_line in statements if evidence.line in by_line]
        return any(
            text in head and all((head, *side) in known for side in _other_sides(node, evidence.message, text))
            for node in nodes
            for head in (_head(node),)
        )

    new = [evidence for evidence in verdict.one_sided if not is_known(evidence)]
    if any(check.name == IMPORTED_LIBRARY for check in verdict.checks):
        changed = [file for file in files if file.text != original.get(file.path)]
        # Of several what one leaves to the original's statements may be what another has changed.
        is_alone = len(changed) == 1 and changed[0].path in original
        guards = guarded(changed[0].text, original[changed[0].path]) if is_alone else ()
        held = {(line, f"{text} was always true.") for line, text in guards}
        new = [evidence for evidence in new if (evidence.line, evidence.message) not in held]
    if not new:
        return verdict
    evidence = [replace(each, message=f"{each.message.removesuffix('.')}, {HINT}") for each in new[:MOST_QUOTED]]
    evidence += [
        Evidence(IMPORTED_LIBRARY, f"{IN_LIBRARY} {check.workload}")
        for check in verdict.checks
        if check.name == IMPORTED_LIBRARY
    ]
    return replace(verdict, status=Status.unproved, rule="one-sided", evidence=tuple(evidence))


def _sides(node: ast.stmt) -> Iterator[tuple[str, str]]:
    """What a statement does on each of its sides; of most it is the statement itself."""
    if not isinstance(node, ast.If):
        yield "", ""
        return
    for name in _SIDES:
        yield name, "\n".join(map(ast.unparse, getattr(node, name)))


def _other_sides(node: ast.stmt, message: str, text: str) -> list[tuple[str, str]]:
    """Of the sides of a statement those that one outcome of a decision in it has left out; both where that is not plain."""
    sides = list(_sides(node))
    match = re.match(r" was always (true|false)\.", message.removeprefix(f"`{text}`"))
    if not isinstance(node, ast.If) or match is None:
        return sides
    is_turned = isinstance(node.test, ast.UnaryOp) and ast.unparse(node.test.operand) == text
    if not is_turned and any(isinstance(part, ast.Not) for part in walk(node.test)):
        return sides
    return [side for side in sides if (side[0] == "orelse") is ((match[1] == "true") is not is_turned)]


def _statements_by_line(text: str) -> dict[int | None, ast.stmt]:
    """The innermost statement of each line."""
    statements: dict[int | None, ast.stmt] = {}
    for node in walk(parse_bounded(text)):  # from the outside in
        if isinstance(node, ast.stmt):
            statements |= dict.fromkeys(range(node.lineno, (node.end_lineno or node.lineno) + 1), node)
    return statements


def _head(node: ast.stmt) -> str:
    """What a statement says but for the statements in it; of a match all."""
    if isinstance(node, ast.Match) or not isinstance(getattr(node, "body", None), list):
        return ast.unparse(node)
    inside = ("body", "orelse", "finalbody", "handlers")
    empty: dict[str, list[ast.stmt]] = {name: [] for name in inside if hasattr(node, name)}
    emptied = type(node)(**dict(ast.iter_fields(node)) | empty | {"body": [ast.Pass()]})
    return ast.unparse(ast.copy_location(emptied, node))


def kept_functions(files: Sequence[SourceFile], original: Iterable[str]) -> frozenset[str]:
    """Functions of ``files`` that say what an original says, with all that they name: what they decide is the original's.

    Of what ``files`` import nothing is compared: they do not write it. A function that calls what it is given is none of them,
    since its caller decides what it does.
    """
    now = all_bindings(file.text for file in files)
    kept = {name for name, nodes in now.items() if not any(map(_calls_what_it_is_given, nodes))}
    return alike(now, all_bindings(original), kept)


def all_bindings(texts: Iterable[str]) -> dict[str, list[ast.stmt]]:
    """The statements of modules that bind or change each name, and each function of that name."""
    bindings: dict[str, list[ast.stmt]] = {}
    for text in texts:
        for name, nodes in _bindings(text).items():
            bindings.setdefault(name, []).extend(nodes)
    return bindings


def named_by(nodes: Iterable[ast.stmt]) -> frozenset[str]:
    """The names that statements take from the module around them."""
    return frozenset().union(*map(free_names, nodes))


def alike(
    now: Mapping[str, list[ast.stmt]],
    before: Mapping[str, list[ast.stmt]],
    among: set[str],
    fixed: frozenset[str] = frozenset(),
) -> frozenset[str]:
    """The names of which the same is said as before, and of all that it names but what is ``fixed``."""
    known = {ast.unparse(node) for nodes in before.values() for node in nodes}
    same = {name for name in among if all(ast.unparse(node) in known for node in now[name])}
    named = {name: named_by(nodes) & now.keys() for name, nodes in now.items()}
    while lost := {name for name in same if not named[name] <= same | fixed}:
        same -= lost
    return frozenset(same)


def functions_of(files: Sequence[SourceFile]) -> frozenset[str]:
    """The names of all functions that ``files`` define, wherever in them."""
    trees = [parse_bounded(file.text) for file in files]
    return frozenset(node.name for tree in trees for node in walk(tree) if isinstance(node, _FUNCTIONS))


def line_of(text: str, name: str) -> int | None:
    """The line at which a module last binds a name; None where it does not."""
    bound = _bindings(text).get(name, [])
    return max((statement.lineno for statement in bound), default=None)


def _bindings(text: str) -> dict[str, list[ast.stmt]]:
    """By name of a module, the statements that may say what it stands for: those that bind it, change something of it or hand it
    on for an effect, and each function of that name, wherever it stands."""
    try:
        tree = parse_bounded(text)
    except SourceError:
        return {}
    bindings: dict[str, list[ast.stmt]] = {}
    for statement in tree.body:
        for name in set(_affected(statement)):
            bindings.setdefault(name, []).append(statement)
    for node in walk(tree):
        if isinstance(node, _FUNCTIONS):
            bindings.setdefault(node.name, []).append(node)
        elif isinstance(node, ast.Global):
            for name in node.names:
                bindings.setdefault(name, []).append(node)
    return bindings


def _affected(statement: ast.stmt) -> Iterator[str]:
    for node in own_nodes(statement):
        yield from binds(node)
        if (isinstance(node, ast.Attribute | ast.Subscript) and not isinstance(node.ctx, ast.Load)) or isinstance(
            node, ast.Expr
        ):
            yield from names_in(node)


def _calls_what_it_is_given(node: ast.stmt) -> bool:
    """Whether a function calls a parameter or something of one, or hands one to a reduction; what another may assign counts too."""
    if isinstance(node, ast.Global | ast.AsyncFunctionDef):
        return True
    if not isinstance(node, ast.FunctionDef):
        return False
    given = bound_names(node)[0]
    for call in (part for part in walk(node) if isinstance(part, ast.Call)):
        name = getattr(call.func, "attr", getattr(call.func, "id", ""))
        run = [] if name in KERNEL_ARGUMENT_ATTRIBUTES else [call.func]
        if name in _COMBINING:
            run += [*call.args[1:], *(each.value for each in call.keywords)]
        if any(names_in(each) & given for each in run):
            return True
    return False
