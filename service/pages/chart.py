"""A chart of a kernel's history as coordinates, which the template draws as SVG. Pure.

The axis below counts commits, so that releases of years ago and last week's nights stand side by side.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from workers.history import ChangeMark, ChartLine, KernelHistory, Point

WIDTH, HEIGHT = 900.0, 340.0
LEFT, RIGHT, TOP, BOTTOM = 84.0, 16.0, 16.0, 40.0
PLOT_WIDTH, PLOT_HEIGHT = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM
TICKS_X = 6
COLOURS = 6  # classes c0, c1, ... of the style sheet
SPARK_WIDTH, SPARK_HEIGHT = 96.0, 22.0


@dataclass(frozen=True)
class Dot:
    """A point of the plot."""

    x: str
    y: str
    text: str
    point: Point


@dataclass(frozen=True)
class Drawn:
    """A line of the plot; ``band`` is the outline from 20th to 80th percentile, empty where there is none."""

    colour: int
    line: ChartLine
    path: str
    band: str
    dots: tuple[Dot, ...]


@dataclass(frozen=True)
class Mark:
    """A vertical line at a commit."""

    x: str
    kind: str  # the state of a change, or "change_point"
    text: str


@dataclass(frozen=True)
class Tick:
    """A label of an axis."""

    at: str
    text: str


@dataclass(frozen=True)
class Chart:
    """What the template draws; coordinates of lines and marks count from the corner of the plot."""

    drawn: tuple[Drawn, ...]
    marks: tuple[Mark, ...]
    ticks_x: tuple[Tick, ...]
    ticks_y: tuple[Tick, ...]


def chart_of(history: KernelHistory, value_text: Callable[[float], str], day: Callable[[float], str]) -> Chart:
    """Lay a history out."""
    places = {commit: place for place, commit in enumerate(history.commits)}
    step = PLOT_WIDTH / max(1, len(places) - 1) if len(places) > 1 else 0.0
    lows = [_least(point) for line in history.lines for point in line.points]
    highs = [_most(point) for line in history.lines for point in line.points]
    bottom, top = _range(lows, highs)

    def x(commit: str) -> float:
        return places[commit] * step if step else PLOT_WIDTH / 2

    def y(value: float) -> float:
        return PLOT_HEIGHT * (1 - (value - bottom) / (top - bottom))

    drawn = tuple(_drawn(place, line, x, y, value_text, day) for place, line in enumerate(history.lines))
    at = {point.revision: point.measured_at for line in reversed(history.lines) for point in line.points}
    shown = history.commits[:: max(1, math.ceil(len(history.commits) / TICKS_X))]
    return Chart(
        drawn,
        tuple(_marks(history, places, x)),
        tuple(Tick(_n(x(commit)), day(at[commit])) for commit in shown),
        tuple(Tick(_n(y(value)), value_text(value)) for value in _steps(bottom, top)),
    )


def spark(values: Sequence[float]) -> str:
    """A trend as the points of a polyline; flat where it moves by less than 2%, so that noise does not look like news."""
    if len(values) < 2:
        return ""
    middle = (max(values) + min(values)) / 2
    reach = max(max(values) - min(values), 0.02 * middle) or 1.0
    step = SPARK_WIDTH / (len(values) - 1)
    return " ".join(
        f"{place * step:.0f},{SPARK_HEIGHT / 2 - (value - middle) / reach * (SPARK_HEIGHT - 4):.1f}"
        for place, value in enumerate(values)
    )


def _drawn(
    place: int,
    line: ChartLine,
    x: Callable[[str], float],
    y: Callable[[float], float],
    value_text: Callable[[float], str],
    day: Callable[[float], str],
) -> Drawn:
    at = [(x(point.revision), point) for point in line.points]
    path = " ".join(f"{_n(left)},{_n(y(point.value))}" for left, point in at)
    ranged = [(left, point) for left, point in at if point.low is not None and point.high is not None]
    upper = [f"{_n(left)},{_n(y(_most(point)))}" for left, point in ranged]
    lower = [f"{_n(left)},{_n(y(_least(point)))}" for left, point in reversed(ranged)]
    dots = tuple(
        Dot(
            _n(left),
            _n(y(point.value)),
            f"{point.revision[:12]} · {day(point.measured_at)} · {value_text(point.value)}",
            point,
        )
        for left, point in at
    )
    return Drawn(place % COLOURS, line, path, " ".join(upper + lower) if len(ranged) > 1 else "", dots)


def _marks(history: KernelHistory, places: dict[str, int], x: Callable[[str], float]) -> list[Mark]:
    marks = []
    for line in history.lines:
        changed = {change.commit for change in line.changes}
        marks += [
            Mark(_n(x(commit)), "change_point", f"change point at {commit[:12]}")
            for commit in line.change_points
            if commit not in changed
        ]
        for change in line.changes:
            if change.commit in places and change.state != "quiet":
                marks.append(Mark(_n(x(change.commit)), change.state, change_text(change)))
            if change.recovered_commit is not None and change.recovered_commit in places:
                text = f"recovered at {change.recovered_commit[:12]}"
                marks.append(Mark(_n(x(change.recovered_commit)), "recovery", text))
    return marks


def change_text(change: ChangeMark) -> str:
    """A change in words."""
    what, reason = f"{change.state} at {change.commit[:12]}", f": {change.reason}" if change.reason else ""
    if change.ratio is None:
        return f"values {what}{reason}"
    known = change.ratio_low is not None and change.ratio_high is not None
    between = f" ({change.ratio_low:.3f} to {change.ratio_high:.3f})" if known else ""
    return f"{what}, {change.ratio:.3f} times {change.good_commit[:12]}{between}{reason}"


def _least(point: Point) -> float:
    return point.value if point.low is None else min(point.low, point.value)


def _most(point: Point) -> float:
    return point.value if point.high is None else max(point.high, point.value)


def _range(lows: Sequence[float], highs: Sequence[float]) -> tuple[float, float]:
    """The range of the axis, at least 4% of the level, so that noise does not fill the plot."""
    if not lows:
        return 0.0, 1.0
    bottom, top = min(lows), max(highs)
    middle = (bottom + top) / 2
    half = max((top - bottom) * 0.55, 0.02 * abs(middle)) or 1.0
    return max(0.0, middle - half) if bottom >= 0 else middle - half, middle + half


def _steps(bottom: float, top: float) -> list[float]:
    """Four to eight round numbers of a range."""
    rough = (top - bottom) / 5
    size = 10.0 ** math.floor(math.log10(rough))
    step = next(size * factor for factor in (1, 2, 2.5, 5, 10) if size * factor >= rough)
    first = math.ceil(bottom / step)
    return [number * step for number in range(first, math.floor(top / step) + 1)]


def _n(value: float) -> str:
    return f"{value:.1f}"
