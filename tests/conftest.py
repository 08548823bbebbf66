"""What holds for every test: no setting of this machine, no GPU, no network beyond this machine, no time limit on properties."""

from __future__ import annotations

import gc
import hashlib
import logging
import os
import sys
import threading
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import structlog
from hypothesis import settings

if TYPE_CHECKING:
    from tests.workers.store.servers import Postgres

SLOW_S = 10.0
SLOWEST_FILES = int(os.environ.get("SLOWEST_FILES", "10"))
LOOPBACK = ("127.", "::1", "localhost")

# Before anything of the project is imported: some of it reads its environment at import.
for _name in list(os.environ):
    if _name.startswith(("KERNELSMITH_", "DATABASE_URL", "REDIS_URL")):
        del os.environ[_name]
os.environ["TRITON_INTERPRET"] = "1"
# Tensors of tests are small: the threads of torch would wait for each other, and for those of the other processes.
os.environ["OMP_NUM_THREADS"] = "1"
# Otherwise each of the processes that tests start compiles the product anew.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False
# The suite runs its own code alone, and in containers where nothing else holds. Levels that hold are used all the same.
os.environ["KERNELSMITH_REQUIRE_ISOLATION"] = '["process"]'

from gpu_runner.verify.draws import MASTER_BYTES, Draws  # noqa: E402 - after the environment is set
from tests import run_folder, turns  # noqa: E402
from workers import redaction  # noqa: E402

# As the product logs an exception: to colour its frames and show their variables takes a tenth of a second.
structlog.get_config()["processors"][-1].exception_formatter = structlog.dev.plain_traceback

RUN_FOLDER = pytest.StashKey[Path]()
TURN = pytest.StashKey[tuple[int, list[str]]]()  # with what was changed

# A busy machine is no fault of the code. Properties are tried on the same examples in every run, but with `--draws secret`; on a
# quarter of them in `make test`.
settings.register_profile("untimed", deadline=None, derandomize=True)
settings.register_profile("few", deadline=None, derandomize=True, max_examples=25)
settings.register_profile("search", deadline=None)


@pytest.fixture(autouse=True)
def _no_known_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep what one test configures from being taken out of another's text."""
    monkeypatch.setattr(redaction, "_known", frozenset())


def _stay_on_this_machine(event: str, arguments: tuple[object, ...]) -> None:
    if event == "socket.connect" and isinstance(address := arguments[1], tuple):
        host = str(address[0])
    elif event == "socket.getaddrinfo":
        host = str(arguments[0] or "localhost")
    else:
        return
    if not host.startswith(LOOPBACK):
        raise PermissionError(f"a test reached for {host}: sockets beyond this machine are closed")


sys.addaudithook(_stay_on_this_machine)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Let the recordings be made anew: ``pytest tests/conversations --record``."""
    parser.addoption("--record", action="store_true", help="ask the real runner where tests/recorded has no answer")
    parser.addoption(
        "--turn",
        type=int,
        choices=range(turns.TURNS),
        help=f"which of the {turns.TURNS} turns `make test` takes; by default the commit's, and all of what changed",
    )
    parser.addoption("--write-turns", action="store_true", help="run the tests of all turns, and list what takes long")
    parser.addoption(
        "--draws", default="0", help="word that stands for the secret seed of each verdict; 'secret' draws it"
    )


def pytest_configure(config: pytest.Config) -> None:
    """Draw the same cases in every run, so that a failure can be repeated; `make cheats` draws others each time.

    Have xdist hand out files in the order of their collection, which is set below, not by how many tests they hold.

    Python's collector waits while everything is imported: it finds nothing there, and takes a fifth of that time.
    """
    gc.disable()
    theirs = getattr(config, "workerinput", None)
    config.stash[TURN] = theirs["turn"] if theirs else turns.chosen(config.option.turn)
    if not hasattr(config, "workerinput") and config.option.basetemp is None:
        folder = config.stash[RUN_FOLDER] = run_folder.make()
        config.option.basetemp = folder / "tests"
    if (word := config.getoption("--draws")) == "secret":
        settings.load_profile("search")
    else:
        settings.load_profile("few" if _is_quick(config) else "untimed")
        master = hashlib.sha256(word.encode()).hexdigest()[: 2 * MASTER_BYTES]
        Draws.fresh = classmethod(lambda cls: cls(master))  # type: ignore[method-assign,assignment]
    if hasattr(config.option, "loadscopereorder"):
        config.option.loadscopereorder = False


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Have xdist's workers agree on the turn."""
    node.workerinput["turn"] = node.config.stash[TURN]


