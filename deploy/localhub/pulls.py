"""What happens to pull requests, branches and reviews."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from deploy.localhub import payloads
from deploy.localhub.git import ZERO, CommitData, CommitSignature, DiffFile, GitError, changed_files, is_safe_ref
from deploy.localhub.operations import ApiError, invalid, not_found, unprocessable
from deploy.localhub.state import Issue, Pull, Repository, Review, ReviewComment
from deploy.localhub.talk import checked_body, checked_title, new_number, record, tell
from deploy.localhub.webhooks import emit
from deploy.localhub.world import Actor, World


def open_pull(
    world: World,
    repository: Repository,
    actor: Actor,
    title: object,
    body: object,
    head: object,
    base: object,
    draft: bool = False,
) -> Issue:
    """Open a pull request; ``head`` as ``branch`` or ``owner:branch``. Raises: ApiError 422."""
    head_repository, head_ref, head_sha = _find_head(world, repository, head)
    git = world.git(repository)
    base_sha = git.ref(f"refs/heads/{base}") if isinstance(base, str) else None
    if not isinstance(base, str) or base_sha is None:
        raise invalid("PullRequest", "base", "invalid")
    _refuse_second(repository, head_repository, head_ref, base)
    number = new_number(repository)
    git.fetch(world.git(head_repository), head_sha, f"refs/pull/{number}/head")
    if not git.history(head_sha, exclude=base_sha, limit=1):
        raise invalid("PullRequest", "head", "custom", f"No commits between {base} and {head_ref}")
    now = world.clock()
    issue = Issue(
        id=world.state.new_id(),
        number=number,
        login=actor.login,
        title=checked_title("PullRequest", title),
        body=checked_body("PullRequest", body, required=False),
        created_at=now,
        updated_at=now,
        app_id=actor.app_id,
        pull=Pull(world.state.new_id(), base, base_sha, head_repository.id, head_ref, head_sha, draft),
    )
    repository.issues[number] = issue
    record(world, issue, "pushed", actor, before=git.merge_base(base_sha, head_sha) or "", after=head_sha)
    tell(world, repository, issue, "opened", actor)
    return issue


def _find_head(world: World, repository: Repository, head: object) -> tuple[Repository, str, str]:
    owner, _, branch = head.rpartition(":") if isinstance(head, str) else ("", "", "")
    source: Repository | None = repository
    if owner and owner.lower() != repository.owner.lower():
        forks = (one for one in world.state.repositories.values() if one.parent_id == repository.id)
        source = next((one for one in forks if one.owner.lower() == owner.lower()), None)
    sha = world.git(source).ref(f"refs/heads/{branch}") if source else None
    if source is None or sha is None:
        raise invalid("PullRequest", "head", "invalid")
    return source, branch, sha


def _refuse_second(repository: Repository, head_repository: Repository, head_ref: str, base: str) -> None:
    for issue in repository.issues.values():
        pull = issue.pull
        if pull is None or issue.state != "open":
            continue
        if (pull.head_repository_id, pull.head_ref, pull.base_ref) == (head_repository.id, head_ref, base):
            label = f"{head_repository.owner}:{head_ref}"
            message = f"A pull request already exists for {label}."
            raise invalid("PullRequest", "base", "custom", message)


def set_draft(world: World, repository: Repository, issue: Issue, actor: Actor, draft: bool) -> None:
    """Turn into a draft or mark as ready; nothing happens where it is so already."""
    assert issue.pull is not None, "only a pull request can be a draft"
    if issue.pull.draft == draft:
        return
    issue.pull.draft = draft
    action = "converted_to_draft" if draft else "ready_for_review"
    record(world, issue, action, actor)
    tell(world, repository, issue, action, actor)


def request_review(world: World, repository: Repository, issue: Issue, actor: Actor, logins: list[str]) -> None:
    """Ask people for a review. Raises: ApiError 422 for the author and for who is no collaborator."""
    pull = _pull_of(issue)
    for login in logins:
        if login.lower() == issue.login.lower():
            raise unprocessable("Review cannot be requested from pull request author.")
        known = {name.lower() for name in (*repository.collaborators, repository.owner)}
        if world.find_user(login) is None or login.lower() not in known:
            message = (
                "Reviews may only be requested from collaborators. One or more of the users or teams you specified "
                f"is not a collaborator of the {repository.full_name} repository."
            )
            raise unprocessable(message)
    for login in (world.user(login).login for login in logins):
        if login in pull.requested_reviewers:
            continue
        pull.requested_reviewers.append(login)
        record(world, issue, "review_requested", actor, reviewer=login)
        reviewer = payloads.user(world, world.user(login))
        tell(world, repository, issue, "review_requested", actor, requested_reviewer=reviewer)


def follow_branch(world: World, changed: Repository, branch: str, new: str | None, actor: Actor) -> None:
    """Move the head of every open pull request from this branch; a deleted branch closes it."""
    for repository in world.state.repositories.values():
        for issue in repository.issues.values():
            pull = issue.pull
            if (
                pull is None
                or issue.state != "open"
                or (pull.head_repository_id, pull.head_ref) != (changed.id, branch)
            ):
                continue
            if new is None:
                issue.state, issue.closed_at = "closed", world.clock()
                record(world, issue, "closed", actor)
                tell(world, repository, issue, "closed", actor)
            else:
                _synchronize(world, repository, issue, pull, changed, new, actor)


def _synchronize(
    world: World, repository: Repository, issue: Issue, pull: Pull, source: Repository, new: str, actor: Actor
) -> None:
    git, before = world.git(repository), pull.head_sha
    if before == new:
        return
    git.fetch(world.git(source), new, f"refs/pull/{issue.number}/head")
    pull.head_sha = new
    pull.base_sha = git.ref(f"refs/heads/{pull.base_ref}") or pull.base_sha
    forced = not git.is_ancestor(before, new)
    record(world, issue, "force_pushed" if forced else "pushed", actor, before=before, after=new)
    tell(world, repository, issue, "synchronize", actor, before=before, after=new)


def pull_base(world: World, repository: Repository, pull: Pull) -> str:
    """The commit that the changes of a pull request are seen from."""
    return world.git(repository).merge_base(pull.base_sha, pull.head_sha) or pull.base_sha


def pull_files(world: World, repository: Repository, pull: Pull) -> list[DiffFile]:
    """The files that a pull request changes."""
    return changed_files(world.git(repository), pull_base(world, repository, pull), pull.head_sha)


def change_base(world: World, repository: Repository, issue: Issue, actor: Actor, base: str) -> None:
    """Point the pull request at another branch. Raises: ApiError 422."""
    pull = _pull_of(issue)
    sha = world.git(repository).ref(f"refs/heads/{base}")
    if sha is None:
        raise invalid("PullRequest", "base", "invalid")
    before, pull.base_ref, pull.base_sha = pull.base_ref, base, sha
    tell(world, repository, issue, "edited", actor, changes={"base": {"ref": {"from": before}}})


def _pull_of(issue: Issue) -> Pull:
    if issue.pull is None:
        raise not_found()
    return issue.pull


_STATES = {"APPROVE": "APPROVED", "REQUEST_CHANGES": "CHANGES_REQUESTED", "COMMENT": "COMMENTED"}
_HUNK = re.compile(r"^@@ -(?P<old>\d+)(?:,\d+)? \+(?P<new>\d+)(?:,\d+)? @@")


def review(
    world: World,
    repository: Repository,
    issue: Issue,
    actor: Actor,
    event: object,
    body: object = None,
    comments: Sequence[Mapping[str, Any]] = (),
    commit_id: object = None,
) -> Review:
    """A review. Raises: ApiError 422 as GitHub refuses it."""
    pull = _pull_of(issue)
    if event not in _STATES:
        raise invalid("PullRequestReview", "event", "invalid")
    text = checked_body("PullRequestReview", body, required=False)
    _refuse(issue, actor, str(event), text, bool(comments))
    if commit_id is not None and world.git(repository).kind(str(commit_id)) != "commit":
        raise unprocessable("The commit_id is not part of the pull request")
    commit, now = str(commit_id or pull.head_sha), world.clock()
    given = Review(world.state.new_id(), actor.login, _STATES[str(event)], text, commit, now, actor.app_id)
    notes = [_line_comment(world, repository, pull, given, actor, note) for note in comments]
    pull.reviews.append(given)
    pull.review_comments += notes
    issue.updated_at = now
    if given.login in pull.requested_reviewers:
        pull.requested_reviewers.remove(given.login)
    _tell(world, repository, issue, given, "submitted", actor)
    for note in notes:
        _tell_note(world, repository, issue, note, "created", actor)
    return given


def _refuse(issue: Issue, actor: Actor, event: str, body: str, has_notes: bool) -> None:
    if actor.login == issue.login and event != "COMMENT":
        verb = "approve" if event == "APPROVE" else "request changes on"
        raise unprocessable(f"Can not {verb} your own pull request")
    if event != "APPROVE" and not body.strip() and not has_notes:
        raise unprocessable("Body can't be blank")


def note_on_line(
    world: World, repository: Repository, issue: Issue, actor: Actor, given: Mapping[str, Any]
) -> ReviewComment:
    """A single line comment, which GitHub wraps into a review of its own. Raises: ApiError 422."""
    pull = _pull_of(issue)
    wrapper = Review(
        world.state.new_id(), actor.login, "COMMENTED", "", str(given.get("commit_id") or pull.head_sha), world.clock()
    )
    note = _line_comment(world, repository, pull, wrapper, actor, given)
    pull.reviews.append(wrapper)
    pull.review_comments.append(note)
    _tell(world, repository, issue, wrapper, "submitted", actor)
    _tell_note(world, repository, issue, note, "created", actor)
    return note


def reply(
    world: World, repository: Repository, issue: Issue, first: ReviewComment, actor: Actor, body: object
) -> ReviewComment:
    """Answer a line comment. Raises: ApiError 422."""
    where = {"path": first.path, "line": first.line, "side": first.side, "body": body, "commit_id": first.commit_id}
    thread = first.in_reply_to_id or first.id
    return note_on_line(world, repository, issue, actor, where | {"in_reply_to": thread})


def find_note(repository: Repository, comment_id: int) -> tuple[Issue, ReviewComment]:
    """A line comment by its id. Raises: ApiError 404."""
    for issue in repository.issues.values():
        for note in issue.pull.review_comments if issue.pull else []:
            if note.id == comment_id:
                return issue, note
    raise not_found()


def _line_comment(
    world: World, repository: Repository, pull: Pull, parent: Review, actor: Actor, given: Mapping[str, Any]
) -> ReviewComment:
    path, line = given.get("path"), given.get("line") or given.get("position")
    side = str(given.get("side") or "RIGHT")
    text = checked_body("PullRequestReviewComment", given.get("body"), required=True)
    file = next((file for file in pull_files(world, repository, pull) if file.path == path), None)
    if file is None:
        raise invalid("PullRequestReviewComment", "path", "invalid", "Path could not be resolved")
    hunk = hunk_before(file.patch or "", line, side) if isinstance(line, int) else ""
    if isinstance(line, int) and hunk is None:
        raise invalid("PullRequestReviewComment", "line", "invalid", "Line could not be resolved")
    now = world.clock()
    return ReviewComment(
        id=world.state.new_id(),
        review_id=parent.id,
        login=actor.login,
        body=text,
        path=file.path,
        line=line if isinstance(line, int) else None,
        side=side,
        commit_id=parent.commit_id,
        diff_hunk=hunk or "",
        created_at=now,
        updated_at=now,
        start_line=given.get("start_line"),
        in_reply_to_id=given.get("in_reply_to"),
        app_id=actor.app_id,
    )


def hunk_before(patch: str, line: int, side: str = "RIGHT") -> str | None:
    """The lines of a hunk up to a line of one side of the file; None for a line that the diff does not show."""
    shown: list[str] = []
    old = new = 0
    for text in patch.split("\n"):
        match = _HUNK.match(text)
        if match:
            shown, old, new = [text], int(match["old"]), int(match["new"])
            continue
        shown.append(text)
        at, counts = (new, text[:1] in ("+", " ")) if side == "RIGHT" else (old, text[:1] in ("-", " "))
        if counts and at == line:
            return "\n".join(shown)
        old += text[:1] in ("-", " ")
        new += text[:1] in ("+", " ")
    return None


def _tell(world: World, repository: Repository, issue: Issue, given: Review, action: str, actor: Actor) -> None:
    shape = payloads.review(world, repository, issue, given)
    # The REST API writes states in capitals and the webhook does not.
    parts = {
        "review": shape | {"state": given.state.lower()},
        "pull_request": payloads.pull(world, repository, issue, full=False),
    }
    emit(world, repository, "pull_request_review", action, parts, actor)


def _tell_note(
    world: World, repository: Repository, issue: Issue, note: ReviewComment, action: str, actor: Actor, **extra: Any
) -> None:
    parts = {
        "comment": payloads.review_comment(world, repository, issue, note),
        "pull_request": payloads.pull(world, repository, issue, full=False),
    }
    emit(world, repository, "pull_request_review_comment", action, parts | extra, actor)


_MOST_COMMITS_IN_PUSH = 20


def create_ref(world: World, repository: Repository, actor: Actor, name: object, sha: object) -> None:
    """Make a ref. Raises: ApiError 422 where it exists, is no ref's name, or names nothing."""
    git = world.git(repository)
    if not isinstance(name, str) or not name.startswith("refs/") or name.count("/") < 2 or not is_safe_ref(name):
        raise unprocessable("Reference name must start with 'refs/' and contain at least two slashes.")
    if name.startswith("refs/pull/"):
        raise unprocessable("Reference name is reserved.")
    kind = git.kind(sha) if isinstance(sha, str) else None
    if not isinstance(sha, str) or kind is None or (kind != "commit" and name.startswith("refs/heads/")):
        raise unprocessable("Object does not exist")
    if not git.update_ref(name, sha, ZERO):
        raise unprocessable("Reference already exists")
    ref_changed(world, repository, name, None, sha, actor)


