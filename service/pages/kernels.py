"""The pages, JSON and badges of kernels, for the service and for a static export alike. Pure: what is shown is given."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import Any, cast
from urllib.parse import quote

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from service.pages import chart
from service.pages.sites import DEFAULT_LAST, Site
from service.report.layout import DASH, duration_us, percent, size_bytes
from workers.contracts import Operation
from workers.history import (
    KERNEL,
    ChangeMark,
    ChartLine,
    CommitComparison,
    ComparedSeries,
    Difference,
    HistoryChoice,
    KernelHistory,
    KernelState,
    Metric,
    Point,
    Testbed,
)
from workers.redaction import redact

FOLDER = Path(__file__).parent
LENGTHS = (60, DEFAULT_LAST, None)  # commits in a chart; None: all
MOST_ROWS = 1000  # of a comparison on a page; its JSON has all
_WORSE = (Difference.wrong, Difference.slower, Difference.larger)
_BETTER = (Difference.right, Difference.faster, Difference.smaller)
TELLING = {difference: place for place, group in enumerate((_WORSE, _BETTER)) for difference in group}
METRIC_WORDS = {Metric.time_us: "time", Metric.peak_bytes: "peak memory", Metric.wrong_values: "wrong values"}
BADGE_SHOWS = ("floor", "time")
SHA = re.compile(r"[0-9a-f]{7,64}")
REPOSITORY = re.compile(r"[A-Za-z0-9_.-]+/[A-Za-z0-9_.-]+")
UNDRAWN = re.compile("[\x00-\x1f\x7f-\x9f\ufffe\uffff]")  # what XML has no place for
LETTER_WIDTH, BADGE_PADDING, MOST_LABEL = 6.6, 12, 60


@dataclass(frozen=True)
class Rendering:
    """Where the pages stand, and of which GitHub; ``repository_url`` is where the commits are, if not there by the name."""

    site: Site
    html_url: str | None
    repository_url: str | None = None

    def environment(self) -> Environment:
        """The templates with all that they call; every text is escaped and without secrets."""
        made = Environment(
            loader=FileSystemLoader(FOLDER / "templates"), autoescape=True, undefined=StrictUndefined, finalize=shown
        )
        link = lru_cache(4096)(self.commit_link)
        made.globals |= {
            "site": self.site,
            "LENGTHS": LENGTHS,
            "commit_url": lru_cache(4096)(self.commit_url),
            "commit_link": link,
            "value_text": value_text,
            "ratio_text": ratio_text,
        }
        # In the overview's many rows: a filter costs less than a call.
        made.filters |= {
            "commit_link": lambda revision, repository: link(repository, revision),
            "choice": choice_of,
            "change_choice": change_choice,
            "trend": trend_of,
            "time": lambda time_us: value_text(Metric.time_us, time_us),
            "ratio": ratio_text,
        }
        made.filters |= {
            "day": day,
            "minute": minute,
            "percent": lambda share: Figure(percent(share)),
            "metric": lambda name: METRIC_WORDS.get(name, name),
            "testbed": testbed_text,
            "state_word": lambda state: state.replace("_", " "),
        }
        return made

    def commit_url(self, repository: str, revision: str) -> str | None:
        """Where a commit, or a release's tag, is seen on GitHub."""
        base = self.repository_url
        if base is None:
            if self.html_url is None or repository.startswith("local/") or not REPOSITORY.fullmatch(repository):
                return None
            base = f"{self.html_url}/{repository}"
        return f"{base}/{'commit' if SHA.fullmatch(revision) else 'tree'}/{quote(redact(revision), safe='')}"

    def commit_link(self, repository: str, revision: str) -> Markup:
        """A commit's short name, which leads to where it is seen."""
        url, name = self.commit_url(repository, revision), Markup("<code>{}</code>").format(redact(short(revision)))
        return name if url is None else Markup('<a href="{}">{}</a>').format(url, name)


class Figure(str):
    """Text that this program made of numbers alone: there is no secret in it to look for, which takes time."""

    __slots__ = ()


def shown(value: object) -> object:
    """What a page may show of a value: text without secrets. What is markup already stays so."""
    if isinstance(value, Figure):
        return value
    if isinstance(value, Markup):
        return Markup(redact(value))  # noqa: S704 - escaped before, and what is put in has no sign of markup
    return redact(value) if isinstance(value, str) else value


def overview_page(
    env: Environment,
    repository: str | None,
    repositories: Sequence[str],
    states: Sequence[KernelState],
    operation: Operation | None,
    compared: tuple[str, str] | None = None,
) -> str:
    """The overview: kernels by GPU model, and what is at work where that is shown."""
    by_gpu: dict[str, list[KernelState]] = {}
    for state in states:
        by_gpu.setdefault(state.gpu, []).append(state)
    return env.get_template("kernels.html").render(
        repository=repository, repositories=repositories, by_gpu=by_gpu, operation=operation, compared=compared
    )


