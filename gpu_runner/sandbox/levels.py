"""Which levels of isolation this host gives, learned by trying and remembered for the life of the process."""

from __future__ import annotations

import logging

from gpu_runner.contracts.envelope import Isolation

LEVELS = (Isolation.process, Isolation.landlock, Isolation.namespaces)

_log = logging.getLogger(__name__)
_refused: dict[Isolation, str] = {}


def worth_trying(level: Isolation) -> bool:
    """Tell whether the host has not refused this level before."""
    return level not in _refused


def refusals() -> dict[Isolation, str]:
    """Give the levels that the host refused, each with the kernel's answer."""
    return dict(_refused)


def remember_failure(status: str) -> Isolation | None:
    """Read what a child said that could not lock itself in; None where that is not why it ended."""
    word, _, rest = status.partition(" ")
    name, _, reason = rest.partition(" ")
    if word != "f" or name not in set(Isolation):
        return None
    level = Isolation(name)
    _refused[level] = reason
    _log.warning("isolation level %s is not available here: %s", level.value, reason)
    return level
