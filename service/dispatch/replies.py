"""Replies: one comment for one thing that a person wrote, however often its delivery comes."""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime, timedelta

from service.dispatch.desk import Desk
from service.dispatch.payloads import Text
from service.github import GitHubClient
from service.report.layout import NO_JOB, Kind, Marker, find_marker, signed

LOOK_BACK = timedelta(days=3)  # longer than GitHub keeps deliveries for redelivery


def key_of(text: Text) -> str:
    """Give what a reply is found by: what was written, in the form it had; an edit gets a reply of its own."""
    digest = hashlib.sha256(text.body.encode("utf-8", "replace")).hexdigest()[:12]
    return f"{text.source}.{digest}"


def reply_once(desk: Desk, github: GitHubClient, text: Text, sentences: tuple[str, ...]) -> None:
    """Answer what a person wrote, unless it was answered before."""
    if not sentences:
        return
    key, number = key_of(text), text.place.number
    bot = desk.clients.bot_login()
    since = datetime.now(UTC) - LOOK_BACK
    for comment in github.conversation.comments(number, since):
        if comment.author == bot and find_marker(comment.body) == Marker(NO_JOB, Kind.reply, key):
            return
    body = "\n\n---\n\n".join(sentence.strip() for sentence in sentences)
    github.conversation.comment(number, signed(body, NO_JOB, Kind.reply, key))