def update_ref(world: World, repository: Repository, actor: Actor, name: str, sha: object, force: bool) -> None:
    """Move a ref; without ``force`` only forward. Raises: ApiError 422."""
    git = world.git(repository)
    old = git.ref(name)
    if old is None:
        raise unprocessable("Reference does not exist")
    if not isinstance(sha, str) or git.kind(sha) != "commit":
        raise unprocessable("Object does not exist")
    if not force and not git.is_ancestor(old, sha):
        raise unprocessable("Update is not a fast forward")
    if not git.update_ref(name, sha, old):
        raise ApiError(409, "Reference cannot be updated")
    ref_changed(world, repository, name, old, sha, actor)


def delete_ref(world: World, repository: Repository, actor: Actor, name: str) -> None:
    """Remove a ref. Raises: ApiError 422."""
    git = world.git(repository)
    old = git.ref(name)
    if old is None:
        raise unprocessable("Reference does not exist")
    git.delete_ref(name)
    ref_changed(world, repository, name, old, None, actor)


def ref_changed(
    world: World, repository: Repository, name: str, old: str | None, new: str | None, actor: Actor
) -> None:
    """Let the rest of the hub know that a ref has moved."""
    if old == new or not name.startswith(("refs/heads/", "refs/tags/")):
        return
    repository.pushed_at = world.clock()
    emit(world, repository, "push", None, _push_payload(world, repository, name, old, new, actor), actor)
    if name.startswith("refs/heads/"):
        follow_branch(world, repository, name.removeprefix("refs/heads/"), new, actor)


