"""Collects what was checked, found and let pass in one case."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from gpu_runner.contracts.verify import Check, Evidence, Status
from gpu_runner.verify.compare import Comparison
from gpu_runner.verify.finding import Finding


@dataclass
class Notes:
    """Checks and findings of one case; ``allowances``, ``overwrites`` and ``excused`` as the verdict gives them."""

    workload: str
    checks: list[Check] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    allowances: dict[str, None] = field(default_factory=dict)
    overwrites: dict[str, None] = field(default_factory=dict)
    excused: list[Evidence] = field(default_factory=list)

    def ok(self, name: str, output: str | None = None, comparison: Comparison | None = None) -> None:
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

    def excuse(self, name: str, message: str, output: str | None, alone: Comparison) -> None:
        """Note what would be wrong if what stands in the repository did not err as much."""
        self.excused.append(self._evidence(name, message, output, alone))

    def take(self, other: Notes, before: str = "", after: str = "") -> None:
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
        comparison: Comparison | None = None,
        rule: str | None = None,
        line: int | None = None,
    ) -> None:
        """Note a check that did not hold."""
        found = comparison or Comparison(False, name)
        self.checks.append(Check(name, self.workload, False, output, found.error, found.allowed))
        evidence = replace(self._evidence(name, message, output, found), line=line)
        self.findings.append(Finding(status, evidence, rule))

    def _evidence(self, name: str, message: str, output: str | None, found: Comparison) -> Evidence:
        return Evidence(
            name,
            message,
            self.workload,
            output,
            found.position,
            found.got,
            found.expected,
            found.error,
            found.allowed,
        )
