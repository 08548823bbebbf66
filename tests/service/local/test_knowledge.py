"""`kernelsmith knowledge` proposes what jobs measured, against a GitHub on this machine."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from deploy.localhub.hub import Hub
from deploy.localhub.server import HubServer
from service.cli.processes import PAGES_BRANCH
from tests.service.local.checkouts import checked_out, git, run
from tests.workers.strategies.test_measured import FAILED, HINTS, PAGES, trials
from workers.embedded import close, configure
from workers.runtime import current
from workers.store import gains

pytestmark = pytest.mark.usefixtures("environment")
REPOSITORY = "octo/kernelsmith"
FILES = {path: text.encode() for path, text in PAGES.items()}


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A checkout of the pages; the installation's database is empty."""
    monkeypatch.setenv("KERNELSMITH_DATA_DIR", str(tmp_path / "state"))
    return checked_out(tmp_path / "kernelsmith", FILES)


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    hub = Hub(tmp_path / "hub")
    hub.create_repository("octo", "kernelsmith", files=FILES)
    hub.add_user("somebody")
    hub.add_collaborator(REPOSITORY, "somebody", "write")
    with HubServer(hub) as server:
        monkeypatch.setenv("KERNELSMITH_API_URL", server.api_url)
        monkeypatch.setenv("KERNELSMITH_HTML_URL", server.url)
        monkeypatch.setenv("KERNELSMITH_TOKEN", hub.add_token("somebody"))
        yield hub


def jobs_measured(folder: Path, job: str, gain: float) -> None:
    """Have a job have left its trials in the installation's database."""
    configure(folder.parent / "state")
    with current().database.write() as session:
        gains.add(session, job, {f"v{n}": trial for n, trial in enumerate(trials(gain))})
    close()


def test_the_pull_request_is_opened_updated_by_what_is_measured_later_and_not_opened_twice(
    checkout: Path, hub: Hub
) -> None:
    jobs_measured(checkout, "one", 1.2)
    opened = run("knowledge", "--repo", checkout, "--repository", REPOSITORY)
    (number,) = hub.pull_numbers(REPOSITORY)
    assert opened.exit_code == 0 and "The pull request is opened: " in opened.stderr
    assert "1.20 times as fast" in hub.issue(REPOSITORY, number).body
    there = (hub.read_file(REPOSITORY, PAGES_BRANCH, HINTS) or b"").decode()
    assert "- Jobs on sm_90 tried it 12 times on 4 kernels: 1.20 times as fast" in there
    assert hub.read_file(REPOSITORY, "main", HINTS) == FILES[HINTS]
    assert "is open: " in run("knowledge", "--repo", checkout, "--repository", REPOSITORY).stderr
    jobs_measured(checkout, "two", 1.1)
    assert "is updated: " in run("knowledge", "--repo", checkout, "--repository", REPOSITORY).stderr
    assert list(hub.pull_numbers(REPOSITORY)) == [number]
    assert git(checkout, "status", "--porcelain") == "" and git(checkout, "branch", "--list", PAGES_BRANCH) == ""


def test_without_enough_trials_nothing_is_proposed(checkout: Path, hub: Hub) -> None:
    told = run("knowledge", "--repo", checkout, "--repository", REPOSITORY)
    assert told.exit_code == 0 and "No page changes: a line needs 8 trials of a strategy on 3 kernels" in told.stderr
    assert list(hub.pull_numbers(REPOSITORY)) == []


def test_it_is_committed_to_a_branch_or_only_said(checkout: Path) -> None:
    jobs_measured(checkout, "one", 0.9)
    said = run("knowledge", "--repo", checkout, "--dry-run")
    assert said.exit_code == 0 and f"`{HINTS}`" in said.stderr and "0.90 times as fast" in said.stderr
    assert git(checkout, "branch", "--list", PAGES_BRANCH) == ""
    assert run("knowledge", "--repo", checkout, "--local").exit_code == 0
    assert git(checkout, "diff", "--name-only", "main", PAGES_BRANCH).splitlines() == [FAILED, HINTS]
    assert "already exists" not in run("knowledge", "--repo", checkout, "--local").stderr


def test_a_checkout_of_something_else_is_refused(tmp_path: Path, checkout: Path) -> None:
    other = checked_out(tmp_path / "other", {"README.md": b"# Another\n"})
    refused = run("knowledge", "--repo", other)
    assert refused.exit_code == 2 and "Give a checkout of Kernelsmith with --repo" in refused.stderr
