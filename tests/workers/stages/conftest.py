"""The fixtures of this folder's tests."""

from __future__ import annotations

from typing import Any

import pytest


@pytest.fixture(scope="session", autouse=True)
def _libraries() -> Any:
    """Import what is imported late, before the first test is timed."""
    import matplotlib.figure

    return matplotlib.figure
