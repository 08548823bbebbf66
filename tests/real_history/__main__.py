"""Measures the kernels of published releases on a GPU host that has torch, triton and no network.

``prepare FOLDER`` fetches the source distributions of liger-kernel from 0.5.0 on, makes a git repository of one commit each, and
writes a request for each release in which a kernel's source changed: that release in turns with the one before. ``FOLDER/run.py``
is what the GPU host runs, with the standard library alone. ``read FOLDER`` keeps the results as nights and prints what changed.
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
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from gpu_runner.contracts import (
    Action,
    BenchmarkRequest,
    BenchmarkResult,
    GpuRequest,
    Limits,
    from_json,
    parse_problem,
    to_json,
)
from workers import embedded
from workers.contracts import UserFacingError
from workers.layouts.protocol import Layout
from workers.nightly.detection import Candidate, Evidence, State
from workers.nightly.series import CANDIDATE, KERNEL, ORIGINAL, Metric, SeriesKey, host_testbed, points_of
from workers.runtime import current
from workers.stages.bench import layout_for
from workers.stages.gate import ORIGINAL_ALONE, timing_budget_s
from workers.store import history
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
DAY_S = 86_400.0

RUN = '''"""Runs every prepared request, one on each GPU at a time; what has a result is left out. Standard library alone."""

import concurrent.futures, os, pathlib, queue, subprocess, sys

here = pathlib.Path(__file__).resolve().parent
out = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else here / "results")
gpus = queue.Queue()
listed = subprocess.run(["nvidia-smi", "--query-gpu=index", "--format=csv,noheader"], capture_output=True, text=True).stdout.split()
for gpu in listed:
    gpus.put(gpu)


def run(request):
    result = out / request.parent.name
    if (result / "result.json").exists():
        return
    result.mkdir(parents=True, exist_ok=True)
    gpu = gpus.get()
    command = [sys.executable, "-m", "gpu_runner", "--request", str(request), "--result", str(result)]
    with (result / "log").open("w") as log:
        done = subprocess.run(command, stderr=log, env=os.environ | {"CUDA_VISIBLE_DEVICES": gpu})
    gpus.put(gpu)
    print(request.parent.name, "exit", done.returncode, flush=True)


with concurrent.futures.ThreadPoolExecutor(len(listed) or 1) as pool:
    list(pool.map(run, sorted(here.glob("requests/*/request.json"))))
'''


@dataclass(frozen=True)
class Release:
    """A published version with the library's source, and the tarball that stands next to a request."""

    version: str
    tree: Tree
    tarball: bytes


def main(arguments: Sequence[str]) -> int:
    """Prepare requests, or read their results."""
    parser = argparse.ArgumentParser(prog="python -m tests.real_history", description=__doc__)
    parser.add_argument("action", choices=("prepare", "read"))
    parser.add_argument("folder", type=Path)
    parser.add_argument("--results", type=Path, help="by default FOLDER/results")
    chosen = parser.parse_args(arguments)
    if chosen.action == "prepare":
        return prepare(chosen.folder)
    return read(chosen.folder, chosen.results or chosen.folder / "results")


def prepare(folder: Path) -> int:
    """Write the git repository, the requests and the script that runs them."""
    releases = [release(path) for path in fetched(folder / "sdists")]
    commit_all(folder / "repository", releases)
    shutil.rmtree(folder / "requests", ignore_errors=True)
    before: dict[str, Release] = {}
    count = 0
    for one in releases:
        layout = layout_for("liger", one.tree)
        there = layout.existing(one.tree)
        for kernel in (name for name in KERNELS if name in there):
            earlier = before.get(kernel)
            if earlier is not None and kernel not in layout.touched(earlier.tree, one.tree):
                continue
            if write_request(folder / "requests" / f"{kernel}-{one.version}", layout, kernel, one, earlier):
                before[kernel], count = one, count + 1
    (folder / "run.py").write_text(RUN)
    print(f"{len(releases)} releases, {count} requests in {folder}")
    return 0


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


def write_request(folder: Path, layout: Layout, kernel: str, new: Release, old: Release | None) -> bool:
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
    budget_s = timing_budget_s(len(problem.workloads))
    request = BenchmarkRequest(
        source, candidate, budget_s=budget_s, original=original, contenders=ORIGINAL_ALONE, standing=True
    )
    folder.mkdir(parents=True)
    asked = GpuRequest(folder.name, Action.benchmark, to_json(request), Limits())
    (folder / "request.json").write_text(json.dumps(to_json(asked)))
    (folder / "about.json").write_text(json.dumps([kernel, new.version, None if old is None else old.version]))
    (folder / HEAD).write_bytes(new.tarball)
    if old is not None:
        (folder / GOOD).write_bytes(old.tarball)
    return True


def read(folder: Path, results: Path) -> int:
    """Keep every result as a night, a day apart by release, with the changes that the comparisons confirmed; print them."""
    embedded.configure(folder / "state")
    database = current().database
    database.migrate()
    versions = [path.name for path in sorted(folder.glob("sdists/*.tar.gz"), key=_version_of)]
    days = {name.removeprefix("liger_kernel-").removesuffix(".tar.gz"): place for place, name in enumerate(versions)}
    print(
        "| kernel | pass | size | from | to | new over old (95% interval) | it is |\n| --- | --- | --- | --- | --- | ---: | --- |"
    )
    for about in sorted(folder.glob("requests/*/about.json"), key=lambda path: path.parent.name):
        kernel, new, old = json.loads(about.read_text())
        path = results / about.parent.name / "result.json"
        payload = json.loads(path.read_text())["payload"] if path.exists() else None
        if payload is None:
            print(f"| {kernel} | | | {old} | v{new} | | not measured |")
            continue
        result = from_json(BenchmarkResult, payload)
        at = days[new] * DAY_S
        numbers = list(points_of(result, REPOSITORY, kernel, f"v{new}", at, CANDIDATE))
        if old is not None:
            numbers += points_of(result, REPOSITORY, kernel, f"v{old}", days[old] * DAY_S, ORIGINAL)
        with database.write() as session:
            history.add(session, numbers)
            for row in result.rows:
                for one in row.comparisons:
                    ratio = (1 / one.speedup, 1 / one.speedup_high, 1 / one.speedup_low)
                    place = f"{kernel} | {row.timed_pass.value} | {row.workload.label()} | v{old} | v{new}"
                    print(f"| {place} | {ratio[0]:.3f} ({ratio[1]:.3f} to {ratio[2]:.3f}) | {one.word.value} |")
                    if one.word.value == "slower" and result.gpu is not None:
                        testbed = host_testbed(result.gpu, dict(result.host))
                        names = (row.timed_pass.value, row.workload.label(), Metric.time_us, testbed)
                        found = Candidate(f"v{old}", f"v{new}", ratio[0], Evidence.band)
                        history.keep_change(
                            session, SeriesKey(REPOSITORY, kernel, KERNEL, *names), found, State.confirmed, ratio, at
                        )
    return 0


def _version_of(path: Path) -> tuple[int, ...]:
    return tuple(map(int, re.findall(r"\d+", path.name.removesuffix(".tar.gz"))))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
