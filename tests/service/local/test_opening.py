"""`kernelsmith init --nightly` opens its pull request, against a GitHub on this machine."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from deploy.localhub.hub import DEFAULT_PERMISSIONS, Hub
from deploy.localhub.server import HubServer
from deploy.localhub.state import Issue
from service.cli.processes import BRANCH, PATH
from service.local.opening import repository_at
from tests.done_once import keys
from tests.recorded.libraries import PLAIN
from tests.service.local.checkouts import checked_out, git, run

pytestmark = pytest.mark.usefixtures("environment")
REPOSITORY = "octo/kernels"


@pytest.fixture
def hub(tmp_path: Path) -> Hub:
    hub = Hub(tmp_path / "hub")
    hub.create_repository("octo", "kernels", files=PLAIN)
    hub.add_user("somebody")
    hub.add_collaborator(REPOSITORY, "somebody", "write")
    return hub


@pytest.fixture
def server(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> Iterator[HubServer]:
    with HubServer(hub) as server:
        monkeypatch.setenv("KERNELSMITH_API_URL", server.api_url)
        monkeypatch.setenv("KERNELSMITH_HTML_URL", server.url)
        monkeypatch.setenv("KERNELSMITH_TOKEN", hub.add_token("somebody"))
        yield server


def pulls(hub: Hub) -> list[Issue]:
    return [hub.issue(REPOSITORY, number) for number in sorted(hub.pull_numbers(REPOSITORY))]


def at(hub: Hub, branch: str, path: str) -> str | None:
    git = hub.world.git(hub.world.repository(REPOSITORY))
    content = git.file(branch, path) if git.resolve(branch) else None
    return None if content is None else content.decode()


def test_the_pull_request_is_opened_and_a_second_run_finds_it(hub: Hub, server: HubServer, tmp_path: Path) -> None:
    library = checked_out(tmp_path / "library", PLAIN)
    git(library, "remote", "add", "origin", f"{server.url}/{REPOSITORY}.git")
    opened = run("init", "--nightly", "--repo", library, "--runner", "h200")
    (pull,) = pulls(hub)
    assert opened.exit_code == 0 and f"is opened: {server.url}/{REPOSITORY}/pull/{pull.number}" in opened.stderr
    assert pull.pull is not None
    assert (pull.pull.head_ref, pull.pull.base_ref, pull.pull.draft) == (BRANCH, "main", False)
    assert "runs-on: [self-hosted, h200]" in (at(hub, BRANCH, PATH) or "")
    assert at(hub, "main", PATH) is None and git(library, "branch", "--list", BRANCH) == ""
    head = hub.world.git(hub.world.repository(REPOSITORY)).refs()[f"refs/heads/{BRANCH}"]
    again = run("init", "--nightly", "--repo", library, "--runner", "h200")
    assert again.exit_code == 0 and f"is open: {server.url}/{REPOSITORY}/pull/{pull.number}" in again.stderr
    assert hub.world.git(hub.world.repository(REPOSITORY)).refs()[f"refs/heads/{BRANCH}"] == head
    other = run("init", "--nightly", "--repo", library, "--budget", "7")
    assert other.exit_code == 0 and "is updated" in other.stderr and "--budget 7 " in (at(hub, BRANCH, PATH) or "")
    assert len(pulls(hub)) == 1


def test_a_run_that_was_cut_off_behind_the_branch_opens_the_pull_request(hub: Hub, server: HubServer) -> None:
    hub.faults.fail_next("create_pull", 502)
    cut = run("init", "--nightly", "--repository", REPOSITORY)
    assert cut.exit_code == 3 and pulls(hub) == [] and at(hub, BRANCH, PATH) is not None
    assert run("init", "--nightly", "--repository", REPOSITORY).exit_code == 0
    assert len(pulls(hub)) == 1


def test_what_was_merged_is_there_and_another_one_is_proposed_on_the_old_branch(hub: Hub, server: HubServer) -> None:
    run("init", "--nightly", "--repository", REPOSITORY)
    (pull,) = pulls(hub)
    hub.merge(REPOSITORY, pull.number, "somebody")
    there = run("init", "--nightly", "--repository", REPOSITORY)
    assert there.exit_code == 0 and "already exists" in there.stderr and len(pulls(hub)) == 1
    assert "is opened" in run("init", "--nightly", "--repository", REPOSITORY, "--budget", "7").stderr
    assert [one.state for one in pulls(hub)] == ["closed", "open"]


def test_a_dry_run_prints_the_file_and_asks_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KERNELSMITH_API_URL", "http://127.0.0.1:9")
    printed = run("init", "--nightly", "--dry-run", "--at", "4:05")
    assert printed.exit_code == 0 and '- cron: "5 4 * * *"' in printed.stdout


def test_without_credentials_or_a_repository_it_is_refused(
    server: HubServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    library = checked_out(tmp_path / "library", PLAIN)
    git(library, "remote", "add", "origin", "https://elsewhere.invalid/octo/kernels")
    nowhere = run("init", "--nightly", "--repo", library)
    assert nowhere.exit_code == 2 and "Give --repository owner/name, or --local" in nowhere.stderr
    unknown = run("init", "--nightly", "--repository", "octo/none")
    assert unknown.exit_code == 2 and "octo/none is not there" in unknown.stderr
    monkeypatch.setenv("KERNELSMITH_TOKEN", "ghp_revoked")
    revoked = run("init", "--nightly", "--repository", REPOSITORY)
    assert revoked.exit_code == 2 and "does not know these credentials" in revoked.stderr
    monkeypatch.delenv("KERNELSMITH_TOKEN")
    without = run("init", "--nightly", "--repository", REPOSITORY)
    assert (
        without.exit_code == 2 and "KERNELSMITH_TOKEN (a plain token)" in without.stderr and "--local" in without.stderr
    )


@pytest.mark.parametrize(("login", "scopes"), [("somebody", ("repo",)), ("reader", ("repo", "workflow"))])
def test_a_token_that_may_not_write_workflows_is_told_what_it_lacks(
    hub: Hub, server: HubServer, monkeypatch: pytest.MonkeyPatch, login: str, scopes: tuple[str, ...]
) -> None:
    hub.add_user("reader")
    hub.add_collaborator(REPOSITORY, "reader", "read")
    monkeypatch.setenv("KERNELSMITH_TOKEN", hub.add_token(login, scopes=scopes))
    refused = run("init", "--nightly", "--repository", REPOSITORY)
    assert refused.exit_code == 2 and "the scopes `repo` and `workflow`" in refused.stderr
    assert pulls(hub) == [] and at(hub, BRANCH, PATH) is None


@pytest.mark.parametrize("granted", [True, False])
def test_an_app_needs_the_permission_for_workflows(
    hub: Hub, server: HubServer, monkeypatch: pytest.MonkeyPatch, granted: bool
) -> None:
    private, public = keys()
    permissions = dict(DEFAULT_PERMISSIONS) | ({"workflows": "write"} if granted else {})
    app = hub.add_app("smith", "octo", public, permissions=permissions)
    hub.install(app, "octo")
    monkeypatch.delenv("KERNELSMITH_TOKEN")
    monkeypatch.setenv("KERNELSMITH_APP_ID", str(app.id))
    monkeypatch.setenv("KERNELSMITH_PRIVATE_KEY", private)
    done = run("init", "--nightly", "--repository", REPOSITORY)
    assert (done.exit_code, len(pulls(hub))) == ((0, 1) if granted else (2, 0))
    assert granted or "Pull requests and Workflows, which the owner has to accept" in done.stderr


@pytest.mark.parametrize(
    ("remote", "name"),
    [
        ("https://github.com/octo/kernels", "octo/kernels"),
        ("https://token@github.com/octo/kernels.git", "octo/kernels"),
        ("git@github.com:octo/kernels.git", "octo/kernels"),
        ("ssh://git@github.com/octo/ker.nels/", "octo/ker.nels"),
        ("https://github.com.evil.invalid/octo/kernels", None),
        ("/srv/git/kernels.git", None),
        ("", None),
    ],
)
def test_where_a_checkout_comes_from(remote: str, name: str | None) -> None:
    assert repository_at(remote, "https://github.com") == name
