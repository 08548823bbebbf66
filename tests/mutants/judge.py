"""Judges mutants: by the runner's own handlers and examination, in a fork of this process in place of the sandbox.

What passes is held against its original on cases of another draw; what then differs is a hole in the verdict.
"""

from __future__ import annotations

import hashlib
import importlib
import os
import pickle
import random
import resource
import select
import signal
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from math import ceil
from pathlib import Path
from typing import Any, NoReturn, Self

import torch

from gpu_runner.buffers import Buffer
from gpu_runner.child import candidate
from gpu_runner.child.handlers import ChildState, report
from gpu_runner.contracts import CandidateSource, SourceFile, Status, VerifyRequest, parse_problem
from gpu_runner.errors import ChildDied, ChildError, ChildFailed, ChildTimeout, ProtocolError
from gpu_runner.messages import LoadCandidate, RunCase, Work
from gpu_runner.program.imports import Library
from gpu_runner.program.load import EVALUATED
from gpu_runner.reply import ChildReply
from gpu_runner.verify.answer import CaseAnswer, read_answer
from gpu_runner.verify.cases import beyond_reach
from gpu_runner.verify.constants import numbers_in as written_in
from gpu_runner.verify.examine import AnsweredCase, examine
from gpu_runner.verify.finding import decisive, failure_of
from gpu_runner.verify.judge import choose_cases, judge, may_refuse, prove
from gpu_runner.verify.opening import opened, reference_session
from gpu_runner.verify.peer import NO_PEER, Peer
from gpu_runner.verify.proof import Proof, make_call
from gpu_runner.verify.screen import screen
from gpu_runner.verify.sources import CandidateFiles
from gpu_runner.verify.truth import Oracle
from tests.cheats.trial import surroundings
from tests.honest.table import HONEST, problem_of
from tests.mutants.draws import Drawer, numbers_in
from tests.mutants.generator import Mutant, is_changed, mutated, original, source

TIME_S = 40.0  # of processor time, so that a busy host judges as a quiet one does
WALL = 20  # times as long on the clock, for what waits and does not compute
MEMORY = 12 * 2**30
DRAWS = 20
_AT_FIRST_USE = (
    "torch.fx.experimental.symbolic_shapes",
    "torch.library",
    "triton.runtime.interpreter",
    "triton.language.extra.libdevice",
)
RATIO = 2.0  # an error this many times that of the honest kernel, and of torch in the same dtype, is not rounding
ONCE = Peer(failed=frozenset({"second"}))  # a second run says nothing of equality
# Relative to the size of the values: what no comparison of two roundings can tell apart.
ROUNDING = {torch.float32: 2.0**-23, torch.float16: 2.0**-11, torch.bfloat16: 2.0**-8, torch.float64: 2.0**-52}


@dataclass(frozen=True)
class Ruling:
    """What a verdict says: a status, and the message of its first evidence."""

    status: str
    message: str = ""
    case: str = ""


@dataclass(frozen=True)
class Seen:
    """One value of one case: its bits, its errors against the truth, and those of torch in its dtype."""

    digest: str
    error: float = 0.0
    own_error: float = 0.0
    worst: float = 0.0
    own_worst: float = 0.0
    floor: float = 0.0
    elements: int = 0


@dataclass(frozen=True)
class Looked:
    """One case: its values by run and label, what is wrong with it, and what torch computed in it."""

    values: dict[str, Seen] = field(default_factory=dict)
    wrong: str = ""
    worked: int = 0


@dataclass(frozen=True)
class Outcome:
    """What became of a mutant.

    It is invalid, caught, equal, a hole, or named: wrong only at a size that the verdict says it did not run.
    """

    mutant: str
    kind: str
    status: str
    why: str
    change: str
    seconds: float = 0.0


