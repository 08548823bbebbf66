"""What a layout writes is run for real in a miniature library: tests in Triton's interpreter, benchmark scripts, style."""

import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from gpu_runner.contracts import KernelNames
from tests.workers.layouts import designs, miniature
from tests.workers.layouts.variants import variants
from workers.contracts import FileChange
from workers.layouts.liger.layout import LigerLayout
from workers.layouts.plain.layout import PlainLayout
from workers.layouts.protocol import Design, Layout, SuiteRun
from workers.tree import Tree

FROM_LIBRARY = "from liger_kernel.ops.utils import"


def _plain(design: Design, tree: Tree) -> Design:
    names = PlainLayout().names(design.name, design.problem, tree)
    assert design.source is not None
    source = design.source.replace(design.names.function or "", names.function or "")
    return replace(design, names=names, source=source.replace(FROM_LIBRARY, "from launching import"))


def _written(layout: Layout, tree: Tree, wanted: tuple[Design, ...]) -> Tree:
    for design in wanted:
        assert layout.names(design.name, design.problem, tree) == design.names
        tree = tree.overlaid(layout.kernel_changes(design, tree))
    return tree


def _liger() -> tuple[Tree, tuple[Design, ...]]:
    wanted = (designs.reglu(), designs.rms_scale(), *variants())
    return _written(LigerLayout(), miniature.tree(), wanted), wanted


def run_suite(run: SuiteRun, folder: Path, *more: str, **environment: str) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join(str(folder / root) for root in run.import_roots)
    clean = {name: os.environ[name] for name in ("PATH", "TRITON_INTERPRET", "OMP_NUM_THREADS")} | environment
    clean |= {"PYTHONPATH": path, "HOME": str(folder)}
    command = [
        sys.executable,
        *(("-m", "pytest", "-p", "no:cacheprovider") if run.module == "pytest" else ()),
        *run.arguments,
        *more,
    ]
    return subprocess.run(command, cwd=folder, env=clean, capture_output=True, text=True, timeout=120, check=False)


def _ruff(folder: Path, *command: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", *command], cwd=folder, capture_output=True, text=True, timeout=60, check=False
    )
    return "" if done.returncode == 0 else done.stdout + done.stderr


@pytest.mark.slow
def test_the_tests_of_every_kind_of_problem_pass_on_a_right_kernel(tmp_path: Path) -> None:
    tree, wanted = _liger()
    miniature.unpack(tree, tmp_path)
    runs = [LigerLayout().tests(design, tree) for design in wanted]
    done = run_suite(runs[0], tmp_path, *(run.arguments[-1] for run in runs[1:]))
    assert done.returncode == 0, done.stdout[-3000:]
    assert re.search(r"\b77 passed, 56 skipped", done.stdout), done.stdout[-300:]


WRONG = {
    "grown": ("tl.maximum(a, 0.0) * b, mask", "tl.maximum(a, 0.0) * b * 1.0001, mask", "[output]"),
    "open": ("tl.where(a > 0.0, dout * b, 0.0)", "dout * b", "[a.grad]"),
    "flat": ("dout * tl.maximum(a, 0.0), mask", "tl.maximum(a, 0.0), mask", "[b.grad]"),
    "short": ("inside = cols < n_cols", "inside = cols < n_cols - 1", "[output]"),
}


def _wrong(name: str) -> Design:
    design, (right, wrong, _) = designs.reglu(), WRONG[name]
    assert design.source is not None and right in design.source
    names = KernelNames(f"Liger{name.title()}Function", f"Liger{name.title()}", f"liger_{name}")
    source = design.source.replace(right, wrong).replace("LigerReGLUFunction", names.function or "")
    return replace(design, name=name, names=names, source=source)


def test_the_tests_fail_on_a_kernel_that_is_a_little_wrong(tmp_path: Path) -> None:
    wanted = tuple(_wrong(name) for name in WRONG)
    tree = _written(LigerLayout(), miniature.tree(), wanted)
    miniature.unpack(tree, tmp_path)
    runs = [LigerLayout().tests(design, tree) for design in wanted]
    done = run_suite(runs[0], tmp_path, "-rf", "--tb=no", *(run.arguments[-1] for run in runs[1:]), COLUMNS="400")
    for name, (_, _, failing) in WRONG.items():
        assert re.search(rf"FAILED test/transformers/test_{name}\.py.*{re.escape(failing)}", done.stdout), done.stdout[
            -2000:
        ]


