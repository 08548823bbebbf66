"""Deliveries: what was recorded is carried out, and what was missed is asked of GitHub."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Protocol

import structlog

from service.commands.parser import parse_comment
from service.dispatch.desk import Desk
from service.dispatch.events import (
    NOTHING,
    REVIEW_DECISIONS,
    handles,
    read_payload,
    route,
    unheard_comment,
    unheard_review,
)
from service.dispatch.payloads import MalformedPayloadError
from service.github.clients import GitHubClients
from service.github.errors import GitHubError, TransientError, UnauthorizedError
from service.metrics import DELIVERIES, DELIVERY_SECONDS
from service.under_way import UnderWay
from workers.contracts import JobState
from workers.inbox import NewDelivery, trouble_of

FAULT_TRIES = 5  # of a fault of ours, or of a refusal that may be a replica's
TRANSIENT_TRIES = 200  # of outages, GitHub's or the store's, and of rate limits: more than a day
FIRST_PAUSE_S = 2.0
LONGEST_PAUSE_S = 600.0
MOST_DOUBLINGS = 10  # by then a pause is at its longest

log = structlog.get_logger(__name__)


class HandledDelivery(Protocol):
    """A delivery that was claimed."""

    @property
    def delivery_id(self) -> str:
        """GitHub's id."""
        ...

    @property
    def event(self) -> str:
        """The event's name."""
        ...

    @property
    def payload(self) -> bytes:
        """The body."""
        ...

    @property
    def tries(self) -> int:
        """How often it was claimed, this time too: the number of this claim."""
        ...

    @property
    def received_at(self) -> float:
        """When it came, as Unix time."""
        ...

    @property
    def refusals(self) -> int:
        """How often it was refused, or met a fault of the bot's own."""
        ...

    @property
    def outages(self) -> int:
        """How often it met an outage or a rate limit of GitHub's."""
        ...


class DeliveryStore(Protocol):
    """Where deliveries are kept."""

    def claim_delivery(self, worker: str, lease_s: float, under_way: Collection[str]) -> HandledDelivery | None:
        """Take the next delivery that is none of ``under_way``."""
        ...

    def finish_delivery(self, delivery_id: str, outcome: str) -> bool:
        """Mark it as handled."""
        ...

    def give_up_delivery(self, delivery_id: str, tries: int, outcome: str) -> bool:
        """Mark it as one that nobody will handle; False where the claim of that number was lost."""
        ...

    def release_delivery(
        self, delivery_id: str, tries: int, error: str, retry_at: float, *, refused: bool | None
    ) -> bool:
        """Put it back and count why: a refusal, an outage or, with None, neither; False where the claim of that number was lost."""
        ...


@dataclass(frozen=True)
class DeliveryProcessor:
    """Handles deliveries, one a step; steps of several threads share it."""

    store: DeliveryStore
    desk: Desk
    worker: str
    lease_s: float
    _under_way: UnderWay = field(default_factory=UnderWay, init=False)

    def step(self) -> bool:
        """Handle one delivery; False where there is none."""
        with self._under_way.claim(self._take, lambda claimed: claimed.delivery_id) as claimed:
            if claimed is None:
                return False
            self._handle(claimed)
        return True

    def _take(self, under_way: Collection[str]) -> HandledDelivery | None:
        return self.store.claim_delivery(f"{self.worker}/{threading.get_ident()}", self.lease_s, under_way)

    def _handle(self, claimed: HandledDelivery) -> None:
        with structlog.contextvars.bound_contextvars(
            delivery_id=claimed.delivery_id, github_event=claimed.event, tries=claimed.tries
        ):
            outcome = self._settle(claimed)
        DELIVERIES.labels(event=claimed.event, outcome=outcome).inc()
        DELIVERY_SECONDS.observe(max(0.0, self.desk.clock() - claimed.received_at))

    def _settle(self, claimed: HandledDelivery) -> str:
        try:
            outcome = handle(self.desk, claimed.event, claimed.payload)
        except MalformedPayloadError as error:
            log.error("delivery_malformed", error=str(error))
            self.store.finish_delivery(claimed.delivery_id, f"malformed: {error}")
            return "malformed"
        except UnauthorizedError as error:
            # The operator has to act, however long that takes: it says nothing of this delivery, nor of GitHub.
            return self._again(claimed, error, error.retry_after_s, refused=None)
        except TransientError as error:
            return self._again(claimed, error, error.retry_after_s, refused=False)
        except GitHubError as error:
            return self._again(claimed, error, 0.0, refused=True)
        # The boundary of deliveries: what a payload meets in our own code may be any fault, and must not stop the others.
        except Exception as error:
            trouble = trouble_of(error)
            if trouble is not None:
                log.error("store_unusable", error=trouble.detail, fix=trouble.fix)
                return self._again(claimed, error, 0.0, refused=False)
            log.exception("delivery_fault")
            return self._again(claimed, error, 0.0, refused=True)
        self.store.finish_delivery(claimed.delivery_id, outcome)
        log.info("delivery_handled", outcome=outcome)
        return "handled"

    def _again(self, claimed: HandledDelivery, error: Exception, retry_after_s: float, *, refused: bool | None) -> str:
        text = f"{type(error).__name__}: {error}"
        # Each kind against its own limit: one refusal after a night of outages, or after kills, is still the first one.
        count, most = (claimed.refusals, FAULT_TRIES) if refused else (claimed.outages, TRANSIENT_TRIES)
        if refused is None:
            count = claimed.tries
        elif count + 1 >= most:
            if not self.store.give_up_delivery(claimed.delivery_id, claimed.tries, f"error: {text}"):
                return _lost(text)
            log.error("delivery_given_up", error=text, fix="have the command given again")
            return "error"
        pause_s = max(retry_after_s, min(FIRST_PAUSE_S * 2.0 ** min(count, MOST_DOUBLINGS), LONGEST_PAUSE_S))
        retry_at = self.desk.clock() + pause_s
        if not self.store.release_delivery(claimed.delivery_id, claimed.tries, text, retry_at, refused=refused):
            return _lost(text)
        log.warning("delivery_postponed", error=text, pause_s=pause_s)
        return "postponed"