@dataclass
class Bench:
    """A candidate whose cases are proved, and which is known on the cases of another draw. A context manager."""

    name: str
    quick: bool = False
    draws: int = DRAWS
    seed: int = 0
    proofs: Sequence[Proof] = ()
    honest: Ruling = Ruling("")  # on the candidate without a fault
    _drawer: Drawer | None = None
    _others: list[tuple[Proof, Looked]] = field(default_factory=list)
    _stack: ExitStack = field(default_factory=ExitStack)

    def __enter__(self) -> Self:
        for module in _AT_FIRST_USE:  # once here, and not in every fork
            importlib.import_module(module)
        self.proofs = self._proved(self._original())
        self.honest = self.ruling(self._original(), time_s=TIME_S * 4)
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def judge(self, mutant: Mutant) -> Outcome:
        """What becomes of a mutant."""
        start = time.monotonic()
        change = mutated(mutant)[1] if is_changed(mutant) else ""
        if not change:
            return Outcome(str(mutant), "invalid", "", "the tree is the same, or no Python", "")
        if self.honest.status != Status.passed:
            why = f"its original does not pass: {self.honest.message} ({self.honest.case})"
            return Outcome(str(mutant), "invalid", self.honest.status, why, change)
        given = source(mutant)
        ruling = self.ruling(given)
        if (
            ruling.status == Status.passed
            and written_in(given.files).constants != written_in(self._original().files).constants
        ):
            ruling = self.ruling(given, self._proved(given))  # a verdict draws sizes around a candidate's own numbers
        if ruling.status != Status.passed:
            kind, status, why = "caught", ruling.status, f"{ruling.message} ({ruling.case})"
        else:
            kind, status, why = self._compared(mutant)
            whole = self._whole(given) if kind == "hole" else ruling
            if whole.status != Status.passed:
                kind, status, why = "caught", whole.status, whole.message
            elif kind == "hole" and self._is_named(mutant):
                kind = "named"
        return Outcome(str(mutant), kind, status, why, change, round(time.monotonic() - start, 2))

    def ruling(self, given: CandidateSource, proofs: Sequence[Proof] = (), time_s: float = TIME_S) -> Ruling:
        """The verdict on a candidate, from a process of its own."""
        answer = _forked(lambda: _ruling(given, proofs or self.proofs), time_s)
        if isinstance(answer, Ruling):
            return answer
        finding = failure_of(answer, "launch", None)
        return Ruling(finding.status.value, finding.evidence.message)

    def _whole(self, given: CandidateSource) -> Ruling:
        """What a verdict says that asks for each decision to be seen both ways too, with draws of its own."""
        verdict = judge(VerifyRequest(problem_of(self.name), given, quick=self.quick), surroundings())
        status = verdict.status.value + (f"/{verdict.rule}" if verdict.rule else "")
        return Ruling(status, verdict.evidence[0].message if verdict.evidence else "")

    def _is_named(self, mutant: Mutant) -> bool:
        """Whether the verdict itself says that nothing was run beyond a number that the mutant has and its original has not."""
        problem = parse_problem(problem_of(self.name))
        constants = written_in(source(mutant).files).constants
        reach = beyond_reach(problem, constants, interpreted=True).values()
        return any(
            value >= most for most in reach for value in constants - written_in(self._original().files).constants
        )

    def _proved(self, given: CandidateSource) -> list[Proof]:
        request = VerifyRequest(problem_of(self.name), given, quick=self.quick)
        problem = parse_problem(request.problem_source)
        cases = choose_cases(request, problem, True)
        return sorted(prove(problem, cases, surroundings())[0], key=lambda proof: not proof.case.again)

    def _compared(self, mutant: Mutant) -> tuple[str, str, str]:
        """Whether a mutant that passed is equal: its kind, how, and the case in which it is not."""
        cases = [*self._drawn(), *self._drawn_at(mutant)]
        if not cases:
            return "hole", "not compared", "the candidate without a fault gave nothing in the time there is"
        answer = _forked(lambda: list(_looked(source(mutant), [proof for proof, _ in cases], TIME_S * 4)), TIME_S * 5)
        if isinstance(answer, ChildFailed):
            return "hole", "fails", str(answer)
        return _difference(cases, answer)

    def _drawn(self) -> list[tuple[Proof, Looked]]:
        if not self._others:
            stream = random.Random(f"{self.name} {self.seed}")
            known = numbers_in(original(self.name))
            self._others = self._known(list(self._opened().proofs(stream, self.draws, known)))
        return self._others

    def _drawn_at(self, mutant: Mutant) -> list[tuple[Proof, Looked]]:
        """Cases at the numbers that a mutant has and its original has not, or has fewer of."""
        new = sorted(numbers_in(mutated(mutant)[0]) - numbers_in(original(self.name)))
        sizes = [number for number in new if 1 < number <= 5000][:2]
        if not sizes:
            return []
        return self._known(list(self._opened().at(random.Random(f"{mutant} {self.seed}"), sizes)))

    def _known(self, proofs: list[Proof]) -> list[tuple[Proof, Looked]]:
        """Cases with what the honest candidate gives in them; not those in which it is wrong itself."""
        answer = _forked(lambda: list(_looked(self._original(), proofs, TIME_S * 4)), TIME_S * 5)
        if isinstance(answer, ChildFailed):
            return []
        return [(proof, seen) for proof, seen in zip(proofs, answer, strict=False) if not seen.wrong]

    def _original(self) -> CandidateSource:
        file = SourceFile("candidate.py", original(self.name))
        return CandidateSource((file,), module=HONEST[self.name].module, symbol=HONEST[self.name].symbol)

    def _opened(self) -> Drawer:
        if self._drawer is None:
            problem = parse_problem(problem_of(self.name))
            session = reference_session("reference", problem.source, surroundings())
            oracle = Oracle.open(problem, self._stack.enter_context(opened(session, surroundings())), 1)
            dtypes = tuple(dict.fromkeys(proof.case.dtype for proof in self.proofs))
            self._drawer = Drawer(problem, dtypes, oracle, self.proofs[0].scale)
        return self._drawer


