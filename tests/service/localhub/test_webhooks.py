"""Webhooks: signature, payloads, order, redelivery and what got lost."""

from __future__ import annotations

import hashlib
import hmac
import json
import threading
from collections.abc import Iterator, Mapping
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest

from deploy.localhub.hub import Hub
from deploy.localhub.server import HubServer
from deploy.localhub.webhooks import HookAnswer
from tests.service.localhub.conftest import Place


class Receiver:
    """Keeps what arrives, in the place of a bot."""

    def __init__(self, status: int = 202) -> None:
        self.status = status
        self.arrived: list[tuple[Mapping[str, str], bytes]] = []

    def __call__(self, _url: str, headers: Mapping[str, str], body: bytes) -> HookAnswer:
        self.arrived.append((headers, body))
        return HookAnswer(self.status, {}, "")

    @property
    def events(self) -> list[str]:
        return [f"{headers['X-GitHub-Event']}.{json.loads(body).get('action')}" for headers, body in self.arrived]

    def payload(self, index: int = -1) -> dict[str, Any]:
        return json.loads(self.arrived[index][1])


@pytest.fixture
def receiver(hub: Hub) -> Receiver:
    receiver = Receiver()
    hub.deliveries.transport = receiver
    return receiver


def test_the_signature_is_over_the_bytes_that_are_sent(hub: Hub, receiver: Receiver) -> None:
    hub.open_issue("acme/lib", "alice", "Wanted: ✨", "/kernel create reglu")
    hub.deliver_all()
    [(headers, body)] = receiver.arrived
    assert headers["X-Hub-Signature-256"] == "sha256=" + hmac.new(b"s3cret", body, hashlib.sha256).hexdigest()
    assert headers["X-GitHub-Event"] == "issues"
    assert headers["Content-Type"] == "application/json"


def test_a_comment_tells_all_that_a_bot_reads(hub: Hub, receiver: Receiver) -> None:
    hub.open_issue("acme/lib", "alice", "Wanted", "")
    comment = hub.comment("acme/lib", 1, "bob", "/kernel help")
    hub.deliver_all()
    payload = receiver.payload()
    assert payload["action"] == "created"
    assert payload["comment"]["id"] == comment.id
    assert payload["comment"]["body"] == "/kernel help"
    assert payload["comment"]["user"]["login"] == payload["sender"]["login"] == "bob"
    assert payload["comment"]["user"]["type"] == "User"
    assert payload["repository"]["full_name"] == "acme/lib"
    assert payload["repository"]["default_branch"] == "main"
    assert payload["issue"]["number"] == 1
    assert "pull_request" not in payload["issue"]
    assert payload["installation"]["id"] == next(iter(hub.world.state.installations))


def test_a_comment_on_a_pull_request_says_so(hub: Hub, receiver: Receiver) -> None:
    hub.push("acme/lib", "work", "alice", {"x.py": "x = 1\n"})
    number = hub.open_pull("acme/lib", "alice", "work", "Work").number
    hub.comment("acme/lib", number, "bob", "hm")
    hub.deliver_all()
    assert receiver.payload()["issue"]["pull_request"]["url"].endswith(f"/repos/acme/lib/pulls/{number}")


def test_an_edit_says_what_stood_there(hub: Hub, receiver: Receiver) -> None:
    hub.open_issue("acme/lib", "alice", "Wanted", "")
    comment = hub.comment("acme/lib", 1, "alice", "/kernel creat reglu")
    hub.edit_comment("acme/lib", comment.id, "alice", "/kernel create reglu")
    hub.deliver_all()
    assert receiver.events == ["issues.opened", "issue_comment.created", "issue_comment.edited"]
    assert receiver.payload()["changes"] == {"body": {"from": "/kernel creat reglu"}}
    assert receiver.payload(1)["comment"]["body"] == "/kernel creat reglu"


