"""Plots of reports without matplotlib: the bytes of a plot are the calls that would draw it.

To build a figure takes 30 ms and to paint it 100, and a job draws up to five in each run of its stages. ``painted`` is for tests of
plots.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from workers.reports import plots, variants

SIGNATURE = b"\x89PNG\r\n\x1a\n"
_build, _paint = plots.figure_of, plots.png_of


class _Sketch:
    """A figure and its axes, which write down what is drawn on them."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = []

    def __getattr__(self, method: str) -> Callable[..., None]:
        return lambda *given, **named: self.calls.append((method, given, named))


def _sketched(_height: float) -> tuple[_Sketch, _Sketch]:
    sketch = _Sketch()
    return sketch, sketch


def _outline_of(sketch: _Sketch) -> bytes:
    return SIGNATURE + json.dumps(sketch.calls, default=str).encode()


def _use(build: Any, paint: Any) -> None:
    for module in (plots, variants):
        module.figure_of, module.png_of = build, paint  # type: ignore[attr-defined]


def outline() -> None:
    """Build and paint nothing from here on."""
    _use(_sketched, _outline_of)


@contextmanager
def painted() -> Iterator[None]:
    """Build and paint as the product does."""
    _use(_build, _paint)
    try:
        yield
    finally:
        outline()
