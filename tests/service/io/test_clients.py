"""Credentials: narrowed, cached, renewed, and replaced when they were revoked; an App's and a plain token."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import pytest
import structlog
from pydantic import SecretStr

from deploy.localhub.hub import Hub
from deploy.localhub.state import Token
from service import deliveries
from service.github.client import CheckText
from service.github.credentials import PERMISSIONS, CredentialPurpose
from service.github.errors import (
    CREDENTIALS_RETRY_S,
    SHORT_RETRY_S,
    ForbiddenError,
    MissingError,
    TransientError,
    UnauthorizedError,
)
from tests.done_once import keys
from tests.service.io.conftest import CREATE, SECRET, Bench, running
from tests.service.io.stages import Analyze
from workers.contracts import JobState
from workers.redaction import redacted_event

BOT = "kernel-smith"


@pytest.fixture
def with_token(hub: Hub, clock: list[float], analyze: Analyze) -> Iterator[Bench]:
    """The service with a plain token of a user with write permission, and a webhook of the repository."""
    hub.world.state.apps.clear()
    hub.world.state.installations.clear()
    hub.add_user(BOT)
    hub.add_collaborator("octo/kernels", BOT, "write")
    hub.add_hook("octo/kernels", "http://127.0.0.1:9/webhook", SECRET)
    with running(hub, clock, analyze, token=SecretStr(hub.add_token(BOT))) as made:
        yield made


def tokens(bench: Bench) -> list[Token]:
    return [token for token in bench.hub.world.state.tokens.values() if token.installation_id is not None]


def asked(bench: Bench, operation: str) -> int:
    return sum(request.operation == operation for request in bench.hub.requests)


def test_tokens_are_narrowed_to_one_repository_and_the_needed_permissions(bench: Bench) -> None:
    bench.say(bench.issue(), CREATE)
    bench.settle()
    number = next(r.id for r in bench.hub.world.state.repositories.values() if r.full_name == bench.repository)
    assert [token.repository_ids for token in tokens(bench)] == [[number], [number]]
    assert sorted(str(sorted((token.permissions or {}).items())) for token in tokens(bench)) == sorted(
        str(sorted(PERMISSIONS[purpose].items())) for purpose in (CredentialPurpose.intake, CredentialPurpose.publish)
    )


def test_a_token_is_kept_until_shortly_before_it_expires(bench: Bench) -> None:
    for _ in range(3):
        bench.parts.clients.client(bench.repository).repository.info()
    assert asked(bench, "create_installation_token") == 1
    bench.later(50 * 60)
    bench.parts.clients.client(bench.repository).repository.info()
    assert asked(bench, "create_installation_token") == 1
    bench.later(6 * 60)
    bench.parts.clients.client(bench.repository).repository.info()
    assert asked(bench, "create_installation_token") == 2


def test_a_revoked_token_is_replaced(bench: Bench) -> None:
    bench.parts.clients.client(bench.repository).repository.info()
    bench.hub.world.state.tokens.clear()
    with pytest.raises(UnauthorizedError):
        bench.parts.clients.client(bench.repository).repository.info()
    assert bench.parts.clients.client(bench.repository).repository.info().full_name == bench.repository


def test_an_installation_is_found_where_no_payload_named_it(bench: Bench) -> None:
    assert bench.parts.clients.client(bench.repository, None).repository.info().default_branch == "main"
    with pytest.raises(MissingError):
        bench.parts.clients.client("octo/none", None)


def test_a_permission_that_the_owner_has_not_given_is_forbidden(bench: Bench) -> None:
    installation = next(iter(bench.hub.world.state.installations.values()))
    installation.permissions.pop("checks")
    with pytest.raises(ForbiddenError, match="not granted"):
        bench.parts.clients.client(bench.repository, None, CredentialPurpose.publish)


def test_many_threads_use_clients_of_their_own_at_once(bench: Bench) -> None:
    for number in range(4):
        bench.hub.push(bench.repository, "main", "second", {f"file-{number}.txt": f"text {number}\n"})
    wrong: list[object] = []

    def read(number: int) -> None:
        for _ in range(15):
            found = bench.parts.clients.client(bench.repository).repository.text(f"file-{number}.txt", "main")
            if found != f"text {number}\n":
                wrong.append((number, found))

    threads = [threading.Thread(target=read, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert wrong == []


def test_work_whose_time_ran_out_begins_no_further_request(bench: Bench) -> None:
    client = bench.parts.clients.client(bench.repository, deadline_s=0.0)
    before = len(bench.hub.requests)
    with pytest.raises(TransientError, match="ran out"):
        client.repository.info()
    assert len(bench.hub.requests) == before


@pytest.mark.parametrize("path", ["../../../user", "a/../b", "/etc/passwd", "a//b", "a/./b", "x?ref=y", "x#y", ""])
def test_a_path_never_reaches_another_part_of_the_api(bench: Bench, path: str) -> None:
    client = bench.parts.clients.client(bench.repository)
    before = len(bench.hub.requests)
    assert client.repository.text(path, "main") is None
    assert len(bench.hub.requests) == before


def test_a_snapshot_larger_than_the_limit_is_refused_while_it_streams(bench: Bench) -> None:
    client = bench.parts.clients.client(bench.repository)
    sha = bench.hub.head(bench.repository) or ""
    assert client.snapshots.tarball(sha, 1 << 20)[:2] == b"\x1f\x8b"
    with pytest.raises(Exception, match="larger than"):
        client.snapshots.tarball(sha, 100)


def test_a_private_repository_can_be_kept_as_a_snapshot(bench: Bench) -> None:
    bench.hub.create_repository("octo", "hidden", files={"a.py": b"a = 1\n"}, private=True)
    sha = bench.hub.head("octo/hidden") or ""
    assert bench.parts.clients.client("octo/hidden").snapshots.tarball(sha, 1 << 20)


def test_a_whole_job_runs_with_a_plain_token(with_token: Bench) -> None:
    bench = with_token
    number = bench.issue()
    bench.say(number, CREATE)
    bench.persist()
    pull = bench.job().pull_number or 0
    for _ in range(3):
        bench.hub.review(bench.repository, pull, "maintainer", "APPROVE")
        bench.persist()
    assert bench.job().state is JobState.done
    assert len(bench.comments(number, BOT)) == 1
    assert len(bench.comments(pull, BOT)) == 3
    assert bench.hub.check_runs(bench.repository) == []


def test_a_bot_with_a_plain_token_does_not_obey_itself(with_token: Bench) -> None:
    number = with_token.issue()
    with_token.say(number, CREATE, by=BOT)
    with_token.persist()
    assert with_token.jobs() == ()


def test_a_login_is_asked_of_github_once(with_token: Bench) -> None:
    assert [with_token.parts.clients.bot_login() for _ in range(3)] == [BOT] * 3
    assert asked(with_token, "get_authenticated_user") == 1


def test_the_check_of_a_token_says_whose_it_is(with_token: Bench) -> None:
    assert with_token.parts.clients.check().detail == f"signed in as {BOT}"


def test_the_check_of_a_token_that_was_revoked_says_so(with_token: Bench) -> None:
    with_token.hub.world.state.tokens.clear()
    found = with_token.parts.clients.check()
    assert not found.ok
    assert found.detail.startswith("signed as token: ") and "401" in found.detail


def refusals(events: Iterable[Mapping[str, Any]]) -> list[str]:
    return [str(it["event"]) for it in events if str(it["event"]).startswith("credentials_")]


def test_a_token_that_is_refused_before_and_after_an_outage_loses_no_command(
    with_token: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench, tokens_of_hub = with_token, with_token.hub.world.state.tokens
    monkeypatch.setattr(deliveries, "TRANSIENT_TRIES", 3)
    bench.say(bench.issue(), CREATE)
    kept = dict(tokens_of_hub)
    with structlog.testing.capture_logs() as events:
        tokens_of_hub.clear()
        for _ in range(6):
            bench.settle()
            bench.later(700)
        tokens_of_hub.update(kept)
        bench.hub.faults.fail_next("*", 500)
        bench.settle()
        tokens_of_hub.clear()
        bench.later(700)
        bench.settle()
        tokens_of_hub.update(kept)
        bench.later(700)
        bench.persist()
    assert bench.job().state is JobState.waiting
    assert refusals(events) == ["credentials_refused", "credentials_accepted"]


def test_a_pause_after_many_refused_logins_ends_no_job(with_token: Bench) -> None:
    bench = with_token
    bench.say(bench.issue(), CREATE)
    bench.handle()
    told = {"message": "Maximum number of login attempts exceeded. Please try again later."}
    bench.hub.faults.fail_next("create_issue_comment", 403, body=told)
    bench.persist()
    assert bench.job().state is JobState.waiting
    assert asked(bench, "create_issue_comment") > 1


def test_an_app_whose_key_is_refused_is_told_of_once_and_one_refusal_not_at_all(bench: Bench) -> None:
    (app,), (_, other_key) = bench.hub.world.state.apps.values(), keys.__wrapped__()
    with structlog.testing.capture_logs() as events:
        bench.parts.clients.client(bench.repository).repository.info()
        bench.hub.world.state.tokens.clear()
        with pytest.raises(UnauthorizedError) as expired:
            bench.parts.clients.client(bench.repository).repository.info()
        assert expired.value.retry_after_s == SHORT_RETRY_S
        bench.parts.clients.client(bench.repository).repository.info()
        assert refusals(events) == [], "a token of an hour is replaced"
        key, app.public_key_pem = app.public_key_pem, other_key
        for _ in range(4):
            with pytest.raises(UnauthorizedError) as refused:
                bench.parts.clients.client(bench.repository, None, CredentialPurpose.publish)
        assert bench.parts.clients.check().detail.startswith("signed as app: ")
        assert refused.value.retry_after_s == CREDENTIALS_RETRY_S
        app.public_key_pem = key
        bench.parts.clients.client(bench.repository, None, CredentialPurpose.publish)
    assert refusals(events) == ["credentials_refused", "credentials_accepted"]
    shown = [str(redacted_event(event)) for event in events if event["event"] in refusals(events)]
    assert len(shown) == 2 and all("'signed_as': 'app'" in text for text in shown)


def test_a_check_run_is_found_by_the_id_that_the_bot_gave_it(bench: Bench) -> None:
    checks = bench.parts.clients.client(bench.repository, None, CredentialPurpose.publish).checks
    sha = bench.hub.head(bench.repository) or ""
    text = CheckText("Done", "all is well", "success", "https://bot.example/jobs/job")
    made = checks.create("Kernelsmith", sha, "job/update", text)
    found = checks.find(sha, "job/update")
    assert found is not None
    assert (found.check_run_id, found.status, found.conclusion) == (made, "completed", "success")
    assert checks.find(sha, "job/other") is None
