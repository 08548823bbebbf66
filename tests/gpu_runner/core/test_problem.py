"""What is wrong with a problem file is said with its line and the fix, and nothing of it is run."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_runner.contracts import ProblemError, Workload, parse_problem

GOOD = '''"""ReGLU: a gated unit with ReLU on the gate."""
import torch
import torch.nn.functional as F


def reference(a: torch.Tensor, b: torch.Tensor, scale: float = 1.0) -> torch.Tensor:
    return F.relu(a) * b * scale


INPUTS = {"a": "T I", "b": {"dims": "T I", "grad": False}}
WORKLOADS = [{"T": 4096, "I": 14336}, {"T": 2048, "I": 11008, "dtype": "float16", "scale": 2.0}]
'''


def test_a_problem_is_read_without_running_it() -> None:
    problem = parse_problem(GOOD + "\nraise SystemExit\n")
    assert problem.title == "ReGLU: a gated unit with ReLU on the gate."
    assert [(i.name, i.dims, i.grad) for i in problem.inputs] == [("a", ("T", "I"), True), ("b", ("T", "I"), False)]
    assert [(s.name, s.default) for s in problem.scalars] == [("scale", 1.0)]
    assert problem.workloads[1] == Workload((("T", 2048), ("I", 11008)), "float16", (("scale", 2.0),))
    assert problem.workloads[1].label() == "T=2048 I=11008 scale=2.0 float16"
    assert (problem.dimensions, problem.parameters) == (("T", "I"), ("a", "b", "scale"))


@pytest.mark.parametrize(
    ("old", "new", "message", "line"),
    [
        ("def reference", "def other", "there is no `reference`", None),
        ("import torch\n", "import torch\nimport os\n", "the problem imports `os`", 3),
        ("import torch\n", "from .x import y\n", "the problem imports `.`", 2),
        ("import torch\n", "import numpy as np\n", "the problem imports `numpy`", 2),
        ("    return F", "    import socket\n    return F", "the problem imports `socket`", 7),
        ("F.relu(a)", "F.relu(a", "syntax error", 7),
        ("INPUTS =", "OUTPUTS =", "INPUTS is missing", 6),
        ("WORKLOADS =", "SIZES =", "WORKLOADS is missing", 10),
        ('"a": "T I"', '"a": "T J"', "no size for dimension `J`", 11),
        ('"T": 4096, ', '"T": 4096, "K": 3, ', "unknown dimension `K`", 11),
        ('"T": 4096', '"T": -4096', "not a positive whole number", 11),
        ('"T": 4096', '"T": "many"', "not a positive whole number", 11),
        ('"a": "T I"', '"a": "T I", "c": "T"', "`c`, which `reference` does not take", 10),
        ('"a": "T I"', '"a": {"grad": True}', "input `a` has no dims", 10),
        ('"a": "T I"', '"a": "T 3x"', "`3x` is not the name of a dimension", 10),
        ('"a": "T I"', '"a": {"dims": "T I", "colour": 1}', "unknown key `colour`", 10),
        ('"a": "T I"', '"a": {"dims": "T I", "dtype": "int128"}', "unknown dtype `int128`", 10),
        ('"a": "T I"', '"a": {"dims": "T I", "init": "magic"}', "unknown init `magic`", 10),
        ('"a": "T I"', '"a": {"dims": "T I", "dtype": "int64"}', "integer input `a` has no `high`", 10),
        ('"grad": False', '"role": "guest"', "unknown role `guest`", 10),
        ("scale: float = 1.0", "scale: float = torch.pi", "default of `scale` is not a plain value", 6),
        ("scale: float = 1.0", "scale", "`scale` has neither dims nor a default", 6),
        ("scale: float = 1.0", "*rest", "takes *args or **kwargs", 6),
        ("INPUTS = {", "INPUTS = dict(", "syntax error", 10),
        ('INPUTS = {"a"', "INPUTS = {name()", "INPUTS is not a plain value", 10),
        ('WORKLOADS = [{"T": 4096', 'WORKLOADS = [{"T": size()', "WORKLOADS is not a plain value", 11),
        ('"dtype": "float16"', '"dtype": "float8"', "unknown dtype `float8`", 11),
    ],
)
def test_an_error_names_the_line_and_the_fix(old: str, new: str, message: str, line: int | None) -> None:
    assert old in GOOD
    with pytest.raises(ProblemError) as caught:
        parse_problem(GOOD.replace(old, new, 1))
    assert message in caught.value.message
    assert caught.value.line == line
    assert caught.value.fix


@pytest.mark.parametrize("source", ["", "   \n", "x = " + "(" * 5000, "#" * 300_000, "\0", "def reference(:"])
def test_what_is_no_program_is_an_error_too(source: str) -> None:
    with pytest.raises(ProblemError) as caught:
        parse_problem(source)
    assert caught.value.fix


@pytest.mark.parametrize(
    ("extra", "message"),
    [
        ('DTYPES = ["float8"]', "DTYPES is not a list of known dtypes"),
        ('NAMES = {"function": "not a name"}', "NAMES is not a dict of identifiers"),
        ('NAMES = {"colour": "Red"}', "NAMES is not a dict of identifiers"),
        ('MUTATES = ["z"]', "MUTATES names something that is no input"),
    ],
)
def test_optional_parts_are_checked(extra: str, message: str) -> None:
    with pytest.raises(ProblemError, match=message):
        parse_problem(f"{GOOD}\n{extra}\n")


def test_optional_parts_are_read() -> None:
    problem = parse_problem(f'{GOOD}\nDTYPES = ["float32"]\nNAMES = {{"module": "LigerReGLU"}}\nMUTATES = ["a"]\n')
    assert (problem.dtypes, problem.names.module, problem.mutates) == (("float32",), "LigerReGLU", ("a",))


def test_a_kernelbench_problem_needs_its_functions() -> None:
    model = "import torch\nclass Model(torch.nn.Module):\n    pass\n"
    with pytest.raises(ProblemError, match=r"get_inputs"):
        parse_problem(model)
    whole = f"{model}def get_inputs():\n    return []\ndef get_init_inputs():\n    return []\n"
    assert parse_problem(whole).form == "kernelbench"


@given(st.text(max_size=200))
def test_no_text_makes_reading_fail_otherwise(text: str) -> None:
    try:
        parse_problem(text)
    except ProblemError as error:
        assert error.message


@pytest.mark.parametrize(
    ("source", "message", "line"),
    [
        (GOOD + "# \ud800\n", "the file is not UTF-8", 12),
        ("\ufeff" + GOOD, "the character U+FEFF ZERO WIDTH NO-BREAK SPACE cannot be seen", 1),
        (GOOD + "\0", "the character U+0000 cannot be seen", 12),
        (GOOD.replace("ReLU on", "Re\u200bLU on"), "the character U+200B ZERO WIDTH SPACE cannot be seen", 1),
        (GOOD.replace("ReLU on", "Re\\u202eLU on"), "the character U+202E RIGHT-TO-LEFT OVERRIDE cannot be seen", 1),
        (GOOD.replace("ReLU on", "Re\\ud800LU on"), "the character U+D800 cannot be seen", 1),
        ("# coding: latin-1\n" + GOOD, "a comment declares another encoding than utf-8", 1),
        (GOOD + "if F: pass\n" + "elif F: pass\n" * 1500, "the code nests more than 100 levels deep", 0),
    ],
)
def test_a_problem_without_a_single_reading_is_refused(source: str, message: str, line: int) -> None:
    with pytest.raises(ProblemError) as caught:
        parse_problem(source)
    assert caught.value.message.startswith(message)
    assert caught.value.fix
    assert line in (0, caught.value.line)


def test_a_problem_with_line_ends_of_windows_is_read() -> None:
    assert parse_problem(GOOD.replace("\n", "\r\n")).title == "ReGLU: a gated unit with ReLU on the gate."
