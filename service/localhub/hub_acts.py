"""The Python API, second part: what people do, each a method that a test or the demo calls in their place."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from service.localhub.actions import checks, issues, merging, pulls, reactions, refs, reviews
from service.localhub.state import Comment, Issue, Review
from service.localhub.world import World


class HubActs:
    """What people do. A person's role is not asked for here: a test says who may, the API and the pages check."""

    world: World

    def open_issue(self, repo: str, by: str, title: str, body: str = "") -> Issue:
        """Open an issue."""
        with self.world.lock:
            return issues.open_issue(self.world, self.world.repository(repo), self.world.actor(by), title, body)

    def open_pull(
        self, repo: str, by: str, head: str, title: str, body: str = "", base: str | None = None, draft: bool = False
    ) -> Issue:
        """Open a pull request from ``branch`` or ``owner:branch``."""
        with self.world.lock:
            repository = self.world.repository(repo)
            target = base or repository.default_branch
            return pulls.open_pull(self.world, repository, self.world.actor(by), title, body, head, target, draft)

    def comment(self, repo: str, number: int, by: str, body: str) -> Comment:
        """Write a comment on an issue or pull request."""
        with self.world.lock:
            repository = self.world.repository(repo)
            issue = self.world.issue(repository, number)
            return issues.add_comment(self.world, repository, issue, self.world.actor(by), body)

    def edit_comment(self, repo: str, comment_id: int, by: str, body: str) -> Comment:
        """Change a comment."""
        with self.world.lock:
            repository = self.world.repository(repo)
            issue, comment = issues.find_comment(repository, comment_id)
            issues.edit_comment(self.world, repository, issue, comment, self.world.actor(by), body)
            return comment

    def delete_comment(self, repo: str, comment_id: int, by: str) -> None:
        """Remove a comment."""
        with self.world.lock:
            repository = self.world.repository(repo)
            issue, comment = issues.find_comment(repository, comment_id)
            issues.delete_comment(self.world, repository, issue, comment, self.world.actor(by))

    def set_issue_state(self, repo: str, number: int, by: str, state: str) -> None:
        """Close or reopen an issue or pull request."""
        with self.world.lock:
            repository = self.world.repository(repo)
            issue = self.world.issue(repository, number)
            issues.set_state(self.world, repository, issue, self.world.actor(by), state)

    def react(self, repo: str, comment_id: int, by: str, content: str) -> None:
        """Leave a reaction on a comment."""
        with self.world.lock:
            _, comment = issues.find_comment(self.world.repository(repo), comment_id)
            reactions.react(self.world, comment.reactions, self.world.actor(by), content)

    def review(
        self,
        repo: str,
        number: int,
        by: str,
        state: str,
        body: str = "",
        comments: Sequence[Mapping[str, Any]] = (),
        commit_id: str | None = None,
    ) -> Review:
        """Review: ``state`` APPROVE, REQUEST_CHANGES or COMMENT; ``comments`` with ``path``, ``line`` and ``body``."""
        with self.world.lock:
            repository = self.world.repository(repo)
            issue = self.world.issue(repository, number)
            actor = self.world.actor(by)
            return reviews.review(self.world, repository, issue, actor, state, body, comments, commit_id)

    def set_draft(self, repo: str, number: int, by: str, draft: bool) -> None:
        """Turn a pull request into a draft, or mark it as ready."""
        with self.world.lock:
            repository = self.world.repository(repo)
            pulls.set_draft(self.world, repository, self.world.issue(repository, number), self.world.actor(by), draft)

    def push(
        self,
        repo: str,
        branch: str,
        by: str,
        changes: Mapping[str, bytes | str | None],
        message: str = "Change files",
        force_from: str | None = None,
    ) -> str:
        """Commit files on a branch (None removes one), and give the commit; ``force_from`` rewrites history from there."""
        content = {path: text.encode() if isinstance(text, str) else text for path, text in changes.items()}
        with self.world.lock:
            repository, actor = self.world.repository(repo), self.world.actor(by)
            return refs.commit_files(self.world, repository, actor, branch, content, message, force_from)

    def delete_branch(self, repo: str, branch: str, by: str) -> None:
        """Delete a branch; a pull request from it is closed."""
        with self.world.lock:
            refs.delete_ref(self.world, self.world.repository(repo), self.world.actor(by), f"refs/heads/{branch}")

    def merge(self, repo: str, number: int, by: str) -> str:
        """Merge a pull request, and give the merge commit."""
        with self.world.lock:
            repository = self.world.repository(repo)
            return merging.merge(self.world, repository, self.world.issue(repository, number), self.world.actor(by))

    def press_check(self, repo: str, check_run_id: int, identifier: str, by: str) -> None:
        """Press a button that the app put on a check run."""
        with self.world.lock:
            repository = self.world.repository(repo)
            run = checks.find_check_run(repository, check_run_id)
            checks.press(self.world, repository, run, identifier, self.world.actor(by))

    def rerequest_check(self, repo: str, check_run_id: int, by: str) -> None:
        """Press the re-run button of a check run."""
        with self.world.lock:
            repository = self.world.repository(repo)
            run = checks.find_check_run(repository, check_run_id)
            checks.rerequest(self.world, repository, run, self.world.actor(by))
