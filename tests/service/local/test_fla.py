"""A library arranged like flash-linear-attention: an operation made, and made faster, by the commands and the real runner."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.service.local.checkouts import checked_out, git
from tests.service.local.test_versioned import carry_out, python
from tests.workers.compiler.captured import captured

GATE = b"""\
import torch
import triton
import triton.language as tl


@triton.jit
def gate_fwd_kernel(x, y, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + offsets, tl.load(x + offsets, mask=offsets < n), mask=offsets < n)
"""
LIBRARY = {
    "pyproject.toml": b"[tool.ruff]\nline-length = 120\n",
    "lab/__init__.py": b"",
    "lab/ops/__init__.py": b'from lab.ops.gate import fused_gate\n\n__all__ = [\n    "fused_gate",\n]\n',
    "lab/ops/gate/__init__.py": b'from lab.ops.gate.naive import gate as fused_gate\n\n__all__ = ["fused_gate"]\n',
    "lab/ops/gate/fused.py": GATE,
    "lab/ops/gate/naive.py": b"def gate(x):\n    return x\n",
}


@pytest.mark.usefixtures("environment")
@pytest.mark.long  # in `make test` the layout's files are written and run, and other layouts go through the commands
@pytest.mark.timeout(1800)
def test_an_operation_is_made_and_optimized_where_the_library_keeps_its_own(tmp_path: Path) -> None:
    library = checked_out(tmp_path / "library", LIBRARY)
    git(library, "config", "user.name", "somebody")
    git(library, "config", "user.email", "somebody@example.com")
    problem = tmp_path / "reglu.py"
    problem.write_text(captured("reglu")[0].source)
    carry_out(library, "create", problem, "--auto")
    assert sorted(git(library, "ls-tree", "-r", "--name-only", "HEAD").splitlines()) == sorted(
        [
            *LIBRARY,
            "benchmarks/ops/benchmark_reglu.py",
            "lab/ops/reglu/__init__.py",
            "lab/ops/reglu/fused.py",
            "lab/ops/reglu/naive.py",
            "tests/ops/test_reglu.py",
        ]
    )
    carry_out(library, "optimize", "reglu", "--auto")
    python(library, "-c", "from lab.ops import fused_reglu")
    assert "passed" in python(library, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/ops/test_reglu.py")
