import ast
from dataclasses import replace

import pytest

from gpu_runner.contracts import Problem, SourceFile, parse_problem
from tests.workers.layouts.standing import LIGER, NORM, PLAIN, norm, plain
from workers.contracts import FailureCode, FileChange, UserFacingError
from workers.layouts.calls import adapter_source

PATH = ".kernelsmith/form/kernelsmith_form.py"


def test_the_form_has_the_reference_s_signature_and_calls_the_kernel() -> None:
    standing, problem = norm()
    form = LIGER.form_of(standing, problem, (), "tree.tar")
    text = (
        "from liger_kernel.ops.rms_norm import LigerRMSNormFunction as standing_kernel\n\n\n"
        "def candidate(x, w, eps=1e-06):\n    return standing_kernel.apply(x, w, eps)\n"
    )
    assert form.files == (SourceFile(PATH, text),)
    assert (form.module, form.symbol, form.tree) == ("kernelsmith_form", "candidate", "tree.tar")
    assert form.import_roots == (".kernelsmith/form", "src", ".")


def test_what_changes_is_screened_and_laid_over_the_snapshot() -> None:
    standing, problem = norm()
    changes = (FileChange(standing.path, "x = 1\n"), FileChange("gone.py", None), FileChange(PATH, "evil = 1\n"))
    form = LIGER.form_of(standing, problem, changes, "tree.tar")
    assert [file.path for file in form.files] == [standing.path, PATH]
    assert form.screened == (standing.path, PATH)
    assert "evil" not in form.files[1].text


def test_the_form_of_a_small_library_s_kernel_is_below_its_root() -> None:
    tree = plain()
    standing = PLAIN.locate("reglu", tree)
    problem = parse_problem(PLAIN.problem_of(standing, tree) or "")
    form = PLAIN.form_of(standing, problem, (), "tree.tar")
    assert form.files[0].text.startswith("from kernels.reglu import ReGLUFunction as standing_kernel\n")
    assert form.import_roots == (".kernelsmith/form", ".")


def _problem(call: str, signature: str = "x: torch.Tensor, w: torch.Tensor, eps: float = 1e-6") -> Problem:
    problem = parse_problem(NORM.replace("x: torch.Tensor, w: torch.Tensor, eps: float = 1e-6", signature))
    return replace(problem, call=call)


def test_a_result_may_be_one_of_a_tuple() -> None:
    assert "return standing_kernel.apply(x)[0]\n" in adapter_source(_problem("F.apply(x)[0]"), "m")


def test_a_parameter_may_be_called_like_the_kernel() -> None:
    source = (
        "def reference(standing_kernel):\n    return standing_kernel\n\n\n"
        'INPUTS = {"standing_kernel": "T"}\nWORKLOADS = [{"T": 8}]\nCALL = "F.apply(standing_kernel)"\n'
    )
    text = adapter_source(parse_problem(source), "m")
    assert text.startswith("from m import F as standing_kernel_\n")
    assert text.endswith("    return standing_kernel_.apply(standing_kernel)\n")


def test_keyword_only_parameters_stay_so() -> None:
    problem = _problem("F.apply(x, w, eps)", "x: torch.Tensor, w: torch.Tensor, *, eps: float = 1e-6")
    assert "def candidate(x, w, *, eps=1e-06):\n" in adapter_source(problem, "m")


@pytest.mark.parametrize(
    "call",
    [
        "__import__('os').system('true')",
        "F.apply(x)\nimport os",
        "F.apply(os)",
        "F.apply(x, (yield))",
        "F.apply(x) if x else y",
        "F.apply(x.__globals__)",
    ],
)
def test_a_call_that_does_more_makes_no_form(call: str) -> None:
    with pytest.raises(UserFacingError) as caught:
        adapter_source(_problem(call), "m")
    assert caught.value.failure.code is FailureCode.problem


def test_text_in_a_call_cannot_leave_its_quotes() -> None:
    source = adapter_source(_problem("F.apply(x, 'a\\'\\nimport os #')"), "m")
    assert [type(node).__name__ for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Import)] == []
    assert len(ast.parse(source).body) == 2


def test_a_problem_without_a_call_says_what_to_write() -> None:
    with pytest.raises(UserFacingError) as caught:
        adapter_source(replace(parse_problem(NORM), call=None), "m")
    assert "CALL =" in (caught.value.failure.fix or "")
