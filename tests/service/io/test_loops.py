"""Background threads: woken at once, never ended by a fault, stopped cleanly."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import pytest

from service import loops
from service.loops import Loop, Loops, Wake


def until(condition: Callable[[], bool], timeout_s: float = 5.0) -> None:
    end_s = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < end_s, "it did not come true in time"
        time.sleep(0.005)


def test_a_loop_works_until_nothing_is_left_and_then_waits() -> None:
    left = [3]
    calls = []

    def step() -> bool:
        calls.append(1)
        left[0] -= 1
        return left[0] > 0

    running = Loops([Loop("one", step, Wake(), poll_s=60)])
    running.start()
    until(lambda: len(calls) == 3)
    assert running.dead() == ()
    assert running.stop(5) == ()
    assert len(calls) == 3
    assert running.dead() == ("one",)


def test_a_bell_wakes_every_loop_at_once() -> None:
    wake, calls = Wake(), []
    running = Loops([Loop(name, lambda name=name: bool(calls.append(name)), wake, poll_s=60) for name in "ab"])  # type: ignore[misc, func-returns-value]
    running.start()
    until(lambda: sorted(calls) == ["a", "b"])
    wake.ring()
    until(lambda: sorted(calls) == ["a", "a", "b", "b"])
    assert running.stop(5) == ()
    assert sorted(calls) == ["a", "a", "b", "b"], "one bell is one look"


def test_a_bell_that_rings_during_the_work_is_not_missed() -> None:
    wake, entered, go_on, calls = Wake(), threading.Event(), threading.Event(), []

    def step() -> bool:
        calls.append(1)
        entered.set()
        go_on.wait(5)
        return False

    running = Loops([Loop("one", step, wake, poll_s=60)])
    running.start()
    entered.wait(5)
    wake.ring()
    go_on.set()
    until(lambda: len(calls) == 2)
    assert running.stop(5) == ()
    assert len(calls) == 2


def test_a_fault_does_not_end_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loops, "FAULT_PAUSE_S", 0.01)
    calls = []

    def step() -> bool:
        calls.append(1)
        if len(calls) < 3:
            raise ValueError("broken")
        return False

    running = Loops([Loop("one", step, Wake(), poll_s=60)])
    running.start()
    until(lambda: len(calls) == 3)
    assert running.dead() == ()
    running.stop(5)


def test_a_loop_that_does_not_end_in_time_is_named() -> None:
    go_on = threading.Event()
    running = Loops([Loop("stuck", lambda: not go_on.wait(5), Wake(), poll_s=60)])
    running.start()
    assert running.stop(0.05) == ("stuck",)
    go_on.set()
    assert running.stop(5) == ()


def test_the_second_look_comes_after_a_pause_of_its_own() -> None:
    looked = threading.Event()
    times: list[float] = []

    def look() -> bool:
        times.append(time.monotonic())
        if len(times) == 2:
            looked.set()
        return False

    loop = Loop("looker", look, Wake(), poll_s=600.0, first_poll_s=0.05)
    loop.start()
    try:
        assert looked.wait(20)
    finally:
        loop.stop()
    assert loop.join(20)
    assert len(times) == 2
