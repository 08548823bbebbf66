"""The one error root of the production; its text is for operators. What a person on GitHub may read is ``UserFacingError``."""

from __future__ import annotations


class WorkersError(Exception):
    """Something of the production, or around it, broke."""
