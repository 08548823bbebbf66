"""Clones of a package with every construct in which the name of a version appears."""

from __future__ import annotations

from pathlib import Path

import pytest

from workers.layouts.versioned.clone_kernel import CloneError, clone, cloned, main

PACKAGE = "lab.kernel.cutile.mla.flash"
KERNELS = '''\
"""Kernels of flash; FlashPlan launches them."""

import cuda.tile as ct
import cute
import triton

from . import flash_tiles as tiles
from .flash_tiles import FlashTiling, _load as load


@ct.kernel
def _flash_kernel(x, flash):  # flash is a tensor here
    return flash + load(x)


@cute.kernel(warps=4)
def _dsl_kernel(x):
    return _flash_kernel(x, x)


@cute.jit
def launch(x):
    _dsl_kernel(x)
    return _flash_kernel, tiles.FlashTiling


@triton.jit
def _triton_kernel(x):
    tiles._load(x)


def plain(launch):
    return launch
'''
TILES = """\
from lab.kernel.runtime import Tiling


class FlashTiling(Tiling):
    pass


class WideTiling(FlashTiling): pass


class Other:
    name = "FlashTiling"


def _load(x):
    return x
"""
ENTRY = '''\
from dataclasses import dataclass, field

import lab.kernel.cutile.mla.flash.flash.kernels as kernels
import lab.kernel.cutile.mla.flash.flash.flash_tiles
from lab.kernel.cutile.mla import flash as design
from lab.kernel.cutile.mla.flash.common import flash_shared
from lab.kernel.cutile.mla.flash.flash import flash_tiles
from lab.kernel.cutile.mla.flash.flash.flash_tiles import FlashTiling
from lab.kernel.runtime import KernelPipeline, KernelPlan

__all__ = ["FlashPlan", "flash", "plain"]
WHERE = "src/lab/kernel/cutile/mla/flash/flash/flash.py"
DESIGN = "lab.kernel.cutile.mla.flash"
MODULE = "lab.kernel.cutile.mla.flash.flash.flash_tiles"


def flash(x):
    """Attention; flash is what everybody calls it."""
    return kernels.launch(x), kernels.plain


@dataclass
class FlashPlan(KernelPlan):
    tiling: "FlashTiling" = field(default_factory=FlashTiling)

    def other(self, pd: "list[FlashPlan] | None" = None) -> "FlashPlan":
        flash = 3
        return FlashPlan(flash), flash_tiles.WideTiling, lab.kernel.cutile.mla.flash.flash.flash_tiles.WideTiling

    def plan(self, *inputs):
        print(f"{flash.__name__} of {FlashPlan.__name__}")
        return KernelPipeline(_name="flash_pipeline", stages=[flash(*inputs)], note="a flash of light")
'''
FILES = {"__init__.py": "", "flash.py": ENTRY, "kernels.py": KERNELS, "flash_tiles.py": TILES}


def changed(old: str, new: str) -> list[tuple[str, str]]:
    pairs = zip(old.splitlines(), new.splitlines(), strict=True)
    return [(one.strip(), other.strip()) for one, other in pairs if one != other]


def test_every_construct_is_renamed_and_nothing_else() -> None:
    made = cloned(FILES, "flash", "flash", "flash_v1", PACKAGE)
    assert list(made) == ["__init__.py", "flash_v1.py", "kernels.py", "flash_v1_tiles.py"]
    assert [new for _, new in changed(KERNELS, made["kernels.py"])] == [
        '"""Kernels of flash; FlashPlanV1 launches them."""',
        "from . import flash_v1_tiles as tiles",
        "from .flash_v1_tiles import FlashTilingV1, _load as load",
        "def _flash_kernel_v1(x, flash):  # flash is a tensor here",
        "def _dsl_kernel_v1(x):",
        "return _flash_kernel_v1(x, x)",
        "def launch_v1(x):",
        "_dsl_kernel_v1(x)",
        "return _flash_kernel_v1, tiles.FlashTilingV1",
        "def _triton_kernel_v1(x):",
    ]
    assert [new for _, new in changed(TILES, made["flash_v1_tiles.py"])] == [
        "class FlashTilingV1(Tiling):",
        "class WideTilingV1(FlashTilingV1): pass",
        'name = "FlashTilingV1"',
    ]
    assert [new for _, new in changed(ENTRY, made["flash_v1.py"])] == [
        "import lab.kernel.cutile.mla.flash.flash_v1.kernels as kernels",
        "import lab.kernel.cutile.mla.flash.flash_v1.flash_v1_tiles",
        "from lab.kernel.cutile.mla.flash.flash_v1 import flash_v1_tiles",
        "from lab.kernel.cutile.mla.flash.flash_v1.flash_v1_tiles import FlashTilingV1",
        '__all__ = ["FlashPlanV1", "flash_v1", "plain"]',
        'WHERE = "src/lab/kernel/cutile/mla/flash/flash_v1/flash_v1.py"',
        'MODULE = "lab.kernel.cutile.mla.flash.flash_v1.flash_v1_tiles"',
        "def flash_v1(x):",
        "return kernels.launch_v1(x), kernels.plain",
        "class FlashPlanV1(KernelPlan):",
        'tiling: "FlashTilingV1" = field(default_factory=FlashTilingV1)',
        'def other(self, pd: "list[FlashPlanV1] | None" = None) -> "FlashPlanV1":',
        "return FlashPlanV1(flash), flash_v1_tiles.WideTilingV1, "
        "lab.kernel.cutile.mla.flash.flash_v1.flash_v1_tiles.WideTilingV1",
        'print(f"{flash_v1.__name__} of {FlashPlanV1.__name__}")',
        'return KernelPipeline(_name="flash_v1_pipeline", stages=[flash_v1(*inputs)], note="a flash of light")',
    ]


