"""Stands in for ``python -m gpu_runner`` where nights are played over measured releases: it answers from results and runs nothing.

A row's time, interval, peak and floor are those that its kernel's newest release had. Two kinds of noise are drawn from what was
measured: that of a night from how much the same release differed between its two requests (one compares it with the release
before, one with the release after), that of a run from the control of a run, with that run's own interval.
What is planted stands in the kernel's file, as ``# planted: slower 1.04``, ``# planted: peak 2.0`` or ``# planted: wrong SIZE``.
With ``--edited`` every answer is the result of a real run of the same forms of a kernel, drawn from those that were made.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import re
import sys
import tarfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from gpu_runner.benchmark.estimate import Ratio, word
from gpu_runner.contracts import (
    Action,
    BenchmarkRequest,
    BenchmarkResult,
    CandidateSource,
    Comparison,
    Evidence,
    GpuRequest,
    GpuResult,
    HostReport,
    Status,
    TestsResult,
    Timing,
    Verdict,
    VerifyRequest,
    WorkloadTiming,
    from_json,
    to_json,
)
from tests.real_history.edited import digest_of

MODULE = re.compile(r"from liger_kernel\.ops\.(\w+) import")
PLANTED = re.compile(r"# planted: (slower|peak|wrong) (\S+)")
Place = tuple[str, str]  # pass and size


@dataclass(frozen=True)
class Machine:
    """What differs from night to night: ``slowed`` is by how much something other than the kernels slows them."""

    night: int
    driver: str
    slowed: float = 1.0
    beside: str = ""  # with edits: what else worked on the GPU when the runs were made that answer tonight


@dataclass(frozen=True)
class Measured:
    """What was measured of a kernel: its newest result, and by row how it varied between two requests and within one."""

    newest: BenchmarkResult
    nights: Mapping[Place, Sequence[float]]  # log-ratios of one release in two requests
    controls: Mapping[Place, Sequence[Comparison]]


def measured(folder: Path, kernel: str) -> Measured:
    """Read a kernel's results, in the order of releases."""
    paths = sorted(
        (path for path in folder.glob(f"results/{kernel}-*/result.json") if path.parent.name.count("-") == 1),
        key=lambda path: [int(part) for part in path.parent.name.rpartition("-")[2].split(".")],
    )
    results = [from_json(BenchmarkResult, json.loads(path.read_text())["payload"]) for path in paths]
    nights: dict[Place, list[float]] = {}
    controls: dict[Place, list[Comparison]] = {}
    before: dict[Place, float] = {}
    for result in results:
        now: dict[Place, float] = {}
        for row in result.rows:
            place = (row.timed_pass.value, row.workload.label())
            times = {one.contender: one.median_us for one in row.timings if one.median_us is not None}
            if place in before and "original" in times:
                nights.setdefault(place, []).append(math.log(times["original"] / before[place]))
            if "candidate" in times:
                now[place] = times["candidate"]
            if row.control is not None:
                controls.setdefault(place, []).append(row.control)
        before = now
    return Measured(results[-1], nights, controls)


def main() -> int:
    """Answer one request."""
    parser = argparse.ArgumentParser(prog="python -m tests.real_history.stand_in")
    for name in ("--history", "--machine", "--request", "--result"):
        parser.add_argument(name, type=Path, required=True)
    parser.add_argument("--edited", action="store_true", help="the history is that of edits")
    options = parser.parse_args()
    request = from_json(GpuRequest, json.loads(options.request.read_text()))
    machine = Machine(**json.loads(options.machine.read_text()))
    newest = next(iter(sorted(options.history.glob("results/*/result.json"))))
    facts = dict(json.loads(newest.read_text())["host"]) | {"driver": machine.driver}
    answer = _recorded if options.edited else _answer
    payload = to_json(answer(request, machine, facts, options.history, options.request.parent))
    result = GpuResult(request.request_id, request.action, payload, host=tuple(facts.items()), duration_s=20.0)
    (options.result / "result.json").write_text(json.dumps(to_json(result)))
    return 0


def _answer(request: GpuRequest, machine: Machine, facts: Mapping[str, str], history: Path, folder: Path) -> object:
    if request.action is Action.doctor:
        versions = (facts["python"], facts["torch"], facts["triton"], facts["gpu"], "sm_90", machine.driver)
        return HostReport(*versions, None, None, (), (), (), ())
    if request.action is Action.tests:
        return TestsResult(True, 0, (), "exit code 0", "")
    if request.action is Action.verify:
        return _verdict(from_json(VerifyRequest, request.payload).candidate, folder)
    if request.action is Action.benchmark:
        return _times(from_json(BenchmarkRequest, request.payload), machine, facts, history, folder)
    raise ValueError(f"nothing was measured of {request.action.value}")


def _recorded(request: GpuRequest, machine: Machine, facts: Mapping[str, str], history: Path, folder: Path) -> object:
    """What a run of the same forms of the kernel gave; a night's time is that of any run in which the form took part."""
    if request.action is Action.verify:
        asked = from_json(VerifyRequest, request.payload)
        return from_json(
            Verdict, random.choice(_runs(history, request.action, asked.candidate, asked.original, folder, machine))[1]
        )
    if request.action is not Action.benchmark:
        return _answer(request, machine, facts, history, folder)
    timed = from_json(BenchmarkRequest, request.payload)
    alone = timed.original is None
    runs = _runs(history, request.action, timed.candidate, timed.original, folder, machine)
    seed = f"{machine.night} {_kernel(timed.candidate)}" if alone else None  # a night that is asked twice says the same
    contender, form = random.Random(seed).choice(runs)
    result = from_json(BenchmarkResult, form)
    rows = tuple(_slowed(_alone(row, contender) if alone else row, machine.slowed) for row in result.rows)
    return replace(result, rows=rows, host=tuple(facts.items()), untimed=())


