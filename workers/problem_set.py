"""The compiler author over a folder of problems: each is captured, compiled, judged and, where there is a GPU, measured."""

from __future__ import annotations

import functools
import hashlib
import json
import math
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from gpu_runner.contracts import KERNELBENCH, BenchmarkResult, Pass, Status, Verdict
from workers.contracts import FailureCode, UserFacingError
from workers.contracts.problem_set import BASELINES, Entry, ProblemOutcome, name_of
from workers.gpu_host.execute import RunnerKilledError

# Without a GPU kernels run in Triton's interpreter, which takes about a second for some million elements.
MOST_ELEMENTS_INTERPRETED = 2**22
MOST_ELEMENTS_COMPOSED = (
    2**28
)  # on a GPU, at the problem's own sizes: parts may be written for sizes that a whole kernel is not
MOST_CHARACTERS = 300  # of what is said of one problem


@dataclass(frozen=True)
class Compiled:
    """A kernel, or why there is none; ``elements`` are those of the problem's inputs at its largest size, on a GPU those that a
    verdict compares.

    ``small`` is the problem with small sizes, on a GPU only where its own are too large for a verdict; ``reference`` a KernelBench
    problem in the reference form, at sizes that a verdict takes; None where it has none.
    """

    source: str | None
    refusal: str | None
    operator: str | None
    elements: int
    small: str | None = None
    reference: str | None = None


@dataclass(frozen=True)
class Composition:
    """A program of proved parts with torch's operators between them, and the verdict on the whole.

    ``parts`` counts calls of proved parts in one forward, ``left_to_torch`` the operators that torch computes in it.
    """

    source: str
    verdict: Verdict
    parts: int
    left_to_torch: int


Measure = Callable[[str, str, float], BenchmarkResult]  # problem's source, candidate's source, seconds


@dataclass(frozen=True)
class SuiteTools:
    """What a problem is worked on with; each takes the seconds that are left. ``measure`` is None where there is no GPU."""

    compile: Callable[[str, str, float], Compiled]  # problem's source, kernel's name
    compose: Callable[[str, Path, float], Composition | str]  # problem's source, the run's folder; or why there is none
    verify: Callable[[str, str, float], Verdict]  # problem's source, candidate's source
    measure: Measure | None
    end: Callable[[], None] = lambda: None  # what runs in any thread, of a run that is interrupted


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
    kernel_name: Callable[[Path], str],
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
        return _Work(tools, name, digests[name], sources[name], kernel_name(names[name]), out, limit_s).done()

    try:
        with _threads(jobs, tools) as pool:
            running = [pool.submit(work, name) for name in todo]
            for number, done in enumerate(as_completed(running), len(known) + 1):
                entry = done.result()
                results.add(entry)
                done_in = f"{entry.outcome.value} in {entry.seconds:.0f} s"
                say(f"[{number}/{len(names)}] {entry.problem}: {done_in} {entry.sentence}".rstrip())
        if tools.measure is not None:
            own = {name: sources[name] for name in names}
            _time_all(out, tools.measure, results, own, limit_s, say)
            kernels = {name: kernel_name(names[name]) for name in names}
            _take_apart(out, tools, results, own, kernels, jobs, limit_s, say)
    except KeyboardInterrupt:
        kept = sum(name in results.entries and results.entries[name].digest == digests[name] for name in names)
        say(
            f"Interrupted. {kept} of {len(names)} problems have their result in {out}; the same command goes on from there."
        )
        raise
    return [results.entries[name] for name in names]


@contextmanager
def _threads(jobs: int, tools: SuiteTools) -> Iterator[ThreadPoolExecutor]:
    """Threads that work on problems; where it is left by an exception, such as Ctrl-C, all that they run is ended."""
    with ThreadPoolExecutor(jobs) as pool:
        try:
            yield pool
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            tools.end()
            raise


def _time_all(
    out: Path,
    measure: Measure,
    results: Results,
    sources: Mapping[str, str],
    limit_s: float,
    say: Callable[[str], None],
) -> None:
    """Time what was proved and has no times, one at a time: nothing else is on the GPU meanwhile."""
    proved = (ProblemOutcome.right, ProblemOutcome.composed)
    entries = [results.entries[name] for name in sources]
    waiting = [entry for entry in entries if entry.outcome in proved and not (entry.speedups or entry.untimed)]
    for number, entry in enumerate(waiting, 1):
        program = (out / "kernels" / entry.problem).read_text(encoding="utf-8")
        begin = time.monotonic()
        timed = _timed(entry, functools.partial(measure, sources[entry.problem], program, limit_s))
        seconds = time.monotonic() - begin
        results.add(replace(timed, seconds=round(entry.seconds + seconds, 1)))
        told = ", ".join(f"{ratio:.2f} times as fast as {name_of(one)}" for one, ratio in timed.speedups.items())
        said = "; ".join(filter(None, (told, timed.untimed, timed.sentence if timed.outcome not in proved else "")))
        say(f"[{number}/{len(waiting)} timed] {entry.problem}: in {seconds:.0f} s {said}")


