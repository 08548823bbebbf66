"""Beside an original: calls with other constants than a layout's, such as another mode or offset.

A layout calls a kernel in one way, and what is optimized serves all callers. With another constant the candidate must leave the
original's trail, or give its values; what the original refuses is not asked.
"""

from __future__ import annotations

import ast
import math
import random
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from gpu_runner.context import RunContext
from gpu_runner.contracts.reading import parse
from gpu_runner.contracts.verify import CandidateSource, Check, Evidence, SourceFile, Status, Verdict
from gpu_runner.errors import ChildError, ChildFailed, ProtocolError
from gpu_runner.session import ChildSession
from gpu_runner.verify.answer import read_answer, trail_of
from gpu_runner.verify.cases import REPEATED, Content, MemoryLayout
from gpu_runner.verify.compare import rms
from gpu_runner.verify.draws import Draws
from gpu_runner.verify.one_sided import touched_elsewhere
from gpu_runner.verify.opening import ORIGINAL, loaded
from gpu_runner.verify.proof import Proof, make_call
from gpu_runner.verify.screen import screened_files

OTHERWISE = "called_otherwise"
MOST_CALLS, MOST_WORDS = 12, 3  # in all, and of other words in place of one
MOST_RESULTS = 3  # of several of which the layout's call takes one
MOST_PROOFS = 3  # cases in which each is made
FAR = 1e-2  # of the original's values: so far another value of them is, in half precision too


@dataclass(frozen=True)
class _OtherCall:
    symbol: str
    change: str  # such as "`True` in place of `False`"


def called_otherwise(
    verdict: Verdict,
    candidate: CandidateSource,
    original: CandidateSource,
    proofs: Sequence[Proof],
    texts: Collection[str],
    draws: Draws,
    context: RunContext,
) -> Verdict:
    """The verdict, `unproved` where a call with another constant does something else than the original; ``texts`` are its files'.

    Raises:
        RunnerError: the host is at fault.
    """
    form = next((file for file in candidate.files if file in original.files), None)
    if form is None:
        return verdict
    elsewhere = touched_elsewhere(screened_files(candidate), texts, _imported(form.text))
    if elsewhere:
        message = (
            f"`{elsewhere[0]}` depends on what was changed, and no call of the problem reaches it. Leave what it uses unchanged, "
            "and add a function or kernel of its own."
        )
        return _unproved(verdict, Evidence(OTHERWISE, message))
    chosen = list(_chosen(proofs))
    if not chosen:
        return verdict
    written, calls = _written(form.text, candidate.symbol, _words(texts), draws.stream(OTHERWISE))
    if not calls:
        return verdict
    sources = [_with(source, replace(form, text=written)) for source in (candidate, original)]
    context.progress("verify: called with other constants")
    checks: list[Check] = []
    try:
        with (
            loaded("candidate", sources[1], chosen[0].form, context, ORIGINAL, gpu=False) as one,
            loaded("candidate", sources[0], chosen[0].form, context, "called otherwise", gpu=False) as other,
        ):
            for call in calls:
                for session in (one, other):
                    session.call("select", {"symbol": call.symbol})
                for proof in chosen:
                    try:
                        difference = _difference(one, other, proof)
                    except _NotAsked:
                        continue
                    label = f"{proof.case.label()}, with {call.change}"
                    if difference is not None:
                        message = f"With {call.change} it differs from the original: {difference}."
                        return _unproved(verdict, Evidence(OTHERWISE, message, label))
                    checks.append(Check(OTHERWISE, label, True))
    except (ChildFailed, ProtocolError) as error:  # of the original, whose process is gone, or as both are loaded
        checks.append(Check("called_otherwise_left_out", str(error)[:200], True))
    return replace(verdict, checks=(*verdict.checks, *checks))


class _NotAsked(Exception):  # noqa: N818 - an outcome
    """The original gives nothing there, or the library around it cannot be evaluated."""


def _unproved(verdict: Verdict, evidence: Evidence) -> Verdict:
    return replace(verdict, status=Status.unproved, rule=OTHERWISE, evidence=(evidence,))


def _difference(one: ChildSession, other: ChildSession, proof: Proof) -> str | None:
    """How a call of the candidate, in the child ``other``, differs from the original's; None where it does not.

    No kernel runs where both leave the same trail. Host code that asks for what a kernel would have written leaves none.
    """
    call = make_call(proof, poison=True, tolerant=True)
    meta = call.meta | {"optional": True, "expected": None, "dry": True}

    def trail(session: ChildSession) -> str | None:
        try:
            return trail_of(session.call("trail", meta, call.tensors)).whole
        except ChildError:
            return None

    left = trail(one)
    try:
        if trail(other) == left is not None:
            return None
    except (
        ChildFailed,
        ProtocolError,
    ) as error:  # whatever the original does: nothing more can be asked of the process
        return f"it gives no answer ({error})"
    try:
        wanted = read_answer(one.call("run", meta, call.tensors))
    except ChildError as error:
        raise _NotAsked from error
    try:
        given = read_answer(other.call("run", meta, call.tensors))
    except (ChildFailed, ProtocolError) as error:
        return f"it gives no result ({error})"
    values = given.runs.get("first", {})
    for label, value in wanted.runs.get("first", {}).items():
        mine = values.get(label)
        if value.tensor is not None and (mine is None or not _is_like(mine.tensor, value.tensor)):
            return f"{label} has other values"
    more = set(given.overwritten) - set(wanted.overwritten)
    return f"it writes to {', '.join(sorted(more))}" if more else None


