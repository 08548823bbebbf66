"""What was checked in a case, found against a candidate and let pass, and what the ways a child can fail mean for it. Pure."""

from __future__ import annotations

import math
import signal
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from gpu_runner.contracts.verify import Check, Evidence, Status
from gpu_runner.errors import (
    AnswerRefused,
    ChildDied,
    ChildError,
    ChildFailed,
    ChildOutOfMemory,
    ChildTimeout,
    ProtocolError,
)
from gpu_runner.numerics.compare import ValueComparison

LOG_LINES = 40
MOST_EXCUSED = 12
_COMPILE_KINDS = frozenset(
    {
        "CompilationError",
        "CompileTimeAssertionFailure",
        "UnsupportedLanguageConstruct",
        "PTXASError",
        "OutOfResources",
        "SyntaxError",
        "IndentationError",
        "ImportError",
        "ModuleNotFoundError",
    }
)
_WILD_SIGNALS = (signal.SIGSEGV, signal.SIGBUS)
_NO_MEMORY_WORDS = ("can't allocate memory", "CUDA out of memory")  # torch has no class of its own for it on the host
_WILD_WORDS = ("illegal memory access", "misaligned address", "invalid device pointer")


@dataclass(frozen=True)
class VerdictFinding:
    """One thing that is wrong."""

    status: Status
    evidence: Evidence
    rule: str | None = None


@dataclass(frozen=True)
class Examined:
    """What came of one case: every check, and what is wrong."""

    checks: tuple[Check, ...] = ()
    findings: tuple[VerdictFinding, ...] = ()
    deterministic: bool | None = True  # None: there was no second run
    overwrites: tuple[str, ...] = ()  # of those that may be
    allowances: tuple[str, ...] = ()
    excused: tuple[Evidence, ...] = ()


def decisive(findings: Sequence[VerdictFinding]) -> VerdictFinding:
    """The finding that names the verdict: a cheat, else a write where none belongs, which may be why values are wrong."""
    cheats = [finding for finding in findings if finding.status is Status.cheating]
    writes = [finding for finding in findings if finding.status in (Status.out_of_bounds, Status.mutated_input)]
    return (cheats or writes or list(findings))[0]


def largest(excused: Iterable[Evidence]) -> tuple[Evidence, ...]:
    """Of what was let pass the one with the largest error, by what would be allowed, for each check and output."""
    worst: dict[tuple[str, str | None], Evidence] = {}
    for evidence in excused:
        key = (evidence.check, evidence.output)
        if key not in worst or _beyond(evidence) > _beyond(worst[key]):
            worst[key] = evidence
    return tuple(sorted(worst.values(), key=_beyond, reverse=True)[:MOST_EXCUSED])


def _beyond(evidence: Evidence) -> float:
    if evidence.error is None or not evidence.allowed:
        return math.inf
    return evidence.error / evidence.allowed


def failure_of(error: ChildFailed | ProtocolError, check: str, workload: str | None) -> VerdictFinding:
    """What a failure of its child says of a candidate."""
    status, rule, message = _meaning(error, check)
    log = _first_lines(error.log) if isinstance(error, ChildFailed) else None
    line = error.line if isinstance(error, ChildError) else None
    return VerdictFinding(status, Evidence(check, message, workload, line=line, log=log), rule)


def _meaning(error: ChildFailed | ProtocolError, check: str) -> tuple[Status, str | None, str]:
    if isinstance(error, ChildTimeout):
        busy = f" and {error.added_s:.0f} s for which it waited for a processor of this host" if error.added_s else ""
        return Status.timeout, None, f"The candidate gave no answer within {error.timeout_s:.0f} s{busy}."
    if isinstance(error, ChildOutOfMemory):
        return Status.out_of_memory, None, f"The candidate took more memory than there is: {_short(str(error))}"
    if isinstance(error, AnswerRefused):
        message = f"The answer was not read: {_short(error.message)}."
        return (Status.incorrect_shape, None, message) if error.wrong_shape else (Status.refused, "answer", message)
    if isinstance(error, ChildDied):
        return _death(error)
    if isinstance(error, ChildError):
        return _raised(error, check)
    return Status.cheating, "forged answer", "The candidate's process answered in place of the runner's own code."


