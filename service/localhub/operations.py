"""The table of what the API can do: operation, method, route, what it needs. Faults and tests name operations as here."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Access(StrEnum):
    """What kind of credential an operation takes."""

    anyone = "anyone"  # none is needed for what is public
    person = "person"  # a personal token
    app = "app"  # an app's JWT
    installation = "installation"  # an installation's token
    app_only = "app_only"  # writing is for apps alone, such as check runs


@dataclass(frozen=True)
class Operation:
    """A row. ``scopes``: an installation's token needs one of them; ``role``: what a person needs in the repository."""

    name: str
    method: str
    path: str
    scopes: tuple[str, ...] = ("metadata",)
    writes: bool = False
    role: str = "read"
    access: Access = Access.anyone


def _row(
    name: str, route: str, needs: str = "metadata", role: str = "read", access: Access = Access.anyone
) -> Operation:
    method, _, path = route.partition(" ")
    scopes = tuple(scope for scope in needs.split("|") if scope)
    return Operation(name, method, path, scopes, method not in ("GET", "HEAD"), role, access)


R = "/repos/{owner}/{repo}"
TALK = "issues|pull_requests"

OPERATIONS: tuple[Operation, ...] = (
    _row("get_meta", "GET /meta", ""),
    _row("get_rate_limit", "GET /rate_limit", ""),
    _row("get_authenticated_user", "GET /user", "", access=Access.person),
    _row("get_user", "GET /users/{login}", ""),
    _row("get_team_membership", "GET /orgs/{login}/teams/{slug}/memberships/{member}", ""),
    _row("get_app", "GET /app", "", access=Access.app),
    _row("get_app_hook_config", "GET /app/hook/config", "", access=Access.app),
    _row("list_hook_deliveries", "GET /app/hook/deliveries", "", access=Access.app),
    _row("get_hook_delivery", "GET /app/hook/deliveries/{delivery_id:int}", "", access=Access.app),
    _row("redeliver_hook_delivery", "POST /app/hook/deliveries/{delivery_id:int}/attempts", "", access=Access.app),
    _row("list_installations", "GET /app/installations", "", access=Access.app),
    _row("get_installation", "GET /app/installations/{installation_id:int}", "", access=Access.app),
    _row(
        "create_installation_token",
        "POST /app/installations/{installation_id:int}/access_tokens",
        "",
        access=Access.app,
    ),
    _row("get_repo_installation", f"GET {R}/installation", "", access=Access.app),
    _row("get_org_installation", "GET /orgs/{login}/installation", "", access=Access.app),
    _row("get_user_installation", "GET /users/{login}/installation", "", access=Access.app),
    _row("list_installation_repositories", "GET /installation/repositories", "", access=Access.installation),
    # repositories
    _row("get_repo_by_id", "GET /repositories/{repository_id:int}"),
    _row("get_repo", f"GET {R}"),
    _row("list_branches", f"GET {R}/branches", "contents"),
    _row("get_branch", f"GET {R}/branches/{{branch:path}}", "contents"),
    _row("list_collaborators", f"GET {R}/collaborators", "metadata", "write"),
    _row("check_collaborator", f"GET {R}/collaborators/{{login}}"),
    _row("get_collaborator_permission", f"GET {R}/collaborators/{{login}}/permission"),
    _row("get_root_contents", f"GET {R}/contents", "contents"),
    _row("get_contents", f"GET {R}/contents/{{path:path}}", "contents"),
    _row("get_default_archive", f"GET {R}/tarball", "contents"),
    _row("get_archive", f"GET {R}/tarball/{{ref:path}}", "contents"),
    # checks; these stand before get_commit, whose route would take them
    _row("list_check_runs", f"GET {R}/commits/{{ref:path}}/check-runs", "checks"),
    _row("create_check_run", f"POST {R}/check-runs", "checks", "write", Access.app_only),
    _row("get_check_run", f"GET {R}/check-runs/{{check_run_id:int}}", "checks"),
    _row("update_check_run", f"PATCH {R}/check-runs/{{check_run_id:int}}", "checks", "write", Access.app_only),
    _row("list_check_run_annotations", f"GET {R}/check-runs/{{check_run_id:int}}/annotations", "checks"),
    _row("list_commits", f"GET {R}/commits", "contents"),
    _row("list_pulls_of_commit", f"GET {R}/commits/{{sha}}/pulls", "pull_requests"),
    _row("get_commit", f"GET {R}/commits/{{ref:path}}", "contents"),
    _row("compare_commits", f"GET {R}/compare/{{spec:path}}", "contents"),
    # git data
    _row("get_ref", f"GET {R}/git/ref/{{ref:path}}", "contents"),
    _row("list_matching_refs", f"GET {R}/git/matching-refs/{{ref:path}}", "contents"),
    _row("list_refs", f"GET {R}/git/refs", "contents"),
    _row("get_ref_plural", f"GET {R}/git/refs/{{ref:path}}", "contents"),
    _row("create_ref", f"POST {R}/git/refs", "contents", "write"),
    _row("update_ref", f"PATCH {R}/git/refs/{{ref:path}}", "contents", "write"),
    _row("delete_ref", f"DELETE {R}/git/refs/{{ref:path}}", "contents", "write"),
    _row("create_blob", f"POST {R}/git/blobs", "contents", "write"),
    _row("get_blob", f"GET {R}/git/blobs/{{sha}}", "contents"),
    _row("create_tree", f"POST {R}/git/trees", "contents", "write"),
    _row("get_tree", f"GET {R}/git/trees/{{sha:path}}", "contents"),
    _row("create_git_commit", f"POST {R}/git/commits", "contents", "write"),
    _row("get_git_commit", f"GET {R}/git/commits/{{sha}}", "contents"),
    # issues and their comments
    _row("list_issues", f"GET {R}/issues", TALK),
    _row("create_issue", f"POST {R}/issues", "issues"),
    _row("list_repo_issue_comments", f"GET {R}/issues/comments", TALK),
    _row("get_issue_comment", f"GET {R}/issues/comments/{{comment_id:int}}", TALK),
    _row("update_issue_comment", f"PATCH {R}/issues/comments/{{comment_id:int}}", TALK),
    _row("delete_issue_comment", f"DELETE {R}/issues/comments/{{comment_id:int}}", TALK),
    _row("get_issue", f"GET {R}/issues/{{number:int}}", TALK),
    _row("update_issue", f"PATCH {R}/issues/{{number:int}}", TALK),
    _row("list_issue_comments", f"GET {R}/issues/{{number:int}}/comments", TALK),
    _row("create_issue_comment", f"POST {R}/issues/{{number:int}}/comments", TALK),
    _row("list_issue_events", f"GET {R}/issues/{{number:int}}/events", TALK),
    # reactions
    _row("list_issue_reactions", f"GET {R}/issues/{{number:int}}/reactions", TALK),
    _row("create_issue_reaction", f"POST {R}/issues/{{number:int}}/reactions", TALK),
    _row("delete_issue_reaction", f"DELETE {R}/issues/{{number:int}}/reactions/{{reaction_id:int}}", TALK),
    _row("list_comment_reactions", f"GET {R}/issues/comments/{{comment_id:int}}/reactions", TALK),
    _row("create_comment_reaction", f"POST {R}/issues/comments/{{comment_id:int}}/reactions", TALK),
    _row(
        "delete_comment_reaction", f"DELETE {R}/issues/comments/{{comment_id:int}}/reactions/{{reaction_id:int}}", TALK
    ),
    _row("list_review_comment_reactions", f"GET {R}/pulls/comments/{{comment_id:int}}/reactions", "pull_requests"),
    _row("create_review_comment_reaction", f"POST {R}/pulls/comments/{{comment_id:int}}/reactions", "pull_requests"),
    _row(
        "delete_review_comment_reaction",
        f"DELETE {R}/pulls/comments/{{comment_id:int}}/reactions/{{reaction_id:int}}",
        "pull_requests",
    ),
    # labels
    _row("list_labels", f"GET {R}/labels", TALK),
    _row("create_label", f"POST {R}/labels", TALK, "write"),
    _row("get_label", f"GET {R}/labels/{{name}}", TALK),
    _row("list_issue_labels", f"GET {R}/issues/{{number:int}}/labels", TALK),
    _row("add_issue_labels", f"POST {R}/issues/{{number:int}}/labels", TALK, "triage"),
    _row("set_issue_labels", f"PUT {R}/issues/{{number:int}}/labels", TALK, "triage"),
    _row("remove_issue_label", f"DELETE {R}/issues/{{number:int}}/labels/{{name}}", TALK, "triage"),
    # pull requests
    _row("list_pulls", f"GET {R}/pulls", "pull_requests"),
    _row("create_pull", f"POST {R}/pulls", "pull_requests"),
    _row("get_review_comment", f"GET {R}/pulls/comments/{{comment_id:int}}", "pull_requests"),
    _row("update_review_comment", f"PATCH {R}/pulls/comments/{{comment_id:int}}", "pull_requests"),
    _row("delete_review_comment", f"DELETE {R}/pulls/comments/{{comment_id:int}}", "pull_requests"),
    _row("get_pull", f"GET {R}/pulls/{{number:int}}", "pull_requests"),
    _row("update_pull", f"PATCH {R}/pulls/{{number:int}}", "pull_requests"),
    _row("list_pull_files", f"GET {R}/pulls/{{number:int}}/files", "pull_requests"),
    _row("list_pull_commits", f"GET {R}/pulls/{{number:int}}/commits", "pull_requests"),
    _row("is_pull_merged", f"GET {R}/pulls/{{number:int}}/merge", "pull_requests"),
    _row("list_requested_reviewers", f"GET {R}/pulls/{{number:int}}/requested_reviewers", "pull_requests"),
    _row("request_reviewers", f"POST {R}/pulls/{{number:int}}/requested_reviewers", "pull_requests", "triage"),
    _row(
        "remove_requested_reviewers", f"DELETE {R}/pulls/{{number:int}}/requested_reviewers", "pull_requests", "triage"
    ),
    _row("list_reviews", f"GET {R}/pulls/{{number:int}}/reviews", "pull_requests"),
    _row("create_review", f"POST {R}/pulls/{{number:int}}/reviews", "pull_requests"),
    _row("get_review", f"GET {R}/pulls/{{number:int}}/reviews/{{review_id:int}}", "pull_requests"),
    _row("submit_review", f"POST {R}/pulls/{{number:int}}/reviews/{{review_id:int}}/events", "pull_requests"),
    _row(
        "dismiss_review", f"PUT {R}/pulls/{{number:int}}/reviews/{{review_id:int}}/dismissals", "pull_requests", "write"
    ),
    _row(
        "list_comments_of_review", f"GET {R}/pulls/{{number:int}}/reviews/{{review_id:int}}/comments", "pull_requests"
    ),
    _row("list_review_comments", f"GET {R}/pulls/{{number:int}}/comments", "pull_requests"),
    _row("create_review_comment", f"POST {R}/pulls/{{number:int}}/comments", "pull_requests"),
    _row(
        "reply_to_review_comment", f"POST {R}/pulls/{{number:int}}/comments/{{comment_id:int}}/replies", "pull_requests"
    ),
)

# GraphQL has one route; its operations are told apart by the mutation in the query.
MUTATIONS: dict[str, str] = {
    "markPullRequestReadyForReview": "mark_ready_for_review",
    "convertPullRequestToDraft": "convert_to_draft",
    "minimizeComment": "minimize_comment",
    "unminimizeComment": "unminimize_comment",
}

# Requests beside the API, whose faults are injected under these names.
OTHER_OPERATIONS: tuple[str, ...] = ("download_archive", "git_fetch", "git_push", "raw_file")


def operation_names() -> frozenset[str]:
    """Every name that a fault may be injected for."""
    return frozenset([row.name for row in OPERATIONS] + list(MUTATIONS.values()) + list(OTHER_OPERATIONS) + ["*"])
