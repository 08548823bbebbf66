"""Fuse: a model is traced, cut into parts, each part proved, and a program composed of them that is judged as a whole."""

from __future__ import annotations

import ast
import json
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import PurePosixPath
from typing import Any

from gpu_runner.contracts import (
    CandidateSource,
    CaptureResult,
    CaseOutcome,
    Composed,
    SourceFile,
    Status,
    Verdict,
    from_json,
    to_json,
)
from gpu_runner.contracts.reading import UNPARSABLE
from workers.authors.llm.failures import failed_verdict
from workers.authors.llm.protocol import KernelAnswer, KernelBrief
from workers.authors.protocol import AuthorRefusal, Brief
from workers.authors.table import author_named
from workers.contracts import (
    AssetsUpdate,
    AuthorName,
    CheckpointUpdate,
    CommitPurpose,
    CommitUpdate,
    Failure,
    FailureCode,
    FileChange,
    FusedPart,
    FuseSummary,
    KeptOperator,
    ProblemKind,
    ProblemText,
    PullRequestUpdate,
    ReadyUpdate,
    StageName,
    StyleOutcome,
    UserFacingError,
)
from workers.engine.protocol import StageContext, StageResult
from workers.engine.questions import NO_MODEL
from workers.fuse.cut import Cut, cut, cut_again, divided, simpler
from workers.fuse.operators import packet_of
from workers.fuse.pages import picture, subgraphs, totals
from workers.fuse.part import Part, moves_more, style_of
from workers.fuse.program import (
    ENTRY,
    claims,
    composed_of,
    cut_failure,
    first_failing,
    moved,
    refactored,
    torch_anywhere,
    why,
)
from workers.fuse.review import revised
from workers.fuse.route import route
from workers.fuse.suite import suite_source
from workers.fuse.traced import Traced, traced_of
from workers.layouts.existing import suite_roots
from workers.layouts.naming import check_name, existing_failure, import_name
from workers.layouts.protocol import FusedHome, Layout, SuiteRun
from workers.reports.plots import draw_plots
from workers.reports.provenance import provenance
from workers.stages.bench import (
    Bench,
    changes_from_json,
    keep_json,
    layout_for,
    only_new,
    open_bench,
    own_result,
)
from workers.stages.briefs import HEARD, new_points
from workers.stages.figures import hardware
from workers.stages.gate import ENDING, check_host, timing_budget_s, verdict_failure
from workers.stages.headroom import counted, lines
from workers.stages.problem import parse, problem_source
from workers.stages.search import AttemptLog, Judged, SearchQuestion
from workers.stages.writing import GIVES_WAY, MODEL, ModuleSearch, fell, terms_of
from workers.tree import Tree

FILE = "candidate.py"
TEST = "test_values_and_gradients"
REPRODUCE = "kernelsmith fuse model.py --out run"
NOT_PUSHED = "No program was pushed. `/kernel retry` tries again; a new `/kernel fuse` takes another model."
NOTHING_TO_GAIN = Failure(
    FailureCode.refused,
    "no part of the model saves memory traffic as its own kernel, so there is nothing to gain",
    "The job's `subgraphs.json` lists what stays with torch, and why.",
)


@dataclass(frozen=True)
class ProvedPart:
    """A model's file of a part, with the verdict on it."""

    source: str
    verdict: Verdict


@dataclass(frozen=True)
class FuseSubject:
    """What is fused, and where it goes."""

    name: str
    source: str
    layout: Layout
    home: FusedHome


def fuse_subject(name: str, given: ProblemText, tree: Tree, layout: str | None) -> FuseSubject:
    """Read a fuse command against its repository, running nothing.

    Raises:
        UserFacingError: it cannot be carried out.
    """
    source, chosen = model_source(given, tree), layout_for(layout, tree)
    parse(source)
    check_name(name)
    home = chosen.fused(name, tree)
    for path in (home.folder, home.suite):
        if tree.exists(path):
            raise existing_failure(name, path)
    return FuseSubject(name, source, chosen, home)


def model_source(given: ProblemText, tree: Tree) -> str:
    """The model as a file that stands alone; a class that a file makes inputs for is its ``Model``.

    Raises:
        UserFacingError: there is none.
    """
    text = tree.read(given.path or "") if given.kind is ProblemKind.path else None
    if text is None or given.symbol in (None, "Model", "reference"):
        return problem_source(given, tree)
    try:
        known = {node.name for node in ast.parse(text).body if isinstance(node, ast.FunctionDef | ast.ClassDef)}
    except UNPARSABLE:
        known = set()
    if not {given.symbol, "get_inputs"} <= known or "Model" in known:
        return problem_source(given, tree)
    return f'{text.rstrip()}\n\n\nclass Model({given.symbol}):\n    """The model that is fused."""\n'


