"""Commits, pull requests, check runs and images, each made once."""

from __future__ import annotations

import re
from dataclasses import replace

import structlog

from service.github.client import Button, CheckText
from service.github.errors import ConflictError, ForbiddenError, MissingError, TransientError
from service.github.git_data import is_safe_path
from service.github.records import PullInfo, TreeEntry
from service.publisher.publication import GiveUpError, Publication
from service.report.job import asks, check_run_output
from service.report.pull_request import (
    commit_message,
    is_commit_of,
    pull_request_body,
    pull_request_title,
    with_trailer,
)
from service.report.status import measures
from workers.contracts import (
    AssetsUpdate,
    CheckpointUpdate,
    CloseUpdate,
    CommitUpdate,
    Effect,
    Failure,
    FailureCode,
    FileChange,
    PullRequestUpdate,
    ReadyUpdate,
    ReportUpdate,
    unreadable,
)

BRANCH = "kernelsmith-assets"
_NAME = re.compile(r"[A-Za-z0-9][\w.-]{0,100}\.(png|svg|jpg|gif)")


def publish_assets(publication: Publication, update: AssetsUpdate) -> Effect:
    """Commit the images; the same images committed twice are one commit."""
    if not update.images:
        return Effect()
    git, folder = publication.github.git, publication.job.job_id
    for image in update.images:
        if _NAME.fullmatch(image.name) is None:
            raise GiveUpError(Failure(FailureCode.internal, f"an image has the name {image.name!r}"))
    entries = tuple(
        TreeEntry(f"{folder}/{image.name}", git.blob(publication.artifact(image.digest))) for image in update.images
    )
    head = git.head(BRANCH)
    base = git.commit(head) if head is not None else None
    tree = git.tree(entries, base.tree_sha if base is not None else None)
    if base is not None and tree == base.tree_sha:
        return Effect(sha=base.sha, url_root=_root(publication, base.sha))
    message = with_trailer(f"Add images of job {folder}", publication.update_id)
    sha = git.make_commit(message, tree, () if head is None else (head,))
    try:
        if head is None:
            git.create_branch(BRANCH, sha)
        else:
            git.forward_branch(BRANCH, sha)
    except ConflictError as error:
        # Another job was faster; its commit becomes the parent at the next try.
        raise TransientError(f"branch {BRANCH} changed meanwhile", retry_after_s=1.0) from error
    return Effect(sha=sha, url_root=_root(publication, sha))


def _root(publication: Publication, sha: str) -> str:
    return f"{publication.addresses.raw(publication.github.full_name, sha)}/{publication.job.job_id}"


LOOK_BACK = 20  # commits of other people on top of the bot's, before it counts as lost
LAG_REFUSALS = 3  # GitHub's replicas may not know a branch yet that was made a moment ago


def publish_commit(publication: Publication, update: CommitUpdate) -> Effect:
    """Make the commit, or find it where it was made already.

    Raises:
        GiveUpError: somebody else changed the branch, and what is there stays; or a Python file has not one reading.
    """
    failure = unreadable(update.changes)
    if failure is not None:
        raise GiveUpError(failure)
    job, git = publication.job, publication.github.git
    head = git.head(job.branch)
    if head is not None:
        made = _find(publication, head)
        if made is not None:
            return Effect(sha=made)
    parents = _parents(publication, head)
    base = git.commit(job.head_sha or job.request.base_sha)
    tree = git.tree(_entries(publication, update.changes), base.tree_sha)
    if tree == base.tree_sha and head is not None and parents == (head,):
        return Effect(sha=head)
    message = commit_message(update, job)
    sha = git.make_commit(with_trailer(message, publication.update_id), tree, parents)
    _point(publication, head, sha)
    return Effect(sha=sha)


def _find(publication: Publication, head: str) -> str | None:
    expected = publication.job.head_sha or publication.job.request.base_sha
    sha = head
    for _ in range(LOOK_BACK):
        if sha == expected:
            return None
        commit = publication.github.git.commit(sha)
        if is_commit_of(commit.message, publication.update_id):
            return sha
        if not commit.parents:
            return None
        sha = commit.parents[0]
    return None


