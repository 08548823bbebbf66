"""The world of a hub: its state, its repositories, who acts in it, and what was asked of it."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from deploy.localhub.git import BareRepository
from deploy.localhub.operations import Faults, not_found
from deploy.localhub.state import App, Delivery, Issue, Pull, Repository, State, User

GHOST = User(0, "ghost", "User", "Deleted user", "ghost@localhub.invalid")
_ROLES = ("none", "read", "triage", "write", "maintain", "admin")


@dataclass(frozen=True)
class Actor:
    """Who does something: a user, perhaps the bot user of ``app``."""

    user: User
    app: App | None = None

    @property
    def login(self) -> str:
        """The name it is seen under."""
        return self.user.login

    @property
    def app_id(self) -> int | None:
        """The app that it acts through."""
        return self.app.id if self.app else None


@dataclass(frozen=True)
class RequestRecord:
    """One API request, as a test counts them."""

    operation: str
    method: str
    path: str
    login: str | None
    status: int


def utc_now() -> datetime:
    """The time, in whole seconds as GitHub gives it."""
    return datetime.now(UTC).replace(microsecond=0)


@dataclass
class World:
    """Everything the hub knows. Whoever reads or changes the state holds ``lock``."""

    data_dir: Path
    state: State
    clock: Callable[[], datetime] = utc_now
    base_url: str = "http://127.0.0.1:8900"
    faults: Faults = field(default_factory=Faults)
    lock: threading.RLock = field(default_factory=threading.RLock)
    undelivered: deque[Delivery] = field(default_factory=deque)
    requests: deque[RequestRecord] = field(default_factory=lambda: deque(maxlen=20_000))
    errors: deque[str] = field(default_factory=lambda: deque(maxlen=100))  # tracebacks of what broke in the hub itself
    admin_page: bool = False  # whether the first page lists people and tokens
    archive_tickets: dict[str, tuple[int, str]] = field(default_factory=dict)  # of private downloads

    @property
    def api_url(self) -> str:
        """The root of the REST API."""
        return f"{self.base_url}/api/v3"

    def git(self, repository: Repository) -> BareRepository:
        """The repository's git data."""
        return BareRepository(self.data_dir / "git" / f"{repository.id}.git")

    def find_repository(self, full_name: str) -> Repository | None:
        """A repository by ``owner/name``, whose letters' case does not matter."""
        wanted = full_name.lower()
        items = self.state.repositories.values()
        named = (item for item in items if item.full_name.lower() == wanted)
        return next(named, None) or next((item for item in items if wanted in item.former_names), None)

    def repository(self, full_name: str) -> Repository:
        """A repository by ``owner/name``. Raises: ApiError 404."""
        found = self.find_repository(full_name)
        if found is None:
            raise not_found()
        return found

    def find_user(self, login: str) -> User | None:
        """A user by login, whose letters' case does not matter."""
        return self.state.users.get(login.lower())

    def user(self, login: str) -> User:
        """A user by login; the ghost where the account is gone."""
        return self.find_user(login) or GHOST

    def actor(self, login: str) -> Actor:
        """A user who acts, with its app where it is a bot. Raises: ApiError 404."""
        user = self.find_user(login)
        if user is None:
            raise not_found()
        app = next((app for app in self.state.apps.values() if app.bot_login == user.login), None)
        return Actor(user, app)

    def issue(self, repository: Repository, number: int) -> Issue:
        """An issue or pull request. Raises: ApiError 404."""
        found = repository.issues.get(number)
        if found is None:
            raise not_found()
        return found

    def pull(self, repository: Repository, number: int) -> tuple[Issue, Pull]:
        """A pull request with its issue. Raises: ApiError 404."""
        issue = self.issue(repository, number)
        if issue.pull is None:
            raise not_found()
        return issue, issue.pull

    def role(self, repository: Repository, login: str) -> str:
        """The highest permission: none, read, triage, write, maintain or admin."""
        if login.lower() == repository.owner.lower():
            return "admin"
        granted = {name.lower(): role for name, role in repository.collaborators.items()}.get(login.lower())
        return granted or ("none" if repository.private else "read")

    def has_role(self, repository: Repository, login: str, wanted: str) -> bool:
        """Whether somebody's permission is at least ``wanted``."""
        return _ROLES.index(self.role(repository, login)) >= _ROLES.index(wanted)


LIMIT = 5000
_WINDOW_S = 3600
_MOST_USED = 1000  # A hub that runs for days must not slow down a bot that minds its limits.


def rate_limit_status(world: World) -> dict[str, Any]:
    """The window as it is. Units: ``reset`` in seconds since 1970."""
    now = int(world.clock().timestamp())
    used = len(world.requests) % _MOST_USED
    return {"limit": LIMIT, "remaining": LIMIT - used, "reset": now - now % _WINDOW_S + _WINDOW_S, "used": used}


def rate_limit_headers(world: World) -> dict[str, str]:
    """The headers of every response."""
    shape = {f"x-ratelimit-{name}": str(value) for name, value in rate_limit_status(world).items()}
    return shape | {"x-ratelimit-resource": "core"}
