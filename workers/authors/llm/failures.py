"""What a model is told of a verdict on what it proposed. Pure."""

from __future__ import annotations

from gpu_runner.contracts import Evidence, Verdict
from workers.authors.llm.protocol import Failed

MAX_EVIDENCE = 3
MAX_LOG = 4_000  # characters


def failed_verdict(verdict: Verdict, source: str, more: tuple[str, ...] = ()) -> Failed:
    """A verdict that is not passed, for the model whose ``source`` it is about; ``more`` follows the evidence."""
    shown = verdict.evidence[:MAX_EVIDENCE]
    log = next((item.log for item in shown if item.log), "")
    sentence = shown[0].message if shown else verdict.status.value
    return Failed(source, verdict.status.value, sentence, (*map(evidence_line, shown), *more), log[-MAX_LOG:])


def evidence_line(evidence: Evidence) -> str:
    """Where and how a candidate failed, in a line."""
    where = [part for part in (evidence.workload, evidence.output) if part]
    where += [] if evidence.position is None else [f"at {list(evidence.position)}"]
    where += [] if evidence.line is None else [f"line {evidence.line}"]
    numbers = ("got", "expected", "error", "allowed")
    values = [f"{name} {value:.6g}" for name in numbers if (value := getattr(evidence, name)) is not None]
    return f"{evidence.check}: {evidence.message}; {', '.join([*where, *values])}".rstrip("; ")
