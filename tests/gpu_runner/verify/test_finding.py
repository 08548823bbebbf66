"""Every way in which a candidate's child can fail has its status."""

from __future__ import annotations

import signal

import pytest

from gpu_runner.contracts import Evidence, Status
from gpu_runner.errors import ChildDied, ChildError, ChildOutOfMemory, ChildTimeout, ProtocolError
from gpu_runner.verify.finding import LOG_LINES, VerdictFinding, decisive, failure_of

FAILURES = [
    (ChildTimeout(3.0), "launch", Status.timeout, None),
    (ChildOutOfMemory("too much"), "launch", Status.out_of_memory, None),
    (ChildDied(None, 0), "load", Status.cheating, "ends the process"),
    (ChildDied(signal.SIGSEGV, None), "launch", Status.out_of_bounds, None),
    (ChildDied(signal.SIGSYS, None), "launch", Status.cheating, "forbidden system call"),
    (ChildDied(signal.SIGABRT, None), "launch", Status.launch_error, None),
    (ChildError("NameError", "no x"), "load", Status.compile_error, None),
    (ChildError("CompilationError", "at 3:4"), "launch", Status.compile_error, None),
    (ChildError("ValueError", "odd"), "launch", Status.launch_error, None),
    (ChildError("RuntimeError", "an illegal memory access was met"), "launch", Status.out_of_bounds, None),
    (ChildError("RuntimeError", "DefaultCPUAllocator: can't allocate memory"), "launch", Status.out_of_memory, None),
    (ChildError("SystemExit", "0"), "launch", Status.cheating, "ends the process"),
    (ProtocolError("not a frame"), "launch", Status.cheating, "forged answer"),
]


@pytest.mark.parametrize(("error", "check", "status", "rule"), FAILURES)
def test_a_failure_has_its_status(error: ChildError, check: str, status: Status, rule: str | None) -> None:
    finding = failure_of(error, check, "T=1 float32")
    assert (finding.status, finding.rule) == (status, rule)
    assert finding.evidence.workload == "T=1 float32"


def test_a_cheat_decides_before_what_was_found_first() -> None:
    wrong = VerdictFinding(Status.incorrect_values, Evidence("values", "wrong"))
    cheat = VerdictFinding(Status.cheating, Evidence("honest", "torch"), "torch computes the answer")
    assert decisive([wrong, cheat]) is cheat
    assert decisive([wrong]) is wrong


def test_a_long_log_keeps_its_beginning_and_its_end() -> None:
    log = "\n".join(f"line {number}" for number in range(500))
    text = failure_of(ChildError("ValueError", "odd", log), "launch", None).evidence.log
    assert text is not None
    assert text.startswith("line 0\n")
    assert text.endswith("line 499")
    assert len(text.splitlines()) == LOG_LINES + 1
