"""What a GPU host is asked of edited kernels, and that its results alone answer the nights."""

import io
import json
import tarfile
from pathlib import Path

import pytest

from gpu_runner.contracts import (
    Action,
    BenchmarkRequest,
    BenchmarkResult,
    CandidateSource,
    Comparison,
    GpuRequest,
    Pass,
    SourceFile,
    Status,
    Timing,
    Verdict,
    VerifyRequest,
    Word,
    Workload,
    WorkloadTiming,
    from_json,
    to_json,
)
from tests.real_history import stand_in
from tests.real_history.edited import ASKED, EDITED, EDITS, NEIGHBOUR, OPS, digest_of
from tests.real_history.stand_in import Machine

FACTS = {"driver": "590", "gpu": "NVIDIA H100"}
FORMS = {"as-it-is": b"x = 1\n", "edited": b"x = 2\n"}
ROW = Workload((("T", 1024),))


def test_an_edit_of_another_release_is_refused() -> None:
    with pytest.raises(ValueError, match="the release has no"):
        EDITS["geglu"].apply("c = torch.zeros_like(a)\n")
    assert "(2, *a.shape)" in EDITS["geglu"].apply("    c = torch.empty_like(a)\n")


def test_every_pair_that_a_night_and_a_bisection_ask_for_is_measured() -> None:
    asked = {(one.kernel, one.action, one.new, one.old) for one in ASKED}
    for kernel, edit in EDITS.items():
        is_timed = edit.shown_by.value != "wrong_values"
        for new, old in (("as-it-is", "as-it-is"), (EDITED, "as-it-is"), (EDITED, EDITED)):
            assert (kernel, Action.verify, new, old) in asked
            assert not is_timed or (kernel, Action.benchmark, new, old) in asked
        assert any(one.kernel == kernel and one.beside == NEIGHBOUR for one in ASKED)


def test_a_comparison_is_answered_by_a_run_of_the_same_forms(tmp_path: Path) -> None:
    keep(tmp_path, "1", Action.benchmark, "as-it-is", "as-it-is", timed(100.0, 100.0))
    keep(tmp_path, "2", Action.benchmark, "edited", "as-it-is", timed(104.0, 100.0))
    keep(tmp_path, "3", Action.benchmark, "as-it-is", "as-it-is", timed(150.0, 150.0), beside=NEIGHBOUR)
    found = ask(tmp_path, Machine(1, "590", 1.1), "edited", "as-it-is")
    assert [one.median_us for one in found.rows[0].timings] == pytest.approx([114.4, 110.0])
    assert found.rows[0].comparisons[0].word is Word.slower and dict(found.host) == FACTS
    alone = ask(tmp_path, Machine(1, "590"), "edited", None)
    assert [(one.contender, one.median_us) for one in alone.rows[0].timings] == [("candidate", 104.0)]
    assert alone.rows[0].comparisons == ()
    noisy = ask(tmp_path, Machine(1, "590", beside=NEIGHBOUR), "as-it-is", "as-it-is")
    assert noisy.rows[0].timings[0].median_us == 150.0
    with pytest.raises(ValueError, match="no run that answers"):
        ask(tmp_path, Machine(1, "590"), "as-it-is", "edited")


def test_a_verdict_is_that_of_a_run(tmp_path: Path) -> None:
    keep(tmp_path, "1", Action.verify, "edited", "as-it-is", Verdict(Status.incorrect_values))
    forms = [form(tmp_path, name) for name in ("edited", "as-it-is")]
    request = GpuRequest("r", Action.verify, to_json(VerifyRequest("", forms[0], original=forms[1])))
    answer = stand_in._recorded(request, Machine(1, "590"), FACTS, tmp_path, tmp_path)
    assert isinstance(answer, Verdict) and answer.status is Status.incorrect_values


def timed(candidate_us: float, original_us: float) -> BenchmarkResult:
    word = Word.slower if candidate_us > original_us else Word.same
    speedup = original_us / candidate_us
    both = (Timing("candidate", candidate_us, blocks=12), Timing("original", original_us))
    compared = (Comparison("candidate", "original", speedup, speedup, speedup, word, 40),)
    row = WorkloadTiming(ROW, Pass.forward, both, None, None, None, comparisons=compared)
    return BenchmarkResult((row,), False, "NVIDIA H100", 3000.0)


def keep(
    folder: Path, name: str, action: Action, new: str, old: str, payload: BenchmarkResult | Verdict, beside: str = ""
) -> None:
    for place in (folder / "requests" / name, folder / "results" / name):
        place.mkdir(parents=True)
    about = ["geglu", action.value, digest_of(FORMS[new]), digest_of(FORMS[old]), beside]
    (folder / "requests" / name / "about.json").write_text(json.dumps(about))
    (folder / "results" / name / "result.json").write_text(json.dumps({"payload": to_json(payload)}))


def form(folder: Path, name: str) -> CandidateSource:
    with tarfile.open(folder / f"{name}.tar.gz", "w:gz") as archive:
        entry = tarfile.TarInfo(f"snapshot/{OPS}/geglu.py")
        entry.size = len(FORMS[name])
        archive.addfile(entry, io.BytesIO(FORMS[name]))
    caller = SourceFile("tests/call.py", "from liger_kernel.ops.geglu import LigerGELUMulFunction\n")
    return CandidateSource((caller,), module="call", tree=f"{name}.tar.gz")


def ask(folder: Path, machine: Machine, new: str, old: str | None) -> BenchmarkResult:
    original = None if old is None else form(folder, old)
    request = GpuRequest("r", Action.benchmark, to_json(BenchmarkRequest("", form(folder, new), original=original)))
    answer = to_json(stand_in._recorded(request, machine, FACTS, folder, folder))
    return from_json(BenchmarkResult, answer)
