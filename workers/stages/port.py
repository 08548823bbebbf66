"""Port: an operator's API, its kernels in the target's form, the export, and parity; committed for review."""

from __future__ import annotations

import itertools
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from gpu_runner.contracts import BenchmarkResult, CandidateSource, Graph, Problem, Status, from_json, to_json
from workers.authors.protocol import AuthorRefusal, Brief, Proposal, SourceStyle
from workers.authors.table import author_named
from workers.contracts import (
    DEFAULT_OPERATORS,
    AuthorName,
    CheckpointUpdate,
    CommitPurpose,
    CommitUpdate,
    DoneItem,
    Failure,
    FailureCode,
    FileChange,
    JobOptions,
    KernelTiling,
    LoweredKernel,
    Parity,
    PortedName,
    PortSummary,
    ProblemKind,
    ProblemText,
    PullRequestUpdate,
    ReadyUpdate,
    ReportUpdate,
    StageName,
    Update,
    UserFacingError,
)
from workers.engine.protocol import StageContext, StageResult
from workers.layouts.protocol import ExistingKernel, Layout, SuiteRun
from workers.settings import Settings
from workers.stages.bench import (
    Bench,
    changes_from_json,
    keep_json,
    known_problem,
    layout_for,
    merged,
    only_new,
    open_bench,
    own_result,
)
from workers.stages.compiling import ARCHITECTURES, NO_COMPILER, NOT_COMPILED, compiled_by_target
from workers.stages.definition import (
    WrittenPort,
    api_items,
    check_done,
    judged_items,
    largest_error,
    patterns,
    scalar_compares,
    work,
)
from workers.stages.gate import SNAPSHOT_FILE, timing_budget_s, verdict_failure
from workers.stages.problem import parse
from workers.strategies.sweep import swept, with_tuned_sweep
from workers.targets.contract import ApiContract
from workers.targets.lowering import kernel_requests, lowered
from workers.targets.module import CallVariant, PortedModule, backward_name, forward_name, ported_module, with_backward
from workers.targets.protocol import PortOrigin, PortTarget
from workers.targets.scaling import host_source, unscaled
from workers.targets.suitability import OTHERS, suitability
from workers.targets.table import TARGETS, origin_named, target_named
from workers.targets.uses import ImportedName
from workers.tree import Tree

DEFAULTS = JobOptions()
NOT_PUSHED = "Nothing was pushed. To keep another CALL, give a problem with it below the command."


@dataclass(frozen=True)
class PortSubject:
    """What is ported, from which implementation and to what. ``problems`` are the calls that the port takes, by name."""

    kernel: ExistingKernel
    origin: PortOrigin
    target: PortTarget
    problems: tuple[tuple[str, Problem], ...]
    contract: ApiContract
    used: tuple[ImportedName, ...] = ()  # what other files of the package import of the port's module
    stays: tuple[
        ImportedName, ...
    ] = ()  # what other files import of the default's module, which the port does not replace
    there: str | None = None  # the text of the port, where one is to be tuned that is there already

    @property
    def section(self) -> str:
        """The name by which the port's launchers are called: another than the kernel's where others use such names."""
        name = self.kernel.name
        public = {symbol.name for symbol in (self.contract.forward, self.contract.backward) if symbol is not None}
        taken = {forward_name(name), backward_name(name)} & (public | {use.name for use in self.used})
        return f"{name}_tiled" if taken else name

    def form(self, problem: Problem, changes: Sequence[FileChange]) -> CandidateSource:
        """The port for the runner."""
        return self.target.form(self.kernel, problem, tuple(changes), SNAPSHOT_FILE)


