"""Briefs as questions. Pure.

One shape for all: what the questions of a job share comes first and is marked stable, then what those of a review share, then what
those that are asked at once share, so that each is answered from a cached prefix; the task with its angle comes last.
"""

from __future__ import annotations

from dataclasses import dataclass

from workers.authors.llm import forms
from workers.authors.llm.prompts import (
    LANGUAGES,
    SYSTEM,
    Prompt,
    QuoteKind,
    counted,
    examples,
    failed,
    files,
    form_of,
    hardware,
    ideas,
    joined,
    measured,
    problem,
    prompt,
    quoted,
    remarks,
    tried,
    word,
)
from workers.authors.llm.protocol import (
    ChangeBrief,
    CompositionBrief,
    CutBrief,
    KernelBrief,
    ProblemBrief,
    Task,
    VariantBrief,
)
from workers.models.protocol import Form, Message, Part, Question, Role

CARRIED = (
    "# The problem that came with the last proposal\n\nIt holds for the next one too, unless that comes with another."
)
BEATEN = (
    " Its times are below: start from it, and write one that is faster over these sizes and slower at none; "
    "any other is dropped."
)
# Tokens of an answer, and of the thinking before it; settings may change them for each purpose.
TOKENS = {
    Task.analyze: (12_000, 12_000),
    Task.generate: (32_000, 12_000),
    Task.repair: (32_000, 12_000),
    Task.revise: (32_000, 12_000),
    Task.modify: (32_000, 12_000),
    Task.diagnose: (4_000, 8_000),
    Task.optimize: (32_000, 12_000),
    Task.extract: (4_000, 8_000),
    Task.compose: (32_000, 12_000),
}
WRITING = frozenset({Task.generate, Task.repair, Task.revise, Task.modify, Task.optimize})  # of kernels


def problem_question(brief: ProblemBrief) -> Question:
    """Ask for a problem file, from words or from code that does not stand alone."""
    kind = QuoteKind.code if brief.code else QuoteKind.request
    request = joined(
        f"# What is asked for, under the name `{word(brief.name)}`",
        quoted(kind, brief.origin or "the command", brief.request),
    )
    before = quoted(QuoteKind.problem, "the problem as it was", brief.before) if brief.before else ""
    changing = joined(
        prompt(Task.analyze.value).text,
        joined("# The problem as it was", before) if before else "",
        failed(brief.failed, with_source=brief.failed is not None and brief.failed.source != brief.before),
        remarks(brief.remarks),
    )
    return _question(Task.analyze, forms.PROBLEM, (examples(brief.beside), request), changing, None)


def kernel_question(brief: KernelBrief, variation: int = 0, at_once: int = 1) -> Question:
    """Ask for a kernel module: generate, repair where a proposal failed, revise after a review.

    ``at_once`` is the number of questions of this brief; where there are several, what they share is marked for the cache.
    """
    if brief.failed is not None:
        task = Task.repair
    else:
        task = Task.revise if brief.remarks else Task.generate
    angle = variation_of(KERNEL, variation)
    before = ""
    if brief.before and (brief.failed is None or brief.failed.source != brief.before):
        before = joined("# The module under review", quoted(QuoteKind.proposal, brief.path, brief.before))
    of_the_job = joined(
        hardware(brief.hardware),
        form_of(brief),
        examples(brief.examples),
        problem(brief.problem, brief.graph),
        counted(brief.counted),
        _compiled(brief),
        measured(brief.measured),
        ideas(brief.ideas),
    )
    of_the_review = joined(before, remarks(brief.remarks))
    asked = (failed(brief.failed), prompt(task.value), angle)
    return _candidate(task, forms.KERNEL, (of_the_job, of_the_review), asked, at_once, brief.style.target)


def _compiled(brief: KernelBrief) -> str:
    if brief.compiled:
        text = "A compiler wrote this module for the same problem. It is right, but not always as fast as it could be."
        text += BEATEN if brief.measured.strip() else ""
        return joined("# The compiled kernel", text, quoted(QuoteKind.compiled, "the compiler author", brief.compiled))
    if brief.refused:
        return joined(
            "# Why the compiler has no kernel for it", quoted(QuoteKind.note, "the compiler author", brief.refused)
        )
    return ""


