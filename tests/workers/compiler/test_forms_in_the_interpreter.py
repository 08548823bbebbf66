"""Sources with tuned settings, sections behind an autograd function of another's, and gradients in place give the same values."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.few import asked_for, few
from tests.workers.compiler.captured import COMPILED
from tests.workers.compiler.formed import BEGUN_FORM, OFFSET_FORM
from tests.workers.compiler.processes import interpreted
from tests.workers.compiler.test_values_in_the_interpreter import sizes_of

Case = tuple[str, dict[str, int], str, str]
FIRST, OTHERS = slice(1), slice(1, None)
ALWAYS = ("tuned", "in place")
IN_TURN = ("tunable", "looped", "section")
# One size that fills no block, and one that fills them all, so that no mask is left.
SIZES = ((5, 129, "float32"), (4, 64, "bfloat16"))


def cases_of(name: str) -> list[Case]:
    """A problem with settings of its own and in place; the other forms and the sizes take turns."""
    turn, found = COMPILED.index(name), []
    for place, form in enumerate((*ALWAYS, IN_TURN[turn % 3])):
        rows, cols, dtype = SIZES[(turn + place) % 2]
        found.append((name, sizes_of(name, rows, cols), dtype, form))
    found = [*found[turn % 3 :], *found[: turn % 3]]
    if name in ("group_norm", "group_norm_2d", "layer_norm", "softmax"):
        found.insert(0, (name, sizes_of(name, 4, 2050), "float32", OFFSET_FORM))
    return found


@pytest.mark.slow
def test_the_squares_of_many_blocks_do_not_cancel_about_the_first(tmp_path: Path) -> None:
    cases = {
        name: {name: (name, sizes_of(name, 4, 4100), "float32", BEGUN_FORM)} for name in ("layer_norm", "group_norm")
    }
    assert interpreted("formed", cases, tmp_path) == {name: {name: []} for name in cases}


def results_of(names: list[str], part: slice, folder: Path) -> dict[str, dict[str, list[str]]]:
    """What is wrong with problems in some of their forms, from one process."""
    cases = {name: {case[-1]: case for case in cases_of(name)[part]} for name in names}
    return interpreted("formed", cases, folder)


@pytest.fixture(scope="module")
def first(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, list[str]]]:
    """The first form of the problems that this run looks at."""
    return results_of(asked_for(request, "name"), FIRST, tmp_path_factory.mktemp("first"))


@pytest.fixture(scope="module")
def others(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, list[str]]]:
    return results_of(asked_for(request, "name"), OTHERS, tmp_path_factory.mktemp("others"))


# In `make test` some of each form at each size.
@pytest.mark.slow
@pytest.mark.parametrize("name", few(COMPILED, COMPILED[::5]))
def test_a_form_errs_no_more_than_twice_the_reference(name: str, first: dict[str, dict[str, list[str]]]) -> None:
    assert [*first[name].values()] == [[]]


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.parametrize("name", COMPILED)
def test_every_other_form_errs_no_more_than_twice_the_reference(
    name: str, others: dict[str, dict[str, list[str]]]
) -> None:
    assert others[name] == {form: [] for form in others[name]}
    assert len(others[name]) >= 2
