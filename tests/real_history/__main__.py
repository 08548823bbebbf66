"""Measures the kernels of published releases on a GPU host that has torch, triton and no network.

``prepare FOLDER`` fetches the source distributions of liger-kernel from 0.5.0 on, makes a git repository of one commit each, and
writes a request for each release in which a kernel's source changed: that release in turns with the one before. ``FOLDER/run.py``
is what the GPU host runs, with the standard library alone. ``again FOLDER`` writes another request for each pair of releases of
which a size is called faster or slower by its first run and has no second; run.py takes those that have no result yet. ``read
FOLDER`` imports the library's own CSV, keeps the results as nights, prints what changed, and draws it. ``plant FOLDER`` plants
changes on top of the last release and plays nights over them with the measured times and their noise. ``edit FOLDER`` edits
three kernels for real and writes requests for them into ``FOLDER/edited``; ``plant FOLDER --edited`` plays with their results.
"""

from __future__ import annotations

import argparse
import io
import json
import re
import shutil
import subprocess
import sys
import tarfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Any

from gpu_runner.contracts import (
    Action,
    BenchmarkRequest,
    BenchmarkResult,
    Comparison,
    GpuRequest,
    Limits,
    Word,
    from_json,
    parse_problem,
    to_json,
)
from tests.real_history.edited import write_edited
from tests.real_history.planted import PLANTED, plant, plant_edits
from workers import embedded
from workers import history as numbers
from workers.contracts import UserFacingError
from workers.layouts.protocol import Layout
from workers.nightly.detection import FLOOR, Candidate, NightEvidence, SeriesState
from workers.nightly.series import CANDIDATE, KERNEL, ORIGINAL, Metric, SeriesKey, host_testbed, points_of
from workers.reports.plots import png_of
from workers.runtime import current
from workers.stages.bench import layout_for
from workers.stages.gate import ORIGINAL_ALONE, timing_budget_s
from workers.store import history
from workers.store.database import Database
from workers.tree import Tree, read_tarball

PROJECT, FIRST = "liger-kernel", (0, 5, 0)
REPOSITORY = "linkedin/Liger-Kernel"
KERNELS = (
    "rms_norm",
    "layer_norm",
    "geglu",
    "swiglu",
    "rope",
    "cross_entropy",
    "kl_div",
    "jsd",
    "group_norm",
    "tvd",
    "dyt",
    "sparsemax",
)
HEAD, GOOD = "head.tar.gz", "good.tar.gz"
AGAIN = "-again"
LIBRARY_CSV = "benchmark/data/all_benchmark_data.csv"
PASS_COLOURS = {"forward": "#1a7f5a", "backward": "#7a5ac2", "full": "#c26a1a"}
Ratio = tuple[float, float, float]
DAY_S = 86_400.0
EDITED_BUDGET_S = 18.0