def change_question(brief: ChangeBrief, variation: int = 0, at_once: int = 1) -> Question:
    """Ask for a targeted change of files that stand, and tests for it; ``at_once`` as for a kernel."""
    of_the_job = joined(
        examples(brief.examples),
        files("The files that may be edited", brief.files),
        files("The test files, which may only be added to", brief.tests),
        joined("# The problem today", quoted(QuoteKind.problem, "the problem file", brief.problem))
        if brief.problem
        else "",
        joined(
            "# What is asked for",
            quoted(QuoteKind.request, f"the command for {word(brief.name)}", brief.request),
        ),
    )
    last = joined(
        files("The files as the last proposal left them: edits begin here", brief.before),
        joined(CARRIED, quoted(QuoteKind.problem, "the last proposal's problem", brief.carried))
        if brief.carried
        else "",
        failed(
            brief.failed,
            with_source=brief.failed is not None and brief.failed.source not in dict(brief.before).values(),
        ),
    )
    asked = (last, prompt(Task.modify.value), variation_of(CHANGE, variation))
    return _candidate(Task.modify, forms.CHANGE, (of_the_job, remarks(brief.remarks)), asked, at_once)


def diagnosis_question(brief: VariantBrief) -> Question:
    """Ask what bounds a kernel."""
    changing = joined(prompt(Task.diagnose.value).text, _goal(brief), tried(brief.tried))
    return _question(Task.diagnose, forms.DIAGNOSIS, _kernel_as_it_is(brief), changing, None)


def variant_question(brief: VariantBrief, variation: int = 0) -> Question:
    """Ask for one change that makes a kernel faster."""
    angle = variation_of(VARIANT, variation)
    diagnosis = (
        joined("# The diagnosis", quoted(QuoteKind.note, "the diagnosis", brief.diagnosis))
        if brief.diagnosis.strip()
        else ""
    )
    changing = joined(
        prompt(Task.optimize.value).filled(angle=angle.angle, path=word(brief.path)),
        _goal(brief),
        diagnosis,
        tried(brief.tried),
        failed(brief.failed),
        remarks(brief.remarks),
    )
    return _question(Task.optimize, forms.VARIANT, _kernel_as_it_is(brief), changing, angle)


def cut_question(brief: CutBrief) -> Question:
    """Ask what shall change in a cut."""
    of_the_cut = joined(
        "# The model",
        quoted(QuoteKind.code, "the model's file", brief.model),
        "# The cut",
        quoted(QuoteKind.note, "the table of parts", brief.listed),
        quoted(QuoteKind.note, "what stays with torch", brief.kept),
        quoted(QuoteKind.graph, "the cut as a flowchart", brief.picture),
    )
    return _question(Task.extract, forms.CUT, (of_the_cut,), prompt(Task.extract.value).text, None)


def composition_question(brief: CompositionBrief) -> Question:
    """Ask for the function that calls proved parts."""
    of_the_program = joined(
        "# The model",
        quoted(QuoteKind.code, "the model's file", brief.model),
        "# What the parts compute",
        quoted(QuoteKind.code, "their references", brief.parts),
        "# The function as it is",
        quoted(QuoteKind.code, "composed by the cut", brief.entry),
    )
    changing = joined(failed(brief.failed), prompt(Task.compose.value).text)
    return _question(Task.compose, forms.COMPOSITION, (of_the_program,), changing, None)


def _goal(brief: VariantBrief) -> str:
    return joined("# The goal", quoted(QuoteKind.request, "the command", f"goal: {brief.goal}\nscope: {brief.scope}"))


def _kernel_as_it_is(brief: VariantBrief) -> tuple[str, ...]:
    return (
        joined(hardware(brief.hardware), examples(brief.examples), problem(brief.problem, None)),
        joined(
            files("The kernel's file, to start from", [(brief.path, brief.source)]),
            measured(brief.measured),
            ideas(brief.ideas),
        ),
    )


def _candidate(
    task: Task,
    form: Form,
    stable: tuple[str, ...],
    asked: tuple[str, Prompt, Variation],
    at_once: int,
    to: str = "gpu",
) -> Question:
    """One of several questions: what came last and the task are the same in all that are asked at once, the angle is its own."""
    last, messages, angle = asked
    shared, own = joined(last, messages.start), messages.filled_end(angle=angle.angle)
    if at_once > 1:
        return _question(task, form, (*stable, shared), own, angle, to)
    return _question(task, form, stable, joined(shared, own), angle, to)