def _is_like(given: torch.Tensor | None, wanted: torch.Tensor) -> bool:
    if given is None or given.shape != wanted.shape or given.dtype != wanted.dtype:
        return False
    if not wanted.is_floating_point():
        return bool(given.equal(wanted))
    given, wanted = given.double(), wanted.double()
    finite = wanted.isfinite()
    if not finite.equal(given.isfinite()):
        return False
    return rms((given - wanted)[finite]) <= FAR * rms(wanted[finite])


def _chosen(proofs: Sequence[Proof]) -> Iterator[Proof]:
    """Small usual cases: a dense one, one of another layout, and one of another dtype."""
    plain = [
        proof
        for proof in proofs
        if proof.case.content is Content.ordinary and all(size > 1 for _, size in proof.case.sizes)
        if proof.case.layout not in REPEATED and not proof.case.special
        if not (proof.case.measured or proof.case.may_raise or proof.case.gpu or proof.case.compiling)
        if not (proof.case.dimensions or proof.case.related or proof.case.same or proof.case.given_back)
    ]
    plain.sort(key=lambda proof: sum(tensor.numel() for tensor in proof.inputs.values()))
    kinds = {(proof.case.layout is MemoryLayout.dense, proof.case.dtype): proof for proof in reversed(plain)}
    first = sorted(kinds, key=lambda kind: (kind[1] != "float32", not kind[0]))  # dense ones of float32
    for kind in first[:MOST_PROOFS]:
        yield replace(kinds[kind], uses=(), other=None)


def _with(source: CandidateSource, form: SourceFile) -> CandidateSource:
    files = tuple(form if file.path == form.path else file for file in source.files)
    return replace(source, files=files)


def _imported(form: str) -> set[str]:
    return {alias.name for node in parse(form).body if isinstance(node, ast.ImportFrom) for alias in node.names}


def _words(texts: Collection[str]) -> list[str]:
    """The words that the original's files compare something with, or look up."""
    found: dict[str, None] = {}
    for text in texts:
        for node in ast.walk(parse(text)):
            parts: list[ast.expr | None] = []
            if isinstance(node, ast.Compare):
                parts = [*node.comparators, node.left]
            elif isinstance(node, ast.Dict):
                parts = [*node.keys]
            parts += [item for part in parts if isinstance(part, ast.Tuple | ast.List | ast.Set) for item in part.elts]
            found |= {p.value: None for p in parts if isinstance(p, ast.Constant) and isinstance(p.value, str)}
    return list(found)


def _written(text: str, symbol: str, words: Sequence[str], stream: random.Random) -> tuple[str, list[_OtherCall]]:
    """The form with a function for each other call beside its own, and what differs in it."""
    tree = parse(text)
    made = next((node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == symbol), None)
    call = next((node for node in ast.walk(made) if isinstance(node, ast.Call)), None) if made is not None else None
    if made is None or call is None:
        return text, []
    given = [*call.args, *(keyword.value for keyword in call.keywords)]
    places = [
        (constant, value)
        for constant in (node for argument in given for node in [_constant(argument)] if node is not None)
        for value in _others(constant, words, stream)
    ]
    places += [(at, value) for at in _taken(made) for value in range(MOST_RESULTS) if value != ast.literal_eval(at)]
    lines, calls = text.split("\n"), []
    for at, (constant, value) in enumerate(stream.sample(places, min(len(places), MOST_CALLS))):
        calls.append(_OtherCall(f"{symbol}_{at}", f"`{value!r}` in place of `{ast.unparse(constant)}`"))
        body = ast.unparse(_Changed(constant, value).visit(parse(text).body[tree.body.index(made)]))
        lines.append(body.replace(f"def {symbol}(", f"def {symbol}_{at}(", 1) + "\n")
    return "\n".join(lines), calls


def _constant(argument: ast.expr) -> ast.expr | None:
    """An argument that is a constant, or a number below zero."""
    inner = argument.operand if isinstance(argument, ast.UnaryOp) and isinstance(argument.op, ast.USub) else argument
    return argument if isinstance(inner, ast.Constant) else None


def _taken(made: ast.FunctionDef) -> Iterator[ast.expr]:
    """The place of the one of several results that a form returns."""
    for node in ast.walk(made):
        if isinstance(node, ast.Return) and isinstance(node.value, ast.Subscript) and _constant(node.value.slice):
            yield node.value.slice


def _others(constant: ast.expr, words: Sequence[str], stream: random.Random) -> list[object]:
    """Other values in place of a constant: what a caller may mean by it."""
    value = ast.literal_eval(constant)
    if isinstance(value, bool):
        return [not value]
    if isinstance(value, int):
        return [stream.choice([n for n in range(5) if n != value])]
    if isinstance(value, float):
        return [round(stream.uniform(0.1, 0.9), 3)]
    if isinstance(value, str):
        other = [word for word in words if word != value]
        return list(stream.sample(other, min(len(other), MOST_WORDS)))
    return [round(math.exp(stream.uniform(0.1, 2.0)), 3), True] if value is None else []


class _Changed(ast.NodeTransformer):
    """Puts a value in place of the constant that stands where the given one does."""

    def __init__(self, constant: ast.expr, value: object) -> None:
        self._place, self._value = (constant.lineno, constant.col_offset, constant.end_col_offset), value

    def visit(self, node: ast.AST) -> Any:
        if isinstance(node, ast.expr) and (node.lineno, node.col_offset, node.end_col_offset) == self._place:
            return ast.copy_location(ast.parse(repr(self._value), mode="eval").body, node)
        return super().visit(node)
