"""What `msprof` writes of an NPU, read by its columns; the tables below follow the public reference of `op_summary`."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from service.cli import app
from workers.contracts import UserFacingError
from workers.npu_profile import METRICS, counted

COMMON = (
    "Device_id,Model ID,Task ID,Stream ID,Op Name,OP Type,Task Type,Task Start Time(us),Task Duration(us),Block Num"
)
PIPES = f"{COMMON},aiv_time(us),aiv_vec_ratio,aiv_scalar_ratio,aiv_mte2_ratio,aiv_mte3_ratio,aic_mac_ratio"
PIPE_ROWS = (
    "0,4294967295,1,2,_norm_kernel,_norm_kernel,AI_VECTOR_CORE,100.0,30.5,40,30.1,0.20,0.05,0.60,0.30,N/A",
    "0,4294967295,2,2,_norm_kernel,_norm_kernel,AI_VECTOR_CORE,200.0,29.5,40,29.1,0.22,0.05,0.62,0.30,N/A",
    "0,4294967295,3,2,_mask_kernel,_mask_kernel,AI_VECTOR_CORE,300.0,99.0,16,98.0,0.08,0.61,0.10,0.05,N/A",
    "0,4294967295,4,2,MatMul,MatMul,AI_CORE,400.0,12.0,20,N/A,N/A,0.10,0.30,0.10,0.85",
    "0,N/A,N/A,N/A,hcom_allReduce,hcom,COMMUNICATION,500.0,N/A,0,N/A,N/A,N/A,N/A,N/A,N/A",
)
MEMORY = f"{COMMON},aic_main_mem_read_bw(GB/s),aic_main_mem_write_bw(GB/s),aiv_main_mem_read_bw(GB/s),aiv_main_mem_write_bw(GB/s)"
MEMORY_ROWS = ("0,4294967295,1,2,_norm_kernel,_norm_kernel,AI_VECTOR_CORE,100.0,31.0,40,0,0,800.5,400.5",)


def written(folder: Path, metrics: str, *lines: str) -> None:
    place = folder / f"PROF_{metrics}" / "mindstudio_profiler_output"
    place.mkdir(parents=True)
    (place / "op_summary_20261130.csv").write_text("\n".join(lines) + "\n")


def test_a_kernel_has_its_time_its_units_and_its_bandwidth_of_both_runs(tmp_path: Path) -> None:
    written(tmp_path, "a", PIPES, *PIPE_ROWS)
    written(tmp_path, "b", MEMORY, *MEMORY_ROWS)
    mask, norm, product = counted(tmp_path)
    assert (norm.kernel, norm.launches, norm.duration_us, norm.programs) == ("_norm_kernel", 2, 30.0, 40)
    assert (norm.vector_share, norm.load_share, norm.cube_share) == (pytest.approx(0.21), pytest.approx(0.61), None)
    assert (norm.read_gbps, norm.write_gbps) == (800.5, 400.5)
    assert [kernel.bound for kernel in (mask, norm, product)] == ["scalar unit", "memory", "compute"]
    assert mask.read_gbps is None and product.cube_share == 0.85


def test_cores_that_are_one_have_columns_without_a_side(tmp_path: Path) -> None:
    written(tmp_path, "a", "Op Name,Task Duration(us),Block Dim,vec_ratio,mac_ratio,mte2_ratio", "k,5.0,32,0.7,0.1,0.2")
    (kernel,) = counted(tmp_path)
    assert (kernel.vector_share, kernel.cube_share, kernel.programs, kernel.bound) == (0.7, 0.1, 32, "compute")


@pytest.mark.parametrize(
    ("lines", "message", "fix"),
    [
        ((), "no `op_summary_*.csv` lies below", "--export=on"),
        (
            ("Op Name,Total Time(us)", "k,1"),
            "has no column `Task Duration(us)`",
            "Its columns are: Op Name, Total Time(us)",
        ),
    ],
)
def test_what_has_no_times_is_refused_with_its_columns(
    tmp_path: Path, lines: tuple[str, ...], message: str, fix: str
) -> None:
    if lines:
        written(tmp_path, "a", *lines)
    with pytest.raises(UserFacingError) as raised:
        counted(tmp_path)
    assert message in raised.value.failure.message and fix in (raised.value.failure.fix or "")


def test_the_command_runs_the_program_under_the_profiler_once_for_each_kind_of_counter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tool, out = tmp_path / "msprof", tmp_path / "out"
    rows = "\\n".join((PIPES, *PIPE_ROWS))
    tool.write_text(
        f'#!/bin/sh\necho "$@" >> {tmp_path}/called\nmkdir -p {out}/PROF_$$\n'
        f"printf '%b\\n' '{rows}' > {out}/PROF_$$/op_summary_1.csv\n"
    )
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    done = CliRunner().invoke(app, ["npu-profile", str(out), "--", "python", "bench mark.py", "--op=x"])
    assert done.exit_code == 0, done.output
    called = (tmp_path / "called").read_text().splitlines()
    assert [f"--aic-metrics={metrics}" in line for metrics, line in zip(METRICS, called, strict=True)] == [True, True]
    assert all("--application=python 'bench mark.py' --op=x" in line for line in called)
    assert "_norm_kernel" in done.output and "scalar unit" in done.output


def test_without_the_profiler_the_command_says_what_brings_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    done = CliRunner().invoke(app, ["npu-profile", str(tmp_path), "--", "python", "benchmark.py"])
    assert done.exit_code == 3 and "`msprof` is not on PATH" in done.output