class Route:
    """The first stage of ``fuse``."""

    name = StageName.route

    def run(self, context: StageContext) -> StageResult:
        """The traced model, and what it consists of."""
        context.note("reading the repository")
        bench, request = open_bench(context), context.request
        subject = fuse_subject(request.kernel, request.problem, bench.tree, request.options.layout)
        if request.options.author is AuthorName.llm and not bench.has_models():
            raise UserFacingError(NO_MODEL)
        check_host(bench.gate, subject.layout.needs_of(f"fused_{subject.name}", bench.tree), bench.tree, subject.name)
        context.note("tracing the model")
        captured = bench.gate.capture("model", subject.source, whole=True).result
        context.artifact("orchestrator/model.py", subject.source.encode(), "text/x-python")
        output = {
            "source": subject.source,
            "captured": to_json(captured),
            "route": list(route(traced_of(subject.source, captured))),
        }
        return StageResult(output)


@dataclass(frozen=True)
class FuseBench(Bench):
    """A model that is fused."""

    source: str
    traced: Traced
    route: tuple[str, ...]

    @cached_property
    def home(self) -> FusedHome:
        """Where it goes."""
        return self.layout.fused(self.context.request.kernel, self.tree)

    def captured(self, part: Part) -> CaptureResult:
        """A part as it was traced."""
        return self.gate.capture(f"part-{part.digest}", part.source, lasting=True).result

    def compiled(self, part: Part) -> tuple[str | None, str]:
        """A part's file and nothing, or None and why the compiler does not write it."""
        captured = self.captured(part)
        if captured.graph is None:
            return None, f"it does not run: {captured.error}"
        graph = captured.graph

        def ask() -> list[str | None]:
            brief = Brief(part.name, parse(part.source), graph, style_of(part.name))
            answer = author_named(AuthorName.compiler).propose(brief)
            if isinstance(answer, AuthorRefusal):
                return [None, answer.sentence]
            refusal = moves_more(part, answer.plan)
            return [None, refusal] if refusal else [answer.source, ""]

        source, refusal = self.context.memo(f"written-{part.digest}", ask)
        return source, refusal

    def compilers_refusal(self, part: Part) -> str | None:
        """Why the compiler does not write a part."""
        source, refusal = self.compiled(part)
        return refusal if source is None else None

    def refusal(self, part: Part) -> str | None:
        """Why nobody is asked to write a part."""
        if self.asks_models() and self.captured(part).graph is not None:
            return None
        return self.compilers_refusal(part)

    def written(self, part: Part) -> str | None:
        """A part's file; None where a model is to write it."""
        return None if self.context.request.options.author is AuthorName.llm else self.compiled(part)[0]

    def brief(self, part: Part) -> KernelBrief:
        """What a model is told of a part."""
        problem, graph = parse(part.source), self.captured(part).graph
        assert graph is not None, "a part that does not run is none"
        return KernelBrief(
            part.name,
            FILE,
            problem,
            graph,
            style_of(part.name),
            refused=None if self.context.request.options.author is AuthorName.llm else self.compilers_refusal(part),
            counted=lines(counted(problem, graph)),
            hardware=hardware((), self.context.request.options.gpu),
        )

    def judged(self, key: str, text: str, composed: Composed) -> Verdict:
        """The verdict on a program.

        Raises:
            UserFacingError: the GPU host failed.
        """
        asked = (
            partial(self.verdict, f"{key}-{claim.symbol}", claim.problem, text, claim.symbol, claim.composed)
            for claim in claims(self.traced, self.source, composed)
        )
        return first_failing(ask() for ask in asked)

    def asked(self, part: Part, source: str) -> Callable[[], Verdict]:
        """The question for the verdict on a part."""
        return partial(self.verdict, f"part-{part.name}", part.source, source, part.name)

    def verdict(self, key: str, problem: str, text: str, symbol: str, composed: Composed | None = None) -> Verdict:
        """The verdict on a part, or on a callable of a program.

        Raises:
            UserFacingError: the GPU host failed.
        """
        candidate = CandidateSource((SourceFile(FILE, text),), "candidate", symbol)
        verdict = self.gate.verify(key, parse(problem), candidate, dtypes=("float32",), composed=composed)
        if verdict.status is Status.environment_error:
            raise UserFacingError(replace(verdict_failure(verdict, "compiler"), code=FailureCode.environment))
        return verdict

    def styled(self, files: dict[str, str]) -> tuple[tuple[FileChange, ...], StyleOutcome]:
        """Files as the library's style check leaves them, with the packages that they need."""
        folders = [PurePosixPath(self.home.folder), *PurePosixPath(self.home.folder).parents][:3]
        packages = {f"{folder}/__init__.py": "" for folder in folders if not self.tree.exists(str(folder))}
        changes = tuple(FileChange(path, text) for path, text in (packages | files).items())
        return self.gate.style("style", self.layout, self.tree, changes)

    def summary(self, chosen: Cut) -> FuseSummary:
        """The cut, before anything of it is proved."""
        whole = totals(self.traced, chosen)
        nodes = self.traced.rejoined(chosen.inside(chosen.parts)).nodes
        kept = Counter((packet_of(nodes[name].op), reason) for name, reason in chosen.kept.items())
        parts = tuple(
            FusedPart(
                part.name,
                part.operators,
                tuple(f"{' x '.join(map(str, shape)) or 'one'} {dtype}" for shape, dtype in part.shapes),
                len(chosen.places[part.name]),
                part.bytes_apart,
                part.bytes_fused,
                chosen.saving(part.name),
            )
            for part in chosen.parts.values()
        )
        return FuseSummary(
            self.route,
            parts,
            tuple(KeptOperator(operator, reason, count) for (operator, reason), count in kept.items()),
            picture(self.traced, chosen),
            whole["operators"],
            whole["bytes"],
            self.source,
            REPRODUCE,
        )

    def result(
        self,
        stage: StageName,
        summary: FuseSummary,
        changes: tuple[FileChange, ...],
        before: tuple[FileChange, ...],
        purpose: CommitPurpose = CommitPurpose.revision,
        left: dict[str, Any] | None = None,
    ) -> StageResult:
        """The end of a stage with a checkpoint; ``before`` are the changes that the branch has."""
        new = only_new(changes, self.tree, before)
        keep_json(self.context, f"{stage.value}.json", summary)
        told = {"summary": to_json(summary), "changes": to_json(changes), HEARD: len(self.context.feedback)}
        return StageResult(
            told | (left or {}),
            (
                *((CommitUpdate(purpose, new, stage, self.context.attempt),) if new else ()),
                PullRequestUpdate(None, self.source, summary.verdict, fusion=summary),
                *((AssetsUpdate(summary.images),) if summary.images else ()),
                *((ReadyUpdate(),) if summary.tests is not None else ()),
                CheckpointUpdate(stage, self.context.attempt, summary, not self.context.request.options.auto),
            ),
        )


