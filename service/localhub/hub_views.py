"""The Python API, third part: what can be seen, without changing anything."""

from __future__ import annotations

from service.localhub.actions import pulls
from service.localhub.conversation import Entry, conversation
from service.localhub.git import patch
from service.localhub.state import CheckRun, Issue, Repository
from service.localhub.world import World


class HubViews:
    """What a test or the demo looks at."""

    world: World

    def conversation(self, repo: str, number: int) -> list[Entry]:
        """Opening, comments, reviews, commits and events, in order."""
        with self.world.lock:
            repository = self.world.repository(repo)
            return conversation(self.world.git(repository), self.world.issue(repository, number))

    def check_runs(self, repo: str, sha: str | None = None) -> list[CheckRun]:
        """The check runs, oldest first, perhaps of one commit."""
        with self.world.lock:
            return [run for run in self.world.repository(repo).check_runs if sha in (None, run.head_sha)]

    def issue(self, repo: str, number: int) -> Issue:
        """An issue or pull request as it is stored; change it only through the methods here."""
        with self.world.lock:
            return self.world.issue(self.world.repository(repo), number)

    def pull_numbers(self, repo: str, state: str = "all") -> list[int]:
        """The numbers of the pull requests, oldest first."""
        with self.world.lock:
            found = self.world.repository(repo).issues.values()
            return [issue.number for issue in found if issue.pull and state in ("all", issue.state)]

    def head(self, repo: str, branch: str | None = None) -> str | None:
        """The commit at the tip of a branch; None for a branch that is not there."""
        with self.world.lock:
            repository = self.world.repository(repo)
            return self.world.git(repository).ref(f"refs/heads/{branch or repository.default_branch}")

    def branches(self, repo: str) -> dict[str, str]:
        """Every branch with the commit at its tip."""
        with self.world.lock:
            found = self.world.git(self.world.repository(repo)).refs()
            return {
                name.removeprefix("refs/heads/"): sha for name, sha in found.items() if name.startswith("refs/heads/")
            }

    def read_file(self, repo: str, ref: str, path: str) -> bytes | None:
        """A file at a branch or commit; None where there is none."""
        with self.world.lock:
            git = self.world.git(self.world.repository(repo))
            commit = git.resolve(ref)
            return git.file(commit, path) if commit else None

    def as_patch(self, repo: str, number: int) -> str:
        """The changes of a pull request as one mail-style patch for `git apply`; encode it with surrogateescape."""
        with self.world.lock:
            return mail_patch(self.world, self.world.repository(repo), number)


def mail_patch(world: World, repository: Repository, number: int) -> str:
    """All changes of a pull request as one mail: who, when, title, statistics, and a binary-safe diff."""
    issue, pull = world.pull(repository, number)
    git = world.git(repository)
    commit = git.commit(pull.head_sha)
    head = [
        f"From {pull.head_sha} Mon Sep 17 00:00:00 2001",
        f"From: {commit.author.name} <{commit.author.email}>",
        f"Date: {commit.author.at.strftime('%a, %d %b %Y %H:%M:%S %z')}",
        f"Subject: [PATCH] {issue.title}",
        "",
        "---",
    ]
    changes = patch(git, pulls.pull_base(world, repository, pull), pull.head_sha)
    return "\n".join(head) + "\n" + changes + "-- \nlocalhub\n"
