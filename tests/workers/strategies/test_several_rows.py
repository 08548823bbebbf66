import subprocess
import sys
from pathlib import Path

import pytest
import torch

from gpu_runner.contracts import Pass, parse_problem
from tests.workers.strategies.row_files import ROW_NORM, loaded
from tests.workers.strategies.situations import PROBLEM, situation
from workers.strategies.parameter_sweep import ParameterSweep
from workers.strategies.protocol import DoesNotApply, Proposed
from workers.strategies.several_rows import SEVERAL_ROWS
from workers.tree import Tree
from workers.tuned_table import Table, table_of

ROWS: Table = (("sm_90", (("forward", ((4096, (("rows_per_program", 8),)),)),)),)


def _proposed(source: str = ROW_NORM) -> Proposed:
    answer = SEVERAL_ROWS.propose(situation(source))
    assert isinstance(answer, Proposed), answer
    return answer


def _plain(source: str = ROW_NORM) -> str:
    answer = _proposed(source)
    return answer.source if answer.settle is None else answer.settle(answer.source, ())


def _refused(old: str, new: str) -> str:
    """The reason why the forward kernel is left alone."""
    assert old in ROW_NORM
    source = ROW_NORM.replace(old, new).replace("_double_backward_kernel[", "launch[")
    answer = SEVERAL_ROWS.propose(situation(source))
    assert isinstance(answer, DoesNotApply), answer
    return answer.sentence


def test_rows_become_the_first_dimension_of_every_block() -> None:
    text = _plain()
    assert "row_idx = (tl.program_id(0).to(tl.int64) * BLOCK_ROW + tl.arange(0, BLOCK_ROW))[:, None]\n" in text
    assert "col_offsets = tl.arange(0, BLOCK_SIZE)[None, :]\n" in text
    assert "tl.sum(x_row * x_row, axis=1, keep_dims=True) / n_cols" in text
    assert "total = tl.sum(g * v, axis=1, keep_dims=True)\n" in text
    assert "    tl.store(RSTD_ptr + row_idx, rstd, mask=row_idx < n_rows)\n" in text


def test_rows_behind_the_last_are_masked_and_weights_are_not() -> None:
    text = _plain()
    assert "tl.store(y_base + col_offsets, gate(y_row), mask=mask & (row_idx < n_rows))\n" in text
    assert "w_row = tl.load(W_ptr + col_offsets, mask=mask, other=0.0)\n" in text
    assert "g = tl.load(dy + cols, mask=(cols < n_cols) & (pid < n_rows), other=0.0)\n" in text


def test_a_mask_for_nothing_but_rows_is_changed_where_it_is_made() -> None:
    text = _plain(ROW_NORM.replace("W_ptr + col_offsets", "W_ptr + row_idx + col_offsets"))
    assert "    mask = (col_offsets < n_cols) & (row_idx < n_rows)\n" in text
    assert "gate(y_row), mask=mask)\n" in text


def test_the_grid_shrinks_with_the_rows_of_a_program() -> None:
    text = _plain()
    assert "    rows_per_program = max(1, min(16, 4096 // BLOCK_SIZE))\n    grid = (triton.cdiv(n_rows," in text
    assert "        n_rows=n_rows,\n        BLOCK_ROW=rows_per_program,\n    )\n    return Y, RSTD" in text
    assert "        _double_backward_kernel[(triton.cdiv(Y.shape[0], rows_per_program),)](\n" in text
    assert "num_warps=4, n_rows=Y.shape[0], BLOCK_ROW=rows_per_program\n        )\n    return dY\n" in text


def test_how_many_rows_is_a_knob_and_what_was_found_is_written_down() -> None:
    answer = _proposed()
    assert [(k.tuned_pass, k.setting) for k in answer.knobs] == [
        (Pass.forward, "rows_per_program"),
        (Pass.backward, "rows_per_program"),
    ]
    assert answer.settle is not None
    settled = answer.settle(answer.source, ROWS)
    assert table_of(settled) == ROWS
    assert "_tuned" not in answer.settle(answer.source, ())


def test_settings_that_were_swept_before_are_tuned_anew_beside_the_rows() -> None:
    swept = ParameterSweep().propose(situation(ROW_NORM))
    assert isinstance(swept, Proposed)
    answer = _proposed(swept.source)
    assert [(k.tuned_pass, k.setting) for k in answer.knobs if k.tuned_pass is Pass.forward] == [
        (Pass.forward, "rows_per_program"),
        (Pass.forward, "num_warps"),
    ]
    assert answer.source.count("def _tuned(") == 1


