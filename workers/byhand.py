"""A door: one action on this machine, without a job: capture, compile, verify, bench, profile, tune, doctor."""

from __future__ import annotations

import ast
import contextlib
import functools
import itertools
import math
import re
import symtable
import sys
import threading
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path

from gpu_runner import peaks
from gpu_runner.contracts import (
    Action,
    BenchmarkRequest,
    BenchmarkResult,
    CandidateSource,
    CaptureRequest,
    CaptureResult,
    Composed,
    Dim,
    DoctorRequest,
    Evidence,
    GpuRequest,
    GpuResult,
    Graph,
    HostReport,
    Knob,
    Problem,
    ProfileRequest,
    ProfileResult,
    SourceFile,
    Status,
    TuneRequest,
    TuneResult,
    Verdict,
    VerifyRequest,
    Workload,
    from_json,
    to_json,
)
from gpu_runner.contracts import Pass as TimedPass
from gpu_runner.contracts.expressions import ExpressionError, evaluate_expression
from gpu_runner.contracts.problem import DTYPES
from gpu_runner.contracts.reading import CUTEDSL, CUTILE, TRITON, UNPARSABLE, language_of
from workers import problem_set
from workers.authors.kernelbench import model_new
from workers.authors.llm.protocol import KernelBrief
from workers.authors.protocol import AuthorRefusal, Brief, KernelPlan, Proposal, SourceStyle
from workers.calibration import Calibration, CalibrationTools, Trials
from workers.calibration import calibrate as calibrated
from workers.contracts import AuthorName, Failure, FailureCode, FileChange, UserFacingError
from workers.contracts.problem_set import Entry
from workers.fuse import run as fuse_run
from workers.fuse.part import Part, style_of
from workers.fuse.run import BY_COMPILER, Authors
from workers.gpu_host.execute import RunnerKilledError, execute
from workers.gpu_host.runner import INTERPRETER, LONGEST_S, Host, detect, scratch_folder
from workers.gpu_host.standby import Standby
from workers.layouts.liger.layout import known_problems
from workers.layouts.ruff import ruff_check
from workers.layouts.versioned.files import lacking
from workers.problem_set import MOST_ELEMENTS_INTERPRETED
from workers.settings import Settings, WrongSettingsError, load_settings
from workers.smaller import smaller
from workers.stages.headroom import counted, lines
from workers.stages.problem import parse
from workers.store.blobs import BlobStore
from workers.strategies.source import fingerprint
from workers.strategies.sweep import swept
from workers.stylecheck import check_style
from workers.tree import read_tarball
from workers.tuned_table import with_tuned

__all__ = [
    "Authors",
    "Calibration",
    "CompiledProblem",
    "RunnerAnswer",
    "Trials",
    "Tuned",
    "benchmark",
    "calibrate",
    "compile_problem",
    "doctor",
    "fuse",
    "profile",
    "suite",
    "tune",
    "verify",
]

SEED = re.compile("[0-9a-f]{32}")
WRITTEN_FOR = {TRITON: "gpu", CUTILE: "cutile", CUTEDSL: "cutedsl"}  # by language, the target of the compiler author
COMPILED_TO = tuple(WRITTEN_FOR.values())


@dataclass(frozen=True)
class CompiledProblem:
    """What the compiler author wrote for a problem, or the one sentence with which it refuses."""

    source: str | None
    plan: KernelPlan | None
    refusal: str | None
    operator: str | None = None  # what is refused
    elements: int = 0  # of the problem's inputs, at its largest size
    problem: Problem | None = None  # in the reference form
    note: str | None = None  # what the language's own compiler made of it
    graph: Graph | None = None
    smaller: str | None = (
        None  # the problem in its own form with at most ``MOST_ELEMENTS_JUDGED`` elements, where it has any
    )


@dataclass(frozen=True)
class Tuned:
    """The tuning's result, and the candidate's file with its table."""

    result: TuneResult
    source: str


