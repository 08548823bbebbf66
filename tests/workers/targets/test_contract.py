"""The API of a default operator is read from its source."""

from __future__ import annotations

import pytest

from workers.contracts import UserFacingError
from workers.targets.contract import read_contract

SOURCE = """
import torch


def norm_forward(X, W, eps, mode):
    return X, X, W, 4


def norm_backward(dY, X, RSTD, mode):
    return dY, dY


class NormFunction(torch.autograd.Function):
    @staticmethod
    @ensure_contiguous
    def forward(ctx, X, W, eps: float = 1e-6, mode="llama"):
        if isinstance(X, DTensor):
            X = X.full_tensor()
        Y, X, RSTD, BLOCK_SIZE = norm_forward(X, W, eps, mode)
        ctx.mode = mode
        ctx.save_for_backward(X, RSTD)
        return Y

    @staticmethod
    @ensure_contiguous
    def backward(ctx, dY):
        X, RSTD = ctx.saved_tensors
        dX, dW = norm_backward(dY, X, RSTD, ctx.mode)
        return dX, dW, None, None
"""


def test_everything_that_callers_rely_on_is_read() -> None:
    contract = read_contract(SOURCE, "NormFunction", ["NormFunction", "norm_forward", "norm_backward"])
    assert [parameter.source for parameter in contract.parameters] == ["X", "W", "eps: float = 1e-06", "mode='llama'"]
    assert (contract.returns, contract.upstream) == (("Y",), ("dY",))
    assert contract.gradients == ("dX", "dW", "None", "None")
    assert (contract.saved, contract.attributes) == (("X", "RSTD"), ("mode",))
    assert contract.contiguous and contract.distributed
    assert contract.forward is not None and contract.backward is not None
    assert contract.forward.results == ("Y", "X", "RSTD", "BLOCK_SIZE")
    assert contract.backward.arguments == ("dY", "X", "RSTD", "ctx.mode")


def test_a_function_that_the_library_does_not_export_is_no_part_of_the_api() -> None:
    contract = read_contract(SOURCE, "NormFunction", ["NormFunction"])
    assert contract.forward is None and contract.backward is None


@pytest.mark.parametrize(
    ("source", "why"),
    [
        (SOURCE.replace("class NormFunction", "class Other"), "the file defines Other"),
        (SOURCE.replace("def backward(", "def back("), "no forward with a context and backward"),
        (SOURCE.replace('mode="llama"):', 'mode="llama", *more):'), "variable number of arguments"),
        ("class (", "does not parse"),
    ],
)
def test_what_cannot_be_read_is_refused_with_its_reason(source: str, why: str) -> None:
    with pytest.raises(UserFacingError, match=why):
        read_contract(source, "NormFunction", [])
