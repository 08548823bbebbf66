"""The pages on which a person reads and writes the conversation; they show all there is, since only this machine sees them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, quote, unquote, urlsplit

from jinja2 import Environment, FileSystemLoader, StrictUndefined, select_autoescape
from markupsafe import Markup
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles

from deploy.localhub import checks, markdown, pulls, talk
from deploy.localhub.auth import require_author_or
from deploy.localhub.conversation import conversation
from deploy.localhub.git import DiffFile, GitTreeEntry, changed_files
from deploy.localhub.hub import mail_patch
from deploy.localhub.operations import ApiError, forbidden, not_found, unprocessable
from deploy.localhub.state import Issue, Repository, ReviewComment
from deploy.localhub.world import Actor, World

_HUNK = re.compile(r"^@@ -(\d+)(?:,\d+)? \+(\d+)(?:,\d+)? @@")
_MOST_ROWS = 2_000


@dataclass(frozen=True)
class DiffRow:
    """A line of a diff; ``kind`` is hunk, added, removed, same or note."""

    kind: str
    old: int | None
    new: int | None
    text: str
    comments: tuple[ReviewComment, ...] = ()


@dataclass(frozen=True)
class FileDiff:
    """A file with its rows; ``cut`` where it has more than are shown."""

    file: DiffFile
    rows: tuple[DiffRow, ...]
    cut: bool


def file_diff(file: DiffFile, comments: Sequence[ReviewComment] = ()) -> FileDiff:
    """The rows of a file, each with the comments that stand on it."""
    mine = [one for one in comments if one.path == file.path]
    rows = list(_rows(file.patch or "", mine))
    return FileDiff(file, tuple(rows[:_MOST_ROWS]), len(rows) > _MOST_ROWS)


def hunk_rows(hunk: str, most: int = 5) -> list[DiffRow]:
    """The last lines of a hunk, for a comment in the conversation."""
    return [row for row in _rows(hunk, []) if row.kind != "hunk"][-most:]


def _rows(patch: str, comments: Sequence[ReviewComment]) -> Iterator[DiffRow]:
    old = new = 0
    for line in patch.split("\n") if patch else []:
        match = _HUNK.match(line)
        if match:
            old, new = int(match[1]), int(match[2])
            yield DiffRow("hunk", None, None, line)
        elif line.startswith("+"):
            yield DiffRow("added", None, new, line[1:], _at(comments, "RIGHT", new))
            new += 1
        elif line.startswith("-"):
            yield DiffRow("removed", old, None, line[1:], _at(comments, "LEFT", old))
            old += 1
        elif line.startswith("\\"):
            yield DiffRow("note", None, None, line[2:])
        else:
            yield DiffRow("same", old, new, line[1:], _at(comments, "RIGHT", new))
            old, new = old + 1, new + 1


def _at(comments: Sequence[ReviewComment], side: str, line: int) -> tuple[ReviewComment, ...]:
    return tuple(one for one in comments if one.side == side and one.line == line)


FOLDER = Path(__file__).resolve().parent
ACTING_AS = "acting_as"
_HEADERS = {
    "content-security-policy": "default-src 'none'; style-src 'self'; img-src 'self'; form-action 'self'; base-uri 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "x-frame-options": "DENY",
}
_EMOJI = {
    "+1": "👍",
    "-1": "👎",
    "laugh": "😄",
    "hooray": "🎉",
    "confused": "😕",
    "heart": "❤️",
    "rocket": "🚀",
    "eyes": "👀",
}
_EVENTS = {
    "closed": "closed this",
    "reopened": "reopened this",
    "merged": "merged this",
    "ready_for_review": "marked this as ready for review",
    "converted_to_draft": "turned this into a draft",
    "review_requested": "asked for a review from",
    "review_request_removed": "no longer asks for a review from",
    "review_dismissed": "dismissed a review:",
    "labeled": "added the label",
    "unlabeled": "removed the label",
    "force_pushed": "rewrote the branch, now at",
}
_REVIEWS = {
    "APPROVED": "approved these changes",
    "CHANGES_REQUESTED": "asked for changes",
    "COMMENTED": "reviewed",
    "DISMISSED": "reviewed (dismissed)",
}


def _when(at: datetime | None) -> str:
    return "" if at is None else at.astimezone(UTC).strftime("%d %b %Y, %H:%M UTC").lstrip("0")


def _reaction(text: str) -> Markup:
    content, _, login = text.partition(" by ")
    return Markup('<span class="reaction" title="{0}"><span aria-hidden="true">{1}</span> {0}</span>').format(
        login, _EMOJI.get(content, content)
    )


def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(FOLDER / "templates"),
        autoescape=select_autoescape(default=True),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "when": _when,
        "reaction": _reaction,
        "event_words": lambda kind: _EVENTS.get(kind, kind.replace("_", " ")),
        "review_words": lambda state: _REVIEWS.get(state, state.lower()),
        "short": lambda sha: sha[:7],
        "hunk_rows": hunk_rows,
        "kind_of": lambda entry: type(entry).__name__,
    }
    return environment


_ENVIRONMENT = _environment()


def page(
    world: World, request: Request, template: str, repository: Repository | None = None, status: int = 200, **more: Any
) -> HTMLResponse:
    """A page; ``markdown`` in a template makes a text harmless HTML."""
    people = [user.login for user in world.state.users.values() if user.type == "User"]
    acting = unquote(request.cookies.get(ACTING_AS, ""))
    values = {
        "world": world,
        "repo": repository,
        "people": people,
        "acting": acting if acting in people else (people[0] if people else ""),
        "markdown": lambda text: Markup(markdown.render(text, world.base_url)),  # noqa: S704 - sanitized by allow-list
        "document": lambda text: Markup(markdown.render_document(text, world.base_url)),  # noqa: S704 - likewise
        "bots": {user.login for user in world.state.users.values() if user.type == "Bot"},
    }
    html = _ENVIRONMENT.get_template(template).render(values | more)
    return HTMLResponse(html, status, headers=_HEADERS)


_LARGEST_SHOWN_BYTES = 1_000_000


def repository_of(world: World, request: Request) -> Repository:
    """The repository that the address names. Raises: ApiError 404."""
    return world.repository(f"{request.path_params['owner']}/{request.path_params['repo']}")


def index(world: World, request: Request) -> Response:
    """All repositories, and who there is."""
    return page(world, request, "index.html", repositories=list(world.state.repositories.values()))


def home(world: World, request: Request) -> Response:
    """A repository: its files and its README."""
    repository = repository_of(world, request)
    commit = world.git(repository).ref(f"refs/heads/{repository.default_branch}")
    return _folder(world, request, repository, repository.default_branch, commit, "")


def tree(world: World, request: Request) -> Response:
    """A folder at a branch or commit."""
    repository = repository_of(world, request)
    ref, commit, path = _split_ref(world, repository, request.path_params["rest"])
    return _folder(world, request, repository, ref, commit, path)


def _folder(
    world: World, request: Request, repository: Repository, ref: str, commit: str | None, path: str
) -> Response:
    git = world.git(repository)
    entries = git.tree_entries(commit, path) if commit else []
    entries.sort(key=lambda entry: (entry.type != "tree", entry.path))
    readme = next((entry for entry in entries if _name(entry).lower() == "readme.md"), None)
    text = git.file(commit, readme.path) if readme and commit else None
    return page(
        world,
        request,
        "folder.html",
        repository,
        ref=ref,
        path=path,
        commit=git.commit(commit) if commit else None,
        entries=[(entry, _name(entry)) for entry in entries],
        readme=text.decode("utf-8", "replace") if text else None,
        branches=[name.removeprefix("refs/heads/") for name in git.refs() if name.startswith("refs/heads/")],
    )


def _name(entry: GitTreeEntry) -> str:
    return entry.path.rsplit("/", 1)[-1]


def blob(world: World, request: Request) -> Response:
    """A file, line by line, so that a link to lines finds them."""
    repository = repository_of(world, request)
    ref, commit, path = _split_ref(world, repository, request.path_params["rest"])
    content = world.git(repository).file(commit, path)
    if content is None:
        raise not_found()
    readable = b"\0" not in content[:8_000] and len(content) <= _LARGEST_SHOWN_BYTES
    lines = content.decode("utf-8", "replace").removesuffix("\n").split("\n") if readable else None
    return page(
        world, request, "file.html", repository, ref=ref, commit=commit, path=path, lines=lines, size=len(content)
    )


def _split_ref(world: World, repository: Repository, rest: str) -> tuple[str, str, str]:
    """Where the ref ends and the path begins, since a branch's name may hold slashes."""
    parts, git = rest.strip("/").split("/"), world.git(repository)
    for end in range(1, len(parts) + 1):
        ref = "/".join(parts[:end])
        commit = git.resolve(ref)
        if commit is not None:
            return ref, commit, "/".join(parts[end:])
    raise not_found()


