"""Pages: everything escaped, nothing loaded from elsewhere, artifacts that cannot act."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from html.parser import HTMLParser

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient

from gpu_runner.contracts import to_json
from service.addresses import Addresses
from service.pages.routes import Pages, add_pages
from service.pages.shown import events_of, with_code
from tests.service.io.samples import job
from workers.contracts import (
    ArtifactView,
    Attempt,
    CheckpointView,
    Failure,
    FailureCode,
    JobState,
    JobView,
    StageName,
    StageState,
    StageView,
    TimelineEvent,
)
from workers.redaction import know

EVIL = "<script>alert(1)</script>\"'><img src=x onerror=alert(1)>"


@contextmanager
def pages(
    *jobs: JobView,
    password: str | None = None,
    get: Callable[[str], JobView | None] | None = None,
    cancel: Callable[[str], bool] | None = None,
    **held: bytes,
) -> Iterator[TestClient]:
    known = {item.job_id: item for item in jobs}
    load: Callable[[str], bytes] = ({"d1": b"content"} | held).__getitem__
    app = FastAPI()
    addresses = Addresses("https://bot.example", "https://github.example")
    add_pages(app, Pages(lambda: jobs, get or known.get, load, addresses, password, cancel=cancel))
    with TestClient(app, "http://127.0.0.1:8000", client=("127.0.0.1", 50000)) as client:
        yield client


@pytest.mark.parametrize(
    ("peer", "headers"),
    [
        ("127.0.0.1", {"host": "kernels.example.org"}),  # a proxy or tunnel that keeps the name, or a name pointed here
        ("127.0.0.1", {"host": "127.0.0.1.nip.io:8000"}),
        ("127.0.0.1", {"host": "[::1"}),
        ("127.0.0.1", {"host": ""}),
        ("127.0.0.1", {"x-forwarded-for": "10.0.0.9"}),
        ("127.0.0.1", {"Forwarded": "for=10.0.0.9"}),
        ("10.0.0.9", {}),  # the server was bound to another address than the settings name
        ("", {}),  # a Unix socket
    ],
)
def test_without_a_password_pages_are_shown_on_their_own_machine_alone(peer: str, headers: dict[str, str]) -> None:
    with pages(job(artifacts=(ArtifactView("a.txt", "d1", "text/plain", 7),))) as client:
        client._transport.client = (peer, 50000) if peer else None  # type: ignore[attr-defined]
        for path in ("/", "/jobs/abcdefgh", "/jobs/abcdefgh/artifacts/a.txt", "/kernels", "/badge.svg"):
            refused = client.get(path, headers=headers)
            assert refused.status_code == 403
            assert "KERNELSMITH_PAGES_PASSWORD" in refused.text


@pytest.mark.parametrize(
    ("peer", "host"), [("::1", "[::1]:8000"), ("127.0.0.53", "LOCALHOST:9"), ("127.0.0.1", "localhost")]
)
def test_a_browser_of_this_machine_sees_the_pages(peer: str, host: str) -> None:
    with pages() as client:
        client._transport.client = (peer, 50000)  # type: ignore[attr-defined]
        assert client.get("/", headers={"host": host}).status_code == 200


class Elements(HTMLParser):
    """Every element and address of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.loaded: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        found = dict(attrs)
        if tag in {"img", "link", "script", "iframe"}:
            self.loaded.append(found.get("src") or found.get("href") or "")
        assert not any(name.startswith("on") for name in found), f"{tag} has a handler"


def test_a_job_page_shows_stages_links_artifacts_and_the_timeline() -> None:
    shown = job(
        state=JobState.waiting,
        pull_number=12,
        head_sha="a" * 40,
        checkpoint=CheckpointView(StageName.analyze, 1, "a" * 40),
        artifacts=(
            ArtifactView("plots/speed.png", "d1", "image/png", 2048),
            ArtifactView("problem.py", "d1", "text/x-python", 7),
        ),
    )
    with pages(shown) as client:
        text = client.get("/jobs/abcdefgh").text
    for expected in (
        "create reglu",
        "waits for a review",
        "https://github.example/octo/kernels/pull/12",
        "https://github.example/octo/kernels/issues/7",
        f"https://github.example/octo/kernels/commit/{'a' * 40}",
        "/jobs/abcdefgh/artifacts/plots%2Fspeed.png",
        "2.0 KiB",
        "validate",
        '<span class="kind">asked</span>',
    ):
        assert expected in text


