"""Learns what stands in a candidate's place from its own run on the same cases, in a child of its own: what it errs,
and whether that is so far off that it computes something else.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any

from gpu_runner.context import RunContext
from gpu_runner.contracts.verify import CandidateSource, Status
from gpu_runner.errors import ChildError, ChildFailed, ChildOutOfMemory, ProtocolError
from gpu_runner.messages import CallForm, RunCase
from gpu_runner.numerics.compare import compare, is_far
from gpu_runner.program.poison import bits_equal
from gpu_runner.scratch import ScratchError
from gpu_runner.session import ChildSession, has_gpu
from gpu_runner.spans import span
from gpu_runner.verify.answer import CaseAnswer, ReturnedValue, expecting, read_answer
from gpu_runner.verify.cases import Content
from gpu_runner.verify.early import Door, has_its_device
from gpu_runner.verify.examine import AnsweredCase, examine
from gpu_runner.verify.finding import Examined, failure_of
from gpu_runner.verify.opening import ORIGINAL, loaded
from gpu_runner.verify.peaks import NO_PEAKS, Peaks, peaks_of
from gpu_runner.verify.peer import Peer
from gpu_runner.verify.proof import Expected, Proof, make_call

# Runs on the same inputs as the first: what gives the same bits is not looked at again.
_SAME_INPUTS = ("first", "second", "interleaved", "second backward")


class Look:
    """A look at an original's answer to one case, that holds each value against the truth once."""

    def __init__(self, proof: Proof, answer: CaseAnswer) -> None:
        self._proof = proof
        self._answer = answer
        self._known: list[tuple[str, ReturnedValue, str | None]] = []  # label, value, what is wrong by far with it

    def runs_wrong_by_far(self) -> frozenset[str]:
        """The runs after the first whose values are wrong by far."""
        runs = ["second"]
        if self._proof.other is not None:
            runs += ["interleaved", "interleaved other"]
            runs += ["second backward"] if self._proof.has_backward else []
        return frozenset(run for run in runs if self.wrong_by_far(run) is not None)

    def is_another_function(self) -> bool:
        """Say whether the first run has other shapes than the truth, or is wrong by far."""
        got = self._answer.runs.get("first", {})
        wanted = {label: item.shape for label, item in self._proof.expected().items() if item is not None}
        has_other = any(label not in got or got[label].shape != shape for label, shape in wanted.items())
        return has_other or self.wrong_by_far("first") is not None

    def wrong_by_far(self, run: str) -> str | None:
        """Say what is wrong by far in a run; None where nothing is."""
        proof = self._proof
        if run == "interleaved other":
            assert proof.other is not None, "only then are there two sets of inputs"
            proof = proof.other
        expected = proof.expected()
        if run == "second backward":
            expected = {label: item for label, item in expected.items() if label.startswith("gradient")}
        elif sum(label.startswith("output") for label in self._answer.runs.get(run, {})) != len(proof.outputs):
            return "the number of outputs is another one"
        for label, item in expected.items():
            words = None if item is None else self._value_wrong(item, run, label)
            if words is not None:
                return words
        return None

    def _value_wrong(self, item: Expected, run: str, label: str) -> str | None:
        value = self._answer.runs.get(run, {}).get(label)
        if value is None or value.tensor is None:
            return f"there is no {label}"
        if run not in _SAME_INPUTS:
            return _wrong(item, label, value)
        for known, other, words in self._known:
            if known == label and other.tensor is not None and bits_equal(other.tensor, value.tensor):
                return words
        words = _wrong(item, label, value)
        self._known.append((label, value, words))
        return words


def _wrong(item: Expected, label: str, value: ReturnedValue) -> str | None:
    assert value.tensor is not None
    if value.tensor.numel() != item.truth.exact.numel():
        return f"{label} has the shape {value.shape}, not {item.shape}"
    comparison = compare(value.tensor.reshape(item.shape), item.truth)
    if not is_far(comparison):
        return None
    if comparison.allowed is None or comparison.error is None:
        return f"{label} is not finite where it should be"
    return f"{label} errs by {comparison.error:.3g} of its scale, {comparison.allowed:.3g} is allowed"


MOST_RESTARTS = 6


