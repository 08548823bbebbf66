"""The table of what the API can do, its errors, and the faults that a test can have it meet."""

from __future__ import annotations

import threading
import time
from collections import defaultdict, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Literal

DOCUMENTATION_URL = "https://docs.github.com/rest"


class ApiError(Exception):
    """A request that is refused: the status, GitHub's message and its list of errors."""

    def __init__(
        self,
        status: int,
        message: str,
        errors: list[dict[str, Any]] | None = None,
        headers: dict[str, str] | None = None,
    ) -> None:
        super().__init__(f"{status} {message}" + (f" {errors}" if errors else ""))
        self.status = status
        self.message = message
        self.errors = errors
        self.headers = headers or {}

    def body(self) -> dict[str, Any]:
        """The JSON body that GitHub answers with."""
        shape: dict[str, Any] = {"message": self.message}
        if self.errors is not None:
            shape["errors"] = self.errors
        return shape | {"documentation_url": DOCUMENTATION_URL, "status": str(self.status)}


def not_found() -> ApiError:
    """404, also for what a token may not see: GitHub does not tell the two apart."""
    return ApiError(404, "Not Found")


def forbidden(message: str = "Resource not accessible by integration") -> ApiError:
    """403 for what may be seen and not be done."""
    return ApiError(403, message)


def unauthorized(message: str = "Bad credentials") -> ApiError:
    """401 for a credential that is none."""
    return ApiError(401, message)


def invalid(resource: str, field: str, code: str, message: str | None = None) -> ApiError:
    """422 with one entry in ``errors``; ``code`` such as ``missing_field``, ``invalid``, ``already_exists``, ``custom``."""
    error = {"resource": resource, "field": field, "code": code}
    if message is not None:
        error["message"] = message
    return ApiError(422, "Validation Failed", [error])


def unprocessable(message: str) -> ApiError:
    """422 with a message alone, as the Git Data API and reviews answer."""
    return ApiError(422, message)


class Access(StrEnum):
    """What kind of credential an operation takes."""

    anyone = "anyone"  # none is needed for what is public
    person = "person"  # a personal token
    app = "app"  # an app's JWT
    installation = "installation"  # an installation's token
    app_only = "app_only"  # writing is for apps alone, such as check runs


@dataclass(frozen=True)
class RouteRow:
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
) -> RouteRow:
    method, _, path = route.partition(" ")
    scopes = tuple(scope for scope in needs.split("|") if scope)
    return RouteRow(name, method, path, scopes, method not in ("GET", "HEAD"), role, access)


R = "/repos/{owner}/{repo}"
TALK = "issues|pull_requests"

