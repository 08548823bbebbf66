"""The numbers of a repository's own kernels in what a job measured: those of the commit that it started from. Pure."""

from __future__ import annotations

from pathlib import PurePosixPath

from workers.contracts import JobRequest, MeasureSummary, ProfileSummary, StageName
from workers.nightly.series import CANDIDATE, ORIGINAL, Numbers, PointSource, points_of

STAGES: dict[StageName, type[MeasureSummary | ProfileSummary]] = {
    StageName.measure: MeasureSummary,
    StageName.profile: ProfileSummary,
}


def base_numbers(request: JobRequest, summary: MeasureSummary | ProfileSummary, measured_at: float) -> Numbers:
    """The base of a bench, or the existing kernel that was profiled; none of a pull request's own commits.

    What a candidate or a head measured belongs to no commit of the branch.
    """
    repository = request.origin.repository
    if isinstance(summary, MeasureSummary):
        for kernel in summary.kernels:
            if kernel.benchmark is not None:
                base = (repository, kernel.kernel, summary.base_sha, measured_at, ORIGINAL, PointSource.job)
                yield from points_of(kernel.benchmark, *base)
    elif not request.origin.is_pull and not request.read_only:
        name = PurePosixPath(summary.reading.path).stem
        yield from points_of(
            summary.benchmark, repository, name, request.base_sha, measured_at, CANDIDATE, PointSource.job
        )
