"""A commit after which a kernel is wrong at one size: a night finds it and a bisection names it, by verdicts of the real runner."""

from __future__ import annotations

import re
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tests.service.local.checkouts import checked_out, git, run
from workers import runtime

pytestmark = [pytest.mark.long, pytest.mark.slow, pytest.mark.usefixtures("environment")]
PATH = "small/kernels/silu.py"
BLOCK = "BLOCK_SIZE=triton.next_power_of_2(n_cols)"
SILU = f'''\
"""SiLU: a value by the sigmoid of itself."""

import torch
import triton
import triton.language as tl


@triton.jit
def _silu_kernel(x_ptr, y_ptr, n_cols, BLOCK_SIZE: tl.constexpr):
    row = tl.program_id(0).to(tl.int64) * n_cols
    offsets = tl.arange(0, BLOCK_SIZE)
    mask = offsets < n_cols
    x = tl.load(x_ptr + row + offsets, mask=mask, other=0.0).to(tl.float32)
    tl.store(y_ptr + row + offsets, x * tl.sigmoid(x), mask=mask)


def silu(x):
    n_cols = x.shape[-1]
    rows = x.contiguous().view(-1, n_cols)
    y = torch.empty_like(rows)
    if rows.numel():
        _silu_kernel[(rows.shape[0],)](rows, y, n_cols, {BLOCK})
    return y.view(x.shape)
'''
PROBLEM = '''\
"""SiLU."""

import torch


def reference(x: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.silu(x)


INPUTS = {"x": {"dims": "T H", "grad": False}}
WORKLOADS = [{"T": 32, "H": 256}, {"T": 8, "H": 640}]
CALL = "silu(x)"
'''


class Library:
    """A checkout whose nights are asked for in a folder of their own each."""

    def __init__(self, folder: Path) -> None:
        pyproject = b'[project]\nname = "small"\nversion = "1.0"\n'
        files = {"pyproject.toml": pyproject, "small/__init__.py": b"", "small/kernels/__init__.py": b""}
        self.folder = checked_out(folder, files)
        self.commit(".kernelsmith/problems/silu.py", PROBLEM)
        self.good = self.commit(PATH, SILU)

    def commit(self, path: str, text: str) -> str:
        (self.folder / path).parent.mkdir(parents=True, exist_ok=True)
        (self.folder / path).write_text(text)
        git(self.folder, "add", "-A")
        git(self.folder, "commit", "-q", "-m", f"Change {path}")
        return git(self.folder, "rev-parse", "HEAD")

    def night(self) -> tuple[int, str]:
        done = run("nightly", "silu", "--repo", self.folder, "--out", self.folder.parent / "night")
        return done.exit_code, (self.folder.parent / "night" / "report.md").read_text()


def test_a_night_finds_the_kernel_and_a_bisection_the_commit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    build = runtime.build
    command = (sys.executable, "-m", "tests.service.local.timed_runner")
    monkeypatch.setattr(runtime, "build", lambda settings: replace(build(settings), runner_command=command))
    library = Library(tmp_path / "library")
    code, report = library.night()
    assert code == 0, report
    assert report.splitlines()[0].endswith("in 1 kernel."), "its values were proved"
    library.commit("README.md", "Small.\n")
    culprit = library.commit(PATH, SILU.replace(BLOCK, "BLOCK_SIZE=min(triton.next_power_of_2(n_cols), 512)"))
    bad = library.commit("README.md", "Small kernels.\n")
    code, report = library.night()
    assert code == 1, report
    assert "wrong values in `silu`" in report.splitlines()[0]
    assert re.search(r"- `silu`: .*never written.*\(T=\d+ H=\d+", report) and "confirmed" in report, report
    done = run("bisect", "silu", f"{library.good}..{bad}", "--repo", library.folder)
    assert done.exit_code == 0, done.output
    assert f"**`{culprit[:12]}` made `silu` wrong**" in done.stdout
    assert "3 commits proved" in done.stdout
