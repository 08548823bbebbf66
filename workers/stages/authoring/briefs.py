"""What a model is told of a new kernel: its problem, the kernels most like it, the compiler's if any, and what may help. Pure."""

from __future__ import annotations

from gpu_runner.contracts import BenchmarkResult
from workers.authors.llm.protocol import Example, KernelBrief, Remark
from workers.authors.protocol import Proposal
from workers.layouts.kernel_profile import by_likeness, likeness_of_problem, likenesses
from workers.stages.authoring.beside import figures
from workers.stages.authoring.catalog import ideas_of
from workers.stages.authoring.counted import counted, lines
from workers.stages.workbench import Workbench

MOST_EXAMPLES = 2
EXAMPLE_CHARACTERS = 40_000


def kernel_brief(
    bench: Workbench,
    remarks: tuple[Remark, ...] = (),
    before: str | None = None,
    measured: BenchmarkResult | None = None,
) -> KernelBrief:
    """Give the brief of a bench's kernel; ``measured`` is of the compiler's, where that is to be beaten."""
    compiled = bench.compiled()
    written = isinstance(compiled, Proposal)
    start = compiled.source if isinstance(compiled, Proposal) else None
    counts = counted(bench.problem, bench.graph)
    return KernelBrief(
        name=bench.name,
        path=bench.layout.kernel_path(bench.name, bench.tree),
        problem=bench.problem,
        graph=bench.graph,
        style=bench.style(),
        examples=examples(bench),
        compiled=start,
        refused=None if written else compiled.sentence,  # type: ignore[union-attr]
        ideas=ideas_of(bench, counts, start, measured),
        counted=lines(counts),
        measured="" if measured is None else figures(measured),
        hardware=bench.hardware,
        remarks=remarks,
        before=before,
    )


def examples(bench: Workbench) -> tuple[Example, ...]:
    """Give the kernels of the repository that are most like the new one."""
    existing = bench.layout.existing(bench.tree)
    known = likenesses({name: bench.tree.read(path) or "" for name, path in existing.items()})
    ranked = by_likeness(likeness_of_problem(bench.name, bench.problem, bench.graph), known)
    found: list[Example] = []
    for name in ranked:
        text = bench.tree.read(existing[name]) or ""
        if len(text) <= EXAMPLE_CHARACTERS and existing[name] not in {example.path for example in found}:
            found.append(Example(existing[name], text, "a kernel of this repository that is like the new one"))
        if len(found) == MOST_EXAMPLES:
            break
    return tuple(found)
