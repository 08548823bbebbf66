"""A whole benchmark without a GPU: the real parent and the real roles in one process, with a clock that is told what to say."""

from __future__ import annotations

import contextlib
import importlib
import random
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import torch

from gpu_runner.benchmark import measure, starting
from gpu_runner.benchmark.bench import choose_cases
from gpu_runner.benchmark.measure import measure as run_measure
from gpu_runner.benchmark.rates import Gauged
from gpu_runner.benchmark.roofline import Rates
from gpu_runner.buffers import Buffer
from gpu_runner.child import timing
from gpu_runner.child.handlers import ChildState
from gpu_runner.context import RunContext
from gpu_runner.contracts import BenchmarkRequest, BenchmarkResult, parse_problem
from gpu_runner.errors import ChildDied, ChildError, ChildOutOfMemory
from gpu_runner.messages import LoadContender, LoadReference, PrepareContender, ReleaseWorkload, Request
from gpu_runner.session import ChildReply

_LOCK = threading.RLock()
GAUGED = Gauged("NVIDIA Test", 2**20, Rates(1000.0, 100.0, 10.0), (("driver", "1"),))


class Clock:
    """Every timed run takes what its contender's table entry says, with a little noise. Units: microseconds."""

    def __init__(self, costs: Mapping[str, float], seed: int = 0) -> None:
        self.costs, self.now, self.running = dict(costs), 0.0, ""
        self.stream = random.Random(seed)

    def tick(self) -> float:
        self.now += self.costs.get(self.running, 100.0) * (1 + self.stream.gauss(0, 0.003))
        return self.now


class Memory:
    """Of a GPU, in units of its own. Who finds too little has taken all that there was, as an allocator has when it gives up."""

    def __init__(self, total: int, needs: Mapping[str, int]) -> None:
        self.total, self.needs = total, dict(needs)
        self.held: dict[str, int] = {}

    def take(self, name: str) -> None:
        self.held.pop(name, None)
        free = self.total - sum(self.held.values())
        self.held[name] = min(free, self.needs.get(name, 0))
        if self.held[name] < self.needs.get(name, 0):
            raise ChildOutOfMemory("CUDA out of memory.")


class Room:
    """A session in this process. ``dies`` is the request at which it ends."""

    def __init__(self, role: str, files: Mapping[str, str], clock: Clock, memory: Memory | None = None) -> None:
        self.role, self.files, self.clock = role, dict(files), clock
        self.memory = memory or Memory(0, {})
        self.state = ChildState(Path(tempfile.gettempdir()), Path(tempfile.gettempdir()), gpu=False)
        self.name, self.isolation, self.gpu = role, (), False
        self.dies: type[Request[Any]] | str | None = None
        self.calls: list[type[Request[Any]]] = []

    def call(self, request: Request[Any], tensors: Any = (), timeout_s: float | None = None) -> ChildReply[Any]:
        kind = type(request)
        with _LOCK:
            self.calls.append(kind)
            if kind is self.dies or self.dies == "gone":
                self.dies = "gone"
                raise ChildDied(11, None)
            self.clock.running = self.name
            if kind is PrepareContender:
                self.memory.take(self.name)
            elif kind is ReleaseWorkload:
                self.memory.held.pop(self.name, None)
            handlers = importlib.import_module(f"gpu_runner.child.{self.role}").HANDLERS
            with self._imports(kind in (LoadReference, LoadContender)):
                try:
                    found, given = handlers[kind](self.state, request, [_owned(buffer) for buffer in tensors])
                except Exception as error:  # as a real child reports whatever a handler raises
                    raise ChildError(type(error).__name__, str(error)) from error
            return ChildReply(found, tuple(Buffer.from_torch(tensor.clone()) for tensor in given))

    def close(self) -> None:
        self.dies = "gone"

    @contextlib.contextmanager
    def _imports(self, loads: bool) -> Iterator[None]:
        if not loads:
            yield
            return
        with tempfile.TemporaryDirectory() as folder:
            for path, text in self.files.items():
                (Path(folder) / path).write_text(text)
                sys.modules.pop(path.removesuffix(".py"), None)
            sys.path.insert(0, folder)
            importlib.invalidate_caches()
            try:
                yield
            finally:
                sys.path.remove(folder)
                for path in self.files:
                    sys.modules.pop(path.removesuffix(".py"), None)


class Event:
    """Stands in for a CUDA event."""

    clock: Clock

    def __init__(self, **_: object) -> None:
        self.at = 0.0


class Cold:
    """Stands in for a cache."""

    def begin(self) -> None:
        return

    def chill(self) -> None:
        return


class Stage:
    """Runs a request; ``rooms`` are the sessions by name afterwards."""

    def __init__(
        self, monkeypatch: pytest.MonkeyPatch, costs: Mapping[str, float], memory: Memory | None = None
    ) -> None:
        self.clock, self.memory = Clock(costs), memory
        self.rooms: dict[str, Room] = {}
        self.dies: dict[str, type[Request[Any]]] = {}
        self.starts: list[tuple[str, ...]] = []
        self.later: dict[str, float] = {}  # costs in processes that are started after the first
        self.context = RunContext(Path(tempfile.gettempdir()))
        clock = self.clock
        monkeypatch.setattr(timing, "_Event", Event)
        monkeypatch.setattr(timing, "_record", lambda event: setattr(event, "at", clock.tick()))
        monkeypatch.setattr(timing, "_elapsed", lambda begin, end: (end.at - begin.at) * 1e-3)
        monkeypatch.setattr(timing, "_synchronize", lambda: None)
        monkeypatch.setattr(timing, "_sleep", None)
        monkeypatch.setattr(timing.gc, "collect", lambda: 0)  # of this whole process it takes seconds
        monkeypatch.setattr(timing, "_import_compiler", lambda: None)
        monkeypatch.setattr(timing, "cold", lambda state: Cold())
        monkeypatch.setattr(torch, "compile", lambda function, **_: function)
        for name, value in (
            ("reset_peak_memory_stats", None),
            ("memory_allocated", 100),
            ("max_memory_allocated", 164),
        ):
            monkeypatch.setattr(torch.cuda, name, lambda value=value: value)
        monkeypatch.setattr(measure, "start_all", self._start_all)
        monkeypatch.setattr(measure, "measure_rates", lambda session, dtype: GAUGED)
        monkeypatch.setattr(starting, "reference_session", self._reference)
        monkeypatch.setattr(starting, "candidate_session", self._candidate)
        monkeypatch.setattr(starting, "ChildSession", lambda role, *_: Room(role, {}, clock))

    def run(self, request: BenchmarkRequest) -> BenchmarkResult:
        problem = parse_problem(request.problem_source)
        return run_measure(request, problem, choose_cases(request, problem), self.context)

    def _start_all(self, makers: Any, context: Any, stack: Any) -> dict[str, Room]:
        if self.starts:
            self.clock.costs.update(self.later)
        self.starts.append(tuple(makers))
        for name, maker in makers.items():
            self.rooms[name] = maker()
            self.rooms[name].name = name
            self.rooms[name].dies = self.dies.get(name)
        return self.rooms

    def _reference(self, role: str, source: str, _: object) -> Room:
        return Room(role, {"problem.py": source}, self.clock, self.memory)

    def _candidate(self, role: str, source: Any, _: object) -> Room:
        return Room(role, {file.path: file.text for file in source.files}, self.clock, self.memory)


def _owned(buffer: Buffer) -> torch.Tensor:
    return buffer.to_torch().clone()
