"""A repository at a commit: its settings, trees, blobs, commits and refs."""

from __future__ import annotations

import base64
import itertools
from urllib.parse import quote

import structlog
from github import InputGitTreeElement
from github.ContentFile import ContentFile
from github.GithubObject import NotSet

from service.github.errors import ConflictError, ForbiddenError, MissingError
from service.github.records import CommitInfo, CompareInfo, RepositoryInfo, TreeEntry
from service.github.session import RepositoryCalls

log = structlog.get_logger(__name__)

MAX_TEXT_BYTES = 512 * 1024


class RepositoryReads(RepositoryCalls):
    """Reads of one repository."""

    def info(self) -> RepositoryInfo:
        """The repository."""

        def read() -> RepositoryInfo:
            repository = self._session.github.get_repo(self.full_name)
            name = str(
                repository.raw_data["full_name"]
            )  # the attribute stays the name that was asked for, perhaps an old one
            return RepositoryInfo(name, repository.default_branch, bool(repository.private), repository.html_url)

        return self._call(read)

    def permission(self, login: str) -> str:
        """A person's permission: ``admin``, ``write``, ``read`` or ``none``."""
        try:
            return self._call(lambda: self._repository.get_collaborator_permission(login))
        except MissingError:
            return "none"

    def in_team(self, login: str, organisation: str, slug: str) -> bool:
        """Whether a person is in a team; false also where the bot may not see the organisation's members."""
        path = f"/orgs/{quote(organisation)}/teams/{quote(slug)}/memberships/{quote(login)}"
        requester = self._session.github.requester
        try:
            _, membership = self._call(lambda: requester.requestJsonAndCheck("GET", path))
        except MissingError:
            return False
        except ForbiddenError as error:
            log.warning("team_not_read", team=f"{organisation}/{slug}", error=str(error))
            return False
        return isinstance(membership, dict) and membership.get("state") == "active"

    def text(self, path: str, ref: str) -> str | None:
        """A file's text at a commit or branch; None where there is no such file.

        Raises:
            ConflictError: it is a folder, no UTF-8 text, or larger than 512 KiB.
        """
        if not is_safe_path(path):
            return None
        try:
            content = self._call(lambda: self._repository.get_contents(path, ref=ref))
        except MissingError:
            return None
        if not isinstance(content, ContentFile) or content.type != "file":
            raise ConflictError(f"`{path}` is not a file")
        if content.size > MAX_TEXT_BYTES:
            raise ConflictError(f"`{path}` is larger than {MAX_TEXT_BYTES // 1024} KiB")
        try:
            return self._call(lambda: content.decoded_content).decode("utf-8")
        except (UnicodeDecodeError, AssertionError) as error:
            raise ConflictError(f"`{path}` is not UTF-8 text") from error


def is_safe_path(path: str) -> bool:
    """Whether a path names something inside a repository: dot segments would reach other parts of the API."""
    parts = path.split("/")
    return bool(path) and not any(part in {"", ".", ".."} for part in parts) and not any(c in path for c in "\\\0?#")


FILE_MODE = "100644"
EXECUTABLE_MODE = "100755"
MAX_COMMITS = 1_000


class GitData(RepositoryCalls):
    """The git side of one repository."""

    def head(self, branch: str) -> str | None:
        """The commit that a branch points to; None where there is no such branch."""
        try:
            return self._call(lambda: self._repository.get_git_ref(f"heads/{branch}").object.sha)
        except MissingError:
            return None

    def commit(self, sha: str) -> CommitInfo:
        """A commit."""

        def read() -> CommitInfo:
            git_commit = self._repository.get_git_commit(sha)
            return CommitInfo(
                git_commit.sha,
                git_commit.tree.sha,
                git_commit.message,
                tuple(parent.sha for parent in git_commit.parents),
            )

        return self._call(read)

    def compare(self, base: str, head: str) -> CompareInfo | None:
        """Where two commits parted, each by branch, tag or id; None where one is not there or nothing joins them.

        Source: https://docs.github.com/en/rest/commits/commits#compare-two-commits
        """

        def read() -> CompareInfo:
            comparison = self._repository.compare(base, head)
            return CompareInfo(comparison.base_commit.sha, comparison.merge_base_commit.sha)

        try:
            return self._call(read)
        except MissingError:
            return None

    def line(self, good: str, bad: str) -> tuple[CommitInfo, ...]:
        """The commits from one to a later one, both included, oldest first: of a merge the merge itself, not what it brought.

        Each end is a branch, tag or id. Empty where one is not there, or the second does not follow on the first. At most
        1,000 commits are read.
        """

        def read() -> tuple[CommitInfo, ...]:
            comparison = self._repository.compare(good, bad)
            if comparison.merge_base_commit.sha != comparison.base_commit.sha:
                return ()
            known = {commit.sha: commit for commit in itertools.islice(comparison.commits, MAX_COMMITS)}
            last = next(reversed(known), None)
            line: list[CommitInfo] = []
            while last is not None and last in known:
                commit = known[last]
                parents = tuple(parent.sha for parent in commit.parents)
                line.append(CommitInfo(commit.sha, commit.commit.tree.sha, commit.commit.message, parents))
                last = parents[0] if parents else None
            # Where the first parents lead past the good commit, it came by a merge: it is no part of this line.
            first = comparison.base_commit
            if last != first.sha:
                return ()
            parents = tuple(parent.sha for parent in first.parents)
            return (CommitInfo(first.sha, first.commit.tree.sha, first.commit.message, parents), *reversed(line))

        try:
            return self._call(read)
        except MissingError:
            return ()

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
            reference = self._repository.get_git_ref(f"heads/{branch}")
            # Reading it first gives the address at which it can be changed, which is not the one at which it is read.
            if reference.object.sha != sha:
                reference.edit(sha, force=False)

        self._call(forward)
