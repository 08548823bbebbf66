"""Every text of every contract poisoned at once: the message stays ours."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator
from enum import Enum
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from markdown_it.token import Token

from service.report.job import check_run_output, checkpoint_comment, report_comment
from service.report.layout import MessageKind, find_marker, length, signed
from service.report.pull_request import pull_request_body, pull_request_title
from service.report.replies import reply_configuration, reply_failure
from service.report.status import status_comment
from tests.service.report.facts import (
    CHECKPOINTS,
    DONE,
    FAILURE,
    GENERATED,
    INTERPRETED,
    LINKS,
    PROBLEM,
    PROFILE,
    STOPPED,
    VALIDATED,
    VERDICT,
    WAITING,
    WRONG,
)
from tests.service.report.kernels_facts import FINALIZED, MEASURE, OPTIMIZED, PROFILE_SUMMARY, V1, V2, V3
from tests.service.report.test_attempts import TRIED
from tests.service.report.test_escape import LIVE, PIECES
from tests.service.report.test_fused import FUSED
from tests.service.report.test_modified import BROKEN, CHANGE, REPORT
from tests.service.report.test_ported import PORT
from workers.contracts import CheckpointUpdate, JobView, PullRequestUpdate, ReportUpdate, StageName, Summary

READER = MarkdownIt("commonmark").enable(["table", "strikethrough"])
V4 = dataclasses.replace(V1, attempts=TRIED)
OTHERS: tuple[tuple[StageName, Summary], ...] = (
    (StageName.profile, PROFILE_SUMMARY),
    (StageName.optimize, dataclasses.replace(OPTIMIZED, variants=(V1, V2, V3, V4))),
    (StageName.finalize, dataclasses.replace(FINALIZED, variants=(V1, V4))),
    (StageName.modify, CHANGE),
    (StageName.modify, BROKEN),
    (StageName.confirm, REPORT),
    (StageName.port, PORT),
    (StageName.compose, FUSED),
)
OURS = re.compile(
    r"</?(?:details|summary|sub|code)>|<br>|<!-- kernelsmith:job=j7k2 kind=[a-z]+(?: key=[a-z0-9-]+)? -->"
)
KEPT = {"job_id"}
POISON = st.lists(st.one_of(st.sampled_from(PIECES), st.text(max_size=8)), min_size=1, max_size=5).map(" ".join)
URLS = {"speed.png": "https://github.com/octo-org/library/raw/0123456/speed.png"}


def poisoned(value: Any, poison: str) -> Any:
    """Give a contract with every text in it replaced."""
    if isinstance(value, str) and not isinstance(value, Enum):
        return poison
    if isinstance(value, tuple):
        return tuple(poisoned(item, poison) for item in value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        changed = {
            field.name: poisoned(getattr(value, field.name), poison)
            for field in dataclasses.fields(value)
            if field.name not in KEPT
        }
        return dataclasses.replace(value, **changed)
    return value


def messages(poison: str) -> Iterator[str]:
    views: list[JobView] = [poisoned(view, poison) for view in (WAITING, STOPPED, DONE)]
    for view in views:
        yield status_comment(view, LINKS)
    wrong = CheckpointUpdate(StageName.generate, 2, dataclasses.replace(GENERATED, verdict=WRONG))
    for update in (*CHECKPOINTS.values(), wrong):
        yield checkpoint_comment(poisoned(update, poison), views[0], LINKS, URLS)
    for stage, summary in OTHERS:
        yield checkpoint_comment(poisoned(CheckpointUpdate(stage, 1, summary), poison), views[0], LINKS, URLS)
    for report in (
        ReportUpdate(VALIDATED),
        ReportUpdate(INTERPRETED),
        *(ReportUpdate(summary) for _, summary in OTHERS),
        ReportUpdate(MEASURE),
        ReportUpdate(failure=FAILURE),
        ReportUpdate(cancelled_by="x"),
    ):
        yield report_comment(poisoned(report, poison), views[1], LINKS, URLS)
    for verdict in (VERDICT, WRONG):
        yield pull_request_body(poisoned(PullRequestUpdate(PROFILE, PROBLEM, verdict), poison), views[0], LINKS)
    reply = reply_failure(poisoned(FAILURE, poison))
    yield signed(f"{reply}\n\n{reply_configuration(1, poison, poison)}", "j7k2", MessageKind.reply, "x")


def leaves(tokens: list[Token]) -> Iterator[Token]:
    for token in tokens:
        yield token
        yield from leaves(token.children or [])


# Every piece once, five at a time.
FIVES = [" ".join(PIECES[at : at + 5]) for at in range(0, len(PIECES), 5)]


@pytest.mark.parametrize("poison", FIVES)
def test_no_text_of_others_does_anything_in_any_message(poison: str) -> None:
    assert_does_nothing(poison)


@pytest.mark.long
@pytest.mark.slow
@settings(max_examples=25)
@given(POISON)
def test_no_text_at_random_does_anything_in_any_message(poison: str) -> None:
    assert_does_nothing(poison)


def assert_does_nothing(poison: str) -> None:
    for message in messages(poison):
        tokens = READER.parse(message)
        assert length(message) <= 65_536
        assert find_marker(message) is not None
        assert tokens[-1].type == "html_block"
        in_code = False  # GitHub links nothing inside of a code element
        for leaf in leaves(tokens):
            assert leaf.type != "image"
            in_code = (in_code or leaf.content == "<code>") and leaf.content != "</code>"
            if leaf.type in ("html_block", "html_inline"):
                rest = OURS.sub("", leaf.content)
                assert "<" not in rest, leaf.content
            if leaf.type == "link_open":
                assert str(leaf.attrs["href"]).startswith(
                    ("https://github.com/octo-org/library/", "https://bot.example/")
                )
            if leaf.type == "text" and not in_code:
                assert LIVE.search(leaf.content.replace("#12", "")) is None, leaf.content


@settings(max_examples=25)
@given(POISON)
def test_titles_stay_one_line(poison: str) -> None:
    view = poisoned(STOPPED, poison)
    update = poisoned(PullRequestUpdate(PROFILE, PROBLEM), poison)
    titles = [pull_request_title(update, view)]
    titles += [
        check_run_output(poisoned(item, poison), view).title
        for item in (*CHECKPOINTS.values(), ReportUpdate(failure=FAILURE))
    ]
    for title in titles:
        assert "\n" not in title
        assert 0 < len(title) <= 120
        assert not re.search(r"@[A-Za-z0-9]|#\d", title)
