"""What only the command line prints: a host, a calibration, a problem set, a recording. Pure."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from gpu_runner.contracts import HostReport, Word
from service.escape import code, inline
from service.report.layout import DASH, bullets, counted, folded, paragraphs, percent, table
from workers.contracts import QuestionUse, RecordingUse, RequestUse, UseSum
from workers.contracts.problem_set import (
    BASELINES,
    THRESHOLDS,
    Entry,
    ProblemOutcome,
    close,
    counts,
    fast_p,
    levels,
    name_of,
    reasons,
)


def host_section(report: HostReport) -> str:
    """A host's report: what it is, what a child was kept from, and what to fix."""
    facts = [
        ("GPU", report.gpu or "none: kernels run in Triton's interpreter, values are proved, speed is only predicted"),
        ("architecture", report.architecture),
        ("driver", report.driver or "none"),
        ("python, torch, triton", f"{report.python}, {report.torch or 'missing'}, {report.triton or 'missing'}"),
        ("copy bandwidth", f"{report.bandwidth_gbps:.0f} GB/s" if report.bandwidth_gbps else "not measured"),
        ("isolation that holds", ", ".join(level.value for level in report.levels) or "none"),
        *report.tools,
    ]
    proofs = [
        (proof.attempt, "prevented" if proof.prevented else "**possible**", proof.detail) for proof in report.proofs
    ]
    problems = ("To fix:", bullets(report.problems)) if report.problems else ("Nothing to fix.",)
    return paragraphs(
        table(("fact", "value"), facts),
        table(("a sandboxed child tried to", "result", "detail"), proofs) if proofs else "",
        *problems,
    )


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


def calibration_section(trust: Trust) -> str:
    """False verdicts first, then how the planted slowdown was detected, then every row."""
    compared, planted = sum(trust.words.values()), sum(trust.planted.values())
    if not compared:
        return paragraphs("**Nothing was timed:** no GPU is available.", _left_out(trust))
    wrong = sum(trust.words.get(word, 0) for word in (Word.faster, Word.slower))
    caught = trust.planted.get(Word.slower, 0)
    text = f"**{wrong} false results in {compared} comparisons of kernels with themselves; a planted slowdown of"
    text += (
        f" {trust.slowdown:.0%} was detected in {caught} of {planted} tries**, on {inline(trust.gpu or 'a GPU', 60)}."
    )
    spread = f"Kernels were between {min(trust.ratios):.4f} and {max(trust.ratios):.4f} times as fast as themselves."
    if trust.slowdowns:
        spread += f" The planted slowdown measured {min(trust.slowdowns):.1%} to {max(trust.slowdowns):.1%}."
    words = [(word.value, str(trust.words.get(word, 0)), str(trust.planted.get(word, 0))) for word in Word]
    rows = [
        (code(name), code(workload), timed, "" if time_us is None else f"{time_us:.1f}", word)
        for name, workload, timed, time_us, word in trust.rows
    ]
    return paragraphs(
        text,
        spread,
        table(("word", "with itself", "planted"), words, numeric=(1, 2)),
        _left_out(trust),
        bullets([f"{inline(name)}: {inline(value)}" for name, value in trust.host]),
        folded("Every comparison", table(("problem", "workload", "pass", "us", "word"), rows, numeric=(3,))),
    )


def _left_out(trust: Trust) -> str:
    return bullets([f"{code(name)} was left out: {inline(why)}" for name, why in trust.left_out])


NOT_TIMED = "Nothing was timed: no GPU is available, or no kernel passed."
MAX_NAMED = 6


def problem_set_section(entries: Sequence[Entry]) -> str:
    """The tables."""
    rows = [*levels(entries).items(), ("all", entries)]
    shown = [_row(level, chosen) for level, chosen in rows]
    by_reason = [
        (inline(reason), str(len(chosen)), ", ".join(code(e.problem) for e in chosen[:MAX_NAMED]) + _more(chosen))
        for reason, chosen in reasons(entries)
    ]
    composed = [
        (code(e.problem), str(e.parts), str(e.left_to_torch), *(_speedup(e.speedups, name) for name in BASELINES))
        for e in entries
        if e.outcome is ProblemOutcome.composed
    ]
    in_parts = [
        (
            code(e.problem),
            *(_speedup(each, name) for each in (e.speedups, e.in_parts) for name in BASELINES),
            str(e.in_parts_torch),
        )
        for e in entries
        if e.in_parts
    ]
    against = [f"times as fast as {name_of(name)}" for name in BASELINES]
    header = ("composed", "calls of proved parts", "operators left to torch", *against)
    return paragraphs(
        table(("level", *COUNTED, *(outcome.value for outcome in ProblemOutcome)), shown, range(1, 15)),
        _fast(rows),
        table(header, composed, range(1, 5)),
        table(
            ("behind without torch", *against, *(f"in parts: {words}" for words in against), "operators left to torch"),
            in_parts,
            range(1, 6),
        ),
        table(("no proved kernel of the whole for", "problems", "such as"), by_reason, (1,)),
    )


COUNTED = ("problems", "compiled", "right by KernelBench's rule", *(f"faster than {name_of(one)}" for one in BASELINES))


