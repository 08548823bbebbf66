"""A fused model: its cut, the proof of the whole and its times for a review, and a run's result for the console. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gpu_runner.contracts import BenchmarkResult, Pass, Status, Word
from service.escape import BLOCK_LIMIT, code, code_block, inline, sentence
from service.report.benchmarks import benchmark_table, by_pass, overall_speedup, speed_sentence
from service.report.create import review_answered
from service.report.layout import bullets, counted, folded, paragraphs, percent, pictures, ratio, size_bytes, table
from service.report.verdicts import (
    Conclusion,
    provenance_line,
    style_section,
    tests_section,
    verdict_section,
    verdict_words,
)
from workers.contracts import FusedPart, FuseSummary, JobView

MAX_ROWS = 64
TOO_LARGE = "The diagram of the cut is too large for a comment: see `cut.md` in the job's artifacts."
COMPILED = "`torch.compile`"
WITHOUT_KERNELS = {"torch_compile": COMPILED, "eager": "eager PyTorch"}
OUTCOMES = {None: "not tried yet", True: "proved", False: "stays with torch"}


def fused_verdict(summary: FuseSummary, job: JobView) -> str:
    """How far the model is fused, in one line."""
    model, verdict, parts = (
        code(job.request.kernel),
        summary.verdict,
        [p for p in summary.parts if p.proved is not False],
    )
    places = sum(part.places for part in parts)
    saved = f"{size_bytes(summary.saved_bytes)} of {size_bytes(summary.moved_bytes)}"
    if verdict is None:
        cut = f"{counted(len(parts), 'part')} at {counted(places, 'place')}"
        return f"**{model} is cut into {cut}**, which may save {saved} that a forward moves; nothing is proved yet."
    where = " in Triton's interpreter" if verdict.interpreted else ""
    if verdict.status is not Status.passed:
        return f"**{model} is not proved:** {verdict_words(verdict)}."
    kept = sum(part.proved is False and part.places > 0 for part in summary.parts)
    left = f"; torch computes {counted(kept, 'part')} that could not be proved" if kept else ""
    proved = f"**{model} is composed of {counted(len(parts), 'proved part')}, and proved as a whole{where}:** "
    return f"{proved}{verdict_words(verdict)}, {saved} saved{left}.{_speed(summary)}"


def _speed(summary: FuseSummary) -> str:
    """The times of the program as it is, or under ``torch.compile`` where it gains more over the compiled original."""
    alone, compiled = summary.benchmark, summary.compiled
    if alone is None:
        return ""
    gain, other = (overall_speedup(one.rows, "torch_compile") if one else None for one in (alone, compiled))
    if compiled is None or gain is None or other is None or other <= gain:
        return f" {speed_sentence(alone)}{speed_advice(alone)}"
    advice = f"**Compile the fused module**: {ratio(other)} as fast as {COMPILED} of the model, {ratio(gain)} without compiling it."
    return f" {advice} Under {COMPILED}: {speed_sentence(compiled)}{speed_advice(compiled)}"


def speed_advice(result: BenchmarkResult) -> str:
    """What to do where the whole gains nothing over PyTorch without these kernels; empty where it is faster, or not compared.

    A training step counts where one was timed, else each pass that was.
    """
    steps = [row for row in result.rows if row.timed_pass is Pass.full] or list(result.rows)
    passes = "a training step" if steps and steps[0].timed_pass is Pass.full else "a forward"
    results_by = {name: by_pass(steps, baseline) for baseline, name in WITHOUT_KERNELS.items()}
    slower = [name for name, results in results_by.items() if any(one.count(Word.slower) for one in results)]
    if slower:
        return (
            f" **In {passes} it is slower than {' and '.join(slower)}**: do not merge it for speed; "
            f"use {slower[0]} of the original model."
        )
    compiled = results_by[COMPILED]
    if compiled and all(one.words and not one.count(Word.faster) for one in compiled):
        return f" In {passes} it gains nothing over {COMPILED} of the original model, which needs no new files."
    return ""


def fused_conclusion(summary: FuseSummary) -> Conclusion:
    """How the check run ends: a cut is neither right nor wrong."""
    if summary.verdict is None:
        return Conclusion.neutral
    holds = summary.verdict.status is Status.passed and (summary.style is None or summary.style.passed)
    return Conclusion.success if holds else Conclusion.failure


def fused_sections(summary: FuseSummary, image_urls: Mapping[str, str]) -> str:
    """The cut, and what is known of the whole by now; ``image_urls`` are addresses by the images' names."""
    numbered = [_part(number, part) for number, part in enumerate(summary.parts[:MAX_ROWS], 1)]
    header = ("part", "operators", "inputs", "places", "bytes unfused", "floor", "saved", "outcome")
    kept = [(code(k.operator, 60), str(k.places), sentence(k.reason)) for k in summary.kept[:MAX_ROWS]]
    torch = table(("operator", "places", "why it stays with torch"), kept, numeric=(1,))
    share = percent(summary.saved_bytes / summary.moved_bytes if summary.moved_bytes else None)
    return paragraphs(
        review_answered(summary.answered),
        bullets([sentence(fact) for fact in summary.route]),
        benchmark_table(summary.benchmark) if summary.benchmark is not None else "",
        folded(f"The same under {COMPILED}", benchmark_table(summary.compiled)) if summary.compiled is not None else "",
        pictures(summary.images, image_urls),
        table(header, numbered, numeric=(3, 4, 5, 6)),
        f"Bytes are per forward; saved bytes are of all places of a part, together {share} of the model's. Time is not predicted.",
        code_block(summary.picture, "mermaid") if len(summary.picture) <= BLOCK_LIMIT else TOO_LARGE,
        folded("What stays with torch", torch),
        folded("Files", bullets([code(path, 200) for path in summary.files])),
        folded("Proof of the whole", verdict_section(summary.verdict) if summary.verdict is not None else ""),
        folded("The test in the library", tests_section(summary.tests) if summary.tests is not None else ""),
        folded("Style check", style_section(summary.style) if summary.style is not None else ""),
        provenance_line(summary.provenance),
        f"On the command line: {code(summary.reproduce)}",
    )


