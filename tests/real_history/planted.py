"""Plants changes on top of the last measured release, and plays nights over them with the measured times and their noise.

Nights and bisection are those of ``kernelsmith nightly`` and ``kernelsmith bisect`` on a clone of the history's repository; in the
GPU host's place stands ``stand_in``. First nights are quiet, in one somebody else's work slows the GPU, then a driver changes and
everything takes a tenth longer; a week later a night brings a slowdown of 4%, a doubled peak and wrong values at one size, each in
a commit among others.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from gpu_runner.contracts import Status, from_json
from service.local.asking import LocalJob
from service.local.bisecting import RangeSearch, Sizes
from service.local.checkout import Checkout
from service.local.session import LocalSession, compared
from service.local.terminal import Quiet
from tests.real_history.edited import EDITS, NEIGHBOUR, OPS
from tests.real_history.stand_in import Machine
from workers import artifacts, embedded, observability, runtime
from workers.contracts import JobOptions, MeasuredKernel, NightChange, NightlySummary, Verb
from workers.nightly.detection import NightEvidence, SeriesState
from workers.nightly.series import Metric

NEW_SERIES_NIGHTS = 7
OLD_DRIVER, NEW_DRIVER = "580.159.04", "590.44.01"
DAY_S = 86_400.0
PLANTED = {"swiglu": "slower 1.04", "geglu": "peak 2.0", "rms_norm": "wrong T=2048"}  # marks of the stand-in, by kernel
SHOWN_BY = {"slower": Metric.time_us, "peak": Metric.peak_bytes, "wrong": Metric.wrong_values}
MARKS = {metric: mark for mark, metric in SHOWN_BY.items()}


@dataclass
class Play:
    """A clone that nights are played on; ``night`` is the day."""

    folder: Path
    kernels: tuple[str, ...]
    night: int = 0
    driver: str = OLD_DRIVER
    slowed: float = 1.0  # what the driver makes of every time
    edits: bool = False  # whether kernels are edited for real, and real runs answer
    counted: Counter[str] = field(default_factory=Counter)

    @property
    def repository(self) -> Path:
        """The clone."""
        return self.folder / "repository"

    @property
    def machine(self) -> Path:
        """The file that tells the stand-in what tonight's machine is."""
        return self.folder / "machine.json"

    def clock(self) -> float:
        """A day passes between two nights."""
        return time.time() + self.night * DAY_S

    def commit(self, path: str, line: str) -> str:
        """Add a line to a file, commit it, and give the commit."""
        with (self.repository / path).open("a") as file:
            file.write(f"\n{line}\n")
        self._git("add", "-A")
        self._git("commit", "-q", "-m", line)
        return self._git("rev-parse", "HEAD")

    def make_worse(self, kernel: str, mark: str) -> str:
        """Commit the edit of a kernel, or else the mark that the stand-in obeys."""
        path = self.repository / OPS / f"{kernel}.py"
        if not self.edits:
            return self.commit(f"{OPS}/{kernel}.py", f"# planted: {mark}")
        path.write_text(EDITS[kernel].apply(path.read_text()))
        self._git("commit", "-q", "-a", "-m", f"{kernel}: {EDITS[kernel].what}")
        return self._git("rev-parse", "HEAD")

    def play(self, what: str, neighbour: float = 1.0) -> tuple[NightChange, ...]:
        """Play a night, print what came of it, and give what it reports; ``neighbour`` is by how much one slows it."""
        is_beside = self.edits and neighbour != 1.0
        slowed = self.slowed if is_beside else self.slowed * neighbour
        machine = Machine(self.night, self.driver, slowed, NEIGHBOUR if is_beside else "")
        self.machine.write_text(json.dumps(asdict(machine)))
        asked = LocalJob(
            "nightly", "", JobOptions(auto=True, budget_minutes=1440), verb=Verb.nightly, kernels=self.kernels
        )
        job = LocalSession(Checkout(self.repository), self.folder / f"night-{self.night}", Quiet()).run(asked)
        report = next(one for one in job.artifacts if one.name == "report.json")
        summary = from_json(NightlySummary, json.loads(artifacts.get(report.digest)))
        states = Counter(change.state for change in summary.changes)
        self.counted["nights of series"] += sum(kernel.points for kernel in summary.kernels)
        self.counted["compared"] += len(summary.changes)
        told = ", ".join(f"{count} {state}" for state, count in sorted(states.items())) or "nothing left its band"
        new = f"; new testbed: {', '.join(summary.new_testbed)}" if summary.new_testbed else ""
        print(f"night {self.night + 1:2}, {what}: {told}{new}", flush=True)
        self.night += 1
        return tuple(
            one
            for one in summary.changes
            if one.state == SeriesState.confirmed and one.evidence != NightEvidence.recovery
        )

    def search(self, kernel: str, good: str, bad: str) -> list[str]:
        """The commits that a bisection names."""
        checkout = Checkout(self.repository)

        def compare(old: str, new: str, sizes: Sizes) -> MeasuredKernel:
            options = JobOptions(against=old, auto=True, timed_sizes=sizes)
            asked = LocalJob("bisect", "", options, verb=Verb.bench, kernels=(kernel,), head=new)
            return compared(LocalSession(checkout, self.folder / "bisect", Quiet()).run(asked), kernel)

        def prove(old: str, commit: str) -> Status | None:
            options = JobOptions(against=old, auto=True)
            asked = LocalJob("bisect", "", options, verb=Verb.verify, kernels=(kernel,), head=commit)
            verdict = compared(LocalSession(checkout, self.folder / "bisect", Quiet()).run(asked), kernel).verdict
            return None if verdict is None else verdict.status

        search = RangeSearch(checkout, compare, prove)
        _, suspects = search.run(good, bad)
        print(f"bisect {kernel}: {search.steps} steps", flush=True)
        return [" ".join(suspect.commits) for suspect in suspects]

    def _git(self, *words: str) -> str:
        user = ["-c", "user.name=history", "-c", "user.email=history@localhost.invalid"]
        command = ["git", "-C", str(self.repository), *user, *words]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def plant(
    folder: Path, kernels: Sequence[str], quiet_nights: int, planted: Mapping[str, str], slowed: float = 1.25
) -> int:
    """Play the nights on those of the kernels that were measured; 0 where all came as it was planted.

    ``planted`` gives the mark of each kernel that becomes worse, ``slowed`` by how much a neighbour slows everything for a night.
    """
    measured = {path.parent.name.partition("-")[0] for path in folder.glob("results/*/result.json")}
    play = Play((folder / "planted").absolute(), tuple(sorted(measured & {*kernels, *planted})))
    _begin(play, folder, ("--history", str(folder.absolute())))
    return _nights(play, quiet_nights, planted, slowed)


