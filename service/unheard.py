"""Comments with commands that no delivery brought, found by reading: the only way with a plain token, whose hook has no log."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import structlog

from service.commands import parse_comment
from service.dispatch.desk import Desk
from service.github import GitHubError
from workers.inbox import NewDelivery

FIRST_LOOK_BACK = timedelta(days=1)  # at the start: the service may have been down
LOOK_BACK = timedelta(hours=1)
UNDERWAY = timedelta(minutes=2)  # the delivery of what is younger may be on its way
SEEN = "eyes"

log = structlog.get_logger(__name__)


@dataclass
class Unheard:
    """Reads what was written in the repositories that are watched, and keeps what nobody has seen as if it had been delivered."""

    desk: Desk
    repositories: Callable[[], tuple[tuple[str, int | None], ...]]  # with the App's installation, where it is known
    record: Callable[[Sequence[NewDelivery]], Sequence[bool]]
    wake: Callable[[], None]
    clock: Callable[[], datetime] = lambda: datetime.now(UTC)
    look_back: timedelta = FIRST_LOOK_BACK

    def step(self) -> bool:
        """Look once; there is never more to do at once."""
        found, complete = 0, True
        for repository, installation_id in self.repositories():
            try:
                found += self._look(repository, installation_id)
            except GitHubError as error:
                # One that cannot be read, such as a private one that was taken away, must not hide the others.
                log.warning("comments_not_read", repository=repository, error=str(error))
                complete = False
        if complete:
            self.look_back = LOOK_BACK
        if found:
            log.warning("comments_were_missed", count=found, cure="see the webhook's recent deliveries at GitHub")
            self.wake()
        return False

    def _look(self, repository: str, installation_id: int | None) -> int:
        github, now, bot = self.desk.client(repository, installation_id), self.clock(), self.desk.clients.bot_login()
        count = 0
        for comment in github.conversation.written_since(now - self.look_back):
            written = datetime.fromisoformat(str(comment["updated_at"]))
            if written > now - UNDERWAY or not _holds_command(comment, bot, self.desk.html_host):
                continue
            if bot in github.conversation.who_reacted(int(comment["id"]), SEEN):
                continue
            issue = github.conversation.issue(int(str(comment["issue_url"]).rpartition("/")[2]))
            count += self._keep(repository, installation_id, comment, issue)
        return count

    def _keep(
        self, repository: str, installation_id: int | None, comment: dict[str, Any], issue: dict[str, Any]
    ) -> bool:
        payload: dict[str, Any] = {
            "action": "created",
            "comment": comment,
            "issue": issue,
            "repository": {"full_name": repository},
            "sender": comment["user"],
        }
        if installation_id is not None:
            payload["installation"] = {"id": installation_id}
        moment = datetime.fromisoformat(str(comment["updated_at"]))
        name = f"unheard-{comment['id']}-{moment:%Y%m%d%H%M%S}"
        return any(self.record([NewDelivery(name, "issue_comment", json.dumps(payload).encode())]))


def _holds_command(comment: dict[str, Any], bot: str, host: str) -> bool:
    user = comment.get("user") or {}
    if user.get("login") == bot or user.get("type") != "User":
        return False
    found = parse_comment(str(comment.get("body") or ""), host=host)
    return bool(found.commands or found.errors)
