"""The routes of the pages: read-only, escaped, with nothing loaded from anywhere else."""

from __future__ import annotations

import hmac
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import quote

from fastapi import APIRouter, Depends, HTTPException
from fastapi.responses import FileResponse, HTMLResponse, Response
from fastapi.security import HTTPBasic, HTTPBasicCredentials
from jinja2 import Environment, FileSystemLoader, StrictUndefined

from service.addresses import Addresses
from service.pages import shown
from service.pages.kernel_routes import add_kernel_routes
from service.pages.kernels import shown as redacted
from service.pages.sites import LiveSite
from service.pages.tried import tried_of
from workers.contracts import JobState, JobView
from workers.redaction import redact

FOLDER = Path(__file__).parent
ENDED = (JobState.done, JobState.failed, JobState.cancelled)
REFRESH_S = 10
HEADERS = {
    "content-security-policy": (
        "default-src 'none'; style-src 'self'; img-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cache-control": "no-store",
}
_BASIC = HTTPBasic(realm="kernelsmith")


@dataclass(frozen=True)
class Pages:
    """Where the pages get what they show; ``password`` None leaves them open to whoever reaches the service."""

    recent_jobs: Callable[[], tuple[JobView, ...]]
    get_job: Callable[[str], JobView | None]
    load: Callable[[str], bytes]
    addresses: Addresses
    password: str | None


def pages_router(pages: Pages) -> APIRouter:
    """Give the routes of the pages."""
    router = APIRouter(dependencies=[] if pages.password is None else [Depends(_guard(pages.password))])
    templates = Environment(
        loader=FileSystemLoader(FOLDER / "templates"), autoescape=True, undefined=StrictUndefined, finalize=redacted
    )
    templates.globals["site"] = LiveSite()
    templates.filters["bytes"] = shown.size
    templates.filters["with_code"] = shown.with_code
    templates.filters["quoted"] = lambda text: quote(str(text), safe="")

    def page(name: str, **values: Any) -> Response:
        return HTMLResponse(templates.get_template(name).render(values), headers=HEADERS)

    @router.get("/")
    def jobs() -> Response:
        now = datetime.now(UTC)
        return page("jobs.html", rows=[shown.row_of(job, now) for job in pages.recent_jobs()])

    @router.get("/jobs/{job_id}")
    def job(job_id: str) -> Response:
        found, now = _job(pages, job_id), datetime.now(UTC)
        return page(
            "job.html",
            job=found,
            row=shown.row_of(found, now),
            stages=shown.stages_of(found, now),
            links=shown.links_of(found, pages.addresses),
            events=shown.events_of(found, now),
            tried=tried_of(found, pages.load),
            refresh_s=None if found.state in ENDED else REFRESH_S,
            inline={artifact.name: shown.served_type(artifact) for artifact in found.artifacts},
        )

    @router.get("/jobs/{job_id}/artifacts/{name:path}")
    def artifact(job_id: str, name: str) -> Response:
        held = next((item for item in _job(pages, job_id).artifacts if item.name == name), None)
        if held is None:
            raise HTTPException(404, "this job has no such artifact")
        kind, inline = shown.served_type(held)
        file_name = quote(name.rpartition("/")[2], safe="")
        headers = HEADERS | {
            "content-security-policy": "default-src 'none'; sandbox",
            "content-disposition": f"{'inline' if inline else 'attachment'}; filename*=UTF-8''{file_name}",
        }
        content = pages.load(held.digest)
        if kind.startswith("text/"):
            content = redact(content.decode("utf-8", "surrogateescape")).encode("utf-8", "surrogateescape")
        return Response(content, media_type=kind, headers=headers)

    @router.get("/static/style.css")
    def style() -> Response:
        return FileResponse(
            FOLDER / "static" / "style.css", media_type="text/css", headers={"x-content-type-options": "nosniff"}
        )

    add_kernel_routes(router, pages.addresses.html_url)
    return router


def _job(pages: Pages, job_id: str) -> JobView:
    found = pages.get_job(job_id)
    if found is None:
        raise HTTPException(404, "there is no such job")
    return found


def _guard(password: str) -> Callable[[HTTPBasicCredentials], None]:
    def check(given: Annotated[HTTPBasicCredentials, Depends(_BASIC)]) -> None:
        if not hmac.compare_digest(given.password.encode(), password.encode()):
            raise _BASIC.make_not_authenticated_error()

    return check
