"""Where numbers come from, as facts. Pure."""

from __future__ import annotations

import shlex
from dataclasses import replace

from gpu_runner.contracts import BenchmarkResult
from workers.contracts import AuthorName, JobOptions, JobRequest, ProblemKind, Verb, format_scope

DEFAULTS = JobOptions()


def provenance(request: JobRequest, measured: BenchmarkResult) -> tuple[tuple[str, str], ...]:
    """GPU, versions and commit of a report, in order."""
    where = "predicted for" if measured.predicted else "GPU"
    rows = [(where, measured.gpu or "unknown")]
    if measured.bandwidth_gbps is not None:
        kind = "expected copy bandwidth" if measured.predicted else "measured copy bandwidth"
        rows.append((kind, f"{measured.bandwidth_gbps:.0f} GB/s"))
    # Which one of a pool of GPUs it was tells a reader nothing; series of numbers are kept apart by it.
    rows += [fact for fact in measured.host if fact[0] not in ("gpu", "gpu_uuid")]
    rows.append(("base commit", request.base_sha[:12]))
    return tuple(rows)


def reproduce(name: str, *, asks: bool = False, profiles: bool = False, to: str | None = None) -> str:
    """The one command that repeats the job, and its measurement, on a checkout of the base commit.

    With ``asks`` a model is asked again, which may write another kernel.
    """
    words = ["kernelsmith", "create", "problem.py", "--name", name, "--repo", ".", "--auto"]
    words += ["--to", to] if to is not None else []
    return shlex.join([*words, *(["--author", "llm"] if asks else []), *(["--profile"] if profiles else [])])


def reproduce_optimize(request: JobRequest) -> str:
    """The one command that repeats an optimize job on a checkout of the base commit."""
    options = request.options
    if request.verb is Verb.tune:  # the sweep is what optimize tries first
        options = replace(options, variants=1, author=AuthorName.compiler)
    words = ["kernelsmith", "optimize", request.kernel, "--repo", ".", "--auto"]
    words += [
        "--goal",
        options.goal.value,
        "--scope",
        format_scope(options.scope, options.regime),
        "--variants",
        str(options.variants),
    ]
    words += ["--target", options.target] if options.target else []
    words += [] if options.author is AuthorName.auto else ["--author", options.author.value]
    return shlex.join([*words, *_search(options, "repairs")])


def reproduce_modify(request: JobRequest) -> str:
    """The one command that asks for the same change on a checkout of the base commit, with the words in a file."""
    words = ["kernelsmith", "modify", request.kernel, "--repo", ".", "--request", "request.txt", "--auto"]
    # With a problem of a person's own in a file beside the words.
    words += ["--problem", "problem.py"] if request.problem.kind is ProblemKind.block else []
    words += ["--profile"] if request.options.profile else []
    return shlex.join([*words, *_search(request.options, "candidates", "repairs")])


def _search(options: JobOptions, *names: str) -> list[str]:
    """Those of a search's options that are not the defaults."""
    given = ((name, getattr(options, name)) for name in names)
    return [word for name, value in given if value != getattr(DEFAULTS, name) for word in (f"--{name}", str(value))]


def reproduce_bench(request: JobRequest) -> str:
    """The one command that repeats a comparison on a checkout of the head commit."""
    return shlex.join(["kernelsmith", "compare", *request.kernels, "--repo", ".", "--against", request.base_sha[:12]])
