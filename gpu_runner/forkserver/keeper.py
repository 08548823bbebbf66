"""The fork servers of this process: one for each environment that its children get, started at the first of them."""

from __future__ import annotations

import atexit
import logging
import os
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path

from gpu_runner.forkserver.client import Forked, ForkError, ForkServer
from gpu_runner.sandbox import environment
from gpu_runner.settings import forks_children

_log = logging.getLogger(__name__)
_guard = threading.Lock()
_servers: dict[tuple[tuple[str, str], ...], ForkServer] = {}
_given_up: list[str] = []


def warm_up(gpu: bool) -> None:
    """Start the server for such children, and do not wait for it."""
    _server(gpu)


def fork(gpu: bool, variables: Mapping[str, str], folder: Path, handles: Sequence[int]) -> Forked | None:
    """A forked child with these variables; None where it has to be a fresh interpreter."""
    server = _server(gpu)
    if server is None:
        return None
    try:
        return server.fork(variables, folder, handles)
    except ForkError as error:
        give_up(str(error))
        return None


def give_up(reason: str) -> None:
    """Fork no child any more in this process, and say why."""
    with _guard:
        if not _given_up:
            _log.warning("children are started by fresh interpreters from here on: %s", reason)
        _given_up.append(reason)


def why_not() -> str | None:
    """Why children are not forked here; None where they are."""
    if not forks_children():
        return "it is switched off"
    return _given_up[0] if _given_up else None


def started_s(gpu: bool) -> float | None:
    """Import time of the server for such children; None where there is none, or it is not ready."""
    with _guard:
        server = _servers.get(_key(gpu)) if why_not() is None else None
    return server.started_s if server else None


def _server(gpu: bool) -> ForkServer | None:
    if why_not() is not None:
        return None
    key = _key(gpu)
    with _guard:
        server = _servers.get(key)
        if server is not None and server.owner == os.getpid():
            return server
        if not _servers:
            atexit.register(close)
        try:
            server = _servers[key] = ForkServer(gpu)
        except OSError as error:
            _given_up.append(str(error))
            _log.warning("children are started by fresh interpreters: %s", error)
            return None
        return server


def _key(gpu: bool) -> tuple[tuple[str, str], ...]:
    """The environment that is the same for every child: packages read some of it at import."""
    return (("gpu", str(gpu)), *sorted(environment(Path("/"), gpu).items()))


def close() -> None:
    """End the servers."""
    with _guard:
        for server in _servers.values():
            server.close()
        _servers.clear()