def issue_list(world: World, request: Request) -> Response:
    """Issues, or pull requests, newest first."""
    repository = repository_of(world, request)
    wants_pulls = request.url.path.endswith("/pulls")
    state = request.query_params.get("state", "open")
    found = [one for one in reversed(repository.issues.values()) if (one.pull is not None) == wants_pulls]
    return page(
        world,
        request,
        "issues.html",
        repository,
        pulls=wants_pulls,
        state=state,
        issues=[one for one in found if one.state == state],
        counts={name: sum(one.state == name for one in found) for name in ("open", "closed")},
    )


def new_issue(world: World, request: Request) -> Response:
    """The form for a new issue, filled with the address's ``title`` and ``body`` as on GitHub."""
    title, body = (request.query_params.get(name, "") for name in ("title", "body"))
    return page(world, request, "new_issue.html", repository_of(world, request), title=title, body=body)


def issue(world: World, request: Request) -> Response:
    """A conversation; GitHub's two addresses lead to the one that is right."""
    repository = repository_of(world, request)
    found = world.issue(repository, request.path_params["number"])
    wanted = "pull" if found.pull else "issues"
    if f"/{wanted}/" not in request.url.path:
        return RedirectResponse(f"/{repository.full_name}/{wanted}/{found.number}")
    git = world.git(repository)
    more = _pull_values(world, repository, found, "conversation") if found.pull else {}
    entries = conversation(git, found)
    return page(world, request, "conversation.html", repository, issue=found, entries=entries, **more)


