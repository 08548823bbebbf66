"""Git on a local checkout, without touching its working tree or index."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from workers.contracts import Failure, FailureCode, FileChange, UserFacingError, unreadable
from workers.environment import GIT, plain_environment

MAX_SNAPSHOT_BYTES = 512 * 2**20
ZERO = "0" * 40


@dataclass(frozen=True)
class Checkout:
    """A git repository on this machine."""

    folder: Path

    def git(self, *arguments: str, content: bytes | None = None, env: dict[str, str] | None = None) -> bytes:
        """Run git and give what it printed.

        Raises:
            UserFacingError: git failed; the text holds its last line.
        """
        command = ["git", "-C", str(self.folder), *arguments]
        variables = plain_environment(GIT) | (env or {})
        done = subprocess.run(command, input=content, capture_output=True, check=False, env=variables)
        if done.returncode != 0:
            last = done.stderr.decode(errors="replace").strip().splitlines()[-1:] or ["it said nothing"]
            raise _failed(
                f"`git {arguments[0]}` failed in {self.folder}: {last[0]}", "Look at the checkout with git status."
            )
        return done.stdout

    def text(self, *arguments: str) -> str:
        """Run git and give what it printed as text."""
        return self.git(*arguments).decode().strip()

    def head(self) -> str:
        """The commit that is checked out.

        Raises:
            UserFacingError: the folder is no git repository, or has no commit.
        """
        if not (self.folder / ".git").exists():
            fix = f"Make one: cd {self.folder} && git init && git add -A && git commit -m start"
            raise _failed(f"{self.folder} is no git repository", fix)
        sha = self.resolve("HEAD")
        if sha is None:
            raise _failed(
                f"{self.folder} has no commit yet", f"Make one: cd {self.folder} && git add -A && git commit -m start"
            )
        return sha

    def branch(self) -> str:
        """The name of the branch that is checked out, or ``HEAD``."""
        return self.text("rev-parse", "--abbrev-ref", "HEAD")

    def origin(self) -> str:
        """The address of the remote ``origin``; empty where there is none, or the folder is no checkout."""
        try:
            return self.text("config", "--get", "remote.origin.url")
        except UserFacingError:
            return ""

    def changed(self) -> tuple[str, ...]:
        """Paths with uncommitted changes, which a job does not see."""
        lines = self.git("status", "--porcelain", "--untracked-files=no").decode(errors="replace").splitlines()
        return tuple(line[3:] for line in lines)

    def snapshot(self, sha: str) -> bytes:
        """A gzipped tarball of a commit, everything under one top folder.

        Raises:
            UserFacingError: it is larger than 512 MiB.
        """
        content = self.git("archive", "--format=tar.gz", "--prefix=repository/", sha)
        if len(content) > MAX_SNAPSHOT_BYTES:
            raise _failed("the checkout is larger than 512 MiB", "Point at a smaller repository.")
        return content

    def resolve(self, reference: str) -> str | None:
        """The commit of a branch, None where there is none."""
        done = subprocess.run(
            ["git", "-C", str(self.folder), "rev-parse", "--verify", "--quiet", f"{reference}^{{commit}}"],
            capture_output=True,
            check=False,
            env=plain_environment(GIT),
        )
        return done.stdout.decode().strip() or None

    def commit_of(self, reference: str) -> str:
        """The commit of a branch, tag or shortened id.

        Raises:
            UserFacingError: there is none.
        """
        known = None if reference.startswith("-") else self.resolve(reference)
        if known is None:
            raise _failed(f"there is no branch, tag or commit {reference!r} in {self.folder}", "See git branch --all.")
        return known

    def merge_base(self, reference: str, head: str) -> str:
        """What a reference and a commit have in common.

        Raises:
            UserFacingError: there is no such reference, or nothing joins the two.
        """
        return self.text("merge-base", self.commit_of(reference), head)

    def working_tree(self) -> str:
        """The working tree as a commit that no branch names, without what is ignored."""
        head = self.head()
        with tempfile.TemporaryDirectory() as scratch:
            env = {"GIT_INDEX_FILE": str(Path(scratch) / "index")} | AUTHOR
            self.git("read-tree", head, env=env)
            self.git("add", "--all", env=env)
            tree = self.git("write-tree", env=env).decode().strip()
            message = b"The working tree"
            return self.git("commit-tree", tree, "-p", head, "-F", "-", content=message, env=env).decode().strip()

    def commit(self, branch: str, parent: str, changes: Sequence[FileChange], message: str) -> str:
        """Make one commit on a branch, on top of an expected parent, and give its id.

        Raises:
            UserFacingError: somebody moved the branch, and theirs stays; or a Python file has not one reading.
        """
        failure = unreadable(changes)
        if failure is not None:
            raise UserFacingError(failure)
        standing = self.resolve(f"refs/heads/{branch}")
        if standing is not None and standing != parent:
            raise _failed(
                f"branch `{branch}` was moved to {standing[:12]}", f"Delete it or keep it: git branch -D {branch}"
            )
        sha = self._commit_object(parent, changes, message)
        self.git("update-ref", f"refs/heads/{branch}", sha, standing or ZERO)
        return sha

    def message(self, sha: str) -> str:
        """A commit's message."""
        return self.text("log", "-1", "--format=%B", sha)

    def patch(self, base: str, head: str) -> str:
        """The difference between two commits as a patch that ``git apply`` takes."""
        return self.git("diff", "--binary", "--full-index", base, head).decode("utf-8", "surrogateescape")

    def trees(self, base: str, head: str) -> tuple[str, ...]:
        """The trees of the commits after one and up to another, oldest first."""
        return tuple(self.text("log", "--reverse", "--format=%T", f"{base}..{head}").split())

    def _commit_object(self, parent: str, changes: Sequence[FileChange], message: str) -> str:
        with tempfile.TemporaryDirectory() as scratch:
            env = {"GIT_INDEX_FILE": str(Path(scratch) / "index")} | AUTHOR
            self.git("read-tree", parent, env=env)
            for change in changes:
                self._stage(change, env)
            tree = self.git("write-tree", env=env).decode().strip()
            made = self.git("commit-tree", tree, "-p", parent, "-F", "-", content=message.encode(), env=env)
            return made.decode().strip()

    def _stage(self, change: FileChange, env: dict[str, str]) -> None:
        if change.text is None:
            self.git("update-index", "--force-remove", "--", change.path, env=env)
            return
        # --no-filters keeps the bytes: a library's CSV with its own line endings stays as it is.
        blob = (
            self.git("hash-object", "-w", "--stdin", "--no-filters", content=change.text.encode(), env=env)
            .decode()
            .strip()
        )
        mode = "100755" if change.executable else "100644"
        self.git("update-index", "--add", "--cacheinfo", f"{mode},{blob},{change.path}", env=env)


AUTHOR = {
    "GIT_AUTHOR_NAME": "kernelsmith",
    "GIT_AUTHOR_EMAIL": "kernelsmith@users.noreply.github.com",
    "GIT_COMMITTER_NAME": "kernelsmith",
    "GIT_COMMITTER_EMAIL": "kernelsmith@users.noreply.github.com",
}


def _failed(message: str, fix: str) -> UserFacingError:
    return UserFacingError(Failure(FailureCode.environment, message, fix))
