"""A port has the default operator's API around the compiler author's kernels."""

from __future__ import annotations

import ast
from dataclasses import replace

import pytest

from gpu_runner.contracts import Problem, parse_problem
from tests.workers.compiler.captured import captured
from workers.authors.compiler import CompilerAuthor
from workers.authors.protocol import Brief, Proposal
from workers.contracts import UserFacingError
from workers.targets.ascend import ASCEND
from workers.targets.contract import ApiContract, read_contract
from workers.targets.module import GIVEN, CallKernels, CallVariant, ported_module, with_backward
from workers.targets.scaling import host_source, unscaled

ELEMENTWISE = """
def gate_forward(a, b):
    return a, b, a


def gate_backward(a, b, dc):
    return a, b


class GateFunction(torch.autograd.Function):
    @staticmethod
    def forward(ctx, a, b):
        a, b, c = gate_forward(a, b)
        ctx.save_for_backward(a, b)
        return c

    @staticmethod
    def backward(ctx, dc):
        a, b = ctx.saved_tensors
        a, b = gate_backward(a, b, dc)
        return a, b
"""
NORM = """
def norm_forward(X, W, eps, offset, casting_mode):
    return (X if W is None else X * W), X, X, 1, 1


def norm_backward(dY, X, W, RSTD, needs_dw=True):
    return X, W


class NormFunction(torch.autograd.Function):
    @staticmethod
    def forward(ctx, X, W, eps, offset=0.0, casting_mode="llama", in_place=True):
        Y, X, RSTD, BLOCK_SIZE, num_warps = norm_forward(X, W, eps, offset, casting_mode)
        ctx.save_for_backward(X, W, RSTD)
        return Y

    @staticmethod
    def backward(ctx, dY):
        X, W, RSTD = ctx.saved_tensors
        dX, dW = norm_backward(dY, X, W, RSTD, needs_dw=ctx.needs_input_grad[1])
        return dX, dW, None, None, None, None
"""
DECORATOR = "from liger_kernel.ops.utils import ensure_contiguous"


def variant(name: str, graph_of: str, call: str) -> CallVariant:
    known, graph = captured(graph_of)
    problem: Problem = parse_problem(f"{known.source}\nCALL = {call!r}\n")
    proposal = CompilerAuthor().propose(Brief(name, problem, graph, ASCEND.style(name)))
    assert isinstance(proposal, Proposal)
    return CallVariant(name, problem, proposal)


def contract_of(source: str, function: str) -> ApiContract:
    names = [node.name for node in ast.parse(source).body if isinstance(node, ast.FunctionDef)]
    return read_contract(source, function, names)


def test_public_functions_keep_their_arguments_and_results() -> None:
    one = variant("gate", "swiglu", "GateFunction.apply(gate, up)")
    module = ported_module("gate", contract_of(ELEMENTWISE, "GateFunction"), (one,), (), DECORATOR)
    assert module.exports == ("GateFunction", "gate_forward", "gate_backward")
    assert (
        "def gate_forward(a, b):\n    y = _gate_forward(a.contiguous(), b.contiguous())\n    return a, b, y"
        in module.source
    )
    assert (
        "def gate_backward(a, b, dc):\n    return _gate_backward(dc.contiguous(), a.contiguous(), b.contiguous())"
        in module.source
    )
    assert module.narrowed == ()


def test_a_public_function_hands_on_what_the_port_keeps_too_and_refuses_what_the_function_refuses() -> None:
    one = variant("norm", "rms_norm", "NormFunction.apply(x, weight, eps, 0.0, 'llama', True)")
    module = ported_module("norm", contract_of(NORM, "NormFunction"), (one,), ("in_place",), DECORATOR)
    assert module.exports == ("NormFunction", "norm_forward", "norm_backward")
    forward, backward = (symbol.source or "" for symbol in module.symbols)
    assert "    y, rstd = _norm_forward(X.contiguous(), W.contiguous(), eps)\n" in forward
    assert forward.endswith("return y, X, rstd, None, None")
    assert "if offset != 0.0:" in forward and "if casting_mode != 'llama':" in forward and "if W is None:" in forward
    assert backward.endswith(
        "return _norm_backward(dY.contiguous(), X.contiguous(), W.contiguous(), RSTD.contiguous())"
    )
    assert "needs_dw ignored" in module.symbols[1].note
    assert module.narrowed == ("offset = 0.0", "casting_mode = 'llama'", "W = a tensor")
    compile(module.source, "norm.py", "exec")


