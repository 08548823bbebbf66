"""Errors in GitHub's JSON form, as values that a route, a page and the Python API can raise alike."""

from __future__ import annotations

from typing import Any

DOCUMENTATION_URL = "https://docs.github.com/rest"


class ApiError(Exception):
    """A request that is refused: the status, GitHub's message and its list of errors."""

    def __init__(
        self,
        status: int,
        message: str,
        errors: list[dict[str, Any]] | None = None,
        headers: dict[str, str] | None = None,
    ) -> None:
        super().__init__(f"{status} {message}" + (f" {errors}" if errors else ""))
        self.status = status
        self.message = message
        self.errors = errors
        self.headers = headers or {}

    def body(self) -> dict[str, Any]:
        """The JSON body that GitHub answers with."""
        shape: dict[str, Any] = {"message": self.message}
        if self.errors is not None:
            shape["errors"] = self.errors
        return shape | {"documentation_url": DOCUMENTATION_URL, "status": str(self.status)}


def not_found() -> ApiError:
    """404, also for what a token may not see: GitHub does not tell the two apart."""
    return ApiError(404, "Not Found")


def forbidden(message: str = "Resource not accessible by integration") -> ApiError:
    """403 for what may be seen and not be done."""
    return ApiError(403, message)


def unauthorized(message: str = "Bad credentials") -> ApiError:
    """401 for a credential that is none."""
    return ApiError(401, message)


def invalid(resource: str, field: str, code: str, message: str | None = None) -> ApiError:
    """422 with one entry in ``errors``; ``code`` such as ``missing_field``, ``invalid``, ``already_exists``, ``custom``."""
    error = {"resource": resource, "field": field, "code": code}
    if message is not None:
        error["message"] = message
    return ApiError(422, "Validation Failed", [error])


def unprocessable(message: str) -> ApiError:
    """422 with a message alone, as the Git Data API and reviews answer."""
    return ApiError(422, message)
