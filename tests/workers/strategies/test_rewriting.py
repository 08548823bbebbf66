import ast

import pytest

from tests.workers.strategies.files import ROW_SCALE
from tests.workers.strategies.situations import situation
from workers.strategies.protocol import DoesNotApply, Proposed
from workers.strategies.rewrites import CONSTANT_SIZES, EVICTION_HINTS, PIPELINED_LOOPS, Rewriting
from workers.strategies.source import changed_but_idle


def _proposed(strategy: Rewriting, source: str = ROW_SCALE) -> str:
    answer = strategy.propose(situation(source))
    assert isinstance(answer, Proposed), answer
    ast.parse(answer.source)
    return answer.source


def test_streamed_loads_are_evicted_first_and_shared_ones_last() -> None:
    text = _proposed(EVICTION_HINTS)
    assert 'x = tl.load(X_ptr + row * X_stride + cols, mask=mask, other=0.0, eviction_policy="evict_first")' in text
    assert text.count('w = tl.load(W_ptr + cols, mask=mask, other=0.0, eviction_policy="evict_last")') == 2


def test_what_is_read_twice_gets_no_hint() -> None:
    source = ROW_SCALE.replace("tl.store(Y_ptr", "x += tl.load(X_ptr + row * X_stride + cols)\n    tl.store(Y_ptr")
    assert "X_ptr + row * X_stride + cols, mask=mask, other=0.0)\n" in _proposed(EVICTION_HINTS, source)


def test_hints_are_given_once() -> None:
    assert isinstance(EVICTION_HINTS.propose(situation(_proposed(EVICTION_HINTS))), DoesNotApply)


def test_the_length_of_a_row_becomes_a_constant() -> None:
    text = _proposed(CONSTANT_SIZES)
    assert "W_ptr, n_cols: tl.constexpr, BLOCK_SIZE: tl.constexpr):" in text
    assert isinstance(CONSTANT_SIZES.propose(situation(text)), DoesNotApply)


def test_a_length_that_is_used_as_a_tensor_stays_one() -> None:
    source = ROW_SCALE.replace("mask = cols < n_cols", "mask = cols < n_cols\n    length = n_cols.to(tl.float32)")
    assert isinstance(CONSTANT_SIZES.propose(situation(source)), DoesNotApply)


def test_a_loop_over_rows_is_pipelined_as_deep_as_shared_memory_holds() -> None:
    text = _proposed(PIPELINED_LOOPS)
    assert "    for row in tl.range(\n" in text or "    for row in tl.range(program" in text
    assert "num_stages=NUM_STAGES" in text
    assert "NUM_STAGES=max(1, min(3, 98304 // (2 * BLOCK_SIZE * dY.element_size())))," in text
    assert "    NUM_STAGES: tl.constexpr = 1,\n" in text


def test_a_loop_that_reads_what_it_writes_is_not_pipelined() -> None:
    source = ROW_SCALE.replace("tl.store(dX_ptr + row", "tl.store(X_ptr + row")
    assert isinstance(PIPELINED_LOOPS.propose(situation(source)), DoesNotApply)


def test_a_loop_that_may_end_early_is_not_pipelined() -> None:
    source = ROW_SCALE.replace("        dw += ", "        if row > 9:\n            break\n        dw += ")
    assert isinstance(PIPELINED_LOOPS.propose(situation(source)), DoesNotApply)


def test_a_source_that_is_no_python_does_not_apply() -> None:
    for strategy in (EVICTION_HINTS, CONSTANT_SIZES, PIPELINED_LOOPS):
        broken = situation(ROW_SCALE, source="def f(:")
        assert isinstance(strategy.propose(broken), DoesNotApply)
        assert strategy.plan(broken) is None


TWO_WAYS = """
@triton.jit
def _scaled(x):
    return 2 * x

@triton.jit
def _whole(x_ptr, n):
    tl.store(x_ptr, _scaled(tl.load(x_ptr)))

@triton.jit
def _in_blocks(x_ptr, n):
    for start in range(0, n, 64):
        tl.store(x_ptr + start, tl.load(x_ptr + start))
"""


@pytest.mark.parametrize(
    ("old", "new", "idle"),
    [
        ("range(0, n, 64)", "tl.range(0, n, 64, num_stages=2)", ("_in_blocks",)),
        ("return 2 * x", "return x + x", ()),
        ("2 * x", "2 * x  # twice", ()),
    ],
    ids=["no case", "called by one that runs", "no kernel"],
)
def test_a_changed_kernel_that_no_case_runs_is_named(old: str, new: str, idle: tuple[str, ...]) -> None:
    assert changed_but_idle(TWO_WAYS, TWO_WAYS.replace(old, new), ("_whole",)) == idle
    assert not changed_but_idle(TWO_WAYS, TWO_WAYS.replace(old, new), ())
