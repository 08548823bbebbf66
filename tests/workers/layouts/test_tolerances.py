"""How far from torch a kernel may be in the tests that are written for a library: about as far as in a verdict."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from gpu_runner.numerics.tolerances import FLOORS
from tests.workers.layouts import designs, miniature
from tests.workers.layouts.variants import variants
from workers.layouts.liger import files as liger
from workers.layouts.liger.layout import LigerLayout
from workers.layouts.plain import files as plain
from workers.layouts.suite import TOLERANCES, assert_matches_source

DTYPES = {dtype: getattr(torch, dtype) for dtype in TOLERANCES}
MOST_FLOORS = (
    6  # what rounding after each operation costs torch in half precision is in the tolerance of a written test
)


def _library_comparison(one: torch.Tensor, other: torch.Tensor, rtol: float, atol: float, extra_info: str) -> None:
    torch.testing.assert_close(one, other, rtol=rtol, atol=atol, msg=extra_info)


def comparison(source: str) -> Callable[..., None]:
    names = {"torch": torch, "assert_verbose_allclose": _library_comparison}
    exec(assert_matches_source(source, designs.reglu().graph), names)
    return names["assert_matches"]  # type: ignore[return-value]


@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e3])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("source", [plain.ASSERT_MATCHES, liger.ASSERT_MATCHES], ids=["plain", "liger"])
def test_a_written_test_fails_where_one_element_is_beyond_a_few_floors_of_the_verdict(
    source: str, dtype: str, scale: float
) -> None:
    assert_matches, (atol, rtol) = comparison(source), map(float, TOLERANCES[dtype])
    eager = (scale * torch.linspace(-1.0, 1.0, 64)).to(DTYPES[dtype])
    expected = eager.double()
    floor = FLOORS[DTYPES[dtype]].element
    for place in (0, 31):  # the largest element, and one of the smallest
        off = torch.zeros(64).index_fill(0, torch.tensor([place]), floor * scale)
        within, beyond = (eager + times * off.to(eager.dtype) for times in (1, MOST_FLOORS))
        assert_matches(expected, within, eager, atol, rtol, "[output]")
        with pytest.raises(AssertionError):
            assert_matches(expected, beyond, eager, atol, rtol, "[output]")


def test_float32_is_compared_as_the_verdict_does_whatever_the_kernel() -> None:
    floor = FLOORS[torch.float32].element
    assert [float(text) for text in TOLERANCES["float32"]] == [floor, floor]
    tree, wanted = miniature.tree(), (designs.reglu(), designs.rms_scale(), *variants())
    for design in wanted:
        changes = LigerLayout().kernel_changes(design, tree)
        text = next(change.text for change in changes if "/test_" in change.path)
        assert text is not None
        assert "(torch.float32, 2e-5, 2e-5)" in text


def test_twice_what_eager_mode_loses_is_allowed_as_well() -> None:
    assert_matches, expected = comparison(plain.ASSERT_MATCHES), torch.ones(8, dtype=torch.float64)
    eager = torch.ones(8) + 1e-3
    assert_matches(expected, torch.ones(8) - 1.9e-3, eager, 0.0, 0.0, "[output]")
    with pytest.raises(AssertionError):
        assert_matches(expected, torch.ones(8) - 2.1e-3, eager, 0.0, 0.0, "[output]")
