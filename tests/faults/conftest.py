"""One installation for each test, on ports and in folders of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from service.localhub import Hub, HubServer
from tests.faults.installation import REPOSITORY, ROOT, SECRET, Installation, free_port
from tests.recorded.libraries import PLAIN
from workers import embedded

LEASE_S = 2


@pytest.fixture
def install(tmp_path: Path) -> Iterator[Callable[..., Installation]]:
    """Start an installation; ``deliver`` False leaves it to the test to deliver webhooks."""
    with ExitStack() as stack:

        def start(deliver: bool = True) -> Installation:
            port = stack.enter_context(free_port())
            hub = Hub(tmp_path / "hub")
            server = stack.enter_context(HubServer(hub, deliver=deliver))
            log = stack.enter_context((tmp_path / "kernelsmith.log").open("wb"))
            environment = _environment(tmp_path, port, server) | _people_and_app(hub, port, tmp_path)
            made = Installation(hub, tmp_path, port, environment, log)
            for name in ("pause", "paused", "answers"):
                (made.desk / name).mkdir(parents=True)
            made.start()
            stack.callback(_end, made)
            embedded.configure(tmp_path / "state")
            stack.callback(embedded.close)
            return made

        yield start


@pytest.fixture
def installation(install: Callable[..., Installation]) -> Installation:
    """An installation to which webhooks are delivered as they happen."""
    return install()


def _environment(folder: Path, port: int, server: HubServer) -> dict[str, str]:
    return {
        "PYTHONPATH": str(ROOT),
        "KERNELSMITH_TESTS_DESK": str(folder / "desk"),
        "KERNELSMITH_DATA_DIR": str(folder / "state"),
        "KERNELSMITH_WEBHOOK_SECRETS": SECRET,
        "KERNELSMITH_API_URL": server.api_url,
        "KERNELSMITH_HTML_URL": server.url,
        "KERNELSMITH_PUBLIC_URL": f"http://127.0.0.1:{port}",
        "KERNELSMITH_PORT": str(port),
        "KERNELSMITH_ARCHITECTURE": "interpreter",
        "KERNELSMITH_POLL_S": "0.2",
        "KERNELSMITH_LEASE_S": str(LEASE_S),
        "KERNELSMITH_PUBLISH_LEASE_S": str(LEASE_S),
        "KERNELSMITH_DELIVERY_LEASE_S": str(LEASE_S),
        "KERNELSMITH_RECONCILE_EVERY_S": "1",
        "KERNELSMITH_RENOTIFY_AFTER_S": "1",
        "KERNELSMITH_STAGE_PROCESSES": "1",
    }


def _people_and_app(hub: Hub, port: int, folder: Path) -> dict[str, str]:
    owner, name = REPOSITORY.split("/")
    hub.add_user("maintainer")
    hub.create_repository(owner, name, files=PLAIN)
    hub.add_collaborator(REPOSITORY, "maintainer", "write")
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    public = key.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    (folder / "app.pem").write_bytes(private)
    app = hub.add_app("smith", owner, public.decode(), f"http://127.0.0.1:{port}/webhook", SECRET)
    hub.install(app, owner)
    return {
        "KERNELSMITH_APP_ID": str(app.id),
        "KERNELSMITH_PRIVATE_KEY_PATH": str(folder / "app.pem"),
        "KERNELSMITH_BOT_LOGIN": app.bot_login,
    }


def _end(installation: Installation) -> None:
    if installation.serving is not None:
        installation.serving.kill()
        installation.serving.wait()
