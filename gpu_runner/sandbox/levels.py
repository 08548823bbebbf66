"""Which levels of isolation this host gives, learned by trying and remembered for the life of the process."""

from __future__ import annotations

import logging

from gpu_runner.contracts.envelope import Isolation

LEVELS = (Isolation.process, Isolation.landlock, Isolation.namespaces)

_log = logging.getLogger(__name__)
_refused: dict[tuple[Isolation, bool], str] = {}
_proved: set[tuple[Isolation, ...]] = set()


def worth_trying(level: Isolation, gpu: bool) -> bool:
    """Tell whether the host has not refused this level before, for a child with a GPU or at all."""
    return (level, False) not in _refused and (level, gpu) not in _refused


def refusals(gpu: bool = False) -> dict[Isolation, str]:
    """Give the levels that the host refused, each with the kernel's answer."""
    return {level: reason for (level, with_gpu), reason in _refused.items() if with_gpu in (False, gpu)}


def refused_level(status: str) -> Isolation | None:
    """Read what a child said that could not lock itself in (``f``), or not use its GPU then (``g``); None for another end."""
    word, _, rest = status.partition(" ")
    name = rest.partition(" ")[0]
    return Isolation(name) if word in ("f", "g") and name in set(Isolation) else None


def remember_failure(status: str) -> Isolation | None:
    """Read what a child said, as ``refused_level`` does, and remember it of this host."""
    level = refused_level(status)
    if level is None:
        return None
    word, _, rest = status.partition(" ")
    reason = rest.partition(" ")[2]
    _refused[level, word == "g"] = reason
    _log.warning("isolation level %s is not available here: %s", level.value, reason)
    return level


def gpu_is_proved(levels: tuple[Isolation, ...]) -> bool:
    """Tell whether a child at these levels was seen to reach its GPU."""
    return levels in _proved


def remember_gpu(levels: tuple[Isolation, ...]) -> None:
    """Remember that a child at these levels reached its GPU."""
    _proved.add(levels)
