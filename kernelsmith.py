"""Kernelsmith as a library: kernels written, proved and measured on this machine, without a job, an account or a key.

    from kernelsmith import benchmark, create

    made = create("geglu.py", out="runs/geglu")
    if made:
        print(made.kernel, benchmark("geglu.py", made.kernel))
    else:
        print(made.message)

A problem, a model and a candidate are given as the path of a file, or as their text, which has more than one line. Problems are
files with a ``reference`` (docs/problem.md) or in the KernelBench form. Everything runs in the runner's sandbox; without a GPU
kernels run in Triton's interpreter, which proves values and measures nothing.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from gpu_runner.contracts import BenchmarkResult, Status, Verdict, to_json
from workers import byhand
from workers.contracts import AuthorName
from workers.contracts import UserFacingError as KernelsmithError
from workers.fuse.run import BY_COMPILER, Authors, FuseResult

__all__ = [
    "AuthorName",
    "Authors",
    "BenchmarkResult",
    "Created",
    "FuseResult",
    "KernelsmithError",
    "Status",
    "Verdict",
    "benchmark",
    "create",
    "fuse",
    "verify",
]

Text = str | Path


@dataclass(frozen=True)
class Created:
    """What became of a problem. True where a kernel was written and its verdict is ``passed``, or was not asked for."""

    source: str | None  # the module with ``candidate``, and ``ModelNew`` for a problem in the KernelBench form
    verdict: Verdict | None
    message: str  # why nothing was written, or what is wrong with it; empty where nothing is
    session: Path | None = None  # the folder with problem.py, candidate.py and verdict.json
    kernel: Path | None = None  # candidate.py in it

    def __bool__(self) -> bool:
        """Whether there is a kernel that may be used."""
        return self.source is not None and not self.message


def create(problem: Text, *, name: str = "kernel", out: str | Path | None = None, prove: bool = True) -> Created:
    """Have the compiler author write a kernel, forward and backward, and have it judged.

    ``out`` is a folder for the problem, the kernel and the verdict; without it nothing is written. ``name`` is that of the kernels.

    Raises:
        KernelsmithError: the problem cannot be used, or the environment is at fault.
    """
    if not re.fullmatch(r"[a-z_][a-z0-9_]*", name):
        raise ValueError(f"a kernel's name is lower case letters, digits and underscores, not {name!r}")
    text = _text(problem)
    compiled = byhand.compile_problem(text, name)
    verdict = byhand.verify(text, compiled.source).verdict() if prove and compiled.source is not None else None
    message = compiled.refusal or ""
    if verdict is not None and verdict.status is not Status.passed:
        message = verdict.evidence[0].message if verdict.evidence else verdict.status.value
    if out is None:
        return Created(compiled.source, verdict, message)
    session = Path(out)
    kernel = session / "candidate.py"
    files = {
        session / "problem.py": text,
        kernel: compiled.source,
        session / "verdict.json": None if verdict is None else json.dumps(to_json(verdict), indent=2),
    }
    session.mkdir(parents=True, exist_ok=True)
    for path, content in files.items():
        if content is None:
            path.unlink(missing_ok=True)  # of an earlier call
        else:
            path.write_text(content, encoding="utf-8")
    return Created(compiled.source, verdict, message, session, kernel if compiled.source is not None else None)


def verify(problem: Text, candidate: Text, *, seed: str | None = None) -> Verdict:
    """Have a candidate, whoever wrote it, judged by a problem: values, gradients, memory, and what torch computes for it.

    ``seed``: that of an earlier verdict, which is repeated.

    Raises:
        KernelsmithError: the problem or the seed cannot be used, or the environment is at fault.
    """
    return byhand.verify(_text(problem), _text(candidate), seed).verdict()


def benchmark(
    problem: Text, candidate: Text, *, dtype: str = "bfloat16", budget_s: float = 60.0, compiled: bool = False
) -> BenchmarkResult:
    """Measure a candidate in turns with eager mode and ``torch.compile``, for at most ``budget_s`` seconds.

    ``compiled``: the candidate runs under ``torch.compile``. Without a GPU there are no times, and the floor is predicted.

    Raises:
        KernelsmithError: the problem cannot be used, or the environment is at fault.
    """
    return byhand.benchmark(_text(problem), _text(candidate), budget_s, dtype, compiled).benchmark()


def fuse(
    model: Text,
    out: str | Path,
    *,
    jobs: int = 1,
    authors: Authors = BY_COMPILER,
    fresh: bool = False,
    say: Callable[[str], None] = lambda _: None,
) -> FuseResult:
    """Take a model apart, have the parts written and proved, ``jobs`` at a time, and compose a module of the same parameters.

    Everything goes to ``out`` (docs/fusing.md). A run that was interrupted goes on from there, but with ``fresh``.
    ``authors`` says who cuts, writes and composes; by default no language model is asked. ``say`` is given a line for each step.

    Raises:
        KernelsmithError: the model cannot be fused, the environment is at fault, or a language model is wanted and there is none.
    """
    return byhand.fuse(_text(model), Path(out), jobs, say, fresh=fresh, authors=authors)


def _text(given: Text) -> str:
    is_path = isinstance(given, Path) or "\n" not in given
    return Path(given).read_text(encoding="utf-8") if is_path else str(given)
