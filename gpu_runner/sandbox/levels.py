"""Which levels of isolation this host gives, learned by trying and remembered for the life of the process."""

from __future__ import annotations

import logging

from gpu_runner.contracts.envelope import Isolation
from gpu_runner.settings import REQUIRE_ISOLATION

LEVELS = (Isolation.process, Isolation.landlock, Isolation.namespaces)
APART = frozenset({Isolation.landlock, Isolation.namespaces})  # either keeps a child from this user's files
FIXES = {
    Isolation.process: "The environment of a child is not its own; report this as a fault of the runner.",
    Isolation.landlock: "Use a kernel with Landlock (5.13, better 6.12 or newer) and `landlock` among the boot parameter `lsm`.",
    Isolation.namespaces: "Allow user namespaces: sysctl user.max_user_namespaces above 0, and where AppArmor restricts them,"
    " kernel.apparmor_restrict_unprivileged_userns=0; in a container, mount and unshare must be allowed.",
}

_log = logging.getLogger(__name__)
_refused: dict[tuple[Isolation, bool], str] = {}
_proved: set[tuple[Isolation, ...]] = set()


def shortfall(required: tuple[Isolation, ...], levels: tuple[Isolation, ...], gpu: bool) -> str | None:
    """Why a child may not run at these levels, and the fix; None where it may.

    Where nothing is required, one of the levels that isolate a child is. To run without them, require ``process``.
    """
    missing = [level for level in required if level not in levels]
    if missing:
        return f"this host cannot give the level {missing[0]} that is required{_because(missing[0], gpu)}. {FIXES[missing[0]]}"
    if required or APART & set(levels):
        return None
    return (
        f"this host gives neither landlock{_because(Isolation.landlock, gpu)} nor namespaces{_because(Isolation.namespaces, gpu)}: "
        "untrusted code could read the files of this user and reach the network. "
        f"{FIXES[Isolation.landlock]} Or: {FIXES[Isolation.namespaces]} "
        f"Where no code of others is run, {REQUIRE_ISOLATION}='[\"process\"]' accepts it."
    )


def _because(level: Isolation, gpu: bool) -> str:
    reason = refusals(gpu).get(level)
    return f" ({reason})" if reason else ""


def worth_trying(level: Isolation, gpu: bool) -> bool:
    """Whether this host has not refused the level before, for a child with a GPU or at all."""
    return (level, False) not in _refused and (level, gpu) not in _refused


def refusals(gpu: bool = False) -> dict[Isolation, str]:
    """Levels that the host refused, each with the kernel's error."""
    return {level: reason for (level, with_gpu), reason in _refused.items() if with_gpu in (False, gpu)}


def refused_level(status: str) -> Isolation | None:
    """The level that a child could not enter (``f``), or not use its GPU at (``g``); None for another end."""
    word, _, rest = status.partition(" ")
    name = rest.partition(" ")[0]
    return Isolation(name) if word in ("f", "g") and name in set(Isolation) else None


def remember_failure(status: str) -> Isolation | None:
    """As ``refused_level``, and remembered for this host."""
    level = refused_level(status)
    if level is None:
        return None
    word, _, rest = status.partition(" ")
    reason = rest.partition(" ")[2]
    _refused[level, word == "g"] = reason
    _log.warning("isolation level %s is not available here: %s", level.value, reason)
    return level


def gpu_is_proved(levels: tuple[Isolation, ...]) -> bool:
    """Whether a child at these levels was seen to use its GPU."""
    return levels in _proved


def remember_gpu(levels: tuple[Isolation, ...]) -> None:
    """Remember that a child at these levels reached its GPU."""
    _proved.add(levels)
