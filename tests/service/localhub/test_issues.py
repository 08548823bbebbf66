"""Issues, comments and reactions through PyGithub."""

from __future__ import annotations

import pytest
from github import GithubException, UnknownObjectException

from tests.service.localhub.conftest import Place


def test_a_comment_can_be_written_edited_and_read(place: Place) -> None:
    place.hub.open_issue("acme/lib", "alice", "Wanted: reglu", "please")
    issue = place.repo().get_issue(1)
    comment = issue.create_comment("working")
    comment.edit("done")
    assert [(one.user.login, one.user.type, one.body) for one in issue.get_comments()] == [
        ("smith[bot]", "Bot", "done")
    ]
    assert issue.get_comment(comment.id).body == "done"


def test_the_same_reaction_twice_is_one(place: Place) -> None:
    place.hub.open_issue("acme/lib", "alice", "Wanted", "")
    comment_id = place.hub.comment("acme/lib", 1, "alice", "/kernel help").id
    comment = place.repo().get_issue(1).get_comment(comment_id)
    first, second = comment.create_reaction("eyes"), comment.create_reaction("eyes")
    assert first.id == second.id
    assert [(one.content, one.user.login) for one in comment.get_reactions()] == [("eyes", "smith[bot]")]


def test_an_issue_takes_a_reaction(place: Place) -> None:
    place.hub.open_issue("acme/lib", "alice", "Wanted", "")
    issue = place.repo().get_issue(1)
    issue.create_reaction("rocket")
    assert [one.content for one in issue.get_reactions()] == ["rocket"]


def test_a_body_over_the_limit_is_refused_and_one_at_the_limit_is_not(place: Place) -> None:
    place.hub.open_issue("acme/lib", "alice", "Wanted", "")
    issue = place.repo().get_issue(1)
    assert len(issue.create_comment("x" * 65_536).body) == 65_536
    with pytest.raises(GithubException) as refused:
        issue.create_comment("x" * 65_537)
    assert refused.value.status == 422
    assert "65536" in refused.value.data["errors"][0]["message"]


def test_pages_of_comments_follow_one_another(place: Place) -> None:
    place.hub.open_issue("acme/lib", "alice", "Wanted", "")
    for number in range(65):
        place.hub.comment("acme/lib", 1, "alice", f"comment {number}")
    comments = place.repo().get_issue(1).get_comments()
    assert [one.body for one in comments] == [f"comment {number}" for number in range(65)]
    assert comments.totalCount == 65
    assert [one.body for one in comments.reversed][:2] == ["comment 64", "comment 63"]


def test_an_issue_is_opened_closed_and_listed(place: Place) -> None:
    repo = place.repo(place.as_person("carol"))
    issue = repo.create_issue("One", body="text")
    repo.create_issue("Two")
    issue.edit(state="closed")
    assert [one.title for one in repo.get_issues()] == ["Two"]
    assert {one.title for one in repo.get_issues(state="all")} == {"One", "Two"}


def test_only_the_author_or_a_maintainer_edits_a_comment(place: Place) -> None:
    place.hub.open_issue("acme/lib", "alice", "Wanted", "")
    comment_id = place.hub.comment("acme/lib", 1, "alice", "mine").id
    with pytest.raises(GithubException) as refused:
        place.repo(place.as_person("carol")).get_issue(1).get_comment(comment_id).edit("hers")
    assert refused.value.status == 403
    assert place.hub.issue("acme/lib", 1).comments[0].body == "mine"


def test_what_is_not_there_is_404(place: Place) -> None:
    with pytest.raises(UnknownObjectException):
        place.repo().get_issue(77)
    with pytest.raises(UnknownObjectException) as missing:
        place.as_app().get_repo("acme/other")
    assert missing.value.data["message"] == "Not Found"
    assert missing.value.data["documentation_url"]


def test_every_answer_carries_the_rate_limit(place: Place) -> None:
    github = place.as_app()
    github.get_repo("acme/lib")
    remaining, limit = github.rate_limiting
    assert 0 < remaining <= limit == 5000
