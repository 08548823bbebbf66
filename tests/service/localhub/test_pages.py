"""The pages: what is on them, what the forms do, and who they refuse."""

from __future__ import annotations

import pytest
import requests

from deploy.localhub.hub import Hub
from tests.service.localhub.conftest import Place

NOTE = {"path": "x.py", "line": 1, "body": "why *this*?"}


def fill(hub: Hub) -> int:
    hub.open_issue("acme/lib", "alice", "Wanted: <b>reglu</b>", "**please**\n\n<script>alert(1)</script>")
    hub.push("acme/lib", "feature/new", "alice", {"x.py": "x = 1 < 2\n", "plot.png": b"\x89PNG\r\n\0"}, message="Work")
    number = hub.open_pull("acme/lib", "alice", "feature/new", "Work", "- [x] done", draft=True).number
    hub.comment("acme/lib", number, "bob", "hello")
    hub.review("acme/lib", number, "bob", "REQUEST_CHANGES", "no", comments=[NOTE])
    return number


def read(place: Place, path: str, status: int = 200) -> str:
    answer = requests.get(place.server.url + path, timeout=10)
    assert answer.status_code == status, answer.text
    return answer.text


def send(place: Place, where: str, status: int = 200, headers: dict[str, str] | None = None, **form: str) -> str:
    answer = requests.post(place.server.url + where, data=form, headers=headers, timeout=10)
    assert answer.status_code == status, answer.text
    return answer.text


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("/", "acme/lib"),
        ("/acme/lib", "README.md"),
        ("/acme/lib/tree/main/src", "ops.py"),
        ("/acme/lib/blob/feature/new/x.py", "x = 1 &lt; 2"),
        ("/acme/lib/issues", "Wanted: &lt;b&gt;reglu"),
        ("/acme/lib/issues/1", "<strong>please</strong>"),
        ("/acme/lib/pulls", "Draft"),
        ("/acme/lib/pull/2", "asked for changes"),
        ("/acme/lib/issues/2", "asked for changes"),
        ("/acme/lib/pull/2/commits", "Work"),
        ("/acme/lib/pull/2/checks", "No checks"),
        ("/acme/lib/pull/2/files", "why <em>this</em>?"),
        ("/acme/lib/pull/2.patch", "Subject: [PATCH] Work"),
        ("/acme/lib/issues/new", "Acting as"),
        ("/acme/lib/issues/new?title=a%22b&body=%2Fkernel%20help%20%3Cb%3E", "/kernel help &lt;b&gt;</textarea>"),
        ("/_static/localhub.css", "max-width"),
    ],
)
def test_a_page_shows_what_it_is_for(place: Place, path: str, words: str) -> None:
    fill(place.hub)
    text = read(place, path)
    assert words in text
    assert "<script" not in text


@pytest.mark.parametrize(
    "path",
    ["/acme/none", "/acme/lib/issues/99", "/acme/lib/pull/1/files", "/acme/lib/blob/main/nope", "/acme/lib/commit/abc"],
)
def test_what_is_not_there_has_a_page_that_says_so(place: Place, path: str) -> None:
    fill(place.hub)
    assert "Not Found" in read(place, path, status=404)


def test_an_issue_is_opened_and_commented_by_forms(place: Place) -> None:
    page = send(place, "/acme/lib/issues/new", by="carol", title="Mine", body="text")
    assert "Mine" in page and "carol" in page
    send(place, "/acme/lib/issues/1/comments", by="alice", body="/kernel help")
    comment = place.hub.issue("acme/lib", 1).comments[0]
    send(place, f"/acme/lib/comments/{comment.id}", by="alice", body="/kernel status")
    assert (comment.login, comment.body) == ("alice", "/kernel status")
    assert [one.action for one in place.hub.deliveries.waiting()] == ["opened", "created", "edited"]


def test_a_review_is_given_by_a_form(place: Place) -> None:
    number = fill(place.hub)
    send(
        place,
        f"/acme/lib/pull/{number}/reviews",
        by="carol",
        event="COMMENT",
        body="",
        path="x.py",
        line="1",
        note="hm",
    )
    review = place.hub.issue("acme/lib", number).pull.reviews[-1]
    assert (review.login, review.state) == ("carol", "COMMENTED")
    assert "Can not approve your own pull request" in send(
        place, f"/acme/lib/pull/{number}/reviews", status=422, by="alice", event="APPROVE"
    )


def test_forms_ask_for_the_permission_of_who_acts(place: Place) -> None:
    number = fill(place.hub)
    send(place, f"/acme/lib/issues/{number}/state", status=403, by="carol", state="closed")
    send(place, f"/acme/lib/pull/{number}/draft", status=403, by="carol", draft="no")
    send(place, f"/acme/lib/issues/{number}/comments", status=403, by="smith[bot]", body="I am the bot")
    send(place, f"/acme/lib/pull/{number}/draft", by="alice", draft="no")
    send(place, f"/acme/lib/pull/{number}/merge", status=403, by="bob")
    send(place, f"/acme/lib/pull/{number}/merge", by="alice")
    assert place.hub.issue("acme/lib", number).pull.merged_by == "alice"


@pytest.mark.parametrize(
    "headers", [{"Origin": "https://evil.example"}, {"Sec-Fetch-Site": "cross-site"}, {"Origin": "http://127.0.0.1:1"}]
)
def test_a_form_of_another_site_is_refused(place: Place, headers: dict[str, str]) -> None:
    fill(place.hub)
    send(place, "/acme/lib/issues/1/comments", status=403, headers=headers, by="alice", body="/kernel create x")
    assert place.hub.issue("acme/lib", 1).comments == []


def test_a_hidden_comment_is_folded_and_a_check_is_shown(place: Place) -> None:
    number = fill(place.hub)
    comment = place.hub.comment("acme/lib", number, "smith[bot]", "old result")
    comment.minimized = "outdated"
    sha = place.hub.head("acme/lib", "feature/new")
    output = {"title": "Wrong", "summary": "| a |\n|---|\n| 1 |"}
    run = place.repo().create_check_run("kernelsmith", sha, conclusion="failure", output=output)
    assert "This comment was hidden: outdated" in read(place, f"/acme/lib/pull/{number}")
    page = read(place, f"/acme/lib/runs/{run.id}")
    assert "<table>" in page
    send(place, f"/acme/lib/runs/{run.id}/rerequest", by="alice")
    assert place.hub.deliveries.waiting()[-1].action == "rerequested"


def test_a_raw_file_is_an_image_or_text_and_nothing_else(place: Place) -> None:
    fill(place.hub)
    sha = place.hub.push("acme/lib", "assets", "alice", {"a.html": "<script>1</script>", "p.png": b"\x89PNG"})
    image = requests.get(f"{place.server.url}/raw/acme/lib/{sha}/p.png", timeout=10)
    assert (image.headers["content-type"], image.content) == ("image/png", b"\x89PNG")
    page = requests.get(f"{place.server.url}/acme/lib/raw/{sha}/a.html", timeout=10)
    assert page.headers["content-type"].startswith("text/plain")
    assert "sandbox" in page.headers["content-security-policy"]


def test_pages_forbid_scripts_and_foreign_content(place: Place) -> None:
    policy = requests.get(place.server.url + "/", timeout=10).headers["content-security-policy"]
    assert "default-src 'none'" in policy and "script-src" not in policy


def test_tokens_are_listed_only_where_it_was_asked_for(place: Place) -> None:
    token = place.hub.add_token("alice")
    assert token not in read(place, "/")
    place.hub.world.admin_page = True
    assert token in read(place, "/")