@dataclass(frozen=True)
class RunnerAnswer:
    """A runner's result, read as what was asked for.

    Raises:
        UserFacingError: by each reading, where the environment is at fault.
    """

    result: GpuResult

    def verdict(self) -> Verdict:
        return from_json(Verdict, self._payload())

    def benchmark(self) -> BenchmarkResult:
        return from_json(BenchmarkResult, self._payload())

    def host(self) -> HostReport:
        return from_json(HostReport, self._payload())

    def profile(self) -> ProfileResult:
        return from_json(ProfileResult, self._payload())

    def tuned(self) -> TuneResult:
        return from_json(TuneResult, self._payload())

    def captured(self) -> CaptureResult:
        return from_json(CaptureResult, self._payload())

    def _payload(self) -> dict[str, object]:
        if self.result.payload is None:
            message = f"the runner could not {self.result.action.value}: {self.result.error}"
            raise UserFacingError(Failure(FailureCode.environment, message, "Run `kernelsmith doctor`."))
        return self.result.payload


def compile_problem(
    source: str, name: str, limit_s: float = LONGEST_S, target: str = "gpu", standby: Standby | None = None
) -> CompiledProblem:
    """Have the compiler author write a kernel for a problem, as one self-contained file that defines ``candidate``, and
    ``ModelNew`` where the problem is in the KernelBench form; ``limit_s``: the seconds that capture may take; ``standby`` has the
    runner for it, if any.

    Raises:
        UserFacingError: the problem cannot be used, there is no such target, the environment is at fault, or what was written
            is refused by the compiler of its language.
    """
    from workers.stages.compiling import compiled_for

    if target not in COMPILED_TO:
        fix = f"Targets: {', '.join(f'`{known}`' for known in COMPILED_TO)}."
        raise UserFacingError(Failure(FailureCode.refused, f"`compile` has no target `{target}`", fix))
    style = replace(_style(name), target=target)
    made = _proposed(source, name, limit_s=limit_s, style=style, standby=standby)
    problem, answer = made.problem, made.answer
    elements, graph = _elements(problem), made.graph
    if isinstance(answer, AuthorRefusal):
        return CompiledProblem(None, None, answer.sentence, answer.operator, elements, problem, graph=graph)
    note = compiled_for(target, problem, answer) if target != "gpu" else None
    return CompiledProblem(answer.source + made.tail, answer.plan, None, None, elements, problem, note, graph)


def suite(
    folder: Path, out: Path, jobs: int, limit_s: float, kernel_name: Callable[[Path], str], say: Callable[[str], None]
) -> list[Entry]:
    """Have the compiler author work through a folder of problems; see ``workers.problem_set``.

    Raises:
        UserFacingError: the folder has no problem, or a setting of the environment cannot be used.
    """
    if not problem_set.problems_in(folder):
        fix = "Name a folder of files that define `reference` or `class Model`, such as KernelBench's."
        raise UserFacingError(Failure(FailureCode.refused, f"{folder} has no problem", fix))
    has_gpu = (_settings().architecture or detect()) != INTERPRETER
    waiting = _Waiting()

    def compiled(source: str, name: str, left_s: float) -> problem_set.Compiled:
        attempt = compile_problem(source, name, left_s, standby=waiting.here())
        own = attempt.problem
        return problem_set.Compiled(
            attempt.source,
            attempt.refusal,
            attempt.operator,
            _compared(attempt) if has_gpu else attempt.elements,
            small=None if own is None else small_problem(own) if not has_gpu else _judged_in_place_of(source, attempt),
            reference=None if own is None or own.source == source else _at_sizes_of_a_verdict(attempt, own),
        )

    def judged(source: str, candidate: str, left_s: float) -> Verdict:
        request = VerifyRequest(source, _candidate(parse(source), candidate))
        return _run(Action.verify, request, limit_s=left_s, standby=waiting.here()).verdict()

    def measured(source: str, candidate: str, left_s: float) -> BenchmarkResult:
        budget_s = min(SUITE_BUDGET_S, left_s / 2)
        request = BenchmarkRequest(
            source, _candidate(parse(source), candidate), "float32", (TimedPass.forward,), budget_s=budget_s
        )
        return _run(Action.benchmark, request, limit_s=left_s, standby=waiting.here()).benchmark()

    def composed(source: str, run: Path, left_s: float) -> problem_set.Composition | str:
        made = fuse(source, run, 1, lambda _: None, limit_s=left_s)
        if made.verdict is None:
            reasons = [f"`{part.name}` is {part.reason}" for part in made.parts]
            return next(iter(reasons), "no part of it saves memory traffic")
        program = fuse_run.composed_path(run).read_text(encoding="utf-8")
        return problem_set.Composition(program, made.verdict, made.summary["calls"], made.summary["left_to_torch"])

    _interrupted.clear()
    tools = problem_set.SuiteTools(compiled, composed, judged, measured if has_gpu else None, _interrupted.set)
    with contextlib.closing(waiting):
        return problem_set.work_through(
            folder, out, tools, author="compiler", jobs=jobs, limit_s=limit_s, kernel_name=kernel_name, say=say
        )


