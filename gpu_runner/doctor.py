"""Doctor: what this host can do. Isolation is not asked for but tried: a child attempts every way out."""

from __future__ import annotations

import contextlib
import importlib.metadata
import os
import platform
import secrets
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from gpu_runner import host, npu, removal
from gpu_runner.context import RunContext
from gpu_runner.contracts import DoctorRequest, HostReport, Isolation, IsolationProof
from gpu_runner.contracts.doctor import ChildStart
from gpu_runner.errors import ChildFailed
from gpu_runner.forkserver import keeper
from gpu_runner.messages import GpuFacts, LookAtGpu, OpenDevice, TryWaysOut, WayTried
from gpu_runner.sandbox import landlock
from gpu_runner.sandbox.levels import FIXES, refusals, shortfall
from gpu_runner.session import ChildSession, has_gpu
from gpu_runner.settings import required_isolation

NO_MORE = (Isolation.process,)  # it examines hosts on which nothing else works
TOOLS = ("nvidia-smi", "ncu", "nsys", "compute-sanitizer", "bwrap", "unshare", "gcc")
AMD_COMPUTE = Path("/dev/kfd")
OTHER_GPU = (
    "This host's GPU is AMD's, and only NVIDIA GPUs are supported: kernels run in Triton's interpreter here, and their speed is"
    " only predicted. Take an NVIDIA host for what is measured."
)
_MARKER = "KERNELSMITH_PROOF"

# What each level has to prevent, by the attempt's name in the role `probe`.
_OWN = ("read the parent's variables in its own environment",)
_FILES = (
    "read a file in the parent's temporary folder",
    "write outside the scratch folder",
    "change a setting of the kernel",
)
_PROCESSES = ("read the parent's environment", "signal the parent", "trace the parent")
_NETWORK = ("connect to 127.0.0.1", "connect to an abstract socket")


def run(request: DoctorRequest, context: RunContext) -> HostReport:
    levels, proofs, problems = [], [], []
    with bait() as goal:
        for level in Isolation:
            attempts, holds, why = _proved(level, goal, context)
            proofs += attempts
            if holds:
                levels.append(level)
            else:
                problems.append(f"Isolation level {level.value} does not hold: {why}. {FIXES[level]}")
    lacking = shortfall(context.require or required_isolation(), tuple(levels), gpu=False)
    if lacking is not None:
        problems.append(f"No request is carried out here: {lacking}")
    gpu, failed = _gpu(request, context)
    if failed:
        problems.append(
            f"The GPU cannot be used in the full sandbox: {failed}. Run nvidia-smi, and look at the driver."
        )
    versions = dict(host.facts())
    missing = [package for package in ("torch", "triton") if package not in versions]
    problems += [
        f"{package} is not installed. `pip install 'kernelsmith[gpu]'` brings it, in the same environment."
        for package in missing
    ]
    problems += _compiler_of_tiles() if "cuda-tile" in versions else []
    npu_lacks = npu.lacking() if request.npu or npu.has_npu() else ()
    problems += npu_lacks
    problems += [OTHER_GPU] if AMD_COMPUTE.exists() and not has_gpu() else []
    problems += _leftovers()
    return HostReport(
        python=platform.python_version(),
        torch=versions.get("torch"),
        triton=versions.get("triton"),
        gpu=gpu.name if gpu else None,
        architecture=gpu.architecture if gpu else "interpreter",
        driver=versions.get("driver"),
        memory_bytes=gpu.memory_bytes if gpu else None,
        bandwidth_gbps=gpu.bandwidth_gbps if gpu else None,
        levels=tuple(levels),
        proofs=tuple(proofs),
        tools=(*((name, path) for name in TOOLS if (path := shutil.which(name))), *npu.facts()),
        problems=tuple(problems),
        cutile=versions.get("cuda-tile"),
        child_start=_child_start(context),
        npu_lacks=npu_lacks,
    )


def _compiler_of_tiles() -> list[str]:
    """What keeps cuTile from compiling, whose compiler comes in three packages of one release."""
    releases = set()
    for package in ("nvidia-cuda-tileiras", "nvidia-cuda-nvcc", "nvidia-nvvm"):
        try:
            releases.add(tuple(importlib.metadata.version(package).split(".")[:2]))
        except importlib.metadata.PackageNotFoundError:
            releases.add(())
    if len(releases) == 1 and () not in releases:
        return []
    return [
        "cuTile is installed without `tileiras`, `nvcc` and `nvvm` of one release. `pip install 'kernelsmith[cutile]'` brings them."
    ]


def _leftovers() -> list[str]:
    """What killed runners left in the temporary directory and could not be removed."""
    removal.sweep()
    left = removal.leftovers()
    if not left:
        return []
    hint = "Remove them as root; lsattr shows immutable files, findmnt what is mounted there."
    return [f"{len(left)} folders of ended children cannot be removed, {left[0]} for one. {hint}"]