def _lost(text: str) -> str:
    log.warning("delivery_lost", error=text, reason="its lease ran out, and another worker has taken it")
    return "lost"


def handle(desk: Desk, event: str, body: bytes) -> str:
    """Handle one payload; give what came of it in a few words.

    Raises:
        MalformedPayloadError: it is not what GitHub documents.
    """
    payload = read_payload(body)
    handler = route(event, str(payload.get("action") or ""))
    return NOTHING if handler is None else handler(desk, payload)


FIRST_LOOK_BACK = timedelta(days=1)  # at the start: the service may have been down
LOOK_BACK = timedelta(hours=1)
LONGEST_LOOK_BACK = timedelta(days=3)  # GitHub keeps deliveries as long, and handled ones are remembered for longer


def look_back(now: datetime, looked_at: datetime | None) -> timedelta:
    """How far to look back: beyond the last look that was answered, however long GitHub was out of reach since. Pure."""
    return FIRST_LOOK_BACK if looked_at is None else min(now - looked_at + LOOK_BACK, LONGEST_LOOK_BACK)


class Missed:
    """Has GitHub deliver again what did not arrive since the last look that it answered."""

    def __init__(self, clients: GitHubClients) -> None:
        self._clients = clients
        self._looked_at: datetime | None = None

    def step(self) -> bool:
        """Look once; there is never more to do at once."""
        now = self._clients.clock.now()
        try:
            count = self._clients.ask_for_missed(look_back(now, self._looked_at), handles)
        except GitHubError as error:
            log.warning("missed_deliveries_unknown", error=str(error))
            return False
        self._looked_at = now
        if count:
            log.warning("deliveries_were_missed", count=count)
        return False


UNDERWAY = timedelta(minutes=2)  # the delivery of what is younger may be on its way
SEEN = "eyes"
NEVER = "9999-01-01T00:00:00+00:00"  # a review that is written and not submitted yet