def pull_commits(world: World, request: Request) -> Response:
    """The commits of a pull request, oldest first."""
    repository = repository_of(world, request)
    found, pull = world.pull(repository, request.path_params["number"])
    git = world.git(repository)
    shas = git.history(pull.head_sha, exclude=pulls.pull_base(world, repository, pull))[::-1]
    values = _pull_values(world, repository, found, "commits")
    commits = [git.commit(sha) for sha in shas]
    return page(world, request, "commits.html", repository, issue=found, commits=commits, **values)


def pull_files(world: World, request: Request) -> Response:
    """The changes of a pull request with the comments on their lines, and the form for a review."""
    repository = repository_of(world, request)
    found, pull = world.pull(repository, request.path_params["number"])
    values = _pull_values(world, repository, found, "files")
    diffs = [file_diff(file, pull.review_comments) for file in pulls.pull_files(world, repository, pull)]
    return page(world, request, "files.html", repository, issue=found, diffs=diffs, **values)


def pull_checks(world: World, request: Request) -> Response:
    """The check runs on the head of a pull request."""
    repository = repository_of(world, request)
    found, _ = world.pull(repository, request.path_params["number"])
    values = _pull_values(world, repository, found, "checks")
    return page(world, request, "checks.html", repository, issue=found, **values)


def check_run(world: World, request: Request) -> Response:
    """One check run."""
    repository = repository_of(world, request)
    run = checks.find_check_run(repository, request.path_params["check_run_id"])
    return page(world, request, "check_run.html", repository, run=run)


def commit(world: World, request: Request) -> Response:
    """One commit with its changes."""
    repository = repository_of(world, request)
    git = world.git(repository)
    sha = git.resolve(request.path_params["sha"])
    if sha is None:
        raise not_found()
    found = git.commit(sha)
    files = changed_files(git, found.parents[0], sha) if found.parents else []
    return page(world, request, "commit.html", repository, commit=found, diffs=[file_diff(file) for file in files])


def pull_patch(world: World, request: Request) -> Response:
    """The changes as a patch."""
    repository = repository_of(world, request)
    text = mail_patch(world, repository, request.path_params["number"])
    return Response(text.encode("utf-8", "surrogateescape"), media_type="text/plain; charset=utf-8")


def _pull_values(world: World, repository: Repository, found: Issue, tab: str) -> dict[str, Any]:
    assert found.pull is not None, "asked for a pull request only"
    git, request = world.git(repository), found.pull
    base = pulls.pull_base(world, repository, request)
    runs = [run for run in repository.check_runs if run.head_sha == request.head_sha]
    files = changed_files(git, base, request.head_sha)
    return {
        "tab": tab,
        "pull": request,
        "head_owner": world.state.repositories[request.head_repository_id].owner,
        "commit_count": len(git.history(request.head_sha, exclude=base)),
        "files": files,
        "additions": sum(file.additions for file in files),
        "deletions": sum(file.deletions for file in files),
        "runs": list({(run.app_id, run.name): run for run in runs}.values()),
    }


Form = Mapping[str, str]


def refuse_other_sites(request: Request) -> None:
    """A form of another site must not act here, though whoever sends it is on this machine. Raises: ApiError 403."""
    site, origin = request.headers.get("sec-fetch-site"), request.headers.get("origin")
    if site not in (None, "same-origin", "none"):
        raise forbidden("Forms are taken from these pages alone.")
    if origin not in (None, "null") and urlsplit(origin).netloc != request.headers.get("host"):
        raise forbidden("Forms are taken from these pages alone.")


