"""Forms: what a person does on a page, as the user who was chosen, with that user's permission."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import quote, urlsplit

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from service.localhub.actions import checks, issues, merging, pulls, reviews
from service.localhub.auth import require_author_or
from service.localhub.errors import forbidden, unprocessable
from service.localhub.pages.reading import repository_of
from service.localhub.pages.render import ACTING_AS
from service.localhub.state import Issue, Repository
from service.localhub.world import Actor, World

Form = Mapping[str, str]


def refuse_other_sites(request: Request) -> None:
    """A form of another site must not act here, though whoever sends it is on this machine. Raises: ApiError 403."""
    site, origin = request.headers.get("sec-fetch-site"), request.headers.get("origin")
    if site not in (None, "same-origin", "none"):
        raise forbidden("Forms are taken from these pages alone.")
    if origin not in (None, "null") and urlsplit(origin).netloc != request.headers.get("host"):
        raise forbidden("Forms are taken from these pages alone.")


def new_issue(world: World, request: Request, form: Form) -> Response:
    """Open an issue."""
    repository, actor = repository_of(world, request), _actor(world, form)
    issue = issues.open_issue(world, repository, actor, form.get("title"), form.get("body"))
    return _back(repository, issue, actor)


def comment(world: World, request: Request, form: Form) -> Response:
    """Write a comment."""
    repository, issue, actor = _place(world, request, form)
    written = issues.add_comment(world, repository, issue, actor, form.get("body"))
    return _back(repository, issue, actor, f"#issuecomment-{written.id}")


def edit_comment(world: World, request: Request, form: Form) -> Response:
    """Change a comment."""
    repository, actor = repository_of(world, request), _actor(world, form)
    issue, written = issues.find_comment(repository, request.path_params["comment_id"])
    require_author_or(world, actor.login, written.login, repository, "triage")
    issues.edit_comment(world, repository, issue, written, actor, form.get("body"))
    return _back(repository, issue, actor, f"#issuecomment-{written.id}")


def state(world: World, request: Request, form: Form) -> Response:
    """Close or reopen."""
    repository, issue, actor = _place(world, request, form)
    require_author_or(world, actor.login, issue.login, repository, "triage")
    issues.set_state(world, repository, issue, actor, form.get("state"))
    return _back(repository, issue, actor)


def review(world: World, request: Request, form: Form) -> Response:
    """Review a pull request, perhaps with one comment on a line."""
    repository, issue, actor = _place(world, request, form)
    notes = []
    if form.get("note", "").strip():
        if not form.get("line", "").isdigit():
            raise unprocessable("A comment on a line needs the line's number.")
        notes = [{"path": form.get("path"), "line": int(form["line"]), "body": form["note"]}]
    given = reviews.review(world, repository, issue, actor, form.get("event"), form.get("body"), notes)
    return _back(repository, issue, actor, f"#pullrequestreview-{given.id}")


def draft(world: World, request: Request, form: Form) -> Response:
    """Mark as ready, or turn into a draft."""
    repository, issue, actor = _place(world, request, form)
    require_author_or(world, actor.login, issue.login, repository, "write")
    pulls.set_draft(world, repository, issue, actor, form.get("draft") == "yes")
    return _back(repository, issue, actor)


def merge(world: World, request: Request, form: Form) -> Response:
    """Merge a pull request."""
    repository, issue, actor = _place(world, request, form)
    require_author_or(world, actor.login, "", repository, "write")
    merging.merge(world, repository, issue, actor)
    return _back(repository, issue, actor)


def rerequest(world: World, request: Request, form: Form) -> Response:
    """Ask for a check again."""
    repository, actor = repository_of(world, request), _actor(world, form)
    require_author_or(world, actor.login, "", repository, "write")
    run = checks.find_check_run(repository, request.path_params["check_run_id"])
    checks.rerequest(world, repository, run, actor)
    return _acting(RedirectResponse(f"/{repository.full_name}/runs/{run.id}", 303), actor)


def _actor(world: World, form: Form) -> Actor:
    actor = world.actor(form.get("by", ""))
    if actor.user.type != "User":
        raise forbidden("Only people act on pages.")
    return actor


def _place(world: World, request: Request, form: Form) -> tuple[Repository, Issue, Actor]:
    repository = repository_of(world, request)
    return repository, world.issue(repository, request.path_params["number"]), _actor(world, form)


def _back(repository: Repository, issue: Issue, actor: Actor, anchor: str = "") -> Response:
    kind = "pull" if issue.pull else "issues"
    return _acting(RedirectResponse(f"/{repository.full_name}/{kind}/{issue.number}{anchor}", 303), actor)


def _acting(response: Response, actor: Actor) -> Response:
    response.set_cookie(ACTING_AS, quote(actor.login), samesite="strict", httponly=True)
    return response
