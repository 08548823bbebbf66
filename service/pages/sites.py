"""Addresses of the pages of kernels: as the service answers them, or as files of a static export. Pure.

Every name is somebody else's text: a query is encoded, and a file is named by letters, digits and a digest.
"""

from __future__ import annotations

import hashlib
import re
from functools import lru_cache, partial
from typing import Protocol
from urllib.parse import quote

from workers.history import HistoryChoice
from workers.redaction import redact

DEFAULT_LAST = 200  # commits of a history


class Site(Protocol):
    """Where a page finds the others. A page that a site does not have is None."""

    is_live: bool
    style: str
    script: str

    def overview(self, repository: str) -> str | None:
        """The address of a repository's overview."""

    def kernel(self, repository: str, kernel: str, standing: HistoryChoice) -> str:
        """The address of a kernel's history on a GPU model, by the series that stands for it in the overview."""

    def history(
        self, repository: str, kernel: str, choice: HistoryChoice, last: int | None, library: str = "", commit: str = ""
    ) -> str:
        """The address of a kernel's history, as chosen; it shows ``commit``, where one is named, however old."""

    def comparison(self, repository: str, before: str, after: str, gpu: str = "", metric: str = "") -> str | None:
        """The address of the comparison of two commits."""

    def comparison_json(self, repository: str, before: str, after: str, gpu: str = "", metric: str = "") -> str:
        """The address of the JSON of a comparison that the site has."""

    def badge(self, repository: str, kernel: str, gpu: str, shows: str) -> str:
        """The address of a badge; it shows the ``floor`` or the ``time``."""

    def job(self, job_id: str) -> str | None:
        """The address of a job's page."""


class LiveSite:
    """The service's own addresses."""

    is_live = True
    style, script = "/static/style.css", "/static/chart.js"

    def overview(self, repository: str) -> str:
        """The address of a repository's overview."""
        return _query("/kernels", repository=repository)

    def kernel(self, repository: str, kernel: str, standing: HistoryChoice) -> str:
        """The address of a kernel's history on a GPU model; it begins with the series that stands for it."""
        return _query("/kernels/history", repository=repository, kernel=kernel, gpu=standing.gpu)

    def history(
        self, repository: str, kernel: str, choice: HistoryChoice, last: int | None, library: str = "", commit: str = ""
    ) -> str:
        """The address of a kernel's history; ``last`` None is all of it."""
        return _query(
            "/kernels/history",
            repository=repository,
            kernel=kernel,
            gpu=choice.gpu,
            metric=choice.metric,
            timed_pass=choice.timed_pass,
            workload=choice.workload,
            library=library,
            last="all" if last is None else "" if last == DEFAULT_LAST else str(last),
            commit=commit,
        )

    def comparison(self, repository: str, before: str, after: str, gpu: str = "", metric: str = "") -> str:
        """The address of the comparison of two commits."""
        return _query("/kernels/compare", repository=repository, before=before, after=after, gpu=gpu, metric=metric)

    def comparison_json(self, repository: str, before: str, after: str, gpu: str = "", metric: str = "") -> str:
        """The address of the JSON of the comparison of two commits."""
        names = {"repository": repository, "before": before, "after": after, "gpu": gpu, "metric": metric}
        return _query("/api/kernels/compare", **names)

    def badge(self, repository: str, kernel: str, gpu: str, shows: str) -> str:
        """The address of a badge."""
        return _query("/badge.svg", repository=repository, kernel=kernel, gpu=gpu, shows=shows)

    def job(self, job_id: str) -> str:
        """The address of a job's page."""
        return f"/jobs/{quote(job_id, safe='')}"


class StaticSite:
    """Files of one folder and of two below it, by relative addresses; of comparisons there are those that are named."""

    is_live = False
    style, script = "style.css", "chart.js"

    def __init__(self, comparisons: frozenset[tuple[str, str]]) -> None:
        self.comparisons = comparisons

    def overview(self, repository: str) -> str:
        """The address of the overview."""
        return "index.html"

    def kernel(self, repository: str, kernel: str, standing: HistoryChoice) -> str:
        """The address of a kernel's history on a GPU model."""
        return self.history(repository, kernel, standing, None)

    def history(
        self, repository: str, kernel: str, choice: HistoryChoice, last: int | None, library: str = "", commit: str = ""
    ) -> str:
        """The address of a kernel's history; it is written once, of the newest commits."""
        return file_name(kernel, choice.gpu, choice.metric, choice.timed_pass, choice.workload) + ".html"

    def comparison(self, repository: str, before: str, after: str, gpu: str = "", metric: str = "") -> str | None:
        """The address of a comparison that was written."""
        known = (before, after) in self.comparisons
        return f"{file_name('compare', before, after)}.html" if known else None

    def comparison_json(self, repository: str, before: str, after: str, gpu: str = "", metric: str = "") -> str:
        """The address of the JSON of a comparison that was written."""
        return f"api/{file_name('compare', before, after)}.json"

    def badge(self, repository: str, kernel: str, gpu: str, shows: str) -> str:
        """The address of a badge."""
        return f"badges/{file_name(kernel, gpu, shows)}.svg"

    def job(self, job_id: str) -> None:
        """Jobs are no part of an export."""


def file_name(*names: str) -> str:
    """Names as one that every file system takes; a digest keeps apart what differs in other characters only."""
    plain = [re.sub(r"[^a-z0-9]+", "-", redact(name).lower()).strip("-")[:40] for name in names]
    digest = hashlib.sha256("\x00".join(names).encode("utf-8", "surrogatepass")).hexdigest()[:10]
    return "-".join([*(part for part in plain if part), digest])


def _query(path: str, **values: str) -> str:
    # Once a name is encoded, a secret in it is no longer found.
    return f"{path}?{'&'.join(f'{name}={_quoted(redact(value))}' for name, value in values.items() if value)}"


_quoted = lru_cache(maxsize=4096)(partial(quote, safe=""))  # a page names few things many times
