"""A door: one action on this machine, without a job: capture, compile, verify, bench, profile, tune, doctor."""

from __future__ import annotations

import shutil
import sys
import tempfile
import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from gpu_runner.contracts import (
    Action,
    BenchmarkRequest,
    BenchmarkResult,
    CandidateSource,
    CaptureRequest,
    CaptureResult,
    DoctorRequest,
    GpuRequest,
    GpuResult,
    HostReport,
    Problem,
    ProfileRequest,
    ProfileResult,
    SourceFile,
    Verdict,
    VerifyRequest,
    from_json,
    to_json,
)
from workers.authors.kernelbench import model_new
from workers.authors.protocol import Brief, KernelPlan, Refusal, SourceStyle
from workers.authors.table import author_named
from workers.contracts import AuthorName, Failure, FailureCode, UserFacingError
from workers.gpu_host.architecture import INTERPRETER, detect
from workers.gpu_host.execute import Host, execute
from workers.settings import Settings
from workers.stages.problem_text import parse
from workers.store.blobs import BlobStore

__all__ = ["Answer", "Compiled", "benchmark", "compile_problem", "doctor", "profile", "verify"]


@dataclass(frozen=True)
class Compiled:
    """What the compiler author wrote for a problem, or the one sentence with which it refuses."""

    source: str | None
    plan: KernelPlan | None
    refusal: str | None


@dataclass(frozen=True)
class Answer:
    """A runner's result with what is known of the host."""

    result: GpuResult

    def verdict(self) -> Verdict:
        """Give the verdict.

        Raises:
            UserFacingError: the environment is at fault.
        """
        return from_json(Verdict, self._payload())

    def benchmark(self) -> BenchmarkResult:
        """Give the measurement.

        Raises:
            UserFacingError: the environment is at fault.
        """
        return from_json(BenchmarkResult, self._payload())

    def host(self) -> HostReport:
        """Give the host's report.

        Raises:
            UserFacingError: the environment is at fault.
        """
        return from_json(HostReport, self._payload())

    def profile(self) -> ProfileResult:
        """Give the profile.

        Raises:
            UserFacingError: the environment is at fault.
        """
        return from_json(ProfileResult, self._payload())

    def captured(self) -> CaptureResult:
        """Give the captured graph.

        Raises:
            UserFacingError: the environment is at fault.
        """
        return from_json(CaptureResult, self._payload())

    def _payload(self) -> dict[str, object]:
        if self.result.payload is None:
            message = f"the runner could not {self.result.action.value}: {self.result.error}"
            raise UserFacingError(Failure(FailureCode.environment, message, "Run `kernelsmith doctor`."))
        return self.result.payload


def compile_problem(source: str, name: str) -> Compiled:
    """Have the compiler author write a kernel for a problem, as one self-contained file that defines ``candidate``, and
    ``ModelNew`` where the problem is in the KernelBench form.

    Raises:
        UserFacingError: the problem cannot be used, or the environment is at fault.
    """
    problem = parse(source)
    captured = _run(Action.capture, CaptureRequest(source)).captured()
    if captured.error is not None or captured.graph is None:
        message = f"the problem does not run: {captured.error}"
        raise UserFacingError(Failure(FailureCode.problem, message, captured.cure, captured.line))
    rewritten = parse(captured.problem_source) if captured.problem_source else None
    style = SourceStyle(f"{_camel(name)}Function", f"{name}_forward", f"{name}_backward", entry="candidate")
    answer = author_named(AuthorName.compiler).propose(Brief(name, rewritten or problem, captured.graph, style))
    if isinstance(answer, Refusal):
        return Compiled(None, None, answer.sentence)
    tail = model_new(rewritten) if problem.form == "kernelbench" and rewritten is not None else ""
    return Compiled(answer.source + tail, answer.plan, None)


def verify(problem_source: str, candidate_source: str) -> Answer:
    """Have one candidate file judged on this machine."""
    problem = parse(problem_source)
    return _run(Action.verify, VerifyRequest(problem_source, _candidate(problem, candidate_source)))


def benchmark(problem_source: str, candidate_source: str, budget_s: float, dtype: str) -> Answer:
    """Have one candidate file measured on this machine, beside eager and ``torch.compile``."""
    candidate = _candidate(parse(problem_source), candidate_source)
    return _run(Action.benchmark, BenchmarkRequest(problem_source, candidate, dtype=dtype, budget_s=budget_s))


def profile(problem_source: str, candidate_source: str, gpu: str | None) -> Answer:
    """Have one candidate file profiled: by the roofline of this machine's GPU or of the named one, and by counters where it can."""
    candidate = _candidate(parse(problem_source), candidate_source)
    return _run(Action.profile, ProfileRequest(problem_source, candidate, gpu=gpu))


def doctor(quick: bool) -> Answer:
    """Ask this machine what it can do, and which isolation holds on it."""
    return _run(Action.doctor, DoctorRequest(quick))


def _candidate(problem: Problem, source: str) -> CandidateSource:
    symbol = "ModelNew" if problem.form == "kernelbench" else "candidate"
    return CandidateSource((SourceFile("candidate.py", source),), "candidate", symbol)


def _run(action: Action, payload: object) -> Answer:
    settings = Settings()
    architecture = settings.architecture or detect()
    host = Host("this machine", (sys.executable, "-m", "gpu_runner"), interpret=architecture == INTERPRETER)
    request = GpuRequest(uuid.uuid4().hex, action, to_json(payload), require=settings.require_isolation)
    with _scratch() as folder:
        return Answer(execute(host, request, {}, BlobStore(str(folder)), threading.Event()))


@contextmanager
def _scratch() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="kernelsmith-"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _camel(name: str) -> str:
    return "".join(part.capitalize() for part in name.split("_"))
