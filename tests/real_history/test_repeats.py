"""What is run a second time of measured releases, and what both runs make of a change."""

import json
from pathlib import Path

from gpu_runner.contracts import BenchmarkResult, Comparison, Pass, Word, Workload, WorkloadTiming, to_json
from tests.real_history.__main__ import again, pairs

LARGE, SMALL = Workload((("T", 4096),)), Workload((("T", 1024),))


def test_a_second_run_is_asked_for_until_each_changed_size_has_one(tmp_path: Path) -> None:
    ask(tmp_path, "swiglu-0.8.1")
    keep(tmp_path, "swiglu-0.8.1", {LARGE: Word.slower, SMALL: Word.slower})
    assert asked_again(tmp_path) == ["swiglu-0.8.1-again"]
    assert asked_again(tmp_path) == ["swiglu-0.8.1-again"], "it has no result yet"
    keep(tmp_path, "swiglu-0.8.1-again", {LARGE: Word.slower})
    assert asked_again(tmp_path, 52.0) == ["swiglu-0.8.1-again", "swiglu-0.8.1-again2"]
    request = json.loads((tmp_path / "requests/swiglu-0.8.1-again2/request.json").read_text())
    assert request == {"request_id": "swiglu-0.8.1-again2", "payload": {"budget_s": 52.0}}
    keep(tmp_path, "swiglu-0.8.1-again2", {LARGE: Word.same, SMALL: Word.same})
    assert asked_again(tmp_path) == ["swiglu-0.8.1-again", "swiglu-0.8.1-again2"]
    (pair,) = pairs(tmp_path)
    assert {row.workload: row.outcome for row in pair.rows} == {"T=4096": "slower, confirmed", "T=1024": "undecided"}


def test_what_did_not_change_is_not_run_again(tmp_path: Path) -> None:
    ask(tmp_path, "swiglu-0.8.1")
    keep(tmp_path, "swiglu-0.8.1", {LARGE: Word.same, SMALL: Word.undecided})
    assert asked_again(tmp_path) == []


def test_a_size_that_only_a_repeat_had_time_for_is_no_row(tmp_path: Path) -> None:
    ask(tmp_path, "swiglu-0.8.1")
    ask(tmp_path, "swiglu-0.8.1-again")
    keep(tmp_path, "swiglu-0.8.1", {LARGE: Word.faster})
    keep(tmp_path, "swiglu-0.8.1-again", {LARGE: Word.faster, SMALL: Word.slower})
    (pair,) = pairs(tmp_path)
    assert [(row.workload, row.outcome) for row in pair.rows] == [("T=4096", "faster, confirmed")]


def test_a_second_run_that_was_not_asked_for_counts(tmp_path: Path) -> None:
    ask(tmp_path, "swiglu-0.8.1")
    keep(tmp_path, "swiglu-0.8.1", {LARGE: Word.slower})
    keep(tmp_path, "swiglu-0.8.1-again", {LARGE: Word.slower})
    assert asked_again(tmp_path) == []
    (pair,) = pairs(tmp_path)
    assert [row.outcome for row in pair.rows] == ["slower, confirmed"]


def ask(folder: Path, name: str) -> None:
    place = folder / "requests" / name
    place.mkdir(parents=True)
    (place / "about.json").write_text(json.dumps(["swiglu", "0.8.1", "0.8.0"]))
    (place / "request.json").write_text(json.dumps({"request_id": name, "payload": {"budget_s": 26.0}}))


def keep(folder: Path, name: str, words: dict[Workload, Word]) -> None:
    place = folder / "results" / name
    place.mkdir(parents=True)
    rows = tuple(
        WorkloadTiming(
            workload,
            Pass.forward,
            (),
            None,
            None,
            None,
            comparisons=(Comparison("candidate", "original", 1.0, 1.0, 1.0, word, 40),),
        )
        for workload, word in words.items()
    )
    result = BenchmarkResult(rows, False, "NVIDIA H100 80GB HBM3", 3000.0)
    (place / "result.json").write_text(json.dumps({"payload": to_json(result)}))


def asked_again(folder: Path, budget_s: float | None = None) -> list[str]:
    again(folder, budget_s)
    return sorted(path.name for path in folder.glob("requests/*-again*"))
