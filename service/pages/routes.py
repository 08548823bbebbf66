"""The routes of the pages: jobs and kernels, read-only, escaped, with nothing loaded from anywhere else."""

from __future__ import annotations

import asyncio
import hmac
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from http import HTTPStatus
from pathlib import Path
from typing import Annotated, Any, cast
from urllib.parse import parse_qsl, quote, unquote, urlsplit

from fastapi import APIRouter, Depends, FastAPI, HTTPException, Query, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import FileResponse, HTMLResponse, JSONResponse, RedirectResponse, Response, StreamingResponse
from fastapi.security import HTTPBasic
from jinja2 import Environment, FileSystemLoader, StrictUndefined

from service.addresses import Addresses, is_loopback
from service.commands.grammar import rule_of
from service.pages import kernels, shown
from service.pages.errors import NoPageError, add_error_pages
from service.pages.kernels import shown as redacted
from service.pages.parts import parts_of
from service.pages.shown import tried_of
from service.pages.sites import DEFAULT_LAST, LiveSite
from service.pages.start import STARTING, drafted, fields_of
from workers import history, inbox
from workers.contracts import JobState, JobView, Verb
from workers.history import CommitComparison, KernelHistory, Metric
from workers.redaction import redact

HEADERS = {
    "content-security-policy": (
        "default-src 'none'; style-src 'self'; img-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cache-control": "no-store",
}
# The pages of kernels have a script that shows a chart's values, and a form that chooses a series.
KERNEL_HEADERS = HEADERS | {
    "content-security-policy": (
        "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; base-uri 'none'; form-action 'self'; "
        "frame-ancestors 'none'"
    ),
}
# The page of a job has a script that listens for changes, and a form that cancels.
JOB_HEADERS = KERNEL_HEADERS | {
    "content-security-policy": f"{KERNEL_HEADERS['content-security-policy']}; connect-src 'self'"
}
BADGE_HEADERS = HEADERS | {"content-security-policy": "default-src 'none'; sandbox"}
ALL = "all"
NO_NUMBERS_FIX = (
    "The overview of kernels names what has numbers, by the repository's present name. `/kernel nightly` measures every "
    "kernel of a repository, and `kernelsmith import-history` reads its own CSV."
)
NO_JOB_FIX = (
    "The jobs that changed last are listed; others are linked from the bot's comments. Another installation has pages of "
    "its own."
)
NO_ARTIFACT_FIX = (
    "The job's page lists what it has. Artifacts are removed some time after the job has ended and its pull request was "
    "closed (`KERNELSMITH_KEEP_ARTIFACTS_DAYS`); what was published is still on GitHub."
)
FOLDER = Path(__file__).parent
ENDED = (JobState.done, JobState.failed, JobState.cancelled)
REFRESH_S = 10
LOOK_S = 1.0  # between two looks at a job that a page listens to
BREATH_S = 15.0  # after so long without a change a line is sent, so that a proxy keeps the connection
STREAM_S = 600.0  # then the browser asks anew
MOST_STREAMS = 64  # a page beyond them loads itself anew
_BASIC = HTTPBasic(realm="kernelsmith")
FORWARDED = ("forwarded", "via", "x-forwarded-for", "x-forwarded-host", "x-forwarded-proto", "x-real-ip")
LONGEST = 2000  # characters of a name in an address
LONGEST_FORM = 200_000  # bytes
Text = Annotated[str, Query(max_length=LONGEST)]
Last = Annotated[str, Query(pattern=r"^(all|[1-9][0-9]{0,4})$")]


@dataclass(frozen=True)
class Pages:
    """Where the pages get what they show; ``password`` None leaves them open, to ``anybody`` or to this machine alone."""

    recent_jobs: Callable[[], tuple[JobView, ...]]
    get_job: Callable[[str], JobView | None]
    load: Callable[[str], bytes]
    addresses: Addresses
    password: str | None
    anybody: bool = False
    cancel: Callable[[str], bool] | None = None  # None: nobody may cancel a job here
    repositories: Callable[[], tuple[str, ...]] = tuple  # proposed where a job is started


@dataclass(frozen=True)
class _PageSet:
    """What an application's pages are made of."""

    pages: Pages
    templates: Environment
    kernels: Environment
    streams: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(MOST_STREAMS))

    def page(self, name: str, headers: dict[str, str] = HEADERS, **values: Any) -> Response:
        """A page of jobs, by its template."""
        return HTMLResponse(self.templates.get_template(name).render(values), headers=headers)


