"""The contract of running a repository's own tests, benchmark script or style check."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from gpu_runner.contracts.verify import SourceFile


class CaseOutcome(StrEnum):
    """What became of one test."""

    passed = "passed"
    failed = "failed"
    skipped = "skipped"
    error = "error"


@dataclass(frozen=True)
class TestsRequest:
    """Run ``python -m MODULE ARGUMENTS`` in a repository snapshot with changed files laid over it.

    ``module`` is ``pytest`` for tests, ``benchmark`` with the path of a script as the first argument, or ``imports`` with modules
    to import and, as ``package:NAME``, installed packages to look for. Each of these is a case: failed on an ImportError, with the
    message ``MISSING: TEXT``, and skipped where the import ended on anything else. The content of the paths in ``collect`` comes
    back, such as a benchmark data file, and so do the PNG images of ``pictures``.
    """

    __test__ = False

    tree: str  # a tarball next to the request, by file name
    files: tuple[SourceFile, ...]
    module: str
    arguments: tuple[str, ...]
    import_roots: tuple[str, ...] = (".",)
    collect: tuple[str, ...] = ()
    pictures: tuple[str, ...] = ()


@dataclass(frozen=True)
class Picture:
    """A PNG image that a script drew, untrusted."""

    path: str
    base64: str


@dataclass(frozen=True)
class TestCase:
    """One test, by its node id."""

    __test__ = False

    node: str
    outcome: CaseOutcome
    duration_s: float
    message: str | None = None


@dataclass(frozen=True)
class TestsResult:
    """``passed`` only if the run ended with exit code 0, and for pytest at least one test passed and none failed."""

    __test__ = False

    passed: bool
    exit_code: int | None  # None: killed at the limit
    cases: tuple[TestCase, ...]
    summary: str  # one line
    log: str  # the end of the output; untrusted text
    collected: tuple[SourceFile, ...] = ()
    pictures: tuple[Picture, ...] = ()