def port_subject(kernel: str, given: ProblemText, tree: Tree, options: JobOptions) -> PortSubject:
    """Read a port command against its repository, running nothing.

    Raises:
        UserFacingError: it cannot be carried out.
    """
    target, origin = target_named(options.to or next(iter(TARGETS))), origin_named(options.ported_from)
    if origin.name == target.name:
        fix = "Leave out `--from`, or name another implementation."
        raise UserFacingError(
            Failure(FailureCode.refused, f"`{kernel}` cannot be ported from `{origin.name}` to itself", fix)
        )
    chosen = layout_for(options.layout, tree)
    existing = chosen.locate(kernel, tree)
    if options.tuned:
        _check_tuning(existing, target, chosen, options)
    target.check(existing, tree, existing=options.tuned)
    there = tree.read(target.path(existing))
    if there is not None:
        origin = target
        _check_settings(existing, target, there)
    sources = target.problems(existing, tree) or ((existing.name, known_problem(given, existing, tree, chosen)),)
    problems = tuple((name, parse(source)) for name, source in sources)
    contract, *_ = [origin.contract(existing, problem, tree) for _, problem in problems]
    used, stays = target.used(existing, tree), target.stays(existing, tree)
    return PortSubject(existing, origin, target, problems, contract, used, stays, there)


def _check_tuning(kernel: ExistingKernel, target: PortTarget, layout: Layout, options: JobOptions) -> None:
    """Whether `optimize --to` has anything to do for a target.

    Raises:
        UserFacingError: it has not, or an option asks for more than settings.
    """
    if not layout.ported:
        message = f"a repository of the layout `{layout.name}` has one implementation of `{kernel.name}`"
        fix = "Leave out `--to`; `/kernel create` writes a new kernel in another language."
        raise UserFacingError(Failure(FailureCode.layout, message, fix))
    if not target.has_settings:
        fix = f"`/kernel port {kernel.name} --to {target.name}` writes it."
        message = f"launchers for `{target.name}` choose their tiles at run time, so there is nothing to tune"
        raise UserFacingError(Failure(FailureCode.refused, message, fix))
    if options.author is AuthorName.llm:
        message = f"no language model changes kernels in {target.language}"
        raise UserFacingError(Failure(FailureCode.refused, message, "Leave out `--author llm`: no model is needed."))
    other = [
        name for name in ("goal", "scope", "regime", "target") if getattr(options, name) != getattr(DEFAULTS, name)
    ]
    if other:
        named = "scope" if other[0] == "regime" else other[0]
        message = f"`--to {target.name}` tunes settings, for all passes and sizes, and does nothing else"
        raise UserFacingError(Failure(FailureCode.refused, message, f"Leave out `--{named}`."))


def _check_settings(kernel: ExistingKernel, target: PortTarget, there: str) -> None:
    try:
        found = swept(there)
    except ValueError:
        found = None
    if found is None:
        message = f"`{target.path(kernel)}` launches no kernel with settings that can be tuned"
        fix = "Kernels of the compiler author have such settings; `/kernel verify` proves what is changed by hand."
        raise UserFacingError(Failure(FailureCode.refused, message, fix))