def _reopened(context: StageContext) -> FuseBench:
    bench, left = open_bench(context), context.result_of(StageName.route)
    source = str(left["source"])
    traced = traced_of(source, from_json(CaptureResult, left["captured"]))
    return FuseBench(context, bench.tree, bench.layout, source, traced, tuple(left["route"]))


def _kept_cut(chosen: Cut) -> dict[str, Any]:
    return {
        "places": [list(where.nodes) for name in chosen.parts for where in chosen.places[name]],
        "kept": dict(chosen.kept),
    }


def _cut_of(bench: FuseBench, left: dict[str, Any]) -> Cut:
    return cut_again(bench.traced, left["places"], left["kept"])


class Extract:
    """The second stage of ``fuse``."""

    name = StageName.extract

    def run(self, context: StageContext) -> StageResult:
        """The cut, with the refactored program judged against the model; the model and its test are committed."""
        bench, earlier = _reopened(context), own_result(context, self.name)
        context.note("cutting the model into parts")
        chosen, answered = self._chosen(bench, earlier)
        listed = {"total": totals(bench.traced, chosen), "subgraphs": subgraphs(chosen), "torch": dict(chosen.kept)}
        context.artifact("subgraphs.json", json.dumps(listed, indent=1).encode(), "application/json")
        context.artifact("cut.md", f"```mermaid\n{picture(bench.traced, chosen)}```\n".encode(), "text/markdown")
        if not chosen.parts:
            raise UserFacingError(NOTHING_TO_GAIN)
        context.note("judging the refactored program")
        fused = refactored(bench.traced, chosen)
        context.artifact("orchestrator/fused.py", fused.encode(), "text/x-python")
        verdict = bench.judged("refactored", fused, torch_anywhere(fused))
        if verdict.status is not Status.passed:
            raise UserFacingError(cut_failure(verdict))
        context.note("running the library's style check")
        module = import_name(bench.home.folder)
        files = {
            f"{bench.home.folder}/original.py": bench.source,
            bench.home.suite: suite_source(bench.traced, module),
        }
        changes, _ = bench.styled(files)
        left = _kept_cut(chosen) | {"written": {part.name: bench.written(part) for part in chosen.parts.values()}}
        summary = replace(bench.summary(chosen), answered=answered)
        before = changes_from_json(earlier["changes"]) if earlier else ()
        return bench.result(self.name, summary, changes, before, CommitPurpose.reference, left)

    def _chosen(self, bench: FuseBench, earlier: dict[str, Any] | None) -> tuple[Cut, tuple[str, ...]]:
        if earlier is None:
            return cut(bench.traced, bench.refusal), ()
        points = new_points(bench.context.feedback, earlier)
        return revised(bench.traced, _cut_of(bench, earlier), [point.text for point in points], bench.refusal)


