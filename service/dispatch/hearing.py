"""A person's words, heard: who gave them, what they may do, and what the repository says of itself."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace

from service.commands import Command
from service.dispatch.desk import Desk
from service.dispatch.payloads import Text
from service.github import ConflictError, GitHubClient, RepositoryInfo
from service.permissions import WRITING, Allowed, Refused, may_command, may_decide
from service.repo_config import LOGIN, PATH, RepoConfig, RepoConfigError, parse_repo_config
from service.report.layout import Links
from service.report.replies import reply_configuration
from workers.contracts import JobView


@dataclass(frozen=True)
class Hearing:
    """What every command is carried out with."""

    desk: Desk
    github: GitHubClient
    text: Text
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
        """Give what makes a command unique. An edit that replaces a line makes another command of it."""
        digest = hashlib.sha256(command.raw.encode("utf-8", "replace")).hexdigest()[:12]
        return f"{self.text.place.repository}#{self.text.source}:{command.line}:{digest}"

    def links(self, job: JobView) -> Links:
        """Give what a reply about a job points to."""
        return self.desk.addresses.links(job.job_id, self.text.place.repository, self.bot_login)


def is_person(desk: Desk, text: Text) -> bool:
    """Tell whether somebody wrote it who is to be heard at all; the bot and other bots are not."""
    answer = may_decide("admin", text.actor.login, text.actor.account_type, desk.clients.bot_login())
    return isinstance(answer, Allowed)


def hear(desk: Desk, github: GitHubClient, text: Text) -> Hearing:
    """Ask GitHub what is to be known before words are obeyed: the permission, and the default branch's configuration."""
    repository = github.repository.info()
    config, reply = _configuration(github, repository.default_branch)
    permission = github.repository.permission(text.actor.login)
    if config.teams and permission.lower() not in WRITING:
        config = _with_teams(github, config, text.actor.login)
    return Hearing(desk, github, text, repository, permission, config, reply, desk.clients.bot_login())


def _with_teams(github: GitHubClient, config: RepoConfig, login: str) -> RepoConfig:
    """Put a person who is in one of the teams that may give commands beside the logins."""
    known = LOGIN.fullmatch(login) is not None
    member = known and any(github.repository.in_team(login, *team) for team in config.teams)
    return replace(config, allow=(*config.allow, login)) if member else config


def _configuration(github: GitHubClient, branch: str) -> tuple[RepoConfig, str | None]:
    try:
        source = github.repository.text(PATH, branch)
        return (RepoConfig() if source is None else parse_repo_config(source)), None
    except RepoConfigError as error:
        return RepoConfig(), reply_configuration(error.line, error.message, error.cure)
    except ConflictError as error:
        return RepoConfig(), reply_configuration(
            None, str(error), "Make it a text file with the keys that the docs name."
        )
