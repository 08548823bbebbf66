"""One update that is being published: what every kind of it needs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from urllib.parse import quote

from service.addresses import Addresses
from service.github.client import GitHubClient
from service.github.records import CommentInfo
from service.report.layout import Links, Marker, find_marker
from workers.contracts import ClaimedUpdate, Failure, Image, JobView

# By which this machine's clock may have been ahead of GitHub's when a job began: what the bot wrote since is looked for, so that
# a clock that jumped a day and was put back must not hide it.
CLOCK_SKEW = timedelta(days=3)


class GiveUpError(Exception):
    """An update that can never be published; the job ends with the failure."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.message)
        self.failure = failure


@dataclass(frozen=True)
class Publication:
    """A claimed update with what is needed to publish it."""

    claimed: ClaimedUpdate
    github: GitHubClient
    addresses: Addresses
    bot_login: str
    artifact: Callable[[str], bytes]

    @property
    def job(self) -> JobView:
        """The job."""
        return self.claimed.job

    @property
    def update_id(self) -> str:
        """What makes the update unique."""
        return self.claimed.update_id

    @property
    def conversation(self) -> int:
        """The number under which the job is talked about: its pull request, or the issue where there is none yet."""
        return self.job.pull_number or self.job.request.origin.number

    def links(self) -> Links:
        """The addresses that the bot's texts point to."""
        return self.addresses.links(self.job.job_id, self.job.request.origin.repository, self.bot_login)

    def image_urls(self, images: tuple[Image, ...]) -> dict[str, str]:
        """Where images can be seen, by name; empty before they were published."""
        root = next((effect.url_root for effect in reversed(self.claimed.effects) if effect.url_root), None)
        return {} if root is None else {image.name: f"{root}/{quote(image.name)}" for image in images}

    def own_comments(self, number: int) -> list[tuple[Marker, CommentInfo]]:
        """The bot's own comments about the job in a conversation, oldest first."""
        since = datetime.fromisoformat(self.job.created_at) - CLOCK_SKEW
        own = []
        for comment in self.github.conversation.comments(number, since):
            marker = find_marker(comment.body) if comment.author == self.bot_login else None
            if marker is not None and marker.job_id == self.job.job_id:
                own.append((marker, comment))
        return own
