import pytest

from workers.layouts.calls import fits, read_call

SOURCE = """\
import torch


class A(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, w, eps=1e-6):
        return x


class Free(torch.autograd.Function):
    @staticmethod
    def forward(x, w):
        return x

    @staticmethod
    def setup_context(ctx, inputs, output):
        pass


class Any(torch.autograd.Function):
    @staticmethod
    def forward(ctx, *arguments):
        return arguments[0]


class Plain:
    @staticmethod
    def forward(ctx, x, w):
        return x


if torch.cuda.is_available():
    def launch(x, n=1):
        return x
"""


@pytest.mark.parametrize(
    ("text", "fit"),
    [
        ("A.apply(x, w, eps)", True),
        ("A.apply(x, w)", True),
        ("A.apply(x)", False),
        ("A.apply(x, w, eps, 1)", False),
        ("A(x, w)", False),
        ("A.apply(x, w)[0]", True),
        ("Free.apply(x, w)", True),
        ("Free.apply(x, w, 1)", False),
        ("Any.apply(x, 1, 2, 3, 4, 5)", True),
        ("Plain.apply(x, w)", False),
        ("launch(x)", True),
        ("launch.apply(x)", False),
        ("launch(x, 1, 2)", False),
        ("Gone.apply(x)", False),
    ],
)
def test_a_call_fits_where_the_file_takes_as_many_arguments(text: str, fit: bool) -> None:
    call = read_call(text)
    assert call is not None
    assert fits(call, SOURCE) is fit


def test_a_file_that_does_not_parse_fits_nothing() -> None:
    call = read_call("A.apply(x)")
    assert call is not None and not fits(call, "def broken(:\n")


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("A.apply(x, 0.0, 'llama', True, None)", "k.apply(x, 0.0, 'llama', True, None)"),
        ("A.apply(x, -100)[0]", "k.apply(x, -100)[0]"),
        ("A.apply(x.shape[1], x.shape[-1])", "k.apply(x.shape[1], x.shape[-1])"),
        ("gate(x.view(-1, 4), x.transpose(0, 1).contiguous())", "k(x.view(-1, 4), x.transpose(0, 1).contiguous())"),
        ("A.apply(\n    x,\n)", "k.apply(x)"),
        ("A.apply(x, 'a\\nb')", "k.apply(x, 'a\\nb')"),
        ("A.apply(x, [16, 24, -1])", "k.apply(x, [16, 24, -1])"),
        ("A.apply(x, (1, 'a'), [])", "k.apply(x, (1, 'a'), [])"),
    ],
)
def test_a_call_is_written_anew_on_one_line(text: str, written: str) -> None:
    call = read_call(text)
    assert call is not None
    assert call.source("k") == written


@pytest.mark.parametrize(
    "text",
    [
        "__import__('os').system('true')",
        "A.apply(__import__('os'))",
        "A.apply(x.__class__)",
        "A.apply(x.data_ptr())",
        "A.apply(torch.softmax(x, -1))",
        "A.apply(x + 1)",
        "A.apply((lambda: x)())",
        "A.apply(*x)",
        "A.apply(x, eps=1)",
        "A.apply(x)[i]",
        "A.apply(x)[0][0]",
        "A.B.apply(x)",
        "A.forward(x)",
        "A.apply(x[0])",
        "A.apply(x.shape[y()])",
        "A.apply(x, [y])",
        "A.apply(x, [[1]])",
        "A.apply(x, [*x])",
        "A.apply(x, [1 for _ in x])",
        "x",
        "A.apply(x); import os",
        "A.apply(x",
        "(" * 300,
        "A.apply(x" + ".view()" * 2000 + ")",
    ],
)
def test_anything_but_one_plain_call_is_refused(text: str) -> None:
    assert read_call(text) is None
