"""The product's Celery app with the fake pipeline, for workers that tests start."""

from __future__ import annotations

from tests.workers.engine.fakes import RUNNER, fake_stages
from workers import runtime
from workers.celery_app import app
from workers.settings import Settings

_stages = fake_stages()
_runtime = runtime.build(Settings())
_runtime.stages = lambda: _stages
_runtime.runner_command = RUNNER
runtime.install(_runtime)

__all__ = ["app"]
