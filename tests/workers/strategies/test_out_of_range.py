"""A fast path for a loss that looks up classes: what is not there is for the original to refuse, and nothing is looked at twice."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest
import torch

from tests.workers.compiler.captured import captured, names, proposal
from tests.workers.compiler.interpreted import loaded as candidate
from tests.workers.strategies.loss_files import LOSS, loss_situation
from tests.workers.strategies.row_files import loaded
from workers.strategies.conditions import ranged, result_shows_range_errors, singled_out
from workers.strategies.fast_path import CompiledFastPath
from workers.strategies.protocol import Proposed

# What the interpreter computes with where there is nothing to compute is no number, as on a GPU.
pytestmark = pytest.mark.filterwarnings("ignore:invalid value encountered:RuntimeWarning")
LOOKS = ["ce_smooth", "ce_smooth_mean", "cross_entropy", "focal", "margin"]
TOLD = ["cross_entropy", "focal"]
ROWS, CLASSES = 6, 37


def fast(name: str = "cross_entropy", source: str | None = None) -> str:
    """The file with a fast path for a captured problem."""
    answer = CompiledFastPath().propose(loss_situation(name, source))
    assert isinstance(answer, Proposed), answer
    return answer.source


@pytest.fixture(scope="module")
def modules(tmp_path_factory: pytest.TempPathFactory) -> tuple[ModuleType, ModuleType]:
    """The original and the file with the fast path."""
    folder: Path = tmp_path_factory.mktemp("losses")
    return loaded(folder, LOSS, "loss_before"), loaded(folder, fast(), "loss_after")


def run(module: ModuleType, x: torch.Tensor, target: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, bool]:
    """The loss, the gradient, and whether the fast path was taken."""
    leaf = x.clone().requires_grad_()
    loss = module.LossFunction.apply(leaf * 1.0, target, None, -100)
    taken = bool(getattr(loss.grad_fn, "fast", False))
    loss.backward(torch.tensor(0.7))
    assert leaf.grad is not None
    return loss.detach(), leaf.grad, taken


def given(**changed: float) -> tuple[torch.Tensor, torch.Tensor]:
    """Give logits and classes; ``changed``: a class, or a logit, of the second row."""
    stream = torch.Generator().manual_seed(3)
    x, target = torch.randn(ROWS, CLASSES, generator=stream), torch.randint(0, CLASSES, (ROWS,), generator=stream)
    if "target" in changed:
        target[1] = int(changed["target"])
    if "logit" in changed:
        x[1, 2] = changed["logit"]
    return x, target


@pytest.mark.parametrize("target", [0, CLASSES - 1, -100])
def test_rows_with_a_class_and_rows_that_are_left_out_take_the_fast_path(
    modules: tuple[ModuleType, ModuleType], target: int
) -> None:
    before, after = (run(module, *given(target=target)) for module in modules)
    assert after[2] and not before[2]
    torch.testing.assert_close(after[:2], before[:2], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("target", [CLASSES, CLASSES + 1, 10**12, -1, -99, -101])
def test_a_class_that_is_not_there_is_refused_as_before(modules: tuple[ModuleType, ModuleType], target: int) -> None:
    told = []
    for module in modules:
        with pytest.raises(AssertionError, match="out of bounds") as caught:
            run(module, *given(target=target))
        told.append(str(caught.value))
    assert told[0] == told[1]


def test_where_every_row_is_left_out_the_original_says_what_the_mean_of_nothing_is(
    modules: tuple[ModuleType, ModuleType],
) -> None:
    x, target = given()
    before, after = (run(module, x, torch.full_like(target, -100)) for module in modules)
    assert not after[2]
    assert after[0] == before[0] == 0
    assert torch.equal(after[1], before[1])


@pytest.mark.parametrize("logit", [float("nan"), float("inf")])
def test_a_loss_of_logits_that_are_no_numbers_is_the_original_s(
    modules: tuple[ModuleType, ModuleType], logit: float
) -> None:
    before, after = (run(module, *given(logit=logit)) for module in modules)
    assert not after[2]
    torch.testing.assert_close(after[:2], before[:2], rtol=0, atol=0, equal_nan=True)


def test_the_result_is_waited_for_and_the_classes_are_not_looked_at() -> None:
    source = fast()
    guard = source[source.index("covers(") : source.index("class LossFunction")]
    assert "target.max()" not in guard and "target.min()" not in guard
    assert source.count(".item()") == LOSS.count(".item()") + 1
    asked = "number = y.item()\n            ctx.fast = number == number\n        if ctx.fast:\n            ctx.save_for_backward("
    assert asked in source


def test_a_file_that_never_waits_for_the_gpu_does_not_wait_with_a_fast_path() -> None:
    still = LOSS.replace("kept.sum().item()", "kept.sum()").replace("    assert (target", "    # (target")
    assert ".item()" not in fast(source=still)
    assert "target.max()" not in fast(source=still).replace(still, "").split("def loss_forward")[0]


def test_where_the_result_does_not_tell_the_range_is_looked_at() -> None:
    source = fast("margin")
    assert "and int(target.max()) < x.shape[-1]\n        and int(target.min()) >= 0\n" in source
    assert source.count(".item()") == LOSS.count(".item()")


@pytest.fixture(scope="module")
def covers(tmp_path_factory: pytest.TempPathFactory) -> Callable[[torch.Tensor, torch.Tensor], bool]:
    """The guard of a loss that leaves a class out, as it is where the result does not tell."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("workers.strategies.splicing.result_shows_range_errors", lambda *_: False)
        module = loaded(tmp_path_factory.mktemp("guards"), fast(), "loss_guarded")
    return lambda x, target: bool(module._fast_scale_covers(x, target, None, -100, (True, False, False, False)))


@pytest.mark.parametrize("target", [0, CLASSES - 1, -100])
def test_a_look_lets_pass_what_is_in_range(covers: Callable[..., bool], target: int) -> None:
    assert covers(*given(target=target))


@pytest.mark.parametrize("target", [CLASSES, 10**12, -1, -99, -101])
def test_a_look_finds_what_is_out_of_range(covers: Callable[..., bool], target: int) -> None:
    assert not covers(*given(target=target))


def test_a_look_finds_that_every_row_is_left_out(covers: Callable[..., bool]) -> None:
    x, target = given()
    assert not covers(x, torch.full_like(target, -100))


def test_which_results_tell_is_known() -> None:
    assert [name for name in names() if ranged(captured(name)[0])] == LOOKS
    assert [name for name in LOOKS if result_shows_range_errors(*captured(name))] == TOLD


def test_a_class_that_is_left_out_is_singled_out() -> None:
    problem, graph = captured("cross_entropy")
    assert [singled_out(spec, graph) for spec in ranged(problem)] == [[-100]]


@pytest.mark.parametrize("name", TOLD)
@pytest.mark.parametrize("index", [CLASSES, CLASSES + 5000, -1, -99])
def test_a_result_that_tells_is_no_number_for_an_index_that_is_out_of_range(name: str, index: int) -> None:
    module = candidate(name, proposal(name).source)
    assert not torch.isnan(module.candidate(*given()))
    assert torch.isnan(module.candidate(*given(target=index)))


@pytest.mark.parametrize("index", [5000, -1])
def test_it_is_none_in_the_kernel_for_wide_rows_either(index: int) -> None:
    module = candidate("cross_entropy", proposal("cross_entropy").source)
    x = torch.randn(2, 5000, generator=torch.Generator().manual_seed(1))
    assert not torch.isnan(module.candidate(x, torch.tensor([4999, 0])))
    assert torch.isnan(module.candidate(x, torch.tensor([3, index])))
