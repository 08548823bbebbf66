"""What is said of a proof claims no more than was done."""

from __future__ import annotations

from gpu_runner.contracts import Evidence, Status, Verdict
from service.conversation.verdicts import INTERPRETED, verdict_section


def test_what_was_refused_before_it_ran_is_not_said_to_have_run() -> None:
    evidence = (Evidence("screen", "It imports `numpy`.", line=1),)
    refused = Verdict(Status.refused, evidence, rule="unknown module", interpreted=True)
    assert verdict_section(refused) == "**screen**: It imports `numpy`. (line 1)"
    assert INTERPRETED not in verdict_section(refused)