class _Waiting:
    """A runner that waits for each thread: it imports torch while the one before it works."""

    def __init__(self) -> None:
        self._own, self._all = threading.local(), list[Standby]()

    def here(self) -> Standby:
        """That of this thread."""
        if not hasattr(self._own, "standby"):
            self._own.standby = Standby()
            self._all.append(self._own.standby)
        standby: Standby = self._own.standby
        return standby

    def close(self) -> None:
        """End all of them."""
        for standby in self._all:
            standby.close()


# On a GPU a verdict of a KernelBench problem compares each element with its truth on the host, in several runs of five draws; a
# problem in the reference form has cases of sizes of its own, and its workloads. What is timed is compared at the problem's own
# sizes, in rows that nobody knows before.
MOST_COMPARED, MOST_ELEMENTS_JUDGED = 2**21, 2**28


def _compared(attempt: CompiledProblem) -> int:
    own = attempt.problem
    sizes = [] if own is None else [dict(workload.sizes) for workload in own.workloads]
    return max((_compared_at(own, attempt.graph, each) for each in sizes), default=0) if own is not None else 0


def _at_sizes_of_a_verdict(attempt: CompiledProblem, own: Problem) -> str | None:
    return small_problem(own) if attempt.elements > MOST_ELEMENTS_JUDGED else own.source


def _judged_in_place_of(source: str, attempt: CompiledProblem) -> str | None:
    """The problem at smaller sizes where a verdict on a GPU takes long at its own; None where it does not, or has no other."""
    own = attempt.problem
    if own is None or own.source == source:
        return small_problem(own) if own is not None and attempt.elements > MOST_ELEMENTS_JUDGED else None
    if _compared(attempt) <= MOST_COMPARED:
        return None
    return smaller(source, own, functools.partial(_compared_at, own, attempt.graph), MOST_COMPARED)


SUITE_BUDGET_S = 20.0  # for one pass of one workload
SMALL_SIZES = (24, 36, 16, 28, 20, 12)  # of dimensions in the order of their names; a verdict draws odd ones too


def small_problem(problem: Problem) -> str | None:
    """A problem in the reference form with one small workload; None where what is fixed in it is large already."""
    names = dict(zip(problem.dimensions, itertools.cycle(SMALL_SIZES)))
    own = [dict(workload.sizes) for workload in problem.workloads]
    sizes = {name: min(size, *(given.get(name, size) for given in own)) for name, size in names.items()}
    if not own or _elements(replace(problem, workloads=(Workload(tuple(sizes.items())),))) > MOST_ELEMENTS_INTERPRETED:
        return None
    lines, scalars = problem.source.splitlines(), dict(problem.workloads[0].scalars)
    for node in ast.parse(problem.source).body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and node.targets[0].id == "WORKLOADS":
            lines[node.lineno - 1 : node.end_lineno] = [f"WORKLOADS = [{sizes | scalars!r}]"]
            return "\n".join(lines) + "\n"
    return None


def _elements(problem: Problem) -> int:
    def of(workload: Workload) -> int:
        return sum(_count(spec.dims, dict(workload.sizes)) for spec in problem.inputs)

    return max((of(workload) for workload in problem.workloads), default=0)


def _count(dims: Sequence[str], sizes: Mapping[str, int]) -> int:
    return math.prod(int(d) if d.isdigit() else sizes[d] for d in dims)


