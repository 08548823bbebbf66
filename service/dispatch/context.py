"""Who wrote something, what they may do, where a job starts, and the one reply."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

from service.commands.command import Command
from service.dispatch.desk import Desk
from service.dispatch.payloads import WrittenText
from service.github.client import GitHubClient
from service.github.errors import ConflictError
from service.github.records import RepositoryInfo
from service.permissions import WRITING, Allowed, Refused, may_command, may_decide
from service.repo_config import LOGIN, PATH, RepoConfig, RepoConfigError, parse_repo_config
from service.report.layout import NO_JOB, Links, Marker, MessageKind, find_marker, signed
from service.report.replies import reply_configuration
from workers.contracts import Decision, DecisionResult, JobState, JobView, LineComment

# GitHub gives times in whole seconds, and what its clock says is known to about one.
SLACK = timedelta(seconds=3)
YEARS = (1970, 9998)


@dataclass(frozen=True)
class GivenDecision:
    """A decision as it was given; ``at`` is ISO 8601, empty where it is not known."""

    key: str
    decision: Decision
    sha: str
    by: str
    at: str
    feedback: str = ""
    lines: tuple[LineComment, ...] = ()


def decide(desk: Desk, job: JobView, given: GivenDecision) -> DecisionResult:
    """Carry a decision to the checkpoint that waits, unless it was given before that stage had even begun."""
    # Two checkpoints may stand on one commit; an approval of the first that comes late is none of the second, and names no
    # commit of it. The store is asked all the same: it knows what was decided already, when a delivery is handled again.
    sha = "" if was_for_an_earlier_stage(desk, job, given.at) else given.sha
    return desk.inbox.decide(job.job_id, None, sha, given.decision, given.feedback, given.lines, given.by, given.key)


def was_for_an_earlier_stage(desk: Desk, job: JobView, given_at: str) -> bool:
    """Whether something was said before the stage began whose checkpoint waits now, both by GitHub's clock."""
    if job.state is not JobState.waiting or not job.stages or not given_at:
        return False
    began = moment(job.stages[-1].started_at)
    said = moment(given_at)
    if began is None or said is None:
        return False
    began = desk.at_github(began)
    # A stage that begins in the future was begun by a clock that has been put back since: that says nothing about when.
    return said + SLACK < began <= desk.clients.clock.now() + SLACK


def moment(text: str | None) -> datetime | None:
    """A time in ISO 8601, of UTC where it names no zone; None where it is none, or lies where nothing can be added to it."""
    try:
        read = datetime.fromisoformat(text) if text else None
    except ValueError:
        return None
    if read is None or not YEARS[0] <= read.year <= YEARS[1]:
        return None
    return read if read.tzinfo is not None else read.replace(tzinfo=UTC)


@dataclass(frozen=True)
class CommandContext:
    """What every command is carried out with."""

    desk: Desk
    github: GitHubClient
    text: WrittenText
    repository: RepositoryInfo
    permission: str
    config: RepoConfig
    config_reply: str | None  # why the configuration cannot be used
    bot_login: str

    def may_command(self) -> Allowed | Refused:
        """Decide whether the person may start and steer jobs."""
        actor = self.text.actor
        return may_command(self.permission, actor.login, actor.account_type, self.config, self.bot_login)

    def may_decide(self) -> Allowed | Refused:
        """Decide whether the person decides at checkpoints."""
        actor = self.text.actor
        return may_decide(self.permission, actor.login, actor.account_type, self.bot_login, self.config)

    def key(self, command: Command) -> str:
        """What makes a command unique. An edit that replaces a line makes another command of it."""
        digest = hashlib.sha256(command.raw.encode("utf-8", "replace")).hexdigest()[:12]
        return f"{self.text.place.repository}#{self.text.source}:{command.line}:{digest}"

    def links(self, job: JobView) -> Links:
        """What a reply about a job points to."""
        return self.desk.addresses.links(job.job_id, self.text.place.repository, self.bot_login)


def is_person(desk: Desk, text: WrittenText) -> bool:
    """Whether somebody wrote it who is to be heard at all; the bot and other bots are not."""
    answer = may_decide("admin", text.actor.login, text.actor.account_type, desk.clients.bot_login())
    return isinstance(answer, Allowed)


def context_of(desk: Desk, github: GitHubClient, text: WrittenText) -> CommandContext:
    """Ask GitHub what is to be known before words are obeyed: the permission, and the default branch's configuration."""
    repository = github.repository.info()
    config, reply = configuration(github, repository.default_branch)
    permission = github.repository.permission(text.actor.login)
    if config.teams and permission.lower() not in WRITING:
        config = _with_teams(github, config, text.actor.login)
    return CommandContext(desk, github, text, repository, permission, config, reply, desk.clients.bot_login())


def _with_teams(github: GitHubClient, config: RepoConfig, login: str) -> RepoConfig:
    """Put a person who is in one of the teams that may give commands beside the logins."""
    known = LOGIN.fullmatch(login) is not None
    member = known and any(github.repository.in_team(login, *team) for team in config.teams)
    return replace(config, allow=(*config.allow, login)) if member else config


def configuration(github: GitHubClient, branch: str) -> tuple[RepoConfig, str | None]:
    """A repository's configuration, and where it cannot be used the reply that says why."""
    try:
        source = github.repository.text(PATH, branch)
        return (RepoConfig() if source is None else parse_repo_config(source)), None
    except RepoConfigError as error:
        return RepoConfig(), reply_configuration(error.line, error.message, error.fix)
    except ConflictError as error:
        return RepoConfig(), reply_configuration(
            None, str(error), "Make it a text file with the keys that the docs name."
        )


def key_of(text: WrittenText) -> str:
    """What a reply is found by: what was written, in the form it had; an edit gets a reply of its own."""
    digest = hashlib.sha256(text.body.encode("utf-8", "replace")).hexdigest()[:12]
    return f"{text.source}.{digest}"


def reply_once(desk: Desk, github: GitHubClient, text: WrittenText, sentences: tuple[str, ...]) -> None:
    """Answer what a person wrote, unless it was answered before."""
    if not sentences:
        return
    key, number = key_of(text), text.place.number
    bot = desk.clients.bot_login()
    written = moment(text.given_at)
    for comment in github.conversation.comments(number, written and written - SLACK):
        if comment.author == bot and find_marker(comment.body) == Marker(NO_JOB, MessageKind.reply, key):
            return
    body = "\n\n---\n\n".join(sentence.strip() for sentence in sentences)
    github.conversation.comment(number, signed(body, NO_JOB, MessageKind.reply, key))
