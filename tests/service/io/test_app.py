"""The application as a whole: health, numbers, pages of real jobs, threads, and starting up."""

from __future__ import annotations

import re
import time

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient
from pydantic import SecretStr
from sqlalchemy import select
from structlog.testing import capture_logs

from deploy.localhub.conversation import CommitEntry
from deploy.localhub.hub import Hub
from deploy.localhub.server import HubServer
from service import server
from service.app import create_app
from service.health import Health, health_router
from service.settings import ConfigurationError, ServiceSettings
from tests.service.io.conftest import CREATE, SECRET, Bench, post_to
from workers import inbox, runtime
from workers.contracts import JobState
from workers.embedded import drive
from workers.store.models import OutboxUpdate


def test_a_service_that_can_work_is_ready_and_names_what_it_needs(bench: Bench) -> None:
    assert bench.client.get("/livez").status_code == 200
    answer = bench.client.get("/readyz")
    assert answer.status_code == 200
    assert {name: check["ok"] for name, check in answer.json().items()} == {
        "database": True,
        "artifacts": True,
        "redis": True,
        "github": True,
        "threads": True,
        "gpu": True,
    }
    assert answer.json()["github"]["detail"] == "signed in as smith[bot]"


def test_credentials_that_do_not_work_are_named_with_the_fix(bench: Bench) -> None:
    bench.hub.world.state.apps.clear()
    answer = bench.client.get("/readyz")
    assert answer.status_code == 503
    assert "KERNELSMITH_APP_ID" in answer.json()["github"]["fix"]
    assert bench.client.get("/livez").status_code == 200


def test_the_check_of_github_is_asked_once_a_minute(bench: Bench) -> None:
    for _ in range(5):
        bench.client.get("/readyz")
    assert sum(request.operation == "get_app" for request in bench.hub.requests) <= 2


def test_numbers_are_there_for_whoever_watches(bench: Bench) -> None:
    number = bench.issue()
    bench.say(number, CREATE)
    bench.settle()
    text = bench.client.get("/metrics").text
    for expected in (
        r'kernelsmith_rows\{state="waiting",table="jobs"\} 1\.0',
        r'kernelsmith_updates_total\{kind="CommitUpdate",outcome="published"\} [1-9]',
        r'kernelsmith_deliveries_total\{event="issue_comment",outcome="handled"\} [1-9]',
        r'kernelsmith_webhooks_total\{status="202"\} [1-9]',
        r'kernelsmith_github_rate_limit_remaining\{signed_as="installation \d+"\} \d',
    ):
        assert re.search(expected, text), expected
    assert SECRET not in text


def test_metrics_outlive_the_database() -> None:
    def down() -> dict[str, dict[str, int]]:
        raise OSError("the database is gone")

    bare = FastAPI()
    bare.include_router(health_router(Health({}, {}, down, lambda: {"token": 4321})))
    with TestClient(bare) as client, capture_logs() as logs:
        answer = client.get("/metrics")
    assert answer.status_code == 200
    assert [(entry["event"], entry["numbers"]) for entry in logs] == [("numbers_missing", "rows")]
    assert 'kernelsmith_github_rate_limit_remaining{signed_as="token"} 4321.0' in answer.text


def test_the_pages_show_the_jobs_that_there_are(bench: Bench) -> None:
    bench.say(bench.issue(), CREATE)
    bench.settle()
    job = bench.job()
    assert f'href="/jobs/{job.job_id}"' in bench.client.get("/").text
    page = bench.client.get(f"/jobs/{job.job_id}")
    assert page.status_code == 200
    assert f"/pull/{job.pull_number}" in page.text
    assert bench.client.get("/jobs/none").status_code == 404


def test_an_artifact_of_a_job_can_be_fetched(bench: Bench) -> None:
    bench.say(bench.issue(), f"{CREATE.splitlines()[0]} --auto\n" + "\n".join(CREATE.splitlines()[1:]))
    bench.settle()
    job = bench.job()
    assert job.state is JobState.done
    answer = bench.client.get(f"/jobs/{job.job_id}/artifacts/speed.png")
    assert answer.headers["content-type"] == "image/png"


