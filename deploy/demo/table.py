"""The demos by name."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

from deploy.demo.nights import play_nights
from deploy.demo.play import play
from deploy.demo.scripts import SCRIPTS

DEMOS: dict[str, Callable[[Path, bool, Path | None], int]] = {
    **{name: partial(play, script=script) for name, script in SCRIPTS.items()},
    "nightly": play_nights,
}
