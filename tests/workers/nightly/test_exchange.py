"""The library's own CSV comes in, and every number goes out in three formats."""

from __future__ import annotations

import builtins
import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest

from tests.service.local.checkouts import checked_out, run
from tests.workers.nightly.numbers import KEY, REPOSITORY, point
from workers.nightly.export import COLUMNS, Format, NoParquetError, exported
from workers.nightly.library_csv import NoLibraryCsvError, read_library_csv
from workers.nightly.series import KERNEL, Metric, PointSource, Testbed

HEAD = (
    "kernel_name,kernel_provider,kernel_operation_mode,metric_name,metric_unit,x_name,x_label,x_value,"
    "y_value_50,y_value_20,y_value_80,extra_benchmark_config_str,gpu_name,timestamp,liger_version\n"
)
SPEED = 'geglu,liger,full,speed,ms,T,sequence length,1024,2.5,2.4,2.75,"{""dtype"": ""torch.bfloat16"", ""bsz"": 8}",'
ROW = SPEED + "NVIDIA H100,2024-09-03 15:31:39,0.2.1\n"


def test_a_line_becomes_a_point_in_microseconds_on_a_testbed_of_which_only_the_gpu_is_known() -> None:
    ((key, point),) = read_library_csv(HEAD + ROW, REPOSITORY).numbers
    assert (key.repository, key.kernel, key.provider, key.timed_pass) == (REPOSITORY, "geglu", KERNEL, "full")
    assert (key.metric, key.workload, key.testbed) == (
        Metric.time_us,
        "T=1024 bsz=8 dtype=bfloat16",
        Testbed("NVIDIA H100"),
    )
    assert (point.value, point.low, point.high) == (2500.0, 2400.0, 2750.0)
    assert (point.revision, point.measured_at, point.source) == ("v0.2.1", 1725377499.0, PointSource.library)


def test_memory_becomes_bytes_and_a_peer_keeps_its_name() -> None:
    row = ROW.replace("geglu,liger,full,speed,ms", "geglu,huggingface,full,memory,MB")
    ((key, point),) = read_library_csv(HEAD + row, REPOSITORY).numbers
    assert (key.provider, key.metric, point.value) == ("huggingface", Metric.peak_bytes, 2.5 * 2**20)


def test_of_two_lines_for_one_release_the_one_measured_last_counts_in_either_order() -> None:
    later = ROW.replace("2.5,", "2.6,").replace("2024-09", "2024-10")
    for text in (ROW + later, later + ROW):
        ((_, point),) = read_library_csv(HEAD + text, REPOSITORY).numbers
        assert point.value == 2600.0


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("2.5,", "nan,", "y_value_50 is no time or size: 'nan'"),
        ("2.5,", "-1,", "y_value_50 is no time or size: '-1'"),
        ("2.5,", ",", "y_value_50 is no number: ''"),
        ("2.5,2.4,2.75,", "1e308,,,", "y_value_50 is no time or size: '1e308'"),
        ("2.4,", "2.6,", "y_value_50 lies outside of y_value_20 to y_value_80"),
        ("2.4,", "fast,", "y_value_20 is no number: 'fast'"),
        ("speed,ms", "speed,furlongs", "'speed' in 'furlongs' is no known metric"),
        ("2024-09-03 15:31:39", "yesterday", "timestamp is no time: 'yesterday'"),
        ("2024-09-03 15:31:39", "9999-12-31T23:59:59-14:00", "timestamp is no time: '9999-12-31T23:59:59-14:00'"),
        ("2024-09-03 15:31:39", "0001-01-01T00:00:00+14:00", "timestamp is no time: '0001-01-01T00:00:00+14:00'"),
        ('"{""dtype"": ""torch.bfloat16"", ""bsz"": 8}"', "[1]", "extra_benchmark_config_str is no object: '[1]'"),
        ('"{""dtype"": ""torch.bfloat16"", ""bsz"": 8}"', "{", "extra_benchmark_config_str is no JSON: '{'"),
        (
            '"{""dtype"": ""torch.bfloat16"", ""bsz"": 8}"',
            "[" * 1900,
            f"extra_benchmark_config_str is no JSON: '{'[' * 40}'",
        ),
        ("NVIDIA H100", "", "gpu_name is empty"),
        (",0.2.1", "", "liger_version is empty"),
        ("geglu", "ge\x00glu", "kernel_name is too long, or holds a NUL"),
        ("liger", "l" * 101, "kernel_provider is too long, or holds a NUL"),
        ("geglu", "g" * 2001, "kernel_name is too long, or holds a NUL"),
    ],
)
def test_a_line_that_cannot_be_used_is_named_and_the_others_count(old: str, new: str, problem: str) -> None:
    assert old in ROW
    read = read_library_csv(HEAD + ROW + ROW.replace("1024", "2048").replace(old, new, 1), REPOSITORY)
    assert (len(read.numbers), read.dropped, read.problems) == (1, 1, (f"line 3: {problem}",))


