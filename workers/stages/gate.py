"""The gate of every kernel: style, then the library's tests, then a verdict, then timing. The only place that asks a runner."""

from __future__ import annotations

import base64
import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import PurePosixPath
from typing import Any

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from gpu_runner.contracts import (
    PRINTED,
    Action,
    BenchmarkRequest,
    BenchmarkResult,
    CandidateSource,
    CaptureRequest,
    CaptureResult,
    CaseOutcome,
    Composed,
    DoctorRequest,
    GpuResult,
    HostReport,
    Knob,
    Multiple,
    Problem,
    ProfileRequest,
    ProfileResult,
    RaceLength,
    RecordRequest,
    RecordResult,
    SourceFile,
    Status,
    TestCase,
    TestsRequest,
    TestsResult,
    TuneRequest,
    TuneResult,
    Verdict,
    VerifyRequest,
    Workload,
    from_json,
    to_json,
)
from workers.authors.llm.failures import MAX_EVIDENCE, MAX_LOG, evidence_line
from workers.contracts import (
    Failure,
    FailureCode,
    FileChange,
    StyleOutcome,
    UserFacingError,
)
from workers.engine.protocol import StageContext
from workers.layouts.import_graph import Needs, is_own
from workers.layouts.protocol import ExistingKernel, Layout, SuiteRun
from workers.stylecheck import check_style
from workers.tree import Tree

SNAPSHOT_FILE = "tree.tar.gz"  # the repository, next to a request
ORIGINAL_ALONE = ("original",)  # the contenders of a run that asks for nothing but the comparison

# Budgets of a run that times. Units: seconds.
START_S = 25.0  # until every contender has imported the library; the rest is for measuring
TIMED_S = 9.0  # a size, with eager and torch.compile
PAIRED_S = 4.0  # a size, against the original alone
TUNED_S = 9.0  # a size
PROFILE_BUDGET_S = 60.0
MOST_KERNELS = 12  # of one comparison of two commits

NO_GPU = Failure(
    FailureCode.environment,
    "the GPU host that took this has no GPU, so that nothing can be timed",
    "Start `kernelsmith work --only gpu` on a host with a GPU; where there are several kinds of hosts, name one with `--gpu`. "
    "Then `/kernel retry`.",
)

# These say nothing about the candidate: no other one would do better.
ENDING = (Status.environment_error, Status.degenerate_problem)
MOST_FAILING = 20