def _take_apart(
    out: Path,
    tools: SuiteTools,
    results: Results,
    sources: Mapping[str, str],
    kernels: Mapping[str, str],
    jobs: int,
    limit_s: float,
    say: Callable[[str], None],
) -> None:
    """Hold what is right and behind a baseline beside a program of proved parts, which leaves products to torch's libraries."""
    entries = [results.entries[name] for name in sources]
    behind = [entry for entry in entries if entry.is_behind and not (entry.in_parts or entry.not_in_parts)]
    with _threads(jobs, tools) as pool:
        at = ((entry.problem, sources[entry.problem], kernels[entry.problem]) for entry in behind)
        asked = [
            pool.submit(_in_parts, tools, source, kernel, out / "composed" / name, limit_s)
            for name, source, kernel in at
        ]
        made = [one.result() for one in asked]
    for entry, program in zip(behind, made, strict=True):
        if isinstance(program, str):
            results.add(replace(entry, not_in_parts=_first_of(program)))
            continue
        assert tools.measure is not None, "what has no times is not behind"
        measure = functools.partial(tools.measure, sources[entry.problem], program.source, limit_s)
        timed = _timed(replace(entry, speedups={}, untimed=""), measure)
        if timed.outcome is not entry.outcome or not timed.speedups:
            results.add(replace(entry, not_in_parts=timed.sentence or timed.untimed))
            continue
        path = out / "kernels" / entry.problem
        path.with_stem(f"{path.stem}_in_parts").write_text(program.source, encoding="utf-8")
        results.add(replace(entry, in_parts=timed.speedups, in_parts_torch=program.left_to_torch))
        told = ", ".join(f"{ratio:.2f} times as fast as {name_of(one)}" for one, ratio in timed.speedups.items())
        say(f"{entry.problem}, in parts with {program.left_to_torch} operators left to torch: {told}")


def _in_parts(tools: SuiteTools, source: str, kernel: str, run: Path, limit_s: float) -> Composition | str:
    """A program of proved parts, proved as a whole, at small sizes where its own are many; or why there is none."""
    try:
        compiled = tools.compile(source, kernel, limit_s)
        problem = source if compiled.elements <= MOST_ELEMENTS_COMPOSED else compiled.small
        if problem is None:
            return f"its own sizes have {compiled.elements:,} elements to compare, and it has no smaller ones"
        made = tools.compose(problem, run, limit_s)
    except UserFacingError as error:
        return error.failure.message
    except Exception as error:  # noqa: BLE001 - one problem must not end the others; its line says what broke
        return f"{type(error).__name__}: {error}"
    if isinstance(made, str) or made.verdict.status is Status.passed:
        return made
    said = [each.message for each in made.verdict.evidence[:1]]
    return ": ".join([made.verdict.status.value, *said])


def _timed(entry: Entry, measure: Callable[[], BenchmarkResult]) -> Entry:
    """The entry with its times. What was proved stays proved where it cannot be timed, but not where a timed run is wrong."""
    try:
        result = measure()
    except (UserFacingError, RunnerKilledError) as error:
        message = error.failure.message if isinstance(error, UserFacingError) else str(error)
        return replace(entry, untimed=_first_of(message))
    timings = [timing for row in result.rows for timing in row.timings]
    wrong = next((one for one in timings if one.contender == "candidate" and one.wrong), None)
    if wrong is not None:
        status = Status.incorrect_values.value
        sentence = f"{status}: at the problem's own sizes, {wrong.error}"
        return replace(entry, outcome=ProblemOutcome.wrong, sentence=sentence, reason=status, status=status)
    lacking = [f"{name_of(one.contender)}: {one.error}" for one in timings if one.error and one.contender != "control"]
    speedups = speedups_of(result)
    return replace(entry, speedups=speedups, untimed=_first_of("; ".join(lacking) or ("" if speedups else "no time")))


