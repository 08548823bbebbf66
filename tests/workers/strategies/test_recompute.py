import subprocess
import sys
from pathlib import Path

import pytest
import torch

from tests.workers.strategies.files import ROW_SCALE
from tests.workers.strategies.row_files import ROW_NORM, loaded
from tests.workers.strategies.saved_files import DIRECT, SAVED_GATE
from tests.workers.strategies.situations import situation
from workers.contracts import Goal
from workers.strategies.protocol import DoesNotApply, Proposed
from workers.strategies.recompute import RECOMPUTE
from workers.tree import Tree

X_LOAD = "x = tl.load(X_ptr + row_idx * X_row_stride + cols, mask=mask, other=0.0).to(tl.float32)"
AGAIN = f"    {X_LOAD}\n    sigma = tl.sum"  # of the backward kernel


def _proposed(source: str) -> str:
    answer = RECOMPUTE.propose(situation(source))
    assert isinstance(answer, Proposed), answer
    assert not answer.knobs
    return answer.source


def _refused(source: str) -> str:
    answer = RECOMPUTE.propose(situation(source))
    assert isinstance(answer, DoesNotApply), answer
    return answer.sentence


def test_nothing_is_written_kept_or_handed_on_any_more() -> None:
    text = _proposed(SAVED_GATE)
    assert "G_ptr" not in text
    assert "    return Y, X\n" in text
    assert "        ctx.save_for_backward(X)\n" in text
    assert "        (X,) = ctx.saved_tensors\n        dX = gate_backward(dY, X)\n" in text
    assert "def gate_backward(dY, X):\n" in text


def test_backward_computes_it_by_the_same_expressions_under_free_names() -> None:
    assert (
        "    sigma_again = tl.sigmoid(x)\n"
        "    g = x * sigma_again\n"
        "    kept = g + 0.5\n"
        "    gate = tl.where(mask, kept.to(X_ptr.dtype.element_ty), 0.0).to(tl.float32)\n"
    ) in _proposed(SAVED_GATE)


def test_what_only_the_store_needed_goes_with_it() -> None:
    forward = _proposed(SAVED_GATE).split("def _gate_backward_kernel")[0]
    assert "kept" not in forward
    assert "Backward multiplies by it" not in forward
    assert "    g = x * sigma\n" in forward


def test_a_load_in_a_loop_is_replaced_there() -> None:
    text = _proposed(DIRECT)
    assert "        m = tl.maximum(a, 0.0)\n        s = tl.where(ok, (m * m).to(x.dtype.element_ty), 0.0)\n" in text
    assert "    _square_kernel[(triton.cdiv(x.numel(), 64),)](y, x, w, x.numel(), BLOCK=64)\n" in text


@pytest.mark.parametrize("source", [SAVED_GATE, DIRECT])
def test_what_comes_out_is_formatted_as_what_went_in(tmp_path: Path, source: str) -> None:
    for number, text in enumerate((source, _proposed(source))):
        (tmp_path / f"{number}.py").write_text(text)
    command = [sys.executable, "-m", "ruff", "format", "--diff", "--isolated", "--line-length", "120", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("source", [ROW_SCALE, ROW_NORM])
def test_statistics_results_and_inputs_are_not_what_is_meant(source: str) -> None:
    assert "nothing of the size of an input is written for the backward pass alone" in _refused(source)
    assert RECOMPUTE.plan(situation(source)) is None


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("        return Y\n", "        return Y, G\n", "for the backward pass alone"),
        ("kept = g + 0.5", "kept = g / tl.sum(g)", "calls `tl.sum`"),
        ("kept = g + 0.5", "kept = g * n_cols", "depends on `n_cols`"),
        ("kept = g + 0.5", "kept = g + u", "does not load what it is computed from"),
        ("kept = g + 0.5", "kept = g\n    kept += 1", "more than one plain statement"),
        (AGAIN, AGAIN.replace(".to(tl.float32)", ""), "does not load what it is computed from"),
        (AGAIN, f"    dy += gate\n{AGAIN}", "before it has loaded"),
        ("tl.store(Y_ptr +", "tl.store(X_ptr +", "does not load what it is computed from"),
        ("dX = gate_backward(dY, X, G)", "dX = gate_backward(dY, X, G) + G", "more with what is saved"),
        ("    dX = torch.empty_like(X)\n", "    dX = torch.empty_like(G)\n", "more with what is saved"),
        ("    return Y, X, G\n", "    G.mul_(2)\n    return Y, X, G\n", "more than itself"),
    ],
)
def test_what_backward_cannot_surely_compute_again_stays_saved(old: str, new: str, reason: str) -> None:
    assert old in SAVED_GATE
    assert reason in _refused(SAVED_GATE.replace(old, new))


def test_an_input_that_forward_changes_before_it_saves_it_is_followed() -> None:
    """What the function computes from its input it also gives back, so that this very tensor is saved."""
    source = SAVED_GATE.replace("    X = X.view(-1, X.shape[-1])\n", "    X = X * 2\n")
    assert "G_ptr" not in _proposed(source)
    other = source.replace("        Y, X, G = gate", "        Y, _, G = gate")
    assert "does not load what it is computed from" in _refused(other)


def test_kernels_that_another_file_launches_stay_as_they_are() -> None:
    tree = Tree({"ops/scale.py": b"", "ops/other.py": b"from ops.scale import _gate_backward_kernel\n"})
    answer = RECOMPUTE.propose(situation(SAVED_GATE, tree=tree))
    assert isinstance(answer, DoesNotApply)
    assert "in other places" in answer.sentence


def test_the_bytes_are_the_evidence_and_memory_is_a_goal_of_its_own() -> None:
    speed = RECOMPUTE.plan(situation(SAVED_GATE, goal=Goal.speed))
    memory = RECOMPUTE.plan(situation(SAVED_GATE, goal=Goal.memory))
    assert speed is not None
    assert memory is not None
    assert "2 of 8 loads and stores" in speed.trigger
    assert memory.gain_low > speed.gain_low


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
@pytest.mark.parametrize(("rows", "cols"), [(1, 1), (3, 7), (5, 130)])
@pytest.mark.parametrize(("source", "name"), [(SAVED_GATE, "GateFunction"), (DIRECT, "Square")])
def test_results_and_gradients_are_the_same_to_the_last_bit(
    tmp_path: Path, source: str, name: str, rows: int, cols: int, dtype: torch.dtype
) -> None:
    generator = torch.Generator().manual_seed(rows * cols)
    x, u, dy = (torch.randn(rows, cols, generator=generator).to(dtype) for _ in range(3))
    found = []
    for number, text in enumerate((source, _proposed(source))):
        module = loaded(tmp_path, text, f"side_{number}")
        leaf = x.clone().requires_grad_()
        y = getattr(module, name).apply(leaf, u)
        y.backward(dy)
        found.append((y.detach(), leaf.grad))
    for one, other in zip(*found, strict=True):
        assert one is not None
        assert other is not None
        assert torch.equal(one, other)
