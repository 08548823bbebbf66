"""What is at work: GPU hosts, their queues, and jobs that have not ended. Times are seconds since the epoch."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class GpuHost:
    """A host that took GPU requests in the last days. ``lost`` counts requests that it took and no longer answers for."""

    host: str
    queues: tuple[str, ...]
    running: int
    lost: int
    last_seen_at_s: float


@dataclass(frozen=True)
class GpuQueue:
    """How many requests of an architecture wait for a host, and run on one."""

    architecture: str
    waiting: int
    running: int


@dataclass(frozen=True)
class ActiveJob:
    """A job that has not ended."""

    job_id: str
    verb: str
    kernel: str
    repository: str
    state: str
    created_at_s: float
    updated_at_s: float


@dataclass(frozen=True)
class Operation:
    """What an operator looks at first; ``jobs`` are the newest of ``active_jobs``."""

    hosts: tuple[GpuHost, ...]
    queues: tuple[GpuQueue, ...]
    jobs: tuple[ActiveJob, ...]
    active_jobs: int
