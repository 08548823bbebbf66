"""Settings that may be tuned: which there are, where the source looks them up, and how a table that was found is written down."""

from __future__ import annotations

import ast
import re

import pytest

from gpu_runner.contracts import Pass
from tests.workers.compiler.captured import answer, names, proposal
from tests.workers.compiler.formed import formed, section_style, tunable_style
from workers.authors.compiler.settled import COMMENT, settled
from workers.authors.protocol import Proposal
from workers.strategies.protocol import Table

COMPILED = [name for name in names() if isinstance(answer(name), Proposal)]
TABLE: Table = (
    ("sm_90", (("forward", ((4096, (("num_warps", 8),)), (8192, ()))), ("backward", ((8192, (("BLOCK_ROWS", 1),)),)))),
)


def looked_up(source: str) -> dict[str, set[str]]:
    """Give the settings that a source looks up, by pass."""
    found: dict[str, set[str]] = {}
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "_tuned":
            timed = node.args[1]
            assert isinstance(timed, ast.Constant)
            found[str(timed.value)] = {keyword.arg for keyword in node.keywords if keyword.arg is not None}
    return found


@pytest.mark.parametrize("name", COMPILED)
def test_every_knob_is_looked_up_by_its_pass_and_no_value_is_the_marker_of_none(name: str) -> None:
    given = formed(name, tunable_style(name))
    settings = looked_up(given.source)
    assert given.knobs
    for knob in given.knobs:
        assert knob.setting in settings[knob.tuned_pass.value]
        assert all(value > 0 for value in knob.values)


@pytest.mark.parametrize("name", COMPILED)
def test_no_pass_has_more_than_thirty_values_to_try(name: str) -> None:
    knobs = formed(name, tunable_style(name)).knobs
    for timed in (Pass.forward, Pass.backward):
        assert sum(len(knob.values) for knob in knobs if knob.tuned_pass is timed) <= 30


@pytest.mark.parametrize("name", COMPILED)
def test_plain_sources_have_neither_knobs_nor_a_table(name: str) -> None:
    given = proposal(name)
    assert given.knobs == ()
    assert "TUNED" not in given.source


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


def test_settled_source_holds_the_table_and_nothing_else_changes() -> None:
    source = formed("rms_norm", tunable_style("rms_norm")).source
    given = settled(source, TABLE)
    space: dict[str, object] = {}
    text = given[given.index("TUNED = {") : given.index("\n\n\ndef _tuned(")]
    exec(text, space)  # the text is this test's own
    assert space["TUNED"] == {
        "sm_90": {
            "forward": ((2048, {}), (4096, {"num_warps": 8}), (8192, {})),
            "backward": ((4096, {}), (8192, {"BLOCK_ROWS": 1})),
        }
    }
    assert given.replace(text, "TUNED = {}").replace(COMMENT + "\n", "") == source


def test_settling_twice_is_settling_once_and_keeps_other_architectures() -> None:
    source = settled(formed("rms_norm", section_style("rms_norm")).source, TABLE)
    assert settled(source, TABLE) == source
    other: Table = (("sm_80", (("forward", ((8192, (("num_warps", 4),)),)),)),)
    both = settled(source, other)
    assert re.findall(r'^    "(sm_\d+)": \{$', both, re.MULTILINE) == ["sm_80", "sm_90"]


def test_settled_lines_are_no_longer_than_the_target_s() -> None:
    many = tuple((f"SETTING_{letter}", 16) for letter in "ABCDEFGH")
    source = settled("TUNED = {}\n", (("sm_90", (("forward", ((8192, many),)),)),))
    assert max(map(len, source.splitlines())) <= 120


def test_a_source_without_a_table_is_not_settled() -> None:
    with pytest.raises(ValueError, match="no TUNED"):
        settled(proposal("rms_norm").source, TABLE)


def test_what_is_no_name_does_not_get_into_a_source() -> None:
    with pytest.raises(ValueError, match="names no"):
        settled("TUNED = {}\n", (('sm_90": exit() #', (("forward", ()),)),))