def _runs(
    history: Path, action: Action, new: CandidateSource, old: CandidateSource | None, folder: Path, machine: Machine
) -> list[tuple[str, object]]:
    """The runs of a pair of forms with the candidate's name in each; without an original, of each run that has the form."""
    kernel = _kernel(new)
    digests = [None if form is None else digest_of(_file(form, kernel, folder)) for form in (new, old)]
    found: list[tuple[str, object]] = []
    for path in sorted(history.glob("results/*/result.json")):
        name, what, candidate, original, beside = json.loads(
            (history / "requests" / path.parent.name / "about.json").read_text()
        )
        payload = json.loads(path.read_text())["payload"]
        # A host has no neighbour when it gives a verdict: what stands beside it changes no value.
        is_beside = beside == machine.beside or action is Action.verify
        if (name, what) != (kernel, action.value) or payload is None or not is_beside:
            continue
        if digests[1] is None:
            found += [
                (one, payload) for one, form in (("candidate", candidate), ("original", original)) if form == digests[0]
            ]
        elif [candidate, original] == digests:
            found.append(("candidate", payload))
    if not found:
        raise ValueError(f"{kernel} has no run that answers {action.value} of {digests}, beside {machine.beside!r}")
    return found


def _alone(row: WorkloadTiming, contender: str) -> WorkloadTiming:
    timings = tuple(replace(one, contender="candidate") for one in row.timings if one.contender == contender)
    return replace(row, timings=timings, comparisons=(), control=None)


def _slowed(row: WorkloadTiming, by: float) -> WorkloadTiming:
    def slower(us: float | None) -> float | None:
        return None if us is None else us * by

    def times(one: Timing) -> Timing:
        return replace(one, median_us=slower(one.median_us), low_us=slower(one.low_us), high_us=slower(one.high_us))

    return replace(row, timings=tuple(times(one) for one in row.timings))


def _verdict(form: CandidateSource, folder: Path) -> Verdict:
    size = _planted(form, _kernel(form), folder).get("wrong")
    if size is None:
        return Verdict(Status.passed)
    evidence = Evidence("values", "an element is wrong", workload=size)
    return Verdict(Status.incorrect_values, evidence=(evidence,))


def _times(
    request: BenchmarkRequest, machine: Machine, facts: Mapping[str, str], history: Path, folder: Path
) -> BenchmarkResult:
    kernel = _kernel(request.candidate)
    known = measured(history, kernel)
    forms = {"candidate": request.candidate} | ({} if request.original is None else {"original": request.original})
    planted = {name: _planted(form, kernel, folder) for name, form in forms.items()}
    rows = tuple(_row(row, known, planted, machine, kernel) for row in known.newest.rows)
    return replace(known.newest, rows=rows, host=tuple(facts.items()))


def _row(
    row: WorkloadTiming, known: Measured, planted: Mapping[str, Mapping[str, str]], machine: Machine, kernel: str
) -> WorkloadTiming:
    place = (row.timed_pass.value, row.workload.label())
    run = random.Random()
    night = random.Random(f"{machine.night} {kernel} {place}")
    # The difference of two requests varies twice as much as either.
    drift = night.choice(known.nights.get(place, [0.0])) * night.choice((-1, 1)) / math.sqrt(2)
    common = machine.slowed * math.exp(drift)
    (source,) = (one for one in row.timings if one.contender == "candidate")
    steps = {name: float(marks.get("slower", 1.0)) for name, marks in planted.items()}
    timings = [
        _timing(source, name, common * step, float(planted[name].get("peak", 1.0))) for name, step in steps.items()
    ]
    comparisons: tuple[Comparison, ...] = ()
    if "original" in steps:
        control = run.choice(known.controls[place])
        true = steps["original"] / steps["candidate"]
        middle, low, high = (true * one for one in (control.speedup, control.speedup_low, control.speedup_high))
        other = run.choice(known.controls[place])
        noise = Ratio(other.speedup, other.speedup_low, other.speedup_high).bound
        said = word(Ratio(middle, low, high), noise)
        comparisons = (Comparison("candidate", "original", middle, low, high, said, control.pairs),)
    return replace(row, timings=tuple(timings), comparisons=comparisons)


def _timing(source: Timing, contender: str, slower: float, peak: float) -> Timing:
    times = [None if one is None else one * slower for one in (source.median_us, source.low_us, source.high_us)]
    bytes_ = None if source.peak_bytes is None else round(source.peak_bytes * peak)
    return Timing(contender, *times, source.blocks, bytes_)


def _kernel(form: CandidateSource) -> str:
    # Next to what calls the kernel may lie files of the library that a change touches.
    match = MODULE.search("\n".join(file.text for file in form.files if file.path.endswith(f"/{form.module}.py")))
    if match is None:
        raise ValueError("no kernel of liger-kernel is timed here")
    return match[1]


def _planted(form: CandidateSource, kernel: str, folder: Path) -> dict[str, str]:
    return dict(PLANTED.findall(_file(form, kernel, folder).decode()))


def _file(form: CandidateSource, kernel: str, folder: Path) -> bytes:
    with tarfile.open(folder / str(form.tree)) as tar:
        name = next(name for name in tar.getnames() if name.endswith(f"/src/liger_kernel/ops/{kernel}.py"))
        file = tar.extractfile(name)
        return file.read() if file else b""


if __name__ == "__main__":
    sys.exit(main())
