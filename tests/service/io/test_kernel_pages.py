"""The pages of kernels, some on both kinds of database: what they show, that nothing in them can act, and who may see them."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from urllib.parse import unquote, urlencode
from xml.etree import ElementTree as ET

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient
from sqlalchemy import delete

from service.addresses import Addresses
from service.pages.export import export_pages
from service.pages.kernels import badge, told_rows
from service.pages.routes import Pages, add_pages
from tests.service.io.samples import request
from tests.service.io.test_pages import EVIL, Elements
from tests.workers.nightly.numbers import H200, KEY, REPOSITORY, point
from tests.workers.store.fixtures import sqlite_first, world
from tests.workers.store.worlds import World
from workers import history as door
from workers import inbox
from workers.contracts import regression_key
from workers.history import ComparedSeries, Difference
from workers.nightly.detection import Candidate, NightEvidence, SeriesState
from workers.nightly.series import Metric, PointSource, SeriesKey, Testbed
from workers.nightly.views import TrendWeek, commits_shown
from workers.redaction import know
from workers.store import history, history_views
from workers.store.models import GpuWork, MeasuredPoint, StageAttempt

__all__ = ["sqlite_first", "world"]

NIGHTS = 30
LIBRARY = replace(KEY, workload="T=4096 I=11008 dtype=bfloat16", testbed=Testbed(H200.gpu))


@contextmanager
def client(password: str | None = None) -> Iterator[TestClient]:
    app = FastAPI()
    addresses = Addresses("https://bot.example", "https://github.example")
    add_pages(app, Pages(lambda: (), inbox.get_job, lambda _: b"", addresses, password, anybody=True))
    with TestClient(app) as made:
        yield made


def commit(night: int) -> str:
    return f"{night + 10:02x}" * 20


def at(night: int, value: float = 100.0, **more: object):
    return replace(point(night, value, **more), revision=commit(night))


def keep(world: World, *keys: SeriesKey, **more: object) -> None:
    """Keep a month of each series, in which night 20 is 8% slower; the clock stands at its end."""
    world.clock.now = point(NIGHTS).measured_at
    with world.runtime.database.write() as session:
        for night in range(NIGHTS):
            value = 108.0 if night >= 20 else 100.0
            numbers = at(night, value, low=value * 0.998, high=value * 1.002, floor_share=0.5, **more)
            history.add(session, [(key, numbers) for key in keys])
            history.add_commit(session, REPOSITORY, commit(night), "", numbers.measured_at)


def change(world: World, key: SeriesKey = KEY, state: SeriesState = SeriesState.confirmed) -> None:
    with world.runtime.database.write() as session:
        found = Candidate(commit(19), commit(20), 1.08, NightEvidence.band)
        history.keep_change(session, key, found, state, (1.079, 1.07, 1.09), at(20).measured_at)


def address(path: str, **values: str) -> str:
    return f"{path}?{urlencode({'repository': REPOSITORY} | values)}"


@pytest.mark.parametrize("database_url", ["sqlite", "postgresql"], indirect=True)
def test_the_overview_says_where_each_kernel_stands_on_each_gpu(world: World) -> None:
    backward, other = replace(KEY, timed_pass="backward"), replace(KEY, testbed=replace(H200, gpu="NVIDIA B200"))
    keep(world, KEY, backward, other, replace(KEY, workload="T=1"))
    change(world)
    with client() as pages:
        (small, big) = pages.get("/api/kernels").json()["kernels"]
        text = pages.get("/kernels").text
    assert (small["gpu"], big["gpu"]) == ("NVIDIA B200", "NVIDIA H200")
    assert small["last_change"] is None and small["confirmed_changes"] == 0
    assert (big["kernel"], big["timed_pass"], big["workload"]) == ("geglu", "forward", KEY.workload)
    assert (big["time_us"], big["floor_share"], big["commit"]) == (108.0, 0.5, commit(NIGHTS - 1))
    assert (big["last_change"]["state"], big["last_change"]["commit"]) == ("confirmed", commit(20))
    assert (big["trend"][0]["time_us"], big["trend"][-1]["time_us"]) == (100, 108)
    for expected in (
        '<span><a href="#gpu-1">NVIDIA B200</a></span>',
        '<a href="#gpu-2">NVIDIA H200</a> <span class="faint">(1 of 1 worse)</span>',
        '<h2 id="gpu-2">NVIDIA H200</h2>',
        '<a href="#jobs">active jobs</a>',
        "<em>of the floor</em>",
        "108\N{NO-BREAK SPACE}µs",
        "50%",
        "<polyline",
        f"https://github.example/{REPOSITORY}/commit/{commit(20)}",
    ):
        assert expected in text


def test_every_row_of_the_overview_leads_to_the_series_that_it_shows(world: World, tmp_path: Path) -> None:
    other, csv = replace(H200, gpu="NVIDIA B200"), Testbed("NVIDIA A100-SXM4-80GB")
    keep(world, replace(KEY, testbed=other, timed_pass="full", workload="T=1"), replace(KEY, testbed=other), KEY)
    with world.runtime.database.write() as session:
        history.add(session, [(KEY, at(NIGHTS, 90.0))])
        history.add(session, [(replace(LIBRARY, testbed=csv), at(3, 700.0, source=PointSource.library))])
    with client() as pages:
        states = pages.get("/api/kernels").json()["kernels"]
        links = re.findall(r'<td class="name"><a href="(/kernels/history[^"]*)"', pages.get("/kernels").text)
        asked = [pages.get(html.unescape(f"/api{link}")).json() for link in links]
    assert [state["gpu"] for state in states] == [csv.gpu, other.gpu, H200.gpu]
    for state, shown in zip(states, asked, strict=True):
        assert shown["chosen"] == {"metric": "time_us"} | {
            name: state[name] for name in ("gpu", "timed_pass", "workload")
        }
        assert shown["lines"][0]["points"][-1]["time_us"] == state["time_us"]
    export_pages(tmp_path, REPOSITORY, None, 200, 0)
    pages_linked = re.findall(r'<td class="name"><a href="([^"]+)"', (tmp_path / "index.html").read_text())
    assert len(set(pages_linked)) == 3
    for state, page in zip(states, pages_linked, strict=True):
        assert f"on {state['gpu']}</p>" in (tmp_path / page).read_text()


def test_a_last_change_of_another_pass_is_named_and_leads_to_its_chart_and_the_rows_own_goes_before(
    world: World,
) -> None:
    other = replace(KEY, timed_pass="backward", workload="T=1", metric=Metric.peak_bytes)
    keep(world, KEY, other)
    change(world, other)
    with client() as pages:
        text = pages.get("/kernels").text
        assert "peak memory, backward, T=1</span>" in text
        link = re.search(r'href="(/kernels/history[^"]*peak_bytes[^"]*)"', text)
        assert link and pages.get(html.unescape(link[1])).status_code == 200
    change(world)
    change(world, replace(KEY, workload="T=2"))
    with client() as pages:
        (state,) = pages.get("/api/kernels").json()["kernels"]
        assert "peak memory, backward" not in pages.get("/kernels").text
    last = state["last_change"]
    assert (last["timed_pass"], last["workload"], last["metric"]) == ("forward", KEY.workload, "time_us")


def test_a_change_older_than_the_chart_is_shown_where_its_link_leads(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("service.pages.routes.DEFAULT_LAST", 7)
    other = replace(KEY, testbed=replace(H200, gpu="NVIDIA B200"))
    keep(world, KEY, other)
    change(world, other)
    with client() as pages:
        (link,) = re.findall(r'class="word" href="(/kernels/history[^"]*)"', pages.get("/kernels").text)
        told = pages.get(html.unescape(f"/api{link}&last=7")).json()
        text = pages.get(html.unescape(f"{link}&last=7")).text
        newest = pages.get(address("/kernels/history", kernel="geglu", gpu="NVIDIA B200", last="7")).text
        compared = re.search(r'href="(/kernels/compare[^"]*)">compare', text)
        assert compared and "NVIDIA%20B200" in compared[1] and "1.079" in pages.get(html.unescape(compared[1])).text
    assert told["commits"] == [commit(night) for night in range(17, 24)] and told["around"] == commit(20)
    assert 'class="mark confirmed"' in text and f'around <a href="https://github.example/{REPOSITORY}/commit' in text
    assert 'class="mark confirmed"' not in newest and f"commit={commit(20)}" in newest


@pytest.mark.parametrize(
    ("last", "asked", "shown", "around"),
    [
        (4, "", "6789", None),
        (4, "7", "6789", None),
        (4, "gone", "6789", None),
        (4, "5", "3456", "5"),
        (4, "0", "0123", "0"),
        (3, "5", "456", "5"),
        (1, "2", "2", "2"),
        (50, "2", "0123456789", None),
        (None, "2", "0123456789", None),
    ],
)
def test_the_commits_shown_are_the_newest_or_stand_about_an_older_one(
    last: int | None, asked: str, shown: str, around: str | None
) -> None:
    assert commits_shown("0123456789", last, asked) == (tuple(shown), around)


def test_wrong_values_are_no_ratio_on_any_page(world: World) -> None:
    values = replace(KEY, metric=Metric.wrong_values, timed_pass="full", workload="all")
    keep(world, KEY)
    with world.runtime.database.write() as session:
        history.add(session, [(values, at(19, 0.0)), (values, at(20, 1.0))])
        found = Candidate(commit(19), commit(20), 1.0, NightEvidence.values)
        history.keep_change(session, values, found, SeriesState.confirmed, (1.0, None, None), at(20).measured_at)
    ends = {"before": commit(19), "after": commit(20), "metric": "wrong_values"}
    chosen = {"kernel": "geglu", "metric": "wrong_values"}
    with client() as pages:
        (row,) = pages.get(address("/api/kernels/compare", **ends)).json()["rows"]
        (line,) = pages.get(address("/api/kernels/history", **chosen)).json()["lines"]
        texts = [pages.get(address("/kernels/history", **chosen)).text, pages.get("/kernels").text]
    assert (row["difference"], row["one_run"], row["ratio"]) == ("wrong", True, None)
    assert [change["ratio"] for change in line["changes"]] == [None]
    assert all("</span> values " in text and "1.000" not in text for text in texts)
    assert f"values confirmed at {commit(20)[:12]}" in texts[0]


def test_the_overview_follows_each_number_and_each_change(world: World) -> None:
    keep(world, KEY)
    with client() as pages:

        def told() -> tuple[float, int]:
            (kernel,) = pages.get("/api/kernels").json()["kernels"]
            return kernel["time_us"], kernel["confirmed_changes"]

        seen = [told()]
        with world.runtime.database.write() as session:
            history.add(session, [(KEY, at(NIGHTS, 111.0))])
        seen.append(told())
        change(world)
        seen.append(told())
        with world.runtime.database.write() as session:
            key = regression_key(KEY.kernel, KEY.testbed.gpu)
            assert history.triage(session, REPOSITORY, key, "meant", world.clock.now) == 1
        seen.append(told())
    assert seen == [(108.0, 0), (111.0, 0), (111.0, 1), (111.0, 0)]


def test_a_library_csv_stands_for_a_kernel_only_where_nothing_was_measured(world: World) -> None:
    keep(world, KEY)
    late = replace(at(90, 50.0, source=PointSource.library), revision="v9.9")
    with world.runtime.database.write() as session:
        history.add(session, [(LIBRARY, late), (replace(LIBRARY, kernel="swiglu"), late)])
    with client() as pages:
        kernels = pages.get("/api/kernels").json()["kernels"]
    assert [(one["kernel"], one["source"], one["time_us"]) for one in kernels] == [
        ("geglu", "night", 108.0),
        ("swiglu", "library", 50.0),
    ]


def test_the_overview_shows_hosts_queues_and_jobs(world: World) -> None:
    keep(world, KEY)
    job_id = inbox.submit(request()).job_id
    now = world.clock.now
    with world.runtime.database.write() as session:
        attempt = session.query(StageAttempt).one()
        for number, (state, until) in enumerate((("running", now + 9), ("running", now - 9), ("pending", None))):
            session.add(
                GpuWork(
                    request_id=f"r{number}",
                    job_id=job_id,
                    attempt_id=attempt.id,
                    key=f"k{number}",
                    architecture="sm90",
                    request={},
                    files={},
                    state=state,
                    lease_until=until,
                    host="gpu<1>" if until else None,
                    created_at=now - 50,
                    started_at=now - 40 if until else None,
                )
            )
    with client() as pages:
        told = pages.get("/api/kernels").json()["operation"]
        text = pages.get("/kernels").text
    assert told["hosts"] == [{"host": "gpu<1>", "queues": ["sm90"], "running": 1, "lost": 1, "last_seen_at_s": now}]
    assert told["queues"] == [{"architecture": "sm90", "waiting": 2, "running": 1}]
    assert (told["active_jobs"], told["jobs"][0]["job_id"]) == (1, job_id)
    assert "gpu&lt;1&gt;" in text and "gpu.sm90" in text and f"/jobs/{job_id}" in text


@pytest.mark.parametrize("database_url", ["sqlite", "postgresql"], indirect=True)
def test_a_history_marks_change_points_and_confirmed_regressions_and_links_commits(world: World) -> None:
    keep(world, KEY)
    with client() as pages:
        before = pages.get(address("/kernels/history", kernel="geglu")).text
        change(world)
        text = pages.get(address("/kernels/history", kernel="geglu")).text
        (line,) = pages.get(address("/api/kernels/history", kernel="geglu")).json()["lines"]
    assert line["change_points"] == [commit(20)]
    assert line["points"][-1] == {
        "commit": commit(NIGHTS - 1), "measured_at_s": at(NIGHTS - 1).measured_at, "time_us": 108.0, "time_low_us": 108 * 0.998,
        "time_high_us": 108 * 1.002, "samples": None, "floor_share": 0.5, "sm_clock_mhz": None, "source": "night",
    }  # fmt: skip
    assert 'class="mark change_point"' in before and 'class="mark confirmed"' not in before
    assert 'class="mark confirmed"' in text and "1.079 times" in text
    assert text.count('<path class="dot') == NIGHTS
    assert f"https://github.example/{REPOSITORY}/commit/{commit(3)}" in text
    assert text.count("<tr>") == NIGHTS + 1  # the table says the same without the chart


def test_a_history_is_chosen_by_pass_size_and_length(world: World) -> None:
    backward = replace(KEY, timed_pass="backward")
    keep(world, KEY, backward, replace(backward, workload="T=1"), replace(KEY, metric=Metric.peak_bytes))
    with client() as pages:
        first = pages.get(address("/kernels/history", kernel="geglu")).text
        links = [unquote(link) for link in re.findall(r'href="(/kernels/history[^"]*)"', first.replace("&amp;", "&"))]
        chosen = [
            pages.get(link).status_code
            for link in re.findall(r'href="(/kernels/history[^"]*)"', first.replace("&amp;", "&"))
        ]
        short = pages.get(
            address("/api/kernels/history", kernel="geglu", timed_pass="backward", workload="T=1", last="7")
        ).json()
        memory = pages.get(address("/kernels/history", kernel="geglu", metric="peak_bytes")).text
        assert pages.get(address("/kernels/history", kernel="geglu", last="0")).status_code == 422
    assert any("timed_pass=backward" in link for link in links) and any("metric=peak_bytes" in link for link in links)
    assert set(chosen) == {200}
    assert (short["chosen"]["timed_pass"], short["chosen"]["workload"], len(short["commits"])) == ("backward", "T=1", 7)
    assert short["of_commits"] == NIGHTS
    assert "108\N{NO-BREAK SPACE}B" in memory


def test_the_library_s_own_numbers_and_another_testbed_are_lines_of_their_own(world: World) -> None:
    keep(world, KEY)
    newer = KEY.on(replace(H200, driver="590.1"))
    with world.runtime.database.write() as session:
        history.add(session, [(newer, at(NIGHTS + 1, 109.0))])
        for number, provider in enumerate(("kernel", "huggingface")):
            early = replace(at(-5, 120.0 + number, source=PointSource.library), revision="v0.5.0")
            history.add(session, [(replace(LIBRARY, provider=provider), early)])
    with client() as pages:
        told = pages.get(address("/api/kernels/history", kernel="geglu")).json()
        text = pages.get(address("/kernels/history", kernel="geglu")).text
    assert told["library_workload"] == LIBRARY.workload
    assert [(line["provider"], line["imported"], line["testbed"]["driver"]) for line in told["lines"]] == [
        ("kernel", False, "580.159.04"),
        ("kernel", False, "590.1"),
        ("kernel", True, ""),
        ("huggingface", True, ""),
    ]
    assert told["commits"][0] == "v0.5.0"
    assert f"https://github.example/{REPOSITORY}/tree/v0.5.0" in text


@pytest.mark.parametrize("database_url", ["sqlite", "postgresql"], indirect=True)
def test_two_commits_are_compared_by_their_first_letters(world: World) -> None:
    noisy, peak = replace(KEY, workload="noisy"), replace(KEY, metric=Metric.peak_bytes)
    lonely = KEY.on(replace(H200, driver="590.1"))
    keep(world, KEY, peak, replace(KEY, kernel="rope"))
    with world.runtime.database.write() as session:
        history.add(
            session, [(noisy, at(19, 100.0, low=90.0, high=115.0)), (noisy, at(20, 108.0, low=95.0, high=120.0))]
        )
        history.add(session, [(lonely, at(20, 90.0))])
    change(world, replace(KEY, kernel="rope"))
    with client() as pages:
        one, other = commit(19)[:6], commit(20)[:6]
        rows = pages.get(address("/api/kernels/compare", before=one, after=other)).json()["rows"]
        text = pages.get(address("/kernels/compare", before=one, after=other)).text
    found = {(row["kernel"], row["workload"], row["metric"], row["testbed"]["driver"]): row for row in rows}
    plain = found["geglu", KEY.workload, "time_us", H200.driver]
    assert (plain["before_time_us"], plain["after_time_us"], plain["difference"], plain["one_run"]) == (
        100,
        108,
        "slower",
        False,
    )
    assert plain["ratio_low"] == pytest.approx(1.08 * 0.998 / 1.002)
    compared = found["rope", KEY.workload, "time_us", H200.driver]
    assert (compared["ratio"], compared["ratio_low"], compared["difference"], compared["one_run"]) == (
        1.079,
        1.07,
        "slower",
        True,
    )
    assert found["geglu", "noisy", "time_us", H200.driver]["difference"] == "undecided"
    assert found["geglu", KEY.workload, "peak_bytes", H200.driver]["difference"] == "larger"
    alone = found["geglu", KEY.workload, "time_us", "590.1"]
    assert (alone["before_time_us"], alone["ratio"], alone["difference"]) == (None, None, "undecided")
    assert "2 slower" in text and "2 undecided" in text and "driver 590.1" in text


def test_what_a_comparison_left_undecided_is_not_called_slower(world: World) -> None:
    keep(world, KEY)
    change(world, state=SeriesState.undecided)
    with client() as pages:
        (row,) = pages.get(address("/api/kernels/compare", before=commit(19), after=commit(20))).json()["rows"]
    assert (row["difference"], row["one_run"]) == ("undecided", False)


def test_a_prefix_that_names_no_commit_or_several_is_answered(world: World) -> None:
    prefixes = dict.fromkeys(("0a0", "ffff", "%_%_"), "No commit that starts with") | {"aaaa": "several commits"}
    keep(world, KEY)
    with world.runtime.database.write() as session:
        history.add(session, [(KEY, replace(at(40 + end), revision="aaaa" + str(end) * 36)) for end in (1, 2)])
    with client() as pages:
        for prefix, told in prefixes.items():
            assert told in pages.get(address("/kernels/compare", before=prefix, after=commit(1))).text, prefix


def evil(world: World) -> SeriesKey:
    """Keep a kernel all of whose texts want to be markup."""
    key = replace(KEY, kernel=EVIL, workload=EVIL, testbed=Testbed(EVIL, EVIL[:90], EVIL[:90], EVIL[:90], EVIL[:90]))
    keep(world, key, replace(key, provider=EVIL[:90]), replace(key, testbed=Testbed(EVIL)))
    with world.runtime.database.write() as session:
        history.add(session, [(key, replace(at(50), revision=f'"><script>{EVIL}'))])
        history.add_commit(session, REPOSITORY, f'"><script>{EVIL}', "", 9e9)
    change(world, key)
    with world.runtime.database.write() as session:
        session.query(history.SeriesChange).update({"reason": EVIL})
    return key


def test_names_of_others_are_text_wherever_they_stand(world: World) -> None:
    key = evil(world)
    with client() as pages:
        for path in (
            "/kernels",
            address("/kernels/history", kernel=EVIL),
            address("/kernels/compare", before=commit(19), after=f'"><script>{EVIL}'),
            address("/kernels/compare", before=EVIL, after=EVIL, gpu=EVIL),
        ):
            answer = pages.get(path)
            assert answer.status_code == 200
            elements = Elements(answer.text)
            assert all(loaded.startswith(("/static/", "/badge.svg?")) for loaded in elements.loaded)
            assert elements.tags.count("script") == (1 if "history" in path else 0)
            assert "unsafe" not in answer.headers["content-security-policy"]
        svg = pages.get(address("/badge.svg", kernel=EVIL))
    assert "&lt;script&gt;" in svg.text and "<script" not in svg.text
    assert ET.fromstring(svg.text).tag.endswith("svg")
    assert "sandbox" in svg.headers["content-security-policy"]
    assert key.kernel == EVIL


def test_a_badge_is_well_formed_xml_whatever_its_letters() -> None:
    text = badge("a\x00\x0b\x1b<&\"'\ufffe" + "x" * 500, "ü µ", "#fff")
    assert ET.fromstring(text).tag.endswith("svg")
    assert len(text) < 1500


def test_a_badge_says_the_share_or_the_time_or_that_there_is_none(world: World) -> None:
    keep(world, KEY)
    with client() as pages:
        told = [
            pages.get(address("/badge.svg", **values)).text
            for values in ({"kernel": "geglu"}, {"kernel": "geglu", "shows": "time"}, {"kernel": "no"})
        ]
        with world.runtime.database.write() as session:
            history.add(session, [(replace(KEY, metric=Metric.wrong_values), at(NIGHTS, 1.0))])
        wrong = pages.get(address("/badge.svg", kernel="geglu")).text
    assert "geglu · H200: 50% of the floor" in told[0] and "108 µs" in told[1] and "no number" in told[2]
    assert "wrong values" in wrong


def test_no_page_shows_a_secret(world: World) -> None:
    know(["<correct> & horse"])
    secret = "sk-" + "a1B2c3D4" * 4
    keep(world, replace(KEY, kernel=f"k {secret}", workload="<correct> & horse"))
    with client() as pages:
        for path in ("/kernels", "/api/kernels", address("/kernels/compare", before=commit(1), after=commit(2))):
            assert "a1B2c3D4" not in pages.get(path).text and "horse" not in pages.get(path).text


def test_one_password_guards_pages_json_and_badges(world: World) -> None:
    keep(world, KEY)
    paths = [
        "/kernels",
        "/api/kernels",
        address("/kernels/history", kernel="geglu"),
        address("/api/kernels/history", kernel="geglu"),
        address("/kernels/compare"),
        address("/api/kernels/compare", before="aaaa", after="bbbb"),
        address("/badge.svg", kernel="geglu"),
    ]
    with client("open sesame") as pages:
        assert [pages.get(path).status_code for path in paths] == [401] * len(paths)
        assert [pages.get(path, auth=("me", "open sesame")).status_code for path in paths] == [200] * len(paths)


def test_what_is_not_there_gets_404(world: World) -> None:
    with client() as pages:
        assert "import-history" in pages.get("/kernels").text
        keep(world, KEY)
        for path in ("/kernels?repository=no/such", address("/kernels/history", kernel="no"), "/kernels/compare?repository=no/such",
                     address("/kernels/compare", before="aaaa", after="bbbb", metric="speed")):  # fmt: skip
            assert pages.get(path).status_code == 404
        assert pages.get(address("/kernels/history", kernel="geglu", gpu="another", workload="T=0")).status_code == 200


def test_no_letter_of_an_address_is_a_fault(world: World) -> None:
    keep(world, KEY)
    with client() as pages:
        for odd in ("\x00", "a\x00b", "%", "____", "\N{PILE OF POO}" * 4, "\udcff", "'; --"):
            text = odd.encode("utf-8", "surrogateescape")
            asked = [("repository", text), ("kernel", text), ("gpu", text), ("before", text * 4), ("after", text)]
            ours = [("repository", REPOSITORY.encode()), *asked[1:]]
            for path in (
                "/kernels",
                "/kernels/history",
                "/kernels/compare",
                "/badge.svg",
                "/api/kernels/history",
                "/api/kernels/compare",
            ):
                for query in (asked, ours):
                    assert pages.get(f"{path}?{urlencode(query)}").status_code in (200, 404, 422), (path, odd)
        assert [pages.get(path).status_code for path in ("/jobs/a%00", "/jobs/a%00/artifacts/b", "/kernels?x=%00")] == [
            404
        ] * 3


def test_an_export_links_only_to_its_own_files_and_to_commits(world: World, tmp_path: Path) -> None:
    evil(world)
    keep(
        world,
        KEY,
        replace(KEY, kernel="../../up"),
        replace(KEY, kernel="GEGLU"),
        replace(KEY, metric=Metric.peak_bytes),
    )
    folder = tmp_path / "site" / "speed"
    count = export_pages(folder, REPOSITORY, "https://github.example/acme/kernels", 20, 3)
    written = [path for path in (tmp_path / "site").rglob("*") if path.is_file()]
    assert len(written) == count and all(path.is_relative_to(folder) for path in written)
    assert len({str(path).lower() for path in written}) == count
    pages = list(folder.glob("*.html"))
    for page in pages:
        elements = Elements(page.read_text(encoding="utf-8"))
        links = re.findall(r'(?:href|src|action)="([^"]*)"', page.read_text(encoding="utf-8"))
        assert elements.tags.count("form") == 0
        for link in links:
            is_here = link.startswith("#") and f'id="{link[1:]}"' in page.read_text(encoding="utf-8")
            is_there = link.startswith("https://github.example/acme/kernels/") or (folder / link).is_file()
            assert is_here or is_there, link
    assert {json.loads(path.read_text())["repository"] for path in folder.glob("api/*.json")} == {REPOSITORY}
    assert len(list(folder.glob("badges/*.svg"))) == 2 * 4
    assert any("compare-" in page.name for page in pages)


def test_a_comparison_shows_what_became_worse_first_and_then_what_became_better() -> None:
    words = [Difference.same, Difference.faster, Difference.undecided, Difference.slower, Difference.same]
    rows = [
        ComparedSeries(f"k{place}", "full", "H=1", "time_us", H200, 1.0, 1.0, 1.0, None, None, word, False)
        for place, word in enumerate(words)
    ]
    assert [row.kernel for row in told_rows(rows)] == ["k3", "k1", "k0", "k2", "k4"]
    assert [row.kernel for row in told_rows(rows, 1)] == ["k3"]


def test_weeks_that_are_over_are_read_once_and_the_last_two_each_time(world: World) -> None:
    keep(world, KEY)
    past: dict[int, tuple[TrendWeek, ...]] = {}
    with world.runtime.database.read() as session:
        (state,) = history_views.states(session, REPOSITORY, world.clock.now, past=past)
    (kept,) = past.values()
    assert 0 < len(kept) < len(state.trend)
    with world.runtime.database.write() as session:
        session.execute(delete(MeasuredPoint).where(MeasuredPoint.measured_at < kept[-1].from_s))
        (again,) = history_views.states(session, REPOSITORY, world.clock.now, past=past)
        (fresh,) = history_views.states(session, REPOSITORY, world.clock.now)
    assert again.trend == state.trend
    assert len(fresh.trend) < len(state.trend)


def test_an_overview_that_was_prepared_after_a_night_is_not_read_again(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    keep(world, KEY)
    assert door.warm() is False
    with client() as pages:
        expected = pages.get("/kernels").text
        with monkeypatch.context() as patch:
            patch.setattr(history_views, "states", None)
            assert pages.get("/kernels").text == expected
            with world.runtime.database.write() as session:
                history.add(session, [(KEY, at(90, 300.0))])
            with pytest.raises(TypeError):
                pages.get("/kernels")
        assert door.warm() is False
        with monkeypatch.context() as patch:
            patch.setattr(history_views, "states", None)
            assert "300" in pages.get("/kernels").text
