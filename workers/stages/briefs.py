"""What a model is told of a kernel that it shall write, change or diagnose. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gpu_runner.contracts import BenchmarkResult, Bound, Graph, Pass, Problem
from workers.authors.llm.protocol import ChangeBrief, Example, Idea, KernelBrief, Remark, Reply, VariantBrief
from workers.authors.protocol import Feedback, KernelPlan, Proposal
from workers.contracts import (
    FileChange,
    Goal,
    ModelReading,
    PlannedStrategy,
    Scope,
    SourceReading,
    Variant,
    format_scope,
)
from workers.layouts.dimensions import forward_operators
from workers.layouts.kernel_profile import by_likeness, likeness_of_problem, likeness_of_source, likenesses
from workers.layouts.protocol import ExistingKernel
from workers.stages.bench import CreateBench, ModifyBench, OptimizeBench, Profiled
from workers.stages.figures import compiled_figures, figures, hardware, notebook
from workers.stages.gains import measured_before
from workers.stages.headroom import Counted, bounds_of, counted, lines
from workers.strategies.catalog import STRATEGIES
from workers.strategies.order import ordered
from workers.strategies.pages import applying, page_of
from workers.strategies.protocol import Situation, Stands
from workers.strategies.reading import read_source
from workers.tree import Tree

MOST_EXAMPLES = 2
MOST_CHARACTERS = 40_000  # of an example


def kernel_brief(
    bench: CreateBench,
    remarks: tuple[Remark, ...] = (),
    before: str | None = None,
    measured: BenchmarkResult | None = None,
) -> KernelBrief:
    """The brief of a bench's kernel; ``measured`` is of the compiler's, where that is to be beaten."""
    compiled = bench.compiled()
    is_compiled = isinstance(compiled, Proposal)
    start = compiled.source if isinstance(compiled, Proposal) else None
    counts = counted(bench.problem, bench.graph)
    return KernelBrief(
        name=bench.name,
        path=bench.layout.kernel_path(bench.name, bench.tree, bench.style().target),
        problem=bench.problem,
        graph=bench.graph,
        style=bench.style(),
        examples=examples(bench),
        compiled=start,
        refused=None if is_compiled else compiled.sentence,  # type: ignore[union-attr]
        ideas=ideas_of(bench, counts, start, measured),
        counted=lines(counts),
        measured="" if measured is None else compiled_figures(measured),
        hardware=hardware(bench.host, bench.context.request.options.gpu),
        remarks=remarks,
        before=before,
    )


def examples(bench: CreateBench) -> tuple[Example, ...]:
    """The kernels of the repository that are most like the new one."""
    existing = bench.layout.existing(bench.tree)
    known = likenesses({name: bench.tree.read(path) or "" for name, path in existing.items()})
    ranked = by_likeness(likeness_of_problem(bench.name, bench.problem, bench.graph), known)
    chosen: list[Example] = []
    for name in ranked:
        text = bench.tree.read(existing[name]) or ""
        if len(text) <= MOST_CHARACTERS and existing[name] not in {example.path for example in chosen}:
            chosen.append(Example(existing[name], text, "a kernel of this repository that is like the new one"))
        if len(chosen) == MOST_EXAMPLES:
            break
    return tuple(chosen)


def variant_brief(
    bench: OptimizeBench,
    known: Profiled,
    source: str,
    parent: Variant | None = None,
    earlier: Sequence[Variant] = (),
    remarks: tuple[Remark, ...] = (),
) -> VariantBrief:
    """The brief of the next change of a file, ``source``: what was measured, what was tried, and which ideas hold."""
    options = bench.context.request.options
    goal, scope = options.goal, options.scope
    return VariantBrief(
        name=bench.kernel.name,
        path=bench.kernel.path,
        source=source,
        problem=bench.problem,
        goal=goal.value,
        scope=format_scope(scope, options.regime),
        measured=figures(known, goal, scope, parent),
        tried=notebook(earlier),
        ideas=(*(idea(p) for p in known.strategies if not p.repeats), *warnings_of(source, bench.problem)),
        diagnosis="" if known.diagnosis is None else diagnosis_text(known.diagnosis),
        hardware=hardware(known.profile.host),
        remarks=remarks,
    )


def diagnosis_text(diagnosis: ModelReading) -> str:
    """A diagnosis as text."""
    evidence = "\n".join(f"- {line}" for line in diagnosis.evidence)
    steps = "\n".join(f"{number}. {step}" for number, step in enumerate(diagnosis.steps, 1))
    return f"{diagnosis.bottleneck}\n\nBy:\n{evidence}\n\nTo try:\n{steps}"


WANTED = (
    "This problem was given with the request. Afterwards the kernel computes what it says, and is called as its CALL says; "
    "the change is proved against it:"
)
DONE = "Earlier reviews asked for this; it is done in the files as they are, and must stay:"


def change_brief(
    bench: ModifyBench,
    remarks: tuple[Remark, ...] = (),
    done: tuple[Feedback, ...] = (),
    before: tuple[FileChange, ...] = (),
    problem: str | None = None,
) -> ChangeBrief:
    """The brief of a first proposal.

    ``before`` is the last proposal's change and ``problem`` the one that came with it, None before there was one;
    ``done`` are the review points that it knew.
    """
    changeable = bench.changeable
    code_paths = [path for path in changeable.paths if path not in changeable.tests]
    return ChangeBrief(
        name=bench.kernel.name,
        request=request_text(bench, done),
        files=tuple((path, bench.text(path)) for path in code_paths),
        tests=tuple((path, bench.text(path)) for path in changeable.tests),
        problem=bench.problem.source,
        examples=neighbours(bench),
        remarks=remarks,
        before=tuple((c.path, c.text or "") for c in before if c.path in changeable.paths),
        carried=problem if bench.wanted is None else None,
    )


def neighbours(bench: ModifyBench) -> tuple[Example, ...]:
    """The kernels of the library that are most like this one, the nearest first."""
    existing = bench.layout.existing(bench.tree)
    sources = {name: bench.text(path) for name, path in existing.items() if name != bench.kernel.name}
    likeness = likeness_of_source(bench.kernel.name, bench.text(bench.kernel.path))
    names = [name for name in by_likeness(likeness, likenesses(sources)) if len(sources[name]) <= MOST_CHARACTERS]
    why = "a kernel of this repository that is like this one"
    return tuple(Example(existing[name], sources[name], why) for name in names[:MOST_EXAMPLES])


def request_text(bench: ModifyBench, done: tuple[Feedback, ...]) -> str:
    """What is asked for: a person's words, with the problems that belong to them and what earlier reviews asked for."""
    parts = [bench.words]
    if bench.wanted is not None:
        parts.append(f"{WANTED}\n\n{bench.wanted.source}")
    if done:
        parts.append("\n".join([DONE, *(f"- {item.text}" for item in done)]))
    return "\n\n".join(parts)


