"""The floor is what must move, and a time below it is a fault."""

from __future__ import annotations

import pytest

from gpu_runner.benchmark.roofline import PassWork, Rates, Traffic, fault, floor, floor_us, moved_bytes, surely_moved
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


def test_the_floor_is_the_longer_of_bytes_and_operations() -> None:
    rates = Rates(1000.0, 100.0, 10.0)
    assert floor(PassWork(1_000_000, 1_000_000, 0, 0), rates).us == pytest.approx(1.0)
    matrix = floor(PassWork(1_000_000, 1_000_000, 500_000_000, 0), rates)
    assert (matrix.us, matrix.bound, matrix.sure_us) == (pytest.approx(5.0), "compute", pytest.approx(5.0))
    vector = floor(PassWork(1_000_000, 900_000, 0, 20_000_000), rates)
    assert (vector.us, vector.bound, vector.sure_us) == (pytest.approx(2.0), "compute", pytest.approx(0.9))


def test_products_in_tf32_have_their_own_rate() -> None:
    work = PassWork(None, None, 500_000_000, 0, tf32_flops=400_000_000)
    assert floor(work, Rates(1000.0, 100.0, 10.0, 400.0)).sure_us == pytest.approx(2.0)
    assert floor(work, Rates(1000.0, 100.0, 10.0)).sure_us == pytest.approx(5.0)


def test_what_is_not_known_is_not_concluded_from() -> None:
    assert floor(PassWork(1_000_000), Rates(1000.0)).bound == "memory"
    assert floor(PassWork(), Rates(1000.0, 100.0)).us is None
    assert floor(PassWork(1_000_000, 1_000_000, 500_000_000, 0), Rates(1000.0)).us == pytest.approx(1.0)
    assert floor(PassWork(None, None, 500_000_000, 0), Rates(None, 100.0)).bound == "compute"


def test_what_was_written_last_may_still_lie_in_the_cache_when_the_time_ends() -> None:
    assert surely_moved(GATE, Pass.forward, 60) == 240
    assert surely_moved(GATE, Pass.forward, 10**6) == 200
    assert surely_moved(GATE, Pass.backward, 10**6) == 300
    loss = Traffic(inputs=1000, outputs=4, upstream=4, gradients=1000, saved=1000, is_loss=True)
    assert surely_moved(loss, Pass.backward, 0) is None