def history_page(env: Environment, history: KernelHistory, last: int | None) -> str:
    """The page of a kernel."""
    metric = history.chosen.metric
    drawn = chart.chart_of(history, lambda value: value_text(metric, value), day)
    return env.get_template("kernel.html").render(
        history=history,
        last=last,
        drawn=drawn,
        labels=[line_text(line) for line in history.lines],
        groups=choice_groups(history),
        rows=_rows(history),
    )


def comparison_page(
    env: Environment,
    repository: str,
    comparison: CommitComparison | None,
    asked: Mapping[str, str],
    gpus: Sequence[str],
) -> str:
    """The page on which two commits are compared; ``comparison`` None: none were named yet."""
    return env.get_template("compare.html").render(
        repository=repository,
        comparison=comparison,
        asked=asked,
        gpus=gpus,
        metrics=[metric.value for metric in Metric],
        counts=[] if comparison is None else _counts(comparison.rows),
        rows=() if comparison is None else told_rows(comparison.rows),
    )


def badge(label: str, text: str, colour: str) -> str:
    """A badge as SVG, with nothing in it but its two texts."""
    label, text = (UNDRAWN.sub("\ufffd", redact(part))[:MOST_LABEL] for part in (label, text))
    left, right = (round(len(part) * LETTER_WIDTH) + BADGE_PADDING for part in (label, text))
    env = Environment(loader=FileSystemLoader(FOLDER / "templates"), autoescape=True, undefined=StrictUndefined)
    return env.get_template("badge.svg").render(label=label, text=text, colour=colour, left=left, right=right)


def badge_of(kernel: str, state: KernelState | None, shows: str) -> str:
    """A kernel's badge: its share of the floor, or its time; grey where there is no number."""
    if state is None:
        return badge(kernel, "no number", "#9f9f9f")
    label = f"{kernel} · {state.gpu.removeprefix('NVIDIA ')}"
    if state.wrong_values:
        return badge(label, "wrong values", "#c03a2b")
    if shows == "time":
        return badge(label, duration_us(state.time_us), "#2f6fb3")
    share = state.floor_share
    if share is None:
        return badge(label, "no floor known", "#9f9f9f")
    return badge(
        label, f"{percent(share)} of the floor", "#2e7d32" if share >= 0.8 else "#9a6b00" if share >= 0.5 else "#b3541e"
    )


def overview_form(
    repository: str | None, repositories: Sequence[str], states: Sequence[KernelState], operation: Operation | None
) -> dict[str, Any]:
    """The overview for programs."""
    form = {"repository": repository, "repositories": repositories, "kernels": states, "operation": operation}
    return {name: _form(value) for name, value in form.items()}


def history_form(history: KernelHistory) -> dict[str, Any]:
    """A kernel's history for programs; a number's name is that of its metric, with its unit."""
    form = _fields(replace(history, lines=()))
    form["lines"] = [
        _fields(replace(line, points=()))
        | {"points": [_form(_point_form(history.chosen.metric, point)) for point in line.points]}
        for line in history.lines
    ]
    return form


def comparison_form(comparison: CommitComparison) -> dict[str, Any]:
    """A comparison for programs."""
    form = _fields(replace(comparison, rows=()))
    form["rows"] = [_fields(row) for row in comparison.rows]
    for row in form["rows"]:
        metric = row["metric"]
        row[f"before_{metric}"], row[f"after_{metric}"] = row.pop("before"), row.pop("after")
    return form


def _point_form(metric: str, point: Point) -> dict[str, Any]:
    stem, _, unit = metric.rpartition("_")
    return {
        "commit": point.revision,
        "measured_at_s": point.measured_at,
        metric: point.value,
        f"{stem}_low_{unit}": point.low,
        f"{stem}_high_{unit}": point.high,
        "samples": point.samples,
        "floor_share": point.floor_share,
        "sm_clock_mhz": point.sm_clock_mhz,
        "source": point.source.value,
    }


def _form(value: Any) -> Any:
    """A value as JSON takes it, its texts without secrets."""
    if isinstance(value, str):
        return redact(str(value))
    if isinstance(value, list | tuple):
        return [_form(item) for item in value]
    if isinstance(value, dict):
        return {name: _form(item) for name, item in value.items()}
    return _fields(value) if is_dataclass(value) else value


def _fields(value: Any) -> dict[str, Any]:
    return {name: _form(getattr(value, name)) for name in _names(value.__class__)}


@lru_cache(maxsize=100)
def _names(kind: Hashable) -> tuple[str, ...]:
    return tuple(field.name for field in fields(cast(Any, kind)))


@dataclass(frozen=True)
class PageOption:
    """One thing to choose; ``choice`` None: it is chosen."""

    text: str
    choice: HistoryChoice | None


