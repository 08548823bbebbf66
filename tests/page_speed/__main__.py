"""Fills a database with the numbers of a large library and times the pages: ``python -m tests.page_speed FOLDER``.

The pages are asked of the application itself, in this process and without a network; each once to warm up, then several times.
A folder that holds such a database already is measured as it is.
"""

from __future__ import annotations

import argparse
import os
import random
import sqlite3
import statistics
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from urllib.parse import urlencode

from fastapi import FastAPI
from fastapi.testclient import TestClient

from service.addresses import Addresses
from service.pages.routes import Pages, add_pages
from service.server import keep_loaded
from workers import embedded, history, inbox
from workers.nightly.series import KERNEL, Metric, SeriesKey, Testbed
from workers.runtime import current

REPOSITORY = "example/kernels"
GPUS = ("NVIDIA A100-SXM4-80GB", "NVIDIA H100 80GB HBM3", "NVIDIA H200", "NVIDIA B200")
PASSES = ("forward", "backward")
WORKLOADS = ("T=4096 H=4096 bfloat16", "T=16384 H=4096 bfloat16")
METRICS = (Metric.time_us, Metric.peak_bytes)
SERIES_EACH = len(PASSES) * len(WORKLOADS) * len(METRICS)
FRESH = "overview, after a night"
DAY_S = 86_400.0
POINT = "INSERT INTO measured_points (series_id, revision, measured_at, value, low, high, samples, floor_share, sm_clock_mhz, source) VALUES (?, ?, ?, ?, ?, ?, 12, ?, 1800, 'night')"  # noqa: E501
CHANGE = "INSERT INTO series_changes (series_id, state, good_revision, bad_revision, ratio, ratio_low, ratio_high, reason, opened_at, changed_at) VALUES (?, ?, ?, ?, 1.05, 1.04, 1.06, '', ?, ?)"  # noqa: E501


def main(arguments: Sequence[str]) -> int:
    """Fill, measure and print a table; 1 where a page took longer than its goal."""
    parser = argparse.ArgumentParser(prog="python -m tests.page_speed", description=__doc__)
    parser.add_argument("folder", type=Path, help="where the database lies")
    parser.add_argument("--kernels", type=int, default=200)
    parser.add_argument("--commits", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=9)
    chosen = parser.parse_args(arguments)
    embedded.configure(chosen.folder)
    database = current().database
    database.migrate()
    if REPOSITORY not in history.repositories():
        begin = time.perf_counter()
        count = fill(Path(str(database.engine.url.database)), chosen.kernels, commits_of(chosen.commits))
        print(f"{count:,} points in {time.perf_counter() - begin:.0f} s", flush=True)
    size = Path(str(database.engine.url.database)).stat().st_size
    print(f"database: {size / 2**20:,.0f} MiB; {os.cpu_count()} cores; load {os.getloadavg()[0]:.1f}\n")
    print(
        "| page | goal | first | fastest | median | slowest | CPU, median | size |\n"
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |"
    )
    app = FastAPI()
    addresses = Addresses("", "https://github.com")
    add_pages(app, Pages(inbox.recent_jobs, inbox.get_job, lambda _: b"", addresses, None, anybody=True))
    late = False
    keep_loaded()  # as the service does where it starts, and then what it does in the background
    history.warm()
    with TestClient(app) as client:
        for name, path, goal_ms in pages(commits_of(chosen.commits)):
            times, busy, text = [], [], b""
            for _ in range(chosen.rounds + 1):
                if name == FRESH:
                    history._all_states.cache_clear()
                begin, begin_busy = time.perf_counter(), time.process_time()
                answer = client.get(path)
                times.append((time.perf_counter() - begin) * 1e3)
                busy.append((time.process_time() - begin_busy) * 1e3)
                text = answer.content
                answer.raise_for_status()
            middle = statistics.median(times[1:])
            late = late or middle > goal_ms
            cells = (
                name,
                f"{goal_ms} ms",
                f"{times[0]:.0f} ms",
                f"{min(times):.0f} ms",
                f"{middle:.0f} ms",
                f"{max(times[1:]):.0f} ms",
                f"{statistics.median(busy[1:]):.0f} ms",
                f"{len(text) / 1024:.0f} KiB",
            )
            print(f"| {' | '.join(cells)} |", flush=True)
    return int(late)