def _parents(publication: Publication, head: str | None) -> tuple[str, ...]:
    job = publication.job
    if head is None:
        if job.head_sha is None:
            return (job.request.base_sha,)
        if publication.claimed.refusals < LAG_REFUSALS:
            raise MissingError(f"branch {job.branch} is not there yet")
        raise moved(f"the branch `{job.branch}` was deleted")
    if head == (job.head_sha or job.request.base_sha):
        return (head,)
    raise moved(f"somebody pushed to the branch `{job.branch}`")


def _entries(publication: Publication, changes: tuple[FileChange, ...]) -> tuple[TreeEntry, ...]:
    entries = []
    for change in changes:
        if not is_safe_path(change.path) or change.path.split("/")[0] == ".git":
            raise GiveUpError(Failure(FailureCode.internal, f"a change names the path {change.path!r}"))
        blob = None if change.text is None else publication.github.git.blob(change.text.encode())
        entries.append(TreeEntry(change.path, blob, change.executable))
    return tuple(entries)


def _point(publication: Publication, head: str | None, sha: str) -> None:
    job, git = publication.job, publication.github.git
    try:
        if head is None:
            git.create_branch(job.branch, sha)
        else:
            git.forward_branch(job.branch, sha)
    except ConflictError as error:
        now = git.head(job.branch)
        if now == sha:
            return
        if now != head:
            # The next try sees who it was.
            raise TransientError(f"branch {job.branch} changed meanwhile", retry_after_s=1.0) from error
        failure = Failure(
            FailureCode.forbidden,
            f"GitHub did not let the bot write to the branch `{job.branch}`",
            "Let the bot write to branches of this name in the repository's rules, then use `/kernel retry`.",
            log=str(error),
        )
        raise GiveUpError(failure) from error


def moved(what: str) -> GiveUpError:
    """The end of a job whose branch belongs to somebody else now."""
    return GiveUpError(
        Failure(
            FailureCode.moved,
            f"{what} while the job was running; what is there now stays as it is",
            "Take the branch over by hand, or use `/kernel retry`: the job then starts over, on a new branch.",
        )
    )


def publish_pull_request(publication: Publication, update: PullRequestUpdate) -> Effect:
    """Open the draft, or edit the one that is there.

    Raises:
        GiveUpError: it was closed, or is somebody else's.
    """
    job, pulls = publication.job, publication.github.pulls
    title = pull_request_title(update, job)
    body = pull_request_body(update, job, publication.links())
    pull = _ours(publication)
    if pull is None:
        try:
            pull = pulls.create(title, body, job.branch, job.request.base_ref)
        except ConflictError as error:
            pull = _ours(publication) or _without_draft(publication, title, body, error)
    else:
        # The title tells the gain once that is known, unless a person has given it another one.
        renamed = pull.title != pull_request_title(replace(update, optimization=None), job)
        if pull.body != body or (not renamed and pull.title != title):
            pulls.edit(pull.number, body, pull.title if renamed else title)
    return Effect(pull_number=pull.number)


def publish_ready(publication: Publication, _update: ReadyUpdate) -> Effect:
    """Take the pull request out of draft."""
    number = publication.job.pull_number
    if number is None:
        raise GiveUpError(Failure(FailureCode.internal, "there is no pull request to take out of draft"))
    publication.github.pulls.mark_ready(number)
    return Effect(pull_number=number)


def publish_close(publication: Publication, _update: CloseUpdate) -> Effect:
    """Close the pull request, where there is one that is still open; its branch stays."""
    number = publication.job.pull_number
    if number is not None and _ours(publication) is not None:
        publication.github.pulls.close(number)
    return Effect(pull_number=number)


