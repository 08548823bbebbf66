"""A fused model's report: how far it is in one line, the cut as a table and a graph, and the pull request about it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpu_runner.contracts import BenchmarkResult, Pass, Status, Word
from service.report.fused import TOO_LARGE, fused_conclusion, fused_sections, fused_verdict
from service.report.pull_request import pull_request_body, pull_request_title
from service.report.verdicts import Conclusion
from tests.service.report.facts import LINKS, MEASURED, REQUEST, VERDICT, WAITING
from tests.service.report.kernels_facts import compared
from workers.contracts import FusedPart, FuseSummary, KeptOperator, PullRequestUpdate, StyleOutcome, Verb

JOB = replace(WAITING, request=replace(REQUEST, verb=Verb.fuse, kernel="block"))
CUT = FuseSummary(
    route=("5 operators compute.", "1 of them call a library in torch: matrix product (1)."),
    parts=(
        FusedPart("gelu_mul_1a2b3c", ("gelu", "mul"), ("4096 x 4096 float32",), 2, 2**28, 2**27, 2**28),
        FusedPart("relu_add_4d5e6f", ("relu", "add"), ("4096 x 4096 float32",) * 2, 1, 5 * 2**26, 3 * 2**26, 2**27),
    ),
    kept=(KeptOperator("linear", "matrix product", 1),),
    picture='flowchart TD\n    n0["part 1"]\n',
    operators=5,
    moved_bytes=2**30,
    problem_source="import torch\n",
    reproduce="kernelsmith fuse model.py --out run",
)
PROVED = (
    replace(CUT.parts[0], proved=True),
    replace(CUT.parts[1], proved=False, reason="incorrect_values: It is off."),
)
FUSED = replace(
    CUT,
    parts=PROVED,
    verdict=VERDICT,
    files=("fused/block/composed_kernel.py",),
    answered=("Part 3 stays with torch.",),
)


def test_a_cut_says_what_it_may_save_and_is_neither_right_nor_wrong() -> None:
    assert "cut into 2 parts at 3 places**, which may save 384 MiB of 1.00 GiB" in fused_verdict(CUT, JOB)
    assert fused_conclusion(CUT) is Conclusion.neutral
    text = fused_sections(CUT, {})
    assert (
        "| 1. `gelu_mul_1a2b3c` | gelu, mul | `4096 x 4096 float32` | 2 | 256 MiB | 128 MiB | 256 MiB | not tried yet |"
        in text
    )
    assert "```mermaid\nflowchart TD" in text
    assert "| `linear` | 1 | matrix product |" in text


def test_a_whole_names_the_part_that_stays_with_torch_and_counts_what_is_saved_without_it() -> None:
    line = fused_verdict(FUSED, JOB)
    assert "composed of 1 proved part, and proved as a whole" in line
    assert "256 MiB of 1.00 GiB saved; torch computes 1 part that could not be proved" in line
    text = fused_sections(FUSED, {})
    assert "stays with torch: incorrect\\_values: It is off." in text and "- Part 3 stays with torch." in text
    assert fused_conclusion(FUSED) is Conclusion.success


def test_a_whole_that_is_wrong_or_breaks_the_style_fails() -> None:
    wrong = replace(FUSED, verdict=replace(VERDICT, status=Status.incorrect_values))
    assert "is not proved" in fused_verdict(wrong, JOB)
    assert fused_conclusion(wrong) is Conclusion.failure
    assert fused_conclusion(replace(FUSED, style=StyleOutcome(False, ("ruff check",)))) is Conclusion.failure


def timed(*found: tuple[Pass, str, Word]) -> BenchmarkResult:
    rows = (
        replace(MEASURED.rows[0], timed_pass=one, comparisons=(compared(1.0, word, baseline=baseline),))
        for one, baseline, word in found
    )
    return replace(MEASURED, rows=tuple(rows))


@pytest.mark.parametrize(
    ("found", "said"),
    [
        (
            [(Pass.full, "torch_compile", Word.slower), (Pass.full, "eager", Word.faster)],
            "**In a training step it is slower than `torch.compile`**: do not merge it for speed; use `torch.compile` of",
        ),
        (
            [(Pass.full, "eager", Word.slower), (Pass.forward, "eager", Word.faster)],
            "slower than eager PyTorch**: do not",
        ),
        ([(Pass.full, "torch_compile", Word.same)], "In a training step it gains nothing over `torch.compile`"),
        ([(Pass.forward, "torch_compile", Word.slower)], "**In a forward it is slower than `torch.compile`**"),
        ([(Pass.full, "torch_compile", Word.faster), (Pass.forward, "torch_compile", Word.slower)], None),
        ([(Pass.full, "eager", Word.faster)], None),
        ([], None),
    ],
)
def test_where_nothing_is_gained_the_first_line_says_so_and_what_to_use(
    found: list[tuple[Pass, str, Word]], said: str | None
) -> None:
    line = fused_verdict(replace(FUSED, benchmark=timed(*found)), JOB)
    assert said in line if said else not any(word in line for word in ("do not merge", "nothing to gain"))


@pytest.mark.parametrize(
    ("alone", "compiled", "is_advised"), [(0.88, 1.15, True), (1.09, 0.95, False), (1.02, None, False)]
)
def test_where_the_program_gains_more_under_torch_compile_the_first_line_says_to_compile_it(
    alone: float, compiled: float | None, is_advised: bool
) -> None:
    def result(gain: float) -> BenchmarkResult:
        comparison = compared(gain, Word.faster if gain > 1 else Word.slower, baseline="torch_compile")
        return replace(MEASURED, rows=(replace(MEASURED.rows[0], timed_pass=Pass.full, comparisons=(comparison,)),))

    fused = replace(FUSED, benchmark=result(alone), compiled=None if compiled is None else result(compiled))
    line, text = fused_verdict(fused, JOB), fused_sections(fused, {})
    said = "**Compile the fused module**: 1.15× as fast as `torch.compile` of the model, 0.88× without compiling it."
    assert (said in line) is is_advised
    assert ("do not merge it for speed" in line) is False
    assert ("The same under `torch.compile`" in text) is (compiled is not None)


def test_a_picture_that_no_comment_holds_is_left_out_whole() -> None:
    text = fused_sections(replace(CUT, picture=CUT.picture + "    n0 --> n1\n" * 2_000), {})
    assert TOO_LARGE in text and "mermaid" not in text


def test_the_pull_request_is_about_the_model() -> None:
    update = PullRequestUpdate(None, "import torch\n", VERDICT, fusion=FUSED)
    assert pull_request_title(update, JOB) == "Fuse block"
    assert "proved as a whole" in pull_request_body(update, JOB, LINKS)
