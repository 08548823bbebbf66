"""Sources that are to stand in one file with others: every name is their own, and a second derivative raises."""

from __future__ import annotations

import ast
from dataclasses import replace

import pytest

from tests.workers.compiler.captured import captured, style
from workers.authors.compiler.author import CompilerAuthor
from workers.authors.protocol import Brief, Proposal


def composable(name: str, own: str) -> str:
    named = replace(
        style(name),
        function_class="OwnFunction",
        forward_function=f"{own}_forward",
        backward_function=f"{own}_backward",
        entry=own,
        prefix=f"_{own}_",
        once_differentiable=True,
    )
    answer = CompilerAuthor().propose(Brief(own, *captured(name), named))
    assert isinstance(answer, Proposal)
    return answer.source


def defined(source: str) -> set[str]:
    return {node.name for node in ast.parse(source).body if isinstance(node, ast.FunctionDef | ast.ClassDef)}


@pytest.mark.parametrize("name", ["rms_norm", "linear_gelu"])
def test_every_name_of_the_file_is_its_own(name: str) -> None:
    one = defined(composable(name, "one"))
    assert {"one", "OwnFunction", "one_forward", "one_backward"} <= one
    given = {"one", "OwnFunction", "one_forward", "one_backward"}
    assert all(other.startswith("_one_") for other in one - given)


@pytest.mark.parametrize("name", ["rms_norm", "linear_gelu"])
def test_the_backward_is_a_function_that_has_no_derivative(name: str) -> None:
    classes = {node.name: node for node in ast.parse(composable(name, "one")).body if isinstance(node, ast.ClassDef)}
    [gradients] = [node for name, node in classes.items() if name != "OwnFunction"]
    assert gradients.name == "_one_OwnGradients"
    assert "one_backward(" in ast.unparse(gradients) and "raise RuntimeError" in ast.unparse(gradients)
    assert "_one_OwnGradients.apply(" in ast.unparse(classes["OwnFunction"])
    assert "one_backward(" not in ast.unparse(classes["OwnFunction"])
