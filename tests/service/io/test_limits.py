"""Limits: what is used up, and when it may be asked again."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from service.dispatch.context import CommandContext
from service.dispatch.starting import limit_reply
from service.repo_config import LimitsConfig, RepoConfig

NOW_S = 1_000_000.0


def context(
    jobs: tuple[tuple[str, float], ...] = (),
    gpu_s: float = 0.0,
    limits: LimitsConfig | None = None,
    own_gpu_s: float = 0.0,
) -> CommandContext:
    def gpu_seconds_since(_repository: str, _since: float, author: str | None) -> float:
        return gpu_s if author is None else own_gpu_s

    inbox = SimpleNamespace(submitted_since=lambda *_: jobs, gpu_seconds_since=gpu_seconds_since)
    made: Any = SimpleNamespace(
        desk=SimpleNamespace(inbox=inbox, clock=lambda: NOW_S),
        text=SimpleNamespace(actor=SimpleNamespace(login="Octocat"), place=SimpleNamespace(repository="o/r")),
        config=RepoConfig(limits=limits or LimitsConfig()),
    )
    return cast("CommandContext", made)


def test_within_the_limits_nothing_is_said() -> None:
    assert limit_reply(context((("octocat", NOW_S - 5),), 60.0)) is None


def test_jobs_of_other_people_do_not_count() -> None:
    assert limit_reply(context((("second", NOW_S),), limits=LimitsConfig(jobs_per_day_per_person=1))) is None


@pytest.mark.parametrize(("ago_s", "expected"), [(23 * 3600 + 1800, "in 30 minutes"), (3600, "in 23 hours")])
def test_it_says_when_the_oldest_job_is_a_day_old(ago_s: float, expected: str) -> None:
    jobs = (("octocat", NOW_S - ago_s), ("OCTOCAT", NOW_S))
    text = limit_reply(context(jobs, limits=LimitsConfig(jobs_per_day_per_person=2)))
    assert text is not None
    assert expected in text


def test_no_jobs_at_all_is_a_limit_too() -> None:
    text = limit_reply(context(limits=LimitsConfig(jobs_per_day_per_person=0)))
    assert text is not None
    assert "once the limit is raised" in text


def test_gpu_minutes_are_counted_for_the_repository() -> None:
    text = limit_reply(context(gpu_s=240 * 60.0))
    assert text is not None
    assert "240 of 240" in text
    assert limit_reply(context(limits=LimitsConfig(gpu_minutes_per_day=0))) is None


def test_gpu_minutes_of_one_person_are_counted_by_themselves() -> None:
    limits = LimitsConfig(gpu_minutes_per_day_per_person=10)
    assert limit_reply(context(gpu_s=12 * 60.0, own_gpu_s=9 * 60.0, limits=limits)) is None
    text = limit_reply(context(gpu_s=12 * 60.0, own_gpu_s=10 * 60.0, limits=limits))
    assert text is not None
    assert "10 of 10 GPU minutes a day for one person" in text
