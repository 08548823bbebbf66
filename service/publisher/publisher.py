"""The publisher: takes an update from the outbox and has its one effect."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Any, Protocol

import structlog

from service.addresses import Addresses
from service.github.clients import GitHubClients
from service.github.credentials import CredentialPurpose
from service.github.errors import ForbiddenError, GitHubError, MissingError, TransientError
from service.metrics import PUBLISH_SECONDS, UPDATES
from service.publisher.comments import (
    publish_checkpoint,
    publish_digest,
    publish_regression,
    publish_reminder,
    publish_report,
    publish_status,
)
from service.publisher.commits import publish_assets, publish_close, publish_commit, publish_pull_request, publish_ready
from service.publisher.publication import GiveUpError, Publication
from service.under_way import UnderWay
from workers.contracts import (
    AssetsUpdate,
    CheckpointUpdate,
    ClaimedUpdate,
    CloseUpdate,
    CommitUpdate,
    DigestUpdate,
    Effect,
    Failure,
    FailureCode,
    PullRequestUpdate,
    ReadyUpdate,
    RegressionUpdate,
    ReminderUpdate,
    ReportUpdate,
    StatusUpdate,
)
from workers.inbox import trouble_of

KINDS: dict[type, Callable[[Publication, Any], Effect]] = {
    StatusUpdate: publish_status,
    CommitUpdate: publish_commit,
    PullRequestUpdate: publish_pull_request,
    AssetsUpdate: publish_assets,
    CheckpointUpdate: publish_checkpoint,
    ReminderUpdate: publish_reminder,
    ReadyUpdate: publish_ready,
    CloseUpdate: publish_close,
    RegressionUpdate: publish_regression,
    DigestUpdate: publish_digest,
    ReportUpdate: publish_report,
}
# Without these a job ends all the same: its report holds what they would have told.
SPARED = (StatusUpdate, RegressionUpdate, DigestUpdate)
# What changes a branch or a pull request; for a fork's nothing of it is done, and the report holds the patch.
PUSHES = (CommitUpdate, PullRequestUpdate, ReadyUpdate, CloseUpdate)


def publish(publication: Publication) -> Effect:
    """Make the effect of an update on GitHub, or find it where it was made already."""
    update = publication.claimed.update
    if publication.job.request.read_only and isinstance(update, PUSHES):
        return Effect()
    return KINDS[type(update)](publication, update)


UNSURE_TRIES = 5  # of what may be GitHub's replicas that lag behind, or a fault of ours
LONGEST_PAUSE_S = 600.0
MOST_DOUBLINGS = 10  # by then a pause is at its longest, and an outage of days must not overflow it
LEASE_SHARE = 0.7  # of the lease, after which no further request is begun

log = structlog.get_logger(__name__)


class Outbox(Protocol):
    """The production's outbox."""

    def claim(self, worker: str, lease_s: float, *, under_way: Collection[str]) -> ClaimedUpdate | None:
        """Take the next update that is none of ``under_way``."""
        ...

    def complete(self, update_id: str, worker: str, effect: Effect) -> bool:
        """Keep what publishing did."""
        ...

    def postpone(self, update_id: str, worker: str, error: str, retry_after_s: float, *, refused: bool) -> bool:
        """Put an update back for a while, and count why."""
        ...

    def give_up(self, update_id: str, worker: str, failure: Failure) -> bool:
        """Fail the job because an update cannot be published."""
        ...