async def _served(request: Request) -> _PageSet:
    return cast(_PageSet, request.app.state.pages)


Served = Annotated[_PageSet, Depends(_served)]


async def _guard(request: Request) -> None:
    """Refuse who has no password; where there is none, whoever is not on this machine, unless anybody may see the pages."""
    pages = (await _served(request)).pages
    if pages.password is None:
        if not pages.anybody:
            _of_this_machine(request)
        return
    given = await _BASIC(request)
    if given is None or not hmac.compare_digest(given.password.encode(), pages.password.encode()):
        raise _BASIC.make_not_authenticated_error()


async def _no_nul(request: Request) -> None:
    """Refuse a character that PostgreSQL has no place for, so that no name has it."""
    if "\0" in unquote(str(request.url)):
        raise HTTPException(404, "no name has a NUL character")


def _of_this_machine(request: Request) -> None:
    """Refuse what a proxy, a tunnel, a name that somebody points here, or another bind address than the configured one lets in."""
    try:
        host = urlsplit(f"//{request.headers.get('host', '')}").hostname or ""
    except ValueError:
        host = ""
    client = request.client.host if request.client is not None else ""
    if not (is_loopback(host) and is_loopback(client)) or any(name in request.headers for name in FORWARDED):
        raise HTTPException(403, "without KERNELSMITH_PAGES_PASSWORD these pages are shown on their own machine alone")


# Built once a process: its 12 routes have 37 type adapters, which take 18 ms.
ROUTER = APIRouter(dependencies=[Depends(_guard), Depends(_no_nul)])


def add_pages(app: FastAPI, pages: Pages) -> None:
    """Add the pages to an application, and with them pages for what a browser is refused."""
    templates = Environment(
        loader=FileSystemLoader(FOLDER / "templates"), autoescape=True, undefined=StrictUndefined, finalize=redacted
    )
    templates.globals["site"] = LiveSite()
    templates.filters["bytes"] = shown.size
    templates.filters["with_code"] = shown.with_code
    templates.filters["with_markdown"] = shown.with_markdown
    templates.filters["quoted"] = lambda text: quote(str(text), safe="")
    app.state.pages = _PageSet(pages, templates, kernels.Rendering(LiveSite(), pages.addresses.html_url).environment())
    # Not `include_router`, which builds what it includes once more for each application.
    app.router.routes.extend(ROUTER.routes)

    def error(status: int, reason: str, fix: str) -> Response:
        values = {"title": HTTPStatus(status).phrase, "reason": reason, "fix": fix}
        return HTMLResponse(templates.get_template("error.html").render(values), status, HEADERS)

    add_error_pages(app, error)


def _asked_history(
    repository: Text,
    kernel: Text,
    gpu: Text = "",
    metric: Text = "",
    timed_pass: Text = "",
    workload: Text = "",
    library: Text = "",
    last: Last = str(DEFAULT_LAST),
    commit: Text = "",
) -> tuple[KernelHistory, int | None]:
    """The series that a query asks for, and how many commits of it; None: all."""
    length = None if last == ALL else int(last)
    wanted = {"gpu": gpu, "metric": metric, "timed_pass": timed_pass, "workload": workload, "library": library}
    wanted["commit"] = commit
    shown = history.kernel_history(repository, kernel, wanted, length)
    if shown is None:
        raise NoPageError("no number of this kernel was ever measured or imported", NO_NUMBERS_FIX)
    return shown, length


AskedHistory = Annotated[tuple[KernelHistory, int | None], Depends(_asked_history)]


@ROUTER.get("/kernels")
def overview(served: Served, repository: Text = "") -> Response:
    form = _overview(repository)
    return _page(kernels.overview_page(served.kernels, *form, inbox.operation(), _newest_two(form[0])))


@ROUTER.get("/api/kernels")
def overview_json(repository: Text = "") -> Response:
    return _json(kernels.overview_form(*_overview(repository), inbox.operation()))


@ROUTER.get("/kernels/history")
def kernel(served: Served, asked: AskedHistory) -> Response:
    return _page(kernels.history_page(served.kernels, *asked))


@ROUTER.get("/api/kernels/history")
def kernel_json(asked: AskedHistory) -> Response:
    return _json(kernels.history_form(asked[0]))


