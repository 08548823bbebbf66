"""What a model is told of a change: the files, the problem, kernels to learn from, what a review and what a failure said. Pure."""

from __future__ import annotations

from workers.authors.llm.protocol import ChangeBrief, Example, Remark
from workers.authors.protocol import Feedback
from workers.contracts import FileChange
from workers.layouts.kernel_profile import by_likeness, likeness_of_source, likenesses
from workers.stages.modifying.preflight import Subject

MOST_EXAMPLES = 2
MOST_CHARACTERS = 40_000  # of an example
WANTED = (
    "This problem was given with the request. Afterwards the kernel computes what it says, and is called as its CALL says; "
    "the change is proved against it:"
)
DONE = "Earlier reviews asked for this; it is done in the files as they are, and must stay:"


def change_brief(
    subject: Subject,
    remarks: tuple[Remark, ...] = (),
    done: tuple[Feedback, ...] = (),
    before: tuple[FileChange, ...] = (),
    problem: str | None = None,
) -> ChangeBrief:
    """Give the brief of a first proposal.

    ``before`` is what the last proposal changed and ``problem`` the one that came with it, nothing before there was one;
    ``done`` is what reviews asked for that it knew.
    """
    changeable = subject.changeable
    code_paths = [path for path in changeable.paths if path not in changeable.tests]
    return ChangeBrief(
        name=subject.standing.name,
        request=request_text(subject, done),
        files=tuple((path, subject.text(path)) for path in code_paths),
        tests=tuple((path, subject.text(path)) for path in changeable.tests),
        problem=subject.problem.source,
        examples=examples(subject),
        remarks=remarks,
        before=tuple((c.path, c.text or "") for c in before if c.path in changeable.paths),
        carried=problem if subject.wanted is None else None,
    )


def examples(subject: Subject) -> tuple[Example, ...]:
    """Give the kernels of the library that are most like this one, the nearest first."""
    existing = subject.layout.existing(subject.tree)
    sources = {name: subject.text(path) for name, path in existing.items() if name != subject.standing.name}
    likeness = likeness_of_source(subject.standing.name, subject.text(subject.standing.path))
    names = [name for name in by_likeness(likeness, likenesses(sources)) if len(sources[name]) <= MOST_CHARACTERS]
    why = "a kernel of this repository that is like this one"
    return tuple(Example(existing[name], sources[name], why) for name in names[:MOST_EXAMPLES])


def request_text(subject: Subject, done: tuple[Feedback, ...]) -> str:
    """Give what is asked for: a person's words, with the problems that belong to them and what earlier reviews asked for."""
    parts = [subject.words]
    if subject.wanted is not None:
        parts.append(f"{WANTED}\n\n{subject.wanted.source}")
    if done:
        parts.append("\n".join([DONE, *(f"- {item.text}" for item in done)]))
    return "\n\n".join(parts)
