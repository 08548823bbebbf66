"""The closed vocabulary of targets."""

from __future__ import annotations

from difflib import get_close_matches

from workers.contracts import Failure, FailureCode, UserFacingError
from workers.targets.ascend import ASCEND
from workers.targets.liger_cutile import CUTILE
from workers.targets.protocol import PortTarget

TARGETS: dict[str, PortTarget] = {target.name: target for target in (ASCEND, CUTILE)}


def target_named(name: str) -> PortTarget:
    """A target by name.

    Raises:
        UserFacingError: there is none of that name.
    """
    if name in TARGETS:
        return TARGETS[name]
    close = get_close_matches(name, TARGETS, 1)
    meant = f"Did you mean `{close[0]}`? " if close else ""
    fix = f"{meant}Targets: {', '.join(f'`{known}`' for known in TARGETS)}."
    raise UserFacingError(Failure(FailureCode.refused, f"there is no target `{name}`", fix))
