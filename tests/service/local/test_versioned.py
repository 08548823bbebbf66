"""A repository of versions made by the commands alone: four designs in three languages, run by its own command line."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.service.local.checkouts import checked_out, git, run
from tests.workers.compiler.captured import captured
from tests.workers.layouts.versioned.repository import GATED, GATED_SUM

CHECKS = (
    "reglu v0 --T=5 --intermediate_size=70",
    "reglu v1 --T=5 --intermediate_size=70",
    "rms_norm v0 --B=1 --T=5 --hidden_size=70",
    "rms_norm v1 --B=1 --T=5 --hidden_size=70",
    "torch-ops.gated_sum v0 --T=8",  # a pipeline of a concurrent pair and what combines it
    "gated_sum v1 --T=8",
)


def merge(library: Path) -> None:
    """Merge the one branch that a command left, and remove it."""
    (branch,) = git(library, "for-each-ref", "--format=%(refname:short)", "refs/heads/kernelsmith").splitlines()
    git(library, "merge", "-q", "--ff-only", branch)
    git(library, "branch", "-q", "-d", branch)


def carry_out(library: Path, *command: str | Path) -> None:
    done = run(*command, "--repo", library)
    assert done.exit_code == 0, done.output
    merge(library)


def python(library: Path, *arguments: str) -> str:
    environment = {"PATH": os.environ["PATH"], "HOME": str(library), "PYTHONPATH": "src", "TRITON_INTERPRET": "1"}
    command = [sys.executable, *arguments]
    done = subprocess.run(
        command, cwd=library, env=environment, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, f"{done.stdout}{done.stderr}"
    return done.stdout


@pytest.mark.usefixtures("environment")
@pytest.mark.long
@pytest.mark.timeout(1800)
def test_four_designs_in_three_languages_are_made_versioned_and_checked_by_the_commands_alone(tmp_path: Path) -> None:
    library = checked_out(tmp_path / "library", {"pyproject.toml": b"[tool.ruff]\nline-length = 120\n"})
    git(library, "config", "user.name", "somebody")
    git(library, "config", "user.email", "somebody@example.com")
    carry_out(library, "init", "--layout", "versioned", "--package", "lab")
    for name, *options in (("reglu",), ("rms_norm",), ("relu_squared", "--to", "cutile")):
        problem = tmp_path / f"{name}.py"
        problem.write_text(captured(name)[0].source)
        carry_out(library, "create", problem, "--auto", *options)
    by_hand = library / GATED / "gated_sum/gated_sum.py"
    by_hand.parent.mkdir(parents=True)
    by_hand.write_text(GATED_SUM)
    git(library, "add", "-A")
    git(library, "commit", "-q", "-m", "feat: add gated_sum")
    carry_out(library, "optimize", "rms_norm", "--auto")
    for name in ("reglu", "gated_sum", "relu_squared"):
        python(library, "scripts/clone-kernel.py", name, "v1")
    for check in CHECKS:
        told = python(library, "-m", "lab.kernel", *check.split(), "--prof_type=disabled", "--check")
        assert told.startswith("PASS "), check
    assert "passed" in python(library, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/test_rms_norm.py")
    in_cutile = library / "src/lab/kernel/cutile/ops/relu_squared/relu_squared_v1"
    assert "@ct.kernel" in (in_cutile / "kernels.py").read_text() and (in_cutile / "relu_squared_v1.py").is_file()
    log = (library / "docs/kernels/rms_norm.md").read_text()
    assert "### V0: " in log and "### V1: " in log
    subjects = git(library, "log", "--format=%s").splitlines()
    assert all(subject.split(":")[0].split("(")[0] in ("feat", "perf", "test", "start") for subject in subjects)
