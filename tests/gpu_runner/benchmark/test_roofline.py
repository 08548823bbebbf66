"""The floor is what must move, and a time below it is a fault."""

from __future__ import annotations

import pytest

from gpu_runner.benchmark.roofline import Traffic, fault, floor_us, moved_bytes
from gpu_runner.contracts import Pass

GATE = Traffic(inputs=200, outputs=100, upstream=100, gradients=200, saved=200, is_loss=False)


def test_forward_reads_inputs_and_writes_outputs() -> None:
    assert moved_bytes(GATE, Pass.forward, 0) == 300


def test_backward_reads_the_upstream_and_what_it_needs_of_the_inputs() -> None:
    assert moved_bytes(GATE, Pass.backward, 0) == 500
    plain_sum = Traffic(200, 100, 100, 200, saved=0, is_loss=False)
    assert moved_bytes(plain_sum, Pass.backward, 0) == 300


def test_both_together_may_find_in_the_cache_what_forward_left_there() -> None:
    assert moved_bytes(GATE, Pass.full, 0) == 800
    assert moved_bytes(GATE, Pass.full, 150) == 650


def test_a_loss_has_a_floor_for_both_passes_together_only() -> None:
    loss = Traffic(inputs=1000, outputs=4, upstream=4, gradients=1000, saved=1000, is_loss=True)
    assert moved_bytes(loss, Pass.backward, 0) is None
    assert moved_bytes(loss, Pass.full, 0) == 2000


def test_the_floor_is_in_microseconds_and_unknown_without_a_bandwidth() -> None:
    assert floor_us(4_240_000_000, 4240.0) == pytest.approx(1000.0)
    assert floor_us(100, None) is None
    assert floor_us(None, 4240.0) is None


def test_a_time_under_the_floor_is_a_fault_and_no_record() -> None:
    assert fault(100.0, 100.0) is None
    assert fault(95.0, 100.0) is None
    found = fault(50.0, 100.0)
    assert found is not None
    assert "under 90%" in found