OPERATIONS: tuple[RouteRow, ...] = (
    _row("get_authenticated_user", "GET /user", "", access=Access.person),
    _row("get_user", "GET /users/{login}", ""),
    _row("get_gist", "GET /gists/{gist_id}", ""),
    _row("get_gist_revision", "GET /gists/{gist_id}/{revision}", ""),
    _row("get_team_membership", "GET /orgs/{login}/teams/{slug}/memberships/{member}", ""),
    _row("get_app", "GET /app", "", access=Access.app),
    _row("list_hook_deliveries", "GET /app/hook/deliveries", "", access=Access.app),
    _row("redeliver_hook_delivery", "POST /app/hook/deliveries/{delivery_id:int}/attempts", "", access=Access.app),
    _row("list_installations", "GET /app/installations", "", access=Access.app),
    _row(
        "create_installation_token",
        "POST /app/installations/{installation_id:int}/access_tokens",
        "",
        access=Access.app,
    ),
    _row("get_repo_installation", f"GET {R}/installation", "", access=Access.app),
    _row("list_installation_repositories", "GET /installation/repositories", "", access=Access.installation),
    # repositories
    _row("get_repo_by_id", "GET /repositories/{repository_id:int}"),
    _row("get_repo", f"GET {R}"),
    _row("get_collaborator_permission", f"GET {R}/collaborators/{{login}}/permission"),
    _row("get_contents", f"GET {R}/contents/{{path:path}}", "contents"),
    _row("get_archive", f"GET {R}/tarball/{{ref:path}}", "contents"),
    # checks; these stand before get_commit, whose route would take them
    _row("list_check_runs", f"GET {R}/commits/{{ref:path}}/check-runs", "checks"),
    _row("create_check_run", f"POST {R}/check-runs", "checks", "write", Access.app_only),
    _row("list_pulls_of_commit", f"GET {R}/commits/{{sha}}/pulls", "pull_requests"),
    _row("get_commit", f"GET {R}/commits/{{ref:path}}", "contents"),
    _row("compare_commits", f"GET {R}/compare/{{spec:path}}", "contents"),
    # git data
    _row("get_ref", f"GET {R}/git/ref/{{ref:path}}", "contents"),
    _row("create_ref", f"POST {R}/git/refs", "contents", "write"),
    _row("update_ref", f"PATCH {R}/git/refs/{{ref:path}}", "contents", "write"),
    _row("create_blob", f"POST {R}/git/blobs", "contents", "write"),
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
    _row("get_issue", f"GET {R}/issues/{{number:int}}", TALK),
    _row("update_issue", f"PATCH {R}/issues/{{number:int}}", TALK),
    _row("list_issue_comments", f"GET {R}/issues/{{number:int}}/comments", TALK),
    _row("create_issue_comment", f"POST {R}/issues/{{number:int}}/comments", TALK),
    # reactions
    _row("list_issue_reactions", f"GET {R}/issues/{{number:int}}/reactions", TALK),
    _row("create_issue_reaction", f"POST {R}/issues/{{number:int}}/reactions", TALK),
    _row("list_comment_reactions", f"GET {R}/issues/comments/{{comment_id:int}}/reactions", TALK),
    _row("create_comment_reaction", f"POST {R}/issues/comments/{{comment_id:int}}/reactions", TALK),
    # pull requests
    _row("list_pulls", f"GET {R}/pulls", "pull_requests"),
    _row("create_pull", f"POST {R}/pulls", "pull_requests"),
    _row("get_pull", f"GET {R}/pulls/{{number:int}}", "pull_requests"),
    _row("update_pull", f"PATCH {R}/pulls/{{number:int}}", "pull_requests"),
    _row("request_reviewers", f"POST {R}/pulls/{{number:int}}/requested_reviewers", "pull_requests", "triage"),
    _row("list_reviews", f"GET {R}/pulls/{{number:int}}/reviews", "pull_requests"),
    _row(
        "list_comments_of_review", f"GET {R}/pulls/{{number:int}}/reviews/{{review_id:int}}/comments", "pull_requests"
    ),
)

# GraphQL has one route; its operations are told apart by the mutation in the query.
MUTATIONS: dict[str, str] = {
    "markPullRequestReadyForReview": "mark_ready_for_review",
    "minimizeComment": "minimize_comment",
}

# Requests beside the API, whose faults are injected under these names.
OTHER_OPERATIONS: tuple[str, ...] = ("download_archive", "git_fetch", "git_push", "raw_file")


def operation_names() -> frozenset[str]:
    """Every name that a fault may be injected for."""
    return frozenset([row.name for row in OPERATIONS] + list(MUTATIONS.values()) + list(OTHER_OPERATIONS) + ["*"])


PRIMARY_MESSAGE = "API rate limit exceeded for installation."
SECONDARY_MESSAGE = (
    "You have exceeded a secondary rate limit. Please wait a few minutes before you try again. "
    "If you reach out to GitHub Support for help, please include the request ID."
)


class FaultKind(StrEnum):
    """When a fault strikes."""

    answer = "answer"  # instead of the effect
    drop = "drop"  # after the effect: 502 in the place of the answer
    disconnect = "disconnect"  # after the effect: the connection breaks in the middle of the answer
    delay = "delay"  # before the effect, which then happens
    race = "race"  # somebody else acts just before the effect


@dataclass(frozen=True)
class InjectedFault:
    """One fault of one request."""

    kind: FaultKind
    status: int = 0
    body: dict[str, Any] = field(default_factory=dict)
    headers: dict[str, str] = field(default_factory=dict)
    delay_s: float = 0.0
    action: Callable[[], object] | None = None


