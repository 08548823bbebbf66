"""A job that fuses a model may be killed in each of its stages, and comes to the same end; a part that fails stays with torch.

In `make test` the same strikes a create and an optimize, and a part fails in a conversation.
"""

from __future__ import annotations

import json

import pytest

from deploy.localhub.conversation import CommentEntry
from gpu_runner.contracts import Evidence, Status, Verdict, to_json
from tests.faults import ending
from tests.faults.ending import Ending
from tests.faults.installation import REPOSITORY, Installation
from tests.faults.processes import parent_of
from tests.recorded.libraries import FUSED, fuse

pytestmark = [pytest.mark.fault, pytest.mark.slow, pytest.mark.timeout(900)]

# A place where a stage has done half of its work, and no stage before it that no review parts from it comes to.
INSIDE = {
    "route": "gpu_requested",
    "extract": "memo_computed",
    "dispatch": "gpu_requested",
    "compose": "memo_kept",
    "validate": "gpu_requested",
}
STAGES = tuple(INSIDE)
REVIEWED = ("extract", "compose", "validate")
COMPOSED = Ending(
    commits=("Add the reference of model and its tests", "Add model, composed of proved kernels"),
    comments=4,
    checks=3,
    stages=tuple((stage, 1) for stage in STAGES),
    gpu_requests={"done": 14},
    has_pictures=False,
)
WRONG = Verdict(Status.incorrect_values, (Evidence("values", "It is off."),))


def fails_one_part(installation: Installation) -> None:
    """Have the next verdict be that a part is wrong."""
    (installation.desk / "answers" / "verify-00.json").write_text(json.dumps(to_json(WRONG)))


def is_composed(installation: Installation, issue: int) -> None:
    """Assert that the model was fused, once, with the part that failed named."""
    job = ending.assert_one_of_everything(installation, issue, COMPOSED)
    said = "\n".join(
        entry.body
        for entry in installation.hub.conversation(REPOSITORY, job.pull_number or 0)
        if isinstance(entry, CommentEntry)
    )
    assert "composed of 2 proved parts" in said and "stays with torch: incorrect" in said


def kill(installation: Installation, place: str, following: str | None, *, in_pool: bool) -> None:
    """End the worker that waits at a place, its process or the one that outlives it; pause what comes next before it goes on."""
    pid = installation.paused(place)
    if following is not None:
        installation.pause(following)
    installation.kill(pid if in_pool else parent_of(pid), f"{'pool process' if in_pool else 'worker'} at {place}")
    installation.release(place)


@pytest.mark.long
def test_the_worker_is_killed_inside_and_at_the_end_of_every_stage(installation: Installation) -> None:
    installation.pause(INSIDE["route"])
    issue = installation.ask("Wanted: a fused model", fuse(FUSED))
    for stage, following in zip(STAGES, (*STAGES[1:], None), strict=True):
        if stage == "dispatch":
            fails_one_part(installation)
        kill(installation, INSIDE[stage], "stage_ran", in_pool=True)
        at_once = following is not None and stage not in REVIEWED
        kill(installation, "stage_ran", INSIDE[following or stage] if at_once else None, in_pool=False)
        if stage in REVIEWED:
            installation.waits(stage)
            if following is not None:
                installation.pause(INSIDE[following])
            installation.approve(stage)
    is_composed(installation, issue)


@pytest.mark.long
def test_the_worker_and_the_runner_are_killed_while_parts_are_proved_and_one_fails(installation: Installation) -> None:
    issue = installation.ask("Wanted: a fused model", fuse(FUSED))
    installation.waits("extract")
    installation.pause("gpu_requested")
    installation.approve("extract")
    kill(installation, "gpu_requested", "runner.verify", in_pool=True)
    fails_one_part(installation)
    kill(installation, "runner.verify", "stage_ran", in_pool=True)
    kill(installation, "stage_ran", None, in_pool=False)
    installation.approve("compose")
    installation.approve("validate")
    is_composed(installation, issue)
