"""Pages for browsers where there is nothing to show: the reason, and what to do. Programs get both as JSON."""

from __future__ import annotations

from collections.abc import Callable
from http import HTTPStatus
from typing import cast

from fastapi import FastAPI, HTTPException, Request
from fastapi.exception_handlers import http_exception_handler, request_validation_exception_handler
from fastapi.exceptions import RequestValidationError
from fastapi.responses import Response
from starlette.exceptions import HTTPException as AnyHTTPException

API = "/api/"
FIXES = {
    HTTPStatus.UNAUTHORIZED: (
        "The operator of this installation has the password (`KERNELSMITH_PAGES_PASSWORD`); any user name goes with it."
    ),
    HTTPStatus.UNPROCESSABLE_ENTITY: "Correct the address, or start from the jobs or the kernels.",
}
DEFAULT_FIX = "Start from the jobs or the kernels; every page is linked from there."

Render = Callable[[int, str, str], Response]  # status, reason, fix


class NoPageError(HTTPException):
    """Nothing at this address; ``fix`` is what to do instead."""

    def __init__(self, detail: str, fix: str) -> None:
        super().__init__(HTTPStatus.NOT_FOUND, detail)
        self.fix = fix


def add_error_pages(app: FastAPI, render: Render) -> None:
    """Answer browsers with pages wherever the application refuses a request."""

    async def refused(request: Request, error: Exception) -> Response:
        http_error = cast(AnyHTTPException, error)
        if not _wants_page(request):
            return await http_exception_handler(request, http_error)
        fix = getattr(http_error, "fix", None) or FIXES.get(HTTPStatus(http_error.status_code), DEFAULT_FIX)
        answer = render(http_error.status_code, str(http_error.detail), fix)
        answer.headers.update(http_error.headers or {})
        return answer

    async def invalid(request: Request, error: Exception) -> Response:
        validation_error = cast(RequestValidationError, error)
        if not _wants_page(request):
            return await request_validation_exception_handler(request, validation_error)
        names = ", ".join(dict.fromkeys(f"`{item['loc'][-1]}`" for item in validation_error.errors()))
        status = HTTPStatus.UNPROCESSABLE_ENTITY
        return render(status, f"the address has no value, or an impossible one, for {names}", FIXES[status])

    app.add_exception_handler(AnyHTTPException, refused)
    app.add_exception_handler(RequestValidationError, invalid)


def _wants_page(request: Request) -> bool:
    return not request.url.path.startswith(API) and "text/html" in request.headers.get("accept", "")
