"""Where numbers come from, as facts. Pure."""

from __future__ import annotations

from gpu_runner.contracts import BenchmarkResult
from workers.contracts import JobRequest


def provenance(request: JobRequest, measured: BenchmarkResult) -> tuple[tuple[str, str], ...]:
    """Give GPU, versions and commit of a report, in the order in which they are told."""
    where = "predicted for" if measured.predicted else "GPU"
    rows = [(where, measured.gpu or "unknown")]
    if measured.bandwidth_gbps is not None:
        kind = "expected copy bandwidth" if measured.predicted else "measured copy bandwidth"
        rows.append((kind, f"{measured.bandwidth_gbps:.0f} GB/s"))
    rows += list(measured.host)
    rows.append(("base commit", request.base_sha[:12]))
    return tuple(rows)


def reproduce(name: str) -> str:
    """Give the one command that repeats the job, and its measurement, on a checkout of the base commit."""
    return f"kernelsmith create problem.py --name {name} --repo . --auto"