class Port:
    """The only stage of ``port``."""

    name = StageName.port

    def run(self, context: StageContext) -> StageResult:
        """A port whose values and gradients passed the verdict, committed with its export and the test of its API.

        Raises:
            UserFacingError: the operator cannot be ported, or the port did not pass.
        """
        context.note("reading the API of the operator")
        bench, request = open_bench(context), context.request
        given = port_subject(request.kernel, request.problem, bench.tree, request.options)
        variants, module, written, refused = _written(bench, given)
        tuning = _tuned(bench, given, written) if request.options.tuned else Tuning(written)
        context.note("running the library's style check")
        changes, style = bench.gate.style("style", bench.layout, bench.tree, tuning.changes)
        port, items = _checked_api(bench, given, variants, module, changes)
        taken = tuple((name, problem) for name, problem in given.problems if name not in refused)
        alone = _alone(given, variants) if module is not None and module.calls else (None,) * len(taken)
        parities = tuple(
            _parity(bench, given, name, problem, _with_port(given, changes, own), dtypes)
            for (name, problem), own, dtypes in zip(taken, alone, _judged_in(taken, variants), strict=True)
        )
        source = next(change.text or "" for change in changes if change.path == given.target.path(given.kernel))
        measured = _measured(bench, given, changes) if tuning.settings or (request.options.tuned and module) else None
        tilings = given.target.tilings(given.problems[0][1], source) if module else ()
        lowered_kernels = _lowered(bench, source, variants, tilings) if given.target.name == "ascend" else ()
        compiled_kernels = (
            compiled_by_target(given.target.name, bench.context, [(one.problem, one.proposal) for one in variants])
            if given.target.name in ARCHITECTURES
            else ""
        )
        if port is not None:
            items += judged_items(
                parities, port, tilings, lowered_kernels, compiled_kernels, given.target.cores, measured
            )
            items += (
                DoneItem(
                    "the library's style check",
                    style.passed,
                    ", ".join(style.commands) if style.passed else style.log[-300:],
                ),
            )
            check_done(given.kernel.name, items)
        summary = PortSummary(
            target=given.target.name,
            language=given.target.language,
            files=tuple(change.path for change in changes),
            api=_api(given, module, bench.tree),
            narrowed=_narrowed(given, module, refused),
            tilings=tilings,
            parities=parities,
            style=style,
            risks=(
                *(_risks(given, module, _narrowed(given, module, refused)) if module else ()),
                *_overflows(given.target, lowered_kernels),
                *scalar_compares(lowered_kernels),
                *(
                    patterns(source, tilings, parities, given.stays, given.target.cores)
                    if given.target.cores and module
                    else ()
                ),
                *(
                    []
                    if lowered_kernels or compiled_kernels or not module
                    else [NOT_COMPILED.get(given.target.name, NO_COMPILER)]
                ),
                *(given.target.impossible_here if measured is None or measured.predicted else ()),
            ),
            problem_source=given.problems[0][1].source,
            lowered=lowered_kernels,
            compiled=compiled_kernels,
            buffer_bits=given.target.buffer_bits,
            cores=given.target.cores,
            reproduce=_reproduce(given, request.problem.kind, tuned=request.options.tuned),
            origin=request.options.ported_from,
            existing=module is None,
            settings=tuning.settings,
            benchmark=measured,
            notes=(*_suited(bench, given), *tuning.notes),
            done=items,
            work=work(variants[0], given.problems[0][1].workloads) if variants else (),
        )
        keep_json(context, "port.json", summary)
        context.artifact("problem.py", summary.problem_source.encode(), "text/x-python")
        context.artifact(f"{given.kernel.name}.py", source.encode(), "text/x-python")
        earlier = own_result(context, self.name)
        before = changes_from_json(earlier["changes"]) if earlier else ()
        output = {"changes": to_json(merged(before, changes)), "summary": to_json(summary)}
        new = only_new(changes, bench.tree, before)
        if summary.existing and not new and not before:
            return StageResult(output, (ReportUpdate(summary),), checkpoint=False)
        return StageResult(output, _updates(context, new, summary))


Refused = dict[str, str]  # by the name of a call, why the author does not write it
PortFiles = tuple[tuple[CallVariant, ...], PortedModule | None, tuple[FileChange, ...], Refused]


def _written(bench: Bench, given: PortSubject) -> PortFiles:
    """The kernels, the module around them, and the files of a new port; of one that is there its file as it is.

    The first call is the usual one, without which there is no port; of the others those are left out that the author refuses.
    """
    if given.there is not None:
        return (), None, (FileChange(given.target.path(given.kernel), given.there),), {}
    answers = {name: _variant(bench, given, name, problem) for name, problem in given.problems}
    variants = tuple(answer for answer in answers.values() if isinstance(answer, CallVariant))
    refused = {name: answer.sentence for name, answer in answers.items() if isinstance(answer, AuthorRefusal)}
    if given.problems[0][0] in refused:
        message = f"`{given.kernel.name}` cannot be ported to `{given.target.name}`: {refused[given.problems[0][0]]}"
        fix = "Only the compiler author writes ports; docs/porting.md says what it accepts."
        raise UserFacingError(Failure(FailureCode.refused, message, fix))
    module = ported_module(
        given.section, given.contract, variants, given.target.free(given.contract), given.target.contiguous
    )
    return variants, module, given.target.changes(given.kernel, module, given.contract, bench.tree), refused


