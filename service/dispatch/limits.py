"""What one person may start in a day, and how long one repository may keep GPUs busy."""

from __future__ import annotations

from service.dispatch.hearing import Hearing
from service.report.replies import reply_limit

DAY_S = 24 * 3600.0
RAISED = "once the limit is raised"


def limit_reply(hearing: Hearing) -> str | None:
    """Give the answer to a create beyond the limits; None where it is within them."""
    limits, login = hearing.config.limits, hearing.text.actor.login
    return (
        _jobs(hearing)
        or _gpu(hearing, limits.gpu_minutes_per_day, None, "this repository")
        or _gpu(hearing, limits.gpu_minutes_per_day_per_person, login, "one person")
    )


def _jobs(hearing: Hearing) -> str | None:
    login, now_s = hearing.text.actor.login.lower(), hearing.desk.clock()
    most = hearing.config.limits.jobs_per_day_per_person
    started = hearing.desk.inbox.submitted_since(hearing.text.place.repository, now_s - DAY_S)
    own = sorted(at_s for author, at_s in started if author.lower() == login)
    if len(own) < most:
        return None
    again = _in_words(own[len(own) - most] + DAY_S - now_s) if most else RAISED
    return reply_limit("jobs a day for one person", len(own), most, again)


def _gpu(hearing: Hearing, most: int, author: str | None, whose: str) -> str | None:
    since = hearing.desk.clock() - DAY_S
    used = hearing.desk.inbox.gpu_seconds_since(hearing.text.place.repository, since, author) / 60
    # Without a GPU nothing is ever used up, so a limit of zero minutes stops nobody there.
    if used < most or used == 0:
        return None
    again = "when a day has passed since they were used" if most else RAISED
    return reply_limit(f"GPU minutes a day for {whose}", round(used), most, again)


def _in_words(wait_s: float) -> str:
    minutes = max(1, round(wait_s / 60))
    return f"in {minutes} minutes" if minutes < 120 else f"in {round(minutes / 60)} hours"