RUN = '''"""Runs every prepared request on the GPUs of this host, in the order of their names, with the standard library alone.

    run.py [RESULTS] [SECONDS] [--again]: after so many seconds what still runs is ended, and the rest left out.

What has a result in RESULTS or next to this file is left out. Verdicts go on side by side on the first GPU, which takes timings
after them; timings go one at a time on each GPU, with the next process on standby. A request whose name ends with "neighbour" has
another process at work on its GPU. With --again a pair of releases with a size that is faster or slower is run again at once.
"""

import json, os, pathlib, queue, subprocess, sys, threading, time

here = pathlib.Path(__file__).resolve().parent
again = "--again" in sys.argv
words = [word for word in sys.argv[1:] if word != "--again"]
out = pathlib.Path(words[0] if words else here / "results").resolve()
begun = time.monotonic()
until = begun + float(words[1] if len(words) > 1 else 86_400)
VERDICTS_AT_ONCE = 5
SHORTEST_S = 20.0  # nothing ends sooner
NEIGHBOUR = """
import time, torch
a = torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16)
while True:
    for _ in range(30):
        a @ a
    torch.cuda.synchronize()
    time.sleep(0.03)
"""
listed = subprocess.run(["nvidia-smi", "--query-gpu=index", "--format=csv,noheader"], capture_output=True, text=True).stdout.split()


def on_standby(gpu):
    log = open(out / f"log-{gpu}-{time.monotonic_ns()}", "w")
    command = [sys.executable, "-m", "gpu_runner", "--standby"]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stderr=log, text=True, env=os.environ | {"CUDA_VISIBLE_DEVICES": gpu})


def is_done(name):
    return any((folder / name / "result.json").exists() for folder in (out, here / "results"))


def told(result):
    """What one line says of a result: a verdict's status, or how many rows have which word."""
    if not (result / "result.json").exists():
        return "no result", False
    form = json.loads((result / "result.json").read_text())
    payload = form["payload"]
    if payload is None:
        return f"error {form['error']}", False
    if "rows" not in payload:
        return str(payload["status"]), False
    found = [one["word"] for row in payload["rows"] for one in row["comparisons"]]
    said = ", ".join(f"{found.count(word)} {word}" for word in sorted(set(found))) or "no comparison"
    return said, "faster" in found or "slower" in found


def ask(gpu, name, request, process, is_last):
    """Hand a request to a process on standby, and wait for it; gives the next process and whether a row is news."""
    result = out / name
    result.mkdir(parents=True, exist_ok=True)
    neighbour = None
    if name.endswith("neighbour"):
        neighbour = subprocess.Popen([sys.executable, "-c", NEIGHBOUR], env=os.environ | {"CUDA_VISIBLE_DEVICES": gpu})
    start = time.monotonic()
    process.stdin.write(json.dumps({"request": str(request), "result": str(result)}) + chr(10))
    process.stdin.close()
    spare = None if is_last else on_standby(gpu)
    try:
        code = process.wait(max(until - time.monotonic(), 0.0))
    except subprocess.TimeoutExpired:
        process.kill()
        code = "none, out of time"
    if neighbour is not None:
        neighbour.kill()
        neighbour.wait()
    said, is_news = told(result)
    end = time.monotonic()
    print(f"{end - begun:5.0f} s {name}: {said}; exit {code}, {end - start:.1f} s on GPU {gpu}", flush=True)
    return spare, is_news


def work(gpu, requests):
    process = None
    while time.monotonic() + SHORTEST_S < until:
        try:
            name, request = requests.get_nowait()
        except queue.Empty:
            break
        process, is_news = ask(gpu, name, request, process or on_standby(gpu), requests.empty())
        if again and is_news and len(json.loads((request.parent / "about.json").read_text())) == 3:
            second = f"{request.parent.name}-again"
            if name != second and not is_done(second):
                requests.put((second, request))
    if process is not None:
        process.kill()


def side_by_side(gpu, requests, at_once):
    threads = [threading.Thread(target=work, args=(gpu, requests)) for _ in range(at_once)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def all_on(gpu, kinds):
    for requests, at_once in kinds:
        side_by_side(gpu, requests, min(at_once, requests.qsize()))


out.mkdir(parents=True, exist_ok=True)
verdicts, timings = queue.PriorityQueue(), queue.PriorityQueue()
for request in here.glob("requests/*/request.json"):
    if not is_done(request.parent.name):
        is_verdict = json.loads(request.read_text())["action"] == "verify"
        (verdicts if is_verdict else timings).put((request.parent.name, request))
gpus = listed or ["0"]
workers = [threading.Thread(target=all_on, args=(gpus[0], [(verdicts, VERDICTS_AT_ONCE), (timings, 1)]))]
workers += [threading.Thread(target=work, args=(gpu, timings)) for gpu in gpus[1:]]
for worker in workers:
    worker.start()
for worker in workers:
    worker.join()
left = [name for requests in (verdicts, timings) for name, _ in requests.queue]
print(f"{time.monotonic() - begun:5.0f} s, left out: {', '.join(sorted(left)) or 'nothing'}", flush=True)
'''


@dataclass(frozen=True)
class Release:
    """A published version with the library's source, and the tarball that stands next to a request."""

    version: str
    tree: Tree
    tarball: bytes