def _part(number: int, part: FusedPart) -> tuple[str, ...]:
    outcome = (OUTCOMES[part.proved] if part.places else "cut again") + (
        f": {inline(part.reason, 160)}" if part.reason else ""
    )
    return (
        f"{number}. {code(part.name, 80)}",
        inline(", ".join(part.operators), 160),
        "<br>".join(code(shape, 60) for shape in part.shapes[:8]),
        str(part.places),
        *map(size_bytes, (part.bytes_apart, part.floor_bytes, part.saved_bytes)),
        outcome,
    )


def fused_section(summary: Mapping[str, Any]) -> str:
    """What was proved, what stays with torch and why, and what the parts save, as markdown."""
    lines = [
        f"**{summary['status']}**: {_words(summary)}",
        "",
        f"Computing operators: {summary['operators']}, {summary['left_to_torch']} of them left to torch.",
    ]
    lines += [f"- `{name}`: proved" for name in summary["proved"]]
    lines += [f"- `{name}` stays with torch: {reason}" for name, reason in summary["stays_with_torch"].items()]
    lines += [f"- `{name}` was cut again: {reason}" for name, reason in summary["cut_again"].items()]
    lines += ["", f"Bytes moved by a forward: {summary['bytes']:,}; the parts save {summary['saved_bytes']:,} of them."]
    return "\n".join([*lines, "Nothing was timed.", ""])


def _words(summary: Mapping[str, Any]) -> str:
    if summary["status"] == "nothing to gain":
        return "No part saves memory traffic as its own kernel."
    if summary["status"] == "nothing proved":
        return "No part could be proved, so the whole model stays with torch."
    if summary["why"] is not None:
        return str(summary["why"])
    return "Values and gradients of the whole match the model's."
