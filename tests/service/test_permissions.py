"""Who is obeyed."""

from __future__ import annotations

import pytest

from service.permissions import Allowed, RefusalReason, Refused, may_command, may_decide
from service.repo_config import RepoConfig

BOT = "kernelsmith[bot]"
LISTED = RepoConfig(allow=("Helpful-User",))


@pytest.mark.parametrize("permission", ["write", "maintain", "admin", "ADMIN"])
def test_write_permission_gives_commands_and_decides(permission: str) -> None:
    assert may_command(permission, "octocat", "User", RepoConfig(), BOT) == Allowed()
    assert may_decide(permission, "octocat", "User", BOT) == Allowed()


@pytest.mark.parametrize("permission", ["read", "triage", "none", "", "writer", "custom-role"])
def test_less_than_write_is_refused_and_told(permission: str) -> None:
    refused = Refused(RefusalReason.permission, silent=False)
    assert may_command(permission, "octocat", "User", RepoConfig(), BOT) == refused
    assert may_decide(permission, "octocat", "User", BOT) == refused


def test_a_listed_login_gives_commands_and_does_not_decide() -> None:
    assert may_command("read", "helpful-user", "User", LISTED, BOT) == Allowed()
    assert may_decide("read", "helpful-user", "User", BOT) == Refused(RefusalReason.permission, silent=False)


@pytest.mark.parametrize("kind", ["Bot", "Organization", "Mannequin", "", "user"])
def test_what_is_no_person_is_never_obeyed_and_never_answered(kind: str) -> None:
    config = RepoConfig(allow=("dependabot",))
    assert may_command("admin", "dependabot", kind, config, BOT) == Refused(RefusalReason.not_a_person, silent=True)


def test_a_bots_login_is_no_person_whatever_its_type_says() -> None:
    assert may_command("admin", "other[bot]", "User", RepoConfig(), BOT) == Refused(
        RefusalReason.not_a_person, silent=True
    )


@pytest.mark.parametrize("login", ["kernelsmith[bot]", "Kernelsmith[bot]", "kernelsmith", ""])
def test_the_bot_never_obeys_itself(login: str) -> None:
    config = RepoConfig(allow=("kernelsmith",))
    for kind in ("Bot", "User"):
        assert may_command("admin", login, kind, config, BOT) == Refused(RefusalReason.own, silent=True)
        assert may_decide("admin", login, kind, "kernelsmith") == Refused(RefusalReason.own, silent=True)


@pytest.mark.parametrize("login", ["octocat", "OctoCat"])
def test_who_is_banned_is_neither_heard_nor_answered_whatever_permission_they_have(login: str) -> None:
    banned = RepoConfig(ban=("octocat",), allow=("octocat",))
    refused = Refused(RefusalReason.banned, silent=True)
    assert may_command("admin", login, "User", banned, "smith[bot]") == refused
    assert may_decide("admin", login, "User", "smith[bot]", banned) == refused
    assert may_decide("admin", "other", "User", "smith[bot]", banned) == Allowed()


def test_allow_lets_nobody_decide() -> None:
    assert may_decide("read", "octocat", "User", "smith[bot]", RepoConfig(allow=("octocat",))) == Refused(
        RefusalReason.permission, silent=False
    )