def _row(level: str, entries: Sequence[Entry]) -> tuple[str, ...]:
    counted, agreeing = counts(entries), close(entries)
    outcomes = (counted.get(outcome.value, 0) for outcome in ProblemOutcome)
    numbers = (counted["problems"], counted["compiled"], DASH if agreeing is None else agreeing)
    return (code(level), *map(str, (*numbers, *(_faster(entries, one) for one in BASELINES), *outcomes)))


def _faster(entries: Sequence[Entry], baseline: str) -> str:
    share = fast_p(entries, baseline, 1.0)
    return DASH if share is None else str(round(share * len(entries)))


def _speedup(speedups: Mapping[str, float], baseline: str) -> str:
    return f"{speedups[baseline]:.2f}" if baseline in speedups else DASH


def _fast(rows: Sequence[tuple[str, Sequence[Entry]]]) -> str:
    lines = []
    for level, entries in rows:
        any_composed = any(entry.outcome is ProblemOutcome.composed or entry.in_parts for entry in entries)
        for baseline, composed in itertools.product(BASELINES, (False, True) if any_composed else (False,)):
            shares = [fast_p(entries, baseline, threshold, composed=composed) for threshold in THRESHOLDS]
            if any(share is not None for share in shares):
                cells = [DASH if share is None else percent(share) for share in shares]
                of = "right or composed" if composed else "right"
                lines.append((code(level), of, name_of(baseline), *cells))
    header = ("level", "of those", "against", *(f"fast_{threshold:g}" for threshold in THRESHOLDS))
    return table(header, lines, range(3, 7)) or NOT_TIMED


def _more(entries: Sequence[Entry]) -> str:
    return f" and {len(entries) - MAX_NAMED} more" if len(entries) > MAX_NAMED else ""


DIGITS = 12  # of a digest, as a replay shows it
TOKENS = ("tokens in", "from the cache", "to the cache", "tokens out", "seconds", "dollars")
SIZES = ("characters", "of which stable", "answered")


def recording_section(use: RecordingUse) -> str:
    """A row a request, and the sums by purpose; an empty recording is told in a sentence."""
    if not use.questions:
        return "The recording has no questions."
    header = ("question", "purpose", "provider", "model", "outcome", *TOKENS, *SIZES)
    rows = [row for question in use.questions for row in _rows(question)]
    sums = [_sum_row(name, each) for name, each in (*use.purposes, ("all", use.total))]
    sum_header = ("purpose", "questions", "requests", *TOKENS, *SIZES)
    return paragraphs(
        table(header, rows, numeric=range(5, len(header))),
        "In sums:",
        table(sum_header, sums, numeric=range(1, len(sum_header))),
        _words(use),
    )


def _rows(question: QuestionUse) -> Iterator[tuple[str, ...]]:
    answered = DASH if question.answer_characters is None else f"{question.answer_characters:,}"
    for number, request in enumerate(question.requests, 1):
        last = number == len(question.requests)
        sizes = (f"{question.characters:,}", f"{question.stable_characters:,}", answered if last else DASH)
        named = (question.digest[:DIGITS], code(question.purpose, 40))
        yield (*named, *_named(request), *_tokens(request), *sizes)


def _named(request: RequestUse) -> tuple[str, str, str]:
    provider, model, outcome = (
        code(text, 60) if text else DASH for text in (request.provider, request.model, request.outcome)
    )
    return provider, model, outcome


def _tokens(use: RequestUse | UseSum) -> tuple[str, ...]:
    counts = (use.input_tokens, use.cache_read_tokens, use.cache_written_tokens, use.output_tokens)
    seconds = DASH if use.duration_s is None else f"{use.duration_s:.1f}"
    return (*(f"{count:,}" for count in counts), seconds, _dollars(use.micro_dollars))


def _sum_row(name: str, use: UseSum) -> tuple[str, ...]:
    sizes = (use.characters, use.stable_characters, use.answer_characters)
    label = name if name == "all" else code(name, 40)
    return (label, f"{use.questions:,}", f"{use.requests:,}", *_tokens(use), *(f"{size:,}" for size in sizes))


def _words(use: RecordingUse) -> str:
    lines = [
        "Tokens are the providers' counts; tokens out include thinking, and tokens in exclude cache reads and writes. "
        "Stable characters are the prefix that a question shares with others of the job."
    ]
    room = max(question.most_thinking_tokens for question in use.questions)
    if room:
        number = sum(question.most_thinking_tokens > 0 for question in use.questions)
        lines.append(
            f"{counted(number, 'question')} of {len(use.questions)} allowed up to {room:,} tokens of thinking."
        )
    missing = use.total.unpriced_requests
    if missing == use.total.requests:
        lines.append("No model has a price: set `KERNELSMITH_MODEL_PRICES`.")
    elif missing:
        lines.append(
            f"{counted(missing, 'request')} without a price {'is' if missing == 1 else 'are'} not in the dollars."
        )
    return " ".join(lines)


def _dollars(micro_dollars: int | None) -> str:
    return DASH if micro_dollars is None else f"{micro_dollars / 1_000_000:.4f}"
