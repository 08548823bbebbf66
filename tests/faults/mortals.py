"""Starts engines with the real stages that kill themselves; see ``tests.workers.engine.mortals``."""

from __future__ import annotations

from tests.workers.engine.mortals import main
from workers.stages.table import STAGES

if __name__ == "__main__":
    main(STAGES)
