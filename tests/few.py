"""What `make test` runs of a test that says the same of many cases; the marker `long` leaves the others to `make test-all`."""

from __future__ import annotations

from collections.abc import Container, Iterable
from typing import Any

import pytest


def few(cases: Iterable[Any], kept: Container[Any]) -> list[Any]:
    """Parameters of a test, all cases but the kept ones marked `long`. A tuple holds the values of several parameters."""
    marks = (pytest.mark.long, pytest.mark.slow)
    return [
        pytest.param(*(case if isinstance(case, tuple) else (case,)), marks=() if case in kept else marks)
        for case in cases
    ]
