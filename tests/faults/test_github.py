"""GitHub at its worst, for a whole installation: webhooks twice and in the wrong order, and requests that fail."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from deploy.localhub.operations import Faults
from tests.faults.creating import STAGES, ask, assert_one_of_everything
from tests.faults.installation import Installation

pytestmark = [pytest.mark.fault, pytest.mark.long, pytest.mark.slow, pytest.mark.timeout(900)]

Strike = Callable[[Faults, str], None]


def bad_gateway(faults: Faults, operation: str) -> None:
    faults.fail_next(operation, 502)


def lost(faults: Faults, operation: str) -> None:
    faults.drop_response_next(operation, how="disconnect")


def not_there_yet(faults: Faults, operation: str) -> None:
    faults.missing_then_found(operation)


def too_fast(faults: Faults, operation: str) -> None:
    faults.rate_limit_next(operation, "secondary", retry_after=1)


def used_up(faults: Faults, operation: str) -> None:
    faults.rate_limit_next(operation, "primary", retry_after=1)


# Every request with every fault is tried in tests/service/io, where the pauses before another try cost no time.
STRIKES: tuple[tuple[str, Strike], ...] = (
    ("get_archive", bad_gateway),
    ("create_issue_comment", lost),
    ("create_git_commit", too_fast),
    ("create_pull", lost),
    ("create_check_run", used_up),
    ("update_pull", not_there_yet),
    ("mark_ready_for_review", too_fast),
)


def test_requests_fail_and_every_webhook_comes_twice_and_in_the_wrong_order(
    install: Callable[..., Installation],
) -> None:
    installation = install(deliver=False)
    installation.order = "reversed"
    installation.ready()
    for operation, strike in STRIKES:
        strike(installation.hub.faults, operation)
    issue = ask(installation)
    for stage in STAGES:
        installation.approve(stage)
    assert_one_of_everything(installation, issue)
