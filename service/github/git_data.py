"""Commits without a checkout: blobs, trees, commits and branches through the Git data API."""

from __future__ import annotations

import base64

from github import InputGitTreeElement
from github.GithubObject import NotSet

from service.github.errors import MissingError
from service.github.records import CommitInfo, CompareInfo, TreeEntry
from service.github.session import RepositoryCalls

FILE_MODE = "100644"
EXECUTABLE_MODE = "100755"


class GitData(RepositoryCalls):
    """The git side of one repository."""

    def head(self, branch: str) -> str | None:
        """Give the commit that a branch points to; None where there is no such branch."""
        try:
            return self._call(lambda: self._repository.get_git_ref(f"heads/{branch}").object.sha)
        except MissingError:
            return None

    def commit(self, sha: str) -> CommitInfo:
        """Give a commit."""

        def read() -> CommitInfo:
            found = self._repository.get_git_commit(sha)
            return CommitInfo(found.sha, found.tree.sha, found.message, tuple(parent.sha for parent in found.parents))

        return self._call(read)

    def compare(self, base: str, head: str) -> CompareInfo | None:
        """Give where two commits parted, each by branch, tag or id; None where one is not there or nothing joins them.

        Source: https://docs.github.com/en/rest/commits/commits#compare-two-commits
        """

        def read() -> CompareInfo:
            found = self._repository.compare(base, head)
            return CompareInfo(found.base_commit.sha, found.merge_base_commit.sha)

        try:
            return self._call(read)
        except MissingError:
            return None

    def blob(self, content: bytes) -> str:
        """Store a file's content; give its id. The same content stored twice is one blob."""
        encoded = base64.b64encode(content).decode("ascii")
        return self._call(lambda: self._repository.create_git_blob(encoded, "base64").sha)

    def tree(self, entries: tuple[TreeEntry, ...], base_tree: str | None) -> str:
        """Make a tree, with the files of ``base_tree`` that no entry names; give its id."""
        elements = [
            InputGitTreeElement(
                entry.path, EXECUTABLE_MODE if entry.executable else FILE_MODE, "blob", sha=entry.blob_sha
            )
            for entry in entries
        ]

        def make() -> str:
            base = NotSet if base_tree is None else self._repository.get_git_tree(base_tree)
            return self._repository.create_git_tree(elements, base).sha

        return self._call(make)

    def make_commit(self, message: str, tree: str, parents: tuple[str, ...]) -> str:
        """Make a commit that no branch points to yet; give its id. Without an author GitHub signs it as the bot's."""

        def make() -> str:
            repository = self._repository
            held = [repository.get_git_commit(parent) for parent in parents]
            return repository.create_git_commit(message, repository.get_git_tree(tree), held).sha

        return self._call(make)

    def create_branch(self, branch: str, sha: str) -> None:
        """Make a branch.

        Raises:
            ConflictError: it exists.
        """
        self._call(lambda: self._repository.create_git_ref(f"refs/heads/{branch}", sha))

    def forward_branch(self, branch: str, sha: str) -> None:
        """Move a branch to a descendant of its head, never anywhere else.

        Raises:
            ConflictError: it points somewhere that is no ancestor, since someone pushed.
        """

        def forward() -> None:
            found = self._repository.get_git_ref(f"heads/{branch}")
            # Reading it first gives the address at which it can be changed, which is not the one at which it is read.
            if found.object.sha != sha:
                found.edit(sha, force=False)

        self._call(forward)