class PartSearch(ModuleSearch[ProvedPart]):
    """The search for a part's file that is proved."""

    def __init__(self, bench: FuseBench, part: Part, log: AttemptLog) -> None:
        super().__init__(
            bench.context, log, bench.brief(part), replace(terms_of(bench.context), prefix=f"{part.name}-")
        )
        self.bench, self.part = bench, part

    def judge(self, key: str, proposal: KernelAnswer, ask: SearchQuestion[KernelBrief]) -> Judged[ProvedPart | None]:
        """Prove a file."""
        verdict = self.bench.verdict(f"verify-{key}", self.part.source, proposal.source, self.part.name)
        if verdict.status in ENDING:
            raise UserFacingError(verdict_failure(verdict, MODEL))
        tried = ProvedPart(proposal.source, verdict)
        if verdict.status is Status.passed:
            return Judged(tried, verdict.status.value)
        return fell(tried, failed_verdict(verdict, proposal.source), verdict)


class Dispatch:
    """The third stage of ``fuse``."""

    name = StageName.dispatch

    def run(self, context: StageContext) -> StageResult:
        """The verdict on each part; those of the compiler are asked for at once. What a model does not give is the compiler's, as
        far as that can. What fails is tried once more without the biases that it adds, and stays with torch where it fails again.
        """
        bench, left = _reopened(context), context.result_of(StageName.extract)
        chosen, written = _cut_of(bench, left), dict[str, str | None](left["written"])
        context.note(f"proving {len(chosen.parts)} parts")
        asks = _asked(bench, chosen.parts.values(), written)
        proved, reasons, log = dict[str, list[str]](), dict[str, str](), AttemptLog(context, self.name)
        for part in [part for part in chosen.parts.values() if written[part.name] is None]:
            try:
                found = PartSearch(bench, part, log).run().judged.result
            except UserFacingError as error:
                if error.failure.code not in GIVES_WAY:
                    raise
                reasons[part.name] = error.failure.message
                if context.request.options.author is AuthorName.auto:
                    chosen = divided(bench.traced, chosen, part.name, bench.compilers_refusal)
                continue
            assert found is not None, "what passed has a file"
            written[part.name], proved[part.name] = found.source, list(found.verdict.kernels)
            _keep(context, part, found.source, found.verdict)
        while new := [part for part in chosen.parts.values() if part.name not in {*proved, *reasons}]:
            written |= {part.name: bench.compiled(part)[0] for part in new if part.name not in written}
            asks |= _asked(bench, [part for part in new if part.name not in asks], written)
            for part in new:
                source, verdict = written[part.name], asks[part.name]()
                assert source is not None, "what is asked about is written"
                _keep(context, part, source, verdict)
                if verdict.status is Status.passed:
                    proved[part.name] = list(verdict.kernels)
                else:
                    reasons[part.name] = why(verdict)
                    chosen = simpler(bench.traced, chosen, part.name, bench.compilers_refusal)
        if not proved:
            message = "no part could be proved, so the whole model stays with torch"
            attempts = tuple(f"`{name}` ended as {reason}" for name, reason in reasons.items())
            raise UserFacingError(Failure(FailureCode.verdict, message, NOT_PUSHED, attempts=attempts))
        return StageResult({"proved": proved, "reasons": reasons, "written": written} | _kept_cut(chosen))


def _asked(bench: FuseBench, parts: Iterable[Part], written: dict[str, str | None]) -> dict[str, Callable[[], Verdict]]:
    """The verdicts on the parts that are written, on their way."""
    asks = {part.name: bench.asked(part, source) for part in parts if (source := written[part.name]) is not None}
    for name, ask in asks.items():
        bench.context.meanwhile(name, ask)
    return asks


def _keep(context: StageContext, part: Part, source: str, verdict: Verdict) -> None:
    """Keep a part's record."""
    folder = f"kernels_out/{part.name}"
    context.artifact(f"{folder}/problem.py", part.source.encode(), "text/x-python")
    context.artifact(f"{folder}/candidate.py", source.encode(), "text/x-python")
    keep_json(context, f"{folder}/verdict.json", verdict)