def main(arguments: Sequence[str]) -> int:
    """Prepare requests, read their results, or plant changes on top of them."""
    parser = argparse.ArgumentParser(prog="python -m tests.real_history", description=__doc__)
    parser.add_argument("action", choices=("prepare", "again", "read", "edit", "plant"))
    parser.add_argument("folder", type=Path)
    parser.add_argument(
        "--kernels", nargs="+", choices=KERNELS, default=KERNELS, help="prepare, plant: which of the kernels"
    )
    parser.add_argument("--budget-s", type=float, help="prepare, again: seconds to time in, by default as a night has")
    parser.add_argument("--quiet-nights", type=int, default=30, help="plant: how many nights nothing happens")
    parser.add_argument(
        "--planted",
        nargs="+",
        metavar="KERNEL=MARK",
        help='plant: "slower RATIO", "peak RATIO" or "wrong SIZE" of kernels',
    )
    parser.add_argument("--neighbour", type=float, default=1.25, help="plant: by how much one slows a night")
    parser.add_argument("--edited", action="store_true", help="plant: the edits, with the results of FOLDER/edited")
    chosen = parser.parse_args(arguments)
    folder: Path = chosen.folder
    if chosen.action == "prepare":
        return prepare(folder, chosen.kernels, chosen.budget_s)
    if chosen.action == "again":
        return again(folder, chosen.budget_s)
    if chosen.action == "edit":
        return edit(folder, chosen.budget_s)
    if chosen.action == "plant" and chosen.edited:
        return plant_edits(folder, chosen.quiet_nights)
    if chosen.action == "plant":
        planted = dict(one.split("=", 1) for one in chosen.planted) if chosen.planted else PLANTED
        return plant(folder, chosen.kernels, chosen.quiet_nights, planted, chosen.neighbour)
    return read(folder)


def prepare(folder: Path, kernels: Sequence[str], budget_s: float | None) -> int:
    """Write the git repository, the requests and the script that runs them."""
    releases = [release(path) for path in fetched(folder / "sdists")]
    commit_all(folder / "repository", releases)
    shutil.rmtree(folder / "requests", ignore_errors=True)
    before: dict[str, Release] = {}
    count = 0
    for one in releases:
        layout = layout_for("liger", one.tree)
        there = layout.existing(one.tree)
        for kernel in (name for name in kernels if name in there):
            earlier = before.get(kernel)
            if earlier is not None and kernel not in layout.touched(earlier.tree, one.tree):
                continue
            if write_request(folder / "requests" / f"{kernel}-{one.version}", layout, kernel, one, earlier, budget_s):
                before[kernel], count = one, count + 1
    (folder / "run.py").write_text(RUN)
    print(f"{len(releases)} releases, {count} requests in {folder}")
    return 0


def edit(folder: Path, budget_s: float | None) -> int:
    """Write the requests for the edited kernels of the newest release."""
    newest = max((folder / "sdists").glob("*.tar.gz"), key=lambda path: _version_of(path.name))
    files = dict(release(newest).tree.files)
    count = write_edited(folder / "edited", files, budget_s or EDITED_BUDGET_S, RUN)
    print(f"{count} requests in {folder / 'edited'}, on top of {newest.name}")
    return 0


def again(folder: Path, budget_s: float | None) -> int:
    """Write another request for each pair with a row that the first run calls faster or slower and that has no second run."""
    count = 0
    for pair in pairs(folder):
        earlier = repeats(pair.request)
        is_asked = any(_payload(folder / "results" / name / "result.json") is None for name in earlier)
        if is_asked or not any(row.is_news and len(row.words) < 2 for row in pair.rows):
            continue
        place = pair.request.with_name(f"{pair.request.name}{AGAIN}{len(earlier) + 1 if earlier else ''}")
        shutil.copytree(pair.request, place)
        form = json.loads((place / "request.json").read_text()) | {"request_id": place.name}
        if budget_s is not None:
            form["payload"]["budget_s"] = budget_s
        (place / "request.json").write_text(json.dumps(form))
        count += 1
    print(f"{count} new requests; FOLDER/run.py runs all that have no result")
    return 0