def _compared_at(problem: Problem, graph: Graph | None, sizes: Mapping[str, int]) -> int:
    """The elements that a verdict compares: of inputs that are no parameters, and of outputs."""
    shapes = [node.meta.shape for node in graph.nodes if node.name in graph.outputs] if graph is not None else []
    inputs = sum(_count(spec.dims, sizes) for spec in problem.inputs if not spec.parameter)
    return inputs + sum(math.prod(_size(dim, sizes) for dim in shape) for shape in shapes)


def _size(dim: Dim, sizes: Mapping[str, int]) -> int:
    if isinstance(dim, int):
        return dim
    try:
        return int(evaluate_expression(dim.text, sizes))
    except ExpressionError:  # it depends on a scalar
        return 1


def fuse(
    source: str,
    out: Path,
    jobs: int,
    say: Callable[[str], None],
    *,
    fresh: bool = False,
    limit_s: float = math.inf,
    authors: Authors = BY_COMPILER,
) -> fuse_run.FuseResult:
    """Take a model apart, have its parts written, prove them and the whole; all of it goes to ``out``.
    ``limit_s``: the seconds that it may take.

    Raises:
        UserFacingError: the model cannot be fused, the environment is at fault, or a language model is wanted and there is none.
    """
    from workers.fuse.asking import asker

    end = time.monotonic() + limit_s

    def left() -> float:
        if time.monotonic() >= end:
            raise UserFacingError(Failure(FailureCode.environment, f"it took more than {limit_s:.0f} s"))
        return min(LONGEST_S, end - time.monotonic())

    def proposed(name: str, part: str) -> Proposal | AuthorRefusal:
        return _proposed(part, name, limit_s=left(), style=style_of(name)).answer

    def judged(problem: str, text: str, symbol: str, composed: Composed | None = None) -> Verdict:
        candidate = CandidateSource((SourceFile("candidate.py", text),), "candidate", symbol)
        request = VerifyRequest(problem, candidate, ("float32",), composed=composed)
        return _run(Action.verify, request, limit_s=left()).verdict()

    def proved(problem: str, text: str, symbol: str) -> Verdict:
        try:
            return judged(problem, text, symbol)
        except RunnerKilledError as killed:  # by lack of memory: a smaller part may do, so that the run goes on
            return Verdict(Status.out_of_memory, (Evidence("memory", str(killed)),))

    def brief(part: Part) -> KernelBrief | None:
        problem = parse(part.source)
        graph = _run(Action.capture, CaptureRequest(part.source), limit_s=left()).captured().graph
        if graph is None:
            return None
        return KernelBrief(
            part.name, "candidate.py", problem, graph, style_of(part.name), counted=lines(counted(problem, graph))
        )

    tools = fuse_run.Tools(
        lambda model: _run(Action.capture, CaptureRequest(model, whole=True), limit_s=left()).captured(),
        proposed,
        proved,
        judged,
        say,
        version("kernelsmith"),
        authors,
        functools.cache(brief),
        asker(authors, _settings(), out / "orchestrator" / "models.jsonl", fresh=fresh),
    )
    parse(source)
    return fuse_run.fuse(source, out, tools, jobs=jobs, fresh=fresh)


def tune(problem_source: str, candidate_source: str, budget_s: float) -> Tuned:
    """Tune one candidate file on this machine and write the table into it; without a GPU it is unchanged.

    A file of the compiler author is compiled again with all its settings open. Any other file has its launches opened.

    Raises:
        UserFacingError: the candidate launches nothing whose settings could be tuned, or the environment is at fault.
    """
    opened, knobs = _opened(problem_source, candidate_source)
    candidate = _candidate(parse(problem_source), opened)
    result = _run(Action.tune, TuneRequest(problem_source, candidate, knobs, budget_s=budget_s)).tuned()
    if result.architecture is None or not any(choice.settings for choice in result.choices):
        return Tuned(result, candidate_source)
    passes = tuple((timed_pass.value, entries) for timed_pass, entries in result.table)
    return Tuned(result, with_tuned(opened, ((result.architecture, passes),)))


