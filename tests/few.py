"""What `make test` runs of a test that says the same of many cases; the marker `long` leaves the others to `make test-all`.

A fixture that works on many cases at once works on those that this run looks at.
"""

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


def asked_for(request: pytest.FixtureRequest, parameter: str) -> list[Any]:
    """The cases that this run's tests, of those that use this fixture of their module, have for a parameter."""
    using = [
        item
        for item in request.session.items
        if isinstance(item, pytest.Function) and item.path == request.path and request.fixturename in item.fixturenames
    ]
    return sorted({item.callspec.params[parameter] for item in using if hasattr(item, "callspec")})
