"""The command triaged: a person accepts what a night found."""

from __future__ import annotations

from service.commands import Command
from service.dispatch.hearing import Hearing
from service.report.layout import Kind, find_marker
from service.report.nightly import reply_no_regression, reply_nothing_to_triage, reply_triaged


def triaged(hearing: Hearing, command: Command) -> str:
    """Make what is measured now the base of the issue's series, and close the issue; give the answer."""
    marker = find_marker(hearing.text.issue_body)
    if marker is None or marker.kind is not Kind.regression or marker.key is None:
        return reply_no_regression()
    place = hearing.text.place
    reason = f"{hearing.text.actor.login}: {command.text}"
    count = hearing.desk.inbox.triage(place.repository, marker.key, reason)
    if count == 0:
        return reply_nothing_to_triage()
    hearing.github.issues.close(place.number)
    return reply_triaged(count)
