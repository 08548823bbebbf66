import ast
from dataclasses import replace

import pytest

from gpu_runner.contracts import Problem, parse_problem
from tests.workers.layouts.designs import reglu, rms_scale
from tests.workers.layouts.miniature import tree as miniature
from tests.workers.layouts.standing import LIGER, NORM, PLAIN, liger, plain, with_file
from tests.workers.layouts.variants import variants
from workers.contracts import FailureCode, UserFacingError
from workers.layouts.protocol import Design, Layout
from workers.layouts.reference import problem_in_suite, tables_source
from workers.tree import Tree

OWN = ".kernelsmith/problems/rms_norm.py"


def _problem(layout: Layout, tree: Tree, name: str) -> str | None:
    return layout.problem_of(layout.locate(name, tree), tree)


def _as_written(design: Design, function: str) -> Problem:
    """The problem of a design, as it has to be read from the library: its source is another, and it says how it is called."""
    given = design.problem
    return replace(given, source="", call=f"{function}.apply({', '.join(given.parameters)})")


def _read(text: str | None) -> Problem:
    return replace(parse_problem(text or ""), source="")


@pytest.mark.parametrize("design", [reglu(), rms_scale(), *variants()], ids=lambda design: design.name)
def test_the_problem_of_a_created_kernel_is_found_again(design: Design) -> None:
    tree = miniature().overlaid(LIGER.kernel_changes(design, miniature()))
    assert _read(_problem(LIGER, tree, design.name)) == _as_written(design, design.names.function or "")


@pytest.mark.parametrize("design", [reglu(), rms_scale(), *variants("")], ids=lambda design: design.name)
def test_the_problem_of_a_created_kernel_is_found_again_in_a_small_library(design: Design) -> None:
    tree = plain(design)
    names = PLAIN.names(design.name, design.problem, Tree({}))
    if "import triton" not in (design.source or ""):
        path = f"kernels/{design.name}.py"
        tree = with_file(tree, path, "import triton\n" + (tree.read(path) or ""))
    assert _read(_problem(PLAIN, tree, design.name)) == _as_written(design, names.function or "")


def test_a_problem_found_again_computes_the_same() -> None:
    text = _problem(LIGER, liger(), "rms_scale") or ""
    assert "return (wide * scale).to(x.dtype) * weight" in text
    assert "pytest" not in text and "liger_kernel" not in text and "# ----" not in text


def test_the_repository_s_own_file_comes_first() -> None:
    assert _problem(LIGER, liger(), "rms_norm") is None
    assert _problem(LIGER, with_file(liger(), OWN, NORM), "rms_norm") == NORM
    other = NORM.replace("LigerRMSNormFunction.apply(x, w, eps)", "LigerRMSScaleFunction.apply(x, w)")
    assert _problem(LIGER, with_file(liger(), ".kernelsmith/problems/rms_scale.py", other), "rms_scale") == other


def test_an_own_file_without_a_call_gets_that_of_the_function() -> None:
    without = NORM[: NORM.index("CALL")]
    text = _problem(LIGER, with_file(liger(), OWN, without), "rms_norm") or ""
    assert parse_problem(text).call == "LigerRMSNormFunction.apply(x, w, eps)"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (NORM.replace('"T H"', '"T 9H"'), "`9H` is not the name of a dimension"),
        (NORM.replace("w, eps)\"", "w)\""), "its CALL does not call what stands in `src/liger_kernel/ops/rms_norm.py`"),
        (NORM.replace("LigerRMSNormFunction", "Gone"), "its CALL does not call what stands in"),
    ],
)  # fmt: skip
def test_an_own_file_that_cannot_be_used_says_why(text: str, said: str) -> None:
    with pytest.raises(UserFacingError) as caught:
        _problem(LIGER, with_file(liger(), OWN, text), "rms_norm")
    assert caught.value.failure.code is FailureCode.problem
    assert said in caught.value.failure.message and OWN in caught.value.failure.message
    assert caught.value.failure.fix


def test_a_known_problem_is_used_where_its_call_fits_the_file() -> None:
    geglu = _problem(LIGER, liger(), "geglu")
    assert geglu is not None and parse_problem(geglu).call == "LigerGELUMulFunction.apply(a, b)"
    # This library's norm takes fewer arguments than the one that is known.
    assert _problem(LIGER, liger(), "rms_norm") is None


@pytest.mark.parametrize(
    "text",
    [
        "",
        "def broken(:\n",
        "def reference(x):\n    return x\n",
        'INPUTS = {"x": "T"}\nWORKLOADS = [{"T": 1}]\nCALL = "F.apply(x)"\n',
        'import os\n\n\ndef reference(x):\n    return os\n\n\nINPUTS = {"x": "T"}\nWORKLOADS = [{"T": 1}]\nCALL = "F.apply(x)"\n',
        'def reference(x):\n    return x\n\n\nINPUTS = {"x": open("x")}\nWORKLOADS = [{"T": 1}]\nCALL = "F.apply(x)"\n',
    ],
)
def test_a_test_file_that_states_no_problem_gives_none(text: str) -> None:
    assert problem_in_suite(text) is None


@pytest.mark.parametrize("width", [40, 60, 120])
def test_tables_are_as_narrow_as_the_library_wants_them_and_say_the_same(width: int) -> None:
    design = variants()[1]
    tables = tables_source(design, width)
    assert all(len(line) <= width for line in tables.splitlines() if not line.startswith("#"))
    values = {node.targets[0].id: ast.literal_eval(node.value) for node in ast.parse(tables).body}  # type: ignore[attr-defined]
    assert values["CALL"] == "LigerAddGainFunction.apply(x, residual, gain, offset)"
    assert values["WORKLOADS"] == [{"B": 4, "T": 2048, "H": 4096}]
    assert values["INPUTS"]["gain"] == {"dims": "H", "role": "parameter", "init": "ones"}