def _is_quick(config: pytest.Config) -> bool:
    """Whether this is `make test`."""
    return bool(config.option.markexpr == "not long")


def pytest_report_header(config: pytest.Config) -> list[str]:
    """How this run is repeated at another commit."""
    turn, changed = config.stash[TURN]
    whole = f", and all of {', '.join(changed)}" if changed else ""
    return [f"of what takes long --turn {turn}{whole}"] if _is_quick(config) else []


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Leave neither a folder nor a process, and fail where a process was left; the folder of a run that fails is kept."""
    folder = session.config.stash.get(RUN_FOLDER, None)
    if folder is None or session.exitstatus not in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED):
        return
    run_folder.end(folder)
    # Without xdist some processes end with this one, and with it they have ended with its workers.
    if getattr(session.config.option, "tx", None) and (left := run_folder.kill_left(folder)):
        sys.stderr.write("\n".join(["", "processes that the tests left:", *left, ""]))
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave to other turns what is theirs; begin with the files that have a slow test, and end with those of few tests.

    A file that takes long and came last would run while the other processes have nothing to do.
    """
    if _is_quick(config) and not config.option.write_turns:
        out = turns.left_out(items, *config.stash[TURN])
        config.hook.pytest_deselected(items=[*out])
        items[:] = [item for item in items if item not in out]
    slow = {item.path for item in items if item.get_closest_marker("slow")}
    tests = Counter(item.path for item in items)
    items.sort(key=lambda item: (item.path not in slow, -tests[item.path], str(item.path)))


def pytest_collection_finish() -> None:
    """Leave what the whole run keeps out of the collector's later passes, and share between tests what they do alike."""
    if "workers.store.database" in sys.modules:
        from tests import done_once, outlined

        done_once.do_once()
        outlined.outline()
    if "gpu_runner.forkserver.client" in sys.modules:
        from tests import warm_runner

        warm_runner.warm_servers()
        if "workers.gpu_host.execute" in sys.modules:
            warm_runner.warm()
    gc.collect()
    gc.freeze()
    gc.enable()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Name the slowest files, and tests that should begin early and are not marked so; on a busy machine some for no reason."""
    # What sets up or tears down a test has the empty word for its outcome.
    for report in (*terminalreporter.getreports("passed"), *terminalreporter.getreports("")):
        if report.duration > SLOW_S and "slow" not in report.keywords:
            terminalreporter.write_line(
                f"{report.nodeid} took {report.duration:.0f} s ({report.when}) and is not marked slow"
            )
    took, cases = defaultdict[str, float](float), defaultdict[str, float](float)
    for reports in terminalreporter.stats.values():
        for report in reports:
            if isinstance(report, pytest.TestReport):
                took[report.nodeid.partition("::")[0]] += report.duration
                cases[report.nodeid] += report.duration
    if config.option.write_turns:
        turns.write(cases)
    terminalreporter.write_line(f"{sum(took.values()):.0f} s of tests; the files that took longest:")
    for path in sorted(took, key=lambda path: -took[path])[:SLOWEST_FILES]:
        terminalreporter.write_line(f"{took[path]:7.1f} s  {path}")


@pytest.fixture(autouse=True)
def _logging_as_it_was() -> Iterator[None]:
    """Put logging back after each test: a command run in this process sends it to a stream that is closed by the next one."""
    configured, before, root = structlog.is_configured(), structlog.get_config(), logging.getLogger()
    handlers, level = root.handlers[:], root.level
    hooks = sys.excepthook, threading.excepthook, logging.raiseExceptions
    yield
    sys.excepthook, threading.excepthook, logging.raiseExceptions = hooks
    logging.captureWarnings(False)
    root.handlers[:] = handlers
    root.setLevel(level)
    structlog.configure(**before)
    if not configured:
        structlog.reset_defaults()


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[Postgres]:
    """A PostgreSQL of this process's own. Here alone: a fixture that two conftests import is set up twice."""
    from tests.workers.store.servers import postgres

    with postgres() as server:
        yield server


@pytest.fixture(scope="session")
def repository_root() -> Path:
    """Give the folder of the project."""
    return Path(__file__).parents[1]
