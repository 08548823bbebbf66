"""The door of the runner: what is asked of it and what it answers, importable with the standard library alone."""

from gpu_runner.contracts.benchmark import BenchmarkRequest, BenchmarkResult, Pass, Timing, Word, WorkloadTiming
from gpu_runner.contracts.doctor import DoctorRequest, HostReport, IsolationProof
from gpu_runner.contracts.envelope import (
    SCHEMA_VERSION,
    Action,
    GpuRequest,
    GpuResult,
    Isolation,
    Limits,
    RunnerError,
    from_json,
    to_json,
)
from gpu_runner.contracts.graph import CaptureRequest, CaptureResult, Expr, Graph, Node, NodeRef, TensorMeta
from gpu_runner.contracts.problem import (
    InputSpec,
    KernelNames,
    Problem,
    ProblemError,
    ScalarSpec,
    Workload,
    parse_problem,
)
from gpu_runner.contracts.status import Status
from gpu_runner.contracts.suite import CaseOutcome, TestCase, TestsRequest, TestsResult
from gpu_runner.contracts.verify import CandidateSource, Check, Evidence, SourceFile, Verdict, VerifyRequest

__all__ = [
    "SCHEMA_VERSION",
    "Action",
    "BenchmarkRequest",
    "BenchmarkResult",
    "CandidateSource",
    "CaptureRequest",
    "CaptureResult",
    "CaseOutcome",
    "Check",
    "DoctorRequest",
    "Evidence",
    "Expr",
    "GpuRequest",
    "GpuResult",
    "Graph",
    "HostReport",
    "InputSpec",
    "Isolation",
    "IsolationProof",
    "KernelNames",
    "Limits",
    "Node",
    "NodeRef",
    "Pass",
    "Problem",
    "ProblemError",
    "RunnerError",
    "ScalarSpec",
    "SourceFile",
    "Status",
    "TensorMeta",
    "TestCase",
    "TestsRequest",
    "TestsResult",
    "Timing",
    "Verdict",
    "VerifyRequest",
    "Word",
    "Workload",
    "WorkloadTiming",
    "from_json",
    "parse_problem",
    "to_json",
]