def refs_compared(
    world: World, repository: Repository, before: Mapping[str, str], after: Mapping[str, str], actor: Actor
) -> None:
    """Tell of every ref that differs, as after a push over HTTP."""
    for name in sorted({*before, *after}):
        ref_changed(world, repository, name, before.get(name), after.get(name), actor)


def commit_files(
    world: World,
    repository: Repository,
    actor: Actor,
    branch: str,
    changes: Mapping[str, bytes | None],
    message: str,
    force_from: str | None = None,
) -> str:
    """Commit files on a branch as a person would, and give the commit; ``force_from`` builds on that and forces."""
    git = world.git(repository)
    name = f"refs/heads/{branch}"
    old = git.ref(name)
    start = force_from or old or git.ref(f"refs/heads/{repository.default_branch}")
    if not is_safe_ref(name):
        raise unprocessable(f"{branch!r} cannot be the name of a branch")
    who = CommitSignature(actor.user.name, actor.user.email, world.clock())
    tree = git.write_files(changes, start)
    sha = git.write_commit(CommitData(tree, (start,) if start else (), message, who, who))
    if not git.update_ref(name, sha, old or ZERO):
        raise ApiError(409, "Reference cannot be updated")
    ref_changed(world, repository, name, old, sha, actor)
    return sha


