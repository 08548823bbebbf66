import pytest

from tests.workers.strategies.files import ROW_SCALE
from workers.strategies.reading import read_source


def test_kernels_are_read_with_what_their_launches_set() -> None:
    reading = read_source("ops/scale.py", ROW_SCALE)
    forward, backward = reading.kernels
    assert (forward.name, forward.loads, forward.stores, forward.loops) == ("_scale_forward_kernel", 2, 1, 0)
    assert forward.launch == (("BLOCK_SIZE", "BLOCK_SIZE"), ("num_warps", "num_warps"))
    assert forward.grid == "(n_rows,)"
    assert (backward.loads, backward.stores, backward.casts, backward.loops, backward.atomics) == (3, 2, 2, 1, 0)
    assert backward.block_sizes == ("BLOCK_SIZE",)


def test_what_autograd_keeps_is_read() -> None:
    reading = read_source("ops/scale.py", ROW_SCALE)
    assert reading.saved_tensors == ("X", "W")
    assert (reading.tier, reading.in_place, reading.autotuned) == (1, False, False)


def test_a_reduction_makes_it_tier_two() -> None:
    source = ROW_SCALE.replace("x * w, mask", "x * w * tl.sum(x), mask")
    assert read_source("a.py", source).tier == 2


def test_a_gradient_written_over_its_upstream_is_in_place() -> None:
    source = ROW_SCALE.replace("dX = torch.zeros_like(dY)", "dX = dY")
    assert read_source("a.py", source).in_place


def test_what_stands_out_is_told_with_its_line() -> None:
    notes = read_source("a.py", ROW_SCALE).notes
    assert any("`_scale_backward_kernel` loads in a loop that Triton does not pipeline" in note for note in notes)
    assert any("fills a buffer with zeros" in note for note in notes)
    assert all(note.startswith("line ") for note in notes)


@pytest.mark.parametrize("source", ["def f(:\n", "(" * 4000, "x = 1\0"])
def test_what_is_no_python_is_refused_in_words(source: str) -> None:
    with pytest.raises(ValueError, match="cannot be parsed"):
        read_source("a.py", source)


def test_reading_executes_nothing() -> None:
    assert read_source("a.py", "raise SystemExit(1)\n").kernels == ()
