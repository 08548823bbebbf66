"""Injected faults meet an unpatched PyGithub."""

from __future__ import annotations

import time

import pytest
import requests
from github import GithubException, RateLimitExceededException, UnknownObjectException

from deploy.localhub.api import HANDLERS
from deploy.localhub.operations import MUTATIONS, OPERATIONS
from tests.service.localhub.conftest import Place


def test_every_operation_of_the_table_has_a_handler() -> None:
    assert {row.name for row in OPERATIONS} == set(HANDLERS)
    assert len({row.name for row in OPERATIONS}) == len(OPERATIONS)


def test_a_request_fails_as_often_as_it_was_told_to(place: Place) -> None:
    place.hub.open_issue("acme/lib", "alice", "Wanted", "")
    issue = place.repo().get_issue(1)
    place.hub.faults.fail_next("create_issue_comment", 502, times=2)
    for _ in range(2):
        with pytest.raises(GithubException) as failed:
            issue.create_comment("hello")
        assert failed.value.status == 502
    issue.create_comment("hello")
    assert [one.body for one in place.hub.issue("acme/lib", 1).comments] == ["hello"]
    assert place.hub.faults.waiting() == {}


@pytest.mark.parametrize("how", ["502", "disconnect"])
def test_an_answer_is_lost_after_its_effect(place: Place, how: str) -> None:
    place.hub.open_issue("acme/lib", "alice", "Wanted", "")
    issue = place.repo().get_issue(1)
    place.hub.faults.drop_response_next("create_issue_comment", how=how)
    with pytest.raises((GithubException, requests.RequestException)):
        issue.create_comment("hello")
    assert [one.body for one in issue.get_comments()] == ["hello"]


def test_the_rate_limits_are_told_as_github_tells_them(place: Place) -> None:
    github = place.as_app()
    place.hub.faults.rate_limit_next("get_repo", kind="primary", retry_after=30)
    with pytest.raises(RateLimitExceededException) as primary:
        github.get_repo("acme/lib")
    assert primary.value.headers["x-ratelimit-remaining"] == "0"
    assert int(primary.value.headers["x-ratelimit-reset"]) >= time.time() + 25
    place.hub.faults.rate_limit_next("get_repo", kind="secondary", retry_after=7)
    with pytest.raises(RateLimitExceededException) as secondary:
        github.get_repo("acme/lib")
    assert secondary.value.headers["retry-after"] == "7"
    assert github.get_repo("acme/lib").name == "lib"


def test_what_was_just_made_is_missing_at_first(place: Place) -> None:
    repo = place.repo()
    place.hub.faults.missing_then_found("get_git_commit", times=1)
    sha = place.hub.head("acme/lib")
    with pytest.raises(UnknownObjectException):
        repo.get_git_commit(sha)
    assert repo.get_git_commit(sha).sha == sha


def test_a_person_pushes_at_the_very_moment(place: Place) -> None:
    repo = place.repo()
    main = repo.get_git_commit(place.hub.head("acme/lib"))
    commit = repo.create_git_commit("Mine", main.tree, [main])
    place.hub.faults.before_next("update_ref", lambda: place.hub.push("acme/lib", "main", "alice", {"x": "y"}))
    with pytest.raises(GithubException) as refused:
        repo.get_git_ref("heads/main").edit(commit.sha)
    assert refused.value.status == 422
    assert place.hub.read_file("acme/lib", "main", "x") == b"y"


def test_graphql_is_told_apart_by_its_mutation(place: Place) -> None:
    place.hub.push("acme/lib", "work", "alice", {"x.py": "x = 1\n"})
    number = place.hub.open_pull("acme/lib", "alice", "work", "Work", draft=True).number
    pull = place.repo().get_pull(number)
    place.hub.faults.fail_next("mark_ready_for_review", 502)
    with pytest.raises(GithubException):
        pull.mark_ready_for_review()
    assert place.hub.issue("acme/lib", number).pull.draft
    pull.mark_ready_for_review()
    assert not place.hub.issue("acme/lib", number).pull.draft
    assert "mark_ready_for_review" in MUTATIONS.values()


def test_an_operation_that_does_not_exist_cannot_fail(place: Place) -> None:
    with pytest.raises(ValueError, match="no operation 'create_chek_run'"):
        place.hub.faults.fail_next("create_chek_run", 502)


def test_requests_can_be_counted(place: Place) -> None:
    place.repo().create_issue("One")
    made = [one for one in place.hub.requests if one.operation == "create_issue"]
    assert [(one.login, one.status) for one in made] == [("smith[bot]", 201)]


def test_a_slow_answer_is_slow(place: Place) -> None:
    place.hub.faults.delay_next("get_repo", 0.2)
    started = time.monotonic()
    place.as_app().get_repo("acme/lib")
    assert time.monotonic() - started >= 0.2
