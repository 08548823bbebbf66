"""One installation for each test, on ports and in folders of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import BinaryIO

import pytest

from deploy.localhub.hub import Hub
from deploy.localhub.server import HubServer
from tests.conversations.asking import Line
from tests.conversations.modifying import LIGER
from tests.done_once import keys
from tests.faults import modelled, optimizing
from tests.faults.installation import REPOSITORY, ROOT, SECRET, SEVERAL_MACHINES, Installation
from tests.faults.modelled import Modelled
from tests.faults.optimizing import Undisturbed
from tests.faults.processes import free_port
from tests.recorded.libraries import PLAIN, STANDING
from tests.workers.models.kinds import ANTHROPIC
from tests.workers.store.servers import redis_over_tcp
from workers import embedded

LEASE_S = 2  # of what is renewed while somebody works on it
# Of what is not: it holds what a service that has just started needs for a command while its workers start beside it, on a
# machine that has other things to do. Of one that is too short each try is cut off, and the pauses between them grow.
WORK_S = 8


@pytest.fixture
def install(tmp_path: Path) -> Iterator[Callable[..., Installation]]:
    """Start an installation, with more variables; ``deliver`` False leaves it to the test to deliver webhooks."""
    with ExitStack() as stack:
        yield lambda more=None, deliver=True: stack.enter_context(installed(tmp_path, PLAIN, more, deliver=deliver))


@pytest.fixture
def installation(install: Callable[..., Installation]) -> Installation:
    """An installation to which webhooks are delivered as they happen."""
    return install()


@pytest.fixture
def standing(tmp_path: Path) -> Iterator[Installation]:
    """An installation for a library with a kernel that can be made faster."""
    with installed(tmp_path, STANDING) as installation:
        optimizing.answers(installation.desk)
        yield installation


@pytest.fixture
def machines(tmp_path: Path) -> Iterator[Installation]:
    """The same with the service, the stages and the GPU host apart, as on machines of their own."""
    with _several(tmp_path) as installation:
        yield installation


@pytest.fixture
def line() -> Iterator[Line]:
    """A provider of a model; what it answers, somebody has to ask for."""
    with ANTHROPIC.serve() as server:
        yield Line(ANTHROPIC, server)


@pytest.fixture
def asking(tmp_path: Path, line: Line) -> Iterator[Modelled]:
    """An installation for that library whose jobs may ask the model."""
    with installed(tmp_path, STANDING, modelled.settings(line)) as installation:
        optimizing.answers(installation.desk)
        yield Modelled(installation, line)


@pytest.fixture
def asking_to_modify(tmp_path: Path, line: Line) -> Iterator[Modelled]:
    """An installation for that library with a test file of the kernel, whose jobs may ask the model."""
    with installed(tmp_path, LIGER, modelled.settings(line)) as installation:
        optimizing.answers(installation.desk)
        yield Modelled(installation, line)


@pytest.fixture
def asking_machines(tmp_path: Path, line: Line) -> Iterator[Modelled]:
    """The same on machines of their own."""
    with _several(tmp_path, modelled.settings(line)) as installation:
        yield Modelled(installation, line)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Undisturbed:
    """What an optimize job comes to that nobody disturbs."""
    with installed(tmp_path_factory.mktemp("undisturbed"), STANDING) as installation:
        optimizing.answers(installation.desk)
        issue = optimizing.ask(installation)
        return optimizing.look(installation, issue)


@pytest.fixture(scope="module")
def undisturbed_asking(tmp_path_factory: pytest.TempPathFactory) -> Undisturbed:
    """What an optimize job comes to that a model writes the variants of and nobody disturbs."""
    with (
        ANTHROPIC.serve() as server,
        installed(
            tmp_path_factory.mktemp("undisturbed"), STANDING, modelled.settings(Line(ANTHROPIC, server))
        ) as installation,
    ):
        optimizing.answers(installation.desk)
        asking = Modelled(installation, Line(ANTHROPIC, server).answer(*modelled.SAID))
        issue = asking.ask()
        found = optimizing.look(installation, issue, modelled.OPTIMIZED)
        assert asking.paid() == modelled.answered(*modelled.QUESTIONS)
        assert optimizing.requested(installation) == modelled.REQUESTS
        return found


@contextmanager
def _several(folder: Path, more: Mapping[str, str] | None = None) -> Iterator[Installation]:
    with redis_over_tcp(folder) as redis_url:
        state = folder / "state"
        shared = {
            "REDIS_URL": redis_url,
            "DATABASE_URL": f"sqlite:///{state / 'kernelsmith.sqlite3'}",
            "KERNELSMITH_ARTIFACTS_URL": str(state / "artifacts"),
        }
        with installed(folder, STANDING, shared | dict(more or {}), SEVERAL_MACHINES) as installation:
            optimizing.answers(installation.desk)
            yield installation


@contextmanager
def installed(
    folder: Path,
    files: Mapping[str, bytes],
    environment: Mapping[str, str] | None = None,
    commands: Mapping[str, tuple[str, ...]] | None = None,
    *,
    deliver: bool = True,
    log: BinaryIO | None = None,
) -> Iterator[Installation]:
    """Start an installation; what it prints goes to ``log``, by default a file in the folder."""
    with ExitStack() as stack:
        port = stack.enter_context(free_port())
        hub = Hub(folder / "hub")
        server = stack.enter_context(HubServer(hub, deliver=deliver))
        log = log or stack.enter_context((folder / "kernelsmith.log").open("wb"))
        variables = _environment(folder, port, server) | _people_and_app(hub, port, folder, files)
        made = Installation(hub, server.url, folder, port, variables | dict(environment or {}), log)
        made.commands = dict(commands or made.commands)
        for name in ("pause", "paused", "answers"):
            (made.desk / name).mkdir(parents=True)
        (folder / "state").mkdir()
        stack.callback(made.end)
        for name in made.commands:
            made.start(name)
        embedded.configure(folder / "state")
        stack.callback(embedded.close)
        yield made


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
        "KERNELSMITH_PUBLISH_LEASE_S": str(WORK_S),
        "KERNELSMITH_DELIVERY_LEASE_S": str(WORK_S),
        "KERNELSMITH_RECONCILE_EVERY_S": "1",
        "KERNELSMITH_RENOTIFY_AFTER_S": "1",
        "KERNELSMITH_STAGE_PROCESSES": "1",
        "KERNELSMITH_REQUIRE_ISOLATION": '["process"]',
    }


def _people_and_app(hub: Hub, port: int, folder: Path, files: Mapping[str, bytes]) -> dict[str, str]:
    owner, name = REPOSITORY.split("/")
    hub.add_user("maintainer")
    hub.create_repository(owner, name, files=dict(files))
    hub.add_collaborator(REPOSITORY, "maintainer", "write")
    private, public = keys()
    (folder / "app.pem").write_text(private)
    app = hub.add_app("smith", owner, public, f"http://127.0.0.1:{port}/webhook", SECRET)
    hub.install(app, owner)
    return {
        "KERNELSMITH_APP_ID": str(app.id),
        "KERNELSMITH_PRIVATE_KEY_PATH": str(folder / "app.pem"),
        "KERNELSMITH_BOT_LOGIN": app.bot_login,
    }
