from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.workers.layouts.standing import LIGER, PLAIN, liger, plain, with_file
from workers.layouts.import_graph import is_own
from workers.layouts.protocol import Layout
from workers.tree import Tree

SOURCE = os.environ.get("LIGER_SOURCE")
SUITE = """\
from __future__ import annotations

import math
import os.path

import torch.nn as nn
from transformers.models.llama import modeling_llama
from test.utils import set_seed
from liger_kernel.ops.softmax import LigerSoftmaxFunction
from liger_kernel.ops.to_come import LigerToComeFunction
from . import neighbours

try:
    import optional_package
except ImportError:
    optional_package = None
"""


def test_what_a_test_file_imports_is_needed_but_for_python_itself_and_what_is_yet_to_be_written() -> None:
    tree = with_file(liger(), "test/transformers/test_softmax.py", SUITE)
    tree = with_file(tree, "test/conftest.py", "import shared_fixtures\nimport pytest\n")
    needs = LIGER.needs_of("softmax", tree)
    assert needs.modules == (
        "pytest",
        "torch.nn",
        "transformers.models.llama",
        "test.utils",
        "liger_kernel.ops.softmax",
        "shared_fixtures",
    )
    assert needs.roots == ("src", ".")


def test_the_test_file_of_a_new_kernel_needs_what_the_layout_will_write_into_it() -> None:
    assert LIGER.needs_of("reglu_to_come", liger()).modules == ("pytest", "torch", "test.utils", "liger_kernel.utils")
    assert PLAIN.needs_of("reglu_to_come", plain()).modules == ("pytest", "torch")


def test_a_module_is_the_librarys_own_by_its_first_name() -> None:
    tree = liger()
    assert is_own("test.utils.deeper", tree, ("src", "."))
    assert not is_own("torch", tree, ("src", "."))


def test_the_dev_extra_is_read_where_the_library_lists_it() -> None:
    listed = '[project]\nname = "x"\n[project.optional-dependencies]\ndev = ["seaborn", "transformers>=5", 7]\n'
    setup = 'def extras():\n    dev_deps = ["pandas", f"x=={1}"]\n    return {"lck": [], "dev": dev_deps}\n'
    assert PLAIN.needs_of("reglu", with_file(plain(), "pyproject.toml", listed)).dev == ("seaborn", "transformers>=5")
    bare = with_file(liger(), "pyproject.toml", '[project]\nname = "x"\ndynamic = ["optional-dependencies"]\n')
    assert LIGER.needs_of("softmax", with_file(bare, "setup.py", setup)).dev == ("pandas",)


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ('setup(extras_require={"dev": ["a", "b>=1"]})', ("a", "b>=1")),
        ('EXTRA = ["a"]\nsetup(extras_require={"dev": EXTRA})', ("a",)),
        ('setup(extras_require={"dev": read("dev.txt")})', ()),
        ('setup(extras_require={**more, "test": ["a"]})', ()),
        ("setup(extras_require=dict(dev=['a', *MORE], test=['c']))\nMORE = ('b',)", ("a", "b")),
        (
            'TEST = ["a"]\nEXTRAS = {"test": TEST}\nEXTRAS["dev"] = TEST + ["b"]\nsetup(extras_require=EXTRAS)',
            ("a", "b"),
        ),
        ('A = A + ["a"]\nsetup(extras_require={"dev": A})', ("a",)),
        ("setup(", ()),
        ("", ()),
    ],
)
@pytest.mark.parametrize(("layout", "library"), [(LIGER, liger()), (PLAIN, plain())], ids=["liger", "plain"])
def test_an_extra_of_a_setup_file(source: str, found: tuple[str, ...], layout: Layout, library: Tree) -> None:
    name = next(iter(layout.existing(library)))
    tree = Tree({path: text for path, text in library.files.items() if path != "pyproject.toml"})
    assert layout.needs_of(name, with_file(tree, "setup.py", source)).dev == found


@pytest.mark.parametrize(
    ("source", "found"),
    [
        (
            "[options.extras_require]\ndev =\n    a>=1\n    # not this\n    b; sys_platform == 'x'\n",
            ("a>=1", "b; sys_platform == 'x'"),
        ),
        ("[options.extras_require]\ndev = a\n", ("a",)),
        ("[options.extras_require]\ntest = a\n", ()),
        ("[options.extras_require\n", ()),
    ],
)
def test_an_extra_of_setup_cfg(source: str, found: tuple[str, ...]) -> None:
    assert PLAIN.needs_of("reglu", with_file(plain(), "setup.cfg", source)).dev == found


@pytest.mark.slow
@pytest.mark.skipif(SOURCE is None, reason="LIGER_SOURCE names no unpacked library")
def test_the_real_librarys_dev_extra_is_found() -> None:
    setup = (Path(SOURCE or "") / "setup.py").read_text()
    dev = LIGER.needs_of("softmax", with_file(liger(), "setup.py", setup)).dev
    assert {"seaborn", "transformers>=5.0.0", "torchvision>=0.20"} <= set(dev)