class Compose:
    """The fourth stage of ``fuse``."""

    name = StageName.compose

    def run(self, context: StageContext) -> StageResult:
        """The program of the proved parts, judged as a whole and committed."""
        bench, extracted = _reopened(context), context.result_of(StageName.extract)
        outcomes = context.result_of(StageName.dispatch)
        chosen, proved = _cut_of(bench, outcomes), dict[str, list[str]](outcomes["proved"])
        whole = composed_of(bench.traced, chosen, {name: outcomes["written"][name] for name in proved})
        context.note("running the library's style check")
        path = f"{bench.home.folder}/composed_kernel.py"
        files = {change.path: change.text or "" for change in changes_from_json(extracted["changes"])}
        changes, style = bench.styled(files | {path: whole.source})
        formatted = moved(whole, next(change.text or "" for change in changes if change.path == path))
        if formatted is None:  # a rule of the library rewrites what is proved
            changes = tuple(replace(c, text=whole.source) if c.path == path else c for c in changes)
        whole = formatted or whole
        context.note("judging the whole")
        kernels = tuple(dict.fromkeys(kernel for names in proved.values() for kernel in names))
        verdict = bench.judged("whole", whole.source, Composed(whole.torch_lines, kernels))
        keep_json(context, "compose_out/verdict.json", verdict)
        context.artifact("compose_out/composed_kernel.py", whole.source.encode(), "text/x-python")
        if verdict.status is not Status.passed:
            failure = verdict_failure(verdict, "compiler")
            message = f"each part is proved, but the program composed of them is not: {why(verdict)}"
            raise UserFacingError(replace(failure, message=message, fix=NOT_PUSHED))
        cut_summary, reasons = bench.summary(chosen), dict[str, str](outcomes["reasons"])
        before_proofs = from_json(FuseSummary, extracted["summary"]).parts
        gone = [replace(p, places=0, saved_bytes=0) for p in before_proofs if p.name not in chosen.parts]
        parts = tuple(
            replace(part, proved=part.name in proved, reason=reasons.get(part.name))
            for part in (*cut_summary.parts, *gone)
        )
        paths = tuple(change.path for change in changes)
        before = changes_from_json((own_result(context, self.name) or extracted)["changes"])
        summary = replace(cut_summary, parts=parts, answered=(), files=paths, verdict=verdict, style=style)
        return bench.result(self.name, summary, changes, before, CommitPurpose.composition)


class ValidateFused:
    """The last stage of ``fuse``."""

    name = StageName.validate

    def run(self, context: StageContext) -> StageResult:
        """The report: the test of the whole in the library, and its times where a GPU is there."""
        bench, composed = _reopened(context), context.result_of(StageName.compose)
        changes = changes_from_json(composed["changes"])
        context.note("running the test of the whole")
        suite = SuiteRun("pytest", ("-q", bench.home.suite), suite_roots(bench.home.folder, bench.tree))
        tests = bench.gate.tests("tests", suite, changes)
        ran = any(c.outcome is CaseOutcome.passed and c.node.endswith(f"::{TEST}") for c in tests.cases)
        if not tests.passed or not ran:
            message = f"the test of the whole does not pass in the library: {tests.summary}"
            raise UserFacingError(Failure(FailureCode.tests, message, NOT_PUSHED, log=tests.log))
        context.note("measuring")
        text = next(c.text or "" for c in changes if c.path.endswith("/composed_kernel.py"))
        problem = bench.traced.problem  # with the parameters as inputs: a module is timed without its backward
        candidate = CandidateSource((SourceFile(FILE, text),), "candidate", ENTRY)
        timed = partial(bench.gate.benchmark, budget_s=timing_budget_s(max(1, len(problem.workloads))), lasting=False)
        measured = timed("benchmark", problem, candidate)
        compiled = None
        if not measured.predicted:
            try:
                compiled = timed("benchmark-compiled", problem, candidate, compiled=True)
            except UserFacingError as error:  # torch may fail to compile it; what was timed stands
                context.note(f"not timed under torch.compile: {error.failure.message}")
        proved = from_json(FuseSummary, composed["summary"])
        name = context.request.kernel
        summary = replace(
            proved,
            tests=replace(tests, collected=()),
            benchmark=measured,
            compiled=compiled,
            images=draw_plots(context, name, proved.verdict, measured) if proved.verdict is not None else (),
            provenance=provenance(context.request, measured),
        )
        return bench.result(self.name, summary, changes, changes)