def repeats(request: Path) -> list[str]:
    """The names of the further runs of the same pair of releases, oldest first: those asked for, and those of run.py itself."""
    folder = request.parents[1]
    return sorted(
        {path.name for part in ("requests", "results") for path in (folder / part).glob(f"{request.name}{AGAIN}*")}
    )


def fetched(folder: Path) -> list[Path]:
    """The source distributions, oldest first; those that are there are not fetched again."""
    folder.mkdir(parents=True, exist_ok=True)
    listed = subprocess.run(
        [sys.executable, "-m", "pip", "index", "versions", PROJECT], capture_output=True, text=True, check=True
    ).stdout
    versions = [
        tuple(map(int, text.split("."))) for text in re.findall(r"\b\d+\.\d+\.\d+\b(?!\S)", listed.replace(",", " "))
    ]
    paths = []
    for version in sorted({version for version in versions if version >= FIRST}):
        name = ".".join(map(str, version))
        path = folder / f"liger_kernel-{name}.tar.gz"
        if not path.exists():
            command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--no-build-isolation"]
            done = subprocess.run(
                [*command, "--no-binary", PROJECT, "-d", str(folder), f"{PROJECT}=={name}"], check=False
            )
            if done.returncode != 0 or not path.exists():
                print(f"{name} has no source distribution here; left out", file=sys.stderr)
                continue
        paths.append(path)
    return paths


def release(path: Path) -> Release:
    """A release's library without its tests, so that many of them are small."""
    whole = read_tarball(path.read_bytes())
    files = {name: content for name, content in whole.files.items() if name.startswith("src/") and name.endswith(".py")}
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as archive:
        for name, content in sorted(files.items()):
            entry = tarfile.TarInfo(f"snapshot/{name}")
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    return Release(path.name.removeprefix("liger_kernel-").removesuffix(".tar.gz"), Tree(whole.files), out.getvalue())


def commit_all(folder: Path, releases: Sequence[Release]) -> None:
    """A git repository with a commit and a tag for each release."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    git = ["git", "-C", str(folder), "-c", "user.name=history", "-c", "user.email=history@localhost.invalid"]
    subprocess.run([*git, "init", "-q", "-b", "main"], check=True)
    for one in releases:
        for path in [path for path in folder.iterdir() if path.name != ".git"]:
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        for name, content in one.tree.files.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        subprocess.run([*git, "add", "-A", "-f"], check=True)
        subprocess.run([*git, "commit", "-q", "-m", f"{PROJECT} {one.version}"], check=True)
        subprocess.run([*git, "tag", f"v{one.version}"], check=True)


def write_request(
    folder: Path, layout: Layout, kernel: str, new: Release, old: Release | None, budget_s: float | None
) -> bool:
    """Write one request with its trees; False where the kernel's problem is not known or it cannot be called so."""
    try:
        standing = layout.locate(kernel, new.tree)
        source = layout.problem_of(standing, new.tree)
        if source is None:
            return False
        problem = parse_problem(source)
        candidate = layout.form_of(standing, problem, (), HEAD)
        original = None if old is None else layout.form_of(layout.locate(kernel, old.tree), problem, (), GOOD)
    except UserFacingError as error:
        print(f"{kernel} {new.version}: {error}", file=sys.stderr)
        return False
    request = BenchmarkRequest(
        source,
        candidate,
        budget_s=budget_s or timing_budget_s(len(problem.workloads)),
        original=original,
        contenders=ORIGINAL_ALONE,
        standing=True,
    )
    folder.mkdir(parents=True)
    asked = GpuRequest(folder.name, Action.benchmark, to_json(request), Limits())
    (folder / "request.json").write_text(json.dumps(to_json(asked)))
    (folder / "about.json").write_text(json.dumps([kernel, new.version, None if old is None else old.version]))
    (folder / HEAD).write_bytes(new.tarball)
    if old is not None:
        (folder / GOOD).write_bytes(old.tarball)
    return True


