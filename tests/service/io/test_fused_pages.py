"""The page of a fused model: its parts as they are proved, changes as they come, cancel; on a phone, and without JavaScript."""

from __future__ import annotations

import functools
import json
from dataclasses import replace

import pytest

from gpu_runner.contracts import Status, Verdict, to_json
from service.pages.parts import FAILED, PROVED, TORCH, WAITING, cut_picture, parts_of
from service.pages.shown import mark_of
from tests.service.io.samples import job, request
from tests.service.io.test_pages import EVIL, pages
from tests.workers.fuse.models import MLP, traced
from workers.contracts import ArtifactView, JobState, JobView, Verb
from workers.fuse.cut import Cut, cut
from workers.fuse.pages import picture, subgraphs
from workers.fuse.traced import Traced


@functools.cache
def traced_and_cut() -> tuple[Traced, Cut]:
    known = traced(MLP)
    return known, cut(known, lambda _: None)


def names() -> list[str]:
    return list(traced_and_cut()[1].parts)


def held_of_cut() -> dict[str, bytes]:
    known, parts = traced_and_cut()
    return {
        "subgraphs.json": json.dumps({"subgraphs": subgraphs(parts)}).encode(),
        "cut.md": f"```mermaid\n{picture(known, parts)}```\n".encode(),
    }


def verdict(status: Status) -> bytes:
    return json.dumps(to_json(Verdict(status))).encode()


def fused(**held: bytes) -> tuple[JobView, dict[str, bytes]]:
    """A job that fuses, with these artifacts besides its cut."""
    known = held_of_cut() | held
    artifacts = tuple(ArtifactView(name, f"digest of {name}", "text/plain", len(data)) for name, data in known.items())
    return job(request=request(verb=Verb.fuse), artifacts=artifacts), {
        f"digest of {n}": data for n, data in known.items()
    }


def test_the_picture_fills_as_parts_are_proved() -> None:
    known, held = fused(
        **{
            f"kernels_out/{names()[0]}/verdict.json": verdict(Status.passed),
            f"kernels_out/{names()[1]}/verdict.json": verdict(Status.incorrect_values),
        }
    )
    found = parts_of(known, held.__getitem__)
    assert found is not None and found.picture is not None
    assert [part.state for part in found.parts] == [PROVED, FAILED, WAITING]
    assert (found.proved, found.whole) == (1, "not tried yet")
    states = {box.title.split()[2]: box.state for box in found.picture.boxes if box.title.startswith("part")}
    assert states == dict(zip(names(), (PROVED, FAILED, WAITING), strict=True))
    assert sum(box.state == TORCH for box in found.picture.boxes) == 2
    with pages(known, **held) as client:
        text = client.get("/jobs/abcdefgh").text
    assert "1 of 3 proved" in text and text.count('<g class="proved">') == 1


def test_boxes_lie_below_what_they_wait_for_and_within_the_picture() -> None:
    found = cut_picture(picture(*traced_and_cut()), {})
    assert found is not None
    assert all(line.y1 < line.y2 for line in found.lines)
    assert all(box.x >= 0 and box.x + box.width <= 360 and box.y < found.height for box in found.boxes)
    assert cut_picture("", {}) is None
    assert cut_picture("\n".join(f'    n{place}["x"]' for place in range(1000)), {}) is None


def test_sources_stand_side_by_side_and_are_escaped() -> None:
    sources = {f"kernels_out/{names()[0]}/{file}.py": f"# {file} {EVIL}".encode() for file in ("problem", "candidate")}
    known, held = fused(**sources, **{f"kernels_out/{names()[0]}/verdict.json": verdict(Status.passed)})
    with pages(known, **held) as client:
        text = client.get("/jobs/abcdefgh").text
    assert "# problem &lt;script&gt;" in text and "# candidate &lt;script&gt;" in text and EVIL not in text


@pytest.mark.parametrize("name", ["subgraphs.json", "cut.md"])
def test_an_artifact_that_cannot_be_read_does_not_break_the_page(name: str) -> None:
    known, held = fused(**{name: b"\xff{"})
    with pages(known, **held) as client:
        assert client.get("/jobs/abcdefgh").status_code == 200


def test_another_job_has_no_parts() -> None:
    assert parts_of(job(), {}.__getitem__) is None


def test_a_page_hears_of_changes_until_the_job_ends() -> None:
    known, held = fused()
    with pages(replace(known, state=JobState.done), **held) as client:
        answer = client.get("/jobs/abcdefgh/changes")
        assert answer.headers["content-type"].startswith("text/event-stream")
        assert answer.text == "event: end\ndata: \n\n"
        assert client.get("/jobs/other/changes").status_code == 404
    states = iter([known, known, replace(known, queue_position=3), replace(known, state=JobState.done)])
    with pages(known, get=lambda _: next(states), **held) as client:
        told = client.get(f"/jobs/abcdefgh/changes?seen={mark_of(known)}").text
    assert told == f"event: change\ndata: {mark_of(replace(known, queue_position=3))}\n\nevent: end\ndata: \n\n"


def test_without_a_script_a_running_page_loads_itself_anew() -> None:
    known, held = fused()
    with pages(known, **held) as client:
        text = client.get("/jobs/abcdefgh").text
    assert '<noscript><meta http-equiv="refresh" content="10"></noscript>' in text


SAME = {"sec-fetch-site": "same-origin"}


def test_a_job_is_cancelled_by_its_own_page_alone() -> None:
    ended: list[str] = []
    known, held = fused()
    with pages(known, cancel=lambda job_id: not ended.append(job_id), **held) as client:
        assert "Cancel it now" in client.get("/jobs/abcdefgh").text
        for headers in ({}, {"sec-fetch-site": "cross-site"}, {"sec-fetch-site": "same-site"}):
            assert client.post("/jobs/abcdefgh/cancel", headers=headers).status_code == 403
        assert client.post("/jobs/other/cancel", headers=SAME).status_code == 404
        assert ended == []
        answer = client.post("/jobs/abcdefgh/cancel", headers=SAME, follow_redirects=False)
        assert (answer.status_code, answer.headers["location"], ended) == (303, "/jobs/abcdefgh", ["abcdefgh"])


def test_where_nobody_may_cancel_there_is_no_form() -> None:
    known, held = fused()
    with pages(known, **held) as client:
        assert "Cancel it now" not in client.get("/jobs/abcdefgh").text
        assert client.post("/jobs/abcdefgh/cancel", headers=SAME).status_code == 403
    with pages(replace(known, state=JobState.done), cancel=lambda _: True, **held) as client:
        assert "Cancel it now" not in client.get("/jobs/abcdefgh").text
