"""Rows that hold parts side by side: what is cut how, and what the parts are called."""

from __future__ import annotations

import pytest

from tests.workers.compiler.captured import answer, captured, proposal
from workers.authors.compiler.axes import Chunk, find_chunking
from workers.authors.compiler.graph import with_ratios
from workers.authors.compiler.names import chunk_names
from workers.authors.protocol import AuthorRefusal


@pytest.mark.parametrize(
    ("name", "count"), [("chunked", 2), ("three_parts", 3), ("four_parts", 4), ("crelu", 2), ("rotary_halves", 2)]
)
def test_equal_parts_are_counted(name: str, count: int) -> None:
    problem, graph = captured(name)
    parting = find_chunking(with_ratios(graph), problem.dimensions)
    assert parting is not None and parting.count == count


def test_a_graph_that_cuts_nothing_has_no_parts() -> None:
    problem, graph = captured("rms_norm")
    assert find_chunking(graph, problem.dimensions) is None


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("every_other", "leaves others between them"),
        ("first_rows", "not the last"),
    ],
)
def test_what_is_no_equal_part_is_refused_in_words(name: str, words: str) -> None:
    given = answer(name)
    assert isinstance(given, AuthorRefusal) and words in given.sentence and "`slice`" in given.sentence


def test_parts_are_called_as_the_reference_calls_them() -> None:
    source = "def reference(x):\n    gate, up = x.chunk(2, dim=-1)\n    return gate * up\n"
    assert chunk_names(source, "x", 2) == ("gate", "up")
    assert chunk_names(source.replace("x.chunk(2", "torch.chunk(x, 2"), "x", 2) == ("gate", "up")
    assert chunk_names(source, "y", 2) == ()
    assert chunk_names(source, "x", 3) == ()
    assert chunk_names(source.replace("gate, up", "up, up"), "x", 2) == ()


def test_places_of_parts_are_written_as_a_person_would() -> None:
    assert [Chunk("x", index, 3).shift for index in range(3)] == ["", " + n_cols", " + 2 * n_cols"]


def test_a_row_that_does_not_fall_into_parts_raises() -> None:
    assert "if x.shape[-1] % 2:" in proposal("packed_geglu").source
    assert "shape[-1] %" not in proposal("three_parts").source


def test_both_parts_of_a_gate_are_loaded_from_one_pointer() -> None:
    source = proposal("packed_geglu").source
    assert source.count("gate = tl.load(x_ptr + packed_offsets,") == 2
    assert source.count("up = tl.load(x_ptr + packed_offsets + n_cols,") == 2
    assert "dx = torch.empty_like(x)" in source
