"""Beside an original: other calls than a layout's, such as with another mode, a default, or no weight.

A layout calls a kernel in one way, and what is optimized serves all callers. Called otherwise the candidate must leave the trail of
the original, or give its values; what the original refuses is not asked.
"""

from __future__ import annotations

import ast
import itertools
import math
import random
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, replace

import torch

from gpu_runner.context import RunContext
from gpu_runner.contracts.reading import parse
from gpu_runner.contracts.verify import CandidateSource, Check, Evidence, SourceFile, Status, Verdict
from gpu_runner.errors import ChildError, ChildFailed, ProtocolError
from gpu_runner.messages import DecideCase, LeaveTrail, RunCase, SelectCallable, SentCall
from gpu_runner.numerics.compare import rms
from gpu_runner.numerics.levels import as_rows
from gpu_runner.numerics.tolerances import PEAK_RATIO
from gpu_runner.session import ChildSession
from gpu_runner.verify.answer import CaseAnswer, read_answer
from gpu_runner.verify.call_changes import OtherCall, with_other_calls
from gpu_runner.verify.cases import REPEATED, Content, MemoryLayout
from gpu_runner.verify.combinations import Signature, covering
from gpu_runner.verify.draws import Draws
from gpu_runner.verify.interface import changed_interface
from gpu_runner.verify.laying import Laid
from gpu_runner.verify.opening import ORIGINAL, loaded
from gpu_runner.verify.proof import ChildCall, Proof, make_call

OTHERWISE = "called_otherwise"
MOST_CALLS = 24
MOST_PROOFS = 6  # cases among which each call has
A_CALL = 3  # of them
MOST_ELEMENTS = 2**17  # of all inputs of one
FAR = 1e-2  # of the original's values: so far another value of them is, in half precision too
SHAKE = 2.0**-9  # of inputs, as far as bfloat16 rounds
MOST_SHAKEN = 8  # times; an element at a limit, such as a threshold's, changes sides in some of them
Distances = tuple[float, ...]  # over a tensor, in a row, in a column and in an element
NO_DISTANCES: Distances = (0.0,) * 4
SPREADS = 4.0  # times what this, or less than float32, makes of the original's own values is no difference either


@dataclass(frozen=True)
class Otherwise:
    """What calls showed that are none of the layout's; ``evidence`` is the first that differs."""

    checks: tuple[Check, ...] = ()
    evidence: Evidence | None = None

    def added_to(self, verdict: Verdict) -> Verdict:
        """The verdict, `unproved` where something differs."""
        if self.evidence is None:
            return replace(verdict, checks=(*verdict.checks, *self.checks))
        return replace(verdict, status=Status.unproved, rule=OTHERWISE, evidence=(self.evidence,))


def called_otherwise(
    candidate: CandidateSource,
    original: CandidateSource,
    proofs: Sequence[Proof],
    texts: Collection[str],
    draws: Draws,
    context: RunContext,
    left: Callable[[], bool] = lambda: False,
) -> Otherwise:
    """Compare other calls than the layout's with the original's; ``texts`` are its files', and none is made once it is ``left``.

    Raises:
        RunnerError: the host is at fault.
    """
    form = next((file for file in candidate.files if file in original.files), None)
    if form is None:
        return Otherwise()
    changed = changed_interface(candidate.screened_files, texts, _imported(form.text))
    if changed is not None:
        return Otherwise(evidence=Evidence(OTHERWISE, changed))
    plain = _plain(proofs)
    if not plain:
        return Otherwise()
    stream = draws.stream(OTHERWISE)
    written, calls = with_other_calls(form.text, candidate.symbol, plain[0].inputs, texts, stream, MOST_CALLS)
    if not calls:
        return Otherwise()
    sources = [_with(source, replace(form, text=written)) for source in (candidate, original)]
    context.progress("verify: called otherwise")
    checks: list[Check] = []
    try:
        with loaded("candidate", sources[1], plain[0].form, context, ORIGINAL, gpu=False) as one:
            due = itertools.takewhile(lambda _: not left(), calls)
            evidence = _compared(one, sources[0], due, plain, stream, context, checks)
    except (ChildFailed, ProtocolError) as error:  # of the original
        evidence = None
        checks.append(Check("called_otherwise_left_out", str(error)[:200], True))
    return Otherwise(tuple(checks), evidence)


class _NotAsked(Exception):  # noqa: N818 - an outcome
    """The original gives nothing there, or nothing that is its own."""


