"""Nights that start by themselves, at the time that a repository's configuration names."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime, time, timedelta

import structlog

from gpu_runner.contracts import from_json
from service.commands.command import GivenOptions
from service.dispatch.context import configuration
from service.dispatch.desk import Desk
from service.github.clients import Installed
from service.github.errors import GitHubError, TransientError
from service.repo_config import RepoConfig, job_options
from workers import artifacts, history
from workers.contracts import JobRequest, JobState, JobView, NightlySummary, Origin, ProblemKind, ProblemText, Verb

LATE = timedelta(hours=6)  # after its time a night is begun no more, such as after an outage

log = structlog.get_logger(__name__)


@dataclass
class Nights:
    """Starts a job for each night that is due: once a day and architecture, whichever process looks first."""

    desk: Desk
    repositories: Callable[[], tuple[tuple[str, int | None], ...]]  # with the App's installation, where it is known
    clock: Callable[[], datetime]  # GitHub's
    installed: Callable[[], Iterable[Installed]] = tuple  # of these, those count whose configuration asks for nights
    _done: set[str] = field(default_factory=set)
    _without: dict[str, str] = field(default_factory=dict)  # installed ones that ask for none, with their state then

    def step(self) -> bool:
        """Look once; there is never more to do at once."""
        watched = self.repositories()
        for repository, installation_id in watched:
            self._try(repository, installation_id)
        known = {repository.lower() for repository, _ in watched}
        try:
            for one in self.installed():
                is_new = one.full_name.lower() not in known and self._without.get(one.full_name) != one.state
                if is_new and not self._try(one.full_name, one.installation_id):
                    self._without[one.full_name] = one.state
        except GitHubError as error:
            log.warning("repositories_not_listed", error=str(error))
        return False

    def _try(self, repository: str, installation_id: int | None) -> bool:
        """Whether it asks for nights, as far as GitHub says; one that it refuses to show asks for none."""
        try:
            return self._look(repository, installation_id)
        except GitHubError as error:
            log.warning("night_not_started", repository=repository, error=str(error))
            return isinstance(error, TransientError)

    def _look(self, repository: str, installation_id: int | None) -> bool:
        """Begin the nights that are due, and tell whether the configuration names a time for any."""
        github = self.desk.client(repository, installation_id)
        info = github.repository.info()
        if info.full_name != repository:  # GitHub answers for an old name too
            renamed(repository, info.full_name)
            repository = info.full_name
        config, wrong = configuration(github, info.default_branch)
        nightly, day = config.nightly, due(config, self.clock())
        if wrong is not None or nightly.at is None or nightly.issue is None:
            return False
        if day is None:
            return True
        wanted = {_key(repository, day, gpu): gpu for gpu in nightly.gpus or (config.gpu,)}
        wanted = {key: gpu for key, gpu in wanted.items() if key not in self._done}
        if not wanted:
            return True
        branch = config.base_branch or info.default_branch
        head = github.git.head(branch)
        if head is None:
            log.warning("night_not_started", repository=repository, error=f"there is no branch {branch!r}")
        nights = [job for job in self.desk.inbox.find_jobs(repository) if job.request.verb is Verb.nightly]
        untold = self.desk.inbox.has_untold(repository)
        for key, gpu in wanted.items():
            if head is not None and not _is_known(key, gpu, head, nights, untold):
                origin = Origin(
                    repository, nightly.issue, self.desk.clients.bot_login(), installation_id=installation_id
                )
                self.desk.inbox.submit(
                    JobRequest(
                        key=key,
                        verb=Verb.nightly,
                        kernel="nightly",
                        origin=origin,
                        base_ref=branch,
                        base_sha=head,
                        snapshot=self.desk.snapshot(github, head),
                        problem=ProblemText(ProblemKind.missing),
                        options=job_options(GivenOptions(gpu=gpu), config),
                    )
                )
            self._done.add(key)
        return True


def renamed(repository: str, name: str) -> None:
    """Have the numbers of a repository that is called otherwise now go on under its name."""
    count = history.rename(repository, name)
    if count:
        log.info("repository_renamed", repository=repository, name=name, series=count)


def due(config: RepoConfig, now: datetime) -> str | None:
    """The day, in UTC, whose night is to be begun now; None where none is."""
    if config.nightly.at is None:
        return None
    begin = datetime.combine(now.date(), time.fromisoformat(config.nightly.at), UTC)
    begin = begin if begin <= now else begin - timedelta(days=1)
    return begin.date().isoformat() if now - begin <= LATE else None


def _key(repository: str, day: str, gpu: str | None) -> str:
    return f"{repository}#night:{day}:{gpu or 'any'}"


def _is_known(key: str, gpu: str | None, head: str, nights: list[JobView], untold: bool) -> bool:
    """Whether it was begun, one is under way there, or the last one measured and told all of this very commit."""
    same = [job for job in nights if job.request.options.gpu == gpu]
    under_way = any(job.state in (JobState.queued, JobState.running) for job in same)
    measured = not untold and bool(same) and same[-1].request.base_sha == head and _is_whole(same[-1])
    return under_way or measured or any(job.request.key == key for job in nights)


def _is_whole(night: JobView) -> bool:
    """Whether it is done, and its budget left no kernel for the next night."""
    report = artifacts.report_of(night)
    return report is not None and not from_json(NightlySummary, report).left
