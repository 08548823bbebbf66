"""The command line as on a machine without settings and without a GPU."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from workers.embedded import close


@pytest.fixture
def environment(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Unset every setting of this machine, and have the runner use Triton's interpreter."""
    for name in list(os.environ):
        if name.startswith("KERNELSMITH_"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("KERNELSMITH_ARCHITECTURE", "interpreter")
    monkeypatch.setenv("COLUMNS", "400")
    yield
    close()
