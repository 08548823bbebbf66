"""Judges a candidate: the order in which it is screened, proved and accused. Thin; the parts decide."""

from __future__ import annotations

import functools
import itertools
import logging
import math
import os
import random
import time
from collections import deque
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, InvalidStateError, ThreadPoolExecutor, wait
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field, replace
from queue import Empty, PriorityQueue, SimpleQueue
from threading import Event, Lock, Thread
from typing import Any, Self, TypeVar

import torch

from gpu_runner import companion
from gpu_runner.companion import CompanionPipe
from gpu_runner.context import RunContext
from gpu_runner.contracts.envelope import Isolation, RunnerError
from gpu_runner.contracts.problem import DTYPES, Problem, ProblemError, parse_problem
from gpu_runner.contracts.reading import language_of
from gpu_runner.contracts.verify import (
    CandidateSource,
    Check,
    Composed,
    Evidence,
    SourceFile,
    Status,
    Verdict,
    VerifyRequest,
)
from gpu_runner.errors import ChildError, ChildFailed, ChildTimeout, ProtocolError
from gpu_runner.forkserver.keeper import warm_up
from gpu_runner.messages import (
    AskDevice,
    CallForm,
    CaseReply,
    CaseTrail,
    CompileCase,
    CompiledReply,
    CompilerRefusal,
    DecideCase,
    FindBeyond,
    LeaveTrail,
    NumbersBeyond,
    Ranges,
    RunCase,
    SentCall,
    TurnDecision,
)
from gpu_runner.numerics.measures import THREADS, keep_pages, share_steps
from gpu_runner.peaks import GPUS
from gpu_runner.program.altered import ABOVE, BELOW, HALF, TWICE
from gpu_runner.program.coverage import BOTH
from gpu_runner.program.devices import DRIVER_COUNTS
from gpu_runner.program.imports import Library
from gpu_runner.program.load import EITHER, EVALUATED, IMPORTED
from gpu_runner.program.memory import FALSE_CLAIM
from gpu_runner.reply import ChildReply
from gpu_runner.scratch import ScratchError
from gpu_runner.session import ChildSession, has_gpu
from gpu_runner.spans import add, span, spent
from gpu_runner.verify.answer import (
    CaseAnswer,
    SeenDecision,
    SeenOutcomes,
    expecting,
    joined,
    outcomes_of,
    read_answer,
)
from gpu_runner.verify.cases import (
    INTERPRETED_ELEMENTS,
    INTERPRETED_ROWS,
    INTERPRETED_WORK,
    Case,
    Content,
    MemoryLayout,
    Special,
    Upstream,
    aligned,
    beyond_reach,
    few_rows,
    largest_first,
    plan_cases,
)
from gpu_runner.verify.combinations import Signature
from gpu_runner.verify.constants import numbers_in
from gpu_runner.verify.draws import MASTER_BYTES, Draws
from gpu_runner.verify.early import Door, Early, is_fit_after_a_run, keeps_apart
from gpu_runner.verify.examine import AnsweredCase, ComparedCase, compared_case, examine
from gpu_runner.verify.finding import Examined, VerdictFinding, decisive, failure_of, largest
from gpu_runner.verify.honesty import scale_of
from gpu_runner.verify.inputs import shape_of
from gpu_runner.verify.interface import other_names
from gpu_runner.verify.mutants import survivors
from gpu_runner.verify.one_sided import (
    IMPORTED_LIBRARY,
    MOST_FOLLOWED,
    constants_around,
    demanded,
    functions_of,
    kept_functions,
    line_of,
    one_sided,
    with_indices_outside,
)
from gpu_runner.verify.opening import ORIGINAL, candidate_session, load, loaded, opened, reference_session
from gpu_runner.verify.original import BadOriginal, Look, OriginalRuns, describe, is_original, learn, learn_case
from gpu_runner.verify.other_calls import Otherwise, called_otherwise
from gpu_runner.verify.peaks import NO_PEAKS, Peaks, peaks_of
from gpu_runner.verify.peer import NO_PEER, Peer
from gpu_runner.verify.proof import ChildCall, Proof, Scale, make_call
from gpu_runner.verify.ranks import in_other_ranks
from gpu_runner.verify.scale import (
    AtScale,
    ComparedAtScale,
    ScaledReply,
    at_scale,
    compared_at_scale,
    examined_at_scale,
    honest_at_scale,
    left_at_the_end,
    written_at_the_end,
)
from gpu_runner.verify.screen import screen
from gpu_runner.verify.sources import CandidateFiles
from gpu_runner.verify.telling import passed_over
from gpu_runner.verify.truth import BadProblem, Oracle, asked_of, blank, form_of
from gpu_runner.verify.usual import Deciding, at_usual_sizes

_log = logging.getLogger(__name__)