def test_optional_columns_may_be_missing_and_a_file_behind_another_repeats_its_first_line() -> None:
    head = HEAD.replace(",x_label", "").replace("y_value_20,y_value_80,extra_benchmark_config_str,", "")
    row = "geglu,liger,full,speed,ms,T,1024,2.5,NVIDIA H100,2024-09-03 15:31:39,0.2.1\n"
    for text in (head + row + head + row, (head + row).replace(",", ";"), (head + row).replace(",", "\t")):
        read = read_library_csv(text, REPOSITORY)
        ((key, point),) = read.numbers
        assert (key.workload, point.value, point.low, point.high, read.dropped) == ("T=1024", 2500.0, None, None, 0)


def test_what_is_missing_is_named_at_once() -> None:
    with pytest.raises(NoLibraryCsvError, match="'gpu_name', 'timestamp'"):
        read_library_csv(HEAD.replace("gpu_name,timestamp,", ""), REPOSITORY)


@pytest.mark.parametrize(
    ("unit", "value"),
    [
        ("speed,ns", 0.0025),
        ("speed,us", 2.5),
        ("speed,s", 2.5e6),
        ("memory,B", 2.5),
        ("memory,KiB", 2560.0),
        ("memory,GB", 2.5 * 2**30),
    ],
)
def test_every_unit_of_time_and_size_is_known_and_a_version_has_one_v(unit: str, value: float) -> None:
    row = ROW.replace("speed,ms", unit).replace(",0.2.1", ",v0.2.1")
    ((_, point),) = read_library_csv(HEAD + row, REPOSITORY).numbers
    assert (point.value, point.revision) == (pytest.approx(value), "v0.2.1")


def test_a_thousand_bad_lines_are_counted_and_the_first_are_named() -> None:
    read = read_library_csv(HEAD + ROW.replace("2.5,", "?,") * 1000, REPOSITORY)
    assert (len(read.numbers), read.dropped, len(read.problems)) == (0, 1000, 20)


@pytest.mark.parametrize("text", ["", "a,b\n1,2\n", HEAD.replace("x_value", "y"), HEAD + '"' + "x" * 200_000 + '"'])
def test_another_file_is_refused(text: str) -> None:
    with pytest.raises(NoLibraryCsvError):
        read_library_csv(text, REPOSITORY)


FULL = point(1, 3.5, low=3.0, high=4.0, samples=9, floor_share=0.9, sm_clock_mhz=1980)
SERIES = [(KEY, (FULL, point(2)))]


def rows(form: Format) -> list[dict[str, Any]]:
    content = exported(SERIES, form)
    if form is Format.json:
        return json.loads(content)  # type: ignore[no-any-return]
    if form is Format.csv:
        return list(csv.DictReader(io.StringIO(content.decode())))
    import pyarrow.parquet as pq

    return pq.read_table(io.BytesIO(content)).to_pylist()  # type: ignore[no-any-return]