UNUSUAL = """\
from cute import jit as compiled
from lab.kernel.runtime import KernelPlan as Plan, Tiling as Tiles

try:
    import cute
except ImportError:
    pass
else:

    @cute.kernel
    def _late(x):
        return x


@compiled
def _lane(x):
    return x


def specialised(tile):
    @cute.kernel
    def _inner(x):
        return x + tile

    class Launcher:
        @cute.jit
        def __call__(self, x):
            return _inner(x)

    return _inner, Launcher


class Blocks(Tiles): pass


class Work(Plan):
    flash: int = 3
    late = _lane
    doubled = 2 * flash

    def plan(self, x):
        return flash(x), _late


flash = _lane
"""


def test_names_under_conditions_and_aliases_are_renamed_and_fields_are_not() -> None:
    made = cloned({"flash.py": UNUSUAL}, "flash", "flash", "flash_v1", PACKAGE)["flash_v1.py"]
    assert [new for _, new in changed(UNUSUAL, made)] == [
        "def _late_v1(x):",
        "def _lane_v1(x):",
        "def _inner_v1(x):",
        "return _inner_v1(x)",
        "return _inner_v1, Launcher",
        "class BlocksV1(Tiles): pass",
        "class WorkV1(Plan):",
        "late = _lane_v1",
        "return flash_v1(x), _late_v1",
        "flash_v1 = _lane_v1",
    ]


def test_a_clone_of_a_clone_is_the_clone_of_the_base() -> None:
    first = cloned(FILES, "flash", "flash", "flash_v1", PACKAGE)
    assert cloned(first, "flash", "flash_v1", "flash_v12", PACKAGE) == cloned(
        FILES, "flash", "flash", "flash_v12", PACKAGE
    )


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    folder = tmp_path / "src/lab/kernel/cutile/mla/flash/flash"
    folder.mkdir(parents=True)
    for name, text in FILES.items():
        (folder / name).write_text(text)
    return tmp_path


def files_of(root: Path) -> list[str]:
    return sorted(str(path.relative_to(root)) for path in root.rglob("*") if path.is_file())


def test_a_dry_run_names_the_files_and_writes_none(repository: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = files_of(repository)
    assert main(["flash", "v1", "--dry-run"], repository) == 0
    assert "src/lab/kernel/cutile/mla/flash/flash_v1/flash_v1.py" in capsys.readouterr().out
    assert files_of(repository) == before


def test_the_same_clone_again_changes_nothing(repository: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cutile.flash", "_v1"], repository) == 0
    before = files_of(repository)
    assert len(before) == 2 * len(FILES)
    assert main(["flash", "v1"], repository) == 0
    assert "It is there already" in capsys.readouterr().out and files_of(repository) == before


def test_a_version_that_is_there_and_differs_is_never_overwritten(repository: Path) -> None:
    clone(repository, "flash", "v1")
    changed_file = repository / "src/lab/kernel/cutile/mla/flash/flash_v1/kernels.py"
    changed_file.write_text("mine = 1\n")
    with pytest.raises(CloneError, match="`flash_v1` is there already and is another: choose the next suffix"):
        clone(repository, "flash", "v1")
    assert changed_file.read_text() == "mine = 1\n"


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["flash"], "Name a version and the suffix of the new one"),
        (["flash", "v0"], "Name a version and the suffix of the new one"),
        (["flash_v7", "v8"], "there is no version `flash_v7`: those there are `flash`"),
        (["cute.flash", "v1"], "there is no version `flash`"),
    ],
)
def test_what_cannot_be_cloned_gets_a_sentence_and_leaves_nothing(
    repository: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], sentence: str
) -> None:
    before = files_of(repository)
    assert main(arguments, repository) == 2
    assert sentence in capsys.readouterr().err and files_of(repository) == before


def test_a_file_that_is_no_python_leaves_nothing(repository: Path) -> None:
    (repository / "src/lab/kernel/cutile/mla/flash/flash/kernels.py").write_text("def (:\n")
    with pytest.raises(CloneError, match=r"line 1 of `kernels\.py` is no Python: correct it first"):
        clone(repository, "flash", "v1")
    assert len(files_of(repository)) == len(FILES)