def plant_edits(folder: Path, quiet_nights: int) -> int:
    """Play the nights on the edited kernels, answered by the results of real runs; 0 where all came as it was planted.

    Without a run of each kernel beside a neighbour there is no such night.
    """
    play = Play((folder / "planted").absolute(), tuple(sorted(EDITS)), driver=_driver(folder / "edited"), edits=True)
    _begin(play, folder, ("--edited", "--history", str((folder / "edited").absolute())))
    beside = sorted((folder / "edited").glob(f"results/*-{NEIGHBOUR}/result.json"))
    marks = {kernel: MARKS[edit.shown_by] for kernel, edit in EDITS.items()}
    return _nights(play, quiet_nights, marks, 2.0 if len(beside) == len(EDITS) else 0.0)


def _driver(history: Path) -> str:
    """The driver of the host that made the runs."""
    newest = min(history.glob("results/*/result.json"))
    return str(dict(json.loads(newest.read_text())["host"])["driver"])


def _begin(play: Play, folder: Path, history: tuple[str, ...]) -> None:
    shutil.rmtree(play.folder, ignore_errors=True)
    play.folder.mkdir()
    subprocess.run(["git", "clone", "-q", str(folder / "repository"), str(play.repository)], check=True)
    observability.configure("WARNING")
    embedded.configure(play.folder / "state")
    made = runtime.current()
    made.clock = play.clock
    made.runner_command = (
        *(sys.executable, "-m", "tests.real_history.stand_in"),
        *(*history, "--machine", str(play.machine)),
    )


def _nights(play: Play, quiet_nights: int, planted: Mapping[str, str], slowed: float) -> int:
    false_alarms = [*_quiet(play, quiet_nights)]
    if slowed:
        play.commit("README.md", "A noisy day.")
        false_alarms += play.play("a noisy neighbour", neighbour=slowed)
    else:
        print("no night with a neighbour: nothing was measured beside one", flush=True)
    play.driver, play.slowed = NEW_DRIVER, 1.10
    play.commit("README.md", "The driver is another one.")
    false_alarms += play.play("a new driver, everything a tenth slower from now on")
    false_alarms += _quiet(play, NEW_SERIES_NIGHTS)
    return _planted_night(play, planted, false_alarms)


def _quiet(play: Play, nights: int) -> list[NightChange]:
    reported: list[NightChange] = []
    for _ in range(nights):
        play.commit("README.md", f"Day {play.night + 1}.")
        reported += play.play("quiet")
    return reported


def _planted_night(play: Play, planted: Mapping[str, str], false_alarms: Sequence[NightChange]) -> int:
    good = play.commit("README.md", "The last good commit.")
    false_alarms = [*false_alarms, *play.play("quiet")]
    culprits = {}
    for kernel, mark in planted.items():
        play.commit("README.md", f"Before {kernel}.")
        culprits[kernel] = play.make_worse(kernel, mark)
    bad = play.commit("README.md", "After all.")
    changes = play.play("planted")
    play.commit("README.md", "The day after.")
    again = play.play("the night after")
    return _judge(play, planted, false_alarms, culprits, changes, again, (good, bad))


def _judge(
    play: Play,
    planted: Mapping[str, str],
    false_alarms: Sequence[NightChange],
    culprits: Mapping[str, str],
    changes: Sequence[NightChange],
    again: Sequence[NightChange],
    ends: tuple[str, str],
) -> int:
    found = {kernel: {one.metric for one in changes if one.kernel == kernel} for kernel in play.kernels}
    wanted: dict[str, set[str]] = {kernel: set() for kernel in play.kernels}
    wanted |= {kernel: {SHOWN_BY[mark.partition(" ")[0]].value} for kernel, mark in planted.items()}
    checks = {"what was planted is found in its night, and nothing else": found == wanted}
    checks["nothing was reported before it"] = not false_alarms
    checks["nothing is reported a second time"] = not again
    for kernel in planted:
        checks[f"{kernel}'s commit is named, and no other"] = play.search(kernel, *ends) == [culprits[kernel]]
    print(f"{play.counted['nights of series']} series-nights, {play.counted['compared']} compared")
    for change in (*false_alarms, *changes):
        size = f"{change.timed_pass} {change.workload}"
        print(
            f"reported: {change.kernel} {change.metric} {size}: {change.ratio:.3f}, {change.good[:8]}..{change.bad[:8]}"
        )
    for what, is_so in checks.items():
        print(f"{'held' if is_so else 'BROKEN'}: {what}")
    return 0 if all(checks.values()) else 1
