"""Of a launch at the size of a workload a few programs are run, and what they may have left out is not known."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from gpu_runner.program.sampling import MOST_LOST, UNTOUCHED_BYTES, Sample, chosen, enough, is_too_long

ALL = [(0, 0, 0), (1, 0, 0), (2, 0, 0), (3, 0, 0)]


def run(sample: Sample, grid: tuple[int, int, int], cut: int) -> list[tuple[int, ...]]:
    """The programs that are run where the one of this number takes too long."""
    places = []
    for place in chosen(grid, sample):
        with sample.program():
            places.append(place)
            if place[0] == cut:
                enough()
    return places


def test_of_few_programs_all_are_run() -> None:
    sample = Sample(frozenset())
    with sample.launch([], 4):
        assert run(sample, (4, 1, 1), cut=-1) == ALL


def test_once_one_of_few_programs_was_cut_only_the_first_and_last_are_run() -> None:
    sample = Sample(frozenset())
    with sample.launch([], 4):
        assert run(sample, (4, 1, 1), cut=0) == [ALL[0], ALL[-1]]


def test_of_many_programs_the_first_and_last_along_each_axis_are_run() -> None:
    sample = Sample(frozenset())
    with sample.launch([], 12):
        assert run(sample, (4, 3, 1), cut=-1) == [(0, 0, 0), (0, 2, 0), (3, 0, 0), (3, 2, 0)]


def test_what_a_program_reads_of_others_is_not_known_once_one_was_cut() -> None:
    memory = torch.zeros(4)
    begin = memory.untyped_storage().data_ptr()
    addresses = np.arange(begin, begin + 16, 4, dtype=np.uint64)
    sample = Sample(frozenset())
    with sample.launch([memory], 2):
        with sample.program():
            sample.writes(begin, begin + 16, addresses[:1], 4)
            enough()
        with sample.program():
            lost = []
            for count in (1, 4):
                sample.reads(begin, addresses[:count])
                lost.append(sample.is_lost)
            assert lost == [False, True]
            sample.writes(begin, begin + 16, addresses[1:2], 4)
    assert sample.known(memory, (torch.arange(4),)).tolist() == [True, False, False, False]


def test_where_a_program_writes_that_read_what_no_other_had_written_is_unsure() -> None:
    sample, rows, scaled = Sample(frozenset()), torch.zeros(2, 4), torch.zeros(2, 4)
    begin, end = rows.data_ptr(), rows.data_ptr() + 32
    with sample.launch([rows], 100), sample.program():
        sample.writes(begin, end, np.arange(begin + 16, end, 4), 4)  # its last row
    assert not sample.is_unsure(rows)
    with sample.launch([rows, scaled], 100), sample.program():
        sample.reads(begin, np.arange(begin + 12, end, 4))  # and an element of the row before
        at = scaled.data_ptr()
        sample.writes(at, at + 32, np.arange(at + 12, at + 32, 4), 4)
    assert sample.is_unsure(scaled)
    assert not sample.is_unsure(rows)


@pytest.mark.parametrize("is_long", [True, False])
def test_where_a_program_that_took_too_long_would_have_written_is_unsure(is_long: bool) -> None:
    given, total, rows = torch.zeros(8), torch.zeros(2), torch.zeros(2, 4)
    sample, at = Sample(frozenset({given.data_ptr()})), rows.data_ptr()
    with sample.launch([given, total, rows], 2), sample.program():
        sample.reads(given.data_ptr(), np.arange(given.data_ptr(), given.data_ptr() + 32, 4))
        sample.writes(at, at + 32, np.arange(at, at + 16, 4), 4)
        enough(is_long=is_long)
    assert [sample.is_unsure(one) for one in (given, total, rows)] == [False, is_long, is_long]


@pytest.mark.parametrize(
    ("operations", "done", "expected"),
    [(40, 1, False), (59, 1, False), (61, 1, True), (61, 2, False), (11_000, 249, False), (11_000, 250, True)],
)
def test_a_launch_is_too_long_by_what_its_first_programs_take(operations: int, done: int, expected: bool) -> None:
    assert is_too_long(operations, done, programs=1000, most=40_000) is expected


def test_a_program_that_has_read_what_is_not_known_ends_soon() -> None:
    memory, result, sample = torch.zeros(4), torch.zeros(4), Sample(frozenset())
    begin, at, counted = memory.data_ptr(), result.data_ptr(), 0
    addresses = np.arange(begin, begin + 16, 4, dtype=np.uint64)
    with sample.launch([memory], 100), sample.program():
        sample.writes(begin, begin + 16, addresses[:1], 4)
    with sample.launch([memory, result], 100), sample.program():
        sample.writes(at, at + 16, np.arange(at, at + 4, 4), 4)
        sample.reads(begin, addresses)
        for _ in range(2 * MOST_LOST):
            sample.reads(begin, addresses[:1])
            counted += 1
    assert counted == MOST_LOST
    assert sample.known(result, (torch.arange(4),)).tolist() == [True, False, False, False]
    assert sample.is_unsure(result)


@pytest.mark.parametrize("offset", [0, 2])
def test_each_byte_of_an_element_is_known_wherever_it_lies(offset: int) -> None:
    memory, sample = torch.zeros(5), Sample(frozenset())
    begin = memory.data_ptr()
    with sample.launch([memory], 100), sample.program():
        sample.writes(begin, begin + 20, np.array([begin + 4 + offset, begin + 12], dtype=np.uint64), 4)
    expected = [4 + offset <= byte < 8 + offset or 12 <= byte < 16 for byte in range(20)]
    assert sample.written[begin].tolist() == expected


def test_of_one_number_it_is_known_whether_all_have_added_to_it() -> None:
    total = torch.zeros(())
    begin = total.untyped_storage().data_ptr()
    sample = Sample(frozenset())
    with sample.launch([total], 9), sample.program():
        sample.writes(begin, begin + 4, np.array([begin], np.uint64), 4, adds=True)
    assert sample.known(total, ()).tolist() is False


COPIES = [{}, {"memory_format": torch.contiguous_format}, {"dtype": torch.bfloat16}]


def input_of_few_rows(rows: int) -> tuple[torch.Tensor, tuple[torch.Tensor, ...]]:
    """An input with gaps between its rows that is zero but in the first and the last."""
    value = torch.zeros(rows, 5000)[:, :4096]
    places = torch.meshgrid(torch.tensor([0, rows - 1]), torch.arange(4096), indexing="ij")
    value[places] = torch.randn(2, 4096)
    return value, places


@pytest.mark.parametrize("given", COPIES)
def test_a_large_copy_of_an_input_that_is_mostly_zero_is_the_whole_copy(given: dict) -> None:
    value, places = input_of_few_rows(2 * UNTOUCHED_BYTES // 4096 // 2)
    sample = Sample(frozenset())
    sample.holds(value, places)
    made = sample.copy(value, given)
    plain = value.to(given["dtype"]) if "dtype" in given else value.clone(**given)
    assert made is not None and made.dtype == plain.dtype and made.stride() == plain.stride()
    assert torch.equal(made, plain)


def test_what_is_small_or_written_or_another_view_is_copied_whole() -> None:
    small, places = input_of_few_rows(8)
    sample = Sample(frozenset())
    sample.holds(small, places)
    assert sample.copy(small, {}) is None
    large, places = input_of_few_rows(2 * UNTOUCHED_BYTES // 4096 // 2)
    sample.holds(large, places)
    assert sample.copy(large[1:], {}) is None and sample.copy(large.t(), {}) is None
    assert sample.copy(large, {"device": "meta"}) is None
    begin = large.untyped_storage().data_ptr()
    sample.writes(begin, begin + large.untyped_storage().nbytes(), np.array([begin]), 4)
    assert sample.copy(large, {}) is None


def test_a_program_in_the_middle_is_run_as_far_along_each_axis_as_its_place() -> None:
    sample = Sample(frozenset(), middle=(65, 260))
    sample.is_whole = False
    assert [*chosen((100,), sample)] == [(0,), (99,), (25,)]
    assert [*chosen((100, 8), sample)][-1] == (25, 2)
