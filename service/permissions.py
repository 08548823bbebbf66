"""Who may give a command, and who decides at a checkpoint. Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum

from service.repo_config import RepoConfig
from workers.contracts import Verb

# Source: https://docs.github.com/en/rest/collaborators/collaborators#get-repository-permissions-for-a-user, ``permission`` and
# ``role_name``; a custom role shows up in ``permission`` as the one that it was made from.
WRITING = frozenset({"write", "maintain", "admin"})
NOTHING_SET = RepoConfig()
DECIDING = frozenset({Verb.approve, Verb.revise, Verb.triaged})


class RefusalReason(StrEnum):
    """Why a command is not obeyed."""

    own = "own"  # the bot's own words
    not_a_person = "not_a_person"
    permission = "permission"
    banned = "banned"


@dataclass(frozen=True)
class Allowed:
    """The command is obeyed."""


@dataclass(frozen=True)
class Refused:
    """The command is not obeyed; where ``silent``, nothing is said of it either, so that two bots never talk to each other."""

    reason: RefusalReason
    silent: bool


def may_command(
    permission: str, login: str, account_type: str, config: RepoConfig, bot_login: str
) -> Allowed | Refused:
    """Decide whether a person may start and steer jobs: with write permission, or by the configuration's ``allow``."""
    refused = _not_a_person(login, account_type, bot_login)
    if refused is not None:
        return refused
    if login.lower() in {name.lower() for name in config.ban}:
        # Who is banned because of what they write is not answered either.
        return Refused(RefusalReason.banned, silent=True)
    if permission.lower() in WRITING or login.lower() in {name.lower() for name in config.allow}:
        return Allowed()
    return Refused(RefusalReason.permission, silent=False)


def may_decide(
    permission: str, login: str, account_type: str, bot_login: str, config: RepoConfig = NOTHING_SET
) -> Allowed | Refused:
    """Decide whether a person's review counts at a checkpoint: with write permission only, and where nobody banned them."""
    return may_command(permission, login, account_type, replace(config, allow=()), bot_login)


def _not_a_person(login: str, account_type: str, bot_login: str) -> Refused | None:
    if not login or _bare(login) == _bare(bot_login):
        return Refused(RefusalReason.own, silent=True)
    # A GitHub App's account is of type Bot; a Mannequin stands for someone who was imported and cannot be asked.
    if account_type != "User" or login.lower().endswith("[bot]"):
        return Refused(RefusalReason.not_a_person, silent=True)
    return None


def _bare(login: str) -> str:
    return login.lower().removesuffix("[bot]")
