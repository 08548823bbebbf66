"""Checks of titles and bodies. Pure."""

from __future__ import annotations

from service.localhub.errors import invalid

MAX_BODY_CHARACTERS = 65_536
_MAX_TITLE_CHARACTERS = 256


def checked_body(resource: str, body: object, required: bool) -> str:
    """A body that GitHub takes. Raises: ApiError 422 where it is no text, is missing or is too long."""
    if body is None and not required:
        return ""
    if not isinstance(body, str):
        raise invalid(resource, "body", "missing_field" if body is None else "invalid", "body is not a string")
    if required and not body.strip():
        raise invalid(resource, "body", "custom", "body can't be blank")
    if len(body) > MAX_BODY_CHARACTERS:
        raise invalid(resource, "body", "custom", f"body is too long (maximum is {MAX_BODY_CHARACTERS} characters)")
    return body


def checked_title(resource: str, title: object) -> str:
    """A title. Raises: ApiError 422."""
    if not isinstance(title, str) or not title.strip():
        raise invalid(resource, "title", "missing_field", "title can't be blank")
    if len(title) > _MAX_TITLE_CHARACTERS:
        raise invalid(resource, "title", "custom", "title is too long (maximum is 256 characters)")
    return title
