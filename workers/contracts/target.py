"""The target of an optimize job, as a person writes it: "forward < 0.3 ms @ H=4096". Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass

UNITS_US = {"us": 1.0, "\u00b5s": 1.0, "ms": 1e3, "s": 1e6}
PATTERN = re.compile(
    r"\s*(?P<timed_pass>forward|backward|full)\s*(?:<|<=|under|below)\s*(?P<value>\d+(?:\.\d+)?)\s*(?P<unit>us|\u00b5s|ms|s)"
    r"\s*(?:@\s*(?P<sizes>.+?))?\s*",
    re.IGNORECASE,
)
SIZE = re.compile(r"(?P<name>[A-Za-z_]\w*)\s*=\s*(?P<size>\d+)")
CURE = "Write it as `forward < 0.3 ms @ H=4096`: a pass, a time, and the sizes at which it shall hold."


@dataclass(frozen=True)
class Target:
    """A time that a pass shall stay under, on every workload with these sizes (on all of them where none is named)."""

    timed_pass: str  # forward, backward or full
    below_us: float
    sizes: tuple[tuple[str, int], ...] = ()


def parse_target(text: str) -> Target:
    """Read a target.

    Raises:
        ValueError: it is of another form; the text is the cure.
    """
    found = PATTERN.fullmatch(text)
    if found is None:
        raise ValueError(CURE)
    sizes: list[tuple[str, int]] = []
    for part in re.split(r"[,\s]+", (found["sizes"] or "").strip()):
        size = SIZE.fullmatch(part)
        if part and size is None:
            raise ValueError(CURE)
        if size is not None:
            sizes.append((size["name"], int(size["size"])))
    below_us = float(found["value"]) * UNITS_US[found["unit"].lower()]
    if below_us <= 0:
        raise ValueError(CURE)
    return Target(found["timed_pass"].lower(), below_us, tuple(sizes))
