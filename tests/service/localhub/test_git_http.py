"""Clone, fetch and push with the real git over HTTP."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.service.localhub.conftest import FILES, Place


def git(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(folder),
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_AUTHOR_NAME": "Alice",
        "GIT_AUTHOR_EMAIL": "alice@localhub.invalid",
        "GIT_COMMITTER_NAME": "Alice",
        "GIT_COMMITTER_EMAIL": "alice@localhub.invalid",
    }
    command = ["git", *arguments]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=60, check=False)


def url(place: Place, token: str | None = None, repo: str = "acme/lib") -> str:
    credential = f"x-access-token:{token}@" if token else ""
    return f"http://{credential}127.0.0.1:{place.server.port}/{repo}.git"


def commit_something(folder: Path, name: str) -> str:
    (folder / name).write_text("x = 1\n")
    git(folder, "add", ".")
    git(folder, "commit", "-m", f"Add {name}")
    return git(folder, "rev-parse", "HEAD").stdout.strip()


def test_a_clone_holds_the_files(place: Place, tmp_path: Path) -> None:
    done = git(tmp_path, "clone", url(place), "copy")
    assert done.returncode == 0, done.stderr
    assert {path: (tmp_path / "copy" / path).read_bytes() for path in FILES} == FILES


def test_a_push_moves_the_pull_request_of_its_branch(place: Place, tmp_path: Path) -> None:
    place.hub.push("acme/lib", "work", "alice", {"x.py": "x = 1\n"})
    number = place.hub.open_pull("acme/lib", "alice", "work", "Work").number
    place.hub.deliver_all()
    git(tmp_path, "clone", "--branch", "work", url(place, place.hub.add_token("alice")), "copy")
    sha = commit_something(tmp_path / "copy", "pushed.py")
    done = git(tmp_path / "copy", "push", "origin", "work")
    assert done.returncode == 0, done.stderr
    assert place.hub.issue("acme/lib", number).pull.head_sha == sha
    assert [(one.event, one.action) for one in place.hub.deliveries.waiting()] == [
        ("push", None),
        ("pull_request", "synchronize"),
    ]


def test_an_app_pushes_with_its_token(place: Place, tmp_path: Path) -> None:
    token = place.integration().get_access_token(place.installation_id).token
    git(tmp_path, "clone", url(place, token), "copy")
    sha = commit_something(tmp_path / "copy", "bot.py")
    done = git(tmp_path / "copy", "push", "origin", "HEAD:refs/heads/bot")
    assert done.returncode == 0, done.stderr
    assert place.hub.head("acme/lib", "bot") == sha


@pytest.mark.parametrize("login", [None, "carol"])
def test_who_may_not_write_cannot_push(place: Place, tmp_path: Path, login: str | None) -> None:
    token = place.hub.add_token(login) if login else None
    git(tmp_path, "clone", url(place, token), "copy")
    commit_something(tmp_path / "copy", "evil.py")
    before = place.hub.head("acme/lib")
    assert git(tmp_path / "copy", "push", "origin", "main").returncode != 0
    assert place.hub.head("acme/lib") == before


def test_a_private_repository_is_cloned_by_its_people_alone(place: Place, tmp_path: Path) -> None:
    place.hub.create_repository("acme", "secret", files={"a": b"b"}, private=True)
    place.hub.add_collaborator("acme/secret", "alice", "read")
    assert git(tmp_path, "clone", url(place, repo="acme/secret"), "one").returncode != 0
    assert git(tmp_path, "clone", url(place, place.hub.add_token("carol"), "acme/secret"), "two").returncode != 0
    assert git(tmp_path, "clone", url(place, place.hub.add_token("alice"), "acme/secret"), "three").returncode == 0


def test_a_rewritten_branch_is_pushed_by_force_only(place: Place, tmp_path: Path) -> None:
    git(tmp_path, "clone", url(place, place.hub.add_token("alice")), "copy")
    copy = tmp_path / "copy"
    place.hub.push("acme/lib", "main", "alice", {"z": "z"})
    sha = commit_something(copy, "mine.py")
    assert git(copy, "push", "origin", "main").returncode != 0
    assert git(copy, "push", "--force", "origin", "main").returncode == 0
    assert place.hub.head("acme/lib") == sha


def test_the_patch_of_a_pull_request_applies(place: Place, tmp_path: Path) -> None:
    git(tmp_path, "clone", url(place), "copy")
    changes = {"data/rows.csv": b"a,b\r\n1,2\r\n3,4\r\n", "plot.png": bytes(range(256)), "README.md": None}
    place.hub.push("acme/lib", "work", "alice", changes)
    number = place.hub.open_pull("acme/lib", "alice", "work", "Rows").number
    patch = place.hub.as_patch("acme/lib", number).encode("utf-8", "surrogateescape")
    (tmp_path / "work.patch").write_bytes(patch)
    done = git(tmp_path / "copy", "apply", "--index", str(tmp_path / "work.patch"))
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "copy" / "data/rows.csv").read_bytes() == changes["data/rows.csv"]
    assert (tmp_path / "copy" / "plot.png").read_bytes() == changes["plot.png"]
    assert not (tmp_path / "copy" / "README.md").exists()


def test_nobody_pushes_over_the_head_of_a_pull_request(place: Place, tmp_path: Path) -> None:
    sha = place.hub.push("acme/lib", "work", "alice", {"x.py": "x = 1\n"})
    number = place.hub.open_pull("acme/lib", "alice", "work", "Work").number
    git(tmp_path, "clone", url(place, place.hub.add_token("alice")), "copy")
    commit_something(tmp_path / "copy", "evil.py")
    assert git(tmp_path / "copy", "push", "--force", "origin", f"HEAD:refs/pull/{number}/head").returncode != 0
    assert place.repo().get_git_ref(f"pull/{number}/head").object.sha == sha
    assert git(tmp_path / "copy", "fetch", "origin", f"refs/pull/{number}/head").returncode == 0
