"""Whatever stands in a webhook's JSON ends in an answer, or in a refusal that is counted and logged: never in a fault."""

from __future__ import annotations

import itertools
import json
import uuid
from typing import Any

import pytest
from structlog.testing import capture_logs

from service.deliveries import handle
from service.dispatch.events import settled
from tests.few import few
from tests.service.io.conftest import CREATE, Bench
from tests.service.io.samples import PROBLEM, REPOSITORY
from tests.service.io.test_commands import replies
from workers import inbox

IDS = itertools.count(10**6)
USER = {"login": "maintainer", "type": "User"}


def comment(number: object, body: object, **more: Any) -> dict[str, Any]:
    return {
        "action": "created",
        "issue": {"number": number, "body": "please", "user": dict(USER)},
        "comment": {
            "id": next(IDS),
            "body": body,
            "user": dict(USER),
            "html_url": "https://x",
            "updated_at": "2026-01-02T03:04:05Z",
        },
        "repository": {"full_name": REPOSITORY},
        "sender": dict(USER),
    } | more


BODIES = [
    CREATE.replace("import torch", "import torch\nX = '\ud800'"),
    CREATE.replace("import torch", "import torch\nX = '\udc00\ud800'"),
    CREATE.replace("import torch", "import torch\nX = '\x00'"),
    CREATE.replace("import torch", "\ufeffimport torch"),
    CREATE.replace("```python", "\ufeff```python"),
    CREATE.replace("```python", "\u200b```python"),
    CREATE.replace("/kernel", "\ufeff/kernel"),
    "/kernel create \ud800",
    "/kernel create reglu \ud800 and more",
    "/kernel status \ud800",
    "/kernel approve \ud800",
    "/kernel revise \ud800\ufeff",
    "/kernel create reglu from src/\ud800.py",
    "/kernel create reglu from https://github.example/o/r/blob/main/\ud800.py",
    "/kernel create reglu --candidates " + "9" * 5000,
    "/kernel create reglu --candidates ²",
    "/kernel create reglu --target '" + "9" * 5000 + "x'",
    '/kernel optimize geglu --target "1.5x at T=' + "9" * 5000 + '"',
    "/kernel " + "a" * 60000,
    "/kernel create reglu\n```python\n" + "(" * 20000 + "\n```",
    "/kernel create reglu\n```python\nX = " + "9" * 20000 + "\n```",
    "/kernel create reglu\n```python\n" + PROBLEM + "X = 10**10**10\n```",
    "/kernel create reglu\n" + "> " * 5000 + "x",
    "/kernel create reglu\n" + "* " * 5000 + "x",
    "/kernel create reglu\n" + "[" * 20000,
    "/kernel create reglu\n" + "<" * 20000,
    "/kernel create reglu\n" + "<!--" * 10000,
    "/kernel create reglu\n" + '<a "' * 10000,
    "/kernel create reglu\n" + "`" * 30000,
    "/kernel create reglu\n" + "***a " * 10000,
]


# As JSON spells them; the last has more digits than Python reads.
VALUES = [
    *("1" + "0" * 25, "-1", "0", str(2**63), str(2**31), "-1" + "0" * 25, "1.5", "1e400", "NaN"),
    *('"7"', '""', '"\\ud800"', '"../.."', '"a b"', "null", "true", "[7]", '{"a": 7}', "1" + "0" * 5000),
]
PLACES = [
    *("issue.number", "comment.id", "installation.id", "comment.body", "comment.html_url", "comment.updated_at"),
    *("sender.login", "sender.type", "repository.full_name", "issue.body", "issue.user", "changes.body.from", "action"),
    *("issue", "comment", "sender", "repository", "installation", "changes", "changes.body"),
]


def deliver(bench: Bench, body: bytes) -> str:
    """Give the events that were logged while a comment was handled, once, and what came of it was published."""
    inbox.record_deliveries([inbox.NewDelivery(uuid.uuid4().hex, "issue_comment", body)])
    with capture_logs() as logs:
        bench.settle()
    return " ".join(str(line["event"]) for line in logs)


@pytest.mark.parametrize("models", few((False, True), (True,)))
def test_any_text_is_answered_or_starts_a_job(bench: Bench, models: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inbox, "has_models", lambda: models)
    unexpected = []
    for body in BODIES:
        number = bench.issue()
        told = deliver(bench, json.dumps(comment(number, body)).encode())
        jobs = inbox.find_jobs(REPOSITORY, number=number)
        if len(replies(bench, number)) + len(jobs) != 1 or "fault" in told:
            unexpected.append((ascii(body)[:80], told))
        for job in jobs:
            inbox.cancel(job.job_id, "maintainer")
    assert unexpected == []


@pytest.mark.parametrize("turns", few((6, 1), (6,)))
@pytest.mark.parametrize("place", PLACES)
def test_any_value_in_any_place_is_answered_or_refused_at_once(bench: Bench, place: str, turns: int) -> None:
    """Places take turns at the values, in as many turns."""
    unexpected = []
    for value in VALUES[PLACES.index(place) % turns :: turns]:
        payload = comment(bench.issue(), "/kernel create x!", action="edited", changes={"body": {"from": "x"}})
        *above, name = place.split(".")
        target: dict[str, Any] = payload
        for part in above:
            target = target[part] if part in target else target.setdefault(part, {})
        target[name] = "PLACE"
        told = deliver(bench, json.dumps(payload).replace('"PLACE"', value).encode())
        # Of a number that no issue has GitHub says so, and what it does not know it is asked again.
        if "delivery_fault" in told or not any(
            f"delivery_{end}" in told for end in ("handled", "malformed", "postponed")
        ):
            unexpected.append((value[:40], told))
    assert unexpected == []


@pytest.mark.parametrize(
    ("event", "told", "payload"),
    [
        ("issue_comment", "no command", comment(7, "Thanks!")),
        ("issue_comment", "no command", comment(7, "see `/kernel help`")),
        ("issue_comment", "nothing to do", comment(7, "/kernel help", action="deleted")),
        ("issue_comment", None, comment(7, "Thanks!\r\n\ufeff/kernel help")),
        ("issue_comment", None, comment(7, "> quoted\n/kernel help")),
        ("issue_comment", None, comment("seven", "Thanks!")),
        ("issue_comment", None, comment(7, "x" * 200_000)),
        ("issue_comment", None, []),
        ("pull_request_review", None, comment(7, "Thanks!", action="submitted")),
        ("check_run", "nothing to do", {"action": "completed"}),
    ],
)
def test_only_what_asks_for_nothing_is_settled_when_it_arrives(
    bench: Bench, event: str, told: str | None, payload: object
) -> None:
    body = json.dumps(payload).encode()
    assert settled(event, body) == told
    if told is not None:
        assert handle(bench.parts.desk, event, body) == told


def test_code_is_found_behind_a_mark_that_nobody_sees(bench: Bench) -> None:
    for mark in ("\ufeff", "\u200b", "\u2060"):
        number = bench.issue()
        deliver(bench, json.dumps(comment(number, CREATE.replace("```", f"{mark}```"))).encode())
        (job,) = inbox.find_jobs(REPOSITORY, number=number)
        assert job.request.problem.text.strip() == PROBLEM.strip()
        inbox.cancel(job.job_id, "maintainer")
