"""Images for the conversation: on an orphan branch that holds nothing else, linked by commit."""

from __future__ import annotations

import re

from service.github import ConflictError, TransientError, TreeEntry
from service.publisher.publication import GiveUpError, Publication
from service.publisher.trailers import with_trailer
from workers.contracts import AssetsUpdate, Effect, Failure, FailureCode

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
