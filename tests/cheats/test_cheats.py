"""No cheat passes: the screen sees what can be seen in the text, the run sees what the text does not show."""

from __future__ import annotations

import difflib
from pathlib import Path

import pytest

from gpu_runner.contracts import Status
from gpu_runner.program.imports import Library
from gpu_runner.session import has_gpu
from gpu_runner.verify.judge import judge_by
from gpu_runner.verify.screen import Objection, screen
from tests.cheats.table import CHEATS
from tests.cheats.table_new import LEAVES, MECHANISMS, NEW, NEW_ENDS
from tests.cheats.trial import HERE, cheat, patched, proofs, surroundings, whole_verdict
from tests.few import few


def test_every_cheat_has_a_file_and_every_file_is_a_cheat() -> None:
    assert sorted([*CHEATS, *NEW]) == sorted(path.name.split(".")[0] for path in (HERE / "forms").glob("*.*"))


def test_a_diff_makes_a_cheat_of_the_lines_that_it_was_written_for_and_of_no_others(tmp_path: Path) -> None:
    old, new = ["a", "b", "", "c", "d"], ["first", "a", "", "c", "changed", "d", "last"]
    diff = "\n".join(difflib.unified_diff(old, new, "honest.py", "cheat.py", n=0, lineterm=""))
    (tmp_path / "honest.py").write_text("\n".join([*old, ""]))
    assert patched(diff, tmp_path) == "\n".join([*new, ""])
    (tmp_path / "honest.py").write_text("\n".join(["a", "other", *old[2:], ""]))
    with pytest.raises(ValueError, match=r"line 2 is 'other', and 'b' in the diff of honest\.py"):
        patched(diff, tmp_path)


@pytest.mark.parametrize("mechanism", MECHANISMS)
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


@pytest.mark.parametrize("name", few(sorted(CHEATS), sorted(CHEATS)[::16]))
def test_without_the_screen_the_run_ends_in_the_named_status(name: str) -> None:
    verdict = judge_by(proofs("reglu"), cheat(name), surroundings())
    assert verdict.status is not Status.passed
    assert (verdict.status, verdict.rule) in CHEATS[name].run
    assert verdict.evidence[0].message


NO_TEXT = {"latin1_bytes", "utf16"}  # no UTF-8, so that no request can carry them; test_reading has them
BY_TEXT = sorted(name for name, row in NEW.items() if row.layer == "screen" and name not in NO_TEXT)
BY_DEED = sorted(name for name, row in NEW.items() if row.layer == "run" and not row.right_on and not row.passes)
JUDGED_ON = "gpu" if has_gpu() else "interpreter"
WHOLE = sorted(
    name for name, row in NEW.items() if row.layer == "whole" and not row.passes and JUDGED_ON not in row.right_on
)


PASSING = sorted(name for name, row in NEW.items() if row.passes)


@pytest.mark.parametrize("name", BY_TEXT)
def test_what_the_text_of_a_cheat_shows_is_named_with_its_line(name: str) -> None:
    objection = seen_by_the_screen(name)
    assert objection is not None
    assert objection.status in LEAVES
    assert objection.rule
    assert objection.message


# One in sixteen, but for products, which take the interpreter ten seconds each.
QUICK = [name for name in BY_DEED if not NEW[name].around and NEW[name].problem != "matmul"]


@pytest.mark.parametrize("name", few(BY_DEED, QUICK[::16]))
def test_what_a_cheat_does_is_found(name: str) -> None:
    row = NEW[name]
    verdict = judge_by(proofs(*row.cases(name)), cheat(name), surroundings())
    assert verdict.status in NEW_ENDS[row.mechanism], (verdict.status, verdict.evidence[:1])
    assert verdict.evidence[0].message


@pytest.mark.parametrize("name", few(WHOLE, ["upstream_is_an_input"]))
def test_whole_verdict_proves_nothing_of_what_it_saw_one_side_of(name: str) -> None:
    verdict = whole_verdict(name)
    assert verdict.status in NEW_ENDS[NEW[name].mechanism], (verdict.status, verdict.evidence[:1])


@pytest.mark.long
@pytest.mark.skipif(has_gpu(), reason="some are found there")
@pytest.mark.parametrize("name", PASSING)
def test_what_is_said_to_pass_is_found_by_no_rule_yet(name: str) -> None:
    verdict = whole_verdict(name)
    assert verdict.status is Status.passed, f"{verdict.evidence[:1]}: take `passes` off its row"


def seen_by_the_screen(name: str) -> Objection | None:
    return screen(cheat(name), Library({}, (".",)))
