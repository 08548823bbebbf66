from __future__ import annotations

import json

import pytest

from tests.workers.engine.fakes import PROFILE, request
from workers.contracts import (
    AnalyzeSummary,
    AssetsUpdate,
    CheckpointUpdate,
    CloseUpdate,
    CommitPurpose,
    CommitUpdate,
    DigestUpdate,
    Failure,
    FailureCode,
    FileChange,
    Image,
    NightChange,
    PullRequestUpdate,
    ReadyUpdate,
    RegressionUpdate,
    ReminderUpdate,
    ReportUpdate,
    StageName,
    StatusUpdate,
    Update,
)
from workers.store.codec import KINDS, MAX_TEXT, read_request, read_update, storable, update_form
from workers.times import iso

SAMPLES: tuple[Update, ...] = (
    StatusUpdate(),
    CommitUpdate(CommitPurpose.kernel, (FileChange("a.py", "x\r\n"), FileChange("b.py", None)), StageName.generate, 2),
    PullRequestUpdate(PROFILE, "def reference(a): return a"),
    AssetsUpdate((Image("speed.png", "0" * 64, "a table"),)),
    CheckpointUpdate(StageName.analyze, 1, AnalyzeSummary(PROFILE, "problem", "compiler", ("a note",)), decides=False),
    ReminderUpdate(StageName.analyze, 1, "2026-11-01T00:00:00+00:00"),
    ReadyUpdate(),
    CloseUpdate(),
    RegressionUpdate(
        "geglu",
        "NVIDIA H200",
        "c" * 40,
        (NightChange("geglu", "forward", "T=4096", "time_us", "confirmed", "band", "a", "b", 1.1, 1.05, 1.15),),
        stands=True,
    ),
    DigestUpdate(
        "NVIDIA H200",
        "c" * 40,
        1_700_438_400.0,
        (NightChange("geglu", "forward", "T=4096", "time_us", "improved", "faster", "a", "b", 0.8, 0.79, 0.81),),
    ),
    ReportUpdate(failure=Failure(FailureCode.tests, "two tests fail", log="\x00\ud800")),
    ReportUpdate(cancelled_by="mona"),
)


@pytest.mark.parametrize("update", SAMPLES, ids=lambda u: type(u).__name__)
def test_update_comes_back_from_its_json_as_it_was(update: Update) -> None:
    assert read_update(json.loads(json.dumps(update_form(update)))) == update


def test_every_kind_of_update_is_tried() -> None:
    assert {type(u).__name__ for u in SAMPLES} == set(KINDS)


def test_unknown_kind_of_update_is_named() -> None:
    with pytest.raises(ValueError, match="TeleportUpdate"):
        read_update({"$": "TeleportUpdate"})


def test_request_comes_back_as_it_was() -> None:
    from gpu_runner.contracts import to_json

    assert read_request(json.loads(json.dumps(to_json(request(auto=True))))) == request(auto=True)


def test_long_text_is_cut_with_a_sign() -> None:
    assert storable("x" * (MAX_TEXT + 1)) == "x" * (MAX_TEXT - 1) + "…"
    assert storable("x" * MAX_TEXT) == "x" * MAX_TEXT


def test_times_are_utc_to_the_millisecond() -> None:
    assert iso(1_800_000_000.1234) == "2027-01-15T08:00:00.123+00:00"
    assert iso(None) is None
