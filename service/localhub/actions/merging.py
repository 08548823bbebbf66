"""Merging, which people do on the page and the bot never does."""

from __future__ import annotations

from service.localhub.actions.issues import record, tell
from service.localhub.actions.refs import ref_changed
from service.localhub.errors import ApiError
from service.localhub.git import CommitData, GitError, Signature
from service.localhub.state import Issue, Pull, Repository
from service.localhub.world import Actor, World


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
    who = Signature(actor.user.name, actor.user.email, world.clock())
    sha = git.write_commit(CommitData(tree, (base, pull.head_sha), message, who, who))
    git.update_ref(name, sha, base)
    ref_changed(world, repository, name, base, sha, actor)
    return sha