def test_every_written_file_passes_the_library_s_style_check(tmp_path: Path) -> None:
    tree, _ = _liger()
    miniature.unpack(tree, tmp_path)
    before = miniature.tree().files
    by_hand = {f"src/liger_kernel/ops/{design.name}.py" for design in variants()}
    changed = [path for path, content in tree.files.items() if before.get(path) != content and path not in by_hand]
    style = LigerLayout().style_check(tuple(FileChange(path, "") for path in changed), tree)
    assert len(style.check[0]) > 30
    assert [_ruff(tmp_path, *command) for command in style.check] == ["", ""]


def test_benchmark_scripts_run_their_sweeps_with_the_library_s_helpers(tmp_path: Path) -> None:
    tree, _ = _liger()
    miniature.unpack(tree, tmp_path)
    # The widest size of a real model would take the interpreter minutes.
    small = tree.files["benchmark/scripts/benchmark_model_configs.py"].replace(b"14336", b"33")
    (tmp_path / "benchmark/scripts/benchmark_model_configs.py").write_bytes(small)
    (tmp_path / "all.py").write_text(
        "import os, runpy\n"
        "for name in ('reglu', 'rms_scale', 'wave'):\n"
        "    for os.environ['SWEEP_MODE'] in ('token_length', 'model_config'):\n"
        "        print('script', name, os.environ['SWEEP_MODE'])\n"
        "        runpy.run_path(f'benchmark/scripts/benchmark_{name}.py', run_name='__main__')\n"
    )
    roots = LigerLayout().benchmark(designs.reglu(), tree).import_roots
    done = run_suite(SuiteRun("benchmark", ("all.py",), roots), tmp_path)
    assert done.returncode == 0, done.stderr[-2000:]
    runs = done.stdout.split("script ")[1:]
    assert len(runs) == 6
    for run in runs:
        points = 2 if "token_length" in run else 1
        for metric in ("speed", "memory"):
            assert [run.count(f"ran {metric} {timed} liger") for timed in ("forward", "backward", "full")] == [
                points
            ] * 3


def test_a_problem_that_the_sweeps_do_not_fit_gets_a_script_by_hand(tmp_path: Path) -> None:
    tree, wanted = _liger()
    scripts = {design.name: tree.read(f"benchmark/scripts/benchmark_{design.name}.py") or "" for design in wanted}
    by_hand = {name for name, text in scripts.items() if "build_token_length_sweep" not in text}
    assert by_hand == {"add_gain", "masked"}
    assert 'kernel_operation_modes=["forward"]' in scripts["masked"]
    older = Tree({p: c for p, c in miniature.tree().files.items() if not p.endswith("benchmark_model_configs.py")})
    changes = LigerLayout().kernel_changes(designs.reglu(), older)
    assert "triton.testing.do_bench" in (changes[-1].text or "")


@pytest.mark.long  # in `make test` sweeps run, above, and this one is written
def test_a_script_by_hand_makes_its_inputs_and_steps(tmp_path: Path) -> None:
    tree, _ = _liger()
    miniature.unpack(tree, tmp_path)
    probe = (
        "import torch, benchmark_add_gain as script\n"
        "config = {'B': 2, 'hidden_size': 5, 'dtype': torch.float32}\n"
        "for provider in ('liger', 'torch'):\n"
        "    for mode in ('forward', 'backward', 'full'):\n"
        "        step, resets = script.step_add_gain(script.SingleBenchmarkRunInput(3, provider, mode, config))\n"
        "        step()\n"
        "        print(provider, mode, len(resets))\n"
    )
    (tmp_path / "probe.py").write_text(probe)
    roots = (*LigerLayout().tests(designs.reglu(), tree).import_roots, "benchmark/scripts")
    done = run_suite(SuiteRun("benchmark", ("probe.py",), roots), tmp_path)
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.count(" 4\n") == 6


@pytest.mark.long  # in `make test` a whole create runs the tests that are written for a small library
def test_a_small_library_s_tests_pass_too(tmp_path: Path) -> None:
    layout, tree = PlainLayout(), Tree({"launching.py": miniature.OPS_UTILS.encode()})
    wanted = tuple(_plain(design, tree) for design in (designs.reglu(), *variants()[:3]))
    tree = _written(layout, tree, wanted)
    miniature.unpack(tree, tmp_path)
    (tmp_path / "conftest.py").write_text(
        "import torch\n\ntorch.manual_seed(0)\n"
    )  # one draw in many is beyond a tolerance
    runs = [layout.tests(design, tree) for design in wanted]
    done = run_suite(runs[0], tmp_path, *(run.arguments[-1] for run in runs[1:]))
    assert done.returncode == 0, done.stdout[-3000:]
    assert re.search(r"\b38 passed, 32 skipped", done.stdout), done.stdout[-300:]
    assert _ruff(tmp_path, "ruff", "check", "--select", "E,F,I", "--line-length", "120", "tests", "benchmarks") == ""
