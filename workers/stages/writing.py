"""Who writes a new kernel, and the kernel that comes of it: proved, or there is none."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import geometric_mean
from typing import Any, TypeVar

from gpu_runner.contracts import Pass, Status, Verdict, from_json, to_json
from workers.authors.llm import kernel_question, read_kernel
from workers.authors.llm.failures import MAX_LOG, failed_verdict
from workers.authors.llm.protocol import Failed, KernelAnswer, KernelBrief, Reply, Task
from workers.authors.protocol import AuthorRefusal, Feedback, KernelPlan
from workers.contracts import (
    AuthorName,
    Choose,
    Failure,
    FailureCode,
    FileChange,
    StyleOutcome,
    UserFacingError,
)
from workers.engine.protocol import StageContext
from workers.engine.questions import NO_MODEL
from workers.layouts.protocol import Design
from workers.models.protocol import Answer
from workers.stages.bench import Bench, CreateBench
from workers.stages.briefs import answered, kernel_brief, plan_of_graph, remarks_of
from workers.stages.gate import ENDING, verdict_failure
from workers.stages.headroom import time_of
from workers.stages.search import AttemptLog, Judged, Search, SearchQuestion, TriedAttempt, failed_text
from workers.strategies.source import fingerprint
from workers.tree import Tree

Result = TypeVar("Result")

COMPILER = AuthorName.compiler.value
MODEL = AuthorName.llm.value
# A search may come to no kernel in these ways. A host that failed ends the stage, and a retry has all that was answered before.
GIVES_WAY = (FailureCode.model, FailureCode.budget, FailureCode.verdict)
LAYOUT = "layout"
STYLE = "style"
BOTH_WAYS = (
    "Rewrite the reference without it; or have an operator configure a language model (`docs/models.md`), which "
    "`--author auto` asks where the compiler refuses."
)
# How far a proposal came, the worst first; what is not listed here ended before any of it.
PROGRESS = (
    LAYOUT,
    Status.cheating.value,
    Status.refused.value,
    Status.unproved.value,
    STYLE,
    Status.compile_error.value,
    Status.launch_error.value,
    Status.out_of_memory.value,
    Status.timeout.value,
    Status.out_of_bounds.value,
    Status.incorrect_shape.value,
    Status.incorrect_dtype.value,
    Status.unwritten_output.value,
    Status.mutated_input.value,
    Status.nondeterministic.value,
    Status.incorrect_values.value,
    Status.incorrect_gradient.value,
    Status.passed.value,
)


@dataclass(frozen=True)
class ProvedKernel:
    """A kernel that the runner's verdict passed."""

    author: str
    design: Design
    changes: tuple[FileChange, ...]
    style: StyleOutcome
    verdict: Verdict
    answered: tuple[str, ...] = ()
    model: str | None = None  # that wrote it, with its provider


# The compiler's way to a kernel.


def compile_and_prove(bench: CreateBench, design: Design, suffix: str = "") -> ProvedKernel:
    """Style and prove the compiler's design; ``suffix`` ends the keys.

    Raises:
        UserFacingError: the style check still fails after its own fixes, or the verdict is anything but passed.
    """
    changes, style = bench.gate.style(f"style{suffix}", bench.layout, bench.tree, rendered(bench, design))
    if not style.passed:
        message = "the library's own style check fails on what was written"
        raise UserFacingError(
            Failure(FailureCode.style, message, "This is a fault of the layout: please report it.", log=style.log)
        )
    verdict = _verdict(bench, design, changes, f"verify{suffix}")
    if verdict.status is not Status.passed:
        raise UserFacingError(verdict_failure(verdict, COMPILER))
    return ProvedKernel(COMPILER, design, changes, style, verdict)


def rendered(bench: CreateBench, design: Design) -> tuple[FileChange, ...]:
    """The files of a design.

    Raises:
        UserFacingError: the layout cannot place it.
    """
    return bench.layout.kernel_changes(design, bench.tree)


def _verdict(bench: CreateBench, design: Design, changes: tuple[FileChange, ...], key: str) -> Verdict:
    bench.context.note("proving the kernel against the reference")
    form = bench.form(design, changes)
    return bench.gate.verify(key, bench.problem, form, multiples=bench.graph.multiples, lasting=False)


# A model's way.


@dataclass(frozen=True)
class SearchBounds:
    """Bounds of a search. ``prefix`` begins its keys, so that one attempt of a stage may run several searches."""

    candidates: int
    repairs: int
    choose: Choose = Choose.first
    prefix: str = ""


@dataclass(frozen=True)
class ModelCandidate:
    """A model's kernel, with its files and its verdict where it came so far."""

    design: Design
    replies: tuple[Reply, ...] = ()
    changes: tuple[FileChange, ...] = ()
    style: StyleOutcome | None = None
    verdict: Verdict | None = None

    @property
    def proved(self) -> bool:
        """Whether the runner's full verdict is passed; nothing else leads to a commit."""
        verdict = self.verdict
        return verdict is not None and verdict.status is Status.passed and not (verdict.quick or verdict.repeated)


