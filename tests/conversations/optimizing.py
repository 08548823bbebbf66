"""What conversations about optimize share: the runner's answers, made by hand, and the steps of a person."""

from __future__ import annotations

from dataclasses import replace

from gpu_runner.contracts import BenchmarkResult, CaptureResult, Pass, RecordResult, TuneResult, Word, to_json
from tests.conversations.normal import folded
from tests.conversations.talk import REPOSITORY, Talk
from tests.service.report.facts import VERDICT
from tests.service.report.kernels_facts import PROFILED, V0, measured
from workers import inbox


def answers(talk: Talk) -> None:
    """Have the runner say what stands today, and that the problem cannot be traced."""
    talk.answer("capture", to_json(CaptureResult(None, "the problem is not traced here")), always=True)
    talk.answer("record", to_json(RecordResult(())), always=True)
    talk.answer("tune", to_json(TuneResult((), None)), always=True)
    talk.answer("profile", to_json(PROFILED), always=True)
    talk.answer("verify", to_json(VERDICT), always=True)
    talk.answer("benchmark", to_json(V0), always=True)


def heard(talk: Talk, number: int) -> list[str]:
    """Give what the bot wrote or edited since the last look, also on the job's pull request, before anything is unfolded."""
    pulls = {job.pull_number for job in inbox.find_jobs(REPOSITORY, number=number)} - {None}
    return sorted(folded(body) for place in {number} | pulls for body in talk.heard(place or number))


def closed(talk: Talk) -> bool:
    """Tell whether the job's pull request holds the profile alone, and is closed."""
    state = talk.hub.issue(REPOSITORY, talk.pull()).state
    return state == "closed" and [line.split()[0] for line in talk.changed()] == ["optimization/geglu/profile.md"]


def approve(talk: Talk, number: int) -> None:
    talk.clock[0] += 10
    checkpoint = talk.job().checkpoint
    assert checkpoint is not None
    talk.say(number, f"/kernel approve {(checkpoint.sha or '')[:12]}")
    talk.settle()


def alone(measured: BenchmarkResult) -> BenchmarkResult:
    """Give a measurement of what stands, with nothing to hold it against but eager and torch.compile."""
    rows = tuple(
        replace(
            row, timings=tuple(t for t in row.timings if t.contender not in ("original", "control")), comparisons=()
        )
        for row in measured.rows
    )
    return replace(measured, rows=rows)


def so_fast(speedup: float) -> BenchmarkResult:
    """Give a measurement over all passes."""
    word = Word.faster if speedup > 1.01 else Word.same
    return measured(*((timed_pass, speedup, word) for timed_pass in Pass))


TODAY = alone(so_fast(1.0))


def searched(talk: Talk, *speedups: float) -> None:
    """Have the runner say how fast what stands is, and then how fast each variant and what follows them."""
    answers(talk)
    talk.answer("benchmark", to_json(TODAY))
    for speedup in speedups:
        talk.answer("benchmark", to_json(so_fast(speedup)))


def to_the_comparison(talk: Talk, options: str = "--goal speed") -> int:
    """Ask, approve the profile, and give the issue's number where the comparison waits."""
    number = talk.ask(f"/kernel optimize geglu {options}")
    approve(talk, number)
    checkpoint = talk.job().checkpoint
    assert checkpoint is not None and checkpoint.stage == "optimize"
    return number
