"""A job that makes a kernel faster, from the command to the end that it has to come to, whatever happens on the way."""

from __future__ import annotations

import json
import re
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path

from deploy.localhub.conversation import CommentEntry
from gpu_runner.contracts import CaptureResult, RecordResult, TuneResult, to_json
from service.report.layout import MessageKind, find_marker
from tests.conversations.normal import Normal
from tests.conversations.optimizing import TODAY, so_fast
from tests.faults.ending import Ending, assert_one_of_everything
from tests.faults.installation import REPOSITORY, Installation
from tests.service.report.facts import TESTS, VERDICT
from tests.service.report.kernels_facts import PROFILED
from tests.workers.stages import library
from workers.contracts import JobView

COMMAND = "/kernel optimize geglu --goal speed --variants 2 --auto"
PROFILE = (
    "tests: environment",
    "capture: capture",
    "record: record",
    "verify: verify",
    "benchmark: benchmark",
    "profile: profile",
    "tests: v0-script",
)
VARIANTS = (
    "tune: v1-tune",
    *("verify: v2-verify", "benchmark: v2-benchmark", "tests: v2-script"),  # the one that is kept
    *("verify: v3-verify", "benchmark: v3-benchmark"),
)
FINALIZE = ("tests: tests-v2", "verify: verify-v2", "benchmark: benchmark", "tests: script")
REQUESTS = (*PROFILE, *VARIANTS, *FINALIZE)
OPTIMIZED = Ending(
    commits=("Optimize the geglu kernel",),
    comments=4,
    checks=1,
    stages=(("profile", 1), ("optimize", 1), ("finalize", 1)),
    gpu_requests={"done": len(REQUESTS)},
)
NUMBER = re.compile(r"COMMIT\d+")
OF_VARIANTS = re.compile(r"v\d+\.(?:py|json)|variants\.json|winner\.patch")


@dataclass(frozen=True)
class Undisturbed:
    """What people find in the end: every comment by its kind, what the pull request says and changes, and each variant's files."""

    comments: dict[str, str]
    pull: str
    patch: str
    artifacts: dict[str, str]


def answers(desk: Path) -> None:
    """Have the runner make every variant that changes something 1.4 times as fast."""
    known = {
        "capture": CaptureResult(None, "the problem is not traced here"),
        "record": RecordResult(()),
        "tune": TuneResult((), None),
        "profile": PROFILED,
        "verify": VERDICT,
        "alone": TODAY,
        "benchmark": so_fast(1.4),
        "tests": TESTS,
    }
    for action, answer in known.items():
        (desk / "answers" / f"{action}-always.json").write_text(json.dumps(to_json(answer)))


def ask(installation: Installation) -> int:
    """Ask for a faster kernel, and give the issue's number."""
    return installation.ask("geglu is slow", COMMAND)


def at_the_second_variant(installation: Installation, action: str) -> int:
    """Ask, go on until a runner waits in an action of v2, and give the issue's number; v1 is finished then."""
    installation.pause("runner.tune")
    issue = ask(installation)
    installation.paused("runner.tune")
    installation.pause(f"runner.{action}")
    installation.release("runner.tune")
    return issue


def retried(undisturbed: Undisturbed, requests: dict[str, int]) -> Ending:
    """Give the ending of a job that stopped in optimize and was retried: told so twice, and asked of a GPU what is given."""
    stages = (("profile", 1), ("optimize", 1), ("optimize", 2), ("finalize", 1))
    return replace(OPTIMIZED, comments=len(undisturbed.comments) + 2, stages=stages, gpu_requests=requests)


def assert_the_same(found: Undisturbed, undisturbed: Undisturbed) -> None:
    """Assert that a job that was retried came to the same, but for what was said about its stop and its attempts."""
    same = {kind for kind in undisturbed.comments if "finalize" in kind or "profile" in kind}
    assert len(same) == 2
    assert {kind: found.comments[kind] for kind in same} == {kind: undisturbed.comments[kind] for kind in same}
    assert replace(found, comments=undisturbed.comments) == undisturbed


def look(installation: Installation, issue: int, ending: Ending = OPTIMIZED) -> Undisturbed:
    """Look at what a job has come to, of which there is one of everything."""
    job = assert_one_of_everything(installation, issue, ending)
    pull, hub = job.pull_number or 0, installation.hub
    assert hub.read_file(REPOSITORY, "main", library.PATH) == library.GEGLU.encode()
    return Undisturbed(
        comments={kind: text for number in (issue, pull) for kind, text in comments(installation, number).items()},
        pull=normal(installation, hub.issue(REPOSITORY, pull).body or ""),
        patch=(hub.as_patch(REPOSITORY, pull).partition("diff --git")[2]),
        artifacts=variants(job),
    )


def comments(installation: Installation, number: int) -> dict[str, str]:
    """Give the bot's comments by their kind, checkpoints by what tells them apart as well."""
    found: dict[str, str] = {}
    for entry in installation.hub.conversation(REPOSITORY, number):
        mark = find_marker(entry.body) if isinstance(entry, CommentEntry) else None
        if mark is not None and isinstance(entry, CommentEntry):
            which = f" {mark.key}" if mark.kind is MessageKind.checkpoint else ""
            found[f"{mark.kind.value}{which}"] = normal(installation, entry.body)
    return found


def variants(job: JobView) -> dict[str, str]:
    """Give the digests of the variants' files, notes and results."""
    return {item.name: item.digest for item in job.artifacts if OF_VARIANTS.fullmatch(item.name)}


def requested(installation: Installation) -> tuple[str, ...]:
    """Give what was asked of a GPU, in order, once for each time that it was asked."""
    job = installation.job()
    return tuple(event.text for event in job.timeline if event.kind == "gpu_requested") if job else ()


def run_again(installation: Installation) -> dict[str, int]:
    """Give how often a runner was started for a request that one had been started for already, by action."""
    starts = Counter(installation.asked())
    again: Counter[str] = Counter()
    for start, count in starts.items():
        again[start.split()[0]] += count - 1
    return dict(+again)


def untouched(installation: Installation) -> bool:
    """Tell whether the repository is as it was before the command, but for the plots that comments show."""
    hub = installation.hub
    return set(hub.branches(REPOSITORY)) <= {"main", "kernelsmith-assets"} and hub.pull_numbers(REPOSITORY) == []


def normal(installation: Installation, text: str) -> str:
    """Give a text as it is in every run."""
    job = installation.job()
    named = Normal(installation.hub_url, lambda: [job.job_id] if job else [])
    return NUMBER.sub("COMMIT", named(text)).replace(installation.environment["KERNELSMITH_PUBLIC_URL"], "https://bot")
