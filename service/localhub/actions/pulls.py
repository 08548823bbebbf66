"""Pull requests: opening, draft and ready, who is asked for a review, and the head that follows its branch."""

from __future__ import annotations

from service.localhub import payloads
from service.localhub.actions.issues import new_number, record, tell
from service.localhub.actions.text import checked_body, checked_title
from service.localhub.errors import invalid, not_found, unprocessable
from service.localhub.git import ChangedFile, changed_files
from service.localhub.state import Issue, Pull, Repository
from service.localhub.world import Actor, World


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


def withdraw_request(world: World, repository: Repository, issue: Issue, actor: Actor, logins: list[str]) -> None:
    """Ask somebody no longer."""
    pull = _pull_of(issue)
    for login in (world.user(login).login for login in logins):
        if login in pull.requested_reviewers:
            pull.requested_reviewers.remove(login)
            record(world, issue, "review_request_removed", actor, reviewer=login)
            reviewer = payloads.user(world, world.user(login))
            tell(world, repository, issue, "review_request_removed", actor, requested_reviewer=reviewer)


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


def pull_files(world: World, repository: Repository, pull: Pull) -> list[ChangedFile]:
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
