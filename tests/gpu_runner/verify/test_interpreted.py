"""Beside a GPU a verdict runs cases in the interpreter, for what a GPU does not show."""

from __future__ import annotations

import functools
import io
import itertools
import tarfile
from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest

from gpu_runner import companion
from gpu_runner.context import RunContext
from gpu_runner.contracts import CandidateSource, RunnerError, SourceFile, Status, Verdict, VerifyRequest
from gpu_runner.messages import CallForm
from gpu_runner.program.memory import FALSE_CLAIM
from gpu_runner.session import ChildSession
from gpu_runner.verify import cases, judge
from gpu_runner.verify.draws import Draws
from gpu_runner.verify.opening import loaded
from tests.cheats.table_new import NEW
from tests.cheats.trial import cheat, proofs, source_of_problem, surroundings
from tests.honest.table import problem_of, source_of

GPU_THERE = {
    "count": 1,
    "has_bf16": True,
    "capability": [9, 0],
    "properties": {"name": "NVIDIA H100 80GB HBM3", "multi_processor_count": 132, "warp_size": 32},
    "driver": {"max_shared_mem": 232448, "multiprocessor_count": 132, "warpSize": 32},
    "target": ["cuda", 90, 32],
}


def _on_a_gpu(patch: pytest.MonkeyPatch, *kernels: str) -> None:
    """Have every case pass on a GPU that launches these kernels; none is larger than it would be for the interpreter."""
    patch.setattr(judge, "has_gpu", lambda: True)
    patch.setattr(companion, "has_cores", lambda: False)
    patch.setattr(cases, "GPU_ELEMENTS", cases.INTERPRETED_ELEMENTS)
    patch.setattr(judge, "_try", lambda *_: judge._Trial(kernels=dict.fromkeys(kernels)))
    patch.setattr(judge._Importing, "_begun", lambda _: None)


def beside_a_gpu(candidate: CandidateSource, patch: pytest.MonkeyPatch) -> Verdict:
    """What judges a candidate by some cases of reglu, without any of the interpreter's own."""
    _on_a_gpu(patch)
    return judge.judge_by(proofs("reglu"), candidate, surroundings())


def whole_beside_a_gpu(
    problem: str,
    candidate: CandidateSource,
    patch: pytest.MonkeyPatch,
    *kernels: str,
    original: CandidateSource | None = None,
    context: RunContext | None = None,
    apart: bool = False,
) -> Verdict:
    """A full verdict; interpreted in a process of its own or in this one."""
    known = proofs("reglu")
    _on_a_gpu(patch, *kernels)
    patch.setattr(companion, "has_cores", lambda: apart)
    patch.setattr(judge._Proving, "first", lambda *_: list(known))
    patch.setattr(judge._Proving, "begin_rest", lambda _: None)
    request = VerifyRequest(problem, candidate, dtypes=("float32",), original=original)
    return judge.judge(request, context or surroundings())


def test_a_race_that_no_case_shows_on_a_gpu_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    verdict = beside_a_gpu(cheat("moved_in_place"), monkeypatch)
    assert (verdict.status, verdict.rule) == (Status.nondeterministic, "race")
    assert verdict.evidence[0].check == "interpreted"


def test_memory_that_a_kernel_was_not_given_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    text = cheat("moved_in_place").files[0].text.replace("y_ptr + 1 + at", "y_ptr + 70001 + at")
    verdict = beside_a_gpu(CandidateSource((SourceFile("candidate.py", text),)), monkeypatch)
    assert verdict.status is Status.out_of_bounds


@pytest.mark.parametrize("apart", [False, True])
def test_alignment_that_a_kernel_claims_and_no_case_on_a_gpu_needs_is_found(
    monkeypatch: pytest.MonkeyPatch, apart: bool
) -> None:
    verdict = whole_beside_a_gpu(source_of_problem("gauss"), cheat("aligned_pointer"), monkeypatch, apart=apart)
    assert (verdict.status, verdict.rule) == (Status.refused, FALSE_CLAIM)


def test_an_input_that_is_put_back_before_a_case_on_a_gpu_ends_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    verdict = whole_beside_a_gpu(source_of_problem("rms_weighted"), cheat("scratch_in_the_input"), monkeypatch)
    assert verdict.status is Status.mutated_input


def test_where_decisions_are_not_demanded_two_cases_are_run(monkeypatch: pytest.MonkeyPatch) -> None:
    verdict = beside_a_gpu(source_of("reglu"), monkeypatch)
    assert verdict.status is Status.passed
    assert [check.name for check in verdict.checks].count("interpreted") == 2
    assert not verdict.one_sided


def test_there_what_the_interpreter_cannot_run_is_left_out_and_named(monkeypatch: pytest.MonkeyPatch) -> None:
    verdict = beside_a_gpu(_raising(), monkeypatch)
    assert verdict.status is Status.passed
    (left_out,) = [check for check in verdict.checks if check.name == "interpreter_left_out"]
    assert "no such thing here" in left_out.workload


