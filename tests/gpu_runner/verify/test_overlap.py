"""What a verdict does at the same time, or once in place of twice, changes nothing of what it says."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Generator, Iterable, Iterator
from concurrent.futures import wait
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from queue import SimpleQueue
from types import SimpleNamespace
from typing import Any, cast

import pytest
import torch

from gpu_runner.contracts import Limits, parse_problem
from gpu_runner.contracts.verify import Check, Status
from gpu_runner.errors import ChildDied, ChildError
from gpu_runner.messages import CallForm, RunCase, Use, WarmUp
from gpu_runner.numerics.compare import Truth
from gpu_runner.program.poison import bits_equal
from gpu_runner.reply import ChildReply
from gpu_runner.session import ChildSession
from gpu_runner.verify import examine as examining
from gpu_runner.verify import judge
from gpu_runner.verify.answer import CaseAnswer, ReturnedValue
from gpu_runner.verify.cases import Case, largest_first
from gpu_runner.verify.examine import AnsweredCase, ComparedCase, _Examiner
from gpu_runner.verify.finding import CaseNotes, Examined
from gpu_runner.verify.peer import NO_PEER
from gpu_runner.verify.proof import Expected, Proof, Scale
from gpu_runner.verify.scale import AtScale
from gpu_runner.verify.truth import Oracle, asked_of, form_of
from tests.cheats.trial import surroundings
from tests.honest.table import source_of
from tests.problems import problem_source

CASES = tuple(Case(f"case {seed}", (("T", 5), ("I", 33)), "float32", seed, measured=seed == 3) for seed in range(4))
PROBLEM = parse_problem(problem_source("reglu"))


def proofs() -> list[Proof]:
    form = form_of(PROBLEM)
    assert form is not None
    return [asked_of(PROBLEM, form, case) for case in CASES]


def test_inputs_that_are_made_ahead_are_those_of_their_case() -> None:
    one = SimpleNamespace(message=SimpleNamespace(made=1))
    session = SimpleNamespace(limits=Limits(), gpu=False, call=lambda *_: one)
    oracle = Oracle(PROBLEM, cast(ChildSession, session), cast(CallForm, form_of(PROBLEM)), {})
    other = replace(CASES[0], seed=99)
    for case, coming, expected in zip(CASES, (*CASES[1:], None), proofs(), strict=True):
        oracle.coming = coming
        made = [oracle.asked(wanted) for wanted in (case, other, case)]
        for given in (made[0], made[2]):
            assert given.case == case
            assert all(bits_equal(given.laid[name].raw, laid.raw) for name, laid in expected.laid.items())
        assert made[1].case == other


def test_large_cases_come_second_on_a_gpu_and_last_in_the_interpreter() -> None:
    cases = [(proof, NO_PEER) for proof in proofs()]
    assert [proof.case.seed for proof, _ in judge._in_turn(cases, gpu=True)] == [0, 3, 1, 2]
    assert [proof.case.seed for proof, _ in judge._in_turn(cases, gpu=False)] == [0, 1, 2, 3]


def test_large_cases_come_between_small_ones_as_soon_as_they_are_known() -> None:
    cases = [(proof, NO_PEER) for proof in proofs()[:3]]
    large, computed = proofs()[3:] * 2, []

    def rest(wait: bool) -> list[Proof]:
        given = [large.pop()] if large and (wait or computed) else []
        computed.append("one")
        return given

    order = [proof.case.seed for proof, _ in judge._as_known(cases, rest, gpu=True)]
    assert order == [0, 1, 3, 2, 3]
    assert [proof.case.seed for proof, _ in cases] == [0, 1, 2, 3, 3]


@pytest.mark.parametrize(("gpu", "held"), [(True, judge.MOST_PENDING), (False, 1)])
def test_few_answers_wait_to_be_compared_and_are_taken_in_their_order(
    monkeypatch: pytest.MonkeyPatch, gpu: bool, held: int
) -> None:
    begun, may_end = [], threading.Semaphore(0)

    def examined(answered: AnsweredCase, **_: object) -> Examined:
        may_end.acquire()
        return Examined((Check("values", answered.proof.case.name, True),))

    monkeypatch.setattr(judge, "_examined", examined)
    monkeypatch.setattr(judge, "has_gpu", lambda: gpu)
    monkeypatch.setattr(judge, "THREADS", 1)  # one compares
    trial = judge._Trial()
    with judge._Comparing(trial) as comparing:
        for place, proof in enumerate(proofs() * 3):
            if place >= held:
                may_end.release()  # for the oldest, without whose end this one could not begin
            comparing.begin(AnsweredCase(proof, CaseAnswer({}, {}, {}, (), {}, 0, (), {}, (), {}, ()), "cpu"))
            begun.append(proof.case.name)
        for _ in range(held):
            may_end.release()
    assert [check.workload for one in trial.examined for check in one.checks] == begun


@pytest.fixture
def compared(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[torch.Tensor]]:
    seen: list[torch.Tensor] = []
    real = examining.compare

    def counted(got: torch.Tensor, *rest: Any, **more: Any) -> Any:
        seen.append(got)
        return real(got, *rest, **more)

    monkeypatch.setattr(examining, "compare", counted)
    yield seen


def _answered(first: torch.Tensor, run: str, second: torch.Tensor) -> CaseAnswer:
    value = ReturnedValue("Tensor", first, (5, 33), (33, 1), "float32", "cpu")
    runs = {"first": {"output 0": value}, run: {"output 0": replace(value, tensor=second)}}
    return CaseAnswer(runs, {}, {}, (), {}, 0, (), {}, (), {}, ())


@pytest.mark.parametrize(("second", "times"), [(0.0, 1), (1.0, 2)])
def test_values_that_are_equal_are_compared_with_a_truth_once(
    compared: list[torch.Tensor], second: float, times: int
) -> None:
    exact = torch.randn(5, 33, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    item = Expected("output 0", Truth(exact, exact.float()), (5, 33), (33, 1), "float32")
    proof = replace(proofs()[0], outputs=(item,))
    answer = _answered(exact.float(), "no_grad", exact.float() + second)
    examiner = _Examiner(CaseNotes("case"), AnsweredCase(proof, answer, "cpu"))
    examiner.values("values", proof, "first")
    examiner.use(Use("no_grad"))
    assert len(compared) == times
    assert bool(examiner.notes.findings) == bool(second)


def test_a_second_run_that_is_wrong_says_by_how_much() -> None:
    """Who judges draws again what fails narrowly, in whichever run."""
    exact = torch.randn(5, 33, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    item = Expected("output 0", Truth(exact, exact.float()), (5, 33), (33, 1), "float32")
    answer = _answered(exact.float(), "second", exact.float() + 1.0)
    examiner = _Examiner(CaseNotes("case"), AnsweredCase(replace(proofs()[0], outputs=(item,)), answer, "cpu"))
    assert examiner.second_run() is False
    (finding,), (check,) = examiner.notes.findings, examiner.notes.checks
    wrong_first = _answered(exact.float() + 1.0, "no_grad", exact.float())
    first = _Examiner(CaseNotes("case"), AnsweredCase(examiner.proof, wrong_first, "cpu"))
    first.values("values", first.proof, "first")
    (wrong,) = first.notes.findings
    known = wrong.evidence
    assert (finding.status, finding.evidence.check) == (Status.nondeterministic, "deterministic")
    assert (finding.evidence.error, finding.evidence.allowed) == (known.error, known.allowed)
    assert known.error is not None
    assert (check.name, check.error, check.passed) == ("deterministic", known.error, False)


def test_cases_meet_a_gpu_and_one_with_few_processors_by_turns_as_they_become_known() -> None:
    gpu = {"properties": {"multi_processor_count": 132}, "driver": {"multiprocessor_count": 132}}
    ahead: SimpleQueue[Proof | None] = SimpleQueue()
    first, second = proofs()[:2]
    own = [first]
    tries = judge._by_turns(judge._growing(own, ahead), gpu)
    seen = [next(tries)]  # before the second is known
    ahead.put(second)
    ahead.put(None)
    seen += tries
    names = [first.case.name, second.case.name]
    assert [proof.case.name for proof, _, _ in seen] == names * 2
    assert [proof.case.name for proof in own] == names
    processors = [facts["properties"]["multi_processor_count"] for _, _, facts in seen]
    assert [count == 132 for count in processors] == [True, False, False, True]
    assert 1 <= processors[1] <= judge.MOST_PROCESSORS


def test_the_case_with_most_elements_is_first_and_that_with_most_rows_second() -> None:
    sizes = [(2, 3), (3, 100), (20, 2), (40, 9), (1, 4)]  # the fourth has more rows than the interpreter can run
    cases = [replace(CASES[0], sizes=(("T", rows), ("H", columns)), seed=n) for n, (rows, columns) in enumerate(sizes)]
    spec = replace(PROBLEM.inputs[0], dims=("T", "H"))
    ordered = largest_first(replace(PROBLEM, inputs=(spec,)), cases)
    assert [case.seed for case in ordered] == [1, 2, 0, 3, 4]


@pytest.mark.parametrize("left", [False, True])
def test_calls_at_scale_are_shared_by_children_until_something_wrong_was_seen(
    monkeypatch: pytest.MonkeyPatch, left: bool
) -> None:
    calls = cast(list[AtScale], [f"call {place}" for place in range(7)])
    beside = judge._Interpreting(source_of("reglu"), surroundings())
    children: list[list[AtScale]] = []
    ahead: SimpleQueue[Proof | None] = SimpleQueue()

    def called(trial: judge._Trial, _: object, replies: Iterable[AtScale], *__: object, **___: object) -> None:
        children.append(list(replies))
        trial.refused.append(Check("at_scale_left_out", "one", True))

    monkeypatch.setattr(judge, "AT_SCALE", 3)
    monkeypatch.setattr(judge, "loaded", lambda *_, **__: nullcontext())
    monkeypatch.setattr(judge, "_replies", lambda _, scaled: scaled)
    monkeypatch.setattr(judge, "_try_at_scale", called)

    def prove() -> Generator[Proof | AtScale, None, None]:
        yield proofs()[0]
        beside._left = left
        yield from calls

    seen = beside._prove_ahead(prove, ahead)
    assert [ahead.get() is None for _ in range(2)] == [False, True]
    assert sorted(map(str, itertools.chain.from_iterable(children))) == ([] if left else calls)
    assert len(seen.refused) == len(children) == (0 if left else 3)


class _Answering:
    """A child that answers with its own name and what it was asked; ``gone`` is set once it is abandoned."""

    def __init__(self, name: str) -> None:
        self.name, self.gone = name, threading.Event()

    def abandon(self) -> None:
        self.gone.set()


def calling(monkeypatch: pytest.MonkeyPatch, scaled: Iterable[str]) -> tuple[judge._CallingAtScale, list[str]]:
    """What calls a candidate at scale, and what became of its own child."""
    done: list[str] = []

    @contextmanager
    def opened(*_: object, **__: object) -> Iterator[_Answering]:
        yield _Answering("its own")
        done.append("closed")

    monkeypatch.setattr(judge, "loaded", opened)
    monkeypatch.setattr(judge, "_replies", lambda child, calls: ((call, child.name) for call in calls))
    return judge._CallingAtScale(source_of("reglu"), surroundings(), cast(Iterable[AtScale], scaled)), done


@pytest.mark.parametrize(("begins", "by"), [(True, "its own"), (False, "that of the cases")])
def test_calls_at_scale_have_a_child_of_their_own_once_they_have_begun(
    monkeypatch: pytest.MonkeyPatch, begins: bool, by: str
) -> None:
    at_scale, done = calling(monkeypatch, ["first", "second"])
    with at_scale:
        if begins:
            at_scale.begin(proofs()[0].form)
        replies = at_scale.replies(cast(ChildSession, _Answering("that of the cases")))
        assert [*replies] == [("first", by), ("second", by)]
    assert done == ["closed"] * begins


def test_the_truth_of_the_next_call_at_scale_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    asked, over = threading.Event(), threading.Event()

    def scaled() -> Iterator[str]:
        yield "first"
        asked.set()
        over.wait(60)
        yield "second"

    at_scale, done = calling(monkeypatch, scaled())
    with at_scale:
        at_scale.begin(proofs()[0].form)
        assert asked.wait(60)
    assert not over.is_set() and done == ["closed"]
    over.set()
    assert [*at_scale.replies(cast(ChildSession, None))] == [("first", "its own")]


def asking(monkeypatch: pytest.MonkeyPatch, *, apart: bool) -> tuple[judge._Proving, list[str]]:
    """What asks the reference, and what was done to its child."""
    done: list[str] = []
    session = SimpleNamespace(isolation=(), abandon=lambda: done.append("abandoned"))
    monkeypatch.setattr(judge, "keeps_apart", lambda _: apart)
    proving = judge._Proving(PROBLEM, CASES, surroundings())
    proving.oracle = cast(Oracle, SimpleNamespace(session=session))
    proving._stack.callback(done.append, "closed")
    return proving, done


def test_calls_at_scale_are_given_as_their_truth_becomes_known(monkeypatch: pytest.MonkeyPatch) -> None:
    proving, done = asking(monkeypatch, apart=True)
    first_was_given = threading.Event()

    def scaled() -> Iterator[AtScale]:
        yield cast(AtScale, "first")
        assert first_was_given.wait(10)
        yield cast(AtScale, "second")
        raise ValueError("no third")

    given = map(str, proving.ahead(scaled()))
    proving.begin_rest()
    assert next(given) == "first" and not done
    first_was_given.set()
    assert next(given) == "second"
    with pytest.raises(ValueError, match="no third"):
        next(given)
    proving.__exit__()
    assert done == ["closed"]


def test_calls_at_scale_are_known_before_the_candidate_runs_where_it_could_reach_the_reference(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    proving, done = asking(monkeypatch, apart=False)
    known: list[str] = []

    def scaled() -> Iterator[AtScale]:
        for name in ("first", "second"):
            known.append(name)
            yield cast(AtScale, name)

    given = proving.ahead(scaled())
    proving.begin_rest()
    assert known == ["first", "second"] and done == ["closed"]
    assert list(map(str, given)) == known


def test_the_reference_is_left_where_the_candidate_is_judged_already(monkeypatch: pytest.MonkeyPatch) -> None:
    proving, done = asking(monkeypatch, apart=True)
    begun, known = threading.Event(), list[str]()

    def scaled() -> Iterator[AtScale]:
        begun.set()
        while len(known) < 1000 and not proving._over.wait(0.01):
            known.append("one more")
        yield from cast(list[AtScale], ["too late", "and this"])

    given = proving.ahead(scaled())
    assert begun.wait(10)
    proving.__exit__()
    assert done == ["abandoned", "closed"] and list(given) == [] and len(known) < 1000


class _Running:
    """A child that tells which runs it was asked for; its third call ``raises``, and with ``hangs`` it waits to be ended."""

    def __init__(self, *, hangs: bool = False, raises: bool = True) -> None:
        self.asked: list[tuple[int, tuple[str, ...]]] = []
        self.hangs, self.raises, self.gone, self.is_renewed = hangs, raises, threading.Event(), False

    def renew(self) -> None:
        self.is_renewed = True

    def abandon(self) -> None:
        self.gone.set()

    def call(self, request: RunCase, tensors: object, check: object) -> ChildReply[int]:
        self.asked.append((seed := len(self.asked), request.call.skip))
        if self.hangs:
            self.gone.wait()
        if seed == 2 and self.raises:
            raise ChildError("ValueError", "no", "")
        return ChildReply(seed)


def ahead_of(session: _Running) -> judge._Ahead:
    return judge._Ahead(lambda form: cast(Any, nullcontext(session)))


def test_a_case_that_was_run_ahead_is_run_once_more_only_for_other_runs() -> None:
    session = _Running()
    with ahead_of(session) as ahead:
        known = [replace(proof, once=True) for proof in proofs()]
        for proof in known:
            ahead.begin(proof)
        wait([reply for _, reply in ahead._asked.values()])
        with ahead.turn(known[0].form) as child:
            assert child is cast(Any, session) and session.is_renewed
            calls = [judge._call(proof, NO_PEER, ()) for proof in (replace(known[0], once=False), *known[1:])]
            found = []
            for proof, call in zip(known, calls, strict=True):
                try:
                    found.append(ahead.reply(child, proof, call).message)
                except ChildError:
                    found.append("raised")
    assert session.asked == [*((place, ("second",)) for place in range(4)), (4, ())]
    assert found == [4, 1, "raised", 3]


def test_what_nobody_waits_for_does_not_run_once_others_talk_to_the_child() -> None:
    session, let_go = _Running(), threading.Event()
    with ahead_of(session) as ahead:
        known = [replace(proof, once=True) for proof in proofs()[:3]]
        ahead._ask(judge._IN_TURN, let_go.wait)
        for proof in known:
            ahead.begin(proof)
        threading.Timer(0.1, let_go.set).start()
        with ahead.turn(known[0].form) as child:
            assert ahead.reply(child, known[0], judge._call(known[0], NO_PEER, ())).message == 0
            other = judge._call(replace(known[1], once=False), NO_PEER, ())
            ahead.reply(child, known[1], other)
            ahead.settle()
            asked = [*session.asked]
            time.sleep(0.05)
            assert session.asked == asked
    assert [skip for _, skip in asked].count(()) == 1


def test_values_of_a_case_that_was_run_ahead_on_a_gpu_are_compared_once(monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[Proof] = []

    def compare(answered: AnsweredCase, **_: object) -> ComparedCase:
        compared.append(answered.proof)
        return ComparedCase(CaseNotes("", [Check("values", answered.proof.case.name, True)]), True)

    monkeypatch.setattr(judge, "has_gpu", lambda: True)
    for module, name in ((judge, "compared_case"), (examining, "compared_case")):
        monkeypatch.setattr(module, name, compare)
    monkeypatch.setattr(judge, "read_answer", lambda reply: reply)
    monkeypatch.setattr(examining, "judge_honesty", lambda notes, proof, *_: notes.checks.append(proof.scale))
    known = [replace(proof, once=True) for proof in proofs()[:2]]
    scale = Scale({"a": 7})
    with ahead_of(session := _Running(raises=False)) as ahead:
        for proof in known:
            ahead.begin(proof)
        wait([reply for _, reply in ahead._asked.values()])
        with ahead.turn(known[0].form) as child:
            for proof, is_again in zip(known, (False, True), strict=True):
                asked = replace(proof, once=not is_again, scale=scale)
                ahead.reply(child, asked, judge._call(asked, NO_PEER, ()))
                early = ahead.compared(asked)
                assert (early is None) == is_again  # of other runs than those that were compared
                examined = judge._examined(AnsweredCase(asked, cast(CaseAnswer, 0), "cuda"), compared=early)
                assert [*map(str, examined.checks)] == [str(Check("values", proof.case.name, True)), str(scale)]
    cases = [proof.case for proof in compared]  # the second one's first reply may be compared, for nobody
    assert len(session.asked) == 3 and cases.count(known[0].case) == 1 and cases[-1] == known[1].case


def test_one_case_that_nobody_foresees_is_run_as_it_is_imported_while_the_truth_is_asked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    begun: list[Proof] = []
    imported = cast(judge._Ahead, SimpleNamespace(begin=begun.append, has_begun=lambda proof: proof in begun))
    cases = [
        Case("no several programs", (("T", 1), ("I", 33)), "float32", 8),
        Case("large", (("T", 5), ("I", 33)), "float32", 12, measured=True),
        *(Case(f"seed {seed}", (("T", 5), ("I", 33)), "float32", seed) for seed in (3, 16, 20, 5)),
    ]
    with judge._Proving(PROBLEM, cases, surroundings()) as proving:
        known = proving.first(None, imported)
    assert [proof.case.name for proof in begun] == ["seed 16"]
    begun[:] = [proof for proof in known if proof.case.name == "seed 16"]
    learned = judge.OriginalRuns([(proof, NO_PEER) for proof in known])
    source = source_of("reglu")
    assert judge._Importing(source, learned, surroundings(), imported)._chosen.case.name == "seed 16"
    begun.clear()
    chosen = judge._Importing(source, learned, surroundings(), imported)._chosen.case
    assert chosen.name.startswith("seed")


class _Compiling:
    """A child that tells what it was asked for; its first run waits for ``go``, and a case to compile may be its end."""

    def __init__(self, asked: list[str], *, dies: bool = False) -> None:
        self.asked, self.dies = asked, dies
        self.begun, self.go = threading.Event(), threading.Event()

    def renew(self) -> None:
        pass

    def abandon(self) -> None:
        self.go.set()

    def call(self, request: RunCase | WarmUp, tensors: object, check: object = None) -> ChildReply[str]:
        if isinstance(request, WarmUp):
            self.asked.append("compile")
            if self.dies:
                raise ChildDied(9, None)
            return ChildReply("")
        self.begun.set()
        assert self.go.wait(60)
        self.asked.append("run")
        return ChildReply("an answer")


def test_what_cases_need_is_compiled_before_any_that_waits_and_an_urgent_one_is_run_next() -> None:
    asked: list[str] = []
    session, known = _Compiling(asked), proofs()
    with judge._Ahead(lambda form: cast(Any, nullcontext(session))) as ahead:
        ahead.begin(known[0])
        assert session.begun.wait(60)
        ahead.begin(known[1])
        ahead.also(lambda: known[1])
        urgent = ahead._ask(judge._NEXT, lambda: asked.append("urgent"))
        session.go.set()
        with ahead.turn(known[0].form) as child:
            urgent.result()
            for proof in known[:2]:
                assert ahead.reply(child, proof, judge._call(proof, NO_PEER, ())).message == cast(Any, "an answer")
    assert asked == ["run", "compile", "urgent", "run"]


def test_a_child_that_ends_while_it_compiles_is_not_the_one_that_is_judged() -> None:
    asked: list[str] = []
    children = [_Compiling(asked, dies=True), _Compiling(asked)]
    children[1].go.set()
    left, proof = [*children], proofs()[0]
    with judge._Ahead(lambda form: cast(Any, nullcontext(left.pop(0)))) as ahead:
        ahead.also(lambda: proof)
        ahead.begin(proof)
        with ahead.turn(proof.form) as child:
            assert child is cast(Any, children[1])
            assert ahead.reply(child, proof, judge._call(proof, NO_PEER, ())).message == cast(Any, "an answer")
    assert asked == ["compile", "run"]


def test_a_child_that_hangs_in_a_case_ahead_ends_with_its_verdict() -> None:
    session = _Running(hangs=True)
    with ahead_of(session) as ahead:
        for proof in proofs():
            ahead.begin(proof)
        while not session.asked:
            pass
    assert session.gone.is_set()
    assert len(session.asked) == 1


def test_which_cases_run_twice_is_foreseen_from_their_sizes() -> None:
    cases = [replace(case, sizes=(("T", 5 + case.seed), ("I", 33))) for case in CASES] * 5
    cases = [replace(case, seed=place) for place, case in enumerate(cases)]
    known = [asked_of(PROBLEM, cast(CallForm, form_of(PROBLEM)), case) for case in cases]
    twice = judge._planned_twice(PROBLEM, cases)
    assert [judge._is_run_once(case, twice) for case in cases] == [p.once for p in judge._once_or_twice(known)]
    assert judge._planned_twice(PROBLEM, cases[:4]) == cases[:4]


def test_trails_that_the_interpreter_leaves_are_followed_also_those_before() -> None:
    beside = judge._Interpreting(source_of("reglu"), surroundings(), lambda: (_ for _ in ()))
    beside._device.set_result({"name": "a GPU"})
    followed: list[judge._Trail] = []
    for place, proof in enumerate(proofs()):
        if place == 2:
            beside.followed(followed.append)
        answer = CaseAnswer({}, {}, {}, (), {}, 0, (), {}, (), {}, ())
        beside._take(beside._seen, proof, NO_PEER, answer, None, leaves_trail=place != 3)
    assert [trail[0].case.seed for trail in followed] == [0, 1, 2]
    assert all(one is other for one, other in zip(followed, beside._seen.trails, strict=True))