def open_issue(world: World, request: Request, form: Form) -> Response:
    """Open an issue."""
    repository, actor = repository_of(world, request), _actor(world, form)
    issue = talk.open_issue(world, repository, actor, form.get("title"), form.get("body"))
    return _back(repository, issue, actor)


def comment(world: World, request: Request, form: Form) -> Response:
    """Write a comment."""
    repository, issue, actor = _place(world, request, form)
    written = talk.add_comment(world, repository, issue, actor, form.get("body"))
    return _back(repository, issue, actor, f"#issuecomment-{written.id}")


def edit_comment(world: World, request: Request, form: Form) -> Response:
    """Change a comment."""
    repository, actor = repository_of(world, request), _actor(world, form)
    issue, written = talk.find_comment(repository, request.path_params["comment_id"])
    require_author_or(world, actor.login, written.login, repository, "triage")
    talk.edit_comment(world, repository, issue, written, actor, form.get("body"))
    return _back(repository, issue, actor, f"#issuecomment-{written.id}")


def state(world: World, request: Request, form: Form) -> Response:
    """Close or reopen."""
    repository, issue, actor = _place(world, request, form)
    require_author_or(world, actor.login, issue.login, repository, "triage")
    talk.set_state(world, repository, issue, actor, form.get("state"))
    return _back(repository, issue, actor)


def review(world: World, request: Request, form: Form) -> Response:
    """Review a pull request, perhaps with one comment on a line."""
    repository, issue, actor = _place(world, request, form)
    notes = []
    if form.get("note", "").strip():
        if not form.get("line", "").isdigit():
            raise unprocessable("A comment on a line needs the line's number.")
        notes = [{"path": form.get("path"), "line": int(form["line"]), "body": form["note"]}]
    given = pulls.review(world, repository, issue, actor, form.get("event"), form.get("body"), notes)
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
    pulls.merge(world, repository, issue, actor)
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


Reader = Callable[[World, Request], Response]
Writer = Callable[[World, Request, Form], Response]

_R = "/{owner}/{repo}"
_READERS: tuple[tuple[str, Reader], ...] = (
    ("/", index),
    (_R, home),
    (f"{_R}/tree/{{rest:path}}", tree),
    (f"{_R}/blob/{{rest:path}}", blob),
    (f"{_R}/commit/{{sha}}", commit),
    (f"{_R}/runs/{{check_run_id:int}}", check_run),
    (f"{_R}/issues", issue_list),
    (f"{_R}/pulls", issue_list),
    (f"{_R}/issues/new", new_issue),
    (f"{_R}/issues/{{number:int}}", issue),
    (f"{_R}/pull/{{number:int}}.patch", pull_patch),
    (f"{_R}/pull/{{number:int}}", issue),
    (f"{_R}/pull/{{number:int}}/commits", pull_commits),
    (f"{_R}/pull/{{number:int}}/files", pull_files),
    (f"{_R}/pull/{{number:int}}/checks", pull_checks),
)
_WRITERS: tuple[tuple[str, Writer], ...] = (
    (f"{_R}/issues/new", open_issue),
    (f"{_R}/issues/{{number:int}}/comments", comment),
    (f"{_R}/issues/{{number:int}}/state", state),
    (f"{_R}/comments/{{comment_id:int}}", edit_comment),
    (f"{_R}/pull/{{number:int}}/reviews", review),
    (f"{_R}/pull/{{number:int}}/draft", draft),
    (f"{_R}/pull/{{number:int}}/merge", merge),
    (f"{_R}/runs/{{check_run_id:int}}/rerequest", rerequest),
)


def page_routes(world: World) -> list[BaseRoute]:
    """Every page and form, and the style sheet."""
    routes: list[BaseRoute] = [Mount("/_static", StaticFiles(directory=FOLDER / "static"))]
    routes += [Route(path, _reader(world, reader), methods=["GET"]) for path, reader in _READERS]
    routes += [Route(path, _writer(world, writer), methods=["POST"]) for path, writer in _WRITERS]
    return routes


def _reader(world: World, reader: Reader) -> Callable[[Request], Any]:
    async def endpoint(request: Request) -> Response:
        return await run_in_threadpool(_answer, world, request, lambda: reader(world, request))

    return endpoint


def _writer(world: World, writer: Writer) -> Callable[[Request], Any]:
    async def endpoint(request: Request) -> Response:
        form = dict(parse_qsl((await request.body()).decode("utf-8", "replace"), keep_blank_values=True))

        def write() -> Response:
            refuse_other_sites(request)
            return writer(world, request, form)

        return await run_in_threadpool(_answer, world, request, write)

    return endpoint


def _answer(world: World, request: Request, work: Callable[[], Response]) -> Response:
    with world.lock:
        try:
            return work()
        except ApiError as error:
            return page(world, request, "error.html", status=error.status, error=error)
