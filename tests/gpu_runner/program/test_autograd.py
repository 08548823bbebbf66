"""What torch sees of a program: autograd functions, modules and operators, as under CPython."""

from __future__ import annotations

import ast
from typing import Any

import pytest
import torch

from gpu_runner.program.load import load
from gpu_runner.program.objects import Violation

HEAD = "import torch\nfrom torch.autograd.function import once_differentiable\n"
OLD = """
class Square(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, factor=1.0):
        ctx.save_for_backward(x)
        ctx.factor = factor
        ctx.seen = []
        return x * x * factor
    @staticmethod
    def backward(ctx, dy):
        (x,) = ctx.saved_tensors
        return (2 * x * dy * ctx.factor if ctx.needs_input_grad[0] else None), None
"""
NEW = """
class Square(torch.autograd.Function):
    @staticmethod
    def forward(x, factor=1.0):
        return x * x * factor
    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(inputs[0])
        ctx.factor = inputs[1] if len(inputs) > 1 else 1.0
    @staticmethod
    def backward(ctx, dy):
        (x,) = ctx.saved_tensors
        return 2 * x * dy * ctx.factor, None
"""
OPERATOR = """
@torch.library.custom_op("test::square", mutates_args=())
def square(x: torch.Tensor) -> torch.Tensor:
    return x * x
"""
REGISTERED = """
def setup(ctx, inputs, output): ctx.save_for_backward(*inputs)
def back(ctx, dy): return 2 * ctx.saved_tensors[0] * dy
square.register_autograd(back, setup_context=setup)
"""


def program(text: str, symbol: str = "run") -> Any:
    return load({"candidate.py": ast.parse(HEAD + text)}, [""], ["candidate.py"], "candidate", symbol)[1]


def gradient(run: Any) -> tuple[list[float], list[float]]:
    x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
    y = run(x)
    y.sum().backward()
    assert x.grad is not None
    return y.tolist(), x.grad.tolist()


SQUARE = ([1.0, 4.0, 9.0], [2.0, 4.0, 6.0])


@pytest.mark.parametrize("text", [OLD, NEW], ids=["one forward", "setup_context"])
def test_a_function_in_either_style(text: str) -> None:
    assert gradient(program(text + "def run(x): return Square.apply(x, 1.0)\n")) == SQUARE


def test_a_double_backward_and_one_that_is_once_differentiable() -> None:
    x = torch.tensor([3.0], requires_grad=True)
    run = program(OLD + "def run(x): return Square.apply(x)\n")
    (first,) = torch.autograd.grad(run(x).sum(), x, create_graph=True)
    assert torch.autograd.grad(first.sum(), x)[0].tolist() == [2.0]
    once = OLD.replace(
        "    @staticmethod\n    def backward", "    @staticmethod\n    @once_differentiable\n    def backward"
    )
    run = program(once + "def run(x): return Square.apply(x)\n")
    (first,) = torch.autograd.grad(run(x).sum(), x, create_graph=True)
    with pytest.raises(RuntimeError, match=r"once_differentiable|does not require grad"):
        torch.autograd.grad(first.sum(), x)


def test_needs_input_grad_is_torchs_own() -> None:
    text = OLD.replace("ctx.needs_input_grad[0] else None", "ctx.needs_input_grad == (True, False) else None")
    assert gradient(program(text + "def run(x): return Square.apply(x, 1.0)\n")) == SQUARE


CHANGES = ["ctx.factor = 1", "ctx.seen.append(1)", "ctx.seen += [1]", "setattr(ctx, 'n', 1)", "ctx.saved_tensors = ()"]


@pytest.mark.parametrize("line", CHANGES)
def test_a_context_is_not_changed_after_its_forward(line: str) -> None:
    text = OLD.replace("        (x,) =", f"        {line}\n        (x,) =")
    with pytest.raises(Violation):
        gradient(program(text + "def run(x): return Square.apply(x)\n"))