def test_the_timeline_says_in_words_what_was_published() -> None:
    at = "2026-01-02T03:04:05+00:00"
    found = job(
        timeline=(
            TimelineEvent(at, "update_published", "PullRequestUpdate"),
            TimelineEvent(at, "done", "the job is done"),
        )
    )
    rows = [(row.heading, row.text) for row in events_of(found, datetime(2026, 1, 2, 4, tzinfo=UTC))]
    assert rows == [("", "the job is done"), ("published", "pull request")]


@pytest.mark.parametrize(
    ("text", "html"),
    [
        ("no way to express `aten.sort`", "no way to express <code>aten.sort</code>"),
        ("`<b>` and `", "`&lt;b&gt;` and `"),
        ("`<b>` & c", "<code>&lt;b&gt;</code> &amp; c"),
    ],
)
def test_what_stands_between_backticks_is_code(text: str, html: str) -> None:
    assert with_code(text) == html


def test_text_of_other_people_is_escaped_everywhere() -> None:
    evil = Failure(FailureCode.problem, EVIL, EVIL, 3, EVIL, (EVIL,))
    shown = job(
        state=JobState.failed,
        failure=evil,
        stages=(StageView(StageName.analyze, 1, StageState.failed, EVIL, failure=replace(evil, line=4)),),
        artifacts=(ArtifactView(EVIL, "d1", "image/png", 1),),
        timeline=(TimelineEvent("2026-01-02T03:04:05+00:00", EVIL, EVIL),),
    )
    shown = replace(
        shown, request=replace(shown.request, kernel=EVIL, origin=replace(shown.request.origin, author=EVIL))
    )
    with pages(shown) as client:
        for path in ("/jobs/abcdefgh", "/"):
            elements = Elements(client.get(path).text)
            assert "script" not in elements.tags
            assert all(address.startswith("/") for address in elements.loaded)


def test_no_page_and_no_artifact_shows_a_secret() -> None:
    key, held = "sk-" + "a1B2c3D4" * 4, "<correct> & horse"
    know([held])
    text = f"it printed `{key}` and {held}"
    failed = Failure(FailureCode.problem, text, text, 3, text, (text,))
    shown = job(
        state=JobState.failed,
        failure=failed,
        artifacts=(ArtifactView("log", "d1", "text/plain", 1), ArtifactView("a.json", "d1", "application/json", 1)),
        timeline=(TimelineEvent("2026-01-02T03:04:05+00:00", "stage_retried", text),),
    )
    with pages(shown, d1=json.dumps(text).encode() + b"\xff") as client:
        for path in ("/jobs/abcdefgh", "/jobs/abcdefgh/artifacts/log", "/jobs/abcdefgh/artifacts/a.json"):
            told = client.get(path).content
            assert b"it printed" in told
            assert b"a1B2c3D4" not in told
            assert b"correct" not in told


def test_pages_load_nothing_from_elsewhere_and_say_so() -> None:
    with pages(job()) as client:
        answer = client.get("/jobs/abcdefgh")
        assert sorted(Elements(answer.text).loaded) == ["/static/job.js", "/static/style.css"]
        assert "default-src 'none'" in answer.headers["content-security-policy"]
        assert "unsafe" not in answer.headers["content-security-policy"]
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert client.get("/static/style.css").headers["content-type"].startswith("text/css")


def test_pages_fit_a_phone() -> None:
    with pages(job()) as client:
        assert 'name="viewport" content="width=device-width, initial-scale=1"' in client.get("/").text