@ROUTER.get("/kernels/compare")
def compare(
    served: Served, repository: Text, before: Text = "", after: Text = "", gpu: Text = "", metric: Text = ""
) -> Response:
    gpus = _gpus(repository)
    asked = {
        "before": before.strip(),
        "after": after.strip(),
        "gpu": gpu or next(iter(gpus), ALL),
        "metric": metric or Metric.time_us.value,
    }
    comparison = _comparison(repository, asked) if before or after else None
    return _page(kernels.comparison_page(served.kernels, repository, comparison, asked, gpus))


@ROUTER.get("/api/kernels/compare")
def compare_json(repository: Text, before: Text, after: Text, gpu: Text = ALL, metric: Text = ALL) -> Response:
    _gpus(repository)
    asked = {"before": before.strip(), "after": after.strip(), "gpu": gpu, "metric": metric}
    return _json(kernels.comparison_form(_comparison(repository, asked)))


@ROUTER.get("/badge.svg")
def badge(
    repository: Text, kernel: Text, gpu: Text = "", shows: str = Query("floor", pattern="^(floor|time)$")
) -> Response:
    states = [state for state in history.kernel_states(repository, kernel) if gpu in ("", state.gpu)]
    newest = max(states, key=lambda state: state.measured_at_s, default=None)
    return Response(kernels.badge_of(kernel, newest, shows), media_type="image/svg+xml", headers=BADGE_HEADERS)


@ROUTER.get("/static/chart.js")
def script() -> Response:
    path = kernels.FOLDER / "static" / "chart.js"
    return FileResponse(path, media_type="text/javascript", headers={"x-content-type-options": "nosniff"})


def _overview(repository: str) -> tuple[str | None, tuple[str, ...], tuple[history.KernelState, ...]]:
    known = history.repositories()
    if repository and repository not in known:
        raise NoPageError("no number of this repository was ever measured or imported", NO_NUMBERS_FIX)
    chosen = repository or next(iter(known), None)
    return chosen, known, () if chosen is None else history.kernel_states(chosen)


def _newest_two(repository: str | None) -> tuple[str, str] | None:
    commits = () if repository is None else history.newest_commits(repository, 2)
    return (commits[1], commits[0]) if len(commits) == 2 else None


def _gpus(repository: str) -> tuple[str, ...]:
    gpus = history.gpus(repository)
    if not gpus:
        raise NoPageError("no number of this repository was ever measured or imported", NO_NUMBERS_FIX)
    return gpus


def _comparison(repository: str, asked: dict[str, str]) -> CommitComparison:
    if asked["metric"] not in (ALL, *Metric):
        raise NoPageError(f"no such metric; one of {', '.join([*Metric, ALL])}", "Name one of these in the address.")
    metric = None if asked["metric"] == ALL else Metric(asked["metric"])
    gpu = None if asked["gpu"] == ALL else asked["gpu"]
    return history.compare_commits(repository, asked["before"], asked["after"], gpu, metric)


def _page(text: str) -> Response:
    return HTMLResponse(text, headers=KERNEL_HEADERS)


def _json(form: dict[str, Any]) -> Response:
    return JSONResponse(form, headers=KERNEL_HEADERS)


@ROUTER.get("/")
def jobs(served: Served) -> Response:
    now = datetime.now(UTC)
    return served.page("jobs.html", rows=[shown.row_of(job, now) for job in served.pages.recent_jobs()])


@ROUTER.get("/start")
def start(served: Served, verb: Verb = Verb.create, repository: Text = "") -> Response:
    """The form for a job; nothing is started by it: GitHub opens the issue, and knows who asks."""
    return _start_page(served, verb, {"repository": repository})


@ROUTER.post("/start")
async def start_form(served: Served, request: Request) -> Response:
    """The same form, filled in, with the issue that it makes."""
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > LONGEST_FORM:
            raise HTTPException(413, f"at most {LONGEST_FORM} bytes; name a file of the repository instead")
    given = dict(parse_qsl(body.decode("utf-8", "replace")))
    verb = next((verb for verb in STARTING if verb.value == given.get("verb")), Verb.create)
    return await run_in_threadpool(_start_page, served, verb, {"repository": ""} | given, filled=True)