MOST_QUOTED = 300  # characters of a line
MOST_POINT = 90  # characters of a point, where it is told again
HEARD = "heard"  # in a stage's output: of how many points its result knows


def new_points(feedback: Sequence[Feedback], earlier: dict[str, Any] | None) -> tuple[Feedback, ...]:
    """Review points since the stage's last result; all of them where that was the first to get any."""
    known = 0 if earlier is None else int(earlier.get(HEARD, 0))
    return tuple(point for point in feedback[known:] if point.text.strip())


def remarks_of(points: Sequence[Feedback], tree: Tree) -> tuple[Remark, ...]:
    """Points as remarks, numbered from 1, those on a line with the line in ``tree``."""
    return tuple(
        Remark(number, point.text, point.path, point.line, _line(tree, point)) for number, point in enumerate(points, 1)
    )


def answered(remarks: Sequence[Remark], replies: Sequence[Reply]) -> tuple[str, ...]:
    """Each point with what was done about it, a sentence each; all of it is untrusted text."""
    texts = {reply.number: reply.text for reply in replies}
    return tuple(f"{_bench(remark)}: {texts.get(remark.number, NO_REPLY)}" for remark in remarks)


NO_REPLY = "the model said nothing about it."


def _bench(remark: Remark) -> str:
    words = " ".join(remark.text.split()).replace("`", "'")
    shown = words if len(words) <= MOST_POINT else words[: MOST_POINT - 1].rstrip() + "…"
    if remark.path is None:
        return f"“{shown}”"
    path = remark.path.replace("`", "'")
    return f"`{path}{f':{remark.line}' if remark.line else ''}`, “{shown}”"


def _line(tree: Tree, point: Feedback) -> str | None:
    if point.path is None or point.line is None:
        return None
    lines = (tree.read(point.path) or "").splitlines()
    return lines[point.line - 1][:MOST_QUOTED] if 1 <= point.line <= len(lines) else None


MOST_IDEAS = 6
MOST_ADVICE = 800  # characters of a page
UNMEASURED = BenchmarkResult((), predicted=True, gpu=None, bandwidth_gbps=None)