def test_a_running_job_refreshes_itself_and_an_ended_one_does_not() -> None:
    with pages(job(), job(job_id="ended", state=JobState.done)) as client:
        assert 'http-equiv="refresh"' in client.get("/jobs/abcdefgh").text
        assert 'http-equiv="refresh"' not in client.get("/jobs/ended").text


@pytest.mark.parametrize(
    ("media_type", "served", "disposition"),
    [
        ("image/png", "image/png", "inline"),
        ("text/plain", "text/plain; charset=utf-8", "inline"),
        ("text/html", "text/plain; charset=utf-8", "inline"),
        ("text/x-python", "text/plain; charset=utf-8", "inline"),
        ("application/json", "text/plain; charset=utf-8", "inline"),
        ("image/svg+xml", "application/octet-stream", "attachment"),
        ("application/gzip", "application/octet-stream", "attachment"),
        ("application/javascript", "application/octet-stream", "attachment"),
        ("TEXT/HTML; charset=x", "text/plain; charset=utf-8", "inline"),
        ("text/plain\r\nx-evil: 1", "text/plain; charset=utf-8", "inline"),
    ],
)
def test_an_artifact_is_served_so_that_it_cannot_act(media_type: str, served: str, disposition: str) -> None:
    name = 'a "name": y/file ü.txt'
    with pages(job(artifacts=(ArtifactView(name, "d1", media_type, 7),))) as client:
        answer = client.get("/jobs/abcdefgh/artifacts/" + "a%20%22name%22%3A%20y%2Ffile%20%C3%BC.txt")
    assert (answer.status_code, answer.content) == (200, b"content")
    assert answer.headers["content-type"] == served
    assert answer.headers["content-disposition"] == f"{disposition}; filename*=UTF-8''file%20%C3%BC.txt"
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert "sandbox" in answer.headers["content-security-policy"]
    assert "x-evil" not in answer.headers


def test_what_is_not_there_gets_404() -> None:
    with pages(job()) as client:
        for path in (
            "/jobs/other",
            "/jobs/abcdefgh/artifacts/none",
            "/jobs/abcdefgh/artifacts/../../etc/passwd",
            "/jobs/%2e%2e",
        ):
            assert client.get(path).status_code == 404


BROWSER = {"accept": "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"}


@pytest.mark.parametrize(
    ("path", "status", "reason", "fix"),
    [
        ("/jobs/other", 404, "there is no such job", "comments"),
        ("/jobs/abcdefgh/artifacts/none", 404, "no such artifact", "<code>KERNELSMITH_KEEP_ARTIFACTS_DAYS</code>"),
        ("/nowhere", 404, "Not Found", "Start from the jobs"),
        ("/kernels/history", 422, "for <code>repository</code>, <code>kernel</code>", "Correct the address"),
    ],
)
def test_a_browser_gets_a_page_where_there_is_nothing_and_a_program_json(
    path: str, status: int, reason: str, fix: str
) -> None:
    with pages(job()) as client:
        page, plain = client.get(path, headers=BROWSER), client.get(path)
    assert (page.status_code, plain.status_code) == (status, status)
    assert page.headers["content-type"].startswith("text/html") and page.headers["cache-control"] == "no-store"
    assert reason in page.text and fix in page.text and 'href="/static/style.css"' in page.text
    assert plain.headers["content-type"] == "application/json" and "detail" in plain.json()


def test_what_a_browser_is_refused_is_a_page_with_the_same_headers() -> None:
    with pages(job(), password="open sesame") as client:
        page = client.get("/jobs/abcdefgh", headers=BROWSER)
        assert page.status_code == 401 and page.headers["www-authenticate"].startswith("Basic")
        assert "KERNELSMITH_PAGES_PASSWORD" in page.text and "abcdefgh" not in page.text
        assert client.get("/api/kernels", headers=BROWSER).json() == {"detail": "Not authenticated"}


