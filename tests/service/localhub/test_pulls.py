"""Pull requests, reviews, review comments and check runs through PyGithub."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from github import GithubException
from github.PullRequest import PullRequest

from deploy.localhub.operations import ApiError
from tests.service.localhub.conftest import Place

CHANGED = "def one():\n    return 2\n\n\ndef two():\n    return 2\n"


def open_pull(place: Place, draft: bool = True) -> PullRequest:
    place.hub.push("acme/lib", "kernelsmith/two", "alice", {"src/ops.py": CHANGED}, message="Add two")
    return place.repo().create_pull(base="main", head="kernelsmith/two", title="Add two", body="profile", draft=draft)


def test_a_draft_becomes_ready(place: Place) -> None:
    pull = open_pull(place)
    assert pull.draft and pull.user.login == "smith[bot]"
    pull.mark_ready_for_review()
    assert not place.repo().get_pull(pull.number).draft


def test_the_head_follows_its_branch(place: Place) -> None:
    pull = open_pull(place)
    newer = place.hub.push("acme/lib", "kernelsmith/two", "alice", {"new.py": "x = 1\n"}, message="More")
    pull = place.repo().get_pull(pull.number)
    assert pull.head.sha == newer
    assert pull.head.ref == "kernelsmith/two" and pull.base.ref == "main"
    assert (pull.commits, pull.changed_files, pull.additions, pull.deletions) == (2, 2, 6, 1)


def test_pull_requests_are_found_by_head(place: Place) -> None:
    number = open_pull(place).number
    repo = place.repo()
    assert [one.number for one in repo.get_pulls(head="acme:kernelsmith/two")] == [number]
    assert [one.number for one in repo.get_pulls(state="all", head="acme:other")] == []


def test_a_second_pull_request_for_the_same_branch_is_refused(place: Place) -> None:
    open_pull(place)
    with pytest.raises(GithubException) as refused:
        open_pull(place)
    assert refused.value.status == 422
    assert "already exists for acme:kernelsmith/two" in refused.value.data["errors"][0]["message"]


def test_a_pull_request_without_commits_is_refused(place: Place) -> None:
    repo = place.repo()
    repo.create_git_ref("refs/heads/same", repo.get_git_ref("heads/main").object.sha)
    with pytest.raises(GithubException) as refused:
        repo.create_pull(base="main", head="same", title="Nothing", body="")
    assert refused.value.status == 422
    with pytest.raises(GithubException) as missing:
        repo.create_pull(base="main", head="not-there", title="Nothing", body="")
    assert missing.value.data["errors"][0]["field"] == "head"
    assert place.hub.pull_numbers("acme/lib") == []


def test_the_body_of_a_pull_request_is_edited_and_it_is_closed(place: Place) -> None:
    pull = open_pull(place)
    pull.edit(title="Better", body="changed")
    pull.edit(state="closed")
    found = place.repo().get_pull(pull.number)
    assert (found.title, found.body, found.state, found.merged) == ("Better", "changed", "closed", False)


def test_a_review_is_requested_but_not_from_the_author(place: Place) -> None:
    pull = open_pull(place)
    pull.create_review_request(reviewers=["alice"])
    assert [user.login for user in place.repo().get_pull(pull.number).requested_reviewers] == ["alice"]
    with pytest.raises(GithubException) as refused:
        pull.create_review_request(reviewers=["smith[bot]"])
    assert (refused.value.status, refused.value.data["message"]) == (
        422,
        "Review cannot be requested from pull request author.",
    )
    place.hub.add_user("mallory")
    with pytest.raises(GithubException) as stranger:
        pull.create_review_request(reviewers=["mallory"])
    assert stranger.value.status == 422
    place.hub.review("acme/lib", pull.number, "alice", "APPROVE")
    assert place.repo().get_pull(pull.number).requested_reviewers == []


def test_a_review_holds_its_commit_and_its_line_comments(place: Place) -> None:
    pull = open_pull(place)
    note = {"path": "src/ops.py", "line": 5, "body": "why two?"}
    place.hub.review("acme/lib", pull.number, "alice", "REQUEST_CHANGES", "please change", comments=[note])
    [review] = pull.get_reviews()
    assert (review.state, review.commit_id) == ("CHANGES_REQUESTED", pull.head.sha)
    [found] = pull.get_single_review_comments(review.id)
    assert (found.path, found.line, found.body) == ("src/ops.py", 5, "why two?")
    assert found.diff_hunk.splitlines()[-1] == "+def two():"
    place.hub.push("acme/lib", "kernelsmith/two", "alice", {"new.py": "x = 1\n"})
    assert next(iter(pull.get_reviews())).commit_id == pull.head.sha != place.repo().get_pull(pull.number).head.sha


def test_a_comment_on_a_line_outside_of_the_diff_is_refused(place: Place) -> None:
    pull = open_pull(place)
    note = {"path": "src/ops.py", "line": 77, "body": "?"}
    with pytest.raises(ApiError) as refused:
        place.hub.review("acme/lib", pull.number, "alice", "COMMENT", "x", comments=[note])
    assert refused.value.status == 422
    assert list(pull.get_reviews()) == []


def test_nobody_approves_their_own_pull_request(place: Place) -> None:
    pull = open_pull(place)
    with pytest.raises(ApiError) as refused:
        place.hub.review("acme/lib", pull.number, "smith[bot]", "APPROVE")
    assert (refused.value.status, refused.value.message) == (422, "Can not approve your own pull request")
    place.hub.review("acme/lib", pull.number, "smith[bot]", "COMMENT", "a remark")
    assert [review.state for review in pull.get_reviews()] == ["COMMENTED"]


def test_a_superseded_comment_is_minimised(place: Place) -> None:
    pull = open_pull(place)
    comment = pull.create_issue_comment("first result")
    assert comment.minimize("OUTDATED") is True
    assert place.hub.issue("acme/lib", pull.number).comments[0].minimized == "outdated"


def test_a_check_run_is_made_and_listed(place: Place) -> None:
    pull = open_pull(place)
    repo = place.repo()
    repo.create_check_run(
        "kernelsmith",
        pull.head.sha,
        external_id="job-1",
        status="completed",
        conclusion="failure",
        completed_at=datetime(2026, 1, 2, tzinfo=UTC),
        output={"title": "Wrong", "summary": "values differ"},
        actions=[{"label": "Run again", "description": "once more", "identifier": "again"}],
    )
    [found] = repo.get_commit(pull.head.sha).get_check_runs(check_name="kernelsmith")
    assert (found.status, found.conclusion, found.external_id) == ("completed", "failure", "job-1")
    assert (found.output.title, found.app.slug) == ("Wrong", "smith")


def test_a_person_makes_no_check_run(place: Place) -> None:
    pull = open_pull(place)
    with pytest.raises(GithubException) as refused:
        place.repo(place.as_person("alice")).create_check_run("mine", pull.head.sha)
    assert (refused.value.status, refused.value.data["message"]) == (403, "You must authenticate via a GitHub App.")


def test_a_pull_request_comes_from_a_fork(place: Place) -> None:
    place.hub.fork("acme/lib", "carol")
    sha = place.hub.push("carol/lib", "mine", "carol", {"hers.py": "x = 1\n"})
    issue = place.hub.open_pull("acme/lib", "carol", "carol:mine", "From a fork")
    pull = place.repo().get_pull(issue.number)
    assert (pull.head.repo.full_name, pull.head.sha, pull.head.label) == ("carol/lib", sha, "carol:mine")
    newer = place.hub.push("carol/lib", "mine", "carol", {"more.py": "y = 1\n"})
    assert place.repo().get_pull(issue.number).head.sha == newer
    assert place.repo().get_git_ref(f"pull/{issue.number}/head").object.sha == newer


def test_a_merge_closes_the_pull_request(place: Place) -> None:
    pull = open_pull(place, draft=False)
    place.hub.merge("acme/lib", pull.number, "alice")
    found = place.repo().get_pull(pull.number)
    assert (found.state, found.merged) == ("closed", True)
    assert place.hub.read_file("acme/lib", "main", "src/ops.py") == CHANGED.encode()
