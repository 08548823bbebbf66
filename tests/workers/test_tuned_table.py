import ast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workers.tuned_table import Table, rendered, table_of, with_tuned

SOURCE = '"""A kernel; ₀."""\n\nTUNED = {}  # kept\n\n\ndef launch():\n    return TUNED\n'
FOUND: Table = (("sm_90", (("forward", ((4096, (("num_warps", 4),)), (8192, (("num_warps", 8),)))),)),)


def test_an_empty_table_changes_no_byte() -> None:
    assert with_tuned(SOURCE, ()) == SOURCE


def test_a_found_table_is_written_where_the_old_one_stood() -> None:
    text = with_tuned(SOURCE, FOUND)
    assert '        "forward": (\n            (4096, {"num_warps": 4}),\n' in text
    assert "}  # kept\n" in text
    assert table_of(text) == FOUND


def test_another_architecture_stays() -> None:
    other: Table = (("sm_80", (("backward", ((1024, (("num_warps", 2),)),)),)),)
    assert dict(table_of(with_tuned(with_tuned(SOURCE, FOUND), other))) == {**dict(FOUND), **dict(other)}


def test_a_pass_for_which_nothing_was_found_again_loses_its_entries() -> None:
    emptied: Table = (("sm_90", (("forward", ()),)),)
    assert table_of(with_tuned(with_tuned(SOURCE, FOUND), emptied)) == ()


def test_an_entry_without_settings_keeps_the_rule_up_to_its_size() -> None:
    guarded: Table = (("sm_90", (("forward", ((2048, ()), (4096, (("num_warps", 4),)), (8192, ()))),)),)
    assert table_of(with_tuned(SOURCE, guarded)) == guarded


def test_what_is_no_name_does_not_get_into_a_source() -> None:
    for table in (
        (('sm_90": exit() #', (("forward", FOUND[0][1][0][1]),)),),
        (("sm_90", (("forward", ((1, (("a b", 1),)),)),)),),
    ):
        with pytest.raises(ValueError, match="names no"):
            with_tuned(SOURCE, table)


def test_written_lines_are_no_longer_than_most_formatters_allow() -> None:
    many = tuple((f"SETTING_{letter}", 16) for letter in "ABCDEFGH")
    source = with_tuned(SOURCE, (("sm_90", (("forward", ((8192, many),)),)),))
    assert max(map(len, source.splitlines())) <= 120


@pytest.mark.parametrize("source", ["x = 1\n", "TUNED = dict()\n", "def f():\n    TUNED = {}\n"])
def test_a_source_without_a_plain_table_is_refused(source: str) -> None:
    with pytest.raises(ValueError, match="no dict `TUNED`"):
        table_of(source)
    with pytest.raises(ValueError, match="no dict `TUNED`"):
        with_tuned(source, FOUND)


NAMES = st.from_regex(r"[a-z][a-z_0-9]{0,8}", fullmatch=True)
# Every list is bounded, as a few of each kind show all that may happen; twelve settings do not fit on one line.
SETTINGS = st.dictionaries(NAMES, st.integers(0, 99), min_size=1, max_size=12).map(lambda found: tuple(found.items()))
ENTRIES = st.lists(st.tuples(st.integers(1, 2**40), SETTINGS), min_size=1, max_size=3).map(tuple)
PASSES = st.lists(
    st.tuples(st.sampled_from(["forward", "backward"]), ENTRIES), min_size=1, max_size=2, unique_by=lambda p: p[0]
).map(tuple)
TABLES = st.lists(st.tuples(NAMES, PASSES), max_size=3, unique_by=lambda p: p[0]).map(tuple)


@given(TABLES)
def test_what_is_written_is_read_back(table: Table) -> None:
    assert table_of(f"TUNED = {rendered(table)}\n") == table


@given(TABLES)
def test_settling_twice_is_settling_once(table: Table) -> None:
    once = with_tuned(SOURCE, table)
    assert with_tuned(once, table) == once
    ast.parse(once)
