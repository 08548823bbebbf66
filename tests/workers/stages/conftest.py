"""The fixtures of this folder's tests."""

from __future__ import annotations

from typing import Any

import pytest


@pytest.fixture(autouse=True)
def _undrawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Figures are made, and not drawn: these tests look at what is decided, not at pixels."""
    monkeypatch.setattr("matplotlib.figure.Figure.savefig", lambda _, buffer, **__: buffer.write(b"a picture"))


@pytest.fixture(scope="session", autouse=True)
def _libraries() -> Any:
    """Import what is imported late, before the first test is timed."""
    import matplotlib.figure

    return matplotlib.figure