def _ours(publication: Publication) -> PullInfo | None:
    job, pulls = publication.job, publication.github.pulls
    pull = pulls.get(job.pull_number) if job.pull_number is not None else pulls.find(job.branch)
    if pull is None:
        return None
    if (pull.head_repository or "").lower() != job.request.origin.repository.lower() or pull.head_branch != job.branch:
        return None
    if pull.state == "open":
        if pull.author != publication.bot_login:
            raise _closed(f"#{pull.number} was opened from the branch `{job.branch}` by somebody else")
        return pull
    if job.pull_number is not None:
        raise _closed(f"#{pull.number} was closed")
    return None


def _without_draft(publication: Publication, title: str, body: str, error: ConflictError) -> PullInfo:
    # Some plans of GitHub have no drafts for private repositories; then the pull request is simply open.
    if "draft" not in str(error).lower():
        raise _not_opened(error) from error
    job = publication.job
    return publication.github.pulls.create(title, body, job.branch, job.request.base_ref, draft=False)


def _closed(what: str) -> GiveUpError:
    fix = "Open it again, or delete its branch, and use `/kernel retry`."
    return GiveUpError(Failure(FailureCode.moved, f"the pull request {what} while the job was running", fix))


def _not_opened(error: ConflictError) -> GiveUpError:
    failure = Failure(
        FailureCode.environment,
        "GitHub did not open the pull request",
        "See what GitHub said, put it right, and use `/kernel retry`.",
        log=str(error),
    )
    return GiveUpError(failure)


APPROVE, REVISE, CANCEL, AGAIN = "approve", "revise", "cancel", "again"

log = structlog.get_logger(__name__)


def external_id(job_id: str, update_id: str) -> str:
    """The id under which a check run is found again, and by which its re-run button finds the job."""
    return f"{job_id}/{update_id}"


def job_id_of(external: str) -> str | None:
    """The job of a check run; None where it is none of the bot's."""
    job_id, separator, update_id = external.partition("/")
    return job_id if separator and job_id and update_id else None


def publish_check(publication: Publication, update: CheckpointUpdate | ReportUpdate) -> int | None:
    """Make the check run, or find it; None where there is no commit yet, or where the credentials may not make one."""
    job, checks = publication.job, publication.github.checks
    head_sha = job.head_sha or _worked_on(publication)
    if head_sha is None:
        return None
    output = check_run_output(update, job)
    url, buttons = publication.addresses.job(job.job_id), _buttons(publication, update)
    text = CheckText(output.title, output.summary, output.conclusion.value, url, buttons)
    key = external_id(job.job_id, publication.update_id)
    try:
        check = checks.find(head_sha, key)
        return check.check_run_id if check is not None else checks.create(output.name, head_sha, key, text)
    except (ForbiddenError, ConflictError) as error:
        # Only a GitHub App can make check runs; with a plain token the comments have to do.
        log.warning("check_run_not_made", error=str(error))
        return None


def _buttons(publication: Publication, update: CheckpointUpdate | ReportUpdate) -> tuple[Button, ...]:
    """What can be decided on the check run; an approval is bound to its checkpoint, since two may name one commit."""
    if isinstance(update, CheckpointUpdate):
        if not asks(update):
            return ()
        bound = f"{update.stage.value}/{update.attempt}"
        return (
            Button("Approve", "Go on after this checkpoint", f"{APPROVE}/{bound}"),
            Button("Run again", "Have this stage done again", f"{REVISE}/{bound}"),
            Button("Cancel", "Stop the job; what was pushed stays", CANCEL),
        )
    stopped = update.failure is not None or update.cancelled_by is not None
    again = Button("Run again", "Carry it on, or measure it once more", AGAIN)
    return (again,) if stopped or measures(publication.job) else ()


def _worked_on(publication: Publication) -> str | None:
    """The head of the pull request that was only measured, or from whose fork a job started that pushes nothing."""
    request = publication.job.request
    if request.read_only:
        return request.base_sha
    return request.head_sha if request.origin.is_pull else None
