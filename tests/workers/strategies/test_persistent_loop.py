import subprocess
import sys
from pathlib import Path

import pytest
import torch

from gpu_runner.contracts import Pass, parse_problem
from tests.workers.strategies.row_files import ROW_NORM, loaded
from tests.workers.strategies.situations import PROBLEM, situation
from workers.strategies.persistent_loop import PERSISTENT_LOOP
from workers.strategies.protocol import DoesNotApply, Proposed

# A weight that is cast under a condition, a scalar that is, and a row's number that more than addresses are made of.
CHANGED = ROW_NORM.replace(
    "    y_row = x_row * rstd\n",
    "    if affine:\n        w_row = w_row.to(y_base.dtype.element_ty)\n    eps = eps + row_idx\n    y_row = x_row * rstd + eps\n",
)


def _proposed(source: str = ROW_NORM) -> Proposed:
    answer = PERSISTENT_LOOP.propose(situation(source))
    assert isinstance(answer, Proposed), answer
    return answer


def _plain(source: str = ROW_NORM) -> str:
    answer = _proposed(source)
    return answer.source if answer.settle is None else answer.settle(answer.source, ())


def _refused(old: str, new: str) -> str:
    """The reason why the forward kernel is left alone."""
    assert old in ROW_NORM
    source = ROW_NORM.replace(old, new).replace("_double_backward_kernel[", "launch[")
    answer = PERSISTENT_LOOP.propose(situation(source))
    assert isinstance(answer, DoesNotApply), answer
    return answer.sentence


def test_the_rows_become_a_loop_and_the_weights_stay_before_it() -> None:
    text = _plain()
    before, inside = text.split(
        "    for row_idx in tl.range(tl.program_id(0).to(tl.int64), n_rows, tl.num_programs(0), num_stages=NUM_STAGES):\n"
    )
    assert before.endswith("    if affine:\n        w_row = tl.load(W_ptr + col_offsets, mask=mask, other=0.0)\n\n")
    assert "    # Weights are the same for every row.\n" in before
    assert "        tl.store(y_base + col_offsets, gate(y_row), mask=mask)\n" in inside


def test_a_pointer_that_is_moved_gets_a_name_of_the_row() -> None:
    text = _plain()
    assert "    for pid in tl.range(tl.program_id(axis=0), n_rows, tl.num_programs(0)):\n" in text
    assert "        own_dy = dy + pid * stride\n        own_y = y + pid * stride\n" in text
    assert "        g = tl.load(own_dy + cols, mask=cols < n_cols, other=0.0)\n" in text


def test_what_a_row_changes_is_copied_for_each() -> None:
    text = _plain(CHANGED)
    assert "        if affine:\n            own_w_row = w_row\n" in text
    assert (
        "            own_w_row = own_w_row.to(y_base.dtype.element_ty)\n        own_eps = own_eps + row_idx\n" in text
    )
    assert "        own_eps = eps\n" in text


def test_the_grid_is_some_programs_on_each_multiprocessor() -> None:
    text = _plain()
    assert '    programs = 2 if Y.device.type == "cpu" else n_rows\n    if Y.device.type == "cuda":\n' in text
    assert "        programs = 4 * torch.cuda.get_device_properties(Y.device).multi_processor_count\n" in text
    assert "    grid = (min(n_rows, programs),)\n" in text
    assert "    loop_stages = max(1, min(3, 98304 // (BLOCK_SIZE * Y.element_size())))\n" in text
    assert "        n_rows=n_rows,\n        NUM_STAGES=loop_stages,\n    )\n" in text


def test_what_is_overwritten_is_not_fetched_ahead() -> None:
    assert _plain().count("num_stages=") == 1


def test_programs_and_stages_are_knobs() -> None:
    assert [(k.tuned_pass, k.setting) for k in _proposed().knobs] == [
        (Pass.forward, "programs_per_multiprocessor"),
        (Pass.forward, "loop_stages"),
        (Pass.backward, "programs_per_multiprocessor"),
    ]


def test_what_comes_out_is_formatted_as_what_went_in(tmp_path: Path) -> None:
    texts = (ROW_NORM, CHANGED, _plain(), _plain(CHANGED), _proposed().source)
    for number, text in enumerate(texts):
        (tmp_path / f"{number}.py").write_text(text)
    command = [sys.executable, "-m", "ruff", "format", "--diff", "--isolated", "--line-length", "120", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def test_it_is_done_once() -> None:
    assert isinstance(PERSISTENT_LOOP.propose(situation(_plain())), DoesNotApply)


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        (
            "    y_row = x_row",
            "    for i in range(row_idx, 9):\n        x_row += i\n    y_row = x_row",
            "over rows already",
        ),
        ("    y_row = x_row", "    if row_idx > 3:\n        return\n    y_row = x_row", "return early"),
        ("    y_row = x_row", "    tl.atomic_add(W_ptr, rstd)\n    y_row = x_row", "atomics"),
        ("    y_row = x_row", "    x_row += row_idx.to(tl.float32)\n    y_row = x_row", "more than a number"),
        ("    y_row = x_row", "    own_eps = 1\n    eps = rstd\n    y_row = x_row", "something else already"),
        ("    y_row = x_row", "    pass; y_row = x_row", "share a line"),
        ("tl.program_id(0).to", "tl.program_id(1).to", "one axis of programs"),
        ("tl.program_id(0).to(tl.int64)", "tl.program_id(0) * tl.program_id(1)", "one axis of programs"),
        ("grid = (n_rows,)", "grid = (n_rows, 2)", "not the number of rows alone"),
        ("    BLOCK_SIZE = triton", "    programs = 3\n    BLOCK_SIZE = triton", "names of its own"),
    ],
)
def test_what_cannot_surely_become_a_loop_is_left_alone(old: str, new: str, reason: str) -> None:
    assert reason in _refused(old, new)


def test_few_rows_are_no_reason() -> None:
    few = situation(ROW_NORM, problem=parse_problem(PROBLEM.replace('"T": 4096', '"T": 128')))
    assert PERSISTENT_LOOP.plan(few) is None
    assert PERSISTENT_LOOP.propose(few) == DoesNotApply("No measured size has 1024 rows or more.")


def test_shared_loads_are_the_evidence() -> None:
    planned = PERSISTENT_LOOP.plan(situation(ROW_NORM))
    alone = PERSISTENT_LOOP.plan(situation(ROW_NORM.replace("W_ptr + col_offsets", "W_ptr + row_idx + col_offsets")))
    assert planned is not None
    assert alone is not None
    assert "1 loads are the same for every row" in planned.trigger
    assert planned.gain_high > alone.gain_high


@pytest.mark.parametrize(("rows", "cols"), [(1, 1), (2, 9), (17, 130), (6, 300)])
@pytest.mark.parametrize("source", [ROW_NORM, CHANGED])
def test_values_are_the_same_to_the_last_bit(tmp_path: Path, source: str, rows: int, cols: int) -> None:
    before, after = (loaded(tmp_path, text, name) for name, text in (("before", source), ("after", _plain(source))))
    generator = torch.Generator().manual_seed(rows * cols)
    x, dy = (torch.randn(rows, cols, generator=generator) for _ in range(2))
    for w in (torch.randn(cols, generator=generator), None):
        results = [module.norm_forward(x, w, 1e-6) for module in (before, after)]
        assert all(torch.equal(expected, found) for expected, found in zip(*results, strict=True))
    y = results[0][0]
    expected, found = (module.double_backward(dy.clone(), y) for module in (before, after))
    assert torch.equal(expected, found)
