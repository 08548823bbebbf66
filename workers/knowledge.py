"""A door: the pages of the knowledge base as what jobs measured would have them."""

from __future__ import annotations

from collections.abc import Mapping

from workers.runtime import current
from workers.store import gains
from workers.strategies.measured import LEAST_KERNELS, LEAST_TRIALS, PAGES, PageProposal, proposals

__all__ = ["LEAST_KERNELS", "LEAST_TRIALS", "PAGES", "PageProposal", "proposed"]


def proposed(pages: Mapping[str, str]) -> tuple[PageProposal, ...]:
    """The pages, by path, that change by what is kept of this installation's jobs."""
    with current().database.read() as session:
        trials = gains.newest(session)
    return proposals(pages, trials)
