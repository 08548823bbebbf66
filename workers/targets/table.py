"""The closed vocabulary of targets."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from typing import TypeVar

from workers.contracts import Failure, FailureCode, UserFacingError
from workers.targets.ascend import ASCEND
from workers.targets.backend import DEFAULT
from workers.targets.liger_cutedsl import CUTEDSL
from workers.targets.liger_cutile import CUTILE
from workers.targets.protocol import PortOrigin, PortTarget
from workers.targets.rocm import ROCM
from workers.targets.xpu import XPU

T = TypeVar("T")
TARGETS: dict[str, PortTarget] = {target.name: target for target in (ASCEND, CUTILE, CUTEDSL, ROCM, XPU)}
ORIGINS: dict[str, PortOrigin] = {origin.name: origin for origin in (DEFAULT, ASCEND, CUTILE, CUTEDSL, ROCM, XPU)}


def target_named(name: str) -> PortTarget:
    """A target by name.

    Raises:
        UserFacingError: there is none of that name.
    """
    return _named(name, TARGETS, "target")


def origin_named(name: str) -> PortOrigin:
    """An implementation by name.

    Raises:
        UserFacingError: there is none of that name.
    """
    return _named(name, ORIGINS, "implementation")


def _named(name: str, known: Mapping[str, T], kind: str) -> T:
    if name in known:
        return known[name]
    close = get_close_matches(name, known, 1)
    meant = f"Did you mean `{close[0]}`? " if close else ""
    fix = f"{meant}{kind.capitalize()}s: {', '.join(f'`{one}`' for one in known)}."
    raise UserFacingError(Failure(FailureCode.refused, f"there is no {kind} `{name}`", fix))