class Faults:
    """The faults that wait, in order, for each operation; ``*`` as the operation stands for any."""

    def __init__(self) -> None:
        self._waiting: defaultdict[str, deque[InjectedFault]] = defaultdict(deque)
        self._lock = threading.Lock()

    def fail_next(
        self,
        operation: str,
        status: int,
        times: int = 1,
        headers: dict[str, str] | None = None,
        body: dict[str, Any] | None = None,
    ) -> None:
        """The next ``times`` requests are answered with ``status`` and have no effect."""
        message = {"message": "Server Error" if status >= 500 else "Injected fault", "status": str(status)}
        self._add(operation, InjectedFault(FaultKind.answer, status, body or message, headers or {}), times)

    def rate_limit_next(
        self,
        operation: str,
        kind: Literal["primary", "secondary"] = "primary",
        retry_after: int = 60,
        times: int = 1,
    ) -> None:
        """The next requests meet a rate limit. Units: ``retry_after`` in seconds. Source: GitHub's REST rate limits."""
        if kind == "primary":
            reset = str(int(time.time()) + retry_after)
            headers = {"x-ratelimit-remaining": "0", "x-ratelimit-used": "5000", "x-ratelimit-reset": reset}
            self.fail_next(operation, 403, times, headers, {"message": PRIMARY_MESSAGE})
        else:
            self.fail_next(operation, 403, times, {"retry-after": str(retry_after)}, {"message": SECONDARY_MESSAGE})

    def missing_then_found(self, operation: str, times: int = 1) -> None:
        """GitHub's replicas lag: 404 ``times`` times, then what is there."""
        self.fail_next(operation, 404, times, body={"message": "Not Found", "status": "404"})

    def drop_response_next(self, operation: str, times: int = 1, how: Literal["502", "disconnect"] = "502") -> None:
        """The effect happens and the caller never learns of it: 502, or the connection breaks."""
        kind = FaultKind.drop if how == "502" else FaultKind.disconnect
        self._add(operation, InjectedFault(kind, 502, {"message": "Server Error"}), times)

    def delay_next(self, operation: str, delay_s: float, times: int = 1) -> None:
        """The next requests take this much longer."""
        self._add(operation, InjectedFault(FaultKind.delay, delay_s=delay_s), times)

    def before_next(self, operation: str, action: Callable[[], object]) -> None:
        """Run ``action`` just before the next request takes effect: a person who pushes at the same moment."""
        self._add(operation, InjectedFault(FaultKind.race, action=action), 1)

    def meet(self, operation: str) -> InjectedFault | None:
        """Let a request wait or be raced, and give what spoils its answer, if anything does."""
        spoiled = None
        for fault in self.take(operation):
            if fault.kind is FaultKind.delay:
                time.sleep(fault.delay_s)
            elif fault.kind is FaultKind.race and fault.action is not None:
                fault.action()
            else:
                spoiled = fault
        return spoiled

    def take(self, operation: str) -> list[InjectedFault]:
        """The faults of the request that is being answered: delays and races, then at most one that spoils the answer."""
        taken: list[InjectedFault] = []
        with self._lock:
            for queue in (self._waiting[operation], self._waiting["*"]):
                while queue:
                    taken.append(queue.popleft())
                    if taken[-1].kind not in (FaultKind.delay, FaultKind.race):
                        return taken
        return taken

    def waiting(self) -> dict[str, int]:
        """How many faults no request has met yet, by operation: a test that leaves some has not tested them."""
        with self._lock:
            return {operation: len(queue) for operation, queue in self._waiting.items() if queue}

    def clear(self) -> None:
        """Forget the faults that wait."""
        with self._lock:
            self._waiting.clear()

    def _add(self, operation: str, fault: InjectedFault, times: int) -> None:
        if operation not in operation_names():
            message = f"no operation {operation!r}; the names stand in deploy/localhub/operations.py"
            raise ValueError(message)
        with self._lock:
            self._waiting[operation].extend([fault] * times)