@pytest.mark.long  # in `make test` tests/cheats has one side of a decision, in the interpreter alone
def test_what_a_kernel_decides_is_seen_beside_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    name = "limit_in_an_unrolled_loop"
    verdict = whole_beside_a_gpu(source_of_problem(NEW[name].problem), cheat(name), monkeypatch)
    assert (verdict.status, verdict.rule) == (Status.unproved, "one-sided")


@pytest.mark.parametrize("apart", [False, True])
def test_an_honest_candidate_passes_once_every_decision_was_seen(monkeypatch: pytest.MonkeyPatch, apart: bool) -> None:
    launched, context = ("_forward", "_backward"), surroundings()
    candidate, problem = source_of("reglu"), problem_of("reglu")
    verdict = whole_beside_a_gpu(problem, candidate, monkeypatch, *launched, context=context, apart=apart)
    assert verdict.status is Status.passed, verdict.evidence
    assert 2 <= [check.name for check in verdict.checks].count("interpreted") < 20
    assert {"at_scale", "interpreted"} <= {check.name for check in verdict.checks} and context.levels()


@pytest.mark.long  # in `make test` test_one_sided joins what several processes tell
def test_what_one_of_several_children_alone_saw_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(judge, "INTERPRETED_AT_ONCE", 4)
    monkeypatch.setattr(judge._Interpreting, "_has_seen_enough", lambda *_: False)  # the GPU takes longer
    take, taken = judge._Children.take, itertools.count()

    def take_of_four(self: judge._Children, form: CallForm) -> ChildSession:
        if next(taken) < 4:  # as where many cores keep all of them at work
            with self._opening:
                door = loaded("candidate", self._source, form, self._context, self._name, gpu=False)
                return self._stack.enter_context(door)
        return take(self, form)

    monkeypatch.setattr(judge._Children, "take", take_of_four)
    verdict = whole_beside_a_gpu(problem_of("logsumexp_rows"), source_of("logsumexp_rows"), monkeypatch)
    assert verdict.status is Status.passed, verdict.evidence


@pytest.mark.long  # a whole verdict beside a GPU is above
@pytest.mark.parametrize("apart", [False, True])
def test_programs_of_a_persistent_kernel_have_several_blocks_each_where_a_gpu_has_few_processors(
    monkeypatch: pytest.MonkeyPatch, apart: bool
) -> None:
    trails: list[judge._Trail] = []
    monkeypatch.setattr(judge._Importing, "follow", lambda _, trail: trails.append(trail))
    begin = judge._Interpreting._begin
    monkeypatch.setattr(judge, "_facts_of", lambda _: GPU_THERE)
    monkeypatch.setattr(judge._Interpreting, "_begin", lambda self, _: begin(self, cast(ChildSession, self)))
    monkeypatch.setattr(judge._Importing, "end", lambda *_: None)  # by CPython there is no such GPU
    name = "mean_square_persistent"
    launched = "_sum_blocks", "_grad"
    verdict = whole_beside_a_gpu(problem_of(name), source_of(name), monkeypatch, *launched, apart=apart)
    assert verdict.status is Status.passed, verdict.evidence
    assert len(trails) >= 2 and all(trail is not None and trail.whole for _, _, trail, _ in trails)


@pytest.mark.parametrize("leaves", [False, True])
def test_a_process_that_interprets_and_ends_is_no_verdict(leaves: bool) -> None:
    request = VerifyRequest(problem_of("reglu"), source_of("reglu"), dtypes=("float32",))
    with judge._InterpretingApart(request, surroundings(), Draws.fresh(), ()) as beside:
        if leaves:
            beside.leave()
            assert not beside.seen().findings
        else:
            beside._companion._process.kill()
            with pytest.raises(RunnerError, match="interprets the candidate beside the GPU, was killed"):
                beside.seen()
    assert not beside._companion._process.is_alive()


def test_a_process_that_ended_while_it_waited_is_replaced(caplog: pytest.LogCaptureFixture) -> None:
    companion.start()
    companion._running[0]._process.kill()
    companion._running[0]._process.join()
    taken = companion.take()
    assert taken.is_there() and not companion._running
    assert "was killed, as the system does where memory runs out" in caplog.text
    taken._line._connection.close()
    taken.end()
    assert not taken.is_there()


def test_what_only_a_gpu_of_few_processors_does_is_held_against_all_that_is_allowed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    begin = judge._Interpreting._begin
    monkeypatch.setattr(judge, "_facts_of", lambda _: GPU_THERE)
    monkeypatch.setattr(judge._Interpreting, "_begin", lambda self, _: begin(self, cast(ChildSession, self)))
    monkeypatch.setattr(judge._Importing, "end", lambda *_: None)  # by CPython there is no such GPU
    name = "cut_on_few_processors"
    verdict = whole_beside_a_gpu(source_of_problem(NEW[name].problem), cheat(name), monkeypatch, "_scale")
    assert (verdict.status, verdict.rule) == (Status.unproved, "interpreted"), verdict


