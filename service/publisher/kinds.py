"""Which update becomes which effect: one table."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from service.publisher.assets import publish_assets
from service.publisher.checkpoint import publish_checkpoint, publish_reminder
from service.publisher.comments import publish_report, publish_status
from service.publisher.commit import publish_commit
from service.publisher.publication import Publication
from service.publisher.pull import publish_close, publish_pull_request, publish_ready
from service.publisher.regression import publish_regression
from workers.contracts import (
    AssetsUpdate,
    CheckpointUpdate,
    CloseUpdate,
    CommitUpdate,
    Effect,
    PullRequestUpdate,
    ReadyUpdate,
    RegressionUpdate,
    ReminderUpdate,
    ReportUpdate,
    StatusUpdate,
)

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
    ReportUpdate: publish_report,
}
# What changes a branch or a pull request; for a fork's nothing of it is done, and the report holds the patch.
PUSHES = (CommitUpdate, PullRequestUpdate, ReadyUpdate, CloseUpdate)


def publish(publication: Publication) -> Effect:
    """Make the effect of an update on GitHub, or find it where it was made already."""
    update = publication.claimed.update
    if publication.job.request.read_only and isinstance(update, PUSHES):
        return Effect()
    return KINDS[type(update)](publication, update)