def _question(
    task: Task, form: Form, stable: tuple[str, ...], changing: str, angle: Variation | None, to: str = "gpu"
) -> Question:
    answer_tokens, thinking_tokens = TOKENS[task]
    # Another tool is another prefix of the cache, so that tasks which write no kernel gain nothing by how one is written.
    names = (SYSTEM, *LANGUAGES[to]) if task in WRITING else (SYSTEM,)
    shared = "\n\n".join(prompt(name).text for name in names)
    parts = [Part(text + "\n\n", stable=True) for text in stable if text.strip()]
    return Question(
        purpose=task.value,
        system=(Part(shared, stable=True),),
        messages=(Message(Role.user, (*parts, Part(changing))),),
        form=form,
        most_tokens=answer_tokens,
        thinking_tokens=thinking_tokens,
        temperature=None if angle is None else angle.temperature,
    )


@dataclass(frozen=True)
class Variation:
    """One angle on a question. ``temperature`` goes to models that take one, which are those that do not think."""

    angle: str
    temperature: float | None = None


# The first is what a single candidate gets.
KERNEL = (
    Variation("Write the kernel that you consider best: right first, then few bytes through memory."),
    Variation(
        "Where a compiled kernel is given, start from it, and change only what you can give a reason for. Where "
        "none is given, write "
        "the simplest kernel that is right.",
        0.3,
    ),
    Variation(
        "Move every tensor through memory as few times as possible: one pass where a row fits a block, "
        "statistics and result in one "
        "kernel, the gradients of all inputs in one pass."
    ),
    Variation(
        "Write the simplest kernel that is right: one program for each row or block, no settings that need tuning.", 0.5
    ),
    Variation(
        "Recompute in backward instead of saving: save the inputs and at most one number for each row, and say "
        "in the plan what it costs."
    ),
    Variation(
        "Launch about one program for each multiprocessor, each over many tiles, with its own partial sums where rows are summed.",
        0.8,
    ),
    Variation(
        "Write one path for short rows and one for wide rows: several rows in a program below 2 KiB, a loop over "
        "blocks above 64 KiB."
    ),
    Variation(
        "Start with the formula: rewrite it so that fewer values are live or fewer reductions are needed, show "
        "in the docstring that it "
        "is the same, and write the kernel for that.",
        1.0,
    ),
)
CHANGE = (
    Variation("Make the change that a maintainer of these files would make: the smallest one that does what is asked."),
    Variation("Make it where the values are loaded and stored; leave the structure of the kernels alone.", 0.3),
    Variation(
        "Make it a constexpr branch of the existing kernels, so that calls without it compile to the same code as before."
    ),
    Variation("Make it on the host side as far as possible, and in the kernels only as far as needed.", 0.5),
    Variation("Make it a kernel of its own next to the existing ones, chosen by the function that launches."),
    Variation("Start with the gradients: work out what they become, then change backward, then forward.", 0.8),
    Variation("Start with the tests: write the case that fails today, then the change that makes it pass."),
    Variation("Question the obvious place for the change, and choose another one if the change is smaller there.", 1.0),
)
VARIANT = (
    Variation("Take the change from which you expect the most, by the measurement."),
    Variation("Take the change that removes the most bytes: a pass, a saved tensor, a cast, a temporary.", 0.3),
    Variation("Take a change of the launch: programs, rows in a program, warps, stages; leave the arithmetic alone."),
    Variation("Take a change of how a row is walked: one pass, blocks, or several rows together.", 0.5),
    Variation("Take a change of backward: what is saved, what is recomputed, how gradients are summed."),
    Variation(
        "Take a change of the order of work, so that what was read last is used next and stays in the cache.", 0.8
    ),
    Variation("Take a change of the formula that is exact and saves reductions or live values."),
    Variation("Take a change unlike anything tried so far.", 1.0),
)


def variation_of(table: tuple[Variation, ...], number: int) -> Variation:
    """A variation; past the end of the table it begins again."""
    return table[number % len(table)]
