"""Pages to read: repositories, files, issues, pull requests, commits and check runs."""

from __future__ import annotations

from typing import Any

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from service.localhub.actions import checks, pulls
from service.localhub.conversation import conversation
from service.localhub.errors import not_found
from service.localhub.git import TreeEntry, changed_files
from service.localhub.hub_views import mail_patch
from service.localhub.pages.diff import file_diff
from service.localhub.pages.render import page
from service.localhub.state import Issue, Repository
from service.localhub.world import World

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


def _name(entry: TreeEntry) -> str:
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
    """The form for a new issue."""
    return page(world, request, "new_issue.html", repository_of(world, request))


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
