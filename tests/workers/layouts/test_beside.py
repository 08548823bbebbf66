"""A change of one kernel leaves alone what its calls have nothing to do with, though it stands in the same file."""

from __future__ import annotations

import pytest

from workers.layouts.regions import changed_outside_calls

FILE = """\
import torch

WIDTH = 256
OTHER_WIDTH = 128


def _block(x):
    return x


def _other_block(x):
    return x


def scale(x, factor):
    return _block(x) * factor * WIDTH


def checked(x, factor):
    return scale(_check(x), factor)


def _check(x):
    return x


def unscale(x, factor):
    return _block(_other_block(x)) / factor * OTHER_WIDTH
"""
CALL = "scale(x, 2.0)"


def changed(old: str, new: str, *calls: str | None) -> str | None:
    assert FILE.count(old) == 1
    return changed_outside_calls(FILE, FILE.replace(old, new), calls or (CALL,))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("factor * WIDTH", "factor * WIDTH * 1"),
        ("\nWIDTH = 256", "\nWIDTH = 512"),
        ("def _block(x):\n    return x", "def _block(x):\n    return +x"),
        ("scale(_check(x), factor)", "scale(_check(x), factor=factor)"),
        ("def _check(x):\n    return x", "def _check(x):\n    return +x"),
        ("import torch\n", "import torch\n\n\ndef _more(x):\n    return x\n"),
        ("\n\ndef unscale", "\n\n# A word about the next one.\ndef unscale"),
    ],
)
def test_what_a_call_uses_and_what_uses_it_may_change(old: str, new: str) -> None:
    assert changed(old, new) is None


@pytest.mark.parametrize(
    ("old", "new", "name"),
    [
        ("/ factor", "/ factor / 2", "unscale"),
        ("OTHER_WIDTH = 128", "OTHER_WIDTH = 64", "OTHER_WIDTH"),
        ("def _other_block(x):\n    return x", "def _other_block(x):\n    return +x", "_other_block"),
        ("def unscale(", "def other(", "unscale"),
        ("OTHER_WIDTH = 128", "OTHER_WIDTH = 128\nOTHER_WIDTH = 64", "OTHER_WIDTH"),
    ],
)
def test_what_stands_beside_stays_as_it_is(old: str, new: str, name: str) -> None:
    assert changed(old, new) == name


def test_a_name_that_is_bound_anew_at_the_end_is_changed() -> None:
    assert changed_outside_calls(FILE, f"{FILE}\n\nunscale = scale\n", (CALL,)) == "unscale"
    assert changed_outside_calls(FILE, f"{FILE}\n\nif WIDTH:\n    del unscale\n", (CALL,)) == "unscale"


def test_nothing_becomes_a_calls_own_by_being_used_from_now_on() -> None:
    grasping = FILE.replace("return _block(x) * factor", "unscale\n    return _block(x) * factor").replace(
        "/ factor", "/ 2"
    )
    assert changed_outside_calls(FILE, grasping, (CALL,)) == "unscale"
    calling = FILE.replace("/ factor * OTHER_WIDTH", "/ scale(x, factor)")
    assert changed_outside_calls(FILE, calling, (CALL,)) == "unscale"


def test_what_a_new_call_uses_may_change_as_well() -> None:
    assert changed("/ factor", "/ factor / 2", CALL, "unscale(x, 2.0)") is None
    after = FILE.replace("/ factor", "/ factor / 2") + "\n\ndef both(x):\n    return unscale(scale(x, 2.0), 2.0)\n"
    assert changed_outside_calls(FILE, after, (CALL, "both(x)")) is None


@pytest.mark.parametrize("call", [None, "somewhere.else_(x)", "scale(x", "absent(x)"])
def test_a_call_that_names_nothing_of_the_file_says_nothing(call: str | None) -> None:
    assert changed("/ factor", "/ factor / 2", call) is None


def test_a_file_that_does_not_parse_is_left_to_others() -> None:
    assert changed_outside_calls(FILE, f"{FILE}\ndef (", (CALL,)) is None