def _push_payload(
    world: World, repository: Repository, name: str, old: str | None, new: str | None, actor: Actor
) -> dict[str, Any]:
    git = world.git(repository)
    commits: list[dict[str, Any]] = []
    if new is not None and git.kind(new) == "commit":
        known = old or git.ref(f"refs/heads/{repository.default_branch}")
        news = git.history(new, exclude=known if known != new else None, limit=_MOST_COMMITS_IN_PUSH)
        commits = [_pushed_commit(world, repository, sha) for sha in reversed(news)]
    return {
        "ref": name,
        "before": old or ZERO,
        "after": new or ZERO,
        "base_ref": None,
        "created": old is None,
        "deleted": new is None,
        "forced": bool(old and new and not git.is_ancestor(old, new)),
        "compare": f"{world.base_url}/{repository.full_name}/compare/{(old or ZERO)[:12]}...{(new or ZERO)[:12]}",
        "commits": commits,
        "head_commit": commits[-1] if commits else None,
        "pusher": {"name": actor.login, "email": actor.user.email},
    }


def _pushed_commit(world: World, repository: Repository, sha: str) -> dict[str, Any]:
    git = world.git(repository)
    commit = git.commit(sha)
    shape = payloads.git_commit(world, repository, commit)
    files = changed_files(git, commit.parents[0], sha) if commit.parents else []
    return {
        "id": sha,
        "tree_id": commit.tree,
        "distinct": True,
        "message": commit.message,
        "timestamp": shape["committer"]["date"],
        "url": shape["html_url"],
        "author": {"name": commit.author.name, "email": commit.author.email},
        "committer": {"name": commit.committer.name, "email": commit.committer.email},
        "added": [file.path for file in files if file.status == "added"],
        "removed": [file.path for file in files if file.status == "removed"],
        "modified": [file.path for file in files if file.status not in ("added", "removed")],
    }


