"""The order in which `make cheats` and `make honest` judge: nothing is left out, and what takes longest comes first."""

from __future__ import annotations

from tests.cheats.everything import MOST_IN_A_BATCH, _all_judged, _mechanism, _problem, batches, mixed
from tests.cheats.table import CHEATS
from tests.cheats.table_new import NEW
from tests.honest.table import HONEST

WANTED = [("honest", name) for name in HONEST] + [("cheat", name) for name in (*CHEATS, *NEW)]


def test_everything_is_judged_once() -> None:
    judged = [named for batch in batches(WANTED, {}) for named in batch]
    assert sorted(judged) == sorted(WANTED)


def test_whole_verdicts_are_spread_one_by_one_and_cheats_of_the_same_cases_kept_together() -> None:
    for batch in batches(WANTED, {}):
        whole = [name for kind, name in batch if kind == "honest" or (name in NEW and NEW[name].layer == "whole")]
        assert len(batch) == 1 if whole else len(batch) <= MOST_IN_A_BATCH


def test_what_took_longest_comes_first() -> None:
    name = sorted(HONEST)[3]
    assert batches(WANTED, {f"honest {name}": 300.0})[0] == [("honest", name)]
    assert batches(WANTED, {f"honest {name}": 0.1})[-1] == [("honest", name)]


def test_cheats_of_one_truth_are_judged_together() -> None:
    wanted = [("cheat", "by_shape"), ("honest", "reglu"), ("cheat", "transpose_by_copy"), ("cheat", "by_content")]
    found = batches(wanted * (MOST_IN_A_BATCH // 2 + 1), {})
    assert sorted(named for batch in found for named in batch) == sorted(wanted * (MOST_IN_A_BATCH // 2 + 1))
    assert all(len({_problem(*named) for named in batch}) == 1 for batch in found)
    assert {len(batch) for batch in found if batch[0][0] == "honest"} == {1}
    assert max(len(batch) for batch in found) == MOST_IN_A_BATCH


def test_where_minutes_are_few_some_of_each_mechanism_come_first() -> None:
    ordered = batches(WANTED, {})
    drawn = mixed(ordered)
    assert sorted(drawn) == sorted(ordered)
    assert mixed(ordered) != drawn
    known: set[object] = set()
    fresh = []
    for batch in drawn:
        kinds = {_mechanism(*named) for named in batch}
        fresh.append(not kinds <= known)
        known |= kinds
    assert fresh == sorted(fresh, reverse=True)
    assert len(known) > 20


def test_none_is_begun_after_the_minutes() -> None:
    assert list(_all_judged(WANTED[:1], 1, {}, 1e-9)) == []
