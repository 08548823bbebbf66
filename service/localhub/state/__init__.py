"""All that a hub remembers besides git, as plain dataclasses that pydantic can write to JSON and read back."""

from service.localhub.state.accounts import App, Delivery, Hook, Installation, Token, User
from service.localhub.state.repository import Annotation, CheckRun, Label, Repository
from service.localhub.state.store import State, load, save
from service.localhub.state.talk import Comment, Event, Issue, Pull, Reaction, Review, ReviewComment

__all__ = [
    "Annotation",
    "App",
    "CheckRun",
    "Comment",
    "Delivery",
    "Event",
    "Hook",
    "Installation",
    "Issue",
    "Label",
    "Pull",
    "Reaction",
    "Repository",
    "Review",
    "ReviewComment",
    "State",
    "Token",
    "User",
    "load",
    "save",
]