def ideas_of(
    bench: CreateBench, counts: Sequence[Counted], start: str | None, measured: BenchmarkResult | None
) -> tuple[Idea, ...]:
    """The entries whose triggers hold, what may gain most first; ``measured`` is of the start. Strategies are of Triton."""
    if bench.context.request.options.to is not None:
        return warnings_of(start or "", bench.problem)
    situation = situation_of_new(bench, counts, start, measured)
    before = measured_before(bench.context, bench.name, dict(bench.host).get("gpu"), bench.problem.workloads)
    ideas = (idea(planned, situation.stands) for planned in ordered(situation, before)[:MOST_IDEAS])
    return (*ideas, *warnings_of(start or "", bench.problem))


def situation_of_new(
    bench: CreateBench, counts: Sequence[Counted], start: str | None, measured: BenchmarkResult | None
) -> Situation:
    """The situation before a kernel is written: only its problem and its start exist."""
    style, path, source = bench.style(), bench.layout.kernel_path(bench.name, bench.tree), start or ""
    return Situation(
        kernel=ExistingKernel(bench.name, path, "", (style.function_class,), None, None),
        problem=bench.problem,
        graph=bench.graph,
        source=source,
        original=source,
        reading=read_source(path, source) if start else _unread(bench, path),
        benchmark=UNMEASURED if measured is None else measured,
        bounds=(None if measured is None else _measured_bounds(measured)) or bounds_of(counts),
        goal=Goal.speed,
        scope=Scope.general,
        overwrites=bench.problem.mutates,
        tree=bench.tree,
        style=style,
        author=bench.author,
        stands=Stands.start if start else Stands.nothing,
    )


def idea(planned: PlannedStrategy, stands: Stands = Stands.kernel) -> Idea:
    """An entry of the catalog whose trigger applies."""
    expected = f"It is expected to make the kernel {planned.gain}"
    if planned.gain is None:
        expected = "What it gains is not known"
    elif stands is Stands.nothing:
        expected = f"A kernel with it is expected to be {planned.gain} as one without"
    pages = (page_of(one.document) for one in STRATEGIES if one.id == planned.strategy)
    advice = "".join(f" {_shortened(page.sections['Mechanism'])} {page.counter}" for page in pages)
    return Idea(planned.title, f"{planned.trigger} {expected}; against: {planned.bound.value}.{advice}")


def warnings_of(source: str, problem: Problem) -> tuple[Idea, ...]:
    """The pages on anti-patterns and on the language whose rules hold for a file."""
    return tuple(
        Idea(page.title, f"The file calls `{call}`. {page.advice}") for page, call in applying(source, problem)
    )


def _shortened(text: str) -> str:
    """The sentences of a text that fit."""
    return text if len(text) <= MOST_ADVICE else text[: text.rindex(". ", 0, MOST_ADVICE) + 1]


def _unread(bench: CreateBench, path: str) -> SourceReading:
    return SourceReading(path, plan_of_graph(bench.problem, bench.graph).tier, (), (), in_place=False, autotuned=False)


def _measured_bounds(measured: BenchmarkResult) -> tuple[tuple[Pass, Bound], ...]:
    """What the longest floor of each pass is made of."""
    known = sorted((row.floor_us, row.timed_pass, row.bound) for row in measured.rows if row.floor_us and row.bound)
    return tuple({timed_pass: Bound(bound) for _, timed_pass, bound in known}.items())


REDUCTIONS = frozenset({"sum", "mean", "amax", "amin", "argmax", "cumsum", "sort", "var"})
PRODUCTS = frozenset({"dot", "matmul", "conv"})
SENSITIVE = frozenset(
    {"exp", "exp2", "log", "log2", "log1p", "expm1", "rsqrt", "sqrt", "tanh", "sigmoid", "erf", "pow"}
)
OPEN = "as the model author writes it"


def plan_of_graph(problem: Problem, graph: Graph) -> KernelPlan:
    """A kernel's plan as far as the graph determines it; what only its author knows is named as open."""
    operators = forward_operators(graph)
    reduces = bool(operators & (REDUCTIONS | PRODUCTS))
    tier = 3 if operators & PRODUCTS else 2 if reduces else 1
    gradients = tuple((spec.name, "by the chain rule from the reference") for spec in problem.inputs if spec.grad)
    return KernelPlan(
        family={1: "element-wise", 2: "reduction", 3: "fused"}[tier],
        tier=tier,
        kernels=(),
        forward_formula="as the reference computes it",
        gradient_formulas=gradients,
        saved_tensors=(),
        recomputed=OPEN,
        precision_sensitive_ops=tuple(sorted((operators & SENSITIVE) | (operators & REDUCTIONS))),
        grid_dimensions="1D",
        grid_description=OPEN,
        block_size_source=OPEN,
        needs_sm_parallelism=False,
        forward_bytes="0",
        backward_bytes="0",
        forward_flops="0",
        backward_flops="0",
    )