MOST_EVIDENCE = 5
MOST_NARROW, NARROW = 2, 3.0  # of errors, which are at most so many times what is allowed: a verdict is drawn once more
MOST_ONE_SIDED = 20
MOST_PENDING = (
    4  # answers that are held to be compared beside a GPU, whose cases run faster than large ones are compared
)
CORES, MANY_CORES = os.cpu_count() or 1, 8
INTERPRETED_AT_ONCE = min(max(1, CORES // 4), 4)  # children of the interpreter, of a candidate and of an original
# Elements of an input up to which answers are compared one by one: steps are so short that threads wait for Python's lock between
# them. Measured: 2026-11-29, 64 cores, layer_norm: four threads compared 9 cases a second, where one alone compares 12 on 2 cores.
ALONE, _comparing_alone = 2**20, Lock()
AT_SCALE = 3 if THREADS > 1 else 1  # children beside a GPU that are called at the size of workloads
DECIDING_S = 4.0  # in which it is asked what host code decides in calls that nobody judges
LEAST_TURNED, MOST_TURNED = 3, 12  # cases in which a decision that ends the other way must leave the original's trail
MOST_OUTSIDE = 6  # sets of kernels that are called with indices out of range
LEAST_ALTERED, MOST_ALTERED = 3, 8  # usual cases that are run with something made otherwise, all of which must be right
MOST_OF_ALTERED = 2**17  # elements of their inputs
MOST_HALVED = 6  # constants of kernels of which half and twice is tried
MOST_ASKED = 40  # cases in which it is asked whether it is decided at all
KERNELBENCH_SEEDS = 5
COMPILED_FOR, COMPILING_S = "sm_90", 60.0  # see `child.uncompiled`; of a case, on a host that may be busy
LOOK_S = 0.2
TRIED_FIRST = 8  # cases, which show most of what is wrong, before the candidate is called at scale beside the others
TWICE_OF, MOST_TWICE = 3, 16  # in the interpreter a candidate is run twice in one of so many cases; of so few in all
IMPORTED_OF = 4  # of so many cases one is chosen to be run as CPython imports the program, on a GPU
_COMPILED, _NEXT, _IN_TURN = range(3)  # what the candidate's child does first of what waits for it
INTERPRETED_S = 60.0  # of a case in the interpreter, beside a GPU, whose host may be busy
LEAST_INTERPRETED = 3  # cases of it: with most elements, with most rows, all at odd offsets
MOST_PROCESSORS = 4  # of a GPU that host code is told of in cases of it where not all was decided both ways
MOST_LEFT_OUT = 3  # of its cases that are named
# And what a kernel says of its arguments.
SEEN_BY_INTERPRETER = (Status.nondeterministic, Status.out_of_bounds, Status.mutated_input)
INTERPRETED = "interpreted"  # rule of what the interpreter shows beside a GPU
NOT_COMPARED = "comparing"  # rule of an answer with which the comparison itself ended in an error
# What a kernel raises that is written for one value of a whole scalar, or up to a size: nobody takes it for an answer.
ARITHMETIC = ("OverflowError", "ZeroDivisionError")  # of numbers of host code
REFUSALS = ("AssertionError", "KeyError", "NotImplementedError", "RuntimeError", "ValueError")
AT_SCALE_REFUSALS = (
    "AssertionError",
    "NotImplementedError",
    "ValueError",
)  # checks of its own; torch raises others of memory


_Answer = TypeVar("_Answer")
_Tried = tuple[Proof, Peer]
_Trail = tuple[Proof, Peer, CaseTrail | None, bool]
_InterpretedTry = tuple[Proof, Peer, dict[str, Any]]  # with the facts of the GPU that host code is told of
# With the child that gave it, if any.
_InterpretedAnswer = tuple[_InterpretedTry, CaseAnswer | ChildFailed | ProtocolError, ChildSession | None]
Shape = tuple[int, ...]
Rest = Callable[[bool], list[Proof]]  # cases as they become known; told to wait at least one, and none at the end


def _no_more(_: bool) -> list[Proof]:
    return []


def _untold(*_: object) -> None:
    return


@dataclass
class _Trial:
    """What the candidate's run gave so far."""

    examined: list[Examined] = field(default_factory=list)
    findings: list[VerdictFinding] = field(default_factory=list)
    kernels: dict[str, None] = field(default_factory=dict)
    peaks: Peaks = NO_PEAKS
    imported: str = ""  # why CPython carried out the host code of a case: the library around it cannot be evaluated
    evaluated: bool = False  # another case was evaluated
    refused: list[Check] = field(default_factory=list)  # cases beyond the workloads on which the candidate raises
    # None where the candidate raised; whether it tells devices apart, which it does not between a GPU and the interpreter.
    trails: list[_Trail] = field(default_factory=list)
    follow: Callable[[_Trail], None] = _untold  # is given each of them at once
    launch: Callable[[Proof, CaseAnswer], None] = _untold  # is given each case of the candidate's own child
    decisions: dict[SeenDecision, int] = field(default_factory=dict)  # how each has ended so far
    decided: dict[object, SeenOutcomes] = field(default_factory=dict)  # in each child so far
    launching: dict[frozenset[str], _Tried] = field(default_factory=dict)  # kernels of a call, and its first usual case
    small: list[tuple[int, _Tried]] = field(default_factory=list)  # the usual cases of fewest elements, with these
    is_whole: bool = (
        False  # of the interpreter beside a GPU: it had cases of its own, enough to see what kernels decide
    )

    @property
    def is_imported_alone(self) -> bool:
        """Whether CPython carried out the host code of every case."""
        return bool(self.imported) and not self.evaluated

    def leave(self, proof: Proof, peer: Peer, trail: CaseTrail | None, has_devices: bool) -> None:
        """Add the trail of a case."""
        self.trails.append(one := (proof, peer, trail, has_devices))
        self.follow(one)

    def decide(self, proof: Proof, peer: Peer, answer: CaseAnswer, child: object = None) -> None:
        """Add how decisions ended in a case; of several children each tells of its own."""
        self.imported = self.imported or answer.imported
        self.evaluated |= not answer.imported
        self.decided[child] = answer.decided  # which has those before it too
        self.decisions = joined(self.decided.values())
        if proof.case.content is Content.ordinary and all(size > 1 for _, size in proof.case.sizes):
            self.launching.setdefault(frozenset(answer.launched), (proof, peer))
            elements = sum(tensor.numel() for tensor in proof.inputs.values())
            if answer.launched and elements <= MOST_OF_ALTERED:
                self.small.append((elements, (proof, peer)))
                self.small = sorted(self.small, key=lambda one: one[0])[:MOST_ALTERED]

    def take(self, examined: Examined, launched: Iterable[str] = ()) -> None:
        """Add what came of a case, and the kernels that were launched in it."""
        self.examined.append(examined)
        self.findings += examined.findings
        self.kernels |= dict.fromkeys(launched)

    def add(self, other: _Trial) -> None:
        """Add what another trial found, examined and left out."""
        self.findings += other.findings
        self.examined += other.examined
        self.refused += other.refused


@dataclass
class _Interpreted(_Trial):
    """What Triton's interpreter showed beside a GPU; with ``by_value`` what is wrong counts too."""

    by_value: bool = False

    def take(self, examined: Examined, launched: Iterable[str] = ()) -> None:
        """Add what came of a comparison."""
        self.findings += [finding for finding in examined.findings if _is_seen_there(finding)]
        if self.by_value:
            self.findings += [_by_interpreter(finding) for finding in examined.findings if _is_of_values(finding)]


def judge(request: VerifyRequest, context: RunContext, *, screened: bool = True) -> Verdict:
    """Judge a candidate; without ``screened``, which no request can say, only by what it does.

    A full verdict proves nothing of one that has decisions of one outcome. One that fails by few errors, each little larger than
    what is allowed, is drawn once more and counts as it ends then, unless the context gives its seed: bounds are of what is likely.

    Raises:
        RunnerError: the host, not the candidate, is at fault.
    """
    verdict = _judge_once(request, context, screened=screened)
    if context.seed is not None or not _is_narrow(verdict):
        return verdict
    first = verdict.evidence[0]
    what = f"{verdict.status.value}, {first.workload}, {first.output}: {first.message}"
    context.progress(f"verify: once more with other draws, since it failed narrowly ({what})")
    again = _judge_once(request, context, screened=screened)
    if again.status is not Status.passed:
        return again
    seen = Check("once_more", first.workload or "", True, first.output, first.error, first.allowed)
    return replace(again, checks=(*again.checks, seen))


def _is_narrow(verdict: Verdict) -> bool:
    """Whether a verdict fails by so little that another draw may tell otherwise."""
    errors = [(evidence.error or math.inf) / (evidence.allowed or 1.0) for evidence in verdict.evidence]
    is_of_values = verdict.status in (Status.incorrect_values, Status.incorrect_gradient, Status.nondeterministic)
    is_of_values |= verdict.rule == INTERPRETED
    return is_of_values and len(errors) <= MOST_NARROW and max(errors) <= NARROW


def _judge_once(request: VerifyRequest, context: RunContext, *, screened: bool) -> Verdict:
    interpreted = not has_gpu()
    draws = Draws.fresh() if context.seed is None else Draws(context.seed)
    frame = Verdict(
        Status.passed,
        quick=request.quick,
        interpreted=interpreted,
        seed=draws.master,
        repeated=context.seed is not None,
        language=language_of([file.text for file in request.candidate.screened_files]),
    )
    try:
        problem = parse_problem(request.problem_source)
        cases = choose_cases(request, problem, interpreted, draws)
    except ProblemError as error:
        message = f"{error.message}. {error.fix or ''}".strip()
        return _refused(frame, "problem", message, error.line)
    try:
        files = CandidateFiles(request.candidate, context)
        before = _texts_of_original(request, context)
    except ScratchError as error:
        return _refused(frame, "files", str(error))
    if screened and request.composed is None:
        objection = screen(request.candidate, Library(files, request.candidate.import_roots), before)
        if objection is not None:
            evidence = Evidence("screen", objection.message, line=objection.line)
            return replace(frame, status=objection.status, rule=objection.rule, evidence=(evidence,))
    keep_pages()
    if not interpreted:
        share_steps()
    with ExitStack() as stack:
        beside = _interpreting(request, problem, context, draws, before.values())
        if beside is not None:
            stack.enter_context(beside)
        told = None if beside is None else beside.told
        early = [] if request.composed else _start_early(request, problem, cases, context, stack, draws, told)
        try:
            later = beside is not None and request.original is None
            proving = _Proving(problem, cases, context, early, draws=draws, later=later)
            stack.enter_context(proving)
            levels = proving.oracle.session.isolation
            ahead = stack.enter_context(_Ahead(early[0].turn)) if _may_run_ahead(request, levels) else None
            imported = None
            if ahead is not None and not (interpreted or request.quick):
                imported = stack.enter_context(_Ahead(_door_of_imported(request.candidate, context)))
            proofs = proving.first(ahead, imported)
            known = [proof.case for proof in proofs]
            if request.original is not None and not request.quick:
                proofs += in_other_ranks(problem, proofs)
            scaled: Iterable[AtScale] = ()
            if interpreted and not (request.quick or request.composed or problem.form == "kernelbench"):
                scaled = proving.ahead(_at_scale(request, draws, proving.oracle, known, context, proving.is_over))
            proving.begin_rest()
            bounds = _bounds(problem, request, cases, interpreted)
            frame = replace(frame, checks=(*(passed_over(case) for case in proving.left_out), *bounds))
            with span("comparing"):
                trivial = survivors(proofs)
            if trivial:
                return _degenerate(frame, trivial[0].mutant, trivial[0].label)
            if request.composed is not None:
                return _judge_composed(proofs, request.candidate, request.composed, context, frame)
            otherwise = _other_calls(request, proofs, before.values(), draws, context, stack, levels)
            doors = [child.turn for child in early] if ahead is None else [ahead.turn]
            verdict = judge_by(
                proofs,
                request.candidate,
                context,
                frame,
                request.original,
                doors,
                beside,
                scaled,
                proving.rest,
                ahead,
                imported,
            )
        except BadProblem as bad:
            return _refused(frame, "problem", bad.message, bad.line, bad.log)
        if problem.form != "kernelbench":  # which gives the inputs of one size
            verdict = demanded(verdict, request.candidate.screened_files, before)
            verdict = _named_as_reference(verdict, request, problem)
        verdict = otherwise(verdict)
        return replace(verdict, one_sided=verdict.one_sided[:MOST_ONE_SIDED])


def _interpreting(
    request: VerifyRequest, problem: Problem, context: RunContext, draws: Draws, before: Collection[str]
) -> _Interpreting | None:
    """What runs a candidate in the interpreter beside a GPU, of a whole verdict; None without one."""
    if not has_gpu() or request.quick or request.composed is not None or problem.form == "kernelbench":
        return None
    if request.original is None and companion.has_cores():
        return _InterpretingApart(request, context, draws, before)
    warm_up(gpu=False)
    own = functools.partial(_interpreted_proofs, request, problem, context, draws)
    return _Interpreting(request.candidate, context, own, request.original, before)


def _may_run_ahead(request: VerifyRequest, levels: tuple[Isolation, ...]) -> bool:
    """Whether a candidate may run cases while the reference is asked: where nothing else says which of them count, or what may be
    overwritten."""
    return request.original is None and request.composed is None and keeps_apart(levels)


def _named_as_reference(verdict: Verdict, request: VerifyRequest, problem: Problem) -> Verdict:
    """A whole verdict that passed, unproved where a created candidate has other names for its parameters than the reference."""
    if verdict.status is not Status.passed or request.quick or request.original is not None:
        return verdict
    message = other_names(request.candidate.screened_files, request.candidate.symbol, problem.parameters)
    if message is None:
        return verdict
    return replace(verdict, status=Status.unproved, rule="parameters", evidence=(Evidence("parameters", message),))


def _other_calls(
    request: VerifyRequest,
    proofs: Sequence[Proof],
    texts: Collection[str],
    draws: Draws,
    context: RunContext,
    stack: ExitStack,
    levels: tuple[Isolation, ...],
) -> Callable[[Verdict], Verdict]:
    """What adds the result of other calls to a verdict that passed. Beside a GPU they are begun at once where there are cores for
    them and children at these ``levels`` are apart; they are left where the stack ends before."""
    original, gone = request.original, Event()
    if original is None or request.quick or is_original(request.candidate, original):
        return lambda verdict: verdict
    asked: Callable[[], Otherwise] = functools.partial(
        called_otherwise, request.candidate, original, tuple(proofs), texts, draws, context, gone.is_set
    )
    if has_gpu() and CORES >= MANY_CORES and keeps_apart(levels):
        pool = stack.enter_context(ThreadPoolExecutor(1, "called otherwise"))
        stack.callback(gone.set)
        asked = pool.submit(asked).result
    return lambda verdict: asked().added_to(verdict) if verdict.status is Status.passed else verdict


def _judge_composed(
    proofs: Sequence[Proof], candidate: CandidateSource, composed: Composed, context: RunContext, frame: Verdict
) -> Verdict:
    """Run a program of proved parts by CPython, and say what came of it."""

    def door(form: CallForm) -> AbstractContextManager[ChildSession]:
        return loaded("candidate", candidate, form, context, mode=IMPORTED)

    proofs = [replace(proof, composed=composed) for proof in proofs]
    trial = _try(door, [(proof, NO_PEER) for proof in proofs], (), context)
    return _verdict(frame, proofs, trial)


def _start_early(
    request: VerifyRequest,
    problem: Problem,
    cases: Sequence[Case],
    context: RunContext,
    stack: ExitStack,
    draws: Draws,
    told: Callable[[ChildSession], None] | None,
) -> list[Early]:
    """Start the candidate's child, and the original's where that is another one; gives them in this order.

    ``told`` is given the first of them as it starts.
    """
    form = form_of(problem)
    warming = None if form is None else asked_of(problem, form, replace(cases[0], seed=draws.seed("warming")))
    sources = {"candidate": request.candidate}
    if is_original(request.candidate, request.original):
        sources = {ORIGINAL: request.candidate}
    elif request.original is not None:
        sources[ORIGINAL] = request.original
    children = [
        Early(source, context, len(sources), warming, name, None if place else told)
        for place, (name, source) in enumerate(sources.items())
    ]
    return [stack.enter_context(child) for child in children]


def judge_by(
    proofs: Sequence[Proof],
    candidate: CandidateSource,
    context: RunContext,
    frame: Verdict | None = None,
    original: CandidateSource | None = None,
    first: Sequence[Door] = (),
    beside: _Interpreting | None = None,
    scaled: Iterable[AtScale] = (),
    rest: Rest = _no_more,
    ahead: _Ahead | None = None,
    imported: _Ahead | None = None,
) -> Verdict:
    """Run a candidate, beside the original where there is one, on cases whose truth is known, and say what came of it; no screen.

    ``first`` opens the candidate's child, and the original's first one, where they were started before. A candidate that is the
    original itself has one child alone. ``beside`` a GPU the interpreter may have begun before. ``rest`` gives further cases as
    their truth becomes known; of some it may be known ``ahead`` what the candidate answers, of one also as it is ``imported``.

    Raises:
        RunnerError: the host, not the candidate, is at fault.
    """
    frame = frame or Verdict(Status.passed, interpreted=not has_gpu())
    learned = OriginalRuns([(proof, NO_PEER) for proof in proofs])
    if original is not None:
        try:
            if is_original(candidate, original):
                return _described(original, proofs, context, frame, first[0] if first else None)
            learned = learn(original, proofs, context, first[1] if len(first) > 1 else None)
            frame = replace(frame, checks=(*frame.checks, *_lost_dtypes(proofs, learned)))
        except BadOriginal as bad:
            return _refused(frame, bad.rule, bad.message, log=bad.log or "")
    return judge_beside(
        learned, candidate, context, frame, first[0] if first else None, beside, scaled, rest, original, ahead, imported
    )


def _lost_dtypes(proofs: Sequence[Proof], learned: OriginalRuns) -> list[Check]:
    """Name the dtypes in which an original gives nothing in any case: nothing is proved there, and a reader must know."""
    left = {proof.case.dtype for proof in learned.proofs}
    lost = dict.fromkeys(proof.case.dtype for proof in proofs if proof.case.dtype not in left)
    return [
        Check("dtype_left_out", f"{dtype}, in no case of which the original gives a result", True) for dtype in lost
    ]


def _door_of_original(original: CandidateSource, context: RunContext) -> Door:
    """The door to a child of an original in Triton's interpreter."""
    return lambda form: loaded("candidate", original, form, context, ORIGINAL, gpu=False)


def _described(
    original: CandidateSource, proofs: Sequence[Proof], context: RunContext, frame: Verdict, door: Door | None = None
) -> Verdict:
    learned, examined, peaks = describe(original, proofs, context, door)
    trial = _Trial(peaks=peaks)
    for (_, peer), peer_events in zip(learned.cases, examined, strict=True):
        trial.take(peer_events, () if peer.answer is None else peer.answer.launched)
    verdict = _verdict(_beside(frame, learned), learned.proofs, trial)
    return replace(verdict, overwrites=learned.may_be_overwritten())  # it was put back before anybody looked


def _beside(frame: Verdict, learned: OriginalRuns) -> Verdict:
    return replace(frame, allowances=("launch",) if learned.dropped else ())


def judge_beside(
    learned: OriginalRuns,
    candidate: CandidateSource,
    context: RunContext,
    frame: Verdict,
    door: Door | None = None,
    beside: _Interpreting | None = None,
    scaled: Iterable[AtScale] = (),
    rest: Rest = _no_more,
    original: CandidateSource | None = None,
    ahead: _Ahead | None = None,
    imported: _Ahead | None = None,
) -> Verdict:
    """Run a candidate on the cases in which an original is known, and say what came of it; ``original`` is asked again at scale.

    Raises:
        RunnerError: the host, not the candidate, is at fault.
    """

    def apart(form: CallForm) -> AbstractContextManager[ChildSession]:
        return loaded("candidate", candidate, form, context)

    door = door or apart
    frame = _beside(frame, learned)
    with ExitStack() as stack:
        if beside is None and has_gpu() and not frame.quick:
            beside = stack.enter_context(_Interpreting(candidate, context))
        if beside is not None:
            door = beside.entering(door, learned)
        importing = None if frame.quick else stack.enter_context(_Importing(candidate, learned, context, imported))
        if beside is not None and importing is not None:
            beside.followed(importing.follow)
        written = candidate.screened_files
        overwrites = tuple(learned.overwrites)
        calling = stack.enter_context(_CallingAtScale(candidate, context, scaled))
        again = None if original is None else _door_of_original(original, context)
        compiling = None
        if frame.interpreted and not frame.quick and frame.language == "Triton":
            compiling = stack.enter_context(_Compiling(candidate, context, original))
        trial = _try(
            door, learned.cases, overwrites, context, calling, rest, importing, again, written, compiling, ahead, apart
        )
        if importing is not None and not trial.findings and not trial.is_imported_alone:
            if beside is not None:
                beside.end(trial)
            if not trial.findings:
                importing.end(trial)
        if compiling is not None and not trial.findings:
            compiling.end(trial, learned.proofs[0].form)
    if frame.interpreted and not frame.quick:
        trial.refused += _never_at_scale(learned.proofs, trial)
    frame = replace(frame, one_sided=one_sided(trial.decisions, candidate.screened_files))
    return _with_a_line(_verdict(frame, learned.proofs, trial), candidate)


def _with_a_line(verdict: Verdict, candidate: CandidateSource) -> Verdict:
    """An accusation names a line: that at which the candidate is defined, where it is of what the whole of it does not do."""
    if verdict.status is not Status.cheating or verdict.evidence[0].line is not None:
        return verdict
    line = next(filter(None, (line_of(file.text, candidate.symbol) for file in candidate.screened_files)), None)
    first, *others = verdict.evidence
    return replace(verdict, evidence=(replace(first, line=line), *others))


def _never_at_scale(proofs: Sequence[Proof], trial: _Trial) -> list[Check]:
    """Name the outputs and gradients of which nothing was compared at the size of a workload, or at one that models have."""
    checks = [check for examined in trial.examined for check in examined.checks]
    compared = {check.output for check in checks if check.name == "at_scale"}
    labels = dict.fromkeys(label for proof in proofs for label, item in proof.expected().items() if item is not None)
    return [Check("at_scale_left_out", label, True, label) for label in labels if label not in compared]


def choose_cases(
    request: VerifyRequest, problem: Problem, interpreted: bool, draws: Draws | None = None
) -> tuple[Case, ...]:
    """The cases of a request, each with a secret seed."""
    draws = draws or Draws.fresh()
    if problem.form == "kernelbench":
        dtypes = request.dtypes or (problem.dtypes if problem.dtypes != DTYPES else ("float32",))
        seeds = 2 if request.quick else KERNELBENCH_SEEDS
        return tuple(Case(f"seed {n}", (), dtype, draws.seed(f"{dtype} {n}")) for dtype in dtypes for n in range(seeds))
    numbers = numbers_in(request.candidate.screened_files)
    cases = plan_cases(
        problem,
        request.dtypes or problem.dtypes,
        request.workloads or problem.workloads,
        interpreted=interpreted,
        quick=request.quick,
        draws=draws,
        beside=request.original is not None,
        multiples=request.multiples,
        numbers=numbers,
    )
    if numbers.needs_alignment:
        cases = aligned(problem, cases, draws)
    if request.composed is not None:  # extreme values were each part's own business
        cases = tuple(case for case in cases if case.content is Content.ordinary and not case.may_raise)
    again = next((case for case in cases if case.again), None)
    if again is not None and is_original(request.candidate, request.original):
        cases += (_as_a_loss_begins(again, draws),)
    fractions, stream = sorted(numbers.fractions), draws.stream("faint")
    if fractions:
        cases = tuple(replace(case, faint=stream.choice(fractions)) if case.special else case for case in cases)
    return cases


def _as_a_loss_begins(case: Case, draws: Draws) -> Case:
    """A case with an upstream gradient of one: the only one with which an original may be right that scales what it saved by it.

    Whether its second backward is right says what a candidate may overwrite.
    """
    plain = replace(case, layout=MemoryLayout.dense, special=Special.none, wild=False, gradients=Upstream.normal)
    return replace(plain, upstream=MemoryLayout.full, seed=draws.seed("as a loss begins"))


def _interpreted_proofs(
    request: VerifyRequest, problem: Problem, context: RunContext, draws: Draws
) -> Generator[Proof | AtScale, None, None]:
    """The cases of Triton's interpreter, beside a GPU, and then the calls at the size of workloads.

    Raises:
        BadProblem: the reference does not run on the CPU.
    """
    draws = Draws(draws.stream("interpreted").randbytes(MASTER_BYTES).hex())
    cases = largest_first(problem, choose_cases(request, problem, True, draws))
    door = reference_session("reference", problem.source, context, name="interpreted reference", gpu=False)
    with opened(door, context) as session:
        oracle, known = Oracle.open(problem, session, draws.seed("module")), []
        for _, proof in _each_proved(oracle, cases, draws):
            if proof is not None:
                known.append(proof.case)
                yield proof
        if not known:
            raise oracle.reason()
        yield from _at_scale(request, draws, oracle, known, context)


def _at_scale(
    request: VerifyRequest,
    draws: Draws,
    oracle: Oracle,
    cases: Sequence[Case],
    context: RunContext,
    is_over: Callable[[], bool] = lambda: False,
) -> Iterator[AtScale]:
    """The calls at the size of workloads, of a verdict that is a whole one; some have what these cases have."""
    dtypes = request.dtypes or oracle.problem.dtypes
    workloads = request.workloads or oracle.problem.workloads
    yield from at_scale(oracle, workloads, dtypes[0], draws, cases)
    with ThreadPoolExecutor(1, "deciding") as pool, _deciding(request.candidate, oracle, context, is_over) as decided:
        beside = pool if CORES >= MANY_CORES else None
        yield from at_usual_sizes(oracle, workloads, dtypes, draws, cases, decided, beside)


@contextmanager
def _deciding(
    candidate: CandidateSource, oracle: Oracle, context: RunContext, is_over: Callable[[], bool]
) -> Iterator[Deciding | None]:
    """What a candidate's host code decides in a call, asked of a child of its own in which no kernel runs; None without one.

    Once ``is_over`` nothing more is asked, and whoever still asks at the end gets no more.
    """
    if not keeps_apart(oracle.session.isolation):
        yield None
        return
    with ExitStack() as stack:
        try:
            door = loaded("candidate", candidate, oracle.form, context, "deciding", gpu=False)
            session = stack.enter_context(door)
        except (ChildFailed, ProtocolError, ScratchError):  # the child of the cases tells what is wrong
            yield None
            return

        def decided(cases: Sequence[Case]) -> Iterator[Signature | None]:
            end = time.monotonic() + DECIDING_S
            for case in itertools.takewhile(lambda _: time.monotonic() < end and not is_over(), cases):
                call = make_call(asked_of(oracle.problem, oracle.form, case))
                try:
                    yield frozenset(session.call(DecideCase(call.call), call.tensors, DECIDING_S).message)
                except ChildError:
                    yield None  # it refuses such sizes, or reads what no kernel has written
                except (ChildFailed, ProtocolError):
                    return

        stack.callback(session.abandon)
        yield decided


def _bounds(problem: Problem, request: VerifyRequest, cases: Sequence[Case], interpreted: bool) -> tuple[Check, ...]:
    """Name the sizes beyond which nothing was run although the candidate has a constant there, and dtypes that were not."""
    if problem.form == "kernelbench":
        run = {case.dtype for case in cases}
        return tuple(Check("dtype_left_out", dtype, True) for dtype in DTYPES if dtype not in run)
    constants = numbers_in(request.candidate.screened_files).constants
    limits = beyond_reach(problem, constants, interpreted=interpreted)
    return tuple(Check("constant_left_out", f"{dim} > {most}", True) for dim, most in limits.items())


def prove(
    problem: Problem, cases: Sequence[Case], context: RunContext, *, draws: Draws | None = None
) -> tuple[list[Proof], list[Case]]:
    """Get the truth of every case from the reference, and the cases of extreme values in which there is none to judge by.

    Raises:
        BadProblem: the reference runs in too few cases.
    """
    with _Proving(problem, cases, context, draws=draws) as proving:
        return proving.first(), proving.left_out


class _Proving:
    """Asks the reference for the truth of each case. A context manager; at its end the reference's child is gone.

    ``early`` are children that run meanwhile; on a GPU they are told of each case, so that they compile what it needs. With
    ``later`` the large cases are asked for while the candidate runs in the others; where there are cores for it at once, of a
    second child of the reference.
    """

    def __init__(
        self,
        problem: Problem,
        cases: Sequence[Case],
        context: RunContext,
        early: Sequence[Early] = (),
        *,
        draws: Draws | None = None,
        later: bool = False,
    ) -> None:
        self._problem, self._context, self._early = problem, context, early
        self._compiling: Sequence[Early | _Ahead] = early
        self._draws = draws or Draws.fresh()
        self._cases = sorted(cases, key=lambda case: case.measured) if later else list(cases)
        large = [place for place, case in enumerate(self._cases) if later and case.measured]
        self._later = sorted(large, key=lambda place: -math.prod(self._cases[place].size_of.values()))
        self._pool = ThreadPoolExecutor(1, "reference")
        self._rest: deque[Future[list[Proof]]] = deque()
        self._ahead: Future[None] | None = None
        self._large: Future[Oracle] | None = None
        self._over = Event()
        self._scale = Scale()
        self._tell: Callable[[Proof], None] = lambda _: None
        self._stack = ExitStack()
        self.left_out: list[Case] = []  # of extreme values, in which there is no truth

    def __enter__(self) -> Self:
        """Start the reference's child.

        Raises:
            BadProblem: the problem cannot be loaded in it.
        """
        with ExitStack() as unless_started:
            self.oracle = self._open("reference", unless_started)
            if not keeps_apart(self.oracle.session.isolation):  # none of the candidate's code runs beside it
                self._later = []
            self._stack = unless_started.pop_all()
        if self._later and CORES >= MANY_CORES:
            self._large = self._pool.submit(self._open, "large reference", self._stack)
            self._ask_for_large()
        else:
            for place in self._later[:1]:  # which takes as long as the small cases in all
                self.oracle.ask_ahead(self._cases[place])
        return self

    def _open(self, name: str, stack: ExitStack) -> Oracle:
        door = reference_session("reference", self._problem.source, self._context, 1 + len(self._early), name)
        session = stack.enter_context(opened(door, self._context))
        return Oracle.open(self._problem, session, self._draws.seed("module"))

    def _ask_for_large(self) -> None:
        for one, coming in itertools.zip_longest(self._later, self._later[1:]):
            self._rest.append(self._pool.submit(self._proved, one, coming))

    def __exit__(self, *_: object) -> None:
        """End it, whatever it is being asked for."""
        self._over.set()
        if any(not one.done() for one in (*self._rest, self._ahead) if one is not None):
            self.oracle.session.abandon()
            if self._large is not None and self._large.done() and self._large.exception() is None:
                self._large.result().session.abandon()
        self._pool.shutdown(cancel_futures=True)
        self._stack.close()

    def first(self, ahead: _Ahead | None = None, imported: _Ahead | None = None) -> list[Proof]:
        """The cases that the reference is asked for at once, with their truth. ``ahead`` is told of each as it is known, and
        ``imported`` of one.

        Raises:
            BadProblem: the reference runs in too few cases.
        """
        is_on_gpu = self.oracle.session.gpu
        if ahead is not None:
            twice = self._cases if is_on_gpu else _planned_twice(self._problem, self._cases)
            self._tell = functools.partial(_begin_ahead, ahead, twice)
            self._compiling = [ahead]
        for place in self._later:
            few = few_rows(self._problem, self._cases[place], self._draws.seed(f"warming {place}"))
            self._warm(functools.partial(asked_of, self._problem, self.oracle.form, few))
        small = [place for place in range(len(self._cases)) if place not in self._later]
        proofs = []
        for place, coming in itertools.zip_longest(small, small[1:]):
            proof = self._prove(self.oracle, place, coming)
            if proof is None:
                continue
            proofs.append(proof)
            self._tell(proof)
            if imported is not None and proof.case.seed % IMPORTED_OF == 0 and _tells_much(proof):
                imported.begin(proof)
                imported = None
            few = few_rows(self._problem, proof.case, self._draws.seed(f"warming {place}"))
            self._warm(functools.partial(blank, self._problem, proof, few))
        if all(proof.case.content is not Content.ordinary for proof in proofs):
            if self._large is None:
                self._ask_for_large()
            proofs += [proof for one in self._rest for proof in one.result()]
            self._rest.clear()
            self._later = []
        if all(proof.case.content is not Content.ordinary for proof in proofs):
            raise self.oracle.reason()
        ordinary = [proof for proof in proofs if proof.case.content is Content.ordinary]
        self._scale = scale_of(self._problem, ordinary)
        proofs = [replace(proof, scale=self._scale) for proof in proofs]
        return proofs if is_on_gpu or len(proofs) <= MOST_TWICE else _once_or_twice(proofs)

    def begin_rest(self) -> None:
        """Go on with the large cases, the largest first, or end the child where nothing more is asked."""
        if self._large is None:
            self._ask_for_large()
        if not self._rest and self._ahead is None:
            self._stack.close()

    def ahead(self, scaled: Iterator[AtScale]) -> Iterable[AtScale]:
        """Calls at scale, whose truth is asked for while the candidate runs; at once where children are not kept apart."""
        if not keeps_apart(self.oracle.session.isolation):
            return [*scaled]
        queue = SimpleQueue[AtScale | None]()
        self._ahead = self._pool.submit(self._go_through, scaled, queue)
        return self._given(self._ahead, queue)

    def is_over(self) -> bool:
        """Whether nobody waits for what it asks any more."""
        return self._over.is_set()

    def _go_through(self, scaled: Iterator[AtScale], queue: SimpleQueue[AtScale | None]) -> None:
        try:
            for one in itertools.takewhile(lambda _: not self.is_over(), scaled):
                queue.put(one)
        except (ChildFailed, ProtocolError) as error:  # of the reference's child, not the candidate's
            raise RunnerError(f"the reference gave no answer: {error}") from error
        finally:
            queue.put(None)

    def _given(self, ahead: Future[None], queue: SimpleQueue[AtScale | None]) -> Iterator[AtScale]:
        while True:
            with span("waiting for the reference"):
                one = queue.get()
            if one is None:
                break
            yield one
        ahead.result()

    def rest(self, wait: bool) -> list[Proof]:
        """The large cases that have become known since the last time; with ``wait`` at least one, and none at the end.

        Raises:
            BadProblem: the reference takes too long there. RunnerError: its child is at fault, not the candidate's.
        """
        proofs: list[Proof] = []
        while self._rest and (self._rest[0].done() or (wait and not proofs)):
            try:
                with span("waiting for the reference"):
                    proofs += [replace(proof, scale=self._scale) for proof in self._rest.popleft().result()]
            except (ChildFailed, ProtocolError) as error:
                raise RunnerError(f"the reference gave no answer: {error}") from error
            if not self._rest:
                self._pool.submit(self._stack.close)
        return proofs

    def _proved(self, place: int, coming: int | None) -> list[Proof]:
        """A large case with its truth, if there is one; ``coming`` is the one after it, if any."""
        oracle = self.oracle if self._large is None else self._large.result()
        proof = self._prove(oracle, place, coming)
        return [] if proof is None else [proof]

    def _prove(self, oracle: Oracle, place: int, coming: int | None) -> Proof | None:
        case = self._cases[place]
        proof = _proved(oracle, case, self._draws, place, None if coming is None else self._cases[coming])
        if proof is None and not (case.content is Content.ordinary or case.spare):
            # Of other scalars there may be no truth, and the same contents have a case with the usual ones.
            self.left_out.append(case)
        return proof

    def _warm(self, make: Callable[[], Proof]) -> None:
        for child in self._compiling if self.oracle.session.gpu else ():
            child.also(make)


def _once_or_twice(proofs: Sequence[Proof]) -> list[Proof]:
    """Leave out the second run of cases in the interpreter, but for those that seeds choose and those that most races show in."""
    first = [proof.case for proof, _ in _first_to_interpret([(proof, NO_PEER) for proof in proofs])]
    return [replace(proof, once=_is_run_once(proof.case, first)) for proof in proofs]


def _is_run_once(case: Case, first: Collection[Case]) -> bool:
    return case.seed % TWICE_OF != 0 and case not in first


def _planned_twice(problem: Problem, cases: Sequence[Case]) -> Sequence[Case]:
    """The cases that will be run twice whatever their seeds, if the reference runs at the sizes that are planned."""
    if len(cases) <= MOST_TWICE:
        return cases
    planned = [(case, [shape_of(spec, case.size_of) for spec in problem.inputs]) for case in cases]
    return [cases[place] for place in _largest_and_deepest(planned)]


def _begin_ahead(ahead: _Ahead, twice: Collection[Case], proof: Proof) -> None:
    ahead.begin(replace(proof, once=_is_run_once(proof.case, twice)))


def _each_proved(oracle: Oracle, cases: Sequence[Case], draws: Draws) -> Iterator[tuple[Case, Proof | None]]:
    """Each case with its truth."""
    for place, (case, after) in enumerate(zip(cases, (*cases[1:], None), strict=True)):
        yield case, _proved(oracle, case, draws, place, after)


def _proved(oracle: Oracle, case: Case, draws: Draws, place: int, coming: Case | None) -> Proof | None:
    """A case with its truth; ``place``: its number, of which a seed is drawn. ``coming``: what it is asked next."""
    oracle.coming = coming
    again = case.again and not oracle.problem.mutates
    return oracle.prove(case, draws.seed(f"other {place}") if again else None)


def _try(
    door: Door,
    cases: list[tuple[Proof, Peer]],
    overwrites: Collection[str],
    context: RunContext,
    calling: _CallingAtScale | None = None,
    rest: Rest = _no_more,
    importing: _Importing | None = None,
    original: Door | None = None,
    written: Sequence[SourceFile] = (),
    compiling: _Compiling | None = None,
    ahead: _Ahead | None = None,
    apart: Door | None = None,
) -> _Trial:
    """Run a candidate in all cases; those of ``rest`` are added to the others, and those that ran ``ahead`` are run no more.

    ``original`` opens what it is judged beside, ``written`` are the files that the candidate brings. ``apart`` opens one more child
    of it where ``door`` leads into the same one each time.
    """
    trial = _Trial() if importing is None else _Trial(follow=importing.follow)
    beside: list[Callable[[CallForm], None]] = [each.begin for each in (calling, compiling) if each is not None]
    beside += [] if importing is None else [lambda _: importing.begin(trial)]
    if compiling is not None:
        trial.launch = compiling.take
    check, workload = "load", None
    try:
        with door(cases[0][0].form) as session, _Comparing(trial) as comparing:
            is_apart = keeps_apart(session.isolation)
            for place, (proof, peer) in enumerate(_as_known(cases, rest, session.gpu)):
                check, workload = "launch", proof.case.label()
                is_due = place == TRIED_FIRST and is_apart
                is_due &= not (session.gpu or trial.is_imported_alone or trial.findings)
                for begin in beside if is_due else ():
                    begin(proof.form)
                context.progress(f"verify: {workload}")
                try:
                    answer = _answer(trial, session, proof, peer, overwrites, ahead)
                except ChildError as error:
                    if not may_refuse(proof, peer, error):
                        raise
                    trial.refused.append(Check("refused_by_candidate", workload, True))
                    if not (proof.case.gpu or proof.case.compiling):
                        trial.leave(proof, peer, None, True)
                else:
                    compared = None if ahead is None else ahead.compared(proof)
                    device = "cuda" if session.gpu else "cpu"
                    comparing.begin(AnsweredCase(proof, answer, device, peer, overwrites), compared)
                if len(trial.findings) >= MOST_EVIDENCE:
                    return trial
            if ahead is not None:
                ahead.settle()
            comparing.end()
            if not trial.findings:
                trial.peaks = peaks_of(session, [proof for proof, _ in cases])
                _decide_outside(trial, session, functools.partial(apart or door, cases[0][0].form), overwrites)
                _decide_altered(trial, session, overwrites, written)
                _decide_as_original(trial, session, cases, {file.path for file in written})
                scale = cases[0][0].scale if original is None else None
                again = None if original is None else functools.partial(original, cases[0][0].form)
                if calling is not None and not session.gpu:
                    _try_at_scale(trial, session, calling.replies(session), scale, again, compare=calling.compared)
    except ScratchError as error:
        trial.findings.append(VerdictFinding(Status.refused, Evidence("files", str(error)), "files"))
    except (ChildFailed, ProtocolError) as error:
        trial.findings.append(failure_of(error, check, workload))
    return trial


def _decide_outside(
    trial: _Trial,
    session: ChildSession,
    door: Callable[[], AbstractContextManager[ChildSession]],
    overwrites: Collection[str],
) -> None:
    """See what is decided where indices are out of range, where a guard alone has its other side; nothing else counts there.

    ``door`` opens a child for that alone, and another one after it: an index without a guard may end it, but not ``session``, which
    other calls need. Where one gives no answer in time, nothing more is asked; nor is a GPU.
    """
    if session.gpu:
        return
    with ExitStack() as stack:
        child: ChildSession | None = None
        for proof, peer in [one for launched, one in trial.launching.items() if launched][:MOST_OUTSIDE]:
            if all(seen == BOTH for seen in trial.decisions.values()):
                return
            for outside in with_indices_outside(proof):
                call = _call(outside, peer, overwrites)
                # A guard is seen in a call that ends with an error.
                asked = RunCase(call.call, several=True)
                try:
                    if child is None or child.is_gone:
                        child = stack.enter_context(door())
                    answer = read_answer(child.call(asked, call.tensors, check=expecting(outside)))
                except ChildTimeout:
                    return  # as another one would be
                except (ChildFailed, ProtocolError):
                    continue  # it has no guard, and need have none
                # What was computed of usual indices and never changed stays among them.
                trial.decided[child] = answer.decided
                trial.decisions |= joined(trial.decided.values())


def _decide_altered(
    trial: _Trial, session: ChildSession, overwrites: Collection[str], written: Sequence[SourceFile], **told: Any
) -> None:
    """Count the other outcome of what kernels decide where it is seen with something made otherwise, and all answers are right.

    So a correction is judged that no case needs, or a loop over further blocks where a row has one: see ``program.altered``.
    ``told`` is what the calls say of the device.
    """

    def left() -> list[SeenDecision]:
        paths = {file.path for file in written}
        return [one for one, seen in trial.decisions.items() if one.in_kernel and seen != BOTH and one.path in paths]

    constants = constants_around(left(), written)[:MOST_HALVED]
    for what in (ABOVE, BELOW, *(f"{how}{name}" for name in constants for how in (HALF, TWICE))):
        single = left()
        if session.gpu or not single or len(trial.small) < LEAST_ALTERED:
            return
        decided: Mapping[SeenDecision, int] = {}
        try:
            for _, (proof, peer) in trial.small:
                once = replace(proof, uses=(), other=None, once=True)
                call = _call(once, peer, overwrites, **told)
                reply = session.call(RunCase(call.call, altered=what), call.tensors, check=expecting(once))
                answer = read_answer(reply)
                if _examined(AnsweredCase(once, answer, "cpu", peer, overwrites)).findings:
                    break
                # Host code decides in the few small cases what it decides in all.
                decided = {one: seen for one, seen in answer.decided.outcomes.items() if one.in_kernel}
            else:
                turned = {one for one in single if decided.get(one, 0) | trial.decisions[one] == BOTH}
                if turned:  # what is decided there alone is demanded
                    trial.decisions = {**decided, **trial.decisions, **dict.fromkeys(turned, BOTH)}
        except ChildError:
            continue  # it needs what was made otherwise


def _decide_as_original(
    trial: _Trial, session: ChildSession, cases: Sequence[tuple[Proof, Peer]], written: Collection[str]
) -> None:
    """Count the other outcome of a decision with which the candidate leaves the original's trail: it does what stands then.

    So a guard says in which calls other kernels are taken, as the one in front of a fast path. Each of several cases in which it is
    decided must show it.
    """
    known = [
        (make_call(proof, tolerant=True), peer.answer.trail)
        for proof, peer in cases
        if peer.answer is not None and proof.case.content is Content.ordinary
        if not (proof.case.is_empty or proof.case.measured or proof.case.gpu or proof.case.compiling)
    ][:MOST_ASKED]
    if trial.is_imported_alone:
        return
    single = [
        one for one, seen in trial.decisions.items() if seen != BOTH and not one.in_kernel and one.path in written
    ]
    for decision in sorted(single)[:MOST_FOLLOWED]:
        place = decision.path, decision.line, decision.column, False, decision.text
        decided: Mapping[SeenDecision, int] = {}
        shown = 0  # cases in which it is decided, each of which left the original's trail so far
        try:
            for asked, (call, trail) in enumerate(known):
                if asked == MOST_TURNED and not shown:
                    break
                turned = session.call(TurnDecision(call.call, place), call.tensors).message
                decided = outcomes_of(turned.decisions)
                if turned.turns and turned.trail.whole != trail.whole:
                    shown = 0
                    break
                shown += bool(turned.turns)
                if shown == MOST_TURNED:
                    break
        except ChildError:
            continue  # it does something else then, and fails
        if shown >= LEAST_TURNED:  # what is decided there alone is demanded, or stands in the original
            trial.decisions = {**decided, **trial.decisions, decision: BOTH}
            trial.refused.append(Check("otherwise_the_original", decision.text, True))


def _try_at_scale(
    trial: _Trial,
    session: ChildSession,
    replies: Iterable[tuple[AtScale, ScaledReply | ChildFailed]],
    scale: Scale | None,
    original: Callable[[], AbstractContextManager[ChildSession]] | None = None,
    *,
    numbers: bool = True,
    compare: Callable[[AtScale, ScaledReply], ComparedAtScale] | None = None,
) -> None:
    """Hold against the truth what a candidate replies at the size of workloads, and at sizes that models have.

    By far wrong there is `unproved`.

    ``numbers``: so is a number of the host that no case of this ``session`` had, where no place tells an answer. ``scale``: what
    torch computes there is held against it. ``original``: where it is wrong too, or fails, nothing is asked.
    """
    written: dict[str, bool] = {}

    def beyond(ranges: Ranges) -> NumbersBeyond:
        return session.call(FindBeyond(ranges)).message if numbers and ranges else ()

    for call, reply in replies:
        if isinstance(reply, ChildFailed):
            failure = failure_of(reply, "at_scale", call.label())
            # A program that has read nothing unknown goes by what is there: where it leaves its memory, it does so for a user.
            leaves = failure.status is Status.out_of_bounds and isinstance(reply, ChildError)
            # No workload is larger, so that a check of its own does not let a user call it.
            refuses = isinstance(reply, ChildError) and reply.kind in AT_SCALE_REFUSALS and reply.line is not None
            is_finding = leaves or (failure.rule == "grid" and not call.many_rows) or (refuses and not call.may_raise)
            if is_finding and (original is None or not _wrong_at_scale(original, call, {None})):
                trial.findings.append(replace(failure, status=Status.unproved) if leaves else failure)
                continue
            trial.refused.append(Check("at_scale_left_out", call.label(), True))
            continue  # it reads what no program has written there, refuses such sizes, or takes too long
        compared = (compare or _compared_at_scale)(call, reply)
        examined = Examined(*examined_at_scale(call, reply, beyond, compared), deterministic=None)
        left = left_at_the_end(call, reply, [label for label, is_always in written.items() if is_always])
        examined = replace(examined, findings=(*examined.findings, *left))
        written |= {
            label: written.get(label, True) and there for label, there in written_at_the_end(call, reply).items()
        }
        wrong = {finding.evidence.output for finding in examined.findings}
        if wrong and original is not None and wrong <= _wrong_at_scale(original, call, wrong):
            trial.refused.append(Check("at_scale_left_out", call.label(), True))
            continue
        trial.examined.append(examined)
        trial.findings += examined.findings
        if not trial.is_imported_alone:  # what CPython carries out says nothing of it here
            trial.findings += honest_at_scale(call, reply, scale)


def _wrong_at_scale(
    original: Callable[[], AbstractContextManager[ChildSession]], call: AtScale, asked: set[str | None]
) -> set[str | None]:
    """What is wrong of an original's answer to a call at scale: all that is ``asked`` where it has none."""
    try:
        with original() as session:
            asked_again = call.call()
            reply = session.call(asked_again.call, asked_again.tensors)
    except (ChildFailed, ProtocolError):
        return asked
    _, findings = examined_at_scale(call, reply)
    left = left_at_the_end(call, reply, asked - {None})  # type: ignore[arg-type]
    return {finding.evidence.output for finding in (*findings, *left)}


def _replies(session: ChildSession, scaled: Iterable[AtScale]) -> Iterator[tuple[AtScale, ScaledReply | ChildFailed]]:
    """What comes of calls at scale, up to one that ends the process, by time or memory."""
    for call in scaled:
        try:
            asked = call.call()
            yield call, session.call(asked.call, asked.tensors)
        except ChildFailed as error:
            yield call, error
            if not isinstance(error, ChildError):
                return


class _Ahead:
    """Runs cases in the candidate's child as their truth becomes known, while the reference is asked for that of the next.

    What comes of a case is looked at in its turn. On a GPU the child compiles what cases need before it runs any that waits, and
    the values are compared meanwhile. A context manager; ``turn`` ends with the child, and so does it.
    """

    def __init__(self, door: Door) -> None:
        self._door = door
        self._comparing = (
            ThreadPoolExecutor(1, "comparing ahead", torch.set_num_threads, (THREADS,)) if has_gpu() else None
        )
        self._compared: dict[Case, Future[ComparedCase]] = {}
        self._again = set[Case]()  # run with other runs than those that were begun
        self._pool = ThreadPoolExecutor(1, "ahead")
        self._waiting = PriorityQueue[tuple[int, int, Callable[[], None]]]()
        self._numbers = itertools.count()
        self._child: ChildSession | None = None
        self._ended: BaseException | None = None  # why there is none
        self._compiled: list[Future[None]] = []
        # With the runs that are left out of each.
        self._asked: dict[Case, tuple[tuple[str, ...], Future[ChildReply[CaseReply]]]] = {}
        self._stack, self._left = ExitStack(), Event()

    def __enter__(self) -> Self:
        """Do nothing yet."""
        return self

    def __exit__(self, *_: object) -> None:
        """End the child, whatever it is being asked for; one that is not open yet is whose door it is."""
        self._left.set()
        self._pool.shutdown(wait=False, cancel_futures=True)
        if self._comparing is not None:
            self._comparing.shutdown(wait=False, cancel_futures=True)
        if self._child is None:
            return
        if any(not reply.done() for _, reply in self._asked.values()):
            self._child.abandon()
        self._pool.shutdown()
        self._stack.close()

    def also(self, make: Callable[[], Proof]) -> None:
        """Compile what a case needs that nobody judges; it is made when its turn comes."""

        def compiled() -> None:
            proof = make()
            if not is_fit_after_a_run(self._opened(proof.form), proof):
                self._stack.close()
                self._child = None

        self._compiled.append(self._ask(_COMPILED, compiled))

    def has_begun(self, proof: Proof) -> bool:
        """Whether a case was begun that nobody has asked for yet."""
        return proof.case in self._asked

    def begin(self, proof: Proof) -> None:
        """Run a case after those that were begun before."""
        call = _call(proof, NO_PEER, ())

        def run() -> ChildReply[CaseReply]:
            reply = _run(self._opened(proof.form), proof, call)
            if self._comparing is not None and not self._left.is_set():
                self._compared[proof.case] = self._comparing.submit(_compared_ahead, proof, reply)
            return reply

        self._asked[proof.case] = call.call.skip, self._ask(_IN_TURN, run)

    @contextmanager
    def turn(self, form: CallForm) -> Iterator[ChildSession]:
        """The child, in which cases may still run: it is asked for ``reply`` alone until all were looked at.

        Raises:
            RunnerError, ScratchError, ChildFailed, ProtocolError: as its door.
        """
        with self:
            for one in self._compiled:
                one.result()
            session = self._ask(_NEXT, lambda: self._opened(form)).result()
            session.renew()
            yield session

    def reply(self, session: ChildSession, proof: Proof, call: ChildCall[SentCall]) -> ChildReply[CaseReply]:
        """What the candidate replies in a case; it is run next where it was not begun with the same runs.

        Raises:
            ChildFailed, ProtocolError: as the call did.
        """
        skipped, reply = self._asked.pop(proof.case, ((), None))
        if reply is None or skipped != call.call.skip:
            if reply is not None:
                reply.cancel()  # else it runs at last, while the child is asked for something else
            self._again.add(proof.case)
            reply = self._ask(_NEXT, lambda: _run(session, proof, call))
        return reply.result()

    def settle(self) -> None:
        """Leave out what was begun and nobody asked for, and wait for what runs: then others may talk to the child."""
        for _, reply in self._asked.values():
            reply.cancel()
        self._ask(_NEXT, lambda: None).result()

    def compared(self, proof: Proof) -> Future[ComparedCase] | None:
        """What comes of comparing what was replied in a case that was begun; None where nobody does, or it was run again."""
        return None if proof.case in self._again else self._compared.pop(proof.case, None)

    def _ask(self, turn: int, work: Callable[[], _Answer]) -> Future[_Answer]:
        """Do something in the thread that alone talks to the child."""
        future = Future[_Answer]()

        def done() -> None:
            if not future.set_running_or_notify_cancel():
                return
            try:
                future.set_result(work())
            except BaseException as error:  # noqa: BLE001 - it is raised to whoever waits
                future.set_exception(error)

        self._waiting.put((turn, next(self._numbers), done))
        self._pool.submit(self._serve)
        return future

    def _serve(self) -> None:
        *_, work = self._waiting.get_nowait()
        work()

    def _opened(self, form: CallForm) -> ChildSession:
        if self._ended is not None:
            raise self._ended
        if self._child is None:
            try:
                self._child = self._stack.enter_context(self._door(form))
            except BaseException as error:
                self._ended = error
                raise
            if self._left.is_set():
                self._stack.close()
        return self._child


class _CallingAtScale:
    """Calls a candidate at scale, in the interpreter, once it has begun in a child of its own while another one runs the cases, and
    compares what it replies.

    A context manager; at its end the child is gone.
    """

    def __init__(self, candidate: CandidateSource, context: RunContext, scaled: Iterable[AtScale]) -> None:
        self._candidate, self._context, self._scaled = candidate, context, scaled
        self._pool, self._comparing = ThreadPoolExecutor(1, "at scale"), ThreadPoolExecutor(1, "comparing at scale")
        self._compared: dict[int, Future[ComparedAtScale]] = {}  # by call
        self._found = SimpleQueue[tuple[AtScale, ScaledReply | ChildFailed] | None]()
        self._pending: Future[None] | None = None
        self._child: ChildSession | None = None
        self._stack, self._busy = ExitStack(), Lock()  # held while the child is opened, or asked
        self._left = Event()

    def __enter__(self) -> Self:
        """Do nothing yet."""
        return self

    def __exit__(self, *_: object) -> None:
        """End the child, whatever it is being asked for; the next call's truth is not waited for."""
        self._left.set()
        if self._child is not None:
            self._child.abandon()
        with self._busy:
            self._stack.close()
        self._pool.shutdown(wait=False)
        self._comparing.shutdown(cancel_futures=True)

    def begin(self, form: CallForm) -> None:
        """Begin in a child of its own."""
        self._pending = self._pool.submit(self._run, form)

    def replies(self, session: ChildSession) -> Iterator[tuple[AtScale, ScaledReply | ChildFailed]]:
        """What comes of the calls; of ``session`` where it has not begun before.

        Raises:
            ChildFailed, ProtocolError: its own child does not load, or does not answer by the runner's code.
        """
        if self._pending is None:
            yield from _replies(session, self._scaled)
            return
        while (one := self._found.get()) is not None:
            yield one
        self._pending.result()

    def compared(self, call: AtScale, reply: ScaledReply) -> ComparedAtScale:
        """What holding a reply against the truth gives."""
        ahead = self._compared.pop(id(call), None)
        return _compared_at_scale(call, reply) if ahead is None else ahead.result()

    def _run(self, form: CallForm) -> None:
        try:
            with self._busy:
                if self._left.is_set():
                    return
                door = loaded("candidate", self._candidate, form, self._context, "candidate at scale", gpu=False)
                self._child = self._stack.enter_context(door)
            for call in self._scaled:
                with self._busy:
                    if self._left.is_set():
                        return
                    ((_, reply),) = _replies(self._child, [call])
                if not isinstance(reply, ChildFailed):
                    self._compared[id(call)] = self._comparing.submit(_compared_at_scale, call, reply)
                self._found.put((call, reply))
                if isinstance(reply, ChildFailed) and not isinstance(reply, ChildError):
                    return
        finally:
            self._found.put(None)


class _Compiling:
    """Has Triton compile what cases launch, where there is no GPU: the interpreter takes what no compiler does.

    It is done in a child of its own, while others run the cases once it has ``begun``. A context manager; at its end the child is
    gone.
    """

    def __init__(self, candidate: CandidateSource, context: RunContext, original: CandidateSource | None) -> None:
        self._candidate, self._context, self._original = candidate, context, original
        self._pool = ThreadPoolExecutor(1, "compiling")
        self._asked = SimpleQueue[Proof | None]()
        # Dtype and kernels of the cases that were asked about, and the dimensions of one, by which arguments are constants.
        self._known: set[tuple[str, frozenset[str], frozenset[str]]] = set()
        self._decided: dict[SeenDecision, int] = {}  # in kernels, when a case was asked about last
        self._launched: dict[str, None] = {}
        self._pending: Future[tuple[VerdictFinding | None, set[str]]] | None = None
        self._child: ChildSession | None = None

    def __enter__(self) -> Self:
        """Do nothing yet."""
        return self

    def __exit__(self, *_: object) -> None:
        """End the child."""
        self._asked.put(None)
        while self._pending is not None and not self._pending.done():
            if self._child is not None:
                self._child.abandon()
            wait([self._pending], LOOK_S)
        self._pool.shutdown()

    def take(self, proof: Proof, answer: CaseAnswer) -> None:
        """Ask about a case, unless one of the same dtype launched the same kernels, which have decided all of it before."""
        case = proof.case
        decided = {one: seen for one, seen in answer.decisions.items() if one.in_kernel}
        is_there = not case.gpu or getattr(GPUS.get(case.gpu), "architecture", "") == COMPILED_FOR
        if not is_there:  # it is compiled as where host code is told of none
            proof = replace(proof, case=replace(case, gpu="", multiprocessors=0))
        is_usual = case.content is Content.ordinary and not (case.is_empty or case.compiling)
        is_usual = is_usual and (bool(case.gpu) or not case.may_raise)
        key = case.dtype, frozenset(answer.launched), frozenset(dim for dim, size in case.sizes if size == 1)
        is_new = key not in self._known or decided != self._decided  # by constants, some of it
        if is_usual and is_new and answer.launched:
            self._known.add(key)
            self._decided = decided
            self._asked.put(proof)
        self._launched |= dict.fromkeys(answer.launched)

    def begin(self, form: CallForm) -> None:
        """Begin in a child of its own."""
        if self._pending is None:
            self._pending = self._pool.submit(self._run, form)

    def end(self, trial: _Trial, form: CallForm) -> None:
        """Add what the compiler refused, and the kernels that it was not asked for."""
        self._context.progress("verify: as it is compiled")
        self._asked.put(None)
        self.begin(form)
        assert self._pending is not None
        with span("waiting for the compiler"):
            refused, compiled = self._pending.result()
        if refused is not None:
            trial.findings.append(refused)
            return
        trial.refused += [Check("compile_left_out", name, True) for name in self._launched if name not in compiled]

    def _run(self, form: CallForm) -> tuple[VerdictFinding | None, set[str]]:
        compiled: set[str] = set()
        try:
            with self._loaded(self._candidate, form) as self._child:
                for proof in iter(self._asked.get, None):
                    reply = _compiled(self._child, proof)
                    compiled |= set(reply.compiled)
                    if reply.refused is not None and not self._refuses_original(proof):
                        return _refused_by_compiler(proof, reply.refused), compiled
        except (ChildFailed, ProtocolError) as error:
            # What ends the process, or does not load there, says nothing of kernels.
            _log.info("not compiled: %s", error)
        return None, compiled

    def _refuses_original(self, proof: Proof) -> bool:
        if self._original is None:
            return False
        try:
            with self._loaded(self._original, proof.form, ORIGINAL) as session:
                return _compiled(session, proof).refused is not None
        except (ChildFailed, ProtocolError):
            return True

    @contextmanager
    def _loaded(
        self, source: CandidateSource, form: CallForm, name: str = "compiled candidate"
    ) -> Iterator[ChildSession]:
        variables = {"TRITON_INTERPRET": "0"}
        session = candidate_session("candidate", source, self._context, name=name, gpu=False, variables=variables)
        with opened(session, self._context):
            load(session, source, form, mode=EITHER if name == ORIGINAL else EVALUATED, compiles=True)
            yield session


def _compiled(session: ChildSession, proof: Proof) -> CompiledReply:
    call = make_call(replace(proof, uses=(), other=None), tolerant=True)
    return session.call(CompileCase(call.call), call.tensors, COMPILING_S).message


def _refused_by_compiler(proof: Proof, refusal: CompilerRefusal) -> VerdictFinding:
    words = " ".join(f"{refusal.kind}: {refusal.message}".split())[:300]
    message = f"Triton's compiler for {COMPILED_FOR} refuses a kernel that its interpreter takes: {words}"
    return VerdictFinding(Status.compile_error, Evidence("compile", message, proof.case.label(), line=refusal.line))


def _as_known(cases: list[tuple[Proof, Peer]], rest: Rest, gpu: bool) -> Iterator[tuple[Proof, Peer]]:
    """Each case, and those of ``rest``, which are added to the others, as soon as their truth is known."""
    for case in tuple(_in_turn(cases, gpu)):
        yield case
        yield from _added(cases, rest(False))
    while more := rest(True):
        yield from _added(cases, more)


def _added(cases: list[tuple[Proof, Peer]], proofs: list[Proof]) -> list[tuple[Proof, Peer]]:
    more = [(proof, NO_PEER) for proof in proofs]
    cases += more
    return more


def _in_turn(cases: Sequence[tuple[Proof, Peer]], gpu: bool) -> Sequence[tuple[Proof, Peer]]:
    """Small cases first, which tell of most that is wrong; on a GPU large ones second, to be compared while the rest runs."""
    return [*cases[:1], *sorted(cases[1:], key=lambda one: not one[0].case.measured)] if gpu else cases


def may_refuse(proof: Proof, peer: Peer, error: ChildError) -> bool:
    """Whether a candidate may raise this in a case: by a check of its own, or in any way where there is nothing to compute.

    Where inputs have two dtypes a kernel may not compile, as a product of matrices of both.

    By arithmetic, such as a division by a scalar of zero, it may where the reference has no number in any output.
    What an original answers may not be refused, unless it is wrong by far or host code was told of a GPU that is not there.
    """
    case = proof.case
    has_number = any(bool(item.truth.exact.isfinite().any()) for item in proof.outputs)
    is_refusal = error.kind in REFUSALS or (error.kind in ARITHMETIC and not has_number)
    if not (case.may_raise and (is_refusal or ((case.is_empty or case.mixed) and error.verdict is None))):
        return False
    return peer.answer is None or bool(case.gpu) or Look(proof, peer.answer).is_another_function()


def _tells_much(proof: Proof) -> bool:
    """Whether a case is small, of usual values, and of several programs in each dimension."""
    case = proof.case
    is_usual = case.content is Content.ordinary and not (case.may_raise or case.measured)
    return is_usual and all(size > 1 for _, size in case.sizes)


def _door_of_imported(candidate: CandidateSource, context: RunContext) -> Door:
    """The door to a child in which CPython carries out the candidate's host code too."""
    return lambda form: loaded("candidate", candidate, form, context, "imported candidate", IMPORTED)


class _Importing:
    """Has CPython carry out the host code too: what was evaluated is what users will call.

    In every case it must leave the same trail, which needs no kernel to run; and in one that nobody can foresee the same values.
    A context manager; on a GPU that one case is run while the candidate's own child is at work, ``ahead`` where it was begun
    before, and each trail followed as it is left; in the interpreter once the first cases have passed, where children are apart.
    """

    def __init__(
        self, candidate: CandidateSource, learned: OriginalRuns, context: RunContext, ahead: _Ahead | None = None
    ) -> None:
        self._learned, self._context = learned, context
        self._ahead = ahead or _Ahead(_door_of_imported(candidate, context))
        able = [
            proof for proof in learned.proofs if proof.case.content is Content.ordinary and not proof.case.may_raise
        ]
        small = [proof for proof in able if not proof.case.measured] or able or learned.proofs
        some = [proof for proof in small if _tells_much(proof)] or small
        begun = [proof for proof in some if self._ahead.has_begun(proof)] or some
        self._chosen = begun[learned.proofs[0].case.seed % len(begun)]
        self._pool = ThreadPoolExecutor(1, "importing")
        self._pending: Future[ChildSession] | None = None
        self._followed: dict[int, Future[str | None]] = {}  # what is said of trails, by identity
        self._following, self._is_over = Lock(), False
        self._stack = ExitStack()
        self._other = _Trial()

    def __enter__(self) -> Self:
        """Begin on a GPU."""
        if has_gpu():
            self._pending = self._pool.submit(self._begun)
        return self

    def begin(self, trial: _Trial) -> None:
        """Begin, with the trails that were left, while the candidate's own child is at work."""
        if self._pending is None and not (trial.is_imported_alone or trial.findings):
            self._pending = self._pool.submit(self._begun)
            for trail in trial.trails:
                self.follow(trail)

    def __exit__(self, *_: object) -> None:
        """End the child."""
        with self._following:
            self._is_over = True
        self._pool.shutdown(cancel_futures=True)
        self._stack.close()

    def follow(self, trail: _Trail) -> None:
        """Compare a trail meanwhile, once it has begun."""
        with self._following:
            if self._pending is not None and not self._is_over:
                self._followed[id(trail)] = self._pool.submit(self._said_of, trail)

    def end(self, trial: _Trial) -> None:
        """Compare the trails, and add what was seen."""
        self._context.progress("verify: as it is imported")
        other, label = self._other, self._chosen.case.label()
        try:
            with span("waiting for the imported candidate"):
                session = self._begun() if self._pending is None else self._pending.result()
            # What it has torch compute was seen where it was evaluated; there torch calls nothing by the program's own names.
            other.findings = [finding for finding in other.findings if finding.evidence.check != "honest"]
            for trail in trial.trails if not other.findings else ():
                label = trail[0].case.label()
                followed = self._followed.get(id(trail)) or self._pool.submit(self._said_of, trail, session)
                said = followed.result()
                if said:
                    other.findings.append(
                        VerdictFinding(Status.unproved, Evidence("imported", said, label), "imported")
                    )
                    break
        except (ChildFailed, ProtocolError) as error:
            other.findings.append(failure_of(error, "imported", label))
        if not other.findings:
            trial.examined.append(Examined((Check("imported", self._chosen.case.label(), True),), deterministic=None))
            return
        evidence = other.findings[0].evidence
        how = "numbers in the lanes that masked loads leave undefined" if has_gpu() else "its programs in reverse order"
        message = f"Imported by CPython, and run with {how}, it does something else than where it is evaluated: {evidence.message}"
        trial.findings.append(
            VerdictFinding(Status.unproved, replace(evidence, check="imported", message=message), "imported")
        )

    def _said_of(self, trail: _Trail, session: ChildSession | None = None) -> str | None:
        if session is None:
            assert self._pending is not None
            session = self._pending.result()  # of the same thread, before
        proof, peer, left, has_devices = trail
        call = _call(proof, peer, self._learned.overwrites, has_devices=has_devices)
        return _other_trail(session, proof, peer, call, left)

    def _begun(self) -> ChildSession:
        """Load the candidate, and run the one case."""
        chosen, overwrites = self._chosen, tuple(self._learned.overwrites)
        session = self._stack.enter_context(self._ahead.turn(chosen.form))
        peer = next(peer for proof, peer in self._learned.cases if proof is chosen)
        answer = _answer(self._other, session, chosen, peer, overwrites, self._ahead)
        device, compared = "cuda" if session.gpu else "cpu", self._ahead.compared(chosen)
        examined = _examined(AnsweredCase(chosen, answer, device, peer, overwrites), compared=compared)
        self._other.take(examined, answer.launched)
        return session


class _Interpreting:
    """Beside a GPU, runs a candidate in Triton's interpreter, which sees each race, each access outside of a launch's buffers, and
    what kernels decide.

    With ``prove``, which gives cases that the interpreter can run, it goes on until every kernel that the GPU launched was seen
    with both outcomes of its decisions, or no case is left. Values that are wrong count, since a decision may have its other
    outcome there alone: they are held against all that is allowed in cases that decide something new, by size in others. And so
    does the trail: told of the GPU that is there, the host code does what it does there. Where that is
    not enough, it is told of one with few processors, so that programs of persistent kernels have several blocks each. Without
    ``prove`` it runs two of the GPU's cases, of which only races and accesses count. A context manager; it works while the GPU
    does, and where it is left before ``end`` it stops after a case. An ``original`` runs there too: what it errs is granted, and a
    case that it does not survive is left out. What kernels decide that its texts, ``before``, have word for word is its business,
    also where no case of the interpreter launches them; so is what kernels of a library decide that the candidate does not write.
    """

    def __init__(
        self,
        candidate: CandidateSource,
        context: RunContext,
        prove: Callable[[], Generator[Proof | AtScale, None, None]] | None = None,
        original: CandidateSource | None = None,
        before: Collection[str] = (),
    ) -> None:
        self._candidate, self._context, self._prove = candidate, context, prove
        self._original, self._before = original, before
        self._pool = ThreadPoolExecutor(1, "interpreting")
        self._learned: Future[OriginalRuns] = Future()  # what the candidate is judged beside
        self._device: Future[dict[str, Any]] = (
            Future()
        )  # the facts of the GPU, or none, once the candidate's own child is open
        self._on_gpu: Collection[str] | None = None  # the kernels that the GPU launched, once it has ended
        self._is_over = Event()  # it has, or nobody waits any more
        self._seen = _Interpreted(by_value=prove is not None)
        self._leaving = Lock()
        self._left = False
        self._pending: Future[_Interpreted] | None = None

    def __enter__(self) -> Self:
        """Begin to ask the reference."""
        self._pending = self._pool.submit(self._run)
        return self

    def __exit__(self, *_: object) -> None:
        """Wait for the case that is running."""
        self.leave()
        if not self._learned.done():
            self._learned.set_result(OriginalRuns())
        self._pool.shutdown()

    def leave(self) -> None:
        """Do no more than the case that is running."""
        self._left = True
        self._is_over.set()
        self._begin(None)

    def see(self, kernels: Collection[str]) -> None:
        """Know what the GPU launched, now that it has ended."""
        self._on_gpu = kernels
        self._is_over.set()

    def seen(self) -> _Interpreted:
        """What came of it, at its end.

        Raises:
            RunnerError: the host, not the candidate, is at fault.
        """
        assert self._pending is not None
        return self._pending.result()

    def entering(self, door: Door, learned: OriginalRuns) -> Door:
        """The door to the candidate's child, from whose opening on the interpreter runs the candidate too."""
        self._learned.set_result(learned)

        @contextmanager
        def entered(form: CallForm) -> Iterator[ChildSession]:
            with door(form) as session:
                self._begin(session)
                yield session

        return entered

    def followed(self, follow: Callable[[_Trail], None]) -> None:
        """Have each trail followed that is left, those before too."""
        with self._leaving:
            self._seen.follow = follow
            for trail in self._seen.trails:
                follow(trail)

    def told(self, session: ChildSession) -> None:
        """Begin as the candidate's own child starts, where no child can reach another."""
        if keeps_apart(session.isolation):
            self._begin(session)

    def _begin(self, session: ChildSession | None) -> None:
        """Go on, with the facts of the GPU that a session has; nothing where that is known."""
        if not self._device.done():
            self.go_on({} if session is None else _facts_of(session))

    def go_on(self, facts: dict[str, Any]) -> None:
        """Begin to run the candidate, told of the GPU that has these facts, or of none."""
        with suppress(InvalidStateError):  # another thread was first
            self._device.set_result(facts)

    def end(self, trial: _Trial) -> None:
        """Add what was seen to what the GPU showed."""
        self.see(trial.kernels)
        self._begin(None)
        with span("waiting for the interpreter"):
            seen = self.seen()
        trial.add(seen)
        if not seen.is_whole:
            return
        trial.trails += seen.trails
        trial.decisions |= _of_kernels(seen)
        files = self._candidate.screened_files
        kept = kept_functions(files, self._before)
        missed = [name for name in trial.kernels if name not in seen.kernels and name not in kept]
        if self._candidate.tree is not None:
            missed = [name for name in missed if name in functions_of(files)]
        if missed:
            trial.findings.append(_only_on_a_gpu(missed[0], seen.refused))

    def _run(self) -> _Interpreted:
        seen = self._seen
        ahead: SimpleQueue[Proof | None] = SimpleQueue()
        with ThreadPoolExecutor(1, "interpreted reference") as pool:
            at_scale = None if self._prove is None else pool.submit(self._prove_ahead, self._prove, ahead)
            try:
                self._run_cases(seen, ahead)
            finally:
                self._left |= bool(seen.findings)
            if at_scale is not None:
                other = at_scale.result()
                seen.add(other)
        seen.refused = seen.refused[:MOST_LEFT_OUT]
        return seen

    def _prove_ahead(
        self, prove: Callable[[], Generator[Proof | AtScale, None, None]], ahead: SimpleQueue[Proof | None]
    ) -> _Trial:
        """Cases with their truth as they are known, and None at the end; call the candidate at the size of workloads, as the
        truth of these calls becomes known.

        None alone where the reference does not run there.
        """
        seen, scaled = _Trial(), SimpleQueue[AtScale | None]()
        children: list[Future[_Trial]] = []
        with ThreadPoolExecutor(AT_SCALE, "at scale") as pool:
            try:
                with closing(prove()) as known:
                    for place, one in enumerate(itertools.takewhile(lambda _: not self._left, known)):
                        if isinstance(one, Proof):
                            form = one.form
                            is_first = place < LEAST_INTERPRETED  # which most races show in
                            ahead.put(replace(one, once=not is_first and one.case.seed % TWICE_OF != 0))
                            continue
                        if not children:
                            ahead.put(None)
                            children += [pool.submit(self._called_at_scale, form, scaled) for _ in range(AT_SCALE)]
                        scaled.put(one)
            except BadProblem as error:
                seen.refused.append(Check("interpreter_left_out", error.message, True))
            finally:
                ahead.put(None)
                for _ in range(AT_SCALE):
                    scaled.put(None)
            for child in children:
                seen.add(child.result())
        return seen

    def _called_at_scale(self, form: CallForm, scaled: SimpleQueue[AtScale | None]) -> _Trial:
        """What came of calls in a child of their own, up to None. Each is left out once something wrong was seen."""
        seen = _Trial()
        try:
            door = loaded("candidate", self._candidate, form, self._context, f"{INTERPRETED} at scale", gpu=False)
            with door as child:
                # Numbers of the host are those of another device there, and cases on the GPU have the workloads' sizes.
                due = itertools.takewhile(lambda _: not self._left, iter(scaled.get, None))
                original = None if self._original is None else _door_of_original(self._original, self._context)
                again = None if original is None else functools.partial(original, form)
                _try_at_scale(seen, child, _replies(child, due), None, again, numbers=False)
        except (ChildFailed, ProtocolError) as error:  # the child of the other cases tells what is wrong
            seen.refused.append(Check("at_scale_left_out", str(error)[:200], True))
        return seen

    def _run_cases(self, seen: _Interpreted, ahead: SimpleQueue[Proof | None]) -> None:
        first = None if self._prove is None else ahead.get()
        seen.is_whole = first is not None
        own = [] if first is None else [first]
        facts = self._device.result()
        learned = OriginalRuns() if own else self._judged_by()
        cases = [(_told_of_a_gpu(proof), peer) for proof, peer in _first_to_interpret(learned.cases)]
        if self._left or not (own or cases):
            return
        tries = _by_turns(_growing(own, ahead), facts) if own else ((proof, peer, facts) for proof, peer in cases)
        label = ""
        try:
            form = (first or cases[0][0]).form
            with ExitStack() as stack:
                children = _Children(self._candidate, self._context, INTERPRETED, stack)
                session = children.take(form)
                children.give_back(session)
                comparing = stack.enter_context(_Comparing(seen))
                known_by: dict[object, Mapping[SeenDecision, int]] = {}  # when a case was last compared as a whole
                known = stack.enter_context(self._beside_original(tries, seen))
                overwrites = tuple(self._judged_by().overwrites)  # an original is interpreted before that is known
                pool = stack.enter_context(ThreadPoolExecutor(INTERPRETED_AT_ONCE, "interpreted"))
                stack.callback(pool.shutdown, cancel_futures=True)
                ask = functools.partial(self._answer, children, overwrites)
                met = set[int]()
                is_asked_outside = False
                for (proof, peer, told), answer, child in _few_ahead(pool, ask, known):
                    if own and proof.case.seed in met and not is_asked_outside:
                        # No case has them, so that what they alone decide is seen before cases are run with another device.
                        is_asked_outside = True
                        _decide_outside(seen, session, functools.partial(children.open, form), overwrites)
                        if not self._is_open(seen):
                            self._is_over.wait()  # it may have launched a kernel that none of the cases here has
                    met.add(proof.case.seed)
                    if self._left or self._has_seen_enough(seen):
                        break
                    label = proof.case.label()
                    if isinstance(answer, ChildFailed | ProtocolError):
                        failure = failure_of(answer, INTERPRETED, label)
                        if not (own and isinstance(answer, ChildError)) or _is_seen_there(failure):
                            raise answer
                        if not may_refuse(proof, peer, answer):
                            seen.refused.append(Check("interpreter_left_out", failure.evidence.message, True))
                    else:
                        self._take(seen, proof, peer, answer, child, leaves_trail=told is facts)
                        # How errors are distributed is seen on the GPU, but of what is decided here alone.
                        # Host code decides for its kernels too, by a number that it gives them.
                        kind, decided = (proof.case.dtype, told is facts), dict(seen.decisions)
                        is_known = known_by.get(kind) == decided
                        known_by[kind] = decided
                        comparing.begin(AnsweredCase(proof, answer, "cpu", peer, overwrites), is_coarse=is_known)
                pool.shutdown(cancel_futures=True)
                if own and not self._left:
                    if not is_asked_outside:
                        _decide_outside(seen, session, functools.partial(children.open, form), overwrites)
                    written, told = self._candidate.screened_files, {"device": facts or None, "has_devices": False}
                    _decide_altered(seen, session, overwrites, written, **told)
        except ProtocolError as error:
            seen.findings.append(failure_of(error, INTERPRETED, label))
        except ChildFailed as error:
            failure = failure_of(error, INTERPRETED, label)
            if _is_seen_there(failure):
                seen.findings.append(failure)
            else:
                seen.refused.append(Check("interpreter_left_out", failure.evidence.message, True))

    def _judged_by(self) -> OriginalRuns:
        """What the candidate is judged beside; waits for it where there is an original."""
        return OriginalRuns() if self._original is None and self._prove is not None else self._learned.result()

    def _answer(self, children: _Children, overwrites: Collection[str], one: _InterpretedTry) -> _InterpretedAnswer:
        """What the candidate does in a case, or what ends it."""
        proof, peer, facts = one
        call = _call(proof, peer, overwrites, device=facts or None, has_devices=False)
        asked = RunCase(call.call, optional=True, several=True)
        session = None
        try:
            session = children.take(proof.form)
            try:
                reply = session.call(asked, call.tensors, INTERPRETED_S, check=expecting(proof))
            finally:
                children.give_back(session)  # where it is gone, this answer ends the run before another is looked at
            return one, read_answer(reply), session
        except (ChildFailed, ProtocolError) as error:
            return one, error, session

    def _take(
        self, seen: _Trial, proof: Proof, peer: Peer, answer: CaseAnswer, child: object, *, leaves_trail: bool
    ) -> None:
        if self._prove is not None and self._device.result() and leaves_trail:
            with self._leaving:
                seen.leave(proof, peer, answer.trail, False)
        seen.examined.append(Examined((Check(INTERPRETED, proof.case.label(), True),), deterministic=None))
        seen.decide(proof, peer, answer, child)
        seen.kernels |= dict.fromkeys(answer.launched)

    @contextmanager
    def _beside_original(self, tries: Iterator[_InterpretedTry], seen: _Trial) -> Iterator[Iterator[_InterpretedTry]]:
        """The cases in which an original runs too, each with what it did; it is at work on the next ones meanwhile."""
        original = self._original
        if original is None or self._prove is None:
            yield tries
            return
        left_out: list[str] = []

        def known(one: _InterpretedTry) -> list[_InterpretedTry]:
            (proof, _, facts), learned = one, OriginalRuns()
            session = children.take(proof.form)
            try:
                if learn_case(learned, session, proof, self._context, facts):
                    children.give_back(session)
            except BadOriginal as bad:  # it writes where it must not
                learned.dropped[proof.case.label()] = bad.message
            left_out.extend(learned.dropped.values())
            return [(*case, facts) for case in learned.cases]

        with ExitStack() as stack, ThreadPoolExecutor(INTERPRETED_AT_ONCE, "interpreted original") as pool:
            children = _Children(original, self._context, ORIGINAL, stack)
            try:
                yield itertools.chain.from_iterable(pool.map(known, tries))
            finally:
                pool.shutdown(cancel_futures=True)
                seen.refused += [Check("interpreter_left_out", f"the original: {reason}", True) for reason in left_out]

    def _has_seen_enough(self, seen: _Trial) -> bool:
        if self._on_gpu is None or len(seen.examined) < LEAST_INTERPRETED:
            return False
        return not self._is_open(seen) and seen.kernels.keys() >= set(self._on_gpu)

    @staticmethod
    def _is_open(seen: _Trial) -> bool:
        return any(outcome != BOTH for decision, outcome in seen.decisions.items() if decision.in_kernel)


class _InterpretingApart(_Interpreting):
    """The same in a second process of the runner, on a host of many cores; of a candidate that has no original."""

    def __init__(self, request: VerifyRequest, context: RunContext, draws: Draws, before: Collection[str]) -> None:
        super().__init__(request.candidate, context, lambda: (_ for _ in ()), None, before)
        self._companion = companion.take()
        given = request, draws.master, tuple(before), RunContext(context.folder, context.limits, context.require)
        self._line = self._companion.ask(_interpret, *given)

    def __exit__(self, *_: object) -> None:
        """End the process, after the case that is running."""
        super().__exit__()
        self._companion.end()

    def leave(self) -> None:
        """Do no more than the case that is running."""
        super().leave()
        self._line.send(("leave", ()))

    def see(self, kernels: Collection[str]) -> None:
        """Know what the GPU launched, now that it has ended."""
        super().see(kernels)
        self._line.send(("see", (tuple(kernels),)))

    def _run(self) -> _Interpreted:
        self._device.add_done_callback(lambda facts: self._line.send(("go_on", (facts.result(),))))
        try:
            while True:
                kind, what = self._line.receive()
                if kind == "trail":
                    with self._leaving:
                        self._seen.leave(*what)
                elif kind == "seen":
                    seen: _Interpreted
                    seen, took, levels = what
                    add(took)
                    self._context.isolation += levels
                    return replace(seen, trails=self._seen.trails)
                else:
                    raise RunnerError(what)
        except (EOFError, OSError) as error:
            how = self._companion.how_it_ended()
            raise RunnerError(
                f"the runner's second process, which interprets the candidate beside the GPU, {how}"
            ) from error


def _interpret(
    line: CompanionPipe, request: VerifyRequest, master: str, before: tuple[str, ...], context: RunContext
) -> None:
    """Interpret a candidate as the second process of the runner, which is told and tells by this line."""
    keep_pages()
    share_steps()
    prove = functools.partial(
        _interpreted_proofs, request, parse_problem(request.problem_source), context, Draws(master)
    )
    beside = _Interpreting(request.candidate, context, prove, None, before)

    def listen() -> None:
        told: dict[str, Callable[..., None]] = {"leave": beside.leave, "see": beside.see, "go_on": beside.go_on}
        try:
            while True:
                what, arguments = line.receive()
                told[what](*arguments)
        except (EOFError, OSError):
            beside.leave()  # the first process is gone

    Thread(target=listen, name="listening", daemon=True).start()
    try:
        with beside:
            beside.followed(lambda trail: line.send(("trail", trail)))
            seen = beside.seen()
    except (RunnerError, ValueError, OSError) as error:
        _log.exception("the candidate could not be interpreted")
        line.send(("failed", f"{type(error).__name__}: {error}"))
        return
    # What only this process knows by identity stays here.
    seen = replace(seen, trails=[], follow=_untold, decided={}, launching={}, small=[])
    line.send(("seen", (seen, spent(), context.isolation)))


class _Children:
    """Children in the interpreter for threads that each need one for a while; more are started as they are needed."""

    def __init__(self, source: CandidateSource, context: RunContext, name: str, stack: ExitStack) -> None:
        self._source, self._context, self._name, self._stack = source, context, name, stack
        self._idle, self._opening = SimpleQueue[ChildSession](), Lock()

    def take(self, form: CallForm) -> ChildSession:
        """One that nobody else has.

        Raises:
            ChildFailed, ProtocolError: it does not start.
        """
        try:
            return self._idle.get_nowait()
        except Empty:
            with self._opening:
                return self._stack.enter_context(self.open(form))

    def open(self, form: CallForm) -> AbstractContextManager[ChildSession]:
        """One that is not handed on."""
        return loaded("candidate", self._source, form, self._context, self._name, gpu=False)

    def give_back(self, session: ChildSession) -> None:
        self._idle.put(session)


def _few_ahead(
    pool: ThreadPoolExecutor, ask: Callable[[_InterpretedTry], _InterpretedAnswer], ones: Iterable[_InterpretedTry]
) -> Iterator[_InterpretedAnswer]:
    """What comes of each, in their order, while a few further ones are asked."""
    pending: deque[Future[_InterpretedAnswer]] = deque()
    for one in ones:
        pending.append(pool.submit(ask, one))
        if len(pending) > INTERPRETED_AT_ONCE:
            yield pending.popleft().result()
    while pending:
        yield pending.popleft().result()


def _facts_of(session: ChildSession) -> dict[str, Any]:
    """What host code can learn of the GPU; nothing without one."""
    if not session.gpu:
        return {}
    try:
        return session.call(AskDevice()).message
    except ChildError as error:
        raise RunnerError(f"the GPU does not say what it is: {error}") from error


def _with_few_processors(facts: dict[str, Any], seed: int) -> dict[str, Any]:
    """Facts of the same GPU, but for its multiprocessors, of which it has as few as a seed draws."""
    few = 1 + seed % MOST_PROCESSORS
    properties = facts["properties"] | {"multi_processor_count": few}
    return {**facts, "properties": properties, "driver": facts["driver"] | dict.fromkeys(DRIVER_COUNTS, few)}


def _of_kernels(trial: _Trial) -> Mapping[SeenDecision, int]:
    return {decision: outcome for decision, outcome in trial.decisions.items() if decision.in_kernel}


def _is_seen_there(finding: VerdictFinding) -> bool:
    """Whether it is something that the interpreter sees of kernels, and a GPU may not show."""
    return finding.status in SEEN_BY_INTERPRETER or finding.rule in (FALSE_CLAIM, NOT_COMPARED)


def _is_of_values(finding: VerdictFinding) -> bool:
    return finding.status in (Status.incorrect_values, Status.incorrect_gradient, Status.unwritten_output)


def _by_interpreter(finding: VerdictFinding) -> VerdictFinding:
    message = f"In Triton's interpreter it is wrong, though not on the GPU: {finding.evidence.message}"
    return VerdictFinding(Status.unproved, replace(finding.evidence, message=message), INTERPRETED)


def _only_on_a_gpu(kernel: str, refused: Sequence[Check]) -> VerdictFinding:
    """That nobody saw what a kernel decides."""
    why = f" It ended with: {refused[0].workload}" if refused else ""
    message = f"The kernel `{kernel}` ran on the GPU and in no case of Triton's interpreter, where it is seen what it decides.{why}"
    return VerdictFinding(Status.unproved, Evidence(INTERPRETED, message), INTERPRETED)


def _growing(proofs: list[Proof], ahead: SimpleQueue[Proof | None]) -> Iterator[Proof]:
    """Proofs, and then those that come, which are added to them."""
    yield from tuple(proofs)
    for proof in iter(ahead.get, None):
        proofs.append(proof)
        yield proof


def _by_turns(proofs: Iterable[Proof], facts: dict[str, Any]) -> Iterator[_InterpretedTry]:
    """Each case with host code told of the GPU, or of one with few processors, by turns; then each with the other.

    A persistent kernel has more blocks than programs where there are few.
    """
    others: list[_InterpretedTry] = []
    for place, proof in enumerate(proofs):
        if not facts:
            yield proof, NO_PEER, facts
            continue
        turns = [facts, _with_few_processors(facts, proof.case.seed)]
        yield proof, NO_PEER, turns[place % 2]
        others.append((proof, NO_PEER, turns[1 - place % 2]))
    yield from others


def _first_to_interpret(cases: Sequence[tuple[Proof, Peer]]) -> list[tuple[Proof, Peer]]:
    """The case with most elements and the one with most rows, of those that are small enough."""
    shapes = [(proof.case, [tuple(tensor.shape) for tensor in proof.inputs.values()]) for proof, _ in cases]
    return [cases[place] for place in _largest_and_deepest(shapes)]


def _largest_and_deepest(cases: Sequence[tuple[Case, Sequence[Shape]]]) -> list[int]:
    """Places of the case with most elements and of the one with most rows; each has the shapes of its inputs."""
    able = [place for place, (case, shapes) in enumerate(cases) if _can_be_interpreted(case, shapes)]
    largest = sorted(able, key=lambda place: -_elements(cases[place][1]))[:1]
    deepest = sorted((place for place in able if place not in largest), key=lambda place: -_rows(cases[place][1]))[:1]
    return [*largest, *deepest]


def _can_be_interpreted(case: Case, shapes: Sequence[Shape]) -> bool:
    is_usual = case.content is Content.ordinary and not case.is_empty and not case.may_raise and bool(case.sizes)
    is_small = _elements(shapes) <= INTERPRETED_ELEMENTS and math.prod(case.size_of.values()) <= INTERPRETED_WORK
    return is_usual and is_small and _rows(shapes) <= INTERPRETED_ROWS


def _elements(shapes: Sequence[Shape]) -> int:
    return max(map(math.prod, shapes), default=0)


def _rows(shapes: Sequence[Shape]) -> int:
    return max((math.prod(shape) // max(1, shape[-1]) for shape in shapes if shape), default=0)


def _told_of_a_gpu(proof: Proof) -> Proof:
    """The case with host code told of a GPU, so that it takes the way that it takes there."""
    proof = replace(proof, uses=())  # they launch no other kernels
    if proof.case.gpu:
        return proof
    gpu = random.Random(proof.case.seed).choice(list(GPUS.values()))  # noqa: S311 - the seed is secret
    return replace(proof, case=replace(proof.case, gpu=gpu.name, multiprocessors=gpu.multiprocessors))


def _other_trail(
    session: ChildSession, proof: Proof, peer: Peer, call: ChildCall[SentCall], trail: CaseTrail | None
) -> str | None:
    """Say where what CPython carries out leaves the trail of what was evaluated; None where it does not."""
    try:
        asked = LeaveTrail(call.call, None if trail is None else trail.whole)
        repeated = session.call(asked, call.tensors).message
    except ChildError as error:
        if trail is None and may_refuse(proof, peer, error):
            return None
        raise
    if trail is None:
        return "it raises where it is evaluated, and runs where it is imported."
    if repeated.whole == trail.whole:
        return None
    pairs = itertools.zip_longest(trail.events, repeated.events)
    one, other = next(((a, b) for a, b in pairs if a is None or b is None or a.digest != b.digest), (None, None))
    where = next((f" (line {event.line} of {event.path})" for event in (one, other) if event and event.line), "")
    names = [event.what if event else "nothing" for event in (one, other)]
    what = f"{names[1]} comes in place of {names[0]}" if names[0] != names[1] else f"{names[0]} is given something else"
    return f"{what}{where}."


def _texts_of_original(request: VerifyRequest, context: RunContext) -> dict[str, str]:
    """The original's files that lie where the candidate's screened ones do."""
    if request.original is None:
        return {}
    files = CandidateFiles(request.original, context)
    return {
        path: files.text(path) for path in {file.path for file in request.candidate.screened_files} if path in files
    }


class _Comparing:
    """Compares answers while the next cases run. A context manager; at its end, however it comes, all is compared."""

    def __init__(self, trial: _Trial) -> None:
        self._trial = trial
        self._held = MOST_PENDING if has_gpu() else 1
        if THREADS > 1:
            # As many as are held: small answers need not wait for large ones. Torch else starts all threads that it may for each.
            self._pool = ThreadPoolExecutor(self._held, "comparing", torch.set_num_threads, (THREADS,))
        else:
            self._pool = ThreadPoolExecutor(1, "comparing")
        self._pending: deque[tuple[Future[Examined], tuple[str, ...]]] = deque()

    def __enter__(self) -> Self:
        """Do nothing yet."""
        return self

    def __exit__(self, *_: object) -> None:
        """Wait for what is being compared."""
        self.end()
        self._pool.shutdown()

    def begin(
        self, answered: AnsweredCase, compared: Future[ComparedCase] | None = None, *, is_coarse: bool = False
    ) -> None:
        """Begin to compare an answer, once few are being compared: they are held in memory. Its values may be ``compared``.

        A coarse comparison asks how large errors are, and not how they are distributed.
        """
        while len(busy := [future for future, _ in self._pending if not future.done()]) >= self._held:
            with span("waiting for a comparison"):
                wait(busy, return_when=FIRST_COMPLETED)
        self._take(lambda future: future.done())
        work = self._pool.submit(_examined, answered, is_coarse=is_coarse, compared=compared)
        self._pending.append((work, tuple(answered.answer.launched)))

    def end(self) -> None:
        """Take what came of all answers."""
        with span("waiting for a comparison"):
            self._take(lambda _: True)

    def _take(self, is_due: Callable[[Future[Examined]], bool]) -> None:
        """Take what came of answers, in their order, up to the first that is not due."""
        while self._pending and is_due(self._pending[0][0]):
            future, launched = self._pending.popleft()
            self._trial.take(future.result(), launched)


def _answer(
    trial: _Trial,
    session: ChildSession,
    proof: Proof,
    peer: Peer,
    overwrites: Collection[str],
    ahead: _Ahead | None = None,
) -> CaseAnswer:
    call = _call(proof, peer, overwrites)
    answer = read_answer(_run(session, proof, call) if ahead is None else ahead.reply(session, proof, call))
    if not answer.asked:  # CPython's program knows the device that is there alone
        trial.leave(proof, peer, answer.trail, True)
    trial.decide(proof, peer, answer)
    trial.launch(proof, answer)
    return answer


def _run(session: ChildSession, proof: Proof, call: ChildCall[SentCall]) -> ChildReply[CaseReply]:
    return session.call(RunCase(call.call, optional=proof.case.may_raise), call.tensors, check=expecting(proof))


def _call(proof: Proof, peer: Peer, overwrites: Collection[str], **more: Any) -> ChildCall[SentCall]:
    skip = tuple(sorted(peer.failed | {"second"} if proof.once else peer.failed))
    form = replace(proof.form, mutates=(*proof.form.mutates, *overwrites))
    return make_call(proof, form=form, skip=skip, **more)


def _examined(
    answered: AnsweredCase, *, is_coarse: bool = False, compared: Future[ComparedCase] | None = None
) -> Examined:
    """Examine an answer; a fault on the way is a finding of this verdict, as what was examined came from the candidate."""
    proof = answered.proof
    try:
        known = None if compared is None else compared.result()
        with nullcontext() if known else _in_turn_where_small(proof), span("comparing"):
            return examine(answered, is_coarse=is_coarse, compared=known)
    except Exception as error:  # noqa: BLE001 - whatever it is, it comes of this candidate's values, and ends this verdict alone
        _log.exception("%s: the answer could not be compared", proof.case.label())
        message = f"The answer could not be compared with the reference's: {type(error).__name__}: {str(error)[:200]}"
        evidence = Evidence(NOT_COMPARED, message, proof.case.label())
        return Examined(findings=(VerdictFinding(Status.refused, evidence, NOT_COMPARED),))


def _compared_ahead(proof: Proof, reply: ChildReply[CaseReply]) -> ComparedCase:
    with _in_turn_where_small(proof), span("comparing ahead"):
        return compared_case(AnsweredCase(proof, read_answer(reply), "cuda"))


def _in_turn_where_small(proof: Proof) -> AbstractContextManager[object]:
    """A turn of the comparisons that are made one by one, where this is one."""
    is_small = max((tensor.numel() for tensor in proof.inputs.values()), default=0) <= ALONE
    return _comparing_alone if is_small else nullcontext()


def _compared_at_scale(call: AtScale, reply: ScaledReply) -> ComparedAtScale:
    with _in_turn_where_small(call.proof):
        return compared_at_scale(call, reply)


def _verdict(frame: Verdict, proofs: Sequence[Proof], trial: _Trial) -> Verdict:
    checks = [check for examined in trial.examined for check in examined.checks]
    known = [examined.deterministic for examined in trial.examined if examined.deterministic is not None]
    library = (Check(IMPORTED_LIBRARY, trial.imported, True),) if trial.imported else ()
    frame = replace(
        frame,
        checks=(*checks, *trial.refused, *frame.checks, *library),
        deterministic=all(known) if known else None,
        seeds=len({proof.case.seed for proof in proofs[: len(trial.examined)]}),
        kernels=tuple(trial.kernels),
        peak_forward_bytes=trial.peaks[0],
        peak_backward_bytes=trial.peaks[1],
    )
    seen = dict.fromkeys(name for examined in trial.examined for name in examined.overwrites)
    by_import = ("imported",) if trial.imported else ()
    passed_by = dict.fromkeys([*frame.allowances, *by_import, *(name for e in trial.examined for name in e.allowances)])
    excused = largest(evidence for e in trial.examined for evidence in e.excused)
    frame = replace(frame, overwrites=tuple(seen), allowances=tuple(passed_by), excused=excused)
    if not trial.findings:
        return frame
    first = decisive(trial.findings)
    ordered = [first, *(finding for finding in trial.findings if finding is not first)]
    evidence = tuple(finding.evidence for finding in ordered[:MOST_EVIDENCE])
    return replace(frame, status=first.status, rule=first.rule, evidence=evidence)


def _refused(frame: Verdict, rule: str, message: str, line: int | None = None, log: str = "") -> Verdict:
    evidence = Evidence(rule, message, line=line, log=log or None)
    return replace(frame, status=Status.refused, rule=rule, evidence=(evidence,))


def _degenerate(frame: Verdict, mutant: str, label: str) -> Verdict:
    message = (
        f"On this problem a trivial answer ({mutant}) passes for {label}, so no verdict would mean anything. "
        "Let every output and gradient depend on the inputs, or say `grad: False` for an input that needs no gradient."
    )
    return replace(frame, status=Status.degenerate_problem, evidence=(Evidence("mutants", message, output=label),))