def test_images_can_be_seen_by_commit_where_the_comment_links_them(bench: Bench) -> None:
    bench.say(bench.issue(), f"{CREATE.splitlines()[0]} --auto\n" + "\n".join(CREATE.splitlines()[1:]))
    bench.settle()
    job = bench.job()
    sha = bench.hub.head(bench.repository, "kernelsmith-assets")
    last = bench.comments(job.pull_number or 0)[-1].body
    assert f"{bench.parts.settings.html_url}/{bench.repository}/raw/{sha}/{job.job_id}/speed.png" in last
    assert bench.hub.read_file(bench.repository, sha or "", f"{job.job_id}/speed.png") is not None


def test_nothing_is_documented_or_served_that_was_not_meant(bench: Bench) -> None:
    for path in ("/docs", "/openapi.json", "/redoc", "/static/../settings.py", "/static/style.css/../../job.html"):
        assert bench.client.get(path).status_code == 404


def with_threads(hub: Hub, hub_server: HubServer, private_key: str) -> FastAPI:
    return create_app(
        ServiceSettings(
            webhook_secrets=(SecretStr(SECRET),),
            app_id=next(iter(hub.world.state.apps.values())).id,
            private_key=SecretStr(private_key),
            api_url=hub_server.api_url,
            html_url=hub_server.url,
            poll_s=0.1,
        )
    )


def test_the_threads_carry_a_command_to_its_comment_and_stop_cleanly(
    hub: Hub, app_keys: tuple[str, str], clock: list[float]
) -> None:
    assert clock == [0.0]
    with HubServer(hub) as hub_server, TestClient(with_threads(hub, hub_server, app_keys[0])) as client:
        number = hub.open_issue("octo/kernels", "maintainer", "Wanted", CREATE).number
        hub.deliveries.transport = post_to(client)
        hub.deliver_all()
        until(lambda: len(hub.conversation("octo/kernels", number)) > 1)
        drive()
        until(lambda: bool(hub.pull_numbers("octo/kernels")))
        assert client.get("/readyz").json()["threads"] == {"ok": True, "detail": "all run"}
    assert inbox.counts()["jobs"] != {}


def test_what_github_does_not_answer_while_the_service_stops_is_given_back(
    hub: Hub, app_keys: tuple[str, str], clock: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert clock == [0.0]
    monkeypatch.setattr("service.app.FINISH_S", 0.2)
    with HubServer(hub) as hub_server:
        with TestClient(with_threads(hub, hub_server, app_keys[0])) as client:
            hub.deliveries.transport = post_to(client)
            hub.open_issue("octo/kernels", "maintainer", "Wanted", CREATE)
            hub.deliver_all()
            until(lambda: inbox.counts()["jobs"])
            hub.faults.delay_next("create_git_commit", 3.0)
            drive()
            until(lambda: not hub.faults.waiting())
        with runtime.current().database.read() as session:
            rows = session.scalars(select(OutboxUpdate).where(OutboxUpdate.state == "pending")).all()
            assert [(row.lease_owner, row.outages, row.refusals) for row in rows if row.outages] == [(None, 1, 0)]
            assert all(row.lease_owner is None for row in rows)
        with TestClient(with_threads(hub, hub_server, app_keys[0])):
            until(lambda: bool(hub.pull_numbers("octo/kernels")))
        (number,) = hub.pull_numbers("octo/kernels")
        commits = [entry for entry in hub.conversation("octo/kernels", number) if isinstance(entry, CommitEntry)]
        assert len(commits) == 1


def until(condition: object, timeout_s: float = 20.0) -> None:
    assert callable(condition)
    end_s = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < end_s, "it did not come true in time"
        time.sleep(0.02)


def test_without_a_secret_the_service_does_not_start() -> None:
    with pytest.raises(ConfigurationError, match="KERNELSMITH_WEBHOOK_SECRETS"):
        create_app(ServiceSettings(token=SecretStr("t"), webhook_secrets=()))


def test_a_start_that_cannot_be_says_why_and_leaves(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("KERNELSMITH_WEBHOOK_SECRETS", raising=False)
    monkeypatch.setenv("KERNELSMITH_TOKEN", "a-token")
    assert server.main() == 2
    assert "KERNELSMITH_WEBHOOK_SECRETS" in capsys.readouterr().err
