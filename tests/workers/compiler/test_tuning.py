"""Settings that may be tuned: which there are, where the source looks them up, and how a table that was found is written down."""

from __future__ import annotations

import ast

import pytest

from gpu_runner.contracts import Pass
from tests.few import few
from tests.workers.compiler.captured import COMPILED, LOOKED_AT, proposal
from tests.workers.compiler.formed import formed, section_style, tunable_style
from workers.strategies.protocol import Table
from workers.tuned_table import table_of, with_tuned

TABLE: Table = (
    ("sm_90", (("forward", ((4096, (("num_warps", 8),)), (8192, ()))), ("backward", ((8192, (("BLOCK_ROWS", 1),)),)))),
)


def looked_up(source: str) -> dict[str, set[str]]:
    """The settings that a source looks up, by pass."""
    found: dict[str, set[str]] = {}
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "_tuned":
            timed = node.args[1]
            assert isinstance(timed, ast.Constant)
            found.setdefault(str(timed.value), set()).update(
                {keyword.arg for keyword in node.keywords if keyword.arg is not None}
            )
    return found


@pytest.mark.parametrize("name", few(COMPILED, LOOKED_AT))
def test_every_knob_is_looked_up_by_its_pass_and_no_value_is_the_marker_of_none(name: str) -> None:
    given = formed(name, tunable_style(name))
    settings = looked_up(given.source)
    assert given.knobs
    for knob in given.knobs:
        assert knob.setting in settings[knob.tuned_pass.value]
        assert all(value > 0 for value in knob.values)


@pytest.mark.parametrize("name", few(COMPILED, LOOKED_AT))
def test_no_pass_has_more_than_thirty_values_to_try(name: str) -> None:
    knobs = formed(name, tunable_style(name)).knobs
    for timed in (Pass.forward, Pass.backward):
        assert sum(len(knob.values) for knob in knobs if knob.tuned_pass is timed) <= 30


@pytest.mark.parametrize("name", few(COMPILED, LOOKED_AT))
def test_plain_sources_have_neither_knobs_nor_a_table(name: str) -> None:
    given = proposal(name)
    assert given.knobs == ()
    assert "TUNED" not in given.source


@pytest.mark.parametrize("name", few(COMPILED, LOOKED_AT))
def test_no_branch_asks_for_a_setting_that_a_verdict_sees_one_value_of(name: str) -> None:
    source = formed(name, tunable_style(name)).source
    tests = [node.test for node in ast.walk(ast.parse(source)) if isinstance(node, ast.If | ast.IfExp)]
    assert [test for test in map(ast.unparse, tests) if "programs" in test or "EVICT" in test] == []


def test_element_wise_kernels_have_no_settings_of_rows() -> None:
    settings = {knob.setting for knob in formed("swiglu", tunable_style("swiglu")).knobs}
    assert settings == {"BLOCK_SIZE", "num_warps", "EVICT_FIRST"}


def test_tensors_that_backward_reads_again_are_not_streamed_by_forward() -> None:
    knobs = formed("rms_norm", tunable_style("rms_norm")).knobs
    assert [knob.tuned_pass for knob in knobs if knob.setting == "EVICT_FIRST"] == [Pass.backward]


def test_backward_takes_the_last_rows_first_where_settings_are_tuned() -> None:
    assert formed("rms_norm", tunable_style("rms_norm")).source.count("tile = n_tiles - 1 - turn") == 1


def test_partial_sums_are_added_up_by_one_kernel_where_settings_are_tuned() -> None:
    source = formed("rms_norm", tunable_style("rms_norm")).source
    assert "dweight = _sum_partials(dweight_partials, weight.dtype)" in source


def test_a_tunable_source_and_a_tunable_section_have_a_table_to_settle() -> None:
    for style in (tunable_style("rms_norm"), section_style("rms_norm")):
        source, name = formed("rms_norm", style).source, f"{style.prefix}TUNED"
        assert table_of(with_tuned(source, TABLE, name), name) == TABLE
        assert with_tuned(source, (), name) == source


def test_a_source_that_is_not_tunable_has_no_table() -> None:
    with pytest.raises(ValueError, match="no dict `TUNED`"):
        table_of(proposal("rms_norm").source)