def _checked_api(
    bench: Bench,
    given: PortSubject,
    variants: tuple[CallVariant, ...],
    module: PortedModule | None,
    changes: tuple[FileChange, ...],
) -> tuple[WrittenPort | None, tuple[DoneItem, ...]]:
    """The written port, and the items of its definition of done that hold before it is judged; nothing of one that was there.

    Raises:
        UserFacingError: one does not hold.
    """
    if module is None:
        return None, ()
    source = next(change.text or "" for change in changes if change.path == given.target.path(given.kernel))
    port = WrittenPort(
        given.contract, replace(module, source=source), variants, given.used, given.problems[0][1].workloads
    )
    bench.context.note("running the port's own test: parameters, exports, both import forms")
    arguments = ("-q", "--noconftest", "--import-mode=importlib", given.target.test_path(given.kernel.name))
    ran = bench.gate.tests("api", SuiteRun("pytest", arguments, ("src",)), changes)
    items = api_items(port, ran)
    check_done(given.kernel.name, items)
    return port, items


def _alone(given: PortSubject, variants: tuple[CallVariant, ...]) -> tuple[str, ...]:
    """The port with one of its calls each: what it does in another call is no part of a verdict, which would miss it.

    That the whole port chooses among the same kernels as its calls say is shown by its own test.
    """
    contract, target = given.contract, given.target
    modules = (
        ported_module(given.section, contract, (one,), target.free(contract), target.contiguous) for one in variants
    )
    return tuple(module.source for module in modules)


def _judged_in(taken: Iterable[tuple[str, Problem]], variants: Iterable[CallVariant]) -> Iterable[tuple[str, ...]]:
    """The dtypes in which each call is judged: all, but one alone where a call before it differs by nothing but what divides a
    result in float32."""
    divisors = dict[str, set[str]]()
    for (name, problem), variant in itertools.zip_longest(taken, variants):
        kernels, own = (variant.proposal.source.replace(variant.name, ""), variant.divisor) if variant else (name, "")
        before = divisors.setdefault(kernels, set())
        yield problem.dtypes[:1] if before and own not in before else problem.dtypes
        before.add(own)


def _with_port(given: PortSubject, changes: tuple[FileChange, ...], source: str | None) -> tuple[FileChange, ...]:
    return changes if source is None else _with(changes, given.target.path(given.kernel), source)


def _narrowed(given: PortSubject, module: PortedModule | None, refused: Mapping[str, str]) -> tuple[str, ...]:
    """Parameters of which the port takes some values alone, and calls that it does not take, with the reason."""
    calls = dict(given.problems)
    left_out = (f"no call as {calls[name].call}: {why}" for name, why in refused.items())
    return (*(module.narrowed if module else ()), *left_out)


@dataclass(frozen=True)
class Tuning:
    """The files of a port with the settings that were found faster, by pass and size, in its table."""

    changes: tuple[FileChange, ...]
    settings: tuple[tuple[str, str], ...] = ()
    notes: tuple[str, ...] = ()


def _tuned(bench: Bench, given: PortSubject, written: tuple[FileChange, ...]) -> Tuning:
    path, problem = given.target.path(given.kernel), given.problems[0][1]
    source = next(change.text or "" for change in written if change.path == path)
    sweep = swept(source)
    if sweep is None:
        return Tuning(written, notes=("The launchers have no settings to tune.",))
    opened, knobs = sweep
    bench.context.note(f"tuning {len(knobs)} settings")
    form = given.form(problem, _with(written, path, opened))
    tuned = bench.gate.tune("tune", problem, form, knobs, problem.workloads, given.target.module(given.kernel))
    if tuned.architecture is None:
        return Tuning(written, notes=tuned.notes)
    table = ((tuned.architecture, tuple((one.value, rows) for one, rows in tuned.table)),)
    settings = tuple(
        (f"{choice.tuned_pass}, {choice.workload.label()}", ", ".join(f"{name}={n}" for name, n in choice.settings))
        for choice in tuned.choices
        if choice.settings
    )
    return Tuning(_with(written, path, with_tuned_sweep(source, table)), settings, tuned.notes)