class ModuleSearch(Search[KernelBrief, KernelAnswer, Result | None]):
    """The search for a kernel module that is proved; a subclass defines how it is judged."""

    wanted = "kernel"
    without_model = "`--author compiler` needs no model."

    def __init__(self, context: StageContext, log: AttemptLog, brief: KernelBrief, terms: SearchBounds) -> None:
        super().__init__(context, log, terms.repairs, judges_all=terms.choose is Choose.best)
        self.brief, self.terms, self.before = brief, terms, len(log.attempts)
        self.unanswered = f"{terms.prefix}unanswered"

    def asks(self, round_: int, last: Judged[Result | None] | None) -> Sequence[SearchQuestion[KernelBrief]]:
        """The candidates, or a repair."""
        prefix, count, brief = self.terms.prefix, self.terms.candidates, self.brief
        if round_ and last is not None:
            brief = replace(brief, failed=last.failed)
            question = kernel_question(brief, round_)
            return [SearchQuestion(f"{prefix}repair-{round_}", Task.repair, round_, round_, brief, question)]
        task = Task.repair if brief.failed else Task.revise if brief.remarks else Task.generate
        return [
            SearchQuestion(f"{prefix}candidate-{n + 1}", task, 0, n, brief, kernel_question(brief, n, count))
            for n in range(count)
        ]

    def read(self, answer: Answer, ask: SearchQuestion[KernelBrief]) -> KernelAnswer:
        """An answer as a kernel."""
        return read_kernel(answer, ask.brief)

    def unusable(self, failed: Failed, ask: SearchQuestion[KernelBrief]) -> Judged[Result | None]:
        """An answer without a kernel."""
        return Judged(None, failed.status, failed.sentence, failed=failed)

    def identity(self, proposal: KernelAnswer) -> str:
        """The same for the same code."""
        return fingerprint(proposal.source)

    def failure(self, last: Judged[Result | None] | None) -> Failure:
        """Why no kernel is proved."""
        furthest, log = failed_text(None if last is None else last.failed)
        attempts = self.log.sentences()[self.before :]
        message = f"none of {len(attempts)} kernels of the model is proved{furthest}"
        fix = "Nothing of them was pushed. `/kernel retry` asks anew; the attempts are on the job's page."
        return Failure(FailureCode.verdict, message, fix, log=log, attempts=attempts)


class KernelSearch(ModuleSearch[ModelCandidate]):
    """The search for a new kernel of a library."""

    def __init__(self, bench: CreateBench, log: AttemptLog, brief: KernelBrief, terms: SearchBounds) -> None:
        super().__init__(bench.context, log, brief, terms)
        self.bench = bench

    def judge(
        self, key: str, proposal: KernelAnswer, ask: SearchQuestion[KernelBrief]
    ) -> Judged[ModelCandidate | None]:
        """Place, style and prove a kernel."""
        bench, source = self.bench, proposal.source
        design = bench.designed(proposal.plan, source)
        tried = ModelCandidate(design, proposal.replies)
        try:
            changes, style = bench.gate.style(f"style-{key}", bench.layout, bench.tree, rendered(bench, design))
        except UserFacingError as error:
            if error.failure.code is FailureCode.environment:
                raise
            log = (error.failure.log or "")[-MAX_LOG:]
            return fell(tried, Failed(source, LAYOUT, error.failure.message, log=log))
        tried = replace(tried, changes=changes, style=style)
        if not style.passed:
            sentence = "the library's own style check fails on it"
            return fell(tried, Failed(source, STYLE, sentence, log=style.log[-MAX_LOG:]))
        verdict = _verdict(bench, design, changes, f"verify-{key}")
        if verdict.status in ENDING:
            raise UserFacingError(verdict_failure(verdict, MODEL))
        tried = replace(tried, verdict=verdict)
        if tried.proved:
            return Judged(tried, verdict.status.value)
        return fell(tried, failed_verdict(verdict, source), verdict)

    def best(self, passed: Sequence[TriedAttempt[ModelCandidate | None]]) -> TriedAttempt[ModelCandidate | None] | None:
        """The fastest of several; where nothing is measured, as without a GPU, the first."""
        if len(passed) < 2:
            return next(iter(passed), None)
        self.context.note(f"measuring {len(passed)} proved kernels")
        times = {tried.number: self._median_us(tried) for tried in passed}
        for number, median_us in times.items():
            if median_us is not None:
                self.log.measured(number, median_us)
        return min(passed, key=lambda it: (times[it.number] is None, times[it.number] or 0.0, it.number))

    def _median_us(self, tried: TriedAttempt[ModelCandidate | None]) -> float | None:
        candidate, key = tried.judged.result, f"benchmark-{tried.key}"
        assert candidate is not None, "what passed has files"
        form = self.bench.form(candidate.design, candidate.changes)
        rows = self.bench.gate.benchmark(key, self.bench.problem, form, lasting=False).rows
        full = [row for row in rows if row.timed_pass is Pass.full] or list(rows)
        times = [time_of(row) for row in full]
        known = [time_us for time_us in times if time_us is not None and time_us > 0]
        return geometric_mean(known) if known and len(known) == len(times) else None