@dataclass
class Unheard:
    """Reads what was written in the repositories that are watched, and keeps what nobody has seen as if it had been delivered."""

    desk: Desk
    repositories: Callable[[], tuple[tuple[str, int | None], ...]]  # with the App's installation, where it is known
    record: Callable[[Iterable[NewDelivery]], Sequence[bool]]
    wake: Callable[[], None]
    _looked_at: dict[str, datetime] = field(default_factory=dict)  # by repository
    # Pull requests whose reviews were read, by repository and number, each with when it was updated last.
    _read: dict[str, dict[int, str]] = field(default_factory=dict)

    def step(self) -> bool:
        """Look once; there is never more to do at once."""
        missed = 0
        for repository, installation_id in self.repositories():
            try:
                missed += self._look(repository, installation_id)
            except GitHubError as error:
                # One that cannot be read, such as a private one that was taken away, must not hide the others.
                log.warning("comments_not_read", repository=repository, error=str(error))
        if missed:
            log.warning("comments_were_missed", count=missed, fix="see the webhook's recent deliveries at GitHub")
            self.wake()
        return False

    def _look(self, repository: str, installation_id: int | None) -> int:
        github, bot = self.desk.client(repository, installation_id), self.desk.clients.bot_login()
        now = self.desk.clients.clock.now()
        count = 0
        since = now - look_back(now, self._looked_at.get(repository))
        for comment in github.conversation.written_since(since):
            written = datetime.fromisoformat(str(comment["updated_at"]))
            if written > now - UNDERWAY or not _holds_command(comment, bot, self.desk.html_host):
                continue
            comment_id = int(comment["id"])
            name = unheard_comment(comment_id, written)
            last, heard = self.desk.inbox.last_delivery(unheard_comment(comment_id)) or ("", b"")
            if last == name or (not last and bot in github.conversation.who_reacted(comment_id, SEEN)):
                continue
            issue = github.conversation.issue(int(str(comment["issue_url"]).rpartition("/")[2]))
            payload = {"action": "created", "comment": comment, "issue": issue, "sender": comment["user"]}
            if last:
                payload |= {"action": "edited", "changes": {"body": {"from": json.loads(heard)["comment"]["body"]}}}
            count += self._keep(repository, installation_id, name, "issue_comment", payload)
        waits = {
            job.pull_number: job.checkpoint.sha
            for job in self.desk.inbox.find_jobs(repository, active=True)
            if job.state is JobState.waiting and job.checkpoint is not None and job.pull_number is not None
        }
        updated = github.conversation.updated_since(since)
        for issue in updated:
            if since <= datetime.fromisoformat(str(issue["created_at"])) <= now - UNDERWAY:
                count += self._look_at_opening(repository, installation_id, issue)
        pulls = {issue["number"]: str(issue["updated_at"]) for issue in updated if issue.get("pull_request")}
        read = self._read.get(repository, {})
        # A review updates its pull request: where nothing is new, all of its reviews are known.
        for number in {number for number, at in pulls.items() if read.get(number) != at} | waits.keys():
            count += self._look_at_reviews(repository, installation_id, number, waits.get(number), since)
        self._read[repository] = {
            number: at for number, at in pulls.items() if datetime.fromisoformat(at) <= now - UNDERWAY
        }
        self._looked_at[repository] = now
        return count

    def _look_at_opening(self, repository: str, installation_id: int | None, issue: dict[str, Any]) -> bool:
        """Keep the body of an issue or a pull request that holds a command."""
        github, bot, number = (
            self.desk.client(repository, installation_id),
            self.desk.clients.bot_login(),
            issue["number"],
        )
        if not _holds_command(issue, bot, self.desk.html_host):
            return False
        if bot in github.conversation.who_reacted_to_issue(number, SEEN):
            return False
        event, name, item = "issues", "issue", issue
        if issue.get("pull_request"):
            event = name = "pull_request"
            item = github.pulls.as_is(number)
        payload = {"action": "opened", name: item, "sender": issue["user"]}
        return self._keep(repository, installation_id, f"unheard-body-{issue['id']}", event, payload)

    def _look_at_reviews(
        self, repository: str, installation_id: int | None, number: int, sha: str | None, since: datetime
    ) -> int:
        """Keep the reviews that decide at a checkpoint which still waits, however old, and those with a command."""
        github, before = self.desk.client(repository, installation_id), self.desk.clients.clock.now() - UNDERWAY
        bot, count = self.desk.clients.bot_login(), 0
        for review in github.pulls.reviews(number):
            written = datetime.fromisoformat(str(review["submitted_at"] or NEVER))
            decides = review["commit_id"] == sha and str(review["state"]).lower() in REVIEW_DECISIONS
            asks = written >= since and _holds_command(review, bot, self.desk.html_host)
            if (decides or asks) and written <= before:
                pull = github.pulls.as_is(number)
                payload = {"action": "submitted", "review": review, "pull_request": pull, "sender": review["user"]}
                name = unheard_review(review["id"])
                count += self._keep(repository, installation_id, name, "pull_request_review", payload)
        return count

    def _keep(
        self, repository: str, installation_id: int | None, name: str, event: str, payload: dict[str, Any]
    ) -> bool:
        payload["repository"] = {"full_name": repository}
        if installation_id is not None:
            payload["installation"] = {"id": installation_id}
        return any(self.record([NewDelivery(name, event, json.dumps(payload).encode())]))


def _holds_command(written: dict[str, Any], bot: str, host: str) -> bool:
    user = written.get("user") or {}
    if user.get("login") == bot or user.get("type") != "User":
        return False
    parsed = parse_comment(str(written.get("body") or ""), host=host)
    return bool(parsed.commands or parsed.errors)