@dataclass(frozen=True)
class ComparedRow:
    """A pass and size of two releases: each run's ratio, new over old, with its interval and its word."""

    timed_pass: str
    workload: str
    ratios: tuple[Ratio, ...]
    words: tuple[Word, ...]

    @property
    def first(self) -> Word:
        """The word of the first run."""
        return self.words[0]

    @property
    def is_news(self) -> bool:
        """Whether the first run says that it changed."""
        return self.first in (Word.slower, Word.faster)

    @property
    def outcome(self) -> str:
        """What both runs make of it, as in a night: both must say the same."""
        if not self.is_news:
            return self.first.value
        if len(self.words) < 2:
            return f"{self.first.value} in one run"
        return f"{self.first.value}, confirmed" if self.words[1] is self.first else "undecided"


@dataclass(frozen=True)
class Pair:
    """A release of a kernel that was measured, in turns with an earlier one where there is one."""

    request: Path
    kernel: str
    new: str
    old: str | None
    results: tuple[BenchmarkResult, ...]
    rows: tuple[ComparedRow, ...]


def pairs(folder: Path) -> list[Pair]:
    """What was measured, by kernels and in the order of releases."""
    abouts = [path for path in folder.glob("requests/*/about.json") if AGAIN not in path.parent.name]
    found = []
    for request in (path.parent for path in abouts):
        kernel, new, old = json.loads((request / "about.json").read_text())
        names = (request.name, *repeats(request))
        payloads = {name: _payload(folder / "results" / name / "result.json") for name in names}
        for name in (name for name, payload in payloads.items() if payload is None):
            print(f"{name}: not measured", file=sys.stderr)
        if payloads[request.name] is None:
            continue
        results = tuple(from_json(BenchmarkResult, payload) for payload in payloads.values() if payload is not None)
        found.append(Pair(request, kernel, new, old, results, tuple(_compared(results))))
    return sorted(found, key=lambda pair: (pair.kernel, _version_of(pair.new)))


def _payload(path: Path) -> Any:
    return json.loads(path.read_text())["payload"] if path.exists() else None


def _compared(results: Sequence[BenchmarkResult]) -> Iterator[ComparedRow]:
    places: dict[tuple[str, str], list[Comparison]] = {}
    for result in results:
        for row in result.rows:
            place = (row.timed_pass.value, row.workload.label())
            if result is results[0] or place in places:  # what only a repeat had time for was never called anything
                places.setdefault(place, []).extend(row.comparisons)
    for place, runs in ((place, runs) for place, runs in places.items() if runs):
        ratios = tuple((1 / one.speedup, 1 / one.speedup_high, 1 / one.speedup_low) for one in runs)
        yield ComparedRow(*place, ratios, tuple(one.word for one in runs))


def read(folder: Path) -> int:
    """Import the library's CSV, keep every result as a night, a day apart by release, print what changed, and draw it."""
    embedded.configure(folder / "state")
    database = current().database
    database.migrate()
    sdists = sorted(folder.glob("sdists/*.tar.gz"), key=lambda path: _version_of(path.name))
    days = {path.name.removeprefix("liger_kernel-").removesuffix(".tar.gz"): at for at, path in enumerate(sdists)}
    text = read_tarball(sdists[-1].read_bytes()).read(LIBRARY_CSV)
    if text is not None:
        done = numbers.import_library_csv(text, REPOSITORY)
        print(f"{LIBRARY_CSV}: {done.new} points are new, {done.known} known, {done.dropped} lines dropped\n")
    measured = pairs(folder)
    print("| kernel | pass | size | from | to | first run, new over old | second run | it is |")
    print("| --- | --- | --- | --- | --- | ---: | ---: | --- |")
    for pair in measured:
        _keep(database, pair, days)
        for row in pair.rows:
            if row.is_news:
                runs = [f"{middle:.3f} ({low:.3f} to {high:.3f})" for middle, low, high in row.ratios] + [""]
                cells = (
                    pair.kernel,
                    row.timed_pass,
                    row.workload,
                    f"v{pair.old}",
                    f"v{pair.new}",
                    *runs[:2],
                    row.outcome,
                )
                print(f"| {' | '.join(cells)} |")
    print("\n| kernel | pass | size | from | to | peak memory, new over old |")
    print("| --- | --- | --- | --- | --- | ---: |")
    for pair in measured:
        for one in pair.results[0].rows:
            if one.memory_ratio is not None and abs(one.memory_ratio - 1) > FLOOR:
                place = f"{pair.kernel} | {one.timed_pass.value} | {one.workload.label()} | v{pair.old} | v{pair.new}"
                print(f"| {place} | {one.memory_ratio:.3f} |")
    counted = Counter(row.first.value for pair in measured for row in pair.rows)
    print(
        "\nrows by the word of the first run: " + ", ".join(f"{count} {word}" for word, count in counted.most_common())
    )
    gpus = Counter(f"{pair.results[0].gpu} {dict(pair.results[0].host).get('gpu_uuid', '')}" for pair in measured)
    print("first runs by GPU: " + ", ".join(f"{gpu}: {count}" for gpu, count in gpus.items()))
    (folder / "history.png").write_bytes(chart(measured))
    print(f"drawn: {folder / 'history.png'}")
    return 0