class BadOriginal(Exception):  # noqa: N818 - an expected outcome of looking at what stands
    """What stands in the repository cannot be judged by; ``rule`` is the verdict's."""

    def __init__(self, message: str, rule: str = "original", log: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.rule = rule
        self.log = log


@dataclass
class OriginalRuns:
    """The cases in which the original runs, each with what it did; and what it overwrites in any of them."""

    cases: list[tuple[Proof, Peer]] = field(default_factory=list)
    overwrites: dict[str, None] = field(default_factory=dict)
    dropped: dict[str, str] = field(default_factory=dict)  # case in which it does not run -> why not
    looks: list[Look] = field(default_factory=list)  # one a case

    def may_be_overwritten(self) -> tuple[str, ...]:
        """What a backward may write to: upstream gradients that the original overwrites, and inputs with which no second backward
        of it is right anyway, but where all gradients are zero."""
        is_right_again = any(
            proof.case.content is Content.ordinary
            and proof.other is not None
            and "second backward" not in peer.failed
            and any(item is not None and bool(item.truth.exact.any()) for item in proof.gradients.values())
            for proof, peer in self.cases
            if proof.has_backward
        )
        return tuple(name for name in self.overwrites if name.startswith("upstream") or not is_right_again)

    @property
    def proofs(self) -> list[Proof]:
        """The cases that count."""
        return [proof for proof, _ in self.cases]


def learn(
    original: CandidateSource,
    proofs: Sequence[Proof],
    context: RunContext,
    first: Door | None = None,
    last: Callable[[ChildSession, list[Proof]], None] | None = None,
) -> OriginalRuns:
    """Run the original on every case; ``first`` opens its first child, ``last`` is given the child in which the last case ran.

    Raises:
        BadOriginal: it does not run where it must, or computes something else than the reference.
        RunnerError: the host is at fault.
    """
    learned = OriginalRuns()

    def again(form: CallForm) -> AbstractContextManager[ChildSession]:
        return loaded("candidate", original, form, context, ORIGINAL)

    rest = list(proofs)
    restarts = 0
    door = first or again
    while rest:
        try:
            with door(proofs[0].form) as session:
                fit = True
                while rest and fit:
                    fit = learn_case(learned, session, rest.pop(0), context)
                if fit and last is not None and learned.cases:
                    last(session, learned.proofs)
        except ScratchError as error:
            raise BadOriginal(str(error), "files") from error
        except (ChildFailed, ProtocolError) as error:
            evidence = failure_of(error, "load", None).evidence
            raise BadOriginal(
                f"what stands in the repository cannot be loaded: {evidence.message}", log=evidence.log
            ) from error
        door = again
        restarts += 1
        if restarts > MOST_RESTARTS and rest:
            reason = next(reversed(learned.dropped.values()))
            raise BadOriginal(f"what stands in the repository ends its process again and again: {reason}")
    _check(learned, proofs)
    return learned


def learn_case(
    learned: OriginalRuns,
    session: ChildSession,
    proof: Proof,
    context: RunContext,
    device: Mapping[str, Any] | None = None,
) -> bool:
    """Learn one case, with host code told of a ``device`` in place of the case's; says whether the child is fit for another."""
    label = proof.case.label()
    context.progress(f"verify: the original, {label}")
    call = make_call(proof, tolerant=True, device=dict(device) if device else None)
    try:
        answer = read_answer(session.call(RunCase(call.call), call.tensors, check=expecting(proof)))
    except (ChildFailed, ProtocolError) as error:
        is_fit = isinstance(error, ChildError | ChildOutOfMemory) and (not session.gpu or has_its_device(session))
        if proof.case.dimensions:
            return is_fit
        failure = failure_of(error, "launch", label)
        if failure.status is Status.out_of_bounds and "writes" in failure.evidence.message:
            raise BadOriginal(
                f"what stands in the repository damages memory: {failure.evidence.message} ({label})"
            ) from error
        learned.dropped[label] = failure.evidence.message
        return is_fit
    failed, look = frozenset(answer.failed), Look(proof, answer)
    if _is_spoilt(proof, answer, look):
        learned.dropped[label] = (
            "it writes over inputs that share their memory, and its values depend on which write is last"
        )
        return True
    if proof.case.content is Content.ordinary:  # on others, what it gives is all that can be asked of its successor
        with span("comparing"):
            failed |= look.runs_wrong_by_far()
            if proof.case.dimensions and look.is_another_function():
                return True
    learned.cases.append((proof, Peer(answer, failed)))
    learned.looks.append(look)
    learned.overwrites |= dict.fromkeys(answer.overwritten)
    return True


def _is_spoilt(proof: Proof, answer: CaseAnswer, look: Look) -> bool:
    """Say whether values are wrong by far as inputs were overwritten that overlap: on a GPU, each run may err by another amount."""
    overwrites = any(not name.startswith("upstream") for name in answer.overwritten)
    return proof.case.overlaps and overwrites and look.wrong_by_far("first") is not None


def _check(learned: OriginalRuns, proofs: Sequence[Proof]) -> None:
    own = any(proof.case.measured for proof in proofs)
    cases = zip(learned.proofs, learned.looks, strict=True)
    counted = [(proof, look) for proof, look in cases if proof.case.measured or not own]
    if not counted:
        reasons = [f"{reason} ({label})" for label, reason in learned.dropped.items()]
        raise BadOriginal(f"what stands in the repository runs on none of the problem's own workloads: {reasons[-1]}")
    for proof, look in counted:
        far = look.wrong_by_far("first")
        if far is not None:
            message = f"the reference does not say what the library computes: {far} ({proof.case.label()})"
            raise BadOriginal(message, "problem")


def is_original(candidate: CandidateSource, original: CandidateSource | None) -> bool:
    """Say whether a candidate is the original itself: the same files in the same tree, and the same callable of them."""
    return candidate == original


def describe(
    original: CandidateSource, proofs: Sequence[Proof], context: RunContext, door: Door | None = None
) -> tuple[OriginalRuns, list[Examined], Peaks]:
    """Run the original once on every case, and examine it beside itself; with the peaks of its memory.

    Raises:
        BadOriginal: it does not run where it must, or computes something else than the reference.
        RunnerError: the host is at fault.
    """
    peaks = [NO_PEAKS]

    def last(session: ChildSession, ran: list[Proof]) -> None:
        try:
            peaks[0] = peaks_of(session, ran)
        except (ChildFailed, ProtocolError) as error:
            context.progress(f"verify: the original's memory was not measured: {error}")

    learned = learn(original, proofs, context, door, last)
    device = "cuda" if has_gpu() else "cpu"
    examined = []
    with span("comparing"):
        for proof, peer in learned.cases:
            assert peer.answer is not None, "a case of an original has what it gave"
            examined.append(examine(AnsweredCase(proof, peer.answer, device, peer, tuple(learned.overwrites))))
    return learned, examined, peaks[0]