@dataclass(frozen=True)
class Captured:
    """What tracing a problem gave, and the facts of the host that did it."""

    result: CaptureResult
    host: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Gate:
    """Asks a runner for a job. ``files`` are digests by the names that they have next to a request.

    ``lasting`` answers serve the next attempt of the stage too. ``gpu_uuid`` names the one GPU that answers; None: any.
    ``seconds`` is what hosts needed, by key, the same in each run.
    """

    context: StageContext
    files: Mapping[str, str]
    seconds: dict[str, float] = field(default_factory=dict)
    gpu_uuid: str | None = None

    def capture(self, key: str, source: str, *, lasting: bool = False, whole: bool = False) -> Captured:
        """Trace a problem; ``whole``: the forward of a model, in torch's own operators.

        Raises:
            UserFacingError: the GPU host failed, here as in all that follows.
        """
        result = self._ask(key, CaptureRequest(source, whole=whole), Action.capture, {}, lasting)
        return Captured(from_json(CaptureResult, _payload(result)), result.host)

    def style(
        self, key: str, layout: Layout, tree: Tree, changes: tuple[FileChange, ...]
    ) -> tuple[tuple[FileChange, ...], StyleOutcome]:
        """Changes as the target's own formatter and linter leave them, with their outcome.

        Raises:
            UserFacingError: a tool of the style check is missing, or the target's configuration cannot be used.
        """

        def check() -> Any:
            outcome, fixes = check_style(layout.style_check(changes, tree), tree, changes)
            return {"outcome": to_json(outcome), "fixes": to_json(fixes)}

        stored = self.context.memo(key, check)
        fixed = {form["path"]: from_json(FileChange, form) for form in stored["fixes"]}
        return tuple(fixed.get(change.path, change) for change in changes), from_json(StyleOutcome, stored["outcome"])

    def tests(
        self, key: str, suite: SuiteRun, changes: tuple[FileChange, ...] = (), *, lasting: bool = False
    ) -> TestsResult:
        """Run tests, or a benchmark script, of the target with changed files laid over its snapshot."""
        files = tuple(SourceFile(change.path, change.text) for change in changes if change.text is not None)
        request = TestsRequest(
            SNAPSHOT_FILE,
            files + suite.support,
            suite.module,
            suite.arguments,
            suite.import_roots,
            suite.collect,
            suite.pictures,
        )
        return from_json(TestsResult, _payload(self._ask(key, request, Action.tests, self.files, lasting)))

    def verify(
        self,
        key: str,
        problem: Problem,
        candidate: CandidateSource,
        *,
        original: CandidateSource | None = None,
        multiples: tuple[Multiple, ...] = (),
        quick: bool = False,
        lasting: bool = True,
        more: Mapping[str, str] | None = None,
        dtypes: tuple[str, ...] = (),
        composed: Composed | None = None,
    ) -> Verdict:
        """The runner's verdict on a kernel, or on a program of proved parts, whatever it is."""
        request = VerifyRequest(
            problem.source, candidate, dtypes, quick=quick, original=original, multiples=multiples, composed=composed
        )
        return from_json(Verdict, _payload(self._ask(key, request, Action.verify, self._with(more), lasting)))

    def benchmark(
        self,
        key: str,
        problem: Problem,
        candidate: CandidateSource,
        *,
        workloads: tuple[Workload, ...] = (),
        budget_s: float = BenchmarkRequest.budget_s,
        original: CandidateSource | None = None,
        contenders: tuple[str, ...] = (),
        existing: bool = False,
        lasting: bool = True,
        more: Mapping[str, str] | None = None,
        lengths: tuple[RaceLength, ...] = (),
        whole: bool = False,
        compiled: bool = False,
    ) -> BenchmarkResult:
        """The times of a kernel; ``existing``: it is the repository's own, and keeps its time where its values are off.

        ``whole``: sizes for which the budget had no time, as on a host that is slow to start, are timed in further runs.
        ``compiled``: the kernel runs under ``torch.compile``.
        """
        request = BenchmarkRequest(
            problem.source,
            candidate,
            workloads=workloads,
            budget_s=budget_s,
            original=original,
            contenders=contenders,
            standing=existing,
            lengths=lengths,
            compiled=compiled,
        )
        result = self._timed(key, request, more, lasting)
        while whole and result.untimed:
            try:
                rest = self._timed(
                    f"{key}-{len(result.rows)}", replace(request, workloads=result.untimed), more, lasting
                )
            except UserFacingError:
                break  # what was timed before stands
            if len(rest.untimed) >= len(result.untimed):
                break
            notes = tuple(dict.fromkeys((*result.notes, *rest.notes)))
            result = replace(rest, rows=(*result.rows, *rest.rows), notes=notes)
        return result

    def _timed(
        self, key: str, request: BenchmarkRequest, more: Mapping[str, str] | None, lasting: bool
    ) -> BenchmarkResult:
        return from_json(
            BenchmarkResult, _payload(self._ask(key, request, Action.benchmark, self._with(more), lasting))
        )

    def tune(
        self,
        key: str,
        problem: Problem,
        candidate: CandidateSource,
        knobs: tuple[Knob, ...],
        workloads: tuple[Workload, ...],
        module: str,
    ) -> TuneResult:
        """The fastest settings of a kernel, by size."""
        budget_s = timing_budget_s(len(workloads), TUNED_S)
        request = TuneRequest(problem.source, candidate, knobs, workloads=workloads, budget_s=budget_s, module=module)
        return from_json(TuneResult, _payload(self._ask(key, request, Action.tune, self.files, lasting=True)))

    def profile(self, problem: Problem, candidate: CandidateSource, workload: Workload) -> ProfileResult:
        """What bounds a kernel at one size; Nsight Compute's own table is kept as the artifact ``ncu.csv``."""
        self.context.note("profiling it")
        gpu = self.context.request.options.gpu
        request = ProfileRequest(problem.source, candidate, workloads=(workload,), gpu=gpu, budget_s=PROFILE_BUDGET_S)
        result = from_json(
            ProfileResult, _payload(self._ask("profile", request, Action.profile, self.files, lasting=True))
        )
        if result.counters_csv:
            self.context.artifact("ncu.csv", result.counters_csv.encode(), "text/csv")
        return replace(result, counters_csv="")

    def record(self, request: RecordRequest) -> RecordResult:
        """The calls that the library's benchmark script makes."""
        return from_json(RecordResult, _payload(self._ask("record", request, Action.record, self.files, lasting=True)))

    def host(self) -> tuple[HostReport, tuple[tuple[str, str], ...]]:
        """What a GPU host can do, and its facts."""
        key = "host" if self.gpu_uuid is None else f"host-{self.gpu_uuid}"
        result = self._ask(key, DoctorRequest(quick=True), Action.doctor, {}, lasting=True)
        return from_json(HostReport, _payload(result)), result.host

    def _with(self, more: Mapping[str, str] | None) -> Mapping[str, str]:
        return self.files if more is None else {**self.files, **more}

    def _ask(self, key: str, request: object, action: Action, files: Mapping[str, str], lasting: bool) -> GpuResult:
        result = self.context.gpu(key, request, action, files, lasting=lasting, gpu_uuid=self.gpu_uuid)
        self.seconds[key] = result.duration_s
        return result


