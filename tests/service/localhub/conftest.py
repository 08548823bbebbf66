"""A hub behind a socket, with people, an app and one repository, and PyGithub pointed at it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from github import Auth, Github, GithubIntegration
from github.Repository import Repository

from deploy.localhub.hub import Hub
from deploy.localhub.server import HubServer
from tests.done_once import keys

FILES = {"README.md": b"# lib\n", "src/ops.py": b"def one():\n    return 1\n", "data/rows.csv": b"a,b\r\n1,2\r\n"}


@dataclass
class Place:
    """What a test works with."""

    hub: Hub
    server: HubServer
    private_key: str
    app_id: int
    installation_id: int

    def as_person(self, login: str = "alice") -> Github:
        return self._github(Auth.Token(self.hub.add_token(login)))

    def as_app(self) -> Github:
        return self._github(Auth.AppInstallationAuth(self.app_auth(), self.installation_id))

    def app_auth(self) -> Auth.AppAuth:
        return Auth.AppAuth(self.app_id, self.private_key)

    def integration(self) -> GithubIntegration:
        return GithubIntegration(
            auth=self.app_auth(),
            base_url=self.server.api_url,
            seconds_between_requests=None,
            seconds_between_writes=None,
            retry=None,
        )

    def repo(self, github: Github | None = None) -> Repository:
        return (github or self.as_app()).get_repo("acme/lib")

    def _github(self, auth: Auth.Auth) -> Github:
        return Github(
            auth=auth,
            base_url=self.server.api_url,
            seconds_between_requests=None,
            seconds_between_writes=None,
            retry=None,
        )


@pytest.fixture(scope="session")
def key_pair() -> tuple[str, str]:
    return keys()


@pytest.fixture
def hub(tmp_path: Path, key_pair: tuple[str, str]) -> Hub:
    hub = Hub(tmp_path / "hub")
    hub.create_repository("acme", "lib", files=FILES)
    for login, role in (("alice", "write"), ("bob", "triage"), ("carol", "read")):
        hub.add_user(login)
        hub.add_collaborator("acme/lib", login, role)
    app = hub.add_app("smith", "acme", key_pair[1], hook_url="http://127.0.0.1:9/hook", hook_secret="s3cret")
    hub.install(app, "acme")
    hub.deliveries.transport = _nobody
    hub.deliver_all()
    return hub


def _nobody(_url: str, _headers: object, _body: bytes) -> object:
    from deploy.localhub.webhooks import HookAnswer

    return HookAnswer(202, {}, "")


@pytest.fixture
def place(hub: Hub, key_pair: tuple[str, str]) -> Iterator[Place]:
    app = next(iter(hub.world.state.apps.values()))
    installation = next(iter(hub.world.state.installations.values()))
    with HubServer(hub) as server:
        yield Place(hub, server, key_pair[0], app.id, installation.id)
    assert hub.errors == [], "localhub itself broke"