def _compared(
    one: ChildSession,
    candidate: CandidateSource,
    calls: Iterable[OtherCall],
    plain: Sequence[Proof],
    stream: random.Random,
    context: RunContext,
    checks: list[Check],
) -> Evidence | None:
    """Make the calls of a candidate beside those of the original, in the child ``one``; the first difference that is found.

    Raises:
        ChildFailed, ProtocolError: the original's process is gone.
    """
    with ExitStack() as stack:
        try:
            door = loaded("candidate", candidate, plain[0].form, context, "called otherwise", gpu=False)
            other = stack.enter_context(door)
            chosen = list(_with_other_wants(_each_way(other, plain, stream), stream))
        except (ChildFailed, ProtocolError) as error:
            return Evidence(OTHERWISE, f"Called otherwise it gives no answer ({error}).")
        for call in calls:
            one.call(SelectCallable(call.symbol))
            try:
                other.call(SelectCallable(call.symbol))
            except (ChildFailed, ProtocolError) as error:
                return Evidence(OTHERWISE, f"With {call.change} it cannot be called ({error}).")
            for proof in stream.sample(chosen, min(len(chosen), A_CALL)):
                try:
                    difference = _difference(one, other, proof, call)
                except _NotAsked:
                    continue
                label = f"{proof.case.label()}, with {call.change}"
                if difference is not None:
                    return Evidence(OTHERWISE, f"With {call.change} it differs from the original: {difference}.", label)
                checks.append(Check(OTHERWISE, label, True))
    return None


def _difference(one: ChildSession, other: ChildSession, proof: Proof, made: OtherCall) -> str | None:
    """How a call of the candidate, in the child ``other``, differs from the original's; None where it does not.

    No kernel runs where both leave the same trail. Host code that asks for what a kernel would have written leaves none.
    """
    call = make_call(proof, tolerant=True, passes=0, skip=("second",))

    def trail(session: ChildSession) -> str | None:
        try:
            return session.call(LeaveTrail(call.call, dry=True), call.tensors).message.whole
        except ChildError:
            return None

    with ThreadPoolExecutor(1, "called otherwise") as pool:
        given_trail = pool.submit(trail, other)
        left = trail(one)
    try:
        if given_trail.result() == left is not None:
            return None
    except (
        ChildFailed,
        ProtocolError,
    ) as error:  # whatever the original does: nothing more can be asked of the process
        return f"it gives no answer ({error})"
    wanted = _answer_of(one, call)
    try:
        given = read_answer(other.call(RunCase(call.call, optional=True), call.tensors))
    except (ChildFailed, ProtocolError) as error:
        return f"it gives no result ({error})"
    values = given.runs.get("first", {})
    told = {label: value.tensor for label, value in wanted.runs.get("first", {}).items() if value.tensor is not None}
    unlike = [
        label for label, value in told.items() if label not in values or not _is_like(values[label].tensor, value)
    ]
    if unlike:
        again = _answer_of(one, call).runs.get("first", {})
        # What is another one each time is what it found in memory.
        unlike = [label for label in unlike if _is_like(again[label].tensor, told[label])]
    if unlike:
        allowed = _errors_of(one, call, made, told)
        for turn in range(MOST_SHAKEN + 1):
            unlike = [
                label
                for label in unlike
                if label not in values
                or not _is_like(values[label].tensor, told[label], allowed.get(label, NO_DISTANCES))
            ]
            if not unlike or turn == MOST_SHAKEN:
                break
            shaken = _answer_of(one, _shaken(proof, turn)).runs.get("first", {})
            for label in unlike:
                spread = _distances(shaken[label].tensor if label in shaken else None, told[label])
                before = allowed.get(label, NO_DISTANCES)
                allowed[label] = tuple(max(one, SPREADS * more) for one, more in zip(before, spread, strict=True))
        if unlike:
            return f"{unlike[0]} has other values"
    more = set(given.overwritten) - set(wanted.overwritten)
    return f"it writes to {', '.join(sorted(more))}" if more else None


def _answer_of(one: ChildSession, call: ChildCall[SentCall]) -> CaseAnswer:
    try:
        return read_answer(one.call(RunCase(call.call, optional=True), call.tensors))
    except ChildError as error:
        raise _NotAsked from error


def _errors_of(
    one: ChildSession, call: ChildCall[SentCall], made: OtherCall, told: Mapping[str, torch.Tensor]
) -> dict[str, Distances]:
    """What an original's values, ``told``, may be missed by since they are no better themselves, such as of kernels that compute in
    half precision what they are given in it: some times what the same call in float32 differs from them by."""
    one.call(SelectCallable(made.wide))
    try:
        wide = _answer_of(one, call).runs.get("first", {})
    except _NotAsked:
        return {}
    finally:
        one.call(SelectCallable(made.symbol))
    apart = {label: _distances(wide[label].tensor, value) for label, value in told.items() if label in wide}
    return {label: tuple(SPREADS * one for one in distances) for label, distances in apart.items()}


