"""The test of a composed program: it passes on the model's own computation, and on no other; and what a formatter may do to one."""

from __future__ import annotations

import sys

import pytest

from tests.workers.fuse.models import MLP, MODELS, module_of, problem, traced
from workers.fuse.cut import cut
from workers.fuse.program import composed_of, moved, refactored
from workers.fuse.suite import suite_source


def run(source: str, program: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "lib", module_of(""))
    monkeypatch.setitem(sys.modules, "lib.original", module_of(source))
    monkeypatch.setitem(sys.modules, "lib.composed_kernel", module_of(program))
    module_of(suite_source(traced(source), "lib")).test_values_and_gradients()


@pytest.mark.parametrize("name", MODELS)
def test_the_models_own_computation_passes(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model = traced(MODELS[name])
    run(MODELS[name], refactored(model, cut(model, lambda _: None)), monkeypatch)


def test_numbers_of_the_call_are_given_to_both(monkeypatch: pytest.MonkeyPatch) -> None:
    source = problem("return F.relu(x) * scale + 1.0", {"x": "4 8"}).replace("(x)", "(x, scale: float = 0.5)", 1)
    run(source, source.replace("def reference", "def candidate").replace("float = 0.5", "float"), monkeypatch)


@pytest.mark.parametrize(("of", "by"), [("* 2.0", "* 2.5"), ("return x + ", "return x.detach() + ")])
def test_another_computation_fails(of: str, by: str, monkeypatch: pytest.MonkeyPatch) -> None:
    program = MLP.replace("def reference", "def candidate").replace(of, by)
    with pytest.raises(AssertionError, match=r"\[result \d\]"):
        run(MLP, program, monkeypatch)


def test_torch_computes_at_the_same_statements_after_a_formatter() -> None:
    model = traced(MLP)
    chosen = cut(model, lambda _: None)
    whole = composed_of(model, chosen, {n: f"import torch\n\n\n{p.function}" for n, p in chosen.parts.items()})
    assert moved(whole, whole.source) == whole
    formatted = "# A line more.\n" + whole.source.replace("aten.linear.default(", "aten.linear.default(\n        ")
    after = moved(whole, formatted)
    assert after is not None and after.source == formatted and len(after.torch_lines) == len(whole.torch_lines) + 2
    lines = formatted.splitlines()
    assert all(
        "aten.linear" in lines[n - 1] or "aten.layer_norm" in lines[n - 1] or lines[n - 1].startswith(" " * 8)
        for n in after.torch_lines
    )
    assert moved(whole, whole.source.replace("aten.linear", "aten.addmm")) is None