def _keep(database: Database, pair: Pair, days: Mapping[str, int]) -> None:
    result, at = pair.results[0], days[pair.new] * DAY_S
    kept = list(points_of(result, REPOSITORY, pair.kernel, f"v{pair.new}", at, CANDIDATE))
    if pair.old is not None:
        kept += points_of(result, REPOSITORY, pair.kernel, f"v{pair.old}", days[pair.old] * DAY_S, ORIGINAL)
    with database.write() as session:
        history.add(session, kept)
        for row in pair.rows:
            if row.first is Word.slower and result.gpu is not None:
                testbed = host_testbed(result.gpu, dict(result.host))
                key = SeriesKey(REPOSITORY, pair.kernel, KERNEL, row.timed_pass, row.workload, Metric.time_us, testbed)
                found = Candidate(f"v{pair.old}", f"v{pair.new}", row.ratios[0][0], NightEvidence.band)
                state = SeriesState.confirmed if row.words[1:2] == (Word.slower,) else SeriesState.undecided
                history.keep_change(session, key, found, state, row.ratios[0], at)


def chart(measured: Sequence[Pair]) -> bytes:
    """Each kernel's times over the releases, as shares of those of its first; each step is the ratio of one interleaved run."""
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

    kernels = sorted({pair.kernel for pair in measured})
    figure = Figure(figsize=(9.6, 2.1 * ((len(kernels) + 1) // 2)), dpi=130, layout="constrained")
    panels = figure.subplots((len(kernels) + 1) // 2, 2, squeeze=False).flat
    for axes, kernel in zip_longest(panels, kernels):
        if kernel is None:
            axes.set_axis_off()
            continue
        line = [pair for pair in measured if pair.kernel == kernel]
        levels: dict[tuple[str, str], list[tuple[int, float]]] = {}
        for place, pair in enumerate(line):
            for row in pair.rows:
                steps = levels.setdefault((row.timed_pass, row.workload), [(place - 1, 1.0)])
                steps.append((place, steps[-1][1] * row.ratios[0][0]))
        for (timed_pass, _), steps in levels.items():
            axes.step(*zip(*steps, strict=True), where="mid", linewidth=1.1, color=PASS_COLOURS[timed_pass], alpha=0.8)
        axes.set_xticks(range(len(line)), [pair.new for pair in line], rotation=60, ha="right", fontsize=6)
        axes.tick_params(axis="y", labelsize=7)
        axes.set_title(kernel, loc="left", fontsize=9)
        axes.spines[["top", "right"]].set_visible(False)
    handles = [Line2D([], [], color=colour, label=name) for name, colour in PASS_COLOURS.items()]
    figure.legend(handles=handles, loc="outside upper right", ncols=3, fontsize=8, frameon=False)
    return png_of(figure)


def _version_of(text: str) -> tuple[int, ...]:
    return tuple(map(int, re.findall(r"\d+", text.removesuffix(".tar.gz"))))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
