"""Media types as HTTP writes them, read by the library for such headers."""

from __future__ import annotations

from email.message import Message


def content_type(header: str) -> str:
    """The type of a Content-Type in lower case and without parameters; ``text/plain`` where it names none."""
    message = Message()
    message["content-type"] = header
    return message.get_content_type()