def pages(commits: Sequence[str]) -> Iterator[tuple[str, str, int]]:
    """Give what is measured: a name, an address, and the goal in milliseconds."""
    one = {
        "repository": REPOSITORY,
        "kernel": "kernel_007",
        "gpu": GPUS[2],
        "timed_pass": "forward",
        "workload": WORKLOADS[1],
    }
    two = {"repository": REPOSITORY, "before": commits[-200:][0][:10], "after": commits[-1][:10]}
    yield "overview", "/kernels?" + urlencode({"repository": REPOSITORY}), 300
    yield FRESH, "/kernels?" + urlencode({"repository": REPOSITORY}), 300
    yield "overview, JSON", "/api/kernels?" + urlencode({"repository": REPOSITORY}), 300
    yield "a kernel, 200 commits", "/kernels/history?" + urlencode(one), 300
    yield "a kernel, all commits", "/kernels/history?" + urlencode(one | {"last": "all"}), 1000
    yield "a kernel, all commits, JSON", "/api/kernels/history?" + urlencode(one | {"last": "all"}), 1000
    yield "two commits, one GPU, times", "/kernels/compare?" + urlencode(two), 300
    yield "two commits, everything", "/kernels/compare?" + urlencode(two | {"gpu": "all", "metric": "all"}), 1000
    yield "a badge", "/badge.svg?" + urlencode({"repository": REPOSITORY, "kernel": "kernel_007"}), 300


def commits_of(count: int) -> list[str]:
    """Give commits that are the same in every run."""
    chance = random.Random("commits")
    return [f"{chance.getrandbits(160):040x}" for _ in range(count)]


def fill(path: Path, kernels: int, commits: Sequence[str]) -> int:
    """Write all points, through SQLite itself: the store's own way checks each of millions."""
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA synchronous=OFF")
    connection.execute("PRAGMA cache_size=-1000000")
    end = time.time()
    times = [end - (len(commits) - place) * DAY_S / 2 for place in range(len(commits))]
    count = 0
    with connection:
        connection.executemany(
            "INSERT INTO measured_commits (repository, revision, snapshot, measured_at) VALUES (?, ?, '', ?)",
            [(REPOSITORY, commit, at) for commit, at in zip(commits, times, strict=True)],
        )
        chances = [random.Random(number) for number in range(len(GPUS) * kernels * SERIES_EACH)]
        ids = [add_series(connection, key) for key in series(kernels)]
        values = [numbers(chance, len(commits)) for chance in chances]
        # Night after night, as they come: the points of a series are spread over the whole file.
        for commit, at in zip(commits, times, strict=True):
            night = ((series_id, next(number)) for series_id, number in zip(ids, values, strict=True))
            connection.executemany(
                POINT,
                [
                    (series_id, commit, at, value, value * 0.995, value * 1.006, 50 / value)
                    for series_id, value in night
                ],
            )
            count += len(ids)
        for series_id, chance in zip(ids, chances, strict=True):
            if chance.random() < 0.2:
                place = chance.randrange(1, len(commits))
                state = chance.choice(("confirmed", "recovered", "triaged", "undecided"))
                good, bad, at = commits[place - 1], commits[place], times[place]
                connection.execute(CHANGE, (series_id, state, good, bad, at, at))
    connection.execute("ANALYZE")
    connection.close()
    return count


def series(kernels: int) -> Iterator[SeriesKey]:
    """Give every series: kernel, GPU model, pass, size and metric."""
    for number in range(kernels):
        for gpu in GPUS:
            testbed = Testbed(gpu, f"GPU-{gpu[-4:]}", "580.159.04", "2.13.0", "3.6.0")
            for timed_pass in PASSES:
                for workload in WORKLOADS:
                    for metric in METRICS:
                        yield SeriesKey(
                            REPOSITORY, f"kernel_{number:03d}", KERNEL, timed_pass, workload, metric, testbed
                        )


def add_series(connection: sqlite3.Connection, key: SeriesKey) -> int:
    """Write one series, and give its number."""
    testbed = key.testbed
    row = (key.digest(), key.repository, key.kernel, key.provider, key.timed_pass, key.workload, key.metric.value)
    row += (testbed.gpu, testbed.gpu_uuid, testbed.driver, testbed.torch, testbed.triton)
    columns = "key, repository, kernel, provider, timed_pass, workload, metric, gpu, gpu_uuid, driver, torch, triton"
    marks = ", ".join("?" * len(row))
    done = connection.execute(f"INSERT INTO measured_series ({columns}) VALUES ({marks})", row)
    return int(done.lastrowid or 0)


def numbers(chance: random.Random, count: int) -> Iterator[float]:
    """Give a series of times: a level that moves now and then, and noise."""
    level = chance.uniform(60, 900)
    for _ in range(count):
        if chance.random() < 0.003:
            level *= chance.choice((0.9, 0.96, 1.03, 1.08))
        yield level * chance.gauss(1, 0.004)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