@dataclass(frozen=True)
class Publisher:
    """Publishes updates, one a step; steps of several threads share it."""

    outbox: Outbox
    clients: GitHubClients
    addresses: Addresses
    artifact: Callable[[str], bytes]
    worker: str
    lease_s: float
    _under_way: UnderWay = field(default_factory=UnderWay, init=False)

    def step(self) -> bool:
        """Publish one update; False where there is none."""
        with self._under_way.claim(self._take, lambda claimed: claimed.update_id) as claimed:
            if claimed is None:
                return False
            self._publish(claimed)
        return True

    def _take(self, under_way: Collection[str]) -> ClaimedUpdate | None:
        return self.outbox.claim(self._name(), self.lease_s, under_way=under_way)

    def _publish(self, claimed: ClaimedUpdate) -> None:
        kind = type(claimed.update).__name__
        with structlog.contextvars.bound_contextvars(
            update_id=claimed.update_id, job_id=claimed.job.job_id, kind=kind, tries=claimed.tries
        ):
            started_s = time.monotonic()
            outcome = self._settle(claimed)
            UPDATES.labels(kind=kind, outcome=outcome).inc()
            PUBLISH_SECONDS.labels(kind=kind).observe(time.monotonic() - started_s)

    def _name(self) -> str:
        # A lease belongs to one thread, or a slow one could complete what another has taken over.
        return f"{self.worker}/{threading.get_ident()}"

    def _settle(self, claimed: ClaimedUpdate) -> str:
        try:
            effect = self._effect(claimed)
        except GiveUpError as error:
            return self._give_up(claimed, error.failure)
        except TransientError as error:
            return self._postpone(claimed, error, error.retry_after_s, refused=False)
        except GitHubError as error:
            return self._refused(claimed, error)
        # The boundary of the publisher: a fault of our own, while an update is worded or written, must not stop the others.
        except Exception as error:
            trouble = trouble_of(error)
            if trouble is not None:
                log.error("store_unusable", error=trouble.detail, fix=trouble.fix)
                return self._postpone(claimed, error, 0.0, refused=False)
            log.exception("publish_fault")
            if claimed.refusals + 1 < UNSURE_TRIES:
                return self._postpone(claimed, error, 0.0, refused=True)
            return self._give_up(claimed, _internal(error))
        held = self.outbox.complete(claimed.update_id, self._name(), effect)
        log.info("published", held=held)
        return "published" if held else "lease_lost"

    def _effect(self, claimed: ClaimedUpdate) -> Effect:
        origin = claimed.job.request.origin
        deadline_s = time.monotonic() + self.lease_s * LEASE_SHARE
        client = self.clients.client(origin.repository, origin.installation_id, CredentialPurpose.publish, deadline_s)
        publication = Publication(claimed, client, self.addresses, self.clients.bot_login(), self.artifact)
        return publish(publication)

    def _refused(self, claimed: ClaimedUpdate, error: GitHubError) -> str:
        # Replicas may not know yet what was made a moment ago, so a refusal has to repeat itself before it is believed.
        if claimed.refusals + 1 < UNSURE_TRIES and not isinstance(error, ForbiddenError):
            return self._postpone(claimed, error, 0.0, refused=True)
        if isinstance(claimed.update, SPARED):
            log.warning("update_skipped", error=str(error), fix=_failure_of(error).fix)
            self.outbox.complete(claimed.update_id, self._name(), Effect(skipped=True))
            return "skipped"
        return self._give_up(claimed, _failure_of(error))

    def _postpone(self, claimed: ClaimedUpdate, error: Exception, retry_after_s: float, *, refused: bool) -> str:
        # Each kind for itself: one refusal after a night of outages is still the first one.
        count = claimed.refusals if refused else claimed.outages
        pause_s = max(retry_after_s, min(2.0 ** min(count, MOST_DOUBLINGS), LONGEST_PAUSE_S))
        log.warning("publish_postponed", error=str(error), pause_s=pause_s)
        text = f"{type(error).__name__}: {error}"
        self.outbox.postpone(claimed.update_id, self._name(), text, pause_s, refused=refused)
        return "postponed"

    def _give_up(self, claimed: ClaimedUpdate, failure: Failure) -> str:
        # That a person changed the branch meanwhile is told to the people; no operator has to look.
        say = log.warning if failure.code is FailureCode.moved else log.error
        say("publish_given_up", code=failure.code.value, message=failure.message, details=failure.log)
        self.outbox.give_up(claimed.update_id, self._name(), failure)
        return "given_up"


def _failure_of(error: GitHubError) -> Failure:
    if isinstance(error, ForbiddenError):
        fix = "Give the bot the permissions that its installation guide lists, then use `/kernel retry`."
        return Failure(FailureCode.forbidden, "GitHub did not allow the bot to do this", fix, log=str(error))
    if isinstance(error, MissingError):
        message = "GitHub does not show the bot something that the job needs; it may have been deleted"
    else:
        message = "GitHub refused what the bot wanted to write"
    return Failure(FailureCode.environment, message, "See what GitHub said, then use `/kernel retry`.", log=str(error))


def _internal(error: Exception) -> Failure:
    return Failure(
        FailureCode.internal,
        "the bot met a fault of its own while it published a result",
        "Use `/kernel retry`; if it happens again, the service's log has the details.",
        log=type(error).__name__,
    )
