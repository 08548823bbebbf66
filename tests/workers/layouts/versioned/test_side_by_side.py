"""Kernels side by side: what waits for what, on a stand-in for CUDA's streams."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import pytest
import torch

from workers.layouts.versioned.target.runtime import BenchmarkFn, ConcurrentKernels


class Stream:
    """Holds what has been queued on it and on what it waits for."""

    current: Stream

    def __init__(self) -> None:
        self.before: set[str] = set()

    def wait_stream(self, other: Stream) -> None:
        self.before |= other.before


@contextlib.contextmanager
def within(stream: Stream) -> Iterator[None]:
    outer, Stream.current = Stream.current, stream
    yield
    Stream.current = outer


def test_each_kernel_waits_for_what_came_before_and_for_no_other_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    current = Stream.current = Stream()
    current.before.add("before")
    for name, stand_in in (
        ("is_available", lambda: True),
        ("current_stream", lambda: Stream.current),
        ("Stream", Stream),
        ("stream", within),
    ):
        monkeypatch.setattr(torch.cuda, name, stand_in)
    monkeypatch.setattr(torch.Tensor, "record_stream", lambda tensor, stream: None)
    saw: dict[str, set[str]] = {}

    def kernel(name: str, x: torch.Tensor) -> torch.Tensor:
        saw[name] = set(Stream.current.before)
        Stream.current.before.add(name)
        return x + 1

    x = torch.ones(2)
    pair = ConcurrentKernels("pair", [BenchmarkFn(name, kernel, (name, x)) for name in ("first", "second")])
    assert [output.tolist() for output in pair()] == [[2, 2], [2, 2]]
    assert saw == {"first": {"before"}, "second": {"before"}}
    assert current.before == {"before", "first", "second"}, "what follows waits for both"