def test_a_kernel_that_ran_on_the_gpu_alone_is_unproved_and_named(monkeypatch: pytest.MonkeyPatch) -> None:
    verdict = whole_beside_a_gpu(problem_of("reglu"), _raising(), monkeypatch, "_forward")
    assert (verdict.status, verdict.rule) == (Status.unproved, "interpreted")
    assert "`_forward`" in verdict.evidence[0].message
    assert "no such thing here" in verdict.evidence[0].message


def test_a_kernel_of_the_original_may_run_on_the_gpu_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    original = source_of("reglu").files[0].text
    monkeypatch.setattr(judge, "_texts_of_original", lambda *_: {"candidate.py": original})
    verdict = whole_beside_a_gpu(problem_of("reglu"), _raising(), monkeypatch, "_forward")
    assert verdict.status is Status.passed, verdict.evidence
    other = original.replace("tl.load(", "tl.load(0 + ", 1)
    monkeypatch.setattr(judge, "_texts_of_original", lambda *_: {"candidate.py": other})
    verdict = whole_beside_a_gpu(problem_of("reglu"), _raising(), monkeypatch, "_forward")
    assert verdict.status is Status.unproved


def test_a_reference_that_a_cpu_cannot_run_leaves_the_interpreter_out(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = problem_of("reglu").replace("    return", "    raise OSError('a GPU alone')\n    return", 1)
    verdict = whole_beside_a_gpu(problem, source_of("reglu"), monkeypatch, "_forward")
    assert verdict.status is Status.passed
    (left_out,) = [check for check in verdict.checks if check.name == "interpreter_left_out"]
    assert "a GPU alone" in left_out.workload


@functools.cache
def _raising() -> CandidateSource:
    text = source_of("reglu").files[0].text
    broken = text.replace(
        "def candidate(", "def candidate(a, b):\n    raise OSError('no such thing here')\n\n\ndef other(", 1
    )
    return CandidateSource((SourceFile("candidate.py", broken),))


OVER_ITS_INPUTS = ("torch.empty_like(a), torch.empty_like(b)", "a, b")  # as libraries do to save memory


# In `make test` a kernel of the original is granted what it is, above; here it stands beside the candidate in every case.
@pytest.mark.long
@pytest.mark.slow
@pytest.mark.parametrize(
    ("beside", "spoilt", "status"),
    [(True, "", Status.passed), (False, "", Status.mutated_input), (True, "dy * a", Status.unproved)],
)
def test_what_the_original_errs_in_the_interpreter_is_granted_and_nothing_else(
    monkeypatch: pytest.MonkeyPatch, beside: bool, spoilt: str, status: Status
) -> None:
    monkeypatch.setattr(judge._Interpreting, "_has_seen_enough", lambda *_: False)  # on to the cases in which it errs
    text = source_of("reglu").files[0].text.replace(*OVER_ITS_INPUTS)
    original = CandidateSource((SourceFile("candidate.py", text.replace("4096", "2048")),)) if beside else None
    candidate = CandidateSource((SourceFile("candidate.py", text.replace(spoilt, "dy * 2 * a") if spoilt else text),))
    launched = "_forward", "_backward"
    verdict = whole_beside_a_gpu(problem_of("reglu"), candidate, monkeypatch, *launched, original=original)
    assert verdict.status is status, verdict.evidence
    assert (verdict.rule == "interpreted") is (status is Status.unproved)
    # Where one input is the other, some rows further on, what writes over it races.
    left_out = [check.workload for check in verdict.checks if check.name == "interpreter_left_out"]
    assert any("the original: A kernel reads what another program" in why for why in left_out) is beside


@pytest.mark.long  # in `make test` one of the original may, above
def test_a_kernel_of_the_library_of_which_the_candidate_writes_nothing_may_run_on_the_gpu_alone(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    text = _raising().files[0].text
    with tarfile.open(tmp_path / "head.tar.gz", "w:gz") as archive:
        info = tarfile.TarInfo("library-1/operators.py")
        info.size = len(text)
        archive.addfile(info, io.BytesIO(text.encode()))
    library = CandidateSource((), module="operators", tree="head.tar.gz")
    there = replace(surroundings(), folder=tmp_path)
    verdict = whole_beside_a_gpu(problem_of("reglu"), library, monkeypatch, "_forward", context=there)
    assert verdict.status is Status.passed, verdict.evidence
    written = replace(library, files=(SourceFile("operators.py", text),))
    verdict = whole_beside_a_gpu(problem_of("reglu"), written, monkeypatch, "_forward", context=there)
    assert (verdict.status, verdict.rule) == (Status.unproved, "interpreted")