def describe(report: HostReport) -> str:
    """A report as lines of text."""
    size = f", {report.memory_bytes / 2**30:.0f} GiB" if report.memory_bytes else ""
    speed = f", copies at {report.bandwidth_gbps:.0f} GB/s" if report.bandwidth_gbps else ""
    lines = [
        f"python {report.python}, torch {report.torch or 'missing'}, triton {report.triton or 'missing'}"
        + (f", cuTile {report.cutile}" if report.cutile else ""),
        f"GPU: {report.gpu or 'none; kernels run in the interpreter'} ({report.architecture}{size}{speed})",
        *([_child_start_text(report.child_start)] if report.child_start else []),
        f"isolation: {', '.join(level.value for level in report.levels) or 'none'}",
        *(f"  {'prevented' if p.prevented else 'OPEN     '}  {p.attempt}: {p.detail}" for p in report.proofs),
        *(f"problem: {sentence}" for sentence in report.problems),
    ]
    return "\n".join(lines)


def _child_start_text(start: ChildStart) -> str:
    took = f"one can compute {start.ready_s:.1f} s after it is asked for"
    if start.forked:
        return f"children: forked from a process that imports torch once, in {start.imports_s or 0.0:.1f} s; {took}"
    return f"children: fresh interpreters, none is forked ({start.reason}); {took}"


@contextlib.contextmanager
def bait() -> Iterator[TryWaysOut]:
    """Things that a child must not access: a listener, an abstract socket, a variable, a secret, a folder."""
    marker = secrets.token_hex(16)
    name = f"kernelsmith-{secrets.token_hex(8)}"
    with contextlib.ExitStack() as stack:
        listener = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        abstract = stack.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
        abstract.bind("\0" + name)
        abstract.listen()
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="kernelsmith-bait-")))
        (folder / "secret").write_text(marker)
        # A secret of the parent stands in its environment, and a process that got it at its start shows it in /proc.
        os.environ[_MARKER] = marker
        stack.callback(os.environ.pop, _MARKER, None)
        holder = stack.enter_context(_holder())
        port = listener.getsockname()[1]
        yield TryWaysOut(port, name, marker, str(folder / "secret"), str(folder / "outside"), holder)


@contextlib.contextmanager
def _holder() -> Iterator[int]:
    command = [sys.executable, "-c", "import sys; sys.stdin.read()"]
    with subprocess.Popen(command, stdin=subprocess.PIPE) as process:
        try:
            yield process.pid
        finally:
            process.kill()


def _proved(level: Isolation, goal: TryWaysOut, context: RunContext) -> tuple[list[IsolationProof], bool, str]:
    levels = tuple(dict.fromkeys((Isolation.process, level)))
    try:
        with ChildSession("probe", context.limits, NO_MORE, gpu=False, levels=levels) as session:
            if level not in session.isolation:
                return [], False, refusals().get(level, "the host refuses it")
            tried = dict(session.call(goal).message)
    except ChildFailed as failure:
        return [], False, failure.message
    if Path(goal.outside).exists():
        Path(goal.outside).unlink()
    elif (written := tried.get("write outside the scratch folder")) is not None:
        written = replace(written, is_open=False)  # it went into a file system of the child's own
        tried["write outside the scratch folder"] = written
    proofs = []
    for attempt in must_prevent(level):
        way = tried.get(attempt, WayTried(True, "not tried"))
        proofs.append(IsolationProof(f"{level.value}: {attempt}", not way.is_open, way.detail))
    opened_ways = [proof.attempt for proof in proofs if not proof.prevented]
    return proofs, not opened_ways, f"open: {', '.join(opened_ways)}"


def must_prevent(level: Isolation) -> tuple[str, ...]:
    """Attempts that a level must prevent on this kernel."""
    if level is Isolation.process:
        return _OWN
    if level is Isolation.namespaces:
        return (*_OWN, *_FILES, *_PROCESSES, *_NETWORK)
    version = landlock.abi()
    network = _NETWORK[:1] if version >= 4 else ()
    scoped = (*_NETWORK[1:], "signal the parent") if version >= 6 else ()
    return (*_OWN, *_FILES, "read the parent's environment", "trace the parent", *network, *scoped)


def _child_start(context: RunContext) -> ChildStart | None:
    """Time a child from asking for it until its device is open; the process that it is forked from runs by now."""
    begin = time.monotonic()
    try:
        with ChildSession("reference", context.limits, NO_MORE) as session:
            session.call(OpenDevice())
            ready_s = round(time.monotonic() - begin, 3)
            reason = None if session.forked else keeper.why_not()
            return ChildStart(session.forked, ready_s, keeper.started_s(session.gpu), reason)
    except ChildFailed:
        return None


def _gpu(request: DoctorRequest, context: RunContext) -> tuple[GpuFacts | None, str | None]:
    if not has_gpu():
        return None, None
    try:
        with ChildSession("probe", context.limits, NO_MORE, gpu=True) as session:
            context.isolation.append(session.isolation)
            measured = session.call(LookAtGpu(request.quick)).message
            lost = [level for level in Isolation if level not in session.isolation]
    except ChildFailed as failure:
        return None, failure.message
    if measured and lost:
        reasons = [f"{level.value} ({reason})" for level, reason in refusals(gpu=True).items() if level in lost]
        return measured, f"with the levels {', '.join(reasons)}; it runs without them"
    return measured, None if measured else "torch sees none"