def test_an_operator_has_the_gradient_that_is_registered_and_none_otherwise() -> None:
    assert gradient(program(OPERATOR + REGISTERED + "def run(x): return square(x)\n")) == SQUARE
    with pytest.raises(RuntimeError, match="no autograd formula"):
        gradient(program(OPERATOR + "def run(x): return square(x)\n"))
    with pytest.raises(Violation):
        program(OPERATOR + "def back(ctx, dy): return dy\ndef run(x):\n    square.register_autograd(back)\n")(
            torch.ones(1)
        )


MODULE = """
class Base(torch.nn.Module):
    def __init__(self, n):
        super(Base, self).__init__()
        self.scale = torch.nn.Parameter(torch.ones(n))
        self.n = n
        self.register_buffer("shift", torch.zeros(n))
class ModelNew(Base):
    def __init__(self, n):
        super().__init__(n)
        self.inner = Base(n)
    def forward(self, x):
        {line}
        return x * self.scale + self.shift + self.inner.shift + self.n
"""


def test_a_module_takes_the_parameters_that_it_is_given() -> None:
    made = program(MODULE.replace("{line}", "pass"), "ModelNew")(3)
    names = sorted(name for name, _ in made.named_parameters()), sorted(name for name, _ in made.named_buffers())
    assert names == (["inner.scale", "scale"], ["inner.shift", "shift"])
    given = {"scale": torch.full((3,), 2.0), "inner.shift": torch.ones(3)}
    assert torch.func.functional_call(made, given, (torch.ones(3),)).tolist() == [6.0, 6.0, 6.0]
    assert made(torch.ones(3)).tolist() == [4.0, 4.0, 4.0]


KEEPS = """
self.scale.requires_grad_(False)
self.n += 1
self.n = 1
self.train(not self.training)
self.eval()
self.register_buffer("more", torch.zeros(1))
self.register_parameter("more", None)
self.add_module("more", self.inner)
self.to("cpu")
self.shift.add_(1)
self.shift[0] += 1
self.inner.n = 2
self.shift = x
self.forward = 1
self.__dict__
self._buffers
self.scale.data.mul_(2)
setattr(self, "n", 2)
self.training = False
"""


@pytest.mark.parametrize("line", KEEPS.strip().splitlines())
def test_a_forward_keeps_nothing_on_its_module(line: str) -> None:
    made = program(MODULE.replace("{line}", line), "ModelNew")(3)
    with pytest.raises(Violation):
        for _ in range(2):
            made(torch.ones(3))


def test_a_module_without_its_own_beginning_is_an_error_as_under_cpython() -> None:
    text = "class ModelNew(torch.nn.Module):\n    def __init__(self):\n        self.w = torch.nn.Parameter(torch.ones(1))\n"
    with pytest.raises(AttributeError):
        program(text, "ModelNew")()


FAKE = """
@square.register_fake
def _(x): return {fake}


def run():
    return square(torch.ones(3))
"""


def test_a_fake_that_says_what_the_operator_gives_passes() -> None:
    assert program(OPERATOR + FAKE.format(fake="torch.empty_like(x)"))().tolist() == [1.0, 1.0, 1.0]


@pytest.mark.parametrize("fake", ["x.new_empty(2)", "torch.empty_like(x, dtype=torch.float16)", "(x, x)", "None"])
def test_a_fake_of_another_form_is_refused(fake: str) -> None:
    with pytest.raises(Violation) as raised:
        program(OPERATOR + FAKE.format(fake=fake))()
    assert raised.value.rule == "fake"


def test_a_fake_that_is_registered_by_name_is_held_to_its_operator() -> None:
    text = (
        FAKE.format(fake="x.new_empty(2)")
        .replace("@square.", "@torch.library.")
        .replace("fake\n", 'fake("test::square")\n')
    )
    with pytest.raises(Violation) as raised:
        program(OPERATOR + text)()
    assert raised.value.rule == "fake"