def test_without_jobs_the_list_says_how_to_start_one() -> None:
    with pages() as client:
        assert "/kernel create" in client.get("/").text


def test_a_password_guards_every_page_but_not_by_its_prefix() -> None:
    with pages(job(artifacts=(ArtifactView("a.txt", "d1", "text/plain", 7),)), password="open sesame") as client:
        for path in ("/", "/jobs/abcdefgh", "/jobs/abcdefgh/artifacts/a.txt"):
            assert client.get(path).status_code == 401
            assert client.get(path, auth=("anyone", "open")).status_code == 401
            assert client.get(path, headers={"authorization": "Basic ???"}).status_code == 401
            assert client.get(path, auth=("anyone", "open sesame")).status_code == 200


def test_a_job_page_shows_what_a_model_tried_with_links_to_question_and_answer() -> None:
    tried = [
        Attempt(1, "generate", 0, 0, "candidate-1", "incorrect_gradient", f"the gradient is off {EVIL}", 12345),
        Attempt(2, "repair", 1, 1, "repair-1", "passed", "", 678, chosen=True, median_us=112.25),
    ]
    book = json.dumps({"stage": "generate", "attempt": 2, "attempts": [to_json(attempt) for attempt in tried]})
    record = json.dumps({"tried": [{"micro_dollars": 12000}, {"micro_dollars": 345}, {"micro_dollars": None}]})
    shown = job(
        artifacts=(
            ArtifactView("attempts-generate-2.json", "book", "application/json", 9),
            ArtifactView("models/generate-2/candidate-1.json", "record", "application/json", 9),
        )
    )
    with pages(shown, book=book.encode(), record=record.encode()) as client:
        text = client.get("/jobs/abcdefgh").text
    for expected in (
        "Attempts in generate, attempt 2",
        "generate, variation 1",
        "repair 1",
        "<code>passed</code>, taken",
        "112.2 µs",
        "12,345",
        "$0.0123",
        "/jobs/abcdefgh/artifacts/models%2Fgenerate-2%2Fcandidate-1.json",
    ):
        assert expected in text
    assert text.count("question and answer") == 1
    assert Elements(text).tags.count("script") == 1  # the page's own


def test_what_a_model_tried_is_behind_the_same_password() -> None:
    shown = job(artifacts=(ArtifactView("attempts-generate-1.json", "book", "application/json", 9),))
    with pages(shown, password="a long one", book=b"{}") as client:
        assert client.get("/jobs/abcdefgh").status_code == 401


@pytest.mark.parametrize("book", [b"", b"[]", b'{"attempts": [{"number": "x"}]}', b'{"attempts": 3}'])
def test_a_book_of_attempts_that_cannot_be_read_does_not_break_the_page(book: bytes) -> None:
    shown = job(artifacts=(ArtifactView("attempts-generate-1.json", "book", "application/json", 9),))
    with pages(shown, book=book) as client:
        answer = client.get("/jobs/abcdefgh")
    assert answer.status_code == 200 and "Attempts in" not in answer.text


def test_without_prices_there_is_no_column_of_costs() -> None:
    book = json.dumps(
        {"stage": "generate", "attempt": 1, "attempts": [to_json(Attempt(1, "generate", 0, 0, "c", "passed"))]}
    )
    shown = job(artifacts=(ArtifactView("attempts-generate-1.json", "book", "application/json", 9),))
    with pages(shown, book=book.encode()) as client:
        text = client.get("/jobs/abcdefgh").text
    assert "<th>tokens</th><th></th>" in text


def test_a_job_by_hand_leads_to_no_page_of_github() -> None:
    asked, by_hand = job(), job()
    by_hand = replace(by_hand, request=replace(by_hand.request, origin=replace(by_hand.request.origin, number=0)))
    with pages(asked) as client:
        assert "where it was asked, #" in client.get("/jobs/abcdefgh").text
    with pages(by_hand) as client:
        text = client.get("/jobs/abcdefgh").text
    assert "where it was asked" not in text
    assert "github.example" not in text