def merge(world: World, repository: Repository, issue: Issue, actor: Actor) -> str:
    """Merge a pull request and give the merge commit. Raises: ApiError 405 for a draft or where it conflicts."""
    pull = issue.pull
    if pull is None or issue.state != "open" or pull.draft:
        raise ApiError(405, "Pull Request is not mergeable")
    sha = _merge_commit(world, repository, pull, f"Merge pull request #{issue.number} from {pull.head_ref}", actor)
    pull.merged_at, pull.merged_by, pull.merge_commit_sha = world.clock(), actor.login, sha
    issue.state, issue.closed_at = "closed", world.clock()
    record(world, issue, "merged", actor, after=sha)
    tell(world, repository, issue, "closed", actor)
    return sha


def _merge_commit(world: World, repository: Repository, pull: Pull, message: str, actor: Actor) -> str:
    git = world.git(repository)
    name = f"refs/heads/{pull.base_ref}"
    base = git.ref(name) or pull.base_sha
    try:
        tree = git.run("merge-tree", "--write-tree", base, pull.head_sha).decode().split()[0]
    except GitError as error:
        raise ApiError(405, "Pull Request is not mergeable") from error
    who = CommitSignature(actor.user.name, actor.user.email, world.clock())
    sha = git.write_commit(CommitData(tree, (base, pull.head_sha), message, who, who))
    git.update_ref(name, sha, base)
    ref_changed(world, repository, name, base, sha, actor)
    return sha
