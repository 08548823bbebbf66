"""The profiler's table is read as it is printed, and what is no table gives nothing."""

from __future__ import annotations

import csv
import io

import pytest

from gpu_runner.contracts import Pass, Workload
from gpu_runner.profiler import metrics
from gpu_runner.profiler.sheet import as_csv, counters, read, sections, source_name
from tests.gpu_runner.profiler.sheets import FILL, MEMORY_BOUND, NORM, NOTHING, OTHER, SPILLING, sheet

WORKLOAD = Workload((("T", 16384), ("H", 8192)))


def test_a_launch_is_read_with_its_counters() -> None:
    launch = read(sheet(MEMORY_BOUND))[0]
    found = counters(launch, Pass.forward, WORKLOAD, [NORM])
    assert (found.kernel, found.own, found.timed_pass, found.workload) == (NORM, True, Pass.forward, WORKLOAD)
    assert found.duration_us == pytest.approx(138.912)
    assert found.dram_bytes == 536_887_296
    assert (found.dram_share, found.l2_share, found.sm_share) == pytest.approx((0.884, 0.612, 0.3105))
    assert (found.l2_hit_share, found.occupancy, found.tensor_share) == pytest.approx((0.4997, 0.9211, 0.0))
    assert (found.registers, found.spilled_bytes, found.grid, found.threads) == (40, 0, 16384, 512)


@pytest.mark.parametrize(
    ("compiled", "function"),
    [
        ("_rms_norm_forward_kernel_Kt2_A2bf16_1v8l0_2t1_3i16_p16_Sf32_Si32_I1_I8192", "_rms_norm_forward_kernel"),
        ("_f_Kt1_kernel_Kt2_A2f32_1i16", "_f_Kt1_kernel"),
        ("kernel_cutlass__f_kernel_tensorptrf32gmemalign16oi641_tensorptrf32gmemoi641___445128192_0", "_f_kernel"),
        ("_f_kernel", "_f_kernel"),
        ("void native::reduce_kernel<128, 4>(T2)", "void native::reduce_kernel<128, 4>(T2)"),
    ],
)
def test_a_kernel_has_its_functions_name_in_every_language(compiled: str, function: str) -> None:
    assert source_name(compiled) == function


def test_reasons_to_wait_are_shares_of_all_states_and_the_largest_comes_first() -> None:
    found = counters(read(sheet(MEMORY_BOUND))[0], Pass.forward, WORKLOAD, ())
    assert [stall.reason for stall in found.stalls] == ["long_scoreboard", "barrier"]
    assert found.stalls[0].share == pytest.approx(21.4 / 23.5)


def test_the_marker_parts_the_passes_and_is_no_launch_of_theirs() -> None:
    parts = sections(read(sheet(MEMORY_BOUND, NOTHING, SPILLING, OTHER)))
    assert [[launch.kernel for launch in part] for part in parts] == [[NORM], ["_rms_norm_backward_kernel", FILL]]


def test_a_counter_that_the_gpu_lacks_is_none() -> None:
    found = counters(read(sheet(OTHER))[0], Pass.backward, WORKLOAD, [NORM])
    assert found.tensor_share is None
    assert not found.own


def test_units_are_brought_to_nanoseconds_and_bytes() -> None:
    text = sheet(MEMORY_BOUND).replace('"byte","%","ns"', '"Mbyte","%","usecond"').replace("536,887,296", "536.89")
    found = counters(read(text.replace("138,912", "138.91"))[0], Pass.forward, WORKLOAD, ())
    assert found.duration_us == pytest.approx(138.91)
    assert found.dram_bytes == 536_890_000


def test_lines_of_the_program_between_the_rows_are_passed_over() -> None:
    text = sheet(MEMORY_BOUND, SPILLING, before="a line of the candidate, with commas, 1, 2")
    assert len(read(text.replace('\n"0"', '\nnoise\n"0"'))) == 2


def test_the_table_is_kept_as_csv_with_its_units_and_the_workload_of_each_launch() -> None:
    rows = list(
        csv.reader(io.StringIO(as_csv(sheet(MEMORY_BOUND, SPILLING, before="noise, of the program"), WORKLOAD)))
    )
    assert rows[0][0] == "Workload" and metrics.DURATION in rows[0]
    assert [row[0] for row in rows[1:]] == [WORKLOAD.label()] * 3
    assert rows[1][rows[0].index(metrics.DURATION)] == "ns"
    assert [row[rows[0].index("Kernel Name")] for row in rows[2:]] == [NORM, "_rms_norm_backward_kernel"]


def test_a_kernel_whose_name_is_a_formula_is_text_in_the_csv() -> None:
    text = as_csv(sheet(MEMORY_BOUND).replace(NORM, "=HYPERLINK(x)"), WORKLOAD)
    assert "'=HYPERLINK(x)" in text
    assert as_csv("no table", WORKLOAD).strip() == "Workload"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "==ERROR== ERR_NVGPUCTRPERM - The user does not have permission to access NVIDIA GPU Performance Counters",
        '"ID","Kernel"\n"0","x"\n',
        '"Kernel Name"\n"unclosed',
        "\0\0\0",
        '"ID","Kernel Name"\n"0"\n"1","2","3"\n',
    ],
)
def test_what_is_no_table_gives_nothing(text: str) -> None:
    assert [launch.values for launch in read(text) if launch.values] == []


def test_numbers_that_are_none_are_left_out() -> None:
    rows = [[cell if cell != "138,912" else bad for cell in MEMORY_BOUND] for bad in ("nan", "inf", "1e999", "x", "")]
    launches = read(sheet(*rows))
    assert [counters(launch, Pass.forward, WORKLOAD, ()).duration_us for launch in launches] == [None] * len(rows)


def test_a_flood_of_launches_is_cut() -> None:
    assert len(read(sheet(*[MEMORY_BOUND] * 500))) == 200
