"""A host that keeps children apart by nothing but their environment runs none of them, unless it says that it may."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gpu_runner import __main__ as runner
from gpu_runner import doctor
from gpu_runner.context import RunContext
from gpu_runner.contracts import (
    Action,
    CaptureRequest,
    DoctorRequest,
    GpuRequest,
    GpuResult,
    Isolation,
    Limits,
    RunnerError,
    from_json,
    to_json,
)
from gpu_runner.errors import IsolationUnavailable
from gpu_runner.sandbox import levels
from gpu_runner.session import ChildSession
from gpu_runner.settings import REQUIRE_ISOLATION, required_isolation
from tests.service.io.samples import PROBLEM

LIMITS = Limits(time_s=60.0, step_s=30.0)
PROCESS = (Isolation.process,)


@pytest.fixture
def weak(monkeypatch: pytest.MonkeyPatch) -> None:
    """A host on which nothing holds but the level ``process``, and that says nothing of it."""
    refused = {(level, False): "Function not implemented" for level in levels.APART}
    monkeypatch.setattr(levels, "_refused", refused)
    monkeypatch.delenv(REQUIRE_ISOLATION)


def test_a_weak_host_refuses_and_says_the_fix(weak: None) -> None:
    with pytest.raises(IsolationUnavailable) as refused, ChildSession("probe", LIMITS, gpu=False):
        pass
    told = str(refused.value)
    for part in ("landlock", "namespaces", "Function not implemented", "lsm", f"{REQUIRE_ISOLATION}='[\"process\"]'"):
        assert part in told


def test_a_weak_host_runs_where_it_says_so(weak: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(REQUIRE_ISOLATION, '["process"]')
    with ChildSession("probe", LIMITS, gpu=False) as session:
        assert session.isolation == PROCESS
    monkeypatch.delenv(REQUIRE_ISOLATION)
    with ChildSession("probe", LIMITS, PROCESS, gpu=False) as session:
        assert session.isolation == PROCESS


def test_what_is_required_by_name_is_not_made_up_for_by_another_level() -> None:
    told = levels.shortfall((Isolation.landlock,), (Isolation.process, Isolation.namespaces), gpu=False)
    assert told is not None
    assert "the level landlock that is required" in told


def test_a_request_to_a_weak_host_ends_with_the_fix(weak: None, tmp_path: Path) -> None:
    form = to_json(GpuRequest("r1", Action.capture, to_json(CaptureRequest(PROBLEM)), LIMITS))
    (tmp_path / "request.json").write_text(json.dumps(form))
    assert runner.main(["--request", str(tmp_path / "request.json"), "--result", str(tmp_path / "result")]) == 0
    result = from_json(GpuResult, json.loads((tmp_path / "result" / "result.json").read_text()))
    assert result.payload is None
    assert REQUIRE_ISOLATION in (result.error or "")


def test_doctor_says_of_a_weak_host_that_it_works_on_nothing(
    weak: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = doctor.run(DoctorRequest(quick=True), RunContext(tmp_path, LIMITS)).problems
    assert any("No request is carried out here" in problem for problem in told)
    monkeypatch.setenv(REQUIRE_ISOLATION, '["process"]')
    told = doctor.run(DoctorRequest(quick=True), RunContext(tmp_path, LIMITS)).problems
    assert not any("No request is carried out here" in problem for problem in told)


@pytest.mark.parametrize("level", sorted(levels.APART))
def test_either_of_the_levels_that_keep_apart_will_do(level: Isolation) -> None:
    assert levels.shortfall((), (Isolation.process, level), gpu=False) is None


@pytest.mark.parametrize("text", ["landlock", '["walls"]', "{}x", "7", '["process", 1]'])
def test_a_setting_that_is_no_list_of_levels_is_refused(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(REQUIRE_ISOLATION, text)
    with pytest.raises(RunnerError, match=REQUIRE_ISOLATION):
        required_isolation()


def test_doctor_says_that_a_gpu_of_another_maker_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "kfd").touch()
    monkeypatch.setattr(doctor, "AMD_COMPUTE", tmp_path / "kfd")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    report = doctor.run(DoctorRequest(quick=True), RunContext(tmp_path, LIMITS))
    assert doctor.OTHER_GPU in report.problems
    assert report.architecture == "interpreter"