def _with(changes: tuple[FileChange, ...], path: str, text: str) -> tuple[FileChange, ...]:
    return tuple(replace(change, text=text) if change.path == path else change for change in changes)


def _measured(bench: Bench, given: PortSubject, changes: tuple[FileChange, ...]) -> BenchmarkResult:
    """A port's times next to the default operator's; those of one that was there already next to its own before."""
    problem = given.problems[0][1]
    bench.context.note(
        "measuring it against " + ("the default operator" if given.there is None else "its previous version")
    )
    original = (
        bench.layout.form_of(given.kernel, problem, (), SNAPSHOT_FILE)
        if given.there is None
        else given.form(problem, (FileChange(given.target.path(given.kernel), given.there),))
    )
    return bench.gate.benchmark(
        "benchmark",
        problem,
        given.form(problem, changes),
        workloads=problem.workloads,
        budget_s=timing_budget_s(len(problem.workloads)),
        original=original,
    )


def _updates(context: StageContext, new: Sequence[FileChange], summary: PortSummary) -> tuple[Update, ...]:
    commits = (CommitUpdate(CommitPurpose.port, tuple(new), StageName.port, context.attempt),) if new else ()
    return (
        *commits,
        PullRequestUpdate(None, summary.problem_source, summary.parities[0].verdict, port=summary),
        ReadyUpdate(),
        CheckpointUpdate(StageName.port, context.attempt, summary, not context.request.options.auto),
    )


def _reproduce(given: PortSubject, brought: ProblemKind, *, tuned: bool) -> str:
    words = ["kernelsmith", "optimize" if tuned else "port", given.kernel.name, "--to", given.target.name]
    words += [] if tuned or given.origin.name == DEFAULT_OPERATORS else ["--from", given.origin.name]
    words += [] if brought in (ProblemKind.missing, ProblemKind.words) else ["--problem", "problem.py"]
    return shlex.join([*words, "--repo", ".", "--auto"])


def _variant(bench: Bench, given: PortSubject, name: str, problem: Problem) -> CallVariant | AuthorRefusal:
    bench.context.note(f"tracing the problem, and writing its kernels: {name}")
    kernel = given.section if len(given.problems) == 1 else f"{given.section}_{name}"
    graph, size = _graph(bench, f"capture-{name}", problem), ""
    if len(given.problems) > 1:
        graph, size = unscaled(graph)
    answer = _proposed(problem, graph, kernel, given.target.style(kernel))
    if isinstance(answer, AuthorRefusal):
        return answer
    variant = CallVariant(kernel, problem, answer, host_source(size, problem))
    own = given.target.backward(given.kernel)
    if own is None:
        return variant
    further, style = parse(own), given.target.style(kernel, backward=True)
    back = _proposed(further, _graph(bench, f"capture-{name}-backward", further), f"{kernel}_gradient", style)
    return back if isinstance(back, AuthorRefusal) else with_backward(variant, back)


def _proposed(problem: Problem, graph: Graph, name: str, style: SourceStyle) -> Proposal | AuthorRefusal:
    return author_named(AuthorName.compiler).propose(Brief(name, problem, graph, style))


def _graph(bench: Bench, key: str, problem: Problem) -> Graph:
    captured = bench.gate.capture(key, problem.source).result
    if captured.graph is None:
        message = f"the problem cannot be used: {captured.error}"
        raise UserFacingError(Failure(FailureCode.problem, message, captured.fix, captured.line))
    return captured.graph


