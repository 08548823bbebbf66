"""Sections: sources that are to stand in a file that exists, and gradients in the memory of what they are computed from."""

from __future__ import annotations

import ast
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tests.few import few
from tests.workers.compiler.captured import COMPILED, LOOKED_AT, captured, proposal
from tests.workers.compiler.formed import PREFIX, everything, formed, section_style, tunable_style
from tests.workers.compiler.test_sources import TARGET_RUFF
from tests.workers.compiler.test_tuning import TABLE
from workers.authors.protocol import Proposal, Signature
from workers.tuned_table import with_tuned


def section(name: str, *may_overwrite: str) -> Proposal:
    """A problem's section."""
    return formed(name, section_style(name, liger=True), may_overwrite)


def signature(name: str) -> Signature:
    """How a section is called."""
    how = section(name).signature
    assert how is not None
    return how


@pytest.mark.parametrize("name", few(COMPILED, LOOKED_AT))
def test_section_defines_functions_and_its_table_alone_all_with_the_prefix(name: str) -> None:
    for node in ast.parse(section(name).source).body:
        if isinstance(node, ast.FunctionDef):
            assert node.name.startswith(PREFIX)
        else:
            assert isinstance(node, ast.Assign)
            assert ast.unparse(node) == f"{PREFIX}TUNED = {{}}"


def test_what_the_prefix_ends_with_a_name_does_not_begin_with_again() -> None:
    prefix = "_fast_rms_norm_"
    style = replace(
        section_style("rms_norm", liger=True),
        prefix=prefix,
        forward_function=f"{prefix}forward",
        backward_function=f"{prefix}backward",
    )
    functions = [n.name for n in ast.parse(formed("rms_norm", style).source).body if isinstance(n, ast.FunctionDef)]
    assert f"{prefix}forward_kernel" in functions
    assert f"{prefix}backward_kernel" in functions
    assert not any("rms_norm_rms_norm" in name for name in functions)


def test_section_says_how_it_is_called() -> None:
    assert signature("rms_norm") == Signature(
        forward_arguments=("x", "weight", "eps"),
        outputs=("y",),
        saved=("rstd",),
        backward_arguments=("dy", "x", "weight", "rstd"),
        upstream=("dy",),
        gradients=("x", "weight"),
    )


@pytest.mark.parametrize("name", ["relu_residual", "linear_residual"])
def test_backward_returns_the_gradient_of_each_input_also_one_that_is_handed_on(name: str) -> None:
    given = section(name)
    assert given.signature is not None
    backward = ast.parse(given.source).body[-1]
    assert isinstance(backward, ast.FunctionDef) and backward.name == f"{PREFIX}{name}_backward"
    returned = backward.body[-1]
    assert isinstance(returned, ast.Return) and isinstance(returned.value, ast.Tuple)
    assert len(returned.value.elts) == len(given.signature.gradients)


def test_section_is_called_by_the_problem_s_own_names_even_where_kernels_need_them() -> None:
    problem, _ = captured("reserved_names")
    assert signature("reserved_names").forward_arguments == problem.parameters
    assert set(signature("reserved_names").gradients) <= set(problem.parameters)


def test_helpers_of_the_target_are_imported_and_not_written_again() -> None:
    given = section("rms_norm")
    assert "from liger_kernel.ops.utils import calculate_settings" in given.imports
    assert "import triton.language as tl" in given.imports
    assert "def calculate_settings" not in given.source
    assert f"def {PREFIX}calculate_settings" in formed("rms_norm", section_style("rms_norm")).source


@pytest.mark.skipif(shutil.which("ruff", path=str(Path(sys.executable).parent)) is None, reason="ruff is not installed")
@pytest.mark.parametrize("turn", few(range(4), (0,)))
def test_sections_and_tunable_modules_pass_the_target_s_style_check_as_emitted(tmp_path: Path, turn: int) -> None:
    (tmp_path / "ruff.toml").write_text(TARGET_RUFF)
    for name in COMPILED[turn::4]:
        given = formed(name, section_style(name, liger=True), everything(name))
        plain = [line for line in given.imports if line.startswith("import")]
        taken = [line for line in given.imports if line.startswith("from")]
        head = "\n".join([*plain, "", *taken]) if taken else "\n".join(plain)
        gap = "\n\n" if given.source.startswith(PREFIX) else "\n\n\n"
        (tmp_path / f"{name}.py").write_text(f"{head}{gap}{given.source}")
        for liger in (True, False):
            source = formed(name, tunable_style(name, liger=liger)).source
            (tmp_path / f"{name}_tunable_{liger}.py").write_text(source)
            (tmp_path / f"{name}_settled_{liger}.py").write_text(with_tuned(source, TABLE))
    ruff = str(Path(sys.executable).parent / "ruff")
    for command in (["check"], ["format", "--diff"]):
        done = subprocess.run([ruff, *command, "."], cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == 0, (done.stdout + done.stderr)[:3000]


def test_gradients_take_the_memory_of_the_inputs_they_belong_to() -> None:
    source = section("reglu", "a", "b").source
    assert "da = a.detach()  # every element of a is read before it is written" in source
    assert "db = b.detach()  # every element of b is read before it is written" in source


def test_a_gradient_takes_the_memory_of_the_upstream_gradient_where_only_that_is_allowed() -> None:
    source = section("rms_norm", "upstream 0").source
    assert "dx = dy.detach()  #" in source
    assert "dweight = dy" not in source


def test_one_memory_holds_one_gradient() -> None:
    source = section("reglu", "upstream 0").source
    assert "da = dc.detach()  #" in source
    assert "db = torch.empty_like(" in source


def test_an_upstream_gradient_that_is_handed_on_is_not_overwritten() -> None:
    handed_on = [name for name in COMPILED if any("handed on" in note for note in proposal(name).plan.notes)]
    assert handed_on
    for name in handed_on:
        _, graph = captured(name)
        if len(graph.upstream) == 1:
            assert "is read before it is written" not in section(name, "upstream 0").source


def test_nothing_is_overwritten_unless_the_brief_allows_it() -> None:
    for name in COMPILED:
        assert "is read before it is written" not in section(name).source


def test_what_does_not_exist_is_not_overwritten() -> None:
    assert section("reglu", "upstream 7", "upstream", "c", "upstream x").source == section("reglu").source


def test_tensors_of_another_shape_or_dtype_are_not_overwritten() -> None:
    source = section("rms_norm", "weight").source
    assert "is read before it is written" not in source