def fell(tried: Result | None, failed: Failed, verdict: Verdict | None = None) -> Judged[Result | None]:
    """A proposal that failed, with how far it came."""
    at = PROGRESS.index(failed.status) if failed.status in PROGRESS else -1
    failing = 0 if verdict is None else sum(not check.passed for check in verdict.checks)
    first = failed.evidence[0] if failed.evidence else failed.sentence
    return Judged(tried, failed.status, first, (at, -failing), failed)


def searched(bench: CreateBench, log: AttemptLog, brief: KernelBrief, terms: SearchBounds) -> ProvedKernel:
    """The kernel that a search for a brief finds.

    Raises:
        UserFacingError: it finds none.
    """
    tried = KernelSearch(bench, log, brief, terms).run()
    taken = tried.judged.result
    if taken is None or not taken.proved or taken.style is None or taken.verdict is None:
        raise RuntimeError("a search gave a kernel that is not proved")
    replies = answered(brief.remarks, taken.replies)
    return ProvedKernel(MODEL, taken.design, taken.changes, taken.style, taken.verdict, replies, tried.model)


def terms_of(context: StageContext) -> SearchBounds:
    """The bounds that the command sets to a search."""
    options = context.request.options
    return SearchBounds(options.candidates, options.repairs, options.choose)


# Who writes a kernel.


def foreseen(bench: CreateBench) -> tuple[str, Design]:
    """Who will write the kernel, and its design as far as it is known before: without a source where a model will.

    Raises:
        UserFacingError: the compiler refuses and no model may be asked, or the model is wanted and there is none.
    """
    compiled = bench.compiled()
    author = _writer(bench, compiled if isinstance(compiled, AuthorRefusal) else None)
    if isinstance(compiled, AuthorRefusal):
        return author, bench.designed(plan_of_graph(bench.problem, bench.graph), None)
    return author, bench.designed(compiled.plan, compiled.source)


def write(
    bench: CreateBench, log: AttemptLog, points: tuple[Feedback, ...], earlier: dict[str, Any] | None, branch: Tree
) -> ProvedKernel:
    """A proved kernel: the compiler's, or a model's, which also acts on the points of a review.

    ``earlier`` is what this stage left before.

    Raises:
        UserFacingError: there is none.
    """
    compiled = bench.compiled()
    author = _writer(bench, compiled if isinstance(compiled, AuthorRefusal) else None)
    if earlier is not None and (points or earlier.get("author") == MODEL) and bench.asks_models():
        author = MODEL  # words are for who can read them, and what a model has written it writes again
    if author == MODEL:
        remarks = remarks_of(points, branch)
        before = str(earlier["source"]) if remarks and earlier is not None and earlier.get("source") else None
        return searched(bench, log, kernel_brief(bench, remarks, before), terms_of(bench.context))
    assert not isinstance(compiled, AuthorRefusal), "a refusal leaves no compiler to write"
    bench.context.note("writing the kernel")
    return compile_and_prove(bench, bench.designed(compiled.plan, compiled.source))


def repaired(bench: CreateBench, log: AttemptLog, design: Design, failed: Failed, prefix: str) -> ProvedKernel:
    """A model's kernel again after something that the verdict did not see failed on it, such as the library's tests.

    Raises:
        UserFacingError: it gives none that is proved.
    """
    brief = replace(kernel_brief(bench, before=design.source), failed=failed)
    return searched(bench, log, brief, SearchBounds(1, bench.context.request.options.repairs, prefix=prefix))


def kept_kernel(made: ProvedKernel) -> dict[str, Any]:
    """What later stages need to know of a kernel without asking for it again."""
    return {
        "author": made.author,
        "source": made.design.source,
        "plan": to_json(made.design.plan),
        "verdict": to_json(made.verdict),
        "model": made.model,
    }


def kept_design(bench: CreateBench, output: dict[str, Any]) -> Design:
    """The design of a kernel out of a stage's output."""
    if "plan" not in output:  # of a job from before plans were kept, which only the compiler wrote
        compiled = bench.compiled()
        if isinstance(compiled, AuthorRefusal):
            raise UserFacingError(refusal(compiled, models=False))
        return bench.designed(compiled.plan, str(output["source"]))
    return bench.designed(from_json(KernelPlan, output["plan"]), str(output["source"]))


def refusal(refused: AuthorRefusal, *, models: bool) -> Failure:
    """The compiler's refusal; ``models``: a model would be asked if there were one."""
    message = f"the {COMPILER} author cannot write this kernel: {refused.sentence}"
    return Failure(FailureCode.refused, message, BOTH_WAYS if models else "Rewrite the reference without it.")


def _writer(bench: Bench, refused: AuthorRefusal | None) -> str:
    wanted = bench.context.request.options.author
    if wanted is AuthorName.llm:
        if not bench.has_models():
            raise UserFacingError(NO_MODEL)
        return MODEL
    if refused is None:
        return COMPILER
    if wanted is AuthorName.compiler or not bench.has_models():
        raise UserFacingError(refusal(refused, models=wanted is AuthorName.auto))
    return MODEL