def _suited(bench: Bench, given: PortSubject) -> tuple[str, ...]:
    """Which language suits the operator of a new port, for targets that are languages."""
    name, problem = given.problems[0]
    if given.there is not None or given.target.name not in OTHERS:
        return ()
    return (suitability(problem, _graph(bench, f"capture-{name}", problem)).sentence(given.target.name),)


def _named(given: PortSubject, problem_name: str) -> str:
    kernel = given.kernel.name
    return kernel if len(given.problems) == 1 else f"{kernel}_{problem_name}"


def _parity(
    bench: Bench,
    given: PortSubject,
    name: str,
    problem: Problem,
    changes: tuple[FileChange, ...],
    dtypes: tuple[str, ...],
) -> Parity:
    name = _named(given, name)
    bench.context.note(f"proving values and gradients: {name}")
    verdict = bench.gate.verify(f"verify-{name}", problem, given.form(problem, changes), lasting=False, dtypes=dtypes)
    if verdict.status is not Status.passed:
        raise UserFacingError(replace(verdict_failure(verdict, "compiler"), fix=NOT_PUSHED))
    return Parity(name, problem.call or "", replace(verdict, checks=()), largest_error(verdict.checks), dtypes)


def _api(given: PortSubject, module: PortedModule | None, tree: Tree) -> tuple[PortedName, ...]:
    """What became of each public name of the file that is ported from."""
    contract = given.contract
    taken = ", ".join(parameter.source for parameter in contract.parameters)
    rows = [PortedName(contract.function, True, f"forward({taken}); {len(contract.gradients)} gradients")]
    if module is None:
        return tuple(rows)
    rows += [PortedName(symbol.name, symbol.source is not None, symbol.note) for symbol in module.symbols]
    rows += [
        PortedName(name, False, "not ported: the default stays")
        for name in given.origin.unported(given.kernel, contract, tree)
    ]
    return tuple(rows)


def _lowered(
    bench: Bench, source: str, variants: tuple[CallVariant, ...], tilings: tuple[KernelTiling, ...]
) -> tuple[LoweredKernel, ...]:
    """What the target's own compiler makes of the kernels, where it is installed; it is asked once a verdict has passed."""

    def ask() -> Any:
        python = Settings().ascend_python
        if python is None:
            return []
        bench.context.note("lowering the kernels with Triton-Ascend")
        return to_json(lowered(python, source, kernel_requests(source, variants, tilings)))

    return tuple(from_json(LoweredKernel, form) for form in bench.context.memo("lowered", ask))


def _overflows(target: PortTarget, kernels: tuple[LoweredKernel, ...]) -> tuple[str, ...]:
    fix = "if its compiler reports an overflow, raise the memory multiplier of its launcher"
    most = f"of the {target.buffer_bits:,} of the buffer"
    without = f"with double buffering: {fix}, or set `multibuffer=False`"
    return tuple(
        f"`{kernel.name}` may need {kernel.bits:,} bits {most}: {fix}."
        if kernel.bits > target.buffer_bits
        else f"`{kernel.name}` may need {kernel.buffered_bits:,} bits {most} {without}."
        for kernel in kernels
        if max(kernel.bits, kernel.buffered_bits) > target.buffer_bits
    )


def _risks(given: PortSubject, module: PortedModule, narrowed: Iterable[str]) -> tuple[str, ...]:
    """The failure patterns of ports that the source shows, each with its fix."""
    contract, risks = given.contract, []
    if contract.distributed:
        risks.append("`forward` unwraps distributed tensors and the port's does not: pass local tensors.")
    risks += [f"It takes only {text}; other values raise `NotImplementedError`." for text in narrowed]
    risks += [
        f"`{s.name}` is not exported, so direct callers use the default backend's kernels."
        for s in module.symbols
        if not s.source
    ]
    if "_wide[" in module.source and "_partials" in module.source:
        risks.append(
            "Rows wider than the unified buffer keep sums over rows in global memory, so backward is slower for them."
        )
    return tuple(risks)
