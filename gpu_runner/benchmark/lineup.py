"""Who takes part in a benchmark, and who is compared with whom. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from gpu_runner.benchmark.race import Question
from gpu_runner.contracts.benchmark import BenchmarkRequest
from gpu_runner.contracts.envelope import RunnerError
from gpu_runner.contracts.verify import CandidateSource

CANDIDATE, ORIGINAL, CONTROL = "candidate", "original", "control"
BASELINES = ("eager", "torch_compile")


@dataclass(frozen=True)
class Entry:
    """One contender. ``source`` None: the problem's reference."""

    name: str
    source: CandidateSource | None
    compiled: bool = False


def entries(request: BenchmarkRequest) -> tuple[Entry, ...]:
    """Give every contender of a request, the candidate first.

    The control is the original once more, in a process of its own; without an original the candidate itself, which is what can be
    afforded before anything was timed: eager often takes several times as long, and the noise of many kernels is not that of one.

    Raises:
        RunnerError: the request names a contender that does not exist.
    """
    unknown = [name for name in request.contenders if name not in (*BASELINES, ORIGINAL)]
    if unknown:
        raise RunnerError(f"there is no contender {unknown[0]!r}; known are {', '.join(BASELINES)}")
    again = request.candidate if request.original is None else request.original
    found = [Entry(CANDIDATE, request.candidate)]
    if request.original is not None:
        found.append(Entry(ORIGINAL, request.original))
    found.append(Entry(CONTROL, again))
    wanted = request.contenders or BASELINES
    return (*found, *(Entry(name, None, name == "torch_compile") for name in BASELINES if name in wanted))


def question(names: tuple[str, ...]) -> Question:
    """Give what the race between these contenders is to answer."""
    baselines = tuple(name for name in names if name not in (CANDIDATE, CONTROL))
    itself = ORIGINAL if ORIGINAL in names else CANDIDATE
    return Question(CANDIDATE, baselines, (CONTROL, itself) if CONTROL in names and itself in names else None)