def test_a_push_moves_the_pull_request(hub: Hub, receiver: Receiver) -> None:
    before = hub.push("acme/lib", "work", "alice", {"x.py": "x = 1\n"})
    hub.open_pull("acme/lib", "alice", "work", "Work", draft=True)
    after = hub.push("acme/lib", "work", "bob", {"y.py": "y = 1\n"}, message="Why")
    hub.deliver_all()
    assert receiver.events == ["push.None", "pull_request.opened", "push.None", "pull_request.synchronize"]
    push, synchronized = receiver.payload(2), receiver.payload(3)
    assert (push["ref"], push["before"], push["after"], push["forced"]) == ("refs/heads/work", before, after, False)
    assert push["commits"][0]["added"] == ["y.py"]
    assert (synchronized["before"], synchronized["after"]) == (before, after)
    assert synchronized["pull_request"]["head"]["sha"] == after
    assert synchronized["pull_request"]["draft"] is True


def test_history_that_was_rewritten_is_said_to_be_forced(hub: Hub, receiver: Receiver) -> None:
    main = hub.head("acme/lib")
    hub.push("acme/lib", "work", "alice", {"x.py": "x = 1\n"})
    hub.open_pull("acme/lib", "alice", "work", "Work")
    hub.push("acme/lib", "work", "alice", {"x.py": "x = 2\n"}, force_from=main)
    hub.deliver_all()
    assert receiver.payload(-2)["forced"] is True
    assert receiver.events[-1] == "pull_request.synchronize"


def test_a_review_tells_its_commit(hub: Hub, receiver: Receiver) -> None:
    sha = hub.push("acme/lib", "work", "alice", {"x.py": "x = 1\n"})
    number = hub.open_pull("acme/lib", "alice", "work", "Work").number
    hub.deliver_all()
    receiver.arrived.clear()
    note = {"path": "x.py", "line": 1, "body": "why?"}
    hub.review("acme/lib", number, "bob", "REQUEST_CHANGES", "no", comments=[note])
    hub.deliver_all()
    assert receiver.events == ["pull_request_review.submitted", "pull_request_review_comment.created"]
    review = receiver.payload(0)["review"]
    assert (review["state"], review["commit_id"], review["user"]["login"]) == ("changes_requested", sha, "bob")
    assert receiver.payload(1)["comment"]["pull_request_review_id"] == review["id"]
    assert receiver.payload(1)["comment"]["path"] == "x.py"


def test_a_delivery_comes_twice_and_in_the_wrong_order(hub: Hub, receiver: Receiver) -> None:
    hub.open_issue("acme/lib", "alice", "Wanted", "")
    hub.comment("acme/lib", 1, "alice", "one")
    hub.deliver_all(order="reversed", twice=True)
    assert receiver.events == ["issue_comment.created"] * 2 + ["issues.opened"] * 2
    ids = [headers["X-GitHub-Delivery"] for headers, _ in receiver.arrived]
    assert ids[0] == ids[1] != ids[2] == ids[3]


def test_deliveries_are_stepped_one_by_one(hub: Hub, receiver: Receiver) -> None:
    hub.open_issue("acme/lib", "alice", "Wanted", "")
    hub.comment("acme/lib", 1, "alice", "one")
    assert [one.event for one in hub.deliveries.waiting()] == ["issues", "issue_comment"]
    hub.deliver_next()
    assert receiver.events == ["issues.opened"]
    hub.deliver_next()
    assert hub.deliver_next() is None


def test_a_delivery_that_is_just_being_sent_has_not_arrived_yet(hub: Hub, receiver: Receiver) -> None:
    hub.open_issue("acme/lib", "alice", "Wanted", "")
    hub.comment("acme/lib", 1, "alice", "one")
    seen: list[list[str]] = []

    def looks(url: str, headers: Mapping[str, str], body: bytes) -> HookAnswer:
        seen.append([one.event for one in hub.deliveries.waiting()])
        return receiver(url, headers, body)

    hub.deliveries.transport = looks
    hub.deliver_next()
    hub.deliver_all()
    assert seen == [["issues", "issue_comment"], ["issue_comment"]]
    assert hub.deliveries.waiting() == []