def test_a_statistic_among_others_is_not_taken_for_the_origins() -> None:
    one = variant("norm", "layer_norm", "NormFunction.apply(x, weight, bias, eps)")
    source = NORM.replace('X, W, eps, offset=0.0, casting_mode="llama", in_place=True', "X, W, B, eps")
    source = source.replace("X, W, eps, offset, casting_mode", "X, W, B, eps")
    module = ported_module("norm", contract_of(source, "NormFunction"), (one,), (), DECORATOR)
    assert "mean, rstd" in module.source, "of which the origin has one"
    assert module.exports == ("NormFunction",)


def test_a_function_that_passes_on_what_the_port_has_not_is_not_exported_and_the_reason_names_it() -> None:
    one = variant("norm", "rms_norm", "NormFunction.apply(x, weight, eps, 0.0, 'llama', True)")
    contract = contract_of(NORM.replace("RSTD", "Scratch"), "NormFunction")
    module = ported_module("norm", contract, (one,), ("in_place",), DECORATOR)
    assert module.exports == ("NormFunction",)
    assert all(symbol.source is None and "have: Scratch" in symbol.note for symbol in module.symbols)


def test_variants_are_chosen_by_the_constants_in_which_they_differ() -> None:
    modes = ("llama", "gemma")
    several = tuple(
        variant(f"norm_{mode}", "rms_norm", f"NormFunction.apply(x, weight, eps, 0.0, '{mode}', True)")
        for mode in modes
    )
    module = ported_module("norm", contract_of(NORM, "NormFunction"), several, ("in_place",), DECORATOR)
    refused = "if casting_mode not in ('llama', 'gemma'):\n            raise NotImplementedError("
    assert refused in module.source, "the same kernels serve both"
    assert "_norm_gemma" not in module.source and "ctx.variant" not in module.source
    assert "takes casting_mode = 'llama' or 'gemma'" in module.source
    compile(module.source, "norm.py", "exec")


def test_variants_with_other_kernels_are_told_apart_in_backward_too() -> None:
    with_offset = "NormFunction.apply(x, weight, eps, 0.0, 'llama', True)"
    plain = "NormFunction.apply(x, None, eps, 0.0, 'llama', True)"
    several = (variant("norm_weight", "rms_norm", with_offset), variant("norm_plain", "rms_norm_plain", plain))
    module = ported_module("norm", contract_of(NORM, "NormFunction"), several, ("in_place",), DECORATOR)
    assert 'if W is not None:\n            ctx.variant = "norm_weight"' in module.source
    assert 'if W is None:\n            ctx.variant = "norm_plain"' in module.source
    assert 'if ctx.variant == "norm_plain":' in module.source
    assert module.source.count("def _block(") == 1, "what both need stands once"
    given = GIVEN
    assert module.calls == (
        CallKernels(
            (given, given, given, "0.0", "'llama'", "True"), "_norm_weight_forward", "_norm_weight_backward", 3
        ),
        CallKernels((given, "None", given, "0.0", "'llama'", "True"), "_norm_plain_forward", "_norm_plain_backward", 2),
    )
    compile(module.source, "norm.py", "exec")


LOSS = """
class LossFunction(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, y, reduction="mean", scaled=False):
        return loss

    @staticmethod
    def backward(ctx, grad):
        return dx, None, None, None
"""


