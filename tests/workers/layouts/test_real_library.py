"""The layout on an unpacked Liger-Kernel, where the environment names one: LIGER_SOURCE=/path/to/it."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from gpu_runner.contracts import read_source
from tests.workers.layouts import designs
from tests.workers.layouts.variants import variants
from workers.layouts.liger.layout import LigerLayout
from workers.layouts.protocol import Design
from workers.tree import Tree

SOURCE = os.environ.get("LIGER_SOURCE")
LAYOUT = LigerLayout()
NEIGHBOURS = ("test/transformers/test_softmax.py", "test/transformers/test_relu_squared.py")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(SOURCE is None, reason="LIGER_SOURCE names no unpacked library"),
]


@pytest.fixture(scope="module")
def library() -> Tree:
    root = Path(SOURCE or "")
    files = (path for path in root.rglob("*") if path.is_file() and not path.is_symlink())
    return Tree({path.relative_to(root).as_posix(): path.read_bytes() for path in files if ".git" not in path.parts})


def test_every_file_of_the_library_can_be_read(library: Tree) -> None:
    for path in library.paths(suffix=".py"):
        assert read_source(library.files[path], path).data == library.files[path]


def _checkout(library: Tree, folder: Path, *wanted: Design) -> tuple[Tree, tuple[str, ...]]:
    tree = library
    for design in wanted:
        assert LAYOUT.names(design.name, design.problem, tree) == design.names
        tree = tree.overlaid(LAYOUT.kernel_changes(design, tree))
    shutil.copytree(SOURCE or "", folder, symlinks=True, ignore=shutil.ignore_patterns("__pycache__", ".git"))
    changed = tuple(path for path, content in tree.files.items() if library.files.get(path) != content)
    for path in changed:
        (folder / path).write_bytes(tree.files[path])
    return tree, changed


def _run(folder: Path, *command: str) -> subprocess.CompletedProcess[str]:
    environment = {"PATH": os.environ["PATH"], "TRITON_INTERPRET": "1", "HOME": str(folder), "HF_HUB_OFFLINE": "1"}
    arguments = [sys.executable, "-m", *command]
    return subprocess.run(
        arguments, cwd=folder, env=environment, capture_output=True, text=True, timeout=280, check=False
    )


def test_reglu_lands_in_the_library(library: Tree, tmp_path: Path) -> None:
    folder, design = tmp_path / "library", designs.reglu()
    _, changed = _checkout(library, folder, design, designs.rms_scale())
    assert len([path for path in changed if "reglu" in path]) == 4
    changes = LAYOUT.kernel_changes(design, library)
    for command in LAYOUT.style_check(changes, library).check:
        done = _run(folder, *command)
        assert done.returncode == 0, done.stdout
    tests = [LAYOUT.tests(d, library).arguments[-1] for d in (design, designs.rms_scale())]
    done = _run(folder, "pytest", "-q", "-p", "no:cacheprovider", *tests)
    assert done.returncode == 0, done.stdout[-3000:]
    assert re.search(r"20 passed, 16 skipped", done.stdout)
    done = _run(folder, "pytest", "-q", "-p", "no:cacheprovider", *NEIGHBOURS)
    assert done.returncode == 0, done.stdout[-3000:]


def test_every_kind_of_problem_passes_style_and_tests(library: Tree, tmp_path: Path) -> None:
    folder = tmp_path / "library"
    tree, changed = _checkout(library, folder, *variants())
    by_hand = {f"src/liger_kernel/ops/{design.name}.py" for design in variants()}
    for command in (("ruff", "check"), ("ruff", "format", "--check")):
        done = _run(folder, *command, *(path for path in changed if path.endswith(".py") and path not in by_hand))
        assert done.returncode == 0, done.stdout
    done = _run(
        folder, "pytest", "-q", "-p", "no:cacheprovider", *(LAYOUT.tests(d, tree).arguments[-1] for d in variants())
    )
    assert done.returncode == 0, done.stdout[-3000:]


def test_the_benchmark_script_sets_up_every_provider_with_the_library_s_helpers(library: Tree, tmp_path: Path) -> None:
    folder, design = tmp_path / "library", designs.reglu()
    _checkout(library, folder, design)
    # A checkout from git was never installed; then the version comes from the files that the run brings.
    shutil.rmtree(folder / "src/liger_kernel.egg-info", ignore_errors=True)
    run = LAYOUT.benchmark(design, Tree({p: c for p, c in library.files.items() if "egg-info" not in p}))
    for file in run.support:
        (folder / file.path).parent.mkdir()
        (folder / file.path).write_text(file.text)
    (folder / "probe.py").write_text(
        f"import sys; sys.path[:0] = {list(run.import_roots)!r}\n"
        "import torch, benchmark_reglu as script\n"
        "from benchmark_model_configs import MODEL_REGISTRY\n"
        "config = {'intermediate_size': 33, 'dtype': torch.float32}\n"
        "for provider in ('liger', 'torch'):\n"
        "    a, b, layer = script.setup_reglu(script.SingleBenchmarkRunInput(5, provider, 'full', config))\n"
        "    script.forward_reglu(a, b, layer).sum().backward()\n"
        "    print(type(layer).__name__, tuple(a.grad.shape), b.grad is not None)\n"
        "config = {'bsz': 1, 'seq_len': 3}\n"
        "a, b, layer = script.setup_reglu(script.SingleBenchmarkRunInput('llama_3_8b', 'torch', 'full', config))\n"
        "print(tuple(a.shape), a.dtype)\n"
    )
    done = _run(folder, "probe")
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.splitlines() == [
        "LigerReGLU (5, 33) True",
        "TorchReGLU (5, 33) True",
        "(3, 14336) torch.bfloat16",
    ]


@pytest.mark.parametrize(
    ("design", "closest"), [(designs.reglu(), {"geglu", "swiglu"}), (designs.rms_scale(), {"rms_norm"})]
)
def test_the_nearest_kernel_is_one_that_a_maintainer_would_name(
    library: Tree, design: Design, closest: set[str]
) -> None:
    assert LAYOUT.profile(design, library).closest_existing_kernel in closest
