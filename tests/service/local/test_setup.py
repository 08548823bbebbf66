"""What `kernelsmith init` leaves in a checkout."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from service.cli.processes import BRANCH, LAYOUT_BRANCH, PATH
from service.local.asking import configured
from service.local.checkout import Checkout
from tests.architecture.test_command_lines import OPTIONS
from tests.recorded.libraries import PLAIN
from tests.service.local.checkouts import checked_out, git, run
from workers.contracts import JobOptions, UserFacingError

pytestmark = pytest.mark.usefixtures("environment")


def test_the_workflow_is_committed_to_a_branch_of_its_own(tmp_path: Path) -> None:
    library = checked_out(tmp_path / "library", PLAIN)
    head, files = git(library, "rev-parse", "HEAD"), git(library, "ls-files")
    wanted = ("--runner", "h200", "--runner", "lab.2", "--at", "4:05", "--budget", "30")
    done = run("init", "--nightly", "--local", "--repo", library, *wanted)
    assert done.exit_code == 0 and f"git push -u origin {BRANCH}" in done.stderr
    assert (git(library, "rev-parse", "HEAD"), git(library, "ls-files")) == (head, files)
    assert git(library, "diff", "--name-only", f"HEAD..{BRANCH}").split() == [PATH]
    text = git(library, "show", f"{BRANCH}:{PATH}")
    assert "@" not in re.sub(r"[\w/-]+@[0-9a-f]{40}", "", text)
    workflow = yaml.safe_load(text)
    assert workflow[True]["schedule"] == [{"cron": "5 4 * * *"}]
    assert workflow["permissions"] == {"contents": "read"}
    job = workflow["jobs"]["nightly"]
    assert (job["runs-on"], job["timeout-minutes"]) == (["self-hosted", "h200", "lab.2"], 90)
    assert all(re.fullmatch(r"[\w/-]+@[0-9a-f]{40}", step["uses"]) for step in job["steps"] if "uses" in step)
    for line in (line for step in job["steps"] for line in step.get("run", "").splitlines()):
        command = re.match(r"/opt/kernelsmith/bin/kernelsmith (\S+)(.*)", line)
        if command is not None:
            assert set(re.findall(r"--[a-z-]+", command[2])) <= OPTIONS[command[1]]


def test_the_same_command_again_changes_nothing(tmp_path: Path) -> None:
    library = checked_out(tmp_path / "library", PLAIN)
    run("init", "--nightly", "--local", "--repo", library)
    made = git(library, "rev-parse", BRANCH)
    assert run("init", "--nightly", "--local", "--repo", library).exit_code == 0
    assert git(library, "rev-parse", BRANCH) == made
    git(library, "merge", "-q", BRANCH)
    assert "already exists" in run("init", "--nightly", "--local", "--repo", library).stderr
    other = run("init", "--nightly", "--local", "--repo", library, "--budget", "7")
    assert other.exit_code == 0 and "--budget 7 " in git(library, "show", f"{BRANCH}:{PATH}")


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (("--at", "25:00"), "is no time of a day"),
        (("--runner", "gpu]\n  evil: [x"), "labels of letters"),
        (("--command", "kernelsmith; rm -rf"), "a path without spaces"),
    ],
)
def test_what_cannot_stand_in_a_workflow_is_refused(tmp_path: Path, given: tuple[str, ...], told: str) -> None:
    library = checked_out(tmp_path / "library", PLAIN)
    refused = run("init", "--nightly", "--local", "--repo", library, *given)
    assert refused.exit_code == 2 and told in refused.stderr
    assert git(library, "branch", "--list", BRANCH) == ""


def test_the_runtime_of_a_layout_is_committed_to_a_branch_as_the_formatter_of_the_library_has_it(
    tmp_path: Path,
) -> None:
    library = checked_out(tmp_path / "library", {"pyproject.toml": b"[tool.ruff]\nline-length = 100\n"})
    done = run("init", "--layout", "versioned", "--package", "lab", "--repo", library)
    assert done.exit_code == 0 and f"git push -u origin {LAYOUT_BRANCH}" in done.stderr
    written = git(library, "diff", "--name-only", f"HEAD..{LAYOUT_BRANCH}").split()
    assert {"src/lab/kernel/runtime.py", "src/lab/kernel/__main__.py", "scripts/clone-kernel.py"} <= set(written)
    made = git(library, "rev-parse", LAYOUT_BRANCH)
    assert run("init", "--layout", "versioned", "--package", "lab", "--repo", library).exit_code == 0
    assert git(library, "rev-parse", LAYOUT_BRANCH) == made
    git(library, "merge", "-q", LAYOUT_BRANCH)
    formatted = subprocess.run([sys.executable, "-m", "ruff", "format", "--check", "--no-cache", library], check=False)
    assert formatted.returncode == 0
    assert "already exists" in run("init", "--layout", "versioned", "--package", "lab", "--repo", library).stderr
    options = configured(Checkout(library), "HEAD", JobOptions())
    assert (options.layout, options.conventional_commits) == ("versioned", True)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ((), "Give --nightly or --layout versioned."),
        (("--layout", "liger"), "Give --nightly or --layout versioned."),
        (("--layout", "versioned"), "Name it with `--package`"),
        (("--layout", "versioned", "--package", "a-b"), "is no name of a package"),
    ],
)
def test_what_init_cannot_make_is_refused_and_leaves_no_branch(
    tmp_path: Path, given: tuple[str, ...], told: str
) -> None:
    library = checked_out(tmp_path / "library", {"README.md": b"hello"})
    refused = run("init", *given, "--repo", library)
    assert refused.exit_code == 2 and told in refused.stderr
    assert git(library, "branch", "--list", LAYOUT_BRANCH) == ""


def test_a_configuration_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    library = checked_out(tmp_path / "library", {".github/kernelsmith.toml": b"lay = 1\n"})
    with pytest.raises(UserFacingError) as caught:
        configured(Checkout(library), "HEAD", JobOptions())
    assert "unknown key `lay`" in caught.value.failure.message
    bare = checked_out(tmp_path / "bare", {"README.md": b"hello"})
    assert configured(Checkout(bare), "HEAD", JobOptions(layout="plain")) == JobOptions(layout="plain")
