"""A modify job loses its worker while a model is asked, and its runner while the change is judged: one pull request comes of it."""

from __future__ import annotations

import json

import pytest

from gpu_runner.contracts import CaptureResult, TestsResult, to_json
from tests.conversations.modifying import ADDED, LIGER_SUITE, NODES, SLOPE, WORDS, slope, suite
from tests.conversations.optimizing import so_fast
from tests.faults.ending import Ending, assert_one_of_everything
from tests.faults.installation import REPOSITORY
from tests.faults.modelled import HANGS, Modelled, answered
from tests.faults.optimizing import run_again, untouched
from tests.faults.processes import parent_of
from tests.service.report.facts import VERDICT
from tests.workers.stages.library import GEGLU, PATH, SUITE

pytestmark = [pytest.mark.fault, pytest.mark.long, pytest.mark.slow, pytest.mark.timeout(900)]

MODIFIED = Ending(
    commits=("Change the geglu kernel",),
    comments=3,
    checks=2,
    stages=(("modify", 1), ("confirm", 1)),
    gpu_requests={"done": 15},
)
ALL, ONE = suite(SUITE), suite(SUITE, nodes=NODES[:1])
WITHOUT = suite(SUITE, NODES[1])
# The suite as it stands, with the change, and with its tests alone; in confirm once more.
RUNS = (ONE, ALL, WITHOUT, ONE, ALL, WITHOUT)


def answers(asking: Modelled, *runs: TestsResult) -> None:
    """Have the runner find everything right, and the added test fail without the change."""
    folder = asking.installation.desk / "answers"
    always = {"capture": CaptureResult(None), "verify": VERDICT, "benchmark": so_fast(1.0)}
    for action, answer in always.items():
        (folder / f"{action}-always.json").write_text(json.dumps(to_json(answer)))
    (folder / "alone-always.json").unlink()
    (folder / "tests-always.json").unlink()
    for number, run in enumerate(runs):
        (folder / f"tests-{number:02}.json").write_text(json.dumps(to_json(run)))


def test_the_worker_is_killed_around_the_answer_and_the_runner_in_the_verdict_and_the_tests(
    asking_to_modify: Modelled,
) -> None:
    asking, installation = asking_to_modify, asking_to_modify.installation
    answers(asking, *RUNS)
    asking.line.reply(HANGS).answer(slope(), slope())
    installation.pause("model_reserved")
    issue = installation.ask("geglu with a slope", f"/kernel modify geglu {WORDS} --candidates 1 --auto")
    worker = installation.paused("model_reserved")
    installation.pause("model_answered")
    installation.release("model_reserved")
    asking.hears(1)
    installation.kill(worker, "pool process while a model is asked")
    pid = installation.paused("model_answered")
    installation.pause("runner.verify")
    installation.kill(parent_of(pid), "worker with an answer")
    installation.release("model_answered")
    runner = installation.paused("runner.verify")
    assert untouched(installation)
    installation.pause("runner.tests")
    installation.kill(runner, "runner in verify")
    installation.release("runner.verify")
    runner = installation.paused("runner.tests")
    assert untouched(installation)
    installation.kill(parent_of(runner), "pool process in tests")
    installation.release("runner.tests")
    job = assert_one_of_everything(installation, issue, MODIFIED)
    expected = GEGLU
    for old, new in SLOPE:
        expected = expected.replace(old, new)
    hub = installation.hub
    assert hub.read_file(REPOSITORY, job.branch or "", PATH) == expected.encode()
    assert hub.read_file(REPOSITORY, job.branch or "", SUITE) == f"{LIGER_SUITE}\n\n{ADDED}".encode()
    assert hub.read_file(REPOSITORY, "main", PATH) == GEGLU.encode()
    assert run_again(installation) == {"verify": 1, "tests": 1}
    lost = ("candidate-1", "lost")
    assert asking.paid() == [lost, lost, *answered("candidate-1")]