def test_a_delivery_that_was_lost_is_found_and_sent_again(place: Place) -> None:
    receiver = Receiver()
    place.hub.deliveries.transport = receiver
    place.hub.open_issue("acme/lib", "alice", "Wanted", "")
    place.hub.deliveries.lose_next()
    app = place.integration()
    [lost] = [
        one for one in app.requester.requestJsonAndCheck("GET", "/app/hook/deliveries")[1] if one["event"] == "issues"
    ]
    assert lost["status_code"] == 0
    status, _, _ = app.requester.requestJson("POST", f"/app/hook/deliveries/{lost['id']}/attempts")
    assert status == 202
    place.hub.deliver_all()
    assert [headers["X-GitHub-Delivery"] for headers, _ in receiver.arrived] == [lost["guid"]]
    newest = app.requester.requestJsonAndCheck("GET", "/app/hook/deliveries")[1][0]
    assert (newest["guid"], newest["redelivery"], newest["status_code"]) == (lost["guid"], True, 202)


def test_the_log_of_deliveries_is_read_on_by_cursor(place: Place) -> None:
    for number in range(5):
        place.hub.open_issue("acme/lib", "alice", f"Wanted {number}", "")
    place.hub.deliver_all()
    app = place.integration().requester
    headers, first = app.requestJsonAndCheck("GET", "/app/hook/deliveries?per_page=3")
    _, second = app.requestJsonAndCheck("GET", headers["link"].partition(";")[0].strip("<>"))
    ids = [one["id"] for one in first + second]
    assert len(first) == 3 and ids == sorted(ids, reverse=True) and len(set(ids)) == 6


def test_a_hook_of_the_repository_hears_as_well(hub: Hub, receiver: Receiver) -> None:
    hub.add_hook("acme/lib", "http://127.0.0.1:9/plain", "other", events=["issues"])
    hub.open_issue("acme/lib", "alice", "Wanted", "")
    hub.comment("acme/lib", 1, "alice", "not for the hook")
    hub.deliver_all()
    assert receiver.events.count("issues.opened") == 2
    assert "installation" not in json.loads(receiver.arrived[1][1])


def test_the_button_of_a_check_run_is_told(place: Place) -> None:
    receiver = Receiver()
    place.hub.deliveries.transport = receiver
    sha = place.hub.head("acme/lib")
    run = place.repo().create_check_run("kernelsmith", sha, external_id="job-7", conclusion="failure")
    place.hub.rerequest_check("acme/lib", run.id, "alice")
    place.hub.deliver_all()
    assert receiver.events == ["check_run.completed", "check_run.rerequested"]
    payload = receiver.payload()
    assert (payload["check_run"]["external_id"], payload["sender"]["login"]) == ("job-7", "alice")


@pytest.fixture
def listener() -> Iterator[tuple[str, list[bytes]]]:
    bodies: list[bytes] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            bodies.append(self.rfile.read(int(self.headers["Content-Length"])))
            self.send_response(204)
            self.end_headers()

        def log_message(self, *_arguments: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/hook", bodies
    server.shutdown()
    thread.join()
    server.server_close()


def test_a_thread_delivers_over_http(tmp_path, listener: tuple[str, list[bytes]]) -> None:
    url, bodies = listener
    hub = Hub(tmp_path / "hub")
    hub.create_repository("acme", "lib", files={"a": b"b"})
    hub.add_hook("acme/lib", url, "secret")
    with HubServer(hub, deliver=True):
        hub.open_issue("acme/lib", "acme", "Wanted", "")
        arrived = threading.Event()
        for _ in range(500):
            if hub.deliveries.log()[0].status_code is not None:
                break
            arrived.wait(0.01)
    assert json.loads(bodies[0])["issue"]["title"] == "Wanted"
    assert hub.deliveries.log()[0].status_code == 204


def test_a_receiver_that_is_not_there_is_logged(tmp_path) -> None:
    hub = Hub(tmp_path / "hub")
    hub.create_repository("acme", "lib", files={"a": b"b"})
    hub.add_hook("acme/lib", "http://127.0.0.1:9/", "secret")
    hub.open_issue("acme/lib", "acme", "Wanted", "")
    assert hub.deliver_next().status_code == 0


def test_a_bot_that_answers_itself_forever_is_found(hub: Hub) -> None:
    hub.open_issue("acme/lib", "alice", "Wanted", "")

    def answer(_url: str, _headers: Mapping[str, str], _body: bytes) -> HookAnswer:
        hub.comment("acme/lib", 1, "smith[bot]", "I heard that")
        return HookAnswer(202, {}, "")

    hub.deliveries.transport = answer
    with pytest.raises(RuntimeError, match="answering itself"):
        hub.deliver_all()
