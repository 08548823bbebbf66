"""The compiler author over a folder of problems: each is captured, compiled, judged and, where there is a GPU, measured."""

from __future__ import annotations

import hashlib
import json
import math
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from gpu_runner.contracts import BenchmarkResult, Pass, Status, Verdict
from workers.contracts import FailureCode, UserFacingError
from workers.contracts.problem_set import BASELINES, Entry, ProblemOutcome

# Without a GPU kernels run in Triton's interpreter, which takes about a second for some million elements.
MOST_ELEMENTS_INTERPRETED = 2**22


@dataclass(frozen=True)
class Compiled:
    """A kernel, or why there is none; ``elements`` are those of the problem's inputs at its largest size.

    ``small`` is the problem with small sizes; None where it has none.
    """

    source: str | None
    refusal: str | None
    operator: str | None
    elements: int
    small: str | None = None


@dataclass(frozen=True)
class SuiteTools:
    """What a problem is worked on with; each takes the seconds that are left. ``measure`` is None where there is no GPU."""

    compile: Callable[[str, str, float], Compiled]  # problem's source, kernel's name
    verify: Callable[[str, str, float], Verdict]  # problem's source, candidate's source
    measure: Callable[[str, str, float], BenchmarkResult] | None


def problems_in(folder: Path) -> list[Path]:
    """The problem files of a folder and of those in it, in the order of the numbers in their names."""
    files = (path for path in folder.rglob("*.py") if not any(part.startswith((".", "__")) for part in path.parts))
    return sorted((path for path in files if _is_problem(path)), key=_natural)


def _is_problem(path: Path) -> bool:
    text = path.read_text(encoding="utf-8", errors="replace")
    return "class Model" in text or "def reference(" in text


def _natural(path: Path) -> tuple[object, ...]:
    number = path.stem.split("_")[0]
    return str(path.parent), int(number) if number.isdigit() else math.inf, path.name


def digest_of(source: str, author: str) -> str:
    """A digest of what a result depends on."""
    return hashlib.sha256(f"{author}\n{source}".encode()).hexdigest()[:32]


