"""Who there is: users, apps with their installations and tokens, and the webhook requests that went to them."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime


@dataclass
class User:
    """A person, an organisation, or the bot of an app."""

    id: int
    login: str
    type: str  # User, Bot or Organization
    name: str
    email: str


@dataclass
class App:
    """A GitHub App; ``bot_login`` is the user that its installations write as."""

    id: int
    slug: str
    name: str
    owner: str
    public_key_pem: str
    permissions: dict[str, str]
    events: list[str]
    bot_login: str
    hook_url: str | None
    hook_secret: str
    created_at: datetime

    @property
    def client_id(self) -> str:
        """The app's other name, which may issue its JWT as well."""
        return f"Iv1.{self.id:016x}"


@dataclass
class Installation:
    """An app on an account; ``repository_ids`` None: all repositories of that account."""

    id: int
    app_id: int
    account: str
    permissions: dict[str, str]
    repository_ids: list[int] | None
    created_at: datetime


@dataclass
class Token:
    """A personal token (``login``) or an installation's (``installation_id``), perhaps narrowed."""

    value: str
    login: str | None = None
    installation_id: int | None = None
    permissions: dict[str, str] = field(default_factory=dict)
    repository_ids: list[int] | None = None
    expires_at: datetime | None = None


@dataclass
class Hook:
    """A webhook of a repository; ``events`` with ``*`` for all."""

    id: int
    url: str
    secret: str
    events: list[str]


@dataclass
class Delivery:
    """One webhook request; a redelivery has a new ``id`` and the same ``guid``. ``status_code`` 0: no answer came."""

    id: int
    guid: str
    event: str
    action: str | None
    url: str
    secret: str
    payload: str
    app_id: int | None
    installation_id: int | None
    repository_id: int | None
    created_at: datetime
    redelivery: bool = False
    status_code: int | None = None  # None: not delivered yet
    status: str = "pending"
    duration_s: float = 0.0
    request_headers: dict[str, str] = field(default_factory=dict)
    response_headers: dict[str, str] = field(default_factory=dict)
    response_body: str = ""