def choice_groups(history: KernelHistory) -> tuple[tuple[str, tuple[PageOption, ...]], ...]:
    """What can be chosen, field by field; each leads to numbers that there are, as near as can be to what is chosen."""
    chosen, groups = history.chosen, []
    names = {"gpu": "GPU", "metric": "metric", "timed_pass": "pass", "workload": "size"}
    left = history.choices
    for field, word in names.items():
        options = []
        for value in dict.fromkeys(getattr(choice, field) for choice in left):
            wanted = replace(chosen, **{field: value})
            near = max(
                (choice for choice in left if getattr(choice, field) == value),
                key=lambda choice: [getattr(choice, name) == getattr(wanted, name) for name in names],
            )
            text = METRIC_WORDS.get(value, value) if field == "metric" else value
            options.append(PageOption(text, None if value == getattr(chosen, field) else near))
        groups.append((word, tuple(options)))
        left = tuple(choice for choice in left if getattr(choice, field) == getattr(chosen, field))
    return tuple(groups)


@dataclass(frozen=True)
class HistoryRow:
    """A point in the table of a history."""

    point: Point
    line: int
    mark: str


def _rows(history: KernelHistory) -> list[HistoryRow]:
    places = {commit: place for place, commit in enumerate(history.commits)}
    rows = []
    for number, line in enumerate(history.lines):
        marks = dict.fromkeys(line.change_points, "change point")
        marks |= {change.commit: change.state for change in line.changes if change.state != "quiet"}
        marks |= {change.recovered_commit: "recovery" for change in line.changes if change.recovered_commit}
        rows += [HistoryRow(point, number, marks.get(point.revision, "")) for point in line.points]
    return sorted(rows, key=lambda row: (-places[row.point.revision], row.line))


def told_rows(rows: Sequence[ComparedSeries], most: int = MOST_ROWS) -> Sequence[ComparedSeries]:
    """The rows that a page has room for: what became worse, then what became better, then the rest, each in their order."""
    return sorted(rows, key=lambda row: TELLING.get(row.difference, len(TELLING)))[:most]


def _counts(rows: Sequence[ComparedSeries]) -> list[tuple[str, int]]:
    counted = Counter(row.difference for row in rows)
    return [(kind.value, counted[kind]) for kind in Difference if counted[kind]]


def line_text(line: ChartLine) -> str:
    """What a line is of."""
    if line.imported:
        who = "its own kernel" if line.provider == KERNEL else line.provider
        return f"the library's CSV, {who} at {line.workload}"
    return testbed_text(line.testbed) if line.provider == KERNEL else f"{line.provider}, {testbed_text(line.testbed)}"


def choice_of(state: KernelState) -> HistoryChoice:
    """What stands for a kernel as a choice on its page."""
    return HistoryChoice(state.gpu, Metric.time_us.value, state.timed_pass, state.workload)


def change_choice(change: ChangeMark, gpu: str) -> HistoryChoice:
    """The series of a change as a choice on its kernel's page."""
    return HistoryChoice(gpu, change.metric, change.timed_pass, change.workload)


def trend_of(state: KernelState) -> Figure:
    """A kernel's trend as the points of a line."""
    return Figure(chart.spark([week.time_us for week in state.trend]))


def ratio_text(ratio: float | None) -> Figure:
    """New over old."""
    return Figure(DASH if ratio is None else f"{ratio:.3f}")


@lru_cache(maxsize=1000)
def testbed_text(testbed: Testbed) -> str:
    """A testbed in one line; what is not recorded is left out."""
    named = (("driver", testbed.driver), ("torch", testbed.torch), ("triton", testbed.triton))
    facts = [f"{name} {value}" for name, value in named if value]
    return ", ".join([testbed.gpu, *([testbed.gpu_uuid[:12]] if testbed.gpu_uuid else []), *facts])


def value_text(metric: str, value: float | None) -> Figure:
    """A number of a metric with its unit."""
    if value is None:
        return Figure(DASH)
    if metric == Metric.time_us:
        return Figure(f"{value:.4g}\N{NO-BREAK SPACE}µs" if value < 1000 else f"{value / 1000:.4g}\N{NO-BREAK SPACE}ms")
    return Figure(size_bytes(value).replace(" ", "\N{NO-BREAK SPACE}") if metric == Metric.peak_bytes else f"{value:g}")


def short(revision: str) -> str:
    """A revision as short as people know it."""
    return revision[:10] if SHA.fullmatch(revision) else revision


def day(at: float) -> Figure:
    """The day of a time, in UTC."""
    return Figure(datetime.fromtimestamp(at, UTC).date().isoformat())


def minute(at: float) -> Figure:
    """A time to the minute, in UTC."""
    return Figure(datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M UTC"))
