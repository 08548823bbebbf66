"""A port is registered by operation as the library's own implementations are."""

from __future__ import annotations

import ast

from workers.layouts.liger import paths
from workers.targets.ascend import ASCEND
from workers.targets.registration import LOCATIONS, with_location
from workers.tree import Tree

assert ASCEND.registration is not None
REGISTRATION = ASCEND.registration
DEFAULT = """
@register_op("kl_div", impl_name="nvidia-triton", modes=("default",))
def kl_div_triton(y, t, reduction: str = "batchmean", *, mode: Optional[str] = None) -> torch.Tensor:
    if mode not in (None, "default"):
        raise ValueError(mode)
    return LigerKLDivLossFunction.apply(y, t, reduction)


@register_op("kl_loss_and_grad", impl_name="nvidia-triton")
def kl_loss_and_grad_triton(logits, *, mode=None):
    return logits
"""
FUNCTIONAL = """
declare_op_locations(
    "kl_div",
    (
        "liger_kernel.ops.backends._triton.kl_div",
    ),
)
declare_op_locations("kl_loss_and_grad", ("liger_kernel.ops.backends._triton.kl_div",))
"""
FILES = {
    f"{paths.OPS}/backends/_triton/kl_div.py": DEFAULT,
    LOCATIONS: FUNCTIONAL,
    f"{REGISTRATION.folder}/dispatch_common.py": "",
}


def changed(**more: str) -> dict[str, str]:
    tree = Tree({path: text.encode() for path, text in (FILES | more).items()})
    found = REGISTRATION.changes("kl_div", "LigerKLDivLossFunction", "port.kl_div", "Triton-Ascend", tree)
    return {change.path: change.text or "" for change in found}


def test_the_registered_function_takes_what_the_defaults_takes_and_calls_the_port() -> None:
    texts = changed()
    source = texts[REGISTRATION.path("kl_div")]
    node = next(node for node in ast.parse(source).body if isinstance(node, ast.FunctionDef))
    assert ast.unparse(node.args) == "y, t, reduction: str='batchmean', *, mode: Optional[str]=None"
    assert "return LigerKLDivLossFunction.apply(y, t, reduction)" in source
    assert "from port.kl_div import LigerKLDivLossFunction" in source and "from typing import Optional" in source
    (decorator,) = node.decorator_list
    assert {keyword.arg for keyword in decorator.keywords} == {  # type: ignore[attr-defined]
        "impl_name",
        "capability",
        "modes",
        "default_mode",
        "preference_rank",
        "tolerances",
        "notes",
    }
    added = '        "liger_kernel.ops.backends._triton.kl_div",\n        "liger_kernel.ops.backends._ascend.kl_div",\n'
    assert added in texts[LOCATIONS] and texts[LOCATIONS].count("_ascend") == 1


def test_an_operator_without_a_registry_and_one_that_is_registered_are_left_alone() -> None:
    assert changed(**{f"{paths.OPS}/backends/_triton/kl_div.py": "x = 1\n"}) == {}
    there = changed(**{REGISTRATION.path("kl_div"): "x = 1\n"})
    assert list(there) == [LOCATIONS], "the file that registers it is the library's own"
    assert changed(**{REGISTRATION.path("kl_div"): "x = 1\n", LOCATIONS: there[LOCATIONS]}) == {}


def test_a_location_on_one_line_is_added_there() -> None:
    one_line = with_location(FUNCTIONAL, "kl_loss_and_grad", "port.kl_div")
    assert '("liger_kernel.ops.backends._triton.kl_div", "port.kl_div",)' in one_line
    assert with_location(FUNCTIONAL, "unknown", "port.kl_div") == FUNCTIONAL
