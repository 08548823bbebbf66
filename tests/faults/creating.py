"""A job that creates a kernel, from the command to the end that it has to come to."""

from __future__ import annotations

from tests.faults import ending
from tests.faults.ending import Ending
from tests.faults.installation import Installation
from tests.recorded.libraries import REGLU, create

STAGES = ("analyze", "generate", "validate")
CREATED = Ending(
    commits=("Add the reference of reglu and its tests", "Add the reglu kernel"),
    comments=4,
    checks=3,
    stages=tuple((stage, 1) for stage in STAGES),
    gpu_requests={"done": 5},
)


def ask(installation: Installation) -> int:
    """Ask for a kernel, and give the issue's number."""
    return installation.ask("Wanted: reglu", create("reglu", REGLU))


def assert_one_of_everything(installation: Installation, issue: int) -> None:
    """Assert that the kernel was created, once."""
    ending.assert_one_of_everything(installation, issue, CREATED)
