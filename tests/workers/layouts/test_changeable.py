from __future__ import annotations

import pytest

from tests.conversations.modifying import LIGER, SMALL
from tests.workers.stages.library import PATH, SUITE
from workers.contracts import UserFacingError
from workers.layouts.liger.layout import LigerLayout
from workers.layouts.plain.layout import PlainLayout
from workers.layouts.protocol import Changeable, Shared
from workers.layouts.regions import functions_using, outside
from workers.tree import Tree

FUNCTIONAL = "src/liger_kernel/transformers/functional.py"
MODULE = "src/liger_kernel/transformers/geglu.py"


def test_a_liger_kernel_is_changed_in_its_file_its_module_and_its_functions() -> None:
    tree = Tree({**LIGER, MODULE: b"import torch.nn as nn\n"})
    layout = LigerLayout()
    places = layout.changeable(layout.locate("geglu", tree), tree)
    assert places == Changeable((PATH, MODULE), (Shared(FUNCTIONAL, ("liger_geglu",)),), (SUITE,))
    assert places.paths == (PATH, MODULE, FUNCTIONAL, SUITE)


def test_without_a_module_or_a_function_there_are_fewer_places() -> None:
    tree = Tree({**LIGER, FUNCTIONAL: b"import torch\n"})
    layout = LigerLayout()
    assert layout.changeable(layout.locate("geglu", tree), tree) == Changeable((PATH,), (), (SUITE,))


def test_a_plain_kernel_is_changed_in_its_file() -> None:
    tree, layout = Tree(dict(SMALL)), PlainLayout()
    places = layout.changeable(layout.locate("scale", tree), tree)
    assert places == Changeable(("small/kernels/scale.py",), (), ("tests/test_scale.py",))


@pytest.mark.parametrize(
    ("layout", "files", "name", "suite"),
    [(LigerLayout(), LIGER, "geglu", SUITE), (PlainLayout(), SMALL, "scale", "tests/test_scale.py")],
)
def test_a_kernel_without_tests_is_not_changed(
    layout: LigerLayout | PlainLayout, files: dict[str, bytes], name: str, suite: str
) -> None:
    tree = Tree({path: text for path, text in files.items() if path != suite})
    with pytest.raises(UserFacingError, match=f"`{name}` has no test file `{suite}`"):
        layout.changeable(layout.locate(name, tree), tree)


def test_functions_are_found_by_the_names_that_they_use() -> None:
    source = "def a(x):\n    return F.apply(x)\n\n\ndef b(x):\n    return F2.apply(x)\n\n\nclass C:\n    F = 1\n"
    assert functions_using(source, ("F",)) == ("a",)
    assert functions_using("def a(:\n", ("F",)) == ()


def test_outside_of_functions_is_what_is_left_with_their_decorators_gone() -> None:
    source = "import x\n\n\n@x.y\ndef a():\n    return 1\n\n\ndef b():\n    return 2\n"
    assert outside(source, ("a",)) == "import x\ndef b():\n    return 2"
    assert outside(source, ("a", "c")) is None
