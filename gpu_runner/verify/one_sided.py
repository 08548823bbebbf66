"""Which decisions of a candidate had one outcome in all cases, and what that means for its verdict. Pure."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

import torch

from gpu_runner.contracts.reading import SourceError, parse_bounded
from gpu_runner.contracts.verify import Evidence, SourceFile, Status, Verdict
from gpu_runner.program.coverage import BOTH, HELD, text_of
from gpu_runner.program.scopes import names_in
from gpu_runner.verify.answer import Decision
from gpu_runner.verify.laying import Laid
from gpu_runner.verify.proof import Proof
from gpu_runner.verify.settings import HostCode

MOST_QUOTED = 5
IGNORED = -100  # what torch's losses ignore unless they are told another class
MOST_FOLLOWED = 64  # decisions of which it is tried whether they change launch settings alone
HINT = "so what it does otherwise was never judged. Let inputs, dimensions or scalars of the problem reach it, or leave it out."


def one_sided(outcomes: Mapping[Decision, int], files: Sequence[SourceFile]) -> tuple[Evidence, ...]:
    """The decisions of one outcome in ``files``, but for those that change the settings of launches alone."""
    written = {file.path for file in files}
    found = sorted(decision for decision, seen in outcomes.items() if seen != BOTH and decision.path in written)
    code = dict(_host_code(files)) if found else {}
    passed = {decision for decision in found[:MOST_FOLLOWED] if _is_of_settings(decision, code.get(decision.path))}
    return tuple(_evidence(decision, outcomes[decision]) for decision in found if decision not in passed)


def with_indices_outside(proof: Proof) -> Iterator[Proof]:
    """A case with every second index of its inputs too large, or far below zero; and with these the other way round."""
    large = max((size for _, size in proof.case.sizes), default=1) + 1
    for turn in (0, 1):
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
    own.copy_(torch.where(places % 2 == turn, most, IGNORED))
    return raw


def _evidence(decision: Decision, outcome: int) -> Evidence:
    is_role = re.fullmatch(r"(`.*`(?: \(.*?\))?) is ([^`]*)", decision.text)
    message = (
        "{} was never {}.".format(*is_role.groups()) if is_role else f"{decision.text} was always {_word(outcome)}."
    )
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


def _is_of_settings(decision: Decision, code: HostCode | None) -> bool:
    if code is None:
        return False
    nodes = [node for node in code.at(decision.line, decision.column) if decision.text.startswith(text_of(node))]
    return bool(nodes) and all(code.changes_settings_alone(node) for node in nodes)


def demanded(verdict: Verdict, original: Mapping[str, str]) -> Verdict:
    """Prove nothing of a candidate in which a decision had one outcome, unless the original decides the same in the same words."""
    if verdict.status is not Status.passed or verdict.quick:
        return verdict
    known = "\n".join(ast.unparse(parse_bounded(text)) for text in original.values())
    new = [evidence for evidence in verdict.one_sided if _quoted(evidence.message) not in known]
    if not new:
        return verdict
    evidence = [replace(each, message=f"{each.message.removesuffix('.')}, {HINT}") for each in new[:MOST_QUOTED]]
    return replace(verdict, status=Status.unproved, rule="one-sided", evidence=tuple(evidence))


def kept_functions(files: Sequence[SourceFile], original: Iterable[str]) -> frozenset[str]:
    """Functions of ``files`` that say what an original says, with all that they name: what they decide is the original's.

    Of what ``files`` import nothing is compared: they do not write it.
    """
    before = [_defined([text]) for text in original]
    now = _defined([file.text for file in files])

    def is_kept(name: str, on_the_way: frozenset[str] = frozenset()) -> bool:
        nodes = now.get(name, [])
        return all(
            any(ast.unparse(node) in map(ast.unparse, known.get(name, [])) for known in before)
            and all(is_kept(one, on_the_way | {name}) for one in names_in(node) - on_the_way - {name})
            for node in nodes
        )

    return frozenset(name for name in now if is_kept(name))


def _defined(texts: Iterable[str]) -> dict[str, list[ast.stmt]]:
    """The statements by which modules define functions, classes, constants and imported names; under a condition several."""
    found: dict[str, list[ast.stmt]] = {}
    for text in texts:
        try:
            left: list[ast.AST] = list(parse_bounded(text).body)
        except SourceError:
            continue
        while left:
            node = left.pop()
            if not isinstance(node, ast.stmt):
                continue
            for name in _bound_by(node):
                found.setdefault(name, []).append(node)
            if not isinstance(node, ast.FunctionDef | ast.ClassDef):
                left += ast.iter_child_nodes(node)
    return found


def _bound_by(node: ast.stmt) -> Iterable[str]:
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        return (node.name,)
    if isinstance(node, ast.Import | ast.ImportFrom):
        return [(alias.asname or alias.name).partition(".")[0] for alias in node.names]
    if isinstance(node, ast.Assign | ast.AnnAssign | ast.AugAssign):
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        return [part.id for target in targets for part in ast.walk(target) if isinstance(part, ast.Name)]
    return ()


def _quoted(message: str) -> str:
    return message.partition("`")[2].partition("`")[0].removesuffix("…")