def _death(error: ChildDied) -> tuple[Status, str | None, str]:
    if error.signal in _WILD_SIGNALS:
        return Status.out_of_bounds, None, "The kernel read or wrote memory that is not there, and the process crashed."
    if error.signal == signal.SIGSYS:
        return (
            Status.cheating,
            "forbidden system call",
            "The candidate made a system call that a kernel has no use for.",
        )
    if error.exit_code is not None:
        return Status.cheating, "ends the process", f"The candidate ended its process (exit code {error.exit_code})."
    return Status.launch_error, None, f"The candidate's process was killed: {_short(str(error))}."


def _raised(error: ChildError, check: str) -> tuple[Status, str | None, str]:
    if error.verdict is not None:
        return Status(error.verdict[0]), error.verdict[1], error.message
    text = _short(f"{error.kind}: {error.message}")
    if error.kind in ("SystemExit", "KeyboardInterrupt"):
        return Status.cheating, "ends the process", f"The candidate tried to end its process ({text})."
    if any(word in error.message for word in _WILD_WORDS):
        return Status.out_of_bounds, None, text
    if any(word in error.message for word in _NO_MEMORY_WORDS):
        return Status.out_of_memory, None, text
    if check == "load" or error.kind in _COMPILE_KINDS:
        return Status.compile_error, None, text
    return Status.launch_error, None, text


def _first_lines(log: str) -> str | None:
    lines = log.strip().splitlines()
    if len(lines) > LOG_LINES:
        half = LOG_LINES // 2
        lines = [*lines[:half], f"... {len(lines) - LOG_LINES} lines left out ...", *lines[-half:]]
    return "\n".join(line[:300] for line in lines) or None


def _short(text: str) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= 300 else flat[:299] + "…"


@dataclass
class CaseNotes:
    """Checks and findings of one case; ``allowances``, ``overwrites`` and ``excused`` as the verdict gives them."""

    workload: str
    checks: list[Check] = field(default_factory=list)
    findings: list[VerdictFinding] = field(default_factory=list)
    allowances: dict[str, None] = field(default_factory=dict)
    overwrites: dict[str, None] = field(default_factory=dict)
    excused: list[Evidence] = field(default_factory=list)

    def ok(self, name: str, output: str | None = None, comparison: ValueComparison | None = None) -> None:
        """Note a check that held."""
        error = comparison.error if comparison else None
        allowed = comparison.allowed if comparison else None
        self.checks.append(Check(name, self.workload, True, output, error, allowed))
        if comparison is not None and comparison.other_kind:
            self.checks.append(Check("other_kind_of_nonfinite", self.workload, True, output))
        if comparison is not None and comparison.by_peer:
            self.allow(name)

    def allow(self, name: str) -> None:
        """Note a check that was let pass because what stands in the repository fails it too."""
        self.allowances[name] = None

    def excuse(self, name: str, message: str, output: str | None, alone: ValueComparison) -> None:
        """Note what would be wrong if what stands in the repository did not err as much."""
        self.excused.append(self._evidence(name, message, output, alone))

    def take(self, other: CaseNotes, before: str = "", after: str = "") -> None:
        """Add the notes of another look at the same case; each sentence of a finding stands between two others."""
        self.checks += other.checks
        self.allowances |= other.allowances
        self.overwrites |= other.overwrites
        self.excused += other.excused
        for finding in other.findings:
            message = f"{before}{finding.evidence.message}{after}"
            self.findings.append(replace(finding, evidence=replace(finding.evidence, message=message)))

    def wrong(
        self,
        status: Status,
        name: str,
        message: str,
        output: str | None = None,
        comparison: ValueComparison | None = None,
        rule: str | None = None,
        line: int | None = None,
    ) -> None:
        """Note a check that did not hold."""
        compared = comparison or ValueComparison(False, name)
        evidence = replace(self._evidence(name, message, output, compared), line=line)
        self.add(VerdictFinding(status, evidence, rule))

    def add(self, finding: VerdictFinding) -> None:
        """Note what is wrong, and the check that did not hold."""
        evidence = finding.evidence
        self.checks.append(
            Check(evidence.check, self.workload, False, evidence.output, evidence.error, evidence.allowed)
        )
        self.findings.append(finding)

    def _evidence(self, name: str, message: str, output: str | None, comparison: ValueComparison) -> Evidence:
        return Evidence(
            name,
            message,
            self.workload,
            output,
            comparison.position,
            comparison.got,
            comparison.expected,
            comparison.error,
            comparison.allowed,
        )