class Results:
    """The results of a run as lines of JSON, one for each problem, so that an interrupted run resumes."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "results.jsonl"
        self.entries: dict[str, Entry] = {}
        if self._path.exists():
            for line in self._path.read_text(encoding="utf-8").splitlines():
                entry = _entry(line)
                if entry is not None:
                    self.entries[entry.problem] = entry

    def add(self, entry: Entry) -> None:
        """Keep a result."""
        self.entries[entry.problem] = entry
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(asdict(entry)) + "\n")


def _entry(line: str) -> Entry | None:
    """Read a line; one that a run was ended in the middle of is none."""
    try:
        form = json.loads(line)
        return Entry(**(form | {"outcome": ProblemOutcome(form["outcome"])}))
    except (ValueError, TypeError, KeyError):
        return None


def work_through(
    folder: Path,
    out: Path,
    tools: SuiteTools,
    *,
    author: str,
    jobs: int,
    limit_s: float,
    name_of: Callable[[Path], str],
    say: Callable[[str], None],
) -> list[Entry]:
    """Work on each problem of ``folder`` that has no result in ``out`` yet, ``jobs`` at a time; kernels are written to ``out``."""
    (out / "kernels").mkdir(parents=True, exist_ok=True)
    results, paths = Results(out), problems_in(folder)
    names = {str(path.relative_to(folder)): path for path in paths}
    sources = {name: path.read_text(encoding="utf-8", errors="replace") for name, path in names.items()}
    digests = {name: digest_of(source, author) for name, source in sources.items()}
    known = [name for name in names if name in results.entries and results.entries[name].digest == digests[name]]
    todo = [name for name in names if name not in known]
    say(f"{len(names)} problems, {len(known)} of them known from an earlier run")

    def work(name: str) -> Entry:
        kernel = out / "kernels" / name
        return _worked(tools, name, digests[name], sources[name], name_of(names[name]), kernel, limit_s)

    with ThreadPoolExecutor(jobs) as pool:
        running = [pool.submit(work, name) for name in todo]
        try:
            for number, done in enumerate(as_completed(running), len(known) + 1):
                entry = done.result()
                results.add(entry)
                done_in = f"{entry.outcome.value} in {entry.seconds:.0f} s"
                say(f"[{number}/{len(names)}] {entry.problem}: {done_in} {entry.sentence}".rstrip())
        except BaseException:
            for waiting in running:
                waiting.cancel()
            raise
    return [results.entries[name] for name in names]


def _worked(
    tools: SuiteTools, name: str, digest: str, source: str, kernel_name: str, kernel: Path, limit_s: float
) -> Entry:
    started = time.monotonic()
    status: str | None = None

    def left() -> float:
        return max(1.0, limit_s - (time.monotonic() - started))

    def entry(outcome: ProblemOutcome, sentence: str = "", reason: str | None = None, **more: Any) -> Entry:
        seconds = round(time.monotonic() - started, 1)
        return Entry(name, digest, outcome, sentence, reason, seconds, status, **more)

    try:
        compiled = tools.compile(source, kernel_name, left())
        if compiled.source is None:
            return entry(ProblemOutcome.refused, compiled.refusal or "", compiled.operator or compiled.refusal)
        kernel.parent.mkdir(parents=True, exist_ok=True)
        kernel.write_text(compiled.source, encoding="utf-8")
        problem, note = source, ""
        if tools.measure is None and compiled.elements > MOST_ELEMENTS_INTERPRETED:
            note = f"its inputs have {compiled.elements} elements, too many for Triton's interpreter"
            if compiled.small is None:
                return entry(ProblemOutcome.not_judged, note)
            problem, note = compiled.small, f"at small sizes: {note}"
        verdict = tools.verify(problem, compiled.source, left())
        status = verdict.status.value
        if verdict.status is not Status.passed:
            sentence = f"{status}: {verdict.evidence[0].message}" if verdict.evidence else status
            return entry(_outcome_of(verdict.status), sentence, status)
        if tools.measure is None:
            return entry(ProblemOutcome.right, note)
        return entry(ProblemOutcome.right, speedups=speedups_of(tools.measure(source, compiled.source, left())))
    except UserFacingError as error:
        failure = error.failure
        if time.monotonic() - started >= limit_s:
            return entry(ProblemOutcome.timeout, f"it took more than {limit_s:.0f} s", ProblemOutcome.timeout.value)
        environment = failure.code is FailureCode.environment
        return entry(ProblemOutcome.error if environment else ProblemOutcome.unusable, failure.message, failure.message)
    except Exception as error:  # noqa: BLE001 - one problem must not end the others; its line says what broke
        return entry(ProblemOutcome.error, f"{type(error).__name__}: {error}", type(error).__name__)


def _outcome_of(status: Status) -> ProblemOutcome:
    if status in {Status.unproved, Status.environment_error}:
        return ProblemOutcome.not_judged
    return {Status.timeout: ProblemOutcome.timeout, Status.degenerate_problem: ProblemOutcome.unusable}.get(
        status, ProblemOutcome.wrong
    )


def speedups_of(result: BenchmarkResult) -> dict[str, float]:
    """Speedups of the forward pass over each baseline, as KernelBench counts them; empty where none was timed."""
    ratios: dict[str, list[float]] = {name: [] for name in BASELINES}
    for row in result.rows if not result.predicted else ():
        medians = {t.contender: t.median_us for t in row.timings}
        mine = medians.get("candidate")
        for name in BASELINES:
            other = medians.get(name)
            if row.timed_pass is Pass.forward and mine and other:
                ratios[name].append(other / mine)
    return {name: math.prod(values) ** (1 / len(values)) for name, values in ratios.items() if values}