def test_a_mean_takes_the_kernels_of_the_sum_and_divides_by_its_size() -> None:
    known, graph = captured("mse")
    whole, size = unscaled(replace(graph, output_dtypes=("float32",)))
    several = []
    for reduction, divisor in (("mean", size), ("sum", "")):
        name = f"loss_{reduction}"
        problem = parse_problem(f"{known.source}\nCALL = \"LossFunction.apply(x, y, '{reduction}', False)\"\n")
        proposal = CompilerAuthor().propose(Brief(name, problem, whole, ASCEND.style(name)))
        assert isinstance(proposal, Proposal)
        several.append(CallVariant(name, problem, proposal, host_source(divisor, problem)))
    module = ported_module("loss", contract_of(LOSS, "LossFunction"), tuple(several), (), DECORATOR)
    assert "_loss_mean" not in module.source and "ctx.variant" not in module.source, "the same kernels serve both"
    assert "if reduction == 'mean':\n            ctx.divisor = x.numel()" in module.source
    assert "if reduction == 'sum':\n            ctx.divisor = 1" in module.source
    assert "return out / ctx.divisor" in module.source and "_loss_backward(grad / ctx.divisor, " in module.source
    assert [call.divisor for call in module.calls] == ["given.numel()", "1"]
    assert "if scaled is not False:" in module.source
    compile(module.source, "loss.py", "exec")


SOFTMAX = """
def row_forward(x):
    return x, 1, True


def row_backward(dy, y, BLOCK_SIZE, multi):
    return dy


class RowFunction(torch.autograd.Function):
    @staticmethod
    def forward(ctx, input_):
        y, BLOCK_SIZE, multi = row_forward(input_)
        ctx.save_for_backward(y)
        ctx.BLOCK_SIZE = BLOCK_SIZE
        ctx.multi = multi
        return y

    @staticmethod
    def backward(ctx, grad):
        (y,) = ctx.saved_tensors
        dx = row_backward(grad, y, ctx.BLOCK_SIZE, ctx.multi)
        return dx
"""


def test_a_backward_of_what_forward_returned_serves_who_calls_it_and_launch_settings_are_none() -> None:
    own = variant("row_tiled", "softmax", "RowFunction.apply(x)")
    signature = replace(own.signature, forward_arguments=("dy", "y"), outputs=("out",))
    given = replace(own.proposal, source="def _row_tiled_backward(dy, y):\n    return dy\n", signature=signature)
    one = with_backward(own, given)
    module = ported_module("row_tiled", contract_of(SOFTMAX, "RowFunction"), (one,), (), DECORATOR)
    assert module.exports == ("RowFunction", "row_forward", "row_backward") and module.saved == ("y",)
    assert module.source.count("def _row_tiled_backward") == 1, "the proposal's own backward is gone with its kernels"
    assert "return y, None, None" in module.source
    assert (
        "def row_backward(dy, y, BLOCK_SIZE, multi):\n    return _row_tiled_backward(dy.contiguous(), " in module.source
    )
    assert all("BLOCK_SIZE, multi are " in symbol.note for symbol in module.symbols)
    compile(module.source, "row.py", "exec")


def test_a_value_of_each_kind_that_the_operator_takes_narrows_nothing() -> None:
    modes = {"'llama'": "norm_llama", "'gemma'": "norm_gemma"}
    typed = NORM.replace('casting_mode="llama"', 'casting_mode: MODE = "llama"')
    several = tuple(
        variant(name, "rms_norm", f"NormFunction.apply(x, weight, eps, 0.0, {mode}, True)")
        for mode, name in modes.items()
    )

    def narrowed(values: str) -> tuple[str, ...]:
        contract = contract_of(f"MODE = Literal[{values}]\n{typed}", "NormFunction")
        return ported_module("norm", contract, several, ("in_place",), DECORATOR).narrowed

    assert narrowed("'llama', 'gemma'") == ("offset = 0.0", "W = a tensor")
    assert narrowed("'llama', 'gemma', 'none'") == ("offset = 0.0", "W = a tensor", "casting_mode = 'llama' or 'gemma'")


def test_a_call_that_computes_its_arguments_cannot_be_ported() -> None:
    one = variant("gate", "swiglu", "GateFunction.apply(gate.contiguous(), up)")
    with pytest.raises(UserFacingError, match="its CALL computes `a`"):
        ported_module("gate", contract_of(ELEMENTWISE, "GateFunction"), (one,), (), DECORATOR)
