"""The theatre: localhub with the library and its people, and the bot's own processes, all on loopback."""

from __future__ import annotations

import contextlib
import fcntl
import http.client
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from deploy.localhub.hub import Hub
from deploy.localhub.server import HubServer
from workers import embedded
from workers.environment import plain_environment

OWNER, NAME = "example", "liger-kernel"
REPOSITORY = f"{OWNER}/{NAME}"
ASKER, MAINTAINER = "contributor", "maintainer"
BOT = "kernelsmith"
START_S = 90.0
STOP_S = 40.0
OK = 200


class DemoError(Exception):
    """The demo cannot go on; the text says what to do."""


@dataclass(frozen=True)
class Theatre:
    """What the play is played with."""

    hub: Hub
    hub_url: str
    service_url: str
    process: subprocess.Popen[bytes]
    log: Path

    def check(self) -> None:
        """Raise DemoError where the bot's process has ended."""
        if self.process.poll() is not None:
            raise DemoError(f"the bot ended with exit code {self.process.returncode}; read {self.log}")


@contextmanager
def open_theatre(out: Path, library: Path, ports: tuple[int, int] = (0, 0)) -> Iterator[Theatre]:
    """Start everything, and end it again.

    Raises:
        DemoError: the bot did not become ready; its log says why.
    """
    hub = Hub(out / "localhub")
    service_port = ports[1] or free_port()
    service_url = f"http://127.0.0.1:{service_port}"
    with HubServer(hub, port=ports[0], deliver=True) as server:
        bot = register(hub, library, service_url)
        environment = _environment(bot, server, out, service_url) | {"KERNELSMITH_PORT": str(service_port)}
        log = out / "kernelsmith.log"
        with log.open("wb") as output, _running(environment, output) as process:
            theatre = Theatre(hub, server.url, service_url, process, log)
            _await_ready(theatre)
            embedded.configure(out / "state")
            try:
                yield theatre
            finally:
                embedded.close()


@dataclass(frozen=True)
class Registration:
    """The bot's App on the hub: what the bot has to know of it."""

    app_id: int
    private_key: str
    secret: str
    bot_login: str


def register(hub: Hub, library: Path, service_url: str) -> Registration:
    """Put people, library and App on the hub."""
    for login in (ASKER, MAINTAINER):
        hub.add_user(login)
    hub.create_repository(OWNER, NAME, from_folder=library, message="The library as its source distribution holds it")
    hub.add_collaborator(REPOSITORY, MAINTAINER, "write")
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
    )
    public = key.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    secret = secrets.token_hex(32)
    app = hub.add_app(BOT, OWNER, public.decode(), f"{service_url}/webhook", secret)
    hub.install(app, OWNER)
    return Registration(app.id, private.decode(), secret, app.bot_login)


def _environment(bot: Registration, server: HubServer, out: Path, service_url: str) -> dict[str, str]:
    key_file = out / "app.pem"
    key_file.touch(mode=0o600)
    key_file.write_text(bot.private_key)
    return {
        "KERNELSMITH_DATA_DIR": str((out / "state").absolute()),
        "KERNELSMITH_WEBHOOK_SECRETS": bot.secret,
        "KERNELSMITH_APP_ID": str(bot.app_id),
        "KERNELSMITH_PRIVATE_KEY_PATH": str(key_file.absolute()),
        "KERNELSMITH_API_URL": server.api_url,
        "KERNELSMITH_HTML_URL": server.url,
        "KERNELSMITH_PUBLIC_URL": service_url,
        "KERNELSMITH_BOT_LOGIN": bot.bot_login,
        "KERNELSMITH_POLL_S": "0.5",
        # It runs a published library and kernels of the compiler, on hosts of any kind.
        "KERNELSMITH_REQUIRE_ISOLATION": '["process"]',
    }


@contextmanager
def _running(environment: dict[str, str], output: BinaryIO) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(
        [sys.executable, "-m", "service.cli", "serve"],
        env=plain_environment() | environment,
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=subprocess.STDOUT,
    )
    try:
        yield process
    finally:
        process.send_signal(signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(STOP_S)
        if process.poll() is None:
            process.kill()
            process.wait()


def _await_ready(theatre: Theatre) -> None:
    deadline = time.monotonic() + START_S
    while time.monotonic() < deadline:
        theatre.check()
        if _ready_status(theatre.service_url) == OK:
            return
        time.sleep(0.3)
    raise DemoError(f"the bot was not ready within {START_S:.0f} s; read {theatre.log}")


def _ready_status(service_url: str) -> int | None:
    connection = http.client.HTTPConnection(service_url.removeprefix("http://"), timeout=5)
    try:
        connection.request("GET", "/readyz")
        return connection.getresponse().status
    except (OSError, http.client.HTTPException):
        return None
    finally:
        connection.close()


@contextmanager
def empty_folder(out: Path) -> Iterator[None]:
    """``out`` made anew, with no other demo in it meanwhile: each begins by removing what the last one left.

    Raises:
        DemoError: another demo plays there.
    """
    out.parent.mkdir(parents=True, exist_ok=True)
    with out.with_name(f"{out.name}.lock").open("wb") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise DemoError(f"another demo plays in {out}: wait for its end, or give this one another --out") from error
        shutil.rmtree(out, ignore_errors=True)
        out.mkdir()
        yield


KEPT_PORTS = (8900, 8901)


def kept_ports() -> tuple[int, int]:
    """The ports of localhub and of the bot in a demo that stays up, so that its addresses are known.

    Raises:
        DemoError: something listens on one of them.
    """
    for port in KEPT_PORTS:
        try:
            socket.create_server(("127.0.0.1", port)).close()
        except OSError as error:
            raise DemoError(
                f"port {port}: {os.strerror(error.errno or 0)}. A demo that stays up may still run: stop what listens there "
                "(`ss -ltnp` names it), or leave out KEEP=1 (`--keep`)"
            ) from error
    return KEPT_PORTS


def free_port() -> int:
    """A port of loopback that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