def _opened(problem_source: str, candidate_source: str) -> tuple[str, tuple[Knob, ...]]:
    classes = [node.name for node in ast.walk(_syntax(candidate_source)) if isinstance(node, ast.ClassDef)]
    for name in (
        _snake(class_name.removesuffix("Function")) for class_name in classes if class_name.endswith("Function")
    ):
        style = replace(_style(name), target=WRITTEN_FOR[language_of([candidate_source])])
        made = _proposed(problem_source, name, style=style)
        plain = made.answer
        if isinstance(plain, Proposal) and fingerprint(plain.source + made.tail) == fingerprint(candidate_source):
            tunable = _proposed(problem_source, name, style=replace(style, tunable=True)).answer
            assert isinstance(tunable, Proposal), "what is written closed can be written open"
            return tunable.source + made.tail, tunable.knobs
    sweep = swept(candidate_source)
    if sweep is None:
        message = "the candidate launches no kernel of its own whose settings could be looked up"
        fix = "Its launches need settings such as num_warps that are no part of what it computes."
        raise UserFacingError(Failure(FailureCode.refused, message, fix))
    return sweep


def _syntax(source: str) -> ast.Module:
    try:
        return ast.parse(source)
    except UNPARSABLE as error:
        message = f"the candidate cannot be read: {getattr(error, 'msg', error)}"
        raise UserFacingError(Failure(FailureCode.refused, message, line=getattr(error, "lineno", None))) from error


@dataclass(frozen=True)
class _Proposed:
    """What the compiler author answers to a problem in the reference form; ``tail``: what a KernelBench problem needs behind it."""

    problem: Problem
    graph: Graph
    answer: Proposal | AuthorRefusal
    tail: str


def _proposed(
    source: str,
    name: str,
    *,
    limit_s: float = LONGEST_S,
    style: SourceStyle | None = None,
    standby: Standby | None = None,
) -> _Proposed:
    """Ask the compiler author for one self-contained file.

    Raises:
        UserFacingError: the problem cannot be used, or the environment is at fault.
    """
    from workers.authors.table import author_named

    problem = parse(source)
    captured = _run(Action.capture, CaptureRequest(source), limit_s=limit_s, standby=standby).captured()
    if captured.error is not None or captured.graph is None:
        message = f"the problem does not run: {captured.error}"
        raise UserFacingError(Failure(FailureCode.problem, message, captured.fix, captured.line))
    rewritten = parse(captured.problem_source) if captured.problem_source else None
    style = style or _style(name)
    answer = author_named(AuthorName.compiler).propose(Brief(name, rewritten or problem, captured.graph, style))
    tail = model_new(rewritten) if problem.form == "kernelbench" and rewritten is not None else ""
    return _Proposed(rewritten or problem, captured.graph, answer, tail)


def _style(name: str) -> SourceStyle:
    """One self-contained file."""
    return SourceStyle(f"{_camel(name)}Function", f"{name}_forward", f"{name}_backward", entry="candidate")


def verify(problem_source: str, candidate_source: str, seed: str | None = None) -> RunnerAnswer:
    """Have one candidate file judged on this machine; ``seed``: that of an earlier verdict, which is repeated.

    Raises:
        UserFacingError: the problem cannot be used, or the seed is none.
    """
    if seed is not None and not SEED.fullmatch(seed):
        message = "a seed has 32 hexadecimal digits"
        raise UserFacingError(Failure(FailureCode.refused, message, "Give the one that the verdict shows."))
    problem = parse(problem_source)
    # On the runner's command line alone: no request has a field for it, so no job can choose what is drawn.
    options = () if seed is None else ("--seed", seed)
    return _run(Action.verify, VerifyRequest(problem_source, _candidate(problem, candidate_source)), options)


def benchmark(problem_source: str, candidate_source: str, budget_s: float, dtype: str, compiled: bool) -> RunnerAnswer:
    """Measure one candidate file on this machine, ``compiled`` or not, against eager and ``torch.compile``.

    Raises:
        UserFacingError: the problem, the candidate or the dtype cannot be used.
    """
    if dtype not in DTYPES:
        fix = f"Known: {', '.join(DTYPES)}."
        raise UserFacingError(Failure(FailureCode.refused, f"nothing is measured in {dtype!r}", fix))
    candidate = _candidate(parse(problem_source), candidate_source)
    request = BenchmarkRequest(problem_source, candidate, dtype=dtype, budget_s=budget_s, compiled=compiled)
    return _run(Action.benchmark, request)