def _start_page(served: _PageSet, verb: Verb, given: dict[str, str], *, filled: bool = False) -> Response:
    pages, rule = served.pages, rule_of(verb if verb in STARTING else Verb.create)
    html_url = pages.addresses.html_url
    draft = drafted(rule.verb, given, urlsplit(html_url).netloc) if filled else None
    link, whole = draft.link(html_url) if draft is not None else ("", True)
    options = {option.name for option in rule.options}
    return served.page(
        "start.html",
        KERNEL_HEADERS,
        verbs=STARTING,
        rule=rule,
        fields=fields_of(rule),
        options=options,
        chosen=any(given.get(name) for name in options),
        given=given,
        draft=draft,
        link=link,
        whole=whole,
        repositories=pages.repositories(),
    )


@ROUTER.get("/jobs/{job_id}")
def job(served: Served, job_id: str) -> Response:
    job, now = _job(served.pages, job_id), datetime.now(UTC)
    return served.page(
        "job.html",
        JOB_HEADERS,
        job=job,
        fused=parts_of(job, served.pages.load),
        may_cancel=served.pages.cancel is not None and job.state not in ENDED,
        row=shown.row_of(job, now),
        stages=shown.stages_of(job, now),
        links=shown.links_of(job, served.pages.addresses),
        events=shown.events_of(job, now),
        tried=tried_of(job, served.pages.load),
        refresh_s=None if job.state in ENDED else REFRESH_S,
        mark=shown.mark_of(job),
        inline={artifact.name: shown.served_type(artifact) for artifact in job.artifacts},
    )


@ROUTER.get("/jobs/{job_id}/changes")
async def changes(served: Served, job_id: str, seen: Text = "") -> Response:
    """Says whenever the job's page is another than the one that was ``seen``, as server-sent events."""
    await run_in_threadpool(_job, served.pages, job_id)
    if served.streams.locked():
        return Response(status_code=503, headers=HEADERS)
    return StreamingResponse(_changes(served, job_id, seen), media_type="text/event-stream", headers=HEADERS)


async def _changes(served: _PageSet, job_id: str, seen: str) -> AsyncIterator[str]:
    async with served.streams:
        said, end = time.monotonic(), time.monotonic() + STREAM_S
        while (now := time.monotonic()) < end:
            job = await run_in_threadpool(served.pages.get_job, job_id)
            if job is None:
                return
            mark = shown.mark_of(job)
            if job.state in ENDED:
                yield "event: end\ndata: \n\n"
                return
            if mark != seen or now - said >= BREATH_S:
                yield f"event: change\ndata: {mark}\n\n" if mark != seen else ": \n\n"
                seen, said = mark, now
            await asyncio.sleep(LOOK_S)


@ROUTER.post("/jobs/{job_id}/cancel")
def cancel(served: Served, job_id: str, request: Request) -> Response:
    """Cancels a job, by the form of its page alone."""
    if served.pages.cancel is None or request.headers.get("sec-fetch-site") != "same-origin":
        raise HTTPException(403, "a job is cancelled by its own page, or by `/kernel cancel`")
    served.pages.cancel(_job(served.pages, job_id).job_id)
    return RedirectResponse(f"/jobs/{quote(job_id, safe='')}", 303, headers=HEADERS)


@ROUTER.get("/static/job.js")
def job_script() -> Response:
    return FileResponse(
        FOLDER / "static" / "job.js", media_type="text/javascript", headers={"x-content-type-options": "nosniff"}
    )


@ROUTER.get("/jobs/{job_id}/artifacts/{name:path}")
def artifact(served: Served, job_id: str, name: str) -> Response:
    held = next((item for item in _job(served.pages, job_id).artifacts if item.name == name), None)
    if held is None:
        raise NoPageError("this job has no such artifact", NO_ARTIFACT_FIX)
    kind, inline = shown.served_type(held)
    file_name = quote(name.rpartition("/")[2], safe="")
    headers = HEADERS | {
        "content-security-policy": "default-src 'none'; sandbox",
        "content-disposition": f"{'inline' if inline else 'attachment'}; filename*=UTF-8''{file_name}",
    }
    content = served.pages.load(held.digest)
    if kind.startswith("text/"):
        content = redact(content.decode("utf-8", "surrogateescape")).encode("utf-8", "surrogateescape")
    return Response(content, media_type=kind, headers=headers)


@ROUTER.get("/static/style.css")
def style() -> Response:
    return FileResponse(
        FOLDER / "static" / "style.css", media_type="text/css", headers={"x-content-type-options": "nosniff"}
    )


def _job(pages: Pages, job_id: str) -> JobView:
    view = pages.get_job(job_id)
    if view is None:
        raise NoPageError("there is no such job", NO_JOB_FIX)
    return view
