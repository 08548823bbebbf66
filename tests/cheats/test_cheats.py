"""No cheat passes: the screen sees what can be seen in the text, the run sees what the text does not show."""

from __future__ import annotations

import pytest

from gpu_runner.contracts import Status
from gpu_runner.program.imports import Library
from gpu_runner.verify.judge import judge_by
from gpu_runner.verify.screen import screen
from tests.cheats.table import CHEATS
from tests.cheats.table_new import NEW
from tests.cheats.trial import HERE, cheat, proofs, surroundings


def test_every_cheat_has_a_file_and_every_file_is_a_cheat() -> None:
    assert sorted([*CHEATS, *NEW]) == sorted(path.name.split(".")[0] for path in (HERE / "forms").glob("*.py*"))


@pytest.mark.parametrize("mechanism", range(1, 13))
def test_every_mechanism_is_attacked_forward_and_backward(mechanism: int) -> None:
    directions = [cheat.direction for cheat in NEW.values() if cheat.mechanism == mechanism]
    assert len(directions) >= 10
    assert set(directions) == {"forward", "backward"}


@pytest.mark.parametrize("name", sorted(CHEATS))
def test_the_screen_says_what_the_text_shows(name: str) -> None:
    objection = screen(cheat(name), Library({}, (".",)))
    expected = CHEATS[name].screen
    if expected is None:
        assert objection is None
        return
    assert objection is not None
    assert (objection.status, objection.rule) == expected
    assert objection.line is not None


@pytest.mark.parametrize("name", sorted(CHEATS))
def test_without_the_screen_the_run_ends_in_the_named_status(name: str) -> None:
    verdict = judge_by(proofs("reglu"), cheat(name), surroundings())
    assert verdict.status is not Status.passed
    assert (verdict.status, verdict.rule) in CHEATS[name].run
    assert verdict.evidence[0].message
