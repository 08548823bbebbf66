"""Turns leave nothing out for good."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import pytest

from tests import turns
from tests.turns import TURNS


@dataclass(frozen=True)
class Item:
    """A collected test, as far as turns look at it."""

    nodeid: str
    marks: tuple[str, ...] = ()

    @property
    def path(self) -> Path:
        return Path(self.nodeid.partition("::")[0])

    def get_closest_marker(self, name: str) -> str | None:
        return name if name in self.marks else None


def out_of(items: list[Item], turn: int, whole: Collection[str] = ()) -> set[Any]:
    return turns.left_out(cast(list[pytest.Item], items), turn, whole)


@pytest.fixture
def listed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[Item]:
    """Two files' tests, of which the list has two functions and one that is gone."""
    path = tmp_path / "turns.txt"
    path.write_text(
        "  9.0 tests/verify/test_a.py::test_cases\n  3.0 tests/verify/test_b.py::test_one\n  1.0 gone.py::test\n"
    )
    monkeypatch.setattr(turns, "LISTED", path)
    cases = [Item(f"tests/verify/test_a.py::test_cases[{case}[0]]") for case in range(7)]
    return [*cases, Item("tests/verify/test_b.py::test_one"), Item("tests/verify/test_b.py::test_fast")]


def test_each_case_has_one_turn_and_what_is_not_listed_has_all(listed: list[Item]) -> None:
    kept = [[one for one in listed if one not in out_of(listed, turn)] for turn in range(TURNS)]
    times = Counter(one for turn in kept for one in turn)
    assert [times[one] for one in listed] == [1] * 8 + [TURNS]
    assert all(len(turn) in (2, 3, 4) for turn in kept)


@pytest.mark.parametrize(("whole", "left"), [("a", 1), ("b", 7), ("verify", 0), ("tests", 8)])
def test_of_what_was_changed_all_is_run(listed: list[Item], whole: str, left: int) -> None:
    out = [one for turn in range(TURNS) for one in out_of(listed, turn, {whole})]
    assert len(out) == left * (TURNS - 1)


@pytest.mark.parametrize("mark", ["long", "every_turn"])
def test_what_make_test_never_or_always_runs_takes_no_turn(listed: list[Item], mark: str) -> None:
    marked = Item("tests/verify/test_a.py::test_cases[marked]", (mark,))
    for turn in range(TURNS):
        assert out_of([marked, *listed], turn) == out_of(listed, turn)


def test_what_takes_long_with_all_its_cases_is_listed_first(listed: list[Item]) -> None:
    turns.write({"a.py::test_many[0]": 1.0, "a.py::test_many[1]": 2.0, "b.py::test_one": 3.5, "b.py::test_fast": 0.01})
    assert turns.LISTED.read_text() == "  3.5 b.py::test_one\n  3.0 a.py::test_many\n"
