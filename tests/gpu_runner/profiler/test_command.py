"""How the profiler is found and called, and that its refusals are told with their fix."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpu_runner.profiler import command, metrics


def put(root: Path, name: str) -> Path:
    path = root / name
    path.parent.mkdir(parents=True)
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return path


def test_the_newest_profiler_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    put(tmp_path, "opt/nvidia/nsight-compute/2024.3.2/ncu")
    newest = put(tmp_path, "opt/nvidia/nsight-compute/2025.10.0/ncu")
    assert command.find_profiler(tmp_path, [str(tmp_path)]) == newest
    in_toolkit = put(tmp_path, "usr/local/cuda-12.9/bin/ncu")
    assert command.find_profiler(tmp_path, [str(tmp_path)]) == in_toolkit


def test_what_is_on_the_path_goes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    on_path = put(tmp_path, "bin/ncu")
    put(tmp_path, "usr/local/cuda-12.9/bin/ncu")
    monkeypatch.setenv("PATH", str(on_path.parent))
    assert command.find_profiler(tmp_path, [str(tmp_path)]) == on_path


def test_a_profiler_that_a_child_may_not_read_is_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hidden = put(tmp_path, "home/someone/bin/ncu")
    shown = put(tmp_path, "usr/local/cuda-12.9/bin/ncu")
    monkeypatch.setenv("PATH", str(hidden.parent))
    assert command.find_profiler(tmp_path, [str(tmp_path / "usr")]) == shown


def test_without_a_profiler_there_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    assert command.find_profiler(tmp_path, [str(tmp_path)]) is None


def test_the_program_comes_last_and_starts_unprofiled() -> None:
    line = command.command("/ncu", "/log.csv", ["a.sum", "b.pct"], ["python", "-m", "x"])
    assert (line[0], line[-3:]) == ("/ncu", ["python", "-m", "x"])
    assert line[line.index("--profile-from-start") + 1] == "off"
    assert line[line.index("--metrics") + 1] == "a.sum,b.pct"
    assert line[line.index("--config-file") + 1] == "off"
    assert line[line.index("--clock-control") + 1] == "none"


def test_a_counter_that_is_not_there_is_left_out() -> None:
    log = "==ERROR== Failed to find metric regex:^smsp__average_warps_issue_stalled_branch_resolve_per_issue_active(\\.ratio)?$"
    name = command.unknown_metric(log)
    assert name == "smsp__average_warps_issue_stalled_branch_resolve_per_issue_active"
    shorter = command.without(metrics.METRICS, name)
    assert len(shorter) == len(metrics.METRICS) - 1
    assert command.unknown_metric("==PROF== Disconnected") is None


@pytest.mark.parametrize(
    ("log", "told"),
    [
        (
            "==ERROR== ERR_NVGPUCTRPERM - The user does not have permission to access NVIDIA GPU Performance Counters on"
            " the target device 0.",
            "NVreg_RestrictProfilingToAdminUsers=0",
        ),
        ("==ERROR== Profiling failed because a driver resource was unavailable.", "dcgmi profmon --pause"),
        (
            "==ERROR== The application returned an error code (1).",
            "exit code 1 and no table: ==ERROR== The application",
        ),
        ("", "exit code 1 and no table: ModuleNotFoundError: no module candidate"),
    ],
)
def test_a_refusal_is_told_with_its_fix(log: str, told: str) -> None:
    assert told in command.refusal(log, "Traceback\nModuleNotFoundError: no module candidate", 1, 60.0)


def test_a_profiler_that_saw_nothing_is_told() -> None:
    assert "saw no kernel" in command.refusal("==WARNING== No kernels were profiled.", "", 0, 60.0)


def test_a_program_that_fails_is_told_by_its_last_line() -> None:
    log = "==ERROR== The application returned an error code (1).\n==WARNING== No kernels were profiled."
    assert command.refusal(log, "Traceback\nKeyError: 'x'\n", 1, 60.0).endswith("error code (1). KeyError: 'x'")


def test_a_profiler_that_hangs_is_told() -> None:
    assert "did not end within 60 s" in command.refusal("", "", None, 60.0)
