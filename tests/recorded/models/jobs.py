"""The jobs that are recorded: what is asked for, what a person decides, and what a model answers to which question."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.recorded.models.written import gated, reglu, relu_squared, scaled_residual
from workers.authors.llm import questions

FOLDER = Path(__file__).parent
# Gives the answer to a question: the tool that it asks for, its text, and its number in the job, from 0.
Answers = Callable[[str, str, int], dict[str, Any]]


@dataclass(frozen=True)
class Round:
    """Questions that are asked at once: how many, and what for in docs/models.md."""

    questions: int
    title: str


@dataclass(frozen=True)
class RecordedCommand:
    """One command that asks a model. ``{}`` in its arguments is the folder of its files."""

    name: str
    title: str  # in docs/models.md
    arguments: tuple[str, ...]
    rounds: tuple[Round, ...]
    answers: Answers
    files: dict[str, str] = field(default_factory=dict)
    typed: str = ""  # what a person says at the checkpoints

    @property
    def questions(self) -> int:
        """Give how many questions it asks."""
        return sum(each.questions for each in self.rounds)

    def recording(self, folder: Path = FOLDER) -> Path:
        """Give where its recording is kept."""
        return folder / f"{self.name}.tar.gz"


def angle_of(table: tuple[questions.Variation, ...], text: str) -> int:
    """Give the number of the angle that a question has.

    Raises:
        LookupError: it has none of the table.
    """
    for number, variation in enumerate(table):
        if variation.angle in text:
            return number
    raise LookupError("the question has no angle of the table")


def _kernel(source: str, plan: dict[str, Any], *replies: str) -> dict[str, Any]:
    return {"source": source, "plan": plan, "replies": [{"number": n, "text": t} for n, t in enumerate(replies, 1)]}


def _words(tool: str, _text: str, _number: int) -> dict[str, Any]:
    if tool == "give_problem":
        return {"source": reglu.PROBLEM, "assumptions": list(reglu.ASSUMPTIONS), "replies": []}
    return _kernel(reglu.KERNEL, reglu.PLAN)


def _candidates(_tool: str, text: str, number: int) -> dict[str, Any]:
    if number == 3:
        return _kernel(scaled_residual.KERNEL, scaled_residual.PLAN)
    which = angle_of(questions.KERNEL, text)
    if number < 3:
        wrong = (scaled_residual.UNSCALED, scaled_residual.MISSPELLED, scaled_residual.SUMMED_ALONE)
        return _kernel(wrong[which], scaled_residual.PLAN)
    revised = (scaled_residual.REVISED, scaled_residual.NARROW, scaled_residual.WIDE)
    return _kernel(revised[which], scaled_residual.PLAN, scaled_residual.REPLY)


def _modify(_tool: str, text: str, number: int) -> dict[str, Any]:
    if number == 3:
        return gated.REPAIR
    which = angle_of(questions.CHANGE, text)
    return (gated.sloped(gated.HALF), gated.weakened(), gated.elsewhere())[which]


def _modify_relu(_tool: str, text: str, number: int) -> dict[str, Any]:
    return relu_squared.REPAIR if number == 3 else relu_squared.scaled(angle_of(questions.CHANGE, text))


def _optimize_relu(tool: str, _text: str, _number: int) -> dict[str, Any]:
    return relu_squared.DIAGNOSIS if tool == "give_diagnosis" else relu_squared.VARIANT


def _optimize(tool: str, _text: str, _number: int) -> dict[str, Any]:
    return gated.DIAGNOSIS if tool == "give_diagnosis" else gated.VARIANT


CHANGES = (Round(3, "three changes at once"), Round(1, "a repair"))
VARIANTS = (Round(1, "the diagnosis"), Round(1, "a variant"))
JOBS: tuple[RecordedCommand, ...] = (
    RecordedCommand(
        "words",
        "create from words",
        ("create", "{}/reglu.md", "--author", "llm", "--candidates", "1", "--auto"),
        (Round(1, "the problem from words"), Round(1, "a candidate")),
        _words,
        {"reglu.md": reglu.WORDS},
    ),
    RecordedCommand(
        "candidates",
        "create from a problem file; a review",
        ("create", "{}/scaled_residual.py", "--author", "llm"),
        (Round(3, "three candidates at once"), Round(1, "a repair"), Round(3, "three candidates after the review")),
        _candidates,
        {"scaled_residual.py": scaled_residual.PROBLEM},
        f"approve\nrevise\n{scaled_residual.REVIEW}\napprove\napprove\n",
    ),
    RecordedCommand(
        "modify",
        "modify",
        ("modify", "geglu", "--words", gated.WORDS, "--auto"),
        CHANGES,
        _modify,
    ),
    RecordedCommand(
        "optimize",
        "optimize",
        ("optimize", "geglu", "--author", "llm", "--variants", "1", "--auto"),
        VARIANTS,
        _optimize,
    ),
)
# On the source of liger-kernel, where that is at hand: kernels that it has are other ones than the miniature's.
OF_LIGER: tuple[RecordedCommand, ...] = (
    *JOBS[:2],
    RecordedCommand(
        "modify",
        "modify `relu_squared`",
        ("modify", "relu_squared", "--words", relu_squared.WORDS, "--auto"),
        CHANGES,
        _modify_relu,
    ),
    RecordedCommand(
        "optimize",
        "optimize `relu_squared`",
        ("optimize", "relu_squared", "--author", "llm", "--variants", "1", "--auto"),
        VARIANTS,
        _optimize_relu,
    ),
)
