"""The contract of asking a host what it can do."""

from __future__ import annotations

from dataclasses import dataclass

from gpu_runner.contracts.envelope import Isolation


@dataclass(frozen=True)
class DoctorRequest:
    """Ask a host what it can do; ``quick`` leaves the GPU's bandwidth unmeasured. With ``npu`` it is to have an Ascend NPU."""

    quick: bool = False
    npu: bool = False


@dataclass(frozen=True)
class IsolationProof:
    """One thing that a child tried and was, or was not, kept from."""

    attempt: str  # such as "connect to 127.0.0.1", "read the parent's environment", "write outside the scratch folder"
    prevented: bool
    detail: str


@dataclass(frozen=True)
class ChildStart:
    """How children are started on a host, and how long it takes."""

    forked: bool  # from a process that has imported torch; by a fresh interpreter otherwise
    ready_s: float  # from asking for a child until its device is open
    imports_s: float | None = None  # what the process that children are forked from took to import, once
    reason: str | None = None  # why none is forked


@dataclass(frozen=True)
class HostReport:
    """The facts of a host and the isolation that works on it, proved by trying."""

    python: str
    torch: str | None
    triton: str | None
    gpu: str | None
    architecture: str  # sm_90 and the like, or "interpreter"
    driver: str | None
    memory_bytes: int | None
    bandwidth_gbps: float | None
    levels: tuple[Isolation, ...]
    proofs: tuple[IsolationProof, ...]
    tools: tuple[tuple[str, str], ...]  # ncu, compute-sanitizer, bwrap, unshare: name -> version or path
    problems: tuple[str, ...]  # sentences with the fix
    child_start: ChildStart | None = None  # None where no child could be started
    cutile: str | None = None  # the version of cuda-tile
    npu_lacks: tuple[
        str, ...
    ] = ()  # of the problems those that keep kernels from an NPU; asked for, or where there is one