def profile(problem_source: str, candidate_source: str, gpu: str | None) -> RunnerAnswer:
    """Have one candidate file profiled: by the roofline of this machine's GPU or of the named one, and by counters where it can."""
    if gpu is not None and peaks.find(gpu) is None:
        fix = f"Known: {', '.join(peaks.GPUS)}."
        raise UserFacingError(Failure(FailureCode.refused, f"no GPU {gpu!r} is known", fix))
    candidate = _candidate(parse(problem_source), candidate_source)
    return _run(Action.profile, ProfileRequest(problem_source, candidate, gpu=gpu))


def calibrate(problems: Sequence[tuple[str, str]], trials: Trials, say: Callable[[str], None]) -> Calibration:
    """How far this machine's times can be trusted; ``problems`` are names and sources, none: those that are known of libraries.

    Raises:
        UserFacingError: the environment is at fault.
    """

    def write(source: str, name: str) -> str:
        compiled = compile_problem(source, name)
        if compiled.source is None:
            raise LookupError(compiled.refusal)
        return compiled.source

    tools = CalibrationTools(write, lambda request: _run(Action.benchmark, request).benchmark(), say)
    return calibrated(problems or tuple(known_problems().items()), trials, tools)


def doctor(quick: bool, *, npu: bool = False) -> RunnerAnswer:
    """Examine this machine and its isolation, and what it lacks for an NPU's kernels."""
    return _run(Action.doctor, DoctorRequest(quick, npu))


def _candidate(problem: Problem, source: str) -> CandidateSource:
    symbol = "ModelNew" if problem.form == "kernelbench" else "candidate"
    if not _binds(source, symbol):
        fix = f"Name what is called with the reference's arguments `{symbol}`, as `kernelsmith compile` does."
        raise UserFacingError(Failure(FailureCode.refused, f"the candidate has no `{symbol}`", fix))
    return CandidateSource((SourceFile("candidate.py", source),), "candidate", symbol)


def _binds(source: str, name: str) -> bool:
    """Whether a module binds a name; True for what cannot be parsed, of which the runner says where."""
    try:
        symbols = symtable.symtable(source, "candidate.py", "exec").get_symbols()
    except UNPARSABLE:
        return True
    return any(symbol.get_name() == name and (symbol.is_assigned() or symbol.is_imported()) for symbol in symbols)


_interrupted = threading.Event()  # a person has ended a run that works in several threads


def _run(
    action: Action,
    payload: object,
    options: tuple[str, ...] = (),
    limit_s: float = LONGEST_S,
    standby: Standby | None = None,
) -> RunnerAnswer:
    settings = _settings()
    architecture = settings.architecture or detect()
    command = (sys.executable, "-m", "gpu_runner", *options)
    host = Host("this machine", command, architecture == INTERPRETER, min(limit_s, LONGEST_S))
    request = GpuRequest(uuid.uuid4().hex, action, to_json(payload), require=settings.require_isolation)
    with scratch_folder() as folder:
        return RunnerAnswer(execute(host, request, {}, BlobStore(str(folder)), _interrupted.is_set, standby))


def _settings() -> Settings:
    try:
        return load_settings()
    except WrongSettingsError as error:
        raise UserFacingError(Failure(FailureCode.refused, str(error))) from error


def _snake(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()


def _camel(name: str) -> str:
    return "".join(part.capitalize() for part in name.split("_"))


def starting_changes(snapshot: bytes, package: str | None) -> tuple[FileChange, ...]:
    """What a repository lacks of the layout `versioned`, as its own formatter leaves it.

    Raises:
        UserFacingError: no package is named that can be imported, or the repository's formatter is not installed.
    """
    tree = read_tarball(snapshot)
    changes = lacking(package, tree)
    _, fixes = check_style(ruff_check(changes, tree), tree, changes)
    fixed = {change.path: change.text for change in fixes}
    return tuple(replace(change, text=fixed.get(change.path, change.text)) for change in changes)
