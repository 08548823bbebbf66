"""What happens to issues, comments, reactions and reviews."""

from __future__ import annotations

from typing import Any

from deploy.localhub import payloads
from deploy.localhub.operations import invalid, not_found
from deploy.localhub.payloads import REACTIONS
from deploy.localhub.state import Comment, Event, Issue, Label, Reaction, Repository
from deploy.localhub.webhooks import emit
from deploy.localhub.world import Actor, World

MAX_BODY_CHARACTERS = 65_536
_MAX_TITLE_CHARACTERS = 256


def checked_body(resource: str, body: object, required: bool) -> str:
    """A body that GitHub takes. Raises: ApiError 422 where it is no text, is missing or is too long."""
    if body is None and not required:
        return ""
    if not isinstance(body, str):
        raise invalid(resource, "body", "missing_field" if body is None else "invalid", "body is not a string")
    if required and not body.strip():
        raise invalid(resource, "body", "custom", "body can't be blank")
    if len(body) > MAX_BODY_CHARACTERS:
        raise invalid(resource, "body", "custom", f"body is too long (maximum is {MAX_BODY_CHARACTERS} characters)")
    return body


def checked_title(resource: str, title: object) -> str:
    """A title. Raises: ApiError 422."""
    if not isinstance(title, str) or not title.strip():
        raise invalid(resource, "title", "missing_field", "title can't be blank")
    if len(title) > _MAX_TITLE_CHARACTERS:
        raise invalid(resource, "title", "custom", "title is too long (maximum is 256 characters)")
    return title


def new_number(repository: Repository) -> int:
    """The next number; issues and pull requests share one row."""
    return max(repository.issues, default=0) + 1


def record(world: World, issue: Issue, kind: str, actor: Actor, **detail: str) -> Event:
    """Note that something happened, for the conversation."""
    event = Event(world.state.new_id(), kind, actor.login, world.clock(), detail)
    issue.events.append(event)
    issue.updated_at = event.at
    return event


def open_issue(world: World, repository: Repository, actor: Actor, title: object, body: object) -> Issue:
    """Open an issue. Raises: ApiError 422."""
    now = world.clock()
    issue = Issue(
        id=world.state.new_id(),
        number=new_number(repository),
        login=actor.login,
        title=checked_title("Issue", title),
        body=checked_body("Issue", body, required=False),
        created_at=now,
        updated_at=now,
        app_id=actor.app_id,
    )
    repository.issues[issue.number] = issue
    tell(world, repository, issue, "opened", actor)
    return issue


def tell(world: World, repository: Repository, issue: Issue, action: str, actor: Actor, **extra: Any) -> None:
    """Send ``issues`` or ``pull_request``, whichever it is."""
    parts: dict[str, Any]
    if issue.pull is None:
        parts = {"issue": payloads.issue(world, repository, issue)}
        emit(world, repository, "issues", action, parts | extra, actor)
    else:
        parts = {"number": issue.number, "pull_request": payloads.pull(world, repository, issue)}
        emit(world, repository, "pull_request", action, parts | extra, actor)


def edit_text(
    world: World, repository: Repository, issue: Issue, actor: Actor, title: object = None, body: object = None
) -> None:
    """Change title or body where they are given; the webhook says what stood there. Raises: ApiError 422."""
    changes: dict[str, Any] = {}
    if title is not None and title != issue.title:
        changes["title"] = {"from": issue.title}
        issue.title = checked_title("Issue", title)
    if body is not None and body != issue.body:
        changes["body"] = {"from": issue.body or ""}
        issue.body = checked_body("Issue", body, required=False)
    if changes:
        issue.updated_at = world.clock()
        tell(world, repository, issue, "edited", actor, changes=changes)


def set_state(
    world: World, repository: Repository, issue: Issue, actor: Actor, state: object, reason: str | None = None
) -> None:
    """Close or reopen; nothing happens where it is so already. Raises: ApiError 422."""
    if state not in ("open", "closed"):
        raise invalid("Issue", "state", "invalid")
    if state == issue.state:
        return
    if state == "open" and issue.pull is not None and issue.pull.merged_at is not None:
        raise invalid("PullRequest", "state", "custom", "state cannot be changed. The pull request was merged.")
    issue.state = str(state)
    closed = state == "closed"
    issue.closed_at = world.clock() if closed else None
    issue.state_reason = (reason or "completed") if closed and issue.pull is None else None
    record(world, issue, "closed" if closed else "reopened", actor)
    tell(world, repository, issue, "closed" if closed else "reopened", actor)


def add_comment(world: World, repository: Repository, issue: Issue, actor: Actor, body: object) -> Comment:
    """Write a comment. Raises: ApiError 422."""
    text = checked_body("IssueComment", body, required=True)
    now = world.clock()
    comment = Comment(world.state.new_id(), actor.login, text, now, now, actor.app_id)
    issue.comments.append(comment)
    issue.updated_at = now
    _tell_comment(world, repository, issue, comment, "created", actor)
    return comment


def edit_comment(
    world: World, repository: Repository, issue: Issue, comment: Comment, actor: Actor, body: object
) -> None:
    """Change a comment; ``changes.body.from`` of the webhook is what stood there. Raises: ApiError 422."""
    text = checked_body("IssueComment", body, required=True)
    before, comment.body = comment.body, text
    comment.updated_at = world.clock()
    if before != text:
        _tell_comment(world, repository, issue, comment, "edited", actor, changes={"body": {"from": before}})


def find_comment(repository: Repository, comment_id: int) -> tuple[Issue, Comment]:
    """A comment by its id, which is unique in the repository. Raises: ApiError 404."""
    for issue in repository.issues.values():
        for comment in issue.comments:
            if comment.id == comment_id:
                return issue, comment
    raise not_found()


def _tell_comment(
    world: World, repository: Repository, issue: Issue, comment: Comment, action: str, actor: Actor, **extra: Any
) -> None:
    parts = {
        "issue": payloads.issue(world, repository, issue),
        "comment": payloads.comment(world, repository, issue, comment),
    }
    emit(world, repository, "issue_comment", action, parts | extra, actor)


def ensure_label(
    world: World, repository: Repository, name: str, color: str = "ededed", description: str = ""
) -> Label:
    """A label, made where there is none."""
    if not name.strip() or len(name) > 50:
        raise invalid("Label", "name", "invalid")
    if name not in repository.labels:
        repository.labels[name] = Label(world.state.new_id(), name, color, description)
    return repository.labels[name]


def set_labels(world: World, repository: Repository, issue: Issue, actor: Actor, names: list[str]) -> None:
    """Make the labels exactly these; one webhook for each that came or went."""
    wanted = [ensure_label(world, repository, name).name for name in dict.fromkeys(names)]
    before, issue.labels = issue.labels, wanted
    changed = [("labeled", name) for name in wanted if name not in before]
    changed += [("unlabeled", name) for name in before if name not in wanted]
    for action, name in changed:
        record(world, issue, action, actor, label=name)
        label = payloads.label(world, repository, repository.labels[name])
        tell(world, repository, issue, action, actor, label=label)


def react(world: World, reactions: list[Reaction], actor: Actor, content: object) -> tuple[Reaction, bool]:
    """Leave a reaction; False where it stood there already. Raises: ApiError 422."""
    if content not in REACTIONS:
        raise invalid("Reaction", "content", "invalid")
    for reaction in reactions:
        if reaction.content == content and reaction.login == actor.login:
            return reaction, False
    reaction = Reaction(world.state.new_id(), str(content), actor.login, world.clock())
    reactions.append(reaction)
    return reaction, True
