import pytest

from tests.workers.layouts.miniature import tree
from workers.contracts import FailureCode, UserFacingError
from workers.layouts.table import LAYOUTS, find_layout, layout_named
from workers.tree import Tree


def test_every_layout_is_found_by_its_name() -> None:
    assert {name: layout_named(name).name for name in LAYOUTS} == {
        "liger": "liger",
        "versioned": "versioned",
        "fla": "fla",
        "plain": "plain",
    }


def test_an_unknown_layout_is_refused_with_those_there_are() -> None:
    with pytest.raises(UserFacingError) as caught:
        layout_named("@everyone")
    assert caught.value.failure.code is FailureCode.layout
    assert caught.value.failure.fix == "Layouts: `liger`, `versioned`, `fla`, `plain`."
    assert "everyone" not in caught.value.failure.message


def test_a_library_of_that_form_is_liger_and_one_with_kernels_is_plain() -> None:
    assert find_layout(tree()).name == "liger"
    assert find_layout(Tree({"kernels/a.py": b"import triton\n"})).name == "plain"


def test_a_repository_without_kernels_says_how_to_go_on() -> None:
    with pytest.raises(UserFacingError) as caught:
        find_layout(Tree({"README.md": b"hello", "src/app/main.py": b"print(1)\n"}))
    assert "--layout plain" in (caught.value.failure.fix or "")
