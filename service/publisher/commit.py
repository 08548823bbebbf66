"""A commit on the job's branch: through the Git data API, on top of the expected parent, never over anybody's work."""

from __future__ import annotations

from service.github import ConflictError, MissingError, TransientError, TreeEntry
from service.github.repository import is_safe_path
from service.publisher.publication import GiveUpError, Publication
from service.publisher.trailers import is_commit_of, with_trailer
from service.report.pull_request import commit_message
from workers.contracts import CommitUpdate, Effect, Failure, FailureCode, FileChange, unreadable

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
    """Give the end of a job whose branch belongs to somebody else now."""
    return GiveUpError(
        Failure(
            FailureCode.moved,
            f"{what} while the job was running; what is there now stays as it is",
            "Take the branch over by hand, or use `/kernel retry`: the job then starts over, on a branch of its own.",
        )
    )
