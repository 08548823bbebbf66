"""A kernel's name from the command line is an identifier whatever its problem's file is called."""

from __future__ import annotations

from pathlib import Path

import pytest

from service.cli.console import kernel_name


@pytest.mark.parametrize(
    ("file", "name"),
    [
        ("23_Softmax.py", "softmax"),
        ("swiglu.py", "swiglu"),
        ("88_MinGPTNewGelu.py", "mingptnewgelu"),
        ("100.py", "kernel_100"),
        ("10_3D_product.py", "kernel_10_3d_product"),
        ("5_lambda.py", "kernel_5_lambda"),
        ("größe-2.py", "gr_e_2"),
        ("___.py", "kernel"),
        ("class.py", "kernel_class"),
    ],
)
def test_a_files_name_becomes_an_identifier(file: str, name: str) -> None:
    assert kernel_name(Path(file), None) == name
    assert name.isidentifier()


def test_a_name_that_is_asked_for_becomes_one_too() -> None:
    assert kernel_name(Path("x.py"), "2-Layer Norm") == "layer_norm"