def _shaken(proof: Proof, turn: int = 0) -> ChildCall[SentCall]:
    """The call with inputs and upstream gradients about a rounding in half precision away: what differs so much by that, such as
    a gradient that cancels, is no value to be held to."""
    stream = torch.Generator().manual_seed((proof.case.seed + turn) % 2**63)

    def moved(laid: Laid) -> Laid:
        if not laid.raw.is_floating_point():
            return laid
        return replace(
            laid, raw=laid.raw * (1 + SHAKE * (2 * torch.rand(laid.raw.shape, generator=stream) - 1)).to(laid.raw.dtype)
        )

    laid = {name: moved(one) for name, one in proof.laid.items()}
    upstream = tuple(one and moved(one) for one in proof.upstream)
    return make_call(replace(proof, laid=laid, upstream=upstream), tolerant=True, passes=0, skip=("second",))


def _distances(given: torch.Tensor | None, wanted: torch.Tensor) -> Distances:
    """What two values differ by: over the tensor, in the row and in the column where it is most, and by what one element says."""
    if given is None or given.shape != wanted.shape or not wanted.is_floating_point() or not wanted.numel():
        return NO_DISTANCES
    square = as_rows((given.double() - wanted.double()).nan_to_num(0.0, 0.0, 0.0)).square()
    finite = int((given.isfinite() & wanted.isfinite()).sum())
    all_of_it, peak = float(square.sum()) / max(1, finite), float(square.max()) / PEAK_RATIO**2
    row, column = (float(square.mean(axis).max()) for axis in (1, 0))
    return math.sqrt(all_of_it), math.sqrt(row), math.sqrt(column), math.sqrt(peak)


def _is_like(given: torch.Tensor | None, wanted: torch.Tensor, spread: Distances = NO_DISTANCES) -> bool:
    if given is None or given.shape != wanted.shape or given.dtype != wanted.dtype:
        return False
    if not wanted.is_floating_point():
        return bool(given.equal(wanted))
    finite = wanted.isfinite()
    least = FAR * rms(wanted.double()[finite])
    pairs = zip(_distances(given, wanted), spread, strict=True)
    return finite.equal(given.isfinite()) and all(distance <= max(least, most) for distance, most in pairs)


def _plain(proofs: Sequence[Proof]) -> list[Proof]:
    """Cases without values far out, the smallest first; of a size dense ones of float32."""
    plain = [
        replace(proof, uses=(), other=None)
        for proof in proofs
        if proof.case.content is Content.ordinary and not proof.case.is_empty
        if not {proof.case.layout, proof.case.upstream} & {*REPEATED}
        if not (
            proof.case.dimensions or proof.case.related or proof.case.same or proof.case.given_back or proof.case.far
        )
        if not (proof.case.measured or proof.case.compiling) and _elements(proof) <= MOST_ELEMENTS
    ]
    return sorted(plain, key=lambda proof: (_elements(proof), proof.case.dtype != "float32", not _is_dense(proof)))


def _elements(proof: Proof) -> int:
    return sum(tensor.numel() for tensor in proof.inputs.values())


def _is_dense(proof: Proof) -> bool:
    return proof.case.layout is MemoryLayout.dense


def _each_way(session: ChildSession, plain: Sequence[Proof], stream: random.Random) -> list[Proof]:
    """Few cases in which host code goes all ways that it goes in any of them, in all dtypes, dense and not; and drawn ones."""
    ways: list[Signature] = []
    for proof in plain:
        call = make_call(proof)
        try:
            decided: Signature = frozenset(session.call(DecideCase(call.call), call.tensors).message)
        except ChildError:  # it reads what a kernel would have written
            decided = frozenset()
        ways.append(decided | {("dtype", proof.case.dtype), ("dense", _is_dense(proof))})
    places = list(covering(ways, MOST_PROOFS))
    left = [place for place in range(len(plain)) if place not in places]
    places += stream.sample(left, min(len(left), MOST_PROOFS - len(places)))
    return [plain[place] for place in places]


def _with_other_wants(chosen: Sequence[Proof], stream: random.Random) -> Iterator[Proof]:
    """Some of the cases without gradients, with those of all inputs, and with that of one alone."""
    for proof in chosen:
        floating = tuple(name for name, value in proof.inputs.items() if value.is_floating_point())
        wants: list[tuple[str, ...]] = [proof.wanted, proof.wanted, (), floating]
        if len(floating) > 1:
            wants.append((stream.choice(floating),))
        yield replace(proof, wanted=stream.choice(wants))


def _with(source: CandidateSource, form: SourceFile) -> CandidateSource:
    files = tuple(form if file.path == form.path else file for file in source.files)
    return replace(source, files=files)


def _imported(form: str) -> set[str]:
    return {alias.name for node in parse(form).body if isinstance(node, ast.ImportFrom) for alias in node.names}
