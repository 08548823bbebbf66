"""A second process of the runner, which does a part of an action while the first one does the rest: of the threads of one process
Python runs one at a time.

It is as trusted as the first, and what both send is of this module and whoever has it asked. It ends with the first, whatever
ends that.
"""

from __future__ import annotations

import importlib
import logging
import multiprocessing
import os
import pickle
import signal
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.connection import Connection
from typing import Any, NoReturn

from gpu_runner.contracts.envelope import RunnerError
from gpu_runner.forkserver import keeper
from gpu_runner.importing import keep_bytecode, uncollected

MANY_CORES = 8  # with fewer both processes would wait for the same ones
_END_S = 5.0
_log = logging.getLogger(__name__)
_running: list[Companion] = []


class CompanionPipe:
    """One end of what the two processes send each other: any object, in order, from any thread."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._sending = threading.Lock()

    def send(self, what: object) -> None:
        """Send an object; nothing where the other process is gone."""
        data = pickle.dumps(what, pickle.HIGHEST_PROTOCOL)
        with self._sending, suppress(OSError):
            self._connection.send_bytes(data)

    def receive(self) -> Any:
        """The next object, of our own other process.

        Raises:
            EOFError, OSError: it is gone.
        """
        return pickle.loads(self._connection.recv_bytes())  # noqa: S301 - our own process wrote it


class Companion:
    """The second process, which imports what an interpreted verdict needs and waits to be asked, once."""

    def __init__(self) -> None:
        context = multiprocessing.get_context("spawn")
        ours, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(theirs,), name="companion", daemon=True)
        self._process.start()
        theirs.close()
        self._line = CompanionPipe(ours)

    def ask(self, work: Callable[..., None], *arguments: object) -> CompanionPipe:
        """Have it do ``work``, a function of a module, with the line to this process and ``arguments``.

        Raises:
            RunnerError: what it is given cannot be sent.
        """
        self._line.send((work, arguments))
        return self._line

    def how_it_ended(self) -> str:
        """What a reader of the log needs of a process that is gone before its work was done."""
        self._process.join(_END_S)
        code = self._process.exitcode
        if code == -signal.SIGKILL:
            return "was killed, as the system does where memory runs out: see the kernel's log (`dmesg`)"
        return f"ended by itself with exit code {code}: see this log above"

    def is_there(self) -> bool:
        """Whether it has not ended, as the system ends what waits where memory runs out."""
        return self._process.is_alive()

    def end(self) -> None:
        """Wait for its end, which it comes to by itself once its work is done or what it receives has ended."""
        self._process.join(_END_S)
        if self._process.is_alive():
            self._process.kill()
            self._process.join()


def has_cores() -> bool:
    """Whether this host has cores for a second process and what it runs."""
    return (os.cpu_count() or 1) >= MANY_CORES


def start() -> None:
    """Start one for the next action that asks for it."""
    if not _running:
        with suppress(OSError):
            _running.append(Companion())


def take() -> Companion:
    """The one that was started, or a new one where there is none any more.

    Raises:
        RunnerError: no process can be started.
    """
    while _running:
        if (one := _running.pop()).is_there():
            return one
        _log.warning("the runner's second process, which waited, %s; another one is started", one.how_it_ended())
    try:
        return Companion()
    except OSError as error:
        raise RunnerError(f"no second process of the runner starts: {error}") from error


def _serve(connection: Connection) -> NoReturn:
    logging.basicConfig(
        stream=sys.stderr, level=logging.WARNING, format="%(asctime)s %(levelname)s %(name)s %(message)s"
    )
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the first process ends it
    keep_bytecode()
    keeper.warm_up(gpu=False)
    with uncollected():
        importlib.import_module("gpu_runner.verify.judge")
    line = CompanionPipe(connection)
    with suppress(EOFError, OSError):  # nobody asks any more
        work, arguments = line.receive()
        work(line, *arguments)
    keeper.close()
    logging.shutdown()
    os._exit(0)