def judged_group(name: str, mutants: Sequence[Mutant], quick: bool) -> list[Outcome]:
    """The outcome of each mutant of one candidate, on the same cases."""
    with Bench(name, quick=quick) as bench:
        return [bench.judge(mutant) for mutant in mutants]


def _ruling(given: CandidateSource, proofs: Sequence[Proof]) -> Ruling:
    """The verdict on a candidate as the runner comes to it, up to the first case that decides."""
    library = Library(CandidateFiles(given, surroundings()), given.import_roots)
    objection = screen(given, library)
    if objection is not None:
        return Ruling(objection.status.value, objection.message)
    check, label = "load", ""
    state = _state(given)
    try:
        _load(state, given, proofs[0])
        for proof in proofs:
            check, label = "launch", proof.case.label()
            try:
                examined = examine(AnsweredCase(proof, _answer(state, proof, ()), "cpu"))
            except Exception as error:
                failed = _as_child_error(error, state.work)
                if isinstance(failed, ChildError) and may_refuse(proof, NO_PEER, failed):
                    continue
                raise
            if examined.findings:
                finding = decisive(examined.findings)
                return Ruling(finding.status.value, finding.evidence.message, label)
    except Exception as error:
        finding = failure_of(_as_child_error(error, state.work), check, label)
        return Ruling(finding.status.value, finding.evidence.message, label)
    return Ruling(Status.passed.value)


def _looked(given: CandidateSource, proofs: Sequence[Proof], time_s: float) -> Iterator[Looked]:
    """What a candidate gives in each case, as far as the time goes."""
    state = _state(given)
    _load(state, given, proofs[0])
    end = time.process_time() + time_s
    for proof in proofs:
        if time.process_time() > end:
            return
        try:
            answer = _answer(state, proof, ("second",))
            examined = examine(AnsweredCase(proof, answer, "cpu", ONCE))
            wrong = "; ".join(finding.evidence.message for finding in examined.findings[:1])
            yield Looked(dict(_seen(proof, answer)), wrong, _worked(answer.work, proof))
        except Exception as error:
            yield Looked(wrong=f"{type(error).__name__}: {error}"[:300])


def _seen(proof: Proof, answer: CaseAnswer) -> Iterator[tuple[str, Seen]]:
    for label, item in proof.expected().items():
        value = answer.runs.get("first", {}).get(label)
        if value is None or value.tensor is None or item is None:
            yield label, Seen("none")
            continue
        got, exact, own = (t.reshape(item.shape).double() for t in (value.tensor, item.truth.exact, item.truth.own))
        finite = torch.isfinite(got) & torch.isfinite(exact) & torch.isfinite(own)
        off, own_off, size = (got - exact)[finite], (own - exact)[finite], exact[finite]
        digest = hashlib.sha1(value.tensor.contiguous().view(-1).view(torch.uint8).numpy().tobytes()).hexdigest()
        floor = ROUNDING.get(value.tensor.dtype, 0.0) * _rms(size) / 4
        errors = (_rms(off), _rms(own_off), _most(off), _most(own_off))
        yield label, Seen(digest, *errors, floor + item.truth.natural / 4, int(finite.sum()))


