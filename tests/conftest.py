"""What holds for every test: no setting of this machine, no GPU, no network beyond this machine, no time limit on properties."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from hypothesis import settings

LOOPBACK = ("127.", "::1", "localhost")

# Before anything of the project is imported: some of it reads its environment at import.
for _name in list(os.environ):
    if _name.startswith(("KERNELSMITH_", "DATABASE_URL", "REDIS_URL")):
        del os.environ[_name]
os.environ["TRITON_INTERPRET"] = "1"

# A busy machine is no fault of the code.
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")


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


@pytest.fixture(scope="session")
def repository_root() -> Path:
    """Give the folder of the project."""
    return Path(__file__).parents[1]
