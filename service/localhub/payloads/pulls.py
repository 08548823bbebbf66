"""Pull requests, reviews and their comments. Pure, but for the history that git is asked for."""

from __future__ import annotations

from service.localhub.git import changed_files
from service.localhub.payloads.issues import issue, reaction_counts
from service.localhub.payloads.people import Json, association, iso, node_id, user
from service.localhub.payloads.repositories import repository as repository_shape
from service.localhub.state import Issue, Pull, Repository, Review, ReviewComment
from service.localhub.world import World

_FROM_ISSUE = (
    "number",
    "state",
    "locked",
    "title",
    "user",
    "body",
    "labels",
    "assignee",
    "assignees",
    "milestone",
    "created_at",
    "updated_at",
    "closed_at",
    "author_association",
    "active_lock_reason",
    "html_url",
    "comments",
)


def pull(world: World, repository: Repository, item: Issue, full: bool = True) -> Json:
    """A pull request; ``full`` adds the counts that lists leave out."""
    request = _pull_of(item)
    as_issue = issue(world, repository, item)
    url = f"{world.api_url}/repos/{repository.full_name}/pulls/{item.number}"
    issue_url = as_issue["url"]
    shape: Json = {key: as_issue[key] for key in _FROM_ISSUE} | {
        "id": request.id,
        "node_id": node_id("pull", request.id),
        "url": url,
        "diff_url": f"{as_issue['html_url']}.diff",
        "patch_url": f"{as_issue['html_url']}.patch",
        "issue_url": issue_url,
        "commits_url": f"{url}/commits",
        "review_comments_url": f"{url}/comments",
        "review_comment_url": f"{world.api_url}/repos/{repository.full_name}/pulls/comments{{/number}}",
        "comments_url": f"{issue_url}/comments",
        "statuses_url": f"{world.api_url}/repos/{repository.full_name}/statuses/{request.head_sha}",
        "draft": request.draft,
        "merged_at": iso(request.merged_at),
        "merge_commit_sha": request.merge_commit_sha,
        "requested_reviewers": [user(world, world.user(login)) for login in request.requested_reviewers],
        "requested_teams": [],
        "head": _side(
            world, world.state.repositories.get(request.head_repository_id), request.head_ref, request.head_sha
        ),
        "base": _side(world, repository, request.base_ref, request.base_sha),
        "auto_merge": None,
        "_links": {
            "self": {"href": url},
            "html": {"href": as_issue["html_url"]},
            "issue": {"href": issue_url},
            "comments": {"href": f"{issue_url}/comments"},
            "review_comments": {"href": f"{url}/comments"},
            "commits": {"href": f"{url}/commits"},
        },
    }
    return shape | _counts(world, repository, request) if full else shape


def _counts(world: World, repository: Repository, request: Pull) -> Json:
    git = world.git(repository)
    base = git.merge_base(request.base_sha, request.head_sha) or request.base_sha
    files = changed_files(git, base, request.head_sha)
    return {
        "merged": request.merged_at is not None,
        "mergeable": True,
        "rebaseable": True,
        "mergeable_state": "draft" if request.draft else "clean",
        "merged_by": user(world, world.user(request.merged_by)) if request.merged_by else None,
        "review_comments": len(request.review_comments),
        "maintainer_can_modify": False,
        "commits": len(git.history(request.head_sha, exclude=base)),
        "additions": sum(file.additions for file in files),
        "deletions": sum(file.deletions for file in files),
        "changed_files": len(files),
    }


def _side(world: World, repository: Repository | None, ref: str, sha: str) -> Json:
    if repository is None:
        return {"label": f"unknown:{ref}", "ref": ref, "sha": sha, "user": None, "repo": None}
    shape = repository_shape(world, repository)
    return {"label": f"{repository.owner}:{ref}", "ref": ref, "sha": sha, "user": shape["owner"], "repo": shape}


def review(world: World, repository: Repository, parent: Issue, item: Review) -> Json:
    """A review; ``commit_id`` is the commit that it was given for."""
    url = f"{world.api_url}/repos/{repository.full_name}/pulls/{parent.number}"
    html_url = f"{world.base_url}/{repository.full_name}/pull/{parent.number}"
    return {
        "id": item.id,
        "node_id": node_id("review", item.id),
        "user": user(world, world.user(item.login)),
        "body": item.body,
        "state": item.state,
        "html_url": f"{html_url}#pullrequestreview-{item.id}",
        "pull_request_url": url,
        "author_association": association(repository, item.login),
        "_links": {"html": {"href": f"{html_url}#pullrequestreview-{item.id}"}, "pull_request": {"href": url}},
        "submitted_at": iso(item.submitted_at),
        "commit_id": item.commit_id,
    }


def review_comment(world: World, repository: Repository, parent: Issue, item: ReviewComment) -> Json:
    """A comment on a line of the changes."""
    repository_url = f"{world.api_url}/repos/{repository.full_name}"
    url = f"{repository_url}/pulls/comments/{item.id}"
    html_url = f"{world.base_url}/{repository.full_name}/pull/{parent.number}#discussion_r{item.id}"
    pull_url = f"{repository_url}/pulls/{parent.number}"
    return {
        "id": item.id,
        "node_id": node_id("review_comment", item.id),
        "url": url,
        "pull_request_review_id": item.review_id,
        "diff_hunk": item.diff_hunk,
        "path": item.path,
        "position": item.line,
        "original_position": item.line,
        "commit_id": _pull_of(parent).head_sha,
        "original_commit_id": item.commit_id,
        "user": user(world, world.user(item.login)),
        "body": item.body,
        "created_at": iso(item.created_at),
        "updated_at": iso(item.updated_at),
        "html_url": html_url,
        "pull_request_url": pull_url,
        "author_association": association(repository, item.login),
        "_links": {"self": {"href": url}, "html": {"href": html_url}, "pull_request": {"href": pull_url}},
        "start_line": item.start_line,
        "original_start_line": item.start_line,
        "start_side": item.side if item.start_line else None,
        "line": item.line,
        "original_line": item.line,
        "side": item.side,
        "subject_type": "line" if item.line else "file",
        "reactions": reaction_counts(url, item.reactions),
    } | ({"in_reply_to_id": item.in_reply_to_id} if item.in_reply_to_id else {})


def _pull_of(item: Issue) -> Pull:
    assert item.pull is not None, "a pull request's payload was asked for an issue"
    return item.pull