def _difference(cases: Sequence[tuple[Proof, Looked]], answers: Sequence[Looked]) -> tuple[str, str, str]:
    """How a mutant differs from its original, by what both gave in the same cases."""
    same, off, worst, example = True, [], 0.0, ""
    for (proof, honest), seen in zip(cases, answers, strict=False):
        if seen.wrong:
            return "hole", "values", f"{seen.wrong} ({described(proof)})"
        largest = max((tensor.numel() for tensor in proof.inputs.values()), default=0)
        if seen.worked > honest.worked + max(64, largest // 64):
            return "hole", "torch computes", f"{seen.worked} elements, {honest.worked} before ({described(proof)})"
        for label, value in seen.values.items():
            before = honest.values[label]
            if value.digest == before.digest:
                continue
            same = False
            allowed = max(before.error, before.own_error, before.floor)
            most = 4 * max(before.worst, before.own_worst, 8 * before.floor)
            if value.elements >= 16 and allowed:
                off.append(value.error / allowed)
                if off[-1] > worst:
                    worst, example = off[-1], f"{label} ({described(proof)})"
            if value.worst > most > 0 and value.elements:
                ratio = value.worst / most
                return (
                    "hole",
                    "one element",
                    f"largest error {ratio:.1f} times what is allowed in {label} ({described(proof)})",
                )
    if same:
        return "equal", "bits", f"{len(answers)} cases"
    middle = sorted(off)[len(off) // 2] if off else 0.0
    if middle > RATIO:
        return (
            "hole",
            "precision",
            f"error {middle:.1f} times that of the original in the median, {worst:.1f} in {example}",
        )
    return "equal", "rounding", f"error {middle:.2f} times that of the original in the median, {len(answers)} cases"


def described(proof: Proof) -> str:
    """A case in one line, with its layouts where they are not dense."""
    laid = [
        f"{name} strides {item.stride} offset {item.offset}" for name, item in proof.laid.items() if len(item.shape) > 1
    ]
    gradients = f"gradients of {', '.join(proof.wanted)}" if proof.wanted else "no gradient"
    return "; ".join([proof.case.label(), *laid, gradients])


def _worked(work: Sequence[Work], proof: Proof) -> int:
    """Elements on which torch computed in the first forward and backward, without moves and small inputs."""
    counted = [w for w in work if w.step.startswith("first") and not w.is_move]
    return sum(w.elements for w in counted if not (w.source and proof.scale.is_small(w.source)))


def _state(given: CandidateSource) -> ChildState:
    work = Path(tempfile.mkdtemp(prefix="mutant-"))
    for file in given.files:
        (work / file.path).parent.mkdir(parents=True, exist_ok=True)
        (work / file.path).write_text(file.text)
    return ChildState(work, work, gpu=False)


def _load(state: ChildState, given: CandidateSource, proof: Proof) -> None:
    own = tuple(file.path for file in given.files)
    asked = LoadCandidate(given.module, given.symbol, proof.form, EVALUATED, given.import_roots, own, None)
    candidate.load(state, asked, [])


def _answer(state: ChildState, proof: Proof, skip: tuple[str, ...]) -> CaseAnswer:
    call = make_call(proof, skip=skip)
    facts, tensors = candidate.run(state, RunCase(call.call), [buffer.to_torch() for buffer in call.tensors])
    return read_answer(ChildReply(facts, tuple(Buffer.from_torch(tensor) for tensor in tensors)))


def _as_child_error(error: Exception, work: Path) -> ChildError | ProtocolError:
    if isinstance(error, ProtocolError):
        return error
    raised = report(error, work)
    return ChildError(raised.kind, raised.message, raised.trace, raised.line, raised.path, raised.verdict)


def _forked(function: Callable[[], Any], time_s: float = TIME_S) -> Any:
    """What a function gives in a fork of this process, or how the fork ended.

    This process itself never runs a backward: autograd's threads would not survive a fork.
    """
    torch.set_num_threads(1)
    reading, writing = os.pipe()
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        child = os.fork()
        if child == 0:
            os.close(reading)
            _carry_out(function, writing, folder, time_s)
        os.close(writing)
        data = _read(reading, time.monotonic() + time_s * WALL)
        os.close(reading)
        if data is None:
            os.kill(child, signal.SIGKILL)
        state = os.waitpid(child, 0)[1]
    if data is None or (os.WIFSIGNALED(state) and os.WTERMSIG(state) == signal.SIGXCPU):
        return ChildTimeout(time_s)
    if not data:
        return ChildDied(os.WTERMSIG(state) if os.WIFSIGNALED(state) else None, None)
    answer = pickle.loads(data)
    return ChildError(*answer.args) if isinstance(answer, RuntimeError) else answer


def _carry_out(function: Callable[[], Any], writing: int, folder: str, time_s: float) -> NoReturn:
    try:
        resource.setrlimit(resource.RLIMIT_CPU, (ceil(time_s), ceil(time_s) + 5))
        tempfile.tempdir = folder
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        os.dup2(1, 2)
        try:
            answer = function()
        except BaseException as error:
            answer = RuntimeError(type(error).__name__, str(error)[:500])
        data = pickle.dumps(answer)
        while data:
            data = data[os.write(writing, data) :]
    finally:
        os._exit(0)


def _read(reading: int, end: float) -> bytes | None:
    parts = []
    while True:
        ready, _, _ = select.select([reading], [], [], max(0.0, end - time.monotonic()))
        if not ready:
            return None
        part = os.read(reading, 1 << 20)
        if not part:
            return b"".join(parts)
        parts.append(part)


def _rms(values: torch.Tensor) -> float:
    return float(values.square().mean().sqrt()) if values.numel() else 0.0


def _most(values: torch.Tensor) -> float:
    return float(values.abs().max()) if values.numel() else 0.0
