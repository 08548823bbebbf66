"""What the layouts refuse in the same words, and the source that a design must have by the time it is written. Pure."""

from __future__ import annotations

from workers.contracts import Failure, FailureCode, UserFacingError
from workers.layouts.protocol import Design


def existing_failure(name: str, path: str) -> UserFacingError:
    """Give the refusal of a name that is taken, with a pointer to what has it."""
    message = f"a kernel `{name}` exists at `{path}`"
    cure = f"Choose another name; to make the existing one faster, use `/kernel optimize {name}`."
    return UserFacingError(Failure(FailureCode.exists, message, cure))


def source_of(design: Design) -> str:
    """Give the proved source of a design's kernel module, ending in a newline.

    Raises:
        ValueError: there is none yet.
    """
    if design.source is None:
        raise ValueError(f"the kernel {design.name} has no source yet")
    return design.source.rstrip("\n") + "\n"