def timing_budget_s(sizes: int, each_s: float = TIMED_S) -> float:
    """The seconds within which a run times so many sizes."""
    return START_S + each_s * sizes


def _payload(result: GpuResult) -> dict[str, Any]:
    """A runner's payload.

    Raises:
        UserFacingError: the runner or its host failed, not what it judged.
    """
    if result.error is not None or result.payload is None:
        error, _, printed = (result.error or "it gave no result").partition(PRINTED)
        message = f"the GPU host could not {DOING[result.action]}: {error}"
        fix = "An operator should run `kernelsmith doctor` on that host; then `/kernel retry` goes on from here."
        raise UserFacingError(Failure(FailureCode.environment, message, fix, log=printed or None))
    return result.payload


DOING: dict[Action, str] = {
    Action.capture: "trace the problem",
    Action.verify: "prove the candidate",
    Action.benchmark: "measure the candidate",
    Action.profile: "profile the kernel",
    Action.tune: "tune the kernel",
    Action.record: "read the sizes of the library's benchmark script",
    Action.tests: "run the library's own checks",
    Action.doctor: "say what it can do",
}


# The words of a verdict.


def verdict_failure(verdict: Verdict, author: str) -> Failure:
    """Why a candidate did not pass."""
    first = verdict.evidence[0] if verdict.evidence else None
    reason = f": {first.message}" if first else ""
    place = f" ({first.workload})" if first and first.workload else ""
    rule = f" [{verdict.rule}]" if verdict.rule else ""
    message = f"the {author} author's kernel did not pass, status `{verdict.status.value}`{rule}{reason}{place}"
    if verdict.status is Status.degenerate_problem:
        fix = "A trivial answer passes on this problem: make the output depend on every input."
    else:
        fix = "Nothing was pushed; a new `/kernel create` takes another problem."
    parts = [part for item in verdict.evidence[:MAX_EVIDENCE] for part in (evidence_line(item), item.log) if part]
    if first and first.workload and verdict.seed:
        parts.append(f"The verdict's seed: {verdict.seed}")
    return Failure(FailureCode.verdict, message, fix, first.line if first else None, "\n".join(parts) or None)


# The library's own tests, benchmark script and visualizer.

MOST_TROUBLE = 200
MOST_SCRIPTS_S = 600.0  # in one stage, for v0 and the variants; the winner's run comes on top
SCRIPT = "-script"
NO_ROWS = "The library's own benchmark script gave no rows: {}."
PLOTS = "The library's own plots of these rows are among the job's artifacts: {}."
NO_PLOTS = "The library's own visualizer did not draw everything: {}"


