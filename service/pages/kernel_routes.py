"""The routes of kernels: overview, a kernel's history, two commits; as pages, as JSON, and as badges."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, HTTPException, Query
from fastapi.responses import FileResponse, HTMLResponse, JSONResponse, Response

from service.pages import kernels
from service.pages.sites import LiveSite
from workers import history, inbox
from workers.history import CommitComparison, KernelHistory, Metric

HEADERS = {
    "content-security-policy": (
        "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; base-uri 'none'; form-action 'self'; "
        "frame-ancestors 'none'"
    ),
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cache-control": "no-store",
}
BADGE_HEADERS = HEADERS | {"content-security-policy": "default-src 'none'; sandbox"}
ALL = "all"
LONGEST = 2000  # characters of a name in an address
Text = Annotated[str, Query(max_length=LONGEST)]
Last = Annotated[str, Query(pattern=r"^(all|[1-9][0-9]{0,4})$")]


def add_kernel_routes(router: APIRouter, html_url: str) -> None:
    """Add the routes to those of the other pages, behind the same password."""
    env = kernels.Rendering(LiveSite(), html_url).environment()

    @router.get("/kernels")
    def overview(repository: Text = "") -> Response:
        form = _overview(repository)
        return _page(kernels.overview_page(env, *form, inbox.operation(), _newest_two(form[0])))

    @router.get("/api/kernels")
    def overview_json(repository: Text = "") -> Response:
        return _json(kernels.overview_form(*_overview(repository), inbox.operation()))

    @router.get("/kernels/history")
    def kernel(
        repository: Text,
        kernel: Text,
        gpu: Text = "",
        metric: Text = "",
        timed_pass: Text = "",
        workload: Text = "",
        library: Text = "",
        last: Last = str(kernels.DEFAULT_LAST),
    ) -> Response:
        length = None if last == ALL else int(last)
        wanted = _wanted(gpu, metric, timed_pass, workload, library)
        return _page(kernels.history_page(env, _history(repository, kernel, wanted, length), length))

    @router.get("/api/kernels/history")
    def kernel_json(
        repository: Text,
        kernel: Text,
        gpu: Text = "",
        metric: Text = "",
        timed_pass: Text = "",
        workload: Text = "",
        library: Text = "",
        last: Last = str(kernels.DEFAULT_LAST),
    ) -> Response:
        wanted = _wanted(gpu, metric, timed_pass, workload, library)
        found = _history(repository, kernel, wanted, None if last == ALL else int(last))
        return _json(kernels.history_form(found))

    @router.get("/kernels/compare")
    def compare(repository: Text, before: Text = "", after: Text = "", gpu: Text = "", metric: Text = "") -> Response:
        gpus = _gpus(repository)
        asked = {
            "before": before.strip(),
            "after": after.strip(),
            "gpu": gpu or next(iter(gpus), ALL),
            "metric": metric or Metric.time_us.value,
        }
        found = _comparison(repository, asked) if before or after else None
        return _page(kernels.comparison_page(env, repository, found, asked, gpus))

    @router.get("/api/kernels/compare")
    def compare_json(repository: Text, before: Text, after: Text, gpu: Text = ALL, metric: Text = ALL) -> Response:
        _gpus(repository)
        asked = {"before": before.strip(), "after": after.strip(), "gpu": gpu, "metric": metric}
        return _json(kernels.comparison_form(_comparison(repository, asked)))

    @router.get("/badge.svg")
    def badge(
        repository: Text, kernel: Text, gpu: Text = "", shows: str = Query("floor", pattern="^(floor|time)$")
    ) -> Response:
        states = [state for state in history.kernel_states(repository, kernel) if gpu in ("", state.gpu)]
        newest = max(states, key=lambda state: state.measured_at_s, default=None)
        return Response(kernels.badge_of(kernel, newest, shows), media_type="image/svg+xml", headers=BADGE_HEADERS)

    @router.get("/static/chart.js")
    def script() -> Response:
        path = kernels.FOLDER / "static" / "chart.js"
        return FileResponse(path, media_type="text/javascript", headers={"x-content-type-options": "nosniff"})


def _overview(repository: str) -> tuple[str | None, tuple[str, ...], tuple[history.KernelState, ...]]:
    known = history.repositories()
    if repository and repository not in known:
        raise HTTPException(404, "no number of this repository was ever measured or imported")
    chosen = repository or next(iter(known), None)
    return chosen, known, () if chosen is None else history.kernel_states(chosen)


def _newest_two(repository: str | None) -> tuple[str, str] | None:
    commits = () if repository is None else history.newest_commits(repository, 2)
    return (commits[1], commits[0]) if len(commits) == 2 else None


def _wanted(gpu: str, metric: str, timed_pass: str, workload: str, library: str) -> dict[str, str]:
    return {"gpu": gpu, "metric": metric, "timed_pass": timed_pass, "workload": workload, "library": library}


def _history(repository: str, kernel: str, wanted: dict[str, str], last: int | None) -> KernelHistory:
    found = history.kernel_history(repository, kernel, wanted, last)
    if found is None:
        raise HTTPException(404, "no number of this kernel was ever measured or imported")
    return found


def _gpus(repository: str) -> tuple[str, ...]:
    found = history.gpus(repository)
    if not found:
        raise HTTPException(404, "no number of this repository was ever measured or imported")
    return found


def _comparison(repository: str, asked: dict[str, str]) -> CommitComparison:
    if asked["metric"] not in (ALL, *Metric):
        raise HTTPException(404, f"no such metric; one of {', '.join([*Metric, ALL])}")
    metric = None if asked["metric"] == ALL else Metric(asked["metric"])
    gpu = None if asked["gpu"] == ALL else asked["gpu"]
    return history.compare_commits(repository, asked["before"], asked["after"], gpu, metric)


def _page(text: str) -> Response:
    return HTMLResponse(text, headers=HEADERS)


def _json(form: dict[str, Any]) -> Response:
    return JSONResponse(form, headers=HEADERS)
