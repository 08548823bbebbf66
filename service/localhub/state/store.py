"""The whole state, and its JSON file."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from pydantic import TypeAdapter

from service.localhub.state.accounts import App, Delivery, Installation, Token, User
from service.localhub.state.repository import Repository


@dataclass
class State:
    """The whole of it."""

    last_id: int = 1000
    users: dict[str, User] = field(default_factory=dict)  # by lower-case login
    apps: dict[int, App] = field(default_factory=dict)
    installations: dict[int, Installation] = field(default_factory=dict)
    tokens: dict[str, Token] = field(default_factory=dict)
    repositories: dict[int, Repository] = field(default_factory=dict)
    deliveries: list[Delivery] = field(default_factory=list)
    teams: dict[str, list[str]] = field(default_factory=dict)  # members by "organisation/team", all in lower case

    def new_id(self) -> int:
        """A number that was never given before; larger means later."""
        self.last_id += 1
        return self.last_id


_ADAPTER = TypeAdapter(State)


def save(state: State, path: Path) -> None:
    """Write the state beside git's data; a reader sees the old file or the new one, never half of one."""
    partial = path.with_suffix(".partial")
    partial.write_bytes(_ADAPTER.dump_json(state))
    partial.replace(path)


def load(path: Path) -> State:
    """The saved state, or a new one where nothing was saved."""
    return _ADAPTER.validate_json(path.read_bytes()) if path.exists() else State()
