"""What one person may start in a day."""

from __future__ import annotations

from service.conversation import reply_limit
from service.dispatch.hearing import Hearing

DAY_S = 24 * 3600.0


def limit_reply(hearing: Hearing) -> str | None:
    """Give the answer to a create beyond the limits; None where it is within them."""
    desk, login = hearing.desk, hearing.text.actor.login.lower()
    most = hearing.config.limits.jobs_per_day_per_person
    now_s = desk.clock()
    started = desk.inbox.submitted_since(hearing.text.place.repository, now_s - DAY_S)
    own = sorted(at_s for author, at_s in started if author.lower() == login)
    if len(own) < most:
        return None
    wait_s = own[len(own) - most] + DAY_S - now_s if most else None
    again = "once the limit is raised" if wait_s is None else _in_words(wait_s)
    return reply_limit("jobs a day for one person", len(own), most, again)


def _in_words(wait_s: float) -> str:
    minutes = max(1, round(wait_s / 60))
    return f"in {minutes} minutes" if minutes < 120 else f"in {round(minutes / 60)} hours"
