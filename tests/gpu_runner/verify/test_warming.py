"""What children warm up by on a GPU is of the judged cases' form, and nothing of what is judged."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace
from typing import cast

import pytest

from gpu_runner.context import RunContext
from gpu_runner.contracts import parse_problem
from gpu_runner.program.log import Log, _wrap_run
from gpu_runner.session import ChildSession
from gpu_runner.verify import judge
from gpu_runner.verify.cases import QUICK_ELEMENTS, Case, Content
from gpu_runner.verify.early import Early
from gpu_runner.verify.peer import Peer
from gpu_runner.verify.proof import Proof
from tests.cheats.trial import surroundings
from tests.problems import problem_source

CASES = (
    Case("prime", (("T", 7), ("I", 97)), "float32", 11, layout="apart", again=True),
    Case("large values", (("T", 6), ("I", 97)), "float32", 12, content=Content.large),
    Case("not finite", (("T", 8), ("I", 33)), "float32", 13, content=Content.odd),
    Case("workload", (("T", 2**13), ("I", 2**9)), "bfloat16", 14, measured=True),
)
SMALLER = Case("smaller", (("T", 2**10), ("I", 2**9)), "float32", 15, measured=True)


class Listener:
    """Stands in the place of a child that starts early."""

    def __init__(self) -> None:
        self.told: list[Callable[[], Proof]] = []

    def also(self, make: Callable[[], Proof]) -> None:
        self.told.append(make)


def told(
    monkeypatch: pytest.MonkeyPatch, gpu: bool, cases: Sequence[Case] = CASES, *, later: bool = False
) -> tuple[list[Proof], list[Proof]]:
    opened = judge.opened

    @contextmanager
    def on_a_gpu(session: ChildSession, context: RunContext) -> Iterator[ChildSession]:
        with opened(session, context) as ready:
            ready.gpu = gpu
            yield ready

    monkeypatch.setattr(judge, "opened", on_a_gpu)
    listener = Listener()
    problem = parse_problem(problem_source("reglu"))
    with judge._Proving(problem, cases, surroundings(), [cast(Early, listener)], later=later) as proving:
        proofs = proving.first()
        proving.begin_rest()
        while more := proving.rest(True):
            proofs += more
    assert proving.oracle.session._process is None  # it has ended
    assert proving.left_out == []
    return proofs, [make() for make in listener.told]


def test_each_case_is_named_with_other_values_and_few_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    proofs, warming = told(monkeypatch, gpu=True)
    assert len(warming) == len(proofs) == len(CASES)
    for proof, likewise in zip(proofs, warming, strict=True):
        assert likewise.case.seed != proof.case.seed
        assert likewise.case.content is Content.ordinary
        assert (likewise.case.dtype, likewise.case.layout) == (proof.case.dtype, proof.case.layout)
        assert likewise.case.size_of["I"] == proof.case.size_of["I"]
        assert max(tensor.numel() for tensor in likewise.inputs.values()) <= QUICK_ELEMENTS
        assert likewise.expected() == {}
        assert likewise.other is None
        if likewise.case.sizes == proof.case.sizes:  # strides and offsets choose kernels too
            forms = [
                {name: (one.stride, one.offset) for name, one in given.laid.items()} for given in (proof, likewise)
            ]
            assert forms[0] == forms[1]
            assert [up and up.stride for up in likewise.upstream] == [up and up.stride for up in proof.upstream]
            assert not any(one.raw.any() for one in (*likewise.laid.values(), *filter(None, likewise.upstream)))
    assert warming[-1].case.size_of["T"] == 2**12


@pytest.mark.parametrize("cores", [2, 16])  # where there are many, of a second child of the reference
def test_large_cases_are_named_first_and_asked_for_last(monkeypatch: pytest.MonkeyPatch, cores: int) -> None:
    monkeypatch.setattr(judge, "CORES", cores)
    cases = (SMALLER, CASES[3], CASES[0])
    proofs, warming = told(monkeypatch, gpu=True, cases=cases, later=True)
    assert [proof.case.name for proof in proofs] == ["prime", "workload", "smaller"]  # the largest first
    assert all(proof.outputs and proof.gradients and proof.scale == proofs[0].scale for proof in proofs)
    assert [likewise.case.name for likewise in warming] == ["workload", "smaller", "prime"]
    assert warming[0].case.size_of["T"] == 2**12
    assert warming[0].case.seed not in {case.seed for case in cases}


def test_in_the_interpreter_nothing_is_compiled_and_nothing_named(monkeypatch: pytest.MonkeyPatch) -> None:
    assert told(monkeypatch, gpu=False, cases=CASES[:1])[1] == []


def test_in_the_interpreter_one_case_in_three_is_run_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    cases = [replace(CASES[0], seed=seed) for seed in range(11, 17)]
    assert not any(proof.once for proof in told(monkeypatch, gpu=False, cases=cases)[0])
    monkeypatch.setattr(judge, "MOST_TWICE", 5)
    proofs, _ = told(monkeypatch, gpu=False, cases=cases)
    assert sum(not proof.once for proof in proofs) == 3  # two by their seeds, and the one with most elements
    calls = [judge._call(proof, Peer(failed=frozenset({"interleaved"})), ()) for proof in proofs]
    assert [("second" in call.call.skip) for call in calls] == [proof.once for proof in proofs]
    assert all("interleaved" in call.call.skip for call in calls)
    monkeypatch.undo()
    monkeypatch.setattr(judge, "MOST_TWICE", 5)
    assert not any(proof.once for proof in told(monkeypatch, gpu=True, cases=cases)[0])


def test_a_kernel_that_another_thread_launches_is_compiled_ahead_too() -> None:
    is_ahead = ContextVar("is_ahead", default=False)
    asked: list[tuple[bool, bool]] = []

    class Kernel:
        fn, arg_names = staticmethod(told), ()

        def run(self, grid: tuple[int, ...], warmup: bool = False) -> None:
            asked.append((is_ahead.get(), warmup))

    @contextmanager
    def ahead() -> Iterator[None]:
        token = is_ahead.set(True)
        yield
        is_ahead.reset(token)

    logs = [Log(lambda: None, ahead=ahead)]
    _wrap_run(Kernel, lambda: logs[-1])
    backward = threading.Thread(target=lambda: Kernel().run(grid=(1,)))  # as autograd's of a GPU is
    backward.start()
    backward.join()
    logs.append(Log(lambda: None))
    Kernel().run(grid=(1,))
    assert asked == [(True, True), (False, False)]
