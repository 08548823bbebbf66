"""The Celery app: JSON messages that carry ids, late acknowledgement, no results. ``celery -A workers.celery_app`` finds it."""

from __future__ import annotations

from celery import Celery

from workers.environment import keep_temporary_folder
from workers.settings import Settings

VISIBILITY_MARGIN_S = 600.0


def make_app(settings: Settings) -> Celery:
    """Build the app for a broker; tasks are sent by name, so that none of them needs to be imported."""
    app = Celery("kernelsmith", broker=settings.broker(), include=["workers.tasks"], set_as_current=False)
    longest_s = max(settings.stage_time_limit_s, settings.gpu_time_limit_s)
    app.conf.update(
        task_serializer="json",
        accept_content=["json"],
        result_backend=None,
        task_ignore_result=True,
        task_default_queue="stages",
        task_acks_late=True,
        task_reject_on_worker_lost=True,
        task_acks_on_failure_or_timeout=True,
        worker_prefetch_multiplier=1,
        worker_hijack_root_logger=False,
        # A message that comes a second time finds its work leased, so a lost connection is no reason to stop working.
        worker_cancel_long_running_tasks_on_connection_loss=False,
        worker_max_tasks_per_child=200,
        broker_connection_retry_on_startup=True,
        broker_connection_max_retries=None,
        broker_transport_options={
            # Redis hands out a message again after this time, which must not happen while its task still runs.
            "visibility_timeout": longest_s + VISIBILITY_MARGIN_S,
            "socket_connect_timeout": 5,
            "socket_keepalive": True,
        },
    )
    return app


keep_temporary_folder()
app = make_app(Settings())
