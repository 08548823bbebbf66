"""The Python API: conversations in order, and a hub that is opened again."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
import time
from pathlib import Path
from urllib.parse import urlsplit

import requests

from deploy.localhub.conversation import CommentEntry, CommitEntry, EventEntry, OpeningEntry, ReviewEntry
from deploy.localhub.hub import Hub
from tests.service.localhub.conftest import Place


def test_a_conversation_is_read_in_the_order_in_which_it_came(hub: Hub) -> None:
    hub.push("acme/lib", "work", "alice", {"x.py": "x = 1\n"}, message="First")
    number = hub.open_pull("acme/lib", "alice", "work", "Work", "body", draft=True).number
    comment = hub.comment("acme/lib", number, "bob", "hm")
    hub.react("acme/lib", comment.id, "alice", "eyes")
    hub.push("acme/lib", "work", "alice", {"y.py": "y = 1\n"}, message="Second")
    hub.set_draft("acme/lib", number, "alice", draft=False)
    hub.review("acme/lib", number, "bob", "APPROVE", "fine", comments=[{"path": "x.py", "line": 1, "body": "nice"}])
    entries = hub.conversation("acme/lib", number)
    assert [type(entry) for entry in entries] == [
        OpeningEntry,
        CommitEntry,
        CommentEntry,
        CommitEntry,
        EventEntry,
        ReviewEntry,
    ]
    assert [entry.message for entry in entries if isinstance(entry, CommitEntry)] == ["First", "Second"]
    assert entries[2].reactions == ("eyes by alice",)
    assert entries[4].kind == "ready_for_review"
    assert (entries[5].state, entries[5].notes[0].body) == ("APPROVED", "nice")


def test_a_hub_that_was_saved_goes_on(hub: Hub, tmp_path: Path) -> None:
    hub.open_issue("acme/lib", "alice", "Wanted", "text")
    hub.push("acme/lib", "work", "alice", {"x.py": "x = 1\n"})
    number = hub.open_pull("acme/lib", "alice", "work", "Work").number
    token = hub.add_token("alice")
    hub.save()
    again = Hub(tmp_path / "hub")
    assert again.issue("acme/lib", 1).title == "Wanted"
    assert again.conversation("acme/lib", number) == hub.conversation("acme/lib", number)
    assert token in again.world.state.tokens
    assert again.open_issue("acme/lib", "alice", "Next", "").number == number + 1


def test_a_folder_becomes_a_repository(hub: Hub, tmp_path: Path) -> None:
    folder = tmp_path / "source"
    (folder / "deep").mkdir(parents=True)
    (folder / "deep" / "a.py").write_bytes(b"x = 1\r\n")
    (folder / ".git").mkdir()
    (folder / ".git" / "config").write_text("not this")
    hub.create_repository("acme", "from-folder", from_folder=folder)
    assert hub.read_file("acme/from-folder", "main", "deep/a.py") == b"x = 1\r\n"
    assert hub.read_file("acme/from-folder", "main", ".git/config") is None


def test_a_webhook_that_was_not_delivered_is_delivered_after_a_restart(hub: Hub, tmp_path: Path) -> None:
    hub.open_issue("acme/lib", "alice", "Wanted", "")
    hub.save()
    again = Hub(tmp_path / "hub")
    assert [one.event for one in again.deliveries.waiting()] == ["issues"]


def test_what_breaks_in_the_hub_is_kept_for_the_test_to_see(place: Place) -> None:
    place.hub.world.state.repositories[999_999] = None  # type: ignore[assignment]
    assert requests.get(place.server.api_url + "/repos/acme/lib2", timeout=10).status_code == 500
    assert "AttributeError" in place.hub.errors[0]
    place.hub.world.errors.clear()


def test_a_client_that_is_killed_while_it_sends_is_no_fault_of_the_hub(place: Place) -> None:
    number = place.hub.open_issue("acme/lib", "alice", "Wanted", "").number
    where = urlsplit(place.server.api_url)
    head = (
        f"PATCH {where.path}/repos/acme/lib/issues/{number} HTTP/1.1\r\nHost: {where.netloc}\r\n"
        f"Authorization: Bearer {place.hub.add_token('alice')}\r\n"
        "Content-Type: application/json\r\nContent-Length: 100\r\n\r\n{"
    )
    with socket.create_connection((where.hostname or "", where.port or 0)) as line:
        line.sendall(head.encode())
    time.sleep(0.5)
    assert place.repo().get_issue(number).title == "Wanted"
    assert place.hub.errors == []


def test_the_command_serves_until_it_is_told_to_stop_and_saves(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "deploy.localhub", "--data", str(tmp_path / "hub"), "--port", "0"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONUNBUFFERED": "1"}
    ) as run:
        assert run.stdout is not None
        url = re.search(r"http://127\.0\.0\.1:\d+", run.stdout.readline())
        assert url is not None
        assert requests.get(f"{url[0]}/api/v3/repos/nobody/nothing", timeout=10).status_code == 404
        run.terminate()
        assert run.wait(timeout=20) == 0
    assert (tmp_path / "hub" / "state.json").exists()