def run_script(
    gate: Gate,
    kernel: ExistingKernel,
    layout: Layout,
    tree: Tree,
    changes: tuple[FileChange, ...],
    measured: BenchmarkResult,
) -> tuple[TestsResult | None, tuple[FileChange, ...]]:
    """Run the library's benchmark script on a changed kernel, and give the benchmark data with its rows; without a GPU neither."""
    if measured.predicted or kernel.script is None:
        return None, ()
    gate.context.note("running the library's own benchmark script")
    script = gate.tests("script", layout.script_of(kernel, tree), changes, lasting=True)
    return script, layout.existing_data(kernel, script.collected, tree) if script.passed else ()


def script_rows(
    gate: Gate, name: str, kernel: ExistingKernel, layout: Layout, tree: Tree, changes: tuple[FileChange, ...] = ()
) -> str:
    """Run the library's benchmark script on v0 or a variant, and keep the kernel's rows as the artifact ``NAME_script.csv``.

    Why there are none, for the notes; empty where there are, or where the stage's time for scripts is used up.
    """
    if kernel.script is None or sum(s for key, s in gate.seconds.items() if key.endswith(SCRIPT)) >= MOST_SCRIPTS_S:
        return ""
    gate.context.note(f"{name}: running the library's own benchmark script")
    try:
        ran = gate.tests(f"{name}{SCRIPT}", layout.script_of(kernel, tree), changes, lasting=True)
    except UserFacingError as error:  # its rows are evidence besides the benchmark, and no reason to stop
        return NO_ROWS.format(error.failure.message)
    data = layout.existing_data(kernel, ran.collected, tree) if ran.passed else ()
    if not data:
        return NO_ROWS.format(ran.summary)
    known = frozenset((tree.read(data[0].path) or "").splitlines())
    header, *rows = (data[0].text or "").splitlines()
    kept = "\n".join((header, *(row for row in rows if row not in known), ""))
    gate.context.artifact(f"{name}_script.csv", kept.encode(), "text/csv")
    return ""


def library_plots(gate: Gate, layout: Layout, tree: Tree, data: tuple[FileChange, ...]) -> tuple[str, ...]:
    """Have the library's own visualizer draw the rows that its benchmark script wrote, and keep its pictures as artifacts.

    The report's notes on it: the pictures, or why there are none. Nothing fails for the want of them.
    """
    runs = layout.plots_of(data, tree)
    if runs:
        gate.context.note("running the library's own visualizer")
    drawn, trouble = list[str](), list[str]()
    for number, suite in enumerate(runs, 1):
        try:
            result = gate.tests(f"visualizer-{number}", suite, lasting=True)
        except UserFacingError as error:
            trouble.append(error.failure.message)
            continue
        if not result.passed or not result.pictures:
            trouble.append(_why_undrawn(result)[:MOST_TROUBLE])
        for picture in result.pictures:
            name = PurePosixPath(picture.path).name
            gate.context.artifact(name, base64.b64decode(picture.base64), "image/png")
            drawn.append(f"`{name}`")
        if result.exit_code is None:
            break  # it hangs, and would again on the other rows
    notes = [PLOTS.format(", ".join(drawn))] if drawn else []
    return (*notes, *(NO_PLOTS.format(reason) for reason in dict.fromkeys(trouble)))


def _why_undrawn(result: TestsResult) -> str:
    if result.exit_code is None:
        return result.summary
    return "it wrote no picture" if result.passed else (result.log.strip().splitlines() or [result.summary])[-1]


def failed_nodes(tests: TestsResult) -> frozenset[str]:
    """The node ids of the tests that did not pass."""
    return frozenset(c.node for c in tests.cases if c.outcome in (CaseOutcome.failed, CaseOutcome.error))


def failing(tests: TestsResult) -> str:
    """The failing tests with their messages, or the end of the log where no test could be read."""
    bad = [case for case in tests.cases if case.outcome in (CaseOutcome.failed, CaseOutcome.error)]
    lines = [f"{case.node}: {case.message or case.outcome.value}" for case in bad[:MOST_FAILING]]
    more = [f"and {len(bad) - MOST_FAILING} more"] if len(bad) > MOST_FAILING else []
    return "\n".join([*lines, *more]) if bad else tests.log[-MAX_LOG:]


