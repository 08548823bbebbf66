"""What is asked, as text, for one small problem: ``python -m tests.workers.authors.llm.goldens`` writes ``golden/`` anew."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from tests.workers.authors.llm import briefs
from tests.workers.compiler.captured import captured
from workers.authors.llm import (
    change_question,
    composition_question,
    cut_question,
    diagnosis_question,
    kernel_question,
    problem_question,
    variant_question,
)
from workers.authors.llm.protocol import Example, Failed, KernelBrief
from workers.models.protocol import Question

FOLDER = Path(__file__).parent / "golden"
SHORT = "import triton\n\n\n@triton.jit\ndef _k(x_ptr):\n    pass\n"
FAILED = Failed(
    SHORT,
    "incorrect_values",
    "output 0 differs in 3 of 679 elements",
    ("prime, float32: output 0 at [6, 96]: 0.0, expected 1.25",),
    "first line\nsecond line",
)


def brief_of_the_kernel(**changes: object) -> KernelBrief:
    """A brief in which every kind of text stands."""
    return briefs.kernel_brief(compiled=SHORT, **changes)


def questions() -> dict[str, Question]:
    """One question of each kind."""
    changed = briefs.change_brief(
        files=(("src/ops/reglu.py", SHORT),),
        tests=(("tests/test_reglu.py", "import torch\n"),),
        before=(("src/ops/reglu.py", SHORT + "# twice\n"),),
        remarks=briefs.REMARKS,
        failed=FAILED,
    )
    variant = briefs.variant_brief(source=SHORT, diagnosis="bound by memory", failed=FAILED)
    code = briefs.problem_brief(
        request="class ReGLU(Base): ...",
        code=True,
        origin="src/model.py:ReGLU",
        beside=(Example("src/base.py", "class Base: ...\n", "the code imports it"),),
        before=captured("reglu")[0].source,
        remarks=briefs.REMARKS[:1],
    )
    return {
        "analyze": problem_question(briefs.problem_brief()),
        "analyze_again": problem_question(code),
        "generate": kernel_question(brief_of_the_kernel()),
        "repair": kernel_question(brief_of_the_kernel(failed=FAILED), 3),
        "revise": kernel_question(brief_of_the_kernel(remarks=briefs.REMARKS, before=SHORT), 1, 3),
        "modify": change_question(changed),
        "diagnose": diagnosis_question(briefs.variant_brief(source=SHORT)),
        "optimize": variant_question(variant, 2),
        "extract": cut_question(briefs.CUT),
        "compose": composition_question(replace(briefs.COMPOSITION, failed=FAILED)),
    }


def told(question: Question) -> str:
    """A question as text; the system prompt, which all share, is a file of its own."""
    assert question.form is not None
    limits = (
        f"most tokens {question.most_tokens}, thinking {question.thinking_tokens}, temperature {question.temperature}"
    )
    lines = [f"{question.purpose}: form {question.form.name}, {limits}"]
    for message in question.messages:
        for part in message.parts:
            lines += [f"======== {message.role.value}{', stable' if part.stable else ''}", part.text.rstrip("\n")]
    return "\n".join(lines) + "\n"


def texts() -> dict[str, str]:
    """Every file of ``golden/``."""
    asked = questions()
    system = "".join(part.text for part in asked["generate"].system)
    return {"system.txt": system + "\n", **{f"{name}.txt": told(question) for name, question in asked.items()}}


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for name, text in texts().items():
        (FOLDER / name).write_text(text)