@pytest.mark.parametrize("form", list(Format))
def test_a_point_is_a_row_with_the_same_columns_in_every_format(form: Format) -> None:
    first, second = rows(form)
    assert tuple(first) == COLUMNS
    told = {name: str(first[name]) for name in ("kernel", "metric", "gpu_uuid", "value", "samples", "measured_at")}
    assert told == {
        "kernel": "geglu",
        "metric": "time_us",
        "gpu_uuid": "GPU-1",
        "value": "3.5",
        "samples": "9",
        "measured_at": "2023-11-15T22:13:20.000+00:00",
    }
    assert second["low"] in (None, "")


@pytest.mark.parametrize("form", list(Format))
def test_no_points_make_a_file_too(form: Format) -> None:
    assert exported([], form)


def test_without_pyarrow_parquet_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def without(name: str, *more: Any) -> Any:
        if name.startswith("pyarrow"):
            raise ImportError(name)
        return real(name, *more)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(NoParquetError, match=r"kernelsmith\[parquet\]"):
        exported(SERIES, Format.parquet)


@pytest.mark.usefixtures("environment")
def test_by_hand_a_csv_goes_into_a_checkouts_own_database_and_comes_out_again(tmp_path: Path) -> None:
    repo, library_csv = checked_out(tmp_path / "library", {"a.py": b"a = 1\n"}), tmp_path / "all.csv"
    library_csv.write_text(HEAD + ROW + ROW.replace("2.5,", "?,"))
    for counts in ("1 points are new, 0 were known, 1 lines", "0 points are new, 1 were known, 1 lines"):
        done = run("import-history", library_csv, "--repo", repo)
        assert (done.exit_code, counts in done.stderr, "line 3: y_value_50" in done.stderr) == (0, True, True)
    for form in Format:
        out = tmp_path / f"numbers.{form.value}"
        assert run("export-history", out, "--repo", repo).exit_code == 0
        assert out.stat().st_size > 100
    nowhere = run("export-history", tmp_path / "no folder" / "x.csv", "--repo", repo)
    assert (nowhere.exit_code, "x.csv: No such file or directory" in nowhere.stderr) == (3, True), nowhere.stderr
    made = run("export-pages", tmp_path / "site", "--repo", repo, "--github", "https://github.example/o/n/")
    assert (made.exit_code, "index.html" in made.stderr) == (0, True), made.stderr
    (page,) = (tmp_path / "site").glob("geglu-*.html")
    assert page.name in (tmp_path / "site" / "index.html").read_text()
    assert 'href="https://github.example/o/n/tree/v' in page.read_text()
    pruned = run("prune-history", "--repo", repo)
    assert (pruned.exit_code, "0 points were removed" in pruned.stderr) == (0, True)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["import-history", "{here}/no.csv", "--repo", "{repo}"], "names no column 'kernel_name'"),
        (["import-history", "{here}/no.csv"], "give either --repo CHECKOUT or --repository"),
        (["export-history", "{here}/x.xlsx", "--repo", "{repo}"], "Use one of .csv, .json, .parquet"),
        (["export-history", "{here}/x.csv", "--repo", "{repo}"], "nothing was measured or imported"),
        (["export-pages", "{here}/site", "--repo", "{repo}"], "nothing was measured or imported"),
    ],
)
@pytest.mark.usefixtures("environment")
def test_by_hand_what_cannot_be_done_is_refused(tmp_path: Path, arguments: list[str], told: str) -> None:
    repo = checked_out(tmp_path / "library", {"a.py": b"a = 1\n"})
    (tmp_path / "no.csv").write_text("a,b\n")
    done = run(*(word.format(here=tmp_path, repo=repo) for word in arguments))
    assert (done.exit_code, told in done.stderr) == (2, True), done.stderr
