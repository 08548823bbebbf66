"""CuTe DSL from the program that Triton is written from: the same statements, what is left out, and what it cannot express."""

from __future__ import annotations

import ast
import re

import pytest

from tests.few import few
from tests.workers.compiler.captured import captured, names
from tests.workers.compiler.test_cutile import EMITTED, answer, looked_up_settings
from workers.authors.protocol import AuthorRefusal, Proposal


def emitted(name: str) -> Proposal:
    given = answer(name, "cutedsl")
    assert isinstance(given, Proposal), given
    return given


@pytest.mark.parametrize("name", few([name for name in names() if not name.startswith("packed")], names()[1::6]))
def test_no_word_of_triton_is_left_and_every_function_is_defined(name: str) -> None:
    given = answer(name, "cutedsl")
    if isinstance(given, AuthorRefusal):
        return
    assert not re.search(r"\b(tl|triton|ct)\b|_ptr\b|num_warps|num_stages|BLOCK_SIZE", given.source)
    defined = {node.name for node in ast.parse(given.source).body if isinstance(node, ast.FunctionDef | ast.ClassDef)}
    called = set(re.findall(r"(?<![\w.])(_\w+)\(", given.source))
    assert called <= defined
    # What no kernel or launcher calls is not written.
    assert all(len(re.findall(rf"\b{name}\b", given.source)) > 1 for name in defined if name.startswith("_"))


def statements(name: str, timed: str, target: str) -> list[str]:
    """The lines of a kernel that compute, without what addresses and reductions are called."""
    given = answer(name, target)
    assert isinstance(given, Proposal), given
    node = next(n for n in ast.parse(given.source).body if getattr(n, "name", "") == f"_{name}_{timed}_kernel")
    lines = [ast.unparse(one) for one in ast.walk(node) if isinstance(one, ast.Assign | ast.AugAssign)]
    places = (
        r"_load|tl\.load|arange|program_id|block_idx|thread_idx|_inside|_slots|_columns|num_programs|zeros|_everywhere"
    )
    places += r"|^(offset|offsets|rows|row|mask|row_mask|col_mask|cols|eps|program|turn|n_tiles) = |_ptr"
    plain = [line for line in lines if not re.search(places, line)]
    plain = [re.sub(r"\b(tl|cute\.math)\.", "", line) for line in plain]
    plain = [re.sub(r", axis=1, keep_dims=True|, slots, SHAPE|, propagate_nan=[\w.]+", "", line) for line in plain]
    plain = [re.sub(r"\bcute\.where\(col_mask|\bwhere\(mask", "where(mask", line) for line in plain]
    return [re.sub(r"\b_row_|\b_(?=(tanh|sigmoid|maximum|minimum|where)\b)", "", line) for line in plain]


@pytest.mark.parametrize("name", [name for name in EMITTED if name != "frob"])
@pytest.mark.parametrize("timed", ["forward", "backward"])
def test_both_languages_compute_the_same_statements(name: str, timed: str) -> None:
    assert statements(name, timed, "cutedsl") == statements(name, timed, "gpu")


def test_a_vector_beyond_the_last_column_is_what_the_reduction_ignores() -> None:
    source = emitted("softmax").source
    assert 'x = _load(x_tensor, offset, inside, -float("inf"), SHAPE)' in source
    assert "cute.where(col_mask, " in emitted("layer_norm").source
    assert "col_mask" not in emitted("rms_norm").source


def test_rows_that_no_block_holds_are_an_error_of_the_launcher_and_a_limit_of_the_proposal() -> None:
    proposal = emitted("softmax")
    assert 'raise ValueError(f"{n_cols} columns are more than the 65536 that a block holds")' in proposal.source
    assert [(limit.size, limit.most) for limit in proposal.limits] == [("V", 32768)]


def test_a_call_without_rows_starts_no_kernel() -> None:
    for name, size in (("swiglu", "n_elements"), ("rms_norm", "n_rows")):
        source = emitted(name).source
        assert source.count(f"if {size}:\n            launch = _compiled(") == source.count("launch = _compiled(") == 2


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("power", "CuTe DSL has no way to write `pow` yet"),
        ("matmul", "the CuTe DSL target has no schedule for matrix products"),
        ("cross_entropy", "the CuTe DSL target has no schedule for look-ups"),
        ("masked_softmax", "the CuTe DSL target has no schedule for tensors of `bool`"),
        ("group_norm", "the CuTe DSL target has no schedule for groups within a row"),
    ],
)
def test_what_cannot_be_expressed_is_refused_by_its_operator(name: str, sentence: str) -> None:
    given = answer(name, "cutedsl")
    assert isinstance(given, AuthorRefusal) and given.sentence == sentence


def kernels(source: str) -> list[str]:
    """The functions that run on the GPU."""
    nodes = [node for node in ast.parse(source).body if isinstance(node, ast.FunctionDef)]
    return [ast.unparse(node) for node in nodes if any("cute." in ast.unparse(one) for one in node.decorator_list)]


@pytest.mark.parametrize("name", ["swiglu", "rms_norm", "softmax", "dyt"])
def test_where_settings_are_tuned_the_launchers_look_them_up_and_the_kernels_are_as_they_are(name: str) -> None:
    tuned = answer(name, "cutedsl", tunable=True)
    assert isinstance(tuned, Proposal), tuned
    assert kernels(tuned.source) == kernels(emitted(name).source)
    looked_up = looked_up_settings(tuned.source)
    assert looked_up and {(knob.tuned_pass.value, knob.setting) for knob in tuned.knobs} == looked_up
    # A thread has an access of eight numbers at least, and a block 1024 threads at most.
    least = {knob.setting: knob.values[0] for knob in tuned.knobs}["THREAD_ELEMENTS"]
    widths = [dict(workload.sizes).get("V", 0) for workload in captured(name)[0].workloads]
    assert least >= 8 and least * 1024 >= min(widths)