def test_what_comes_out_is_formatted_as_what_went_in(tmp_path: Path) -> None:
    answer = _proposed()
    paths = [tmp_path / "in.py", tmp_path / "plain.py", tmp_path / "tuned.py"]
    for path, text in zip(paths, (ROW_NORM, _plain(), answer.source), strict=True):
        path.write_text(text)
    command = [sys.executable, "-m", "ruff", "format", "--diff", "--isolated", "--line-length", "120"]
    done = subprocess.run([*command, *map(str, paths)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def test_it_is_done_once() -> None:
    answer = SEVERAL_ROWS.propose(situation(_plain()))
    assert isinstance(answer, DoesNotApply)


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("    y_row = x_row", "    for i in range(2):\n        x_row += i\n    y_row = x_row", "in a loop"),
        ("    y_row = x_row", "    if row_idx > 3:\n        x_row += 1\n    y_row = x_row", "depends on the row"),
        ("    y_row = x_row", "    if row_idx > 3:\n        return\n    y_row = x_row", "return early"),
        ("    y_row = x_row", "    tl.atomic_add(W_ptr, rstd)\n    y_row = x_row", "more than load, compute and store"),
        ("gate(y_row)", "scale(y_row)", "calls `scale`"),
        ("return x * tl.sigmoid(x)", "return x / tl.sum(x)", "calls `gate`"),
        ("tl.sum(x_row * x_row, axis=0)", "tl.sum(col_offsets, axis=0)", "not surely a reduction"),
        ("tl.program_id(0).to", "tl.program_id(1).to", "one axis of programs"),
        ("grid = (n_rows,)", "grid = (n_rows, 2)", "not the number of rows alone"),
        ("grid = (n_rows,)", "grid = lambda meta: (n_rows,)", "not the number of rows alone"),
        ("@triton.jit\ndef _norm", "@triton.heuristics({})\n@triton.jit\ndef _norm", "its decorators"),
        ("    return Y, RSTD", "    print(_norm_forward_kernel)\n    return Y, RSTD", "in other places"),
        ("    BLOCK_SIZE = triton", "    rows_per_program = 3\n    BLOCK_SIZE = triton", "another `rows_per_program`"),
    ],
)
def test_what_cannot_surely_be_given_rows_is_left_alone(old: str, new: str, reason: str) -> None:
    assert reason in _refused(old, new)


@pytest.mark.parametrize(
    "other",
    ["from ops.scale import _norm_forward_kernel\n", f"_norm_forward_kernel = {'lambda:' * 3000}1\n"],
    ids=["imported", "not to be read"],
)
def test_a_kernel_that_another_file_launches_is_left_alone(other: str) -> None:
    tree = Tree({"ops/scale.py": b"", "ops/other.py": other.encode()})
    answer = SEVERAL_ROWS.propose(situation(ROW_NORM, tree=tree))
    assert isinstance(answer, Proposed)
    assert "`_double_backward_kernel`" in answer.notes.change
    assert "_norm_forward_kernel" not in answer.notes.change


def test_long_rows_alone_are_no_reason() -> None:
    problem = parse_problem(PROBLEM.replace('"H": 128', '"H": 8192').replace('"H": 4096', '"H": 16384'))
    long = situation(ROW_NORM, problem=problem)
    assert SEVERAL_ROWS.plan(long) is None
    assert SEVERAL_ROWS.propose(long) == DoesNotApply("No measured size has rows of at most 8192 bytes.")


@pytest.mark.parametrize(("rows", "cols"), [(1, 1), (3, 7), (17, 130), (5, 300), (33, 64)])
def test_values_are_the_same(tmp_path: Path, rows: int, cols: int) -> None:
    before, after = (loaded(tmp_path, text, name) for name, text in (("before", ROW_NORM), ("after", _plain())))
    generator = torch.Generator().manual_seed(rows * cols)
    x, dy = (torch.randn(rows, cols, generator=generator) for _ in range(2))
    for w in (torch.randn(cols, generator=generator), None):
        results = [module.norm_forward(x, w, 1e-6) for module in (before, after)]
        for expected, found in zip(*results, strict=True):
            torch.testing.assert_close(found, expected, rtol=1e-6, atol=1e-6)
    y = results[0][0]
    expected, found = (module.double_backward(dy.clone(), y) for module in (before, after))
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-6)
