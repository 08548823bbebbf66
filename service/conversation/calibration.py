"""How far a machine's times can be trusted, in words. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gpu_runner.contracts import Word
from service.conversation.markdown import bullets, folded, paragraphs, table
from service.escape import code, inline


@dataclass(frozen=True)
class Trust:
    """What a calibration found, as it is told. ``ratios`` and ``slowdowns`` as 1.00 and 0.03."""

    words: Mapping[Word, int]
    planted: Mapping[Word, int]
    ratios: Sequence[float]
    slowdowns: Sequence[float]
    rows: Sequence[tuple[str, str, str, float | None, str]]
    gpu: str | None
    host: Sequence[tuple[str, str]]
    left_out: Sequence[tuple[str, str]]
    slowdown: float


def calibration_section(found: Trust) -> str:
    """Give false words first, then what was found of the planted slowdown, then every row."""
    compared, planted = sum(found.words.values()), sum(found.planted.values())
    if not compared:
        return paragraphs("**Nothing was timed:** no GPU is here.", _left_out(found))
    wrong = sum(found.words.get(word, 0) for word in (Word.faster, Word.slower))
    caught = found.planted.get(Word.slower, 0)
    told = f"**{wrong} false words in {compared} comparisons of kernels with themselves; a planted slowdown of"
    told += f" {found.slowdown:.0%} was found in {caught} of {planted} tries**, on {inline(found.gpu or 'a GPU', 60)}."
    spread = f"Kernels were between {min(found.ratios):.4f} and {max(found.ratios):.4f} times as fast as themselves."
    if found.slowdowns:
        spread += f" The planted slowdown measured {min(found.slowdowns):.1%} to {max(found.slowdowns):.1%}."
    words = [(word.value, str(found.words.get(word, 0)), str(found.planted.get(word, 0))) for word in Word]
    rows = [
        (code(name), code(workload), timed, "" if time_us is None else f"{time_us:.1f}", word)
        for name, workload, timed, time_us, word in found.rows
    ]
    return paragraphs(
        told,
        spread,
        table(("word", "with itself", "planted"), words, numeric=(1, 2)),
        _left_out(found),
        bullets([f"{inline(name)}: {inline(value)}" for name, value in found.host]),
        folded("Every comparison", table(("problem", "workload", "pass", "us", "word"), rows, numeric=(3,))),
    )


def _left_out(found: Trust) -> str:
    return bullets([f"{code(name)} was left out: {inline(why)}" for name, why in found.left_out])