# Before a job writes anything: whether the GPU host can import what the tests need that its result will have to pass.

PACKAGE = "package:"
MOST_NAMED = 12
ABSENT = "No module named"
LACKING = "the GPU host cannot import what the tests of `{}` need: {}"
INSTALL = "On that host, in the Python environment of its GPU worker: `pip install {}`."
OTHERS = "What `{}` needs comes with the library's own set-up for development: `pip install -e '.[dev]'` in a checkout of it."
NO_EXTRA = "The library has no extra `dev` that says which packages hold `{}`: install there what its tests need."
LEFT_OVER = "Of the library's dev extra these are not there either, and these tests do not import them: {}."
RETRY = "Then `/kernel retry` goes on."


def check_host(gate: Gate, needs: Needs, tree: Tree, kernel: str, stood_in: tuple[str, ...] = ()) -> None:
    """Import on the GPU host what a kernel's test file imports, and look for the packages of the library's dev extra.

    A package that the test file does not import is no reason to refuse, and neither is an existing module that raises: the
    tests show that better. Nor are those that the runner stands in for without a GPU (``stood_in``).

    Raises:
        UserFacingError: an import is not possible there; or the GPU host failed.
    """
    gate.context.note("looking whether the GPU host can import what the library's tests need")
    dev = _requirements(needs.dev)
    wanted = (*needs.modules, *(f"{PACKAGE}{name}" for name in dev))
    # Not lasting: what was missing may have been installed since.
    result = gate.tests("environment", SuiteRun("imports", wanted, needs.roots))
    bad = [case for case in result.cases if case.outcome is CaseOutcome.failed and case.node in wanted]
    failed = [case for case in bad if not case.node.startswith(PACKAGE)]
    failed = [case for case in failed if not is_own(_parts(case)[0], tree, needs.roots)]
    failed = [case for case in failed if _parts(case)[0].partition(".")[0] not in stood_in]
    if failed:
        absent = [case.node.removeprefix(PACKAGE) for case in bad if case.node.startswith(PACKAGE)]
        raise UserFacingError(_missing(kernel, failed, dev, absent))


def _requirements(dev: Iterable[str]) -> dict[str, Requirement]:
    """Those that hold for this Python and system, by their normalized name."""
    named = dict[str, Requirement]()
    for text in dev:
        try:
            requirement = Requirement(text)
        except InvalidRequirement:
            continue
        if requirement.marker is None or requirement.marker.evaluate():
            named[canonicalize_name(requirement.name)] = requirement
    return named


def _missing(kernel: str, failed: list[TestCase], dev: dict[str, Requirement], absent: list[str]) -> Failure:
    named = list(dict.fromkeys(_named(case) for case in failed))
    more = f" and {len(named) - MOST_NAMED} more" if len(named) > MOST_NAMED else ""
    message = LACKING.format(kernel, ", ".join(named[:MOST_NAMED]) + more)
    tops = list(dict.fromkeys(_parts(case)[0].partition(".")[0] for case in failed))
    listed = [name for name in map(canonicalize_name, tops) if name in dev]
    unlisted = [top for top in tops if canonicalize_name(top) not in dev]
    fix = [INSTALL.format(shlex.join(str(dev[name]) for name in listed))] if listed else []
    fix += [(OTHERS if dev else NO_EXTRA).format("`, `".join(unlisted[:MOST_NAMED]))] if unlisted else []
    left = [f"`{name}`" for name in absent if name not in listed]
    fix += [LEFT_OVER.format(", ".join(left[:MOST_NAMED]))] if left else []
    return Failure(FailureCode.environment, message, " ".join([*fix, RETRY]))


def _named(case: TestCase) -> str:
    module, text = _parts(case)
    if text.startswith(ABSENT):
        return f"`{module}`" if module == case.node else f"`{module}` (which `{case.node}` imports)"
    return f"`{case.node}` ({text})"


def _parts(case: TestCase) -> tuple[str, str]:
    """The module that an import lacked, and Python's error."""
    module, _, text = (case.message or "").partition(": ")
    return module, text
