"""The outcome of a proof, of the library's tests and of a style check; what a model tried, in words and tables. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum

from gpu_runner.contracts import CaseOutcome, Check, Evidence, Status, TestsResult, Verdict
from service.escape import code, code_block, inline, sentence
from service.report.layout import DASH, bullets, counted, folded, paragraphs, size_bytes, small, table, usable
from workers.contracts import Attempt, StyleOutcome


class Conclusion(StrEnum):
    """What a check run comes to."""

    success = "success"
    failure = "failure"
    neutral = "neutral"
    cancelled = "cancelled"


STATUS_WORDS: dict[Status, str] = {
    Status.passed: "values and gradients match the reference",
    Status.incorrect_values: "the values are wrong",
    Status.incorrect_gradient: "a gradient is wrong",
    Status.incorrect_shape: "an output has the wrong shape",
    Status.incorrect_dtype: "an output has the wrong dtype",
    Status.unwritten_output: "part of an output is never written",
    Status.mutated_input: "an input is overwritten",
    Status.out_of_bounds: "memory outside of the tensors is written",
    Status.nondeterministic: "two runs on the same inputs disagree",
    Status.compile_error: "the kernel does not compile",
    Status.launch_error: "the kernel cannot be launched",
    Status.timeout: "the kernel did not finish in time",
    Status.out_of_memory: "the kernel ran out of memory",
    Status.refused: "the source breaks a rule, so it was not run",
    Status.unproved: "undecided: the host code cannot be evaluated, or no case reached part of the code",
    Status.degenerate_problem: "a trivial answer passes on this problem, so nothing can be proved on it",
    Status.cheating: "the candidate targets the way it is tested, not the problem",
    Status.environment_error: "the host is at fault, so nothing is known about the kernel",
}
ONE_SIDED = (
    "Each of these had one outcome in every case, so that the other branch is untested. The original has the same "
    "condition, or the problem has one size:"
)
INTERPRETED = (
    "Triton's interpreter ran the kernels: the values are proved as the interpreter computes them, and nothing is known about "
    "the compiled code."
)
STOOD_IN = (
    "{language} has no interpreter of its own: its operations were emulated in Triton's, by its documentation, and nothing "
    "was compiled."
)
EXCUSED = "These pass only because the existing kernel has errors as large:"
MAX_EVIDENCE = 3
MAX_EXCUSED = 6
MAX_KERNELS = 8


def verdict_words(verdict: Verdict) -> str:
    """The outcome as part of a sentence."""
    words = STATUS_WORDS[verdict.status]
    if verdict.rule:
        words += f" (rule {code(verdict.rule)})"
    return words


def interpreted_words(verdict: Verdict) -> str:
    """What is not known where kernels were interpreted."""
    return (
        INTERPRETED
        if verdict.language == "Triton"
        else f"{INTERPRETED} {STOOD_IN.format(language=inline(verdict.language, 20))}"
    )


def verdict_section(verdict: Verdict) -> str:
    """The outcome: what was examined, the evidence where it failed, and every check, folded."""
    facts = [fact for fact in (_examined(verdict), _ran(verdict), _determinism(verdict), _memory(verdict)) if fact]
    if verdict.interpreted and verdict.checks:
        facts.append(interpreted_words(verdict))
    if verdict.repeated:
        facts.append("The inputs repeat an earlier verdict's, so that this one cannot approve the kernel.")
    if verdict.quick:
        facts.append("This was a quick verdict with few cases; approving the kernel takes a full one.")
    evidence_blocks = [_evidence(evidence) for evidence in verdict.evidence[:MAX_EVIDENCE]]
    beside = paragraphs(EXCUSED, bullets(excused_errors(verdict))) if verdict.excused else ""
    checks = folded("All checks", checks_table(verdict.checks))
    return paragraphs(bullets(facts), *evidence_blocks, _repetition(verdict), beside, _one_sided(verdict), checks)


def _one_sided(verdict: Verdict) -> str:
    """What the candidate decided the same way in every case of a verdict that it passed, folded."""
    if verdict.status is not Status.passed or verdict.quick or not verdict.one_sided:
        return ""
    lines = [f"line {evidence.line}: {sentence(evidence.message)}" for evidence in verdict.one_sided]
    return folded(f"Decisions with one outcome: {len(lines)}", paragraphs(ONE_SIDED, bullets(lines)))


def _repetition(verdict: Verdict) -> str:
    """How a failure on drawn inputs can be seen again; a verdict that was reached before anything ran needs no seed."""
    drawn = any(evidence.workload for evidence in verdict.evidence)
    if verdict.status is Status.passed or verdict.seed is None or not drawn:
        return ""
    return f"Repeat it: {code(f'kernelsmith verify problem.py candidate.py --seed {verdict.seed}', 120)}"


def excused_errors(verdict: Verdict) -> list[str]:
    """Each error beyond what a new kernel would be allowed that passed since what stands errs as much."""
    return [_excused(evidence) for evidence in verdict.excused[:MAX_EXCUSED]]


def _excused(evidence: Evidence) -> str:
    what = inline(evidence.output, 60) if evidence.output else inline(evidence.check, 60)
    where = f" ({code(evidence.workload, 80)})" if evidence.workload else ""
    if not usable(evidence.error) or not usable(evidence.allowed):
        return f"{what}: {sentence(evidence.message)}{where}"
    return f"{what}: error {small(evidence.error)}, allowed {small(evidence.allowed)}{where}"


def checks_table(checks: tuple[Check, ...]) -> str:
    """The checks, those of one kind and output in one row, with the largest error among them."""
    groups: dict[tuple[str, str], list[Check]] = {}
    for check in checks:
        groups.setdefault((check.name, check.output or ""), []).append(check)
    rows = []
    for (name, output), members in groups.items():
        worst = max(members, key=lambda check: (not check.passed, _share(check)))
        passed = sum(check.passed for check in members)
        cells = [inline(name, 60), inline(output, 60) if output else DASH, f"{passed} of {len(members)}"]
        rows.append([*cells, small(worst.error), small(worst.allowed), code(worst.workload, 80)])
    return table(("check", "of", "passed", "largest error", "allowed", "on"), rows, numeric=(2, 3, 4))


def _share(check: Check) -> float:
    if check.error is None:
        return 0.0
    return check.error / check.allowed if check.allowed else check.error


def _examined(verdict: Verdict) -> str:
    if not verdict.checks:
        return ""
    workloads = len({check.workload for check in verdict.checks})
    passed = sum(check.passed for check in verdict.checks)
    seeds = f" with {counted(verdict.seeds, 'seed')}" if verdict.seeds else ""
    return f"{passed} of {len(verdict.checks)} checks passed, on {counted(workloads, 'workload')}{seeds}."


def _ran(verdict: Verdict) -> str:
    names = [code(name, 80) for name in verdict.kernels[:MAX_KERNELS]]
    more = len(verdict.kernels) - len(names)
    return f"Kernels that ran: {', '.join(names)}{f' and {more} more' if more else ''}." if names else ""


def _determinism(verdict: Verdict) -> str:
    if verdict.deterministic is None:
        return ""
    return "Two runs agree bit for bit." if verdict.deterministic else "Two runs differ in some bits."


def _memory(verdict: Verdict) -> str:
    peaks = (("forward", verdict.peak_forward_bytes), ("backward", verdict.peak_backward_bytes))
    known = [f"{size_bytes(value)} {name}" for name, value in peaks if value is not None]
    return f"Peak memory: {', '.join(known)}." if known else ""


def _evidence(evidence: Evidence) -> str:
    where = [code(evidence.workload, 80)] if evidence.workload else []
    where += [inline(evidence.output, 60)] if evidence.output else []
    where += [f"at {code(str(evidence.position))}"] if evidence.position is not None else []
    where += [f"line {evidence.line}"] if evidence.line is not None else []
    numbers = []
    if evidence.got is not None and evidence.expected is not None:
        numbers.append(f"got {code(repr(evidence.got))}, expected {code(repr(evidence.expected))}")
    if evidence.error is not None:
        allowed = f", allowed {small(evidence.allowed)}" if evidence.allowed is not None else ""
        numbers.append(f"error {small(evidence.error)}{allowed}")
    text = f"**{inline(evidence.check, 60)}**: {sentence(evidence.message)}"
    log = code_block(evidence.log, "text", 4_000) if evidence.log and evidence.log.strip() else ""
    place = f"({', '.join(where)})" if where else ""
    return paragraphs(" ".join(part for part in (text, place, "; ".join(numbers)) if part), folded("Output", log))


MAX_CASES = 40
OUTCOME_ORDER = (CaseOutcome.failed, CaseOutcome.error, CaseOutcome.skipped, CaseOutcome.passed)


ON_BASE = "a checkout of the base commit, with `problem.py` from the job's page"


def repetition(reproduce: str, where: str = ON_BASE) -> str:
    """The command that does it again, and where."""
    return paragraphs(f"To repeat it on {where}:", code_block(reproduce, "sh", 2_000)) if reproduce.strip() else ""


def tests_section(result: TestsResult) -> str:
    """A test run: its summary, the cases that matter most first, and its log where it failed."""
    cases = sorted(result.cases, key=lambda case: OUTCOME_ORDER.index(case.outcome))
    told = any(case.message for case in cases[:MAX_CASES])
    header = ("test", "outcome", "message") if told else ("test", "outcome")
    rows = [
        (code(case.node, 160), case.outcome.value, inline(case.message, 160) if case.message else "")[: len(header)]
        for case in cases[:MAX_CASES]
    ]
    more = f"{counted(len(cases) - MAX_CASES, 'more case')} not shown." if len(cases) > MAX_CASES else ""
    log = "" if result.passed or not result.log.strip() else code_block(result.log, "text", 6_000)
    return paragraphs(inline(result.summary), table(header, rows), more, log)


def style_section(outcome: StyleOutcome) -> str:
    """The style check: its commands, and its log where it failed."""
    told = "Passed:" if outcome.passed else "Failed:"
    commands = ", ".join(code(command, 200) for command in outcome.commands)
    log = "" if outcome.passed or not outcome.log.strip() else code_block(outcome.log, "text", 6_000)
    return paragraphs(f"{told} {commands}" if commands else f"{told} no command was run.", log)


def provenance_line(provenance: tuple[tuple[str, str], ...]) -> str:
    """Where numbers come from, in one line."""
    facts = [f"{inline(name, 60)} {code(value)}" for name, value in provenance]
    return f"Provenance: {' · '.join(facts)}" if facts else ""


HOW = {"generate": "candidate", "revise": "revision", "optimize": "change", "modify": "change"}
MAX_ROWS = 64


def attempts_section(attempts: Sequence[Attempt]) -> str:
    """The folded table of a model's attempts; nothing where no model was asked."""
    timed = any(attempt.median_us is not None for attempt in attempts)
    header = ("attempt", "how", "outcome", *(("both passes",) if timed else ()), "tokens")
    rows = [_row(attempt, timed) for attempt in attempts[:MAX_ROWS]]
    return folded("What was tried", table(header, rows, numeric=(0, *range(3, len(header)))))


def _row(attempt: Attempt, timed: bool) -> tuple[str, ...]:
    time = (f"{attempt.median_us:.1f} µs" if attempt.median_us is not None else DASH,) if timed else ()
    tokens = f"{attempt.tokens:,}" if attempt.tokens is not None else DASH
    return str(attempt.number), how(attempt), _outcome(attempt), *time, tokens


def how(attempt: Attempt) -> str:
    """How an attempt was asked for."""
    if attempt.round:
        return f"repair {attempt.round}"
    return f"{HOW.get(attempt.task, inline(attempt.task, 40))}, variation {attempt.variation + 1}"


def _outcome(attempt: Attempt) -> str:
    ended = code(attempt.outcome, 40)
    if attempt.chosen:
        ended = f"**{ended}, taken**"
    return f"{ended}: {inline(attempt.evidence, 160)}" if attempt.evidence else ended
