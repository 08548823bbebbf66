"""Briefs as questions. Pure.

One shape for all: what the questions of a job share comes first and is marked stable, then what those of a review share, then what
those that are asked at once share, so that each is answered from a cached prefix; the task with its angle comes last.
"""

from __future__ import annotations

from workers.authors.llm import forms, telling
from workers.authors.llm.marks import Kind, quoted
from workers.authors.llm.prompts import EXAMPLES, LANGUAGE, SYSTEM, Prompt, prompt
from workers.authors.llm.protocol import ChangeBrief, KernelBrief, ProblemBrief, Task, VariantBrief
from workers.authors.llm.telling import joined
from workers.authors.llm.variations import CHANGE, KERNEL, VARIANT, Variation, variation_of
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
}


def problem_question(brief: ProblemBrief) -> Question:
    """Ask for a problem file, from words or from code that does not stand alone."""
    kind = Kind.code if brief.code else Kind.request
    request = joined(
        f"# What is asked for, under the name `{telling.word(brief.name)}`",
        quoted(kind, brief.origin or "the command", brief.request),
    )
    before = quoted(Kind.problem, "the problem as it was", brief.before) if brief.before else ""
    changing = joined(
        prompt(Task.analyze.value).text,
        joined("# The problem as it was", before) if before else "",
        telling.failed(brief.failed, with_source=brief.failed is not None and brief.failed.source != brief.before),
        telling.remarks(brief.remarks),
    )
    return _question(Task.analyze, forms.PROBLEM, (telling.examples(brief.beside), request), changing, None)


def kernel_question(brief: KernelBrief, variation: int = 0, at_once: int = 1) -> Question:
    """Ask for a kernel module: generate, repair where a proposal failed, revise where a review said something.

    ``at_once`` is how many questions are made of this brief: what they share beside the job's is marked where there are several.
    """
    if brief.failed is not None:
        task = Task.repair
    else:
        task = Task.revise if brief.remarks else Task.generate
    angle = variation_of(KERNEL, variation)
    before = ""
    if brief.before and (brief.failed is None or brief.failed.source != brief.before):
        before = joined("# The module under review", quoted(Kind.proposal, brief.path, brief.before))
    of_the_job = joined(
        telling.hardware(brief.hardware),
        telling.form_of(brief),
        telling.examples(brief.examples),
        telling.problem(brief.problem, brief.graph),
        telling.counted(brief.counted),
        _compiled(brief),
        telling.measured(brief.measured),
        telling.ideas(brief.ideas),
    )
    of_the_review = joined(before, telling.remarks(brief.remarks))
    asked = (telling.failed(brief.failed), prompt(task.value), angle)
    return _candidate(task, forms.KERNEL, (of_the_job, of_the_review), asked, at_once)


def _compiled(brief: KernelBrief) -> str:
    if brief.compiled:
        text = "A compiler wrote this module for the same problem. It is right, but not always as fast as it could be."
        text += BEATEN if brief.measured.strip() else ""
        return joined("# The compiled kernel", text, quoted(Kind.compiled, "the compiler author", brief.compiled))
    if brief.refused:
        return joined(
            "# Why the compiler has no kernel for it", quoted(Kind.note, "the compiler author", brief.refused)
        )
    return ""


def change_question(brief: ChangeBrief, variation: int = 0, at_once: int = 1) -> Question:
    """Ask for a targeted change of files that stand, and tests for it; ``at_once`` as for a kernel."""
    of_the_job = joined(
        telling.examples(brief.examples),
        telling.files("The files that may be edited", brief.files),
        telling.files("The test files, which may only be added to", brief.tests),
        joined("# The problem today", quoted(Kind.problem, "the problem file", brief.problem)) if brief.problem else "",
        joined(
            "# What is asked for",
            quoted(Kind.request, f"the command for {telling.word(brief.name)}", brief.request),
        ),
    )
    last = joined(
        telling.files("The files as the last proposal left them: edits begin here", brief.before),
        joined(CARRIED, quoted(Kind.problem, "the last proposal's problem", brief.carried)) if brief.carried else "",
        telling.failed(
            brief.failed,
            with_source=brief.failed is not None and brief.failed.source not in dict(brief.before).values(),
        ),
    )
    asked = (last, prompt(Task.modify.value), variation_of(CHANGE, variation))
    return _candidate(Task.modify, forms.CHANGE, (of_the_job, telling.remarks(brief.remarks)), asked, at_once)


def diagnosis_question(brief: VariantBrief) -> Question:
    """Ask what bounds a kernel."""
    changing = joined(prompt(Task.diagnose.value).text, _goal(brief), telling.tried(brief.tried))
    return _question(Task.diagnose, forms.DIAGNOSIS, _kernel_as_it_is(brief), changing, None)


def variant_question(brief: VariantBrief, variation: int = 0) -> Question:
    """Ask for one change that makes a kernel faster."""
    angle = variation_of(VARIANT, variation)
    diagnosis = (
        joined("# The diagnosis", quoted(Kind.note, "the diagnosis", brief.diagnosis))
        if brief.diagnosis.strip()
        else ""
    )
    changing = joined(
        prompt(Task.optimize.value).filled(angle=angle.angle, path=telling.word(brief.path)),
        _goal(brief),
        diagnosis,
        telling.tried(brief.tried),
        telling.failed(brief.failed),
        telling.remarks(brief.remarks),
    )
    return _question(Task.optimize, forms.VARIANT, _kernel_as_it_is(brief), changing, angle)


def _goal(brief: VariantBrief) -> str:
    return joined("# The goal", quoted(Kind.request, "the command", f"goal: {brief.goal}\nscope: {brief.scope}"))


def _kernel_as_it_is(brief: VariantBrief) -> tuple[str, ...]:
    return (
        joined(
            telling.hardware(brief.hardware), telling.examples(brief.examples), telling.problem(brief.problem, None)
        ),
        joined(
            telling.files("The kernel's file, to start from", [(brief.path, brief.source)]),
            telling.measured(brief.measured),
            telling.ideas(brief.ideas),
        ),
    )


def _candidate(
    task: Task, form: Form, stable: tuple[str, ...], asked: tuple[str, Prompt, Variation], at_once: int
) -> Question:
    """One of several questions: what came last and the task are the same in all that are asked at once, the angle is its own."""
    last, told, angle = asked
    shared, own = joined(last, told.start), told.filled_end(angle=angle.angle)
    if at_once > 1:
        return _question(task, form, (*stable, shared), own, angle)
    return _question(task, form, stable, joined(shared, own), angle)


def _question(task: Task, form: Form, stable: tuple[str, ...], changing: str, angle: Variation | None) -> Question:
    answer_tokens, thinking_tokens = TOKENS[task]
    # Another tool is another prefix of the cache, so that tasks which write no kernel gain nothing by how one is written.
    names = (SYSTEM,) if task in (Task.analyze, Task.diagnose) else (SYSTEM, LANGUAGE, EXAMPLES)
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
