"""Pull requests: find, open, edit, ask for reviews, read what a review said on its lines."""

from __future__ import annotations

from github.PullRequest import PullRequest
from github.PullRequestComment import PullRequestComment

from service.github.conversation import login_of
from service.github.records import PullInfo
from service.github.session import RepositoryCalls
from workers.contracts import LineComment

MAX_REVIEW_COMMENTS = 200


class Pulls(RepositoryCalls):
    """Pull requests of one repository."""

    def get(self, number: int) -> PullInfo:
        """Give a pull request."""
        return self._call(lambda: _info(self._repository.get_pull(number)))

    def find(self, branch: str) -> PullInfo | None:
        """Give the newest pull request, open or not, whose head is a branch of this repository; None where there is none."""
        owner = self.full_name.partition("/")[0]
        found = self._listed(
            lambda: self._repository.get_pulls(state="all", head=f"{owner}:{branch}", sort="created", direction="desc"),
            10,
        )
        # GitHub ignores a head filter that it does not understand, and then lists every pull request.
        return next((info for info in map(_info, found) if info.head_branch == branch), None)

    def create(self, title: str, body: str, head: str, base: str, *, draft: bool = True) -> PullInfo:
        """Open a pull request."""
        return self._call(
            lambda: _info(self._repository.create_pull(title=title, body=body, head=head, base=base, draft=draft))
        )

    def edit(self, number: int, body: str, title: str) -> None:
        """Replace a pull request's body and title."""
        self._call(lambda: self._repository.get_pull(number).edit(body=body, title=title))

    def close(self, number: int) -> None:
        """Close a pull request without merging it."""
        self._call(lambda: self._repository.get_pull(number).edit(state="closed"))

    def request_review(self, number: int, login: str) -> None:
        """Ask a person for a review."""
        self._call(lambda: self._repository.get_pull(number).create_review_request(reviewers=[login]))

    def mark_ready(self, number: int) -> None:
        """Take a pull request out of draft; nothing happens where it is none."""

        def mark() -> None:
            found = self._repository.get_pull(number)
            if found.draft:
                found.mark_ready_for_review()

        self._call(mark)

    def review_comments(self, number: int, review_id: int) -> tuple[LineComment, ...]:
        """Give what a review said on lines, at most 200 comments."""
        pull = self._repository.get_pull(number)
        found = self._listed(lambda: pull.get_single_review_comments(review_id), MAX_REVIEW_COMMENTS)
        return self._call(lambda: tuple(_line_comment(comment) for comment in found))


def _line_comment(comment: PullRequestComment) -> LineComment:
    # GitHub's list of one review leaves ``line`` out; PyGithub then reads the comment by itself.
    line = comment.line if comment.line is not None else comment.original_line
    return LineComment(comment.path, line, comment.body or "")


def _info(found: PullRequest) -> PullInfo:
    pushed_at = found.head.repo.pushed_at if found.head.repo is not None else None
    return PullInfo(
        number=found.number,
        title=found.title,
        body=found.body or "",
        author=login_of(found.user),
        state=found.state,
        draft=bool(found.draft),
        head_branch=found.head.ref,
        head_sha=found.head.sha,
        head_repository=found.head.repo.full_name if found.head.repo is not None else None,
        base_branch=found.base.ref,
        html_url=found.html_url,
        head_pushed_at=pushed_at.isoformat() if pushed_at is not None else None,
    )
