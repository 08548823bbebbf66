"""The commit that made a kernel worse, on GitHub: the pull request that brought it, and a check on that."""

from __future__ import annotations

from dataclasses import dataclass

import structlog

from service.github.client import CheckText
from service.github.errors import GitHubError, TransientError
from service.publisher.publication import Publication
from service.report.nightly import culprit_check
from service.report.verdicts import Conclusion
from workers.contracts import BisectSummary, NightChange, RegressionUpdate, regression_key

log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class CulpritCommit:
    """A commit that made a kernel worse."""

    kernel: str
    gpu: str
    sha: str
    ratio: float | None  # new over old
    wrong: bool = False  # in its values


def of_regression(publication: Publication, update: RegressionUpdate) -> tuple[tuple[CulpritCommit, str], ...]:
    """The commits that are known to have made the kernel worse, each with its title: those alone between their two nights."""
    culprits: dict[str, tuple[CulpritCommit, str]] = {}
    confirmed = [change for change in update.changes if change.state == "confirmed"]
    for change in sorted(confirmed, key=_grown, reverse=True):
        line = publication.github.git.line(change.good, change.bad) if change.bad not in culprits else ()
        if len(line) == 2:
            wrong = change.metric == "wrong_values"
            culprit = CulpritCommit(update.kernel, update.gpu, change.bad, _grown(change) or None, wrong)
            culprits[change.bad] = (culprit, (line[1].message.splitlines() or [""])[0])
    return tuple(culprits.values())


def of_bisection(summary: BisectSummary) -> tuple[CulpritCommit, ...]:
    """The commits that a bisection pinned the change to."""
    single = [one.commits[0] for one in summary.suspects if len(one.commits) == 1]
    # What grew over the whole range is a commit's own doing only where it is the only one.
    ratio = summary.ratio if len(summary.suspects) == 1 else None
    return tuple(CulpritCommit(summary.kernel, summary.gpu, sha, ratio, summary.by_values) for sha in single)


def mark(publication: Publication, culprits: tuple[CulpritCommit, ...]) -> dict[str, int]:
    """Put a check on the pull request that brought each commit; gives their numbers by commit, of those that have one."""
    numbers: dict[str, int] = {}
    for culprit in culprits:
        try:
            for pull in publication.github.pulls.of_commit(culprit.sha):
                numbers.setdefault(culprit.sha, pull.number)
                _check(publication, culprit, pull.head_sha)
        except TransientError:
            raise
        except GitHubError as error:
            # Only a GitHub App can make check runs, and a commit may have left the repository; the issue names it all the same.
            log.warning("culprit_not_marked", commit=culprit.sha, error=str(error))
    return numbers


def _check(publication: Publication, culprit: CulpritCommit, head_sha: str) -> None:
    checks = publication.github.checks
    key = f"culprit:{regression_key(culprit.kernel, culprit.gpu)}:{culprit.sha[:12]}"
    if checks.find(head_sha, key) is not None:
        return
    title, summary = culprit_check(culprit.kernel, culprit.gpu, culprit.sha, culprit.ratio, culprit.wrong)
    url = publication.addresses.job(publication.job.job_id)
    text = CheckText(title, summary, Conclusion.neutral.value, url)
    checks.create(f"kernelsmith / {culprit.kernel} regression", head_sha, key, text)


def _grown(change: NightChange) -> float:
    return 0.0 if change.metric == "wrong_values" else change.ratio
