import pytest

from workers.layouts.python_source import Import, block, with_import

SORTED = """\
import torch

from lib.ops import Alpha  # noqa: F401
from lib.ops import Gamma  # noqa: F401
from lib.zeta import omega  # noqa: F401

VALUE = 1
"""


def test_a_block_has_its_sections_apart_and_plain_imports_first() -> None:
    imports = (
        Import("lib.ops", "beta"),
        Import("test.utils", "set_seed"),
        Import("torch"),
        Import("math"),
        Import("torch.nn.functional", None, "F"),
        Import("__future__", "annotations"),
    )
    assert block(imports, frozenset({"lib"})) == (
        "from __future__ import annotations\n\nimport math\n\nimport torch\nimport torch.nn.functional as F\n\n"
        "from test.utils import set_seed\n\nfrom lib.ops import beta"
    )


def test_without_single_lines_names_of_a_module_share_a_line() -> None:
    imports = (Import("torch"), Import("kernels.a", "beta"), Import("kernels.a", "Alpha"))
    text = block(imports, frozenset({"kernels"}), single_line=False)
    assert text == "import torch\n\nfrom kernels.a import Alpha, beta"


@pytest.mark.parametrize(
    ("module", "name", "after"),
    [
        ("lib.ops", "Beta", "Alpha"),
        ("lib.ops", "alpha_backward", "Gamma"),
        ("lib.ops", "A", None),
        ("lib.zeta", "zulu", "omega"),
        ("lib.abc", "x", None),
    ],
)
def test_an_import_goes_where_the_sorting_wants_it(module: str, name: str, after: str | None) -> None:
    lines = with_import(SORTED, Import(module, name)).splitlines()
    before = lines[lines.index(f"from {module} import {name}") - 1]
    assert before == "" if after is None else f"import {after}" in before


def test_numbers_in_names_are_ordered_by_value() -> None:
    source = "from lib import kernel2\nfrom lib import kernel10\n"
    assert with_import(source, Import("lib", "kernel9")).splitlines()[1] == "from lib import kernel9"


def test_nothing_but_the_new_line_changes() -> None:
    changed = with_import(SORTED, Import("lib.ops", "Beta"), "  # noqa: F401")
    assert changed.replace("from lib.ops import Beta  # noqa: F401\n", "") == SORTED


def test_line_endings_of_the_file_are_kept() -> None:
    changed = with_import(SORTED.replace("\n", "\r\n"), Import("lib.ops", "Beta"))
    assert changed.count("\r\n") == changed.count("\n") == SORTED.count("\n") + 1


def test_an_import_that_is_there_already_changes_nothing() -> None:
    assert with_import(SORTED, Import("lib.ops", "Alpha")) == SORTED


def test_a_line_too_long_with_its_comment_is_put_in_parentheses() -> None:
    name = "Liger" + "Long" * 20 + "Function"
    changed = with_import(SORTED, Import("lib.ops", name), "  # noqa: F401")
    assert f"from lib.ops import (\n    {name},  # noqa: F401\n)\n" in changed


def test_a_file_without_a_neighbour_is_not_guessed_at() -> None:
    with pytest.raises(ValueError, match="no import from other"):
        with_import(SORTED, Import("other.ops", "Beta"))
