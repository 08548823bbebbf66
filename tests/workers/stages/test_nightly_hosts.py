"""A night on several GPUs of one model: who measures which kernel, and what becomes of a host that is gone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from gpu_runner.contracts import Action, GpuResult, from_json
from tests.workers.stages.context import FakeContext, T
from tests.workers.stages.test_nightly import DRIVER, KERNELS, REPOSITORY, Library, changed
from workers.contracts import NightlySummary
from workers.stages.nightly import Nightly
from workers.store import gpu_work, history


class Waiting(Exception):
    """A request has no answer yet."""


@dataclass
class Fleet:
    """GPU hosts that work through their queues, the oldest request first; ``gone`` is a GPU whose host takes nothing."""

    gpus: tuple[str, ...] = ("GPU-1", "GPU-2")
    gone: tuple[str, ...] = ()
    queue: list[tuple[str, str | None]] = field(default_factory=list)
    answered: dict[str, str] = field(default_factory=dict)  # request to GPU
    rounds: int = 0  # in each of which every host answers one request

    def work(self) -> None:
        self.rounds += 1
        at_work = [gpu for gpu in self.gpus if gpu not in self.gone]
        for gpu in at_work:
            mine = next((one for one in self.queue if one[1] in (None, gpu)), None)
            if mine is not None:
                self.queue.remove(mine)
                self.answered[mine[0]] = gpu


@dataclass
class Shared(FakeContext):
    """A context whose requests wait until one of the hosts of a fleet has answered them."""

    fleet: Fleet = field(default_factory=Fleet)

    def gpu(
        self, key: str, request: object, action: Action, *args: Any, gpu_uuid: str | None = None, **more: Any
    ) -> GpuResult:
        place = f"{action.value} {key}"
        if place not in self.fleet.answered:
            if (place, gpu_uuid) not in self.fleet.queue:
                self.fleet.queue.append((place, gpu_uuid))
            raise Waiting(place)
        self.host = (
            ("gpu_uuid", self.fleet.answered[place]),
            ("driver", DRIVER),
            ("torch", "2.11.0"),
            ("triton", "3.6.0"),
        )
        return super().gpu(key, request, action, *args, **more)

    def meanwhile(self, key: str, function: Callable[[], T]) -> T | None:
        try:
            return function()
        except Waiting:
            return None

    def night(self) -> NightlySummary:
        self.stage = Nightly.name
        for _ in range(200):
            try:
                return from_json(NightlySummary, Nightly().run(self).output["summary"])
            except Waiting:
                self.fleet.work()
        raise AssertionError(f"the night does not end; left: {self.fleet.queue}")


@pytest.fixture
def library(monkeypatch: pytest.MonkeyPatch) -> Library:
    monkeypatch.setattr(gpu_work, "gpu_uuids", lambda *_: ("GPU-1", "GPU-2"))
    return Library()


def shared(library: Library, fleet: Fleet, **more: Any) -> Shared:
    context = Shared(**vars(library.context(**({"kernels": KERNELS} | more))), fleet=fleet)

    def benchmark(request: Any) -> Any:
        return replace(library.benchmark(request), host=context.host)

    context.answers = context.answers | {"benchmark": benchmark}
    return context


def places(library: Library) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    with library.database.read() as session:
        for key, _ in history.read(session, REPOSITORY):
            found.setdefault(key.kernel, set()).add(key.testbed.gpu_uuid)
    return found


def test_two_hosts_share_a_night_and_each_kernel_stays_on_its_gpu(library: Library) -> None:
    first = Fleet()
    summary = shared(library, first).night()
    assert {kernel.kernel for kernel in summary.kernels} == set(KERNELS)
    began = places(library)
    assert set().union(*began.values()) == {"GPU-1", "GPU-2"}
    assert all(len(gpus) == 1 for gpus in began.values()), "verdict and times of a kernel are one testbed's"
    alone = Fleet(gpus=("GPU-1",), gone=("GPU-2",))
    shared(Library(), alone).night()
    assert first.rounds < alone.rounds
    summary = shared(library, Fleet(gpus=("GPU-2", "GPU-1")), head=changed(*KERNELS)).night()
    assert {kernel.kernel for kernel in summary.kernels} == set(KERNELS)
    assert places(library) == began, "whichever host was asked first"


def test_a_slower_kernel_is_confirmed_on_the_gpu_that_has_its_series(library: Library) -> None:
    for _ in range(3):
        shared(library, Fleet()).night()
    library.slow = 1.08
    summary = shared(library, Fleet(), head=changed(*KERNELS)).night()
    assert {change.kernel for change in summary.changes if change.state == "confirmed"} == set(KERNELS)


def test_the_kernels_of_a_host_that_is_gone_go_on_elsewhere_with_the_last_commit_for_a_past(library: Library) -> None:
    shared(library, Fleet()).night()
    fleet = Fleet(gone=("GPU-2",))
    context = shared(library, fleet, head=changed(*KERNELS))
    summary = context.night()
    assert (summary.left, {kernel.kernel for kernel in summary.kernels}) == ((), set(KERNELS))
    assert all("GPU-1" in gpus for gpus in places(library).values())
    moved = [name for name, gpus in places(library).items() if len(gpus) == 2]
    assert moved
    timed = {place: request for place, request in context.asked if place.endswith("-time")}
    assert all(timed[f"benchmark {name}-time"].original is not None for name in moved)


def test_a_host_that_has_another_gpu_by_now_takes_no_part(library: Library) -> None:
    fleet = Fleet()
    context = shared(library, fleet)
    fleet.answered |= {"doctor host": "GPU-1", "doctor host-GPU-2": "GPU-3"}
    assert {kernel.kernel for kernel in context.night().kernels} == set(KERNELS)
    assert set().union(*places(library).values()) == {"GPU-1"}
