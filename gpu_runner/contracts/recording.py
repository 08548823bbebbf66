"""The contract of recording: which calls a library's own script makes into one of its kernels, and with what."""

from __future__ import annotations

from dataclasses import dataclass

from gpu_runner.contracts.verify import SourceFile


@dataclass(frozen=True)
class RecordRequest:
    """Run a script of a repository (its benchmark script) on fake tensors and record the calls of ``module.symbol``.

    ``symbol`` is an autograd Function's class, whose ``apply`` is recorded, or a function.
    """

    tree: str  # a tarball next to the request, by file name
    script: str  # path in the tree
    module: str
    symbol: str
    import_roots: tuple[str, ...] = (".",)
    arguments: tuple[str, ...] = ()
    files: tuple[SourceFile, ...] = ()  # laid over the tree
    most: int = 64


@dataclass(frozen=True)
class RecordedTensor:
    """A tensor argument as it was given."""

    shape: tuple[int, ...]
    dtype: str  # torch's short name
    contiguous: bool
    grad: bool


@dataclass(frozen=True)
class RecordedCall:
    """One distinct call: its arguments in order; what is neither tensor nor plain value is given by the name of its type."""

    arguments: tuple[RecordedTensor | int | float | bool | str | None, ...]
    count: int = 1


@dataclass(frozen=True)
class RecordResult:
    """Distinct calls in the order in which they came."""

    calls: tuple[RecordedCall, ...]
    error: str | None = None  # the script ended on an error; what was noted before still counts
