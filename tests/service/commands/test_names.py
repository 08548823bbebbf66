"""What may be the name of a kernel."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.commands.values import check_name, suggest_name


@pytest.mark.parametrize("name", ["reglu", "rms_norm", "fused_linear_jsd", "conv2d", "x", "a" * 64])
def test_snake_case_identifiers_are_names(name: str) -> None:
    assert check_name(name) is None


@pytest.mark.parametrize(
    ("name", "suggestion"),
    [
        ("ReGLU", "reglu"),
        ("SwiGLU", "swiglu"),
        ("GEGLU", "geglu"),
        ("DyT", "dyt"),
        ("RMSNorm", "rms_norm"),
        ("LayerNorm", "layer_norm"),
        ("KLDiv", "kl_div"),
        ("FusedLinearJSD", "fused_linear_jsd"),
        ("TVDLoss", "tvd_loss"),
        ("Conv2d", "conv2d"),
        ("my-kernel", "my_kernel"),
        ("a__b", "a_b"),
        ("_x", "x"),
        ("naïve", "naive"),
        ("a/b", "b"),
        ("src/ops/ReGLU.py", "reglu"),
        ("reglu.py", "reglu"),
        ("C:\\x", "x"),
        ("..", None),
        ("2d", None),
        ("", None),
        ("名前", None),
        ("class", "class_kernel"),
        ("None", "none_kernel"),
        ("a" * 65, None),
        ("--", None),
    ],
)
def test_other_names_are_refused_with_one_that_would_do(name: str, suggestion: str | None) -> None:
    fault = check_name(name)
    assert fault is not None
    assert fault.suggestion == suggestion


def test_a_path_is_said_to_be_one() -> None:
    fault = check_name("a/b")
    assert fault is not None
    assert "not a path" in fault.reason


@given(st.text(max_size=100))
def test_every_suggestion_is_a_name(text: str) -> None:
    suggestion = suggest_name(text)
    assert suggestion is None or check_name(suggestion) is None
    fault = check_name(text)
    assert fault is None or fault.suggestion is None or check_name(fault.suggestion) is None