def _first_of(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= MOST_CHARACTERS else f"{line[: MOST_CHARACTERS - 1]}\N{HORIZONTAL ELLIPSIS}"


@dataclass
class _Work:
    """One problem on its way to an entry."""

    tools: SuiteTools
    name: str
    digest: str
    source: str
    kernel_name: str
    out: Path
    limit_s: float
    status: str | None = None
    started: float = field(default_factory=time.monotonic)

    def done(self) -> Entry:
        try:
            return self._worked()
        except UserFacingError as error:
            failure = error.failure
            if self._is_over():
                return self._entry(ProblemOutcome.timeout, self._too_long(), ProblemOutcome.timeout.value)
            environment = failure.code is FailureCode.environment
            outcome = ProblemOutcome.error if environment else ProblemOutcome.unusable
            return self._entry(outcome, failure.message, failure.message)
        except Exception as error:  # noqa: BLE001 - one problem must not end the others; its line says what broke
            return self._entry(ProblemOutcome.error, f"{type(error).__name__}: {error}", type(error).__name__)

    def _worked(self) -> Entry:
        compiled = self.tools.compile(self.source, self.kernel_name, self._left())
        problem: str | None = self.source
        note, elements = "", f"{compiled.elements:,} elements"
        interpreted = self.tools.measure is None
        if interpreted and compiled.elements > MOST_ELEMENTS_INTERPRETED:
            problem, note = compiled.small, f"its inputs have {elements}, too many for Triton's interpreter"
        elif not interpreted and compiled.small is not None:
            problem, note = compiled.small, f"its own have {elements} to compare"
        if problem is not None and problem != self.source:
            note = f"at small sizes: {note}"
        if compiled.source is None:
            whole = not interpreted and compiled.elements <= MOST_ELEMENTS_COMPOSED
            return self._composed(compiled, self.source if whole else problem, "" if whole else note)
        self._write(compiled.source)
        if problem is None:
            return self._entry(ProblemOutcome.not_judged, note)
        verdict = self.tools.verify(problem, compiled.source, self._left())
        if verdict.rule == "problem" and not interpreted and problem != self.source:
            problem, note = self.source, ""  # it does not run at smaller sizes
            verdict = self.tools.verify(problem, compiled.source, self._left())
        is_own = not interpreted or problem == self.source
        if verdict.status is Status.degenerate_problem and is_own and compiled.reference is not None:
            # Inputs that a model draws from a part of its domain may leave nothing to compute, as ReLU of positive numbers.
            verdict = self.tools.verify(compiled.reference, compiled.source, self._left())
            note = "on other inputs than the problem's own, of which a trivial answer is right"
        return self._judged(ProblemOutcome.right, verdict, compiled.source, note)

    def _composed(self, compiled: Compiled, problem: str | None, note: str) -> Entry:
        """The entry of a problem that is refused as a whole: composed of parts, or still refused. Its reason is the refusal."""
        refusal, reason = compiled.refusal or "", compiled.operator or compiled.refusal
        made: Composition | str
        try:
            made = (
                note
                if problem is None
                else self.tools.compose(problem, self.out / "composed" / self.name, self._left())
            )
        except UserFacingError as error:
            if error.failure.code is FailureCode.environment and not self._is_over():
                raise
            made = self._too_long() if self._is_over() else error.failure.message
        if isinstance(made, str):
            return self._entry(ProblemOutcome.refused, f"{refusal}; not composed of parts: {made}", reason)
        self._write(made.source)
        words = "; ".join(filter(None, (refusal, note)))
        entry = self._judged(ProblemOutcome.composed, made.verdict, made.source, words)
        return replace(entry, reason=reason, parts=made.parts, left_to_torch=made.left_to_torch)

    def _judged(self, passed: ProblemOutcome, verdict: Verdict, program: str, note: str) -> Entry:
        self.status = verdict.status.value
        if verdict.status is not Status.passed:
            sentence = f"{self.status}: {verdict.evidence[0].message}" if verdict.evidence else self.status
            entry = self._entry(_outcome_of(verdict.status), sentence, self.status)
            return replace(entry, close=_is_close(verdict))
        return replace(self._entry(passed, note), close=_is_close(verdict))

    def _entry(self, outcome: ProblemOutcome, sentence: str = "", reason: str | None = None) -> Entry:
        seconds = round(time.monotonic() - self.started, 1)
        return Entry(self.name, self.digest, outcome, sentence, reason, seconds, self.status)

    def _write(self, program: str) -> None:
        path = self.out / "kernels" / self.name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(program, encoding="utf-8")

    def _left(self) -> float:
        return max(1.0, self.limit_s - (time.monotonic() - self.started))

    def _is_over(self) -> bool:
        return time.monotonic() - self.started >= self.limit_s

    def _too_long(self) -> str:
        return f"it took more than {self.limit_s:.0f} s"


def _is_close(verdict: Verdict) -> bool | None:
    """Whether every output of every draw is right by KernelBench's rule; None where the verdict did not ask."""
    asked = [check.passed for check in verdict.checks if check.name == KERNELBENCH]
    return all(asked) if asked else None


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
