"""Plays a month of nights on recorded times: a regression is planted, found, traced to its commit, mended, and its issue closed.

Service, engine, stages and pages are the real ones, in this process and stepped by hand, so that a month passes in a minute. In
the GPU host's place stands ``recorded_gpu``.
"""

from __future__ import annotations

import json
import re
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path

import typer
import uvicorn
from pydantic import SecretStr

from deploy.demo import library, recorded_gpu
from deploy.demo.library import LibraryError
from deploy.demo.play import headline, say, transcript
from deploy.demo.recorded_gpu import Machine
from deploy.demo.theatre import MAINTAINER, REPOSITORY, DemoError, empty_folder, free_port, kept_ports, register
from deploy.localhub.conversation import CommentEntry
from deploy.localhub.hub import Hub
from deploy.localhub.server import HOST, HubServer
from service.app import Parts, create_app, make_parts
from service.pages.export import export_pages
from service.settings import ServiceSettings
from workers import embedded, inbox, observability, runtime

DAY_S = 86_400.0
NIGHTS = 30
DRIVER, NEW_DRIVER = "580.159.04", "590.44.01"
DRIVER_NIGHT, IMPROVED_NIGHT, NEIGHBOUR_NIGHT, PLANTED_NIGHT, MENDED_NIGHT = 5, 10, 15, 20, 24
SOFTMAX = "src/liger_kernel/ops/softmax.py"
COPY = recorded_gpu.EXTRA_COPY
RMS_NORM = "src/liger_kernel/ops/rms_norm.py"
# The line of each kernel's host code in which its input can be copied for nothing.
INPUT = {RMS_NORM: "X = X.view(-1, dim)", SOFTMAX: "x2d = x.contiguous().view(-1, n_cols)"}
NOTES, PLANTED_BRANCH = "NOTES.md", "keep-input"
RANGE = re.compile(r"/kernel bisect \S+ \w+\.\.\w+")
LIMIT_S = 300.0


@dataclass
class DemoStage:
    """The product in this process, a GitHub next to it, and the night that it is."""

    hub: Hub
    parts: Parts
    machine: Path
    service_url: str
    started: float
    night: int = 0
    _shown: set[int] = field(default_factory=set)

    def clock(self) -> float:
        """The product's clock: the last night is today."""
        return time.time() - (NIGHTS - 1 - self.night) * DAY_S

    def settle(self) -> None:
        """Let everything happen that is due.

        Raises:
            DemoError: it does not end.
        """
        deadline = time.monotonic() + LIMIT_S
        while self.step() or any(inbox.counts()["updates"].get(state) for state in ("pending", "claimed")):
            if time.monotonic() > deadline:
                raise DemoError(f"night {self.night + 1} did not end: {inbox.counts()}")

    def step(self) -> bool:
        """Do one thing that is due; False where there is none."""
        delivered = bool(self.hub.deliver_all())
        return delivered or self.parts.processor.step() or embedded.step() or self.parts.publisher.step()

    def push(self, changes: Mapping[str, str], message: str, branch: str = "main") -> str:
        """Commit to a branch; give the commit."""
        return self.hub.push(REPOSITORY, branch, MAINTAINER, changes, message)

    def copying(self, path: str) -> dict[str, str]:
        """A kernel's file with a needless copy of its input."""
        return {path: self._source(path).replace(INPUT[path], INPUT[path] + COPY)}

    def not_copying(self, path: str) -> dict[str, str]:
        """A kernel's file without that copy."""
        return {path: self._source(path).replace(COPY, "")}

    def _source(self, path: str) -> str:
        return (self.hub.read_file(REPOSITORY, "main", path) or b"").decode()

    def show(self) -> None:
        """Print what is new in the issues that the bot opened."""
        for number in self.opened():
            for entry in self.hub.conversation(REPOSITORY, number):
                if entry.id not in self._shown:
                    self._shown.add(entry.id)
                    say(self.started, f"  #{number} {headline(entry)}")

    def opened(self) -> list[int]:
        """The issues that the bot opened."""
        found = self.hub.world.repository(REPOSITORY).issues.values()
        return [issue.number for issue in found if issue.login == self.parts.settings.bot_login]


def play_nights(out: Path, keep: bool = False, archive: Path | None = None) -> int:
    """Play the month and give the exit status: 0 only if all came as it was planted."""
    started = time.monotonic()
    observability.configure("ERROR")
    try:
        ports = kept_ports() if keep else (0, 0)
        source = archive or library.fetch(out.parent / "library")
        with empty_folder(out), tempfile.TemporaryDirectory() as scratch:
            untouched = library.unpack(source, Path(scratch))
            with _open(out, untouched, ports, started) as stage:
                passed = _month(stage, out)
                if keep:
                    _stay(stage)
        return 0 if passed else 1
    except (DemoError, LibraryError) as error:
        typer.echo(f"The demo stopped: {error}", err=True)
        return 1


@contextmanager
def _open(out: Path, untouched: Path, ports: tuple[int, int], started: float) -> Iterator[DemoStage]:
    hub = Hub(out / "localhub")
    port = ports[1] or free_port()
    service_url = f"http://{HOST}:{port}"
    embedded.configure(out / "state")
    machine = (out / "machine.json").absolute()
    try:
        with HubServer(hub, port=ports[0]) as server:
            bot = register(hub, untouched, service_url)
            settings = ServiceSettings(
                webhook_secrets=(SecretStr(bot.secret),),
                app_id=bot.app_id,
                private_key=SecretStr(bot.private_key),
                api_url=server.api_url,
                html_url=server.url,
                public_url=service_url,
                bot_login=bot.bot_login,
                publisher_threads=0,
                delivery_threads=0,
            )
            parts = make_parts(settings)
            stage = DemoStage(hub, parts, machine, service_url, started)
            made = runtime.current()
            made.clock, made.runner_command = stage.clock, recorded_gpu.command(machine)
            with _served(settings, stage.parts, port):
                yield stage
    finally:
        embedded.close()


@contextmanager
def _served(settings: ServiceSettings, parts: Parts, port: int) -> Iterator[None]:
    server = uvicorn.Server(uvicorn.Config(create_app(settings, parts), host=HOST, port=port, log_level="critical"))
    thread = threading.Thread(target=server.run, name="service", daemon=True)
    thread.start()
    while not server.started:
        if not thread.is_alive():
            raise DemoError(f"the service did not start on port {port}: is it taken?")
        time.sleep(0.05)
    try:
        yield
    finally:
        server.should_exit = True
        thread.join()


def _month(stage: DemoStage, out: Path) -> bool:
    say(stage.started, f"{library.PROJECT} {library.VERSION} on {REPOSITORY}; the times are those of an H200, recorded")
    kernels = " ".join(json.loads(recorded_gpu.RECORDED.read_text())["kernels"])
    diary = stage.hub.open_issue(REPOSITORY, MAINTAINER, "Nightly runs", "A night a day.").number
    stage.push(stage.copying(SOFTMAX), "Copy softmax's input")
    planted = None
    for night in range(NIGHTS):
        stage.night = night
        driver = NEW_DRIVER if night >= DRIVER_NIGHT else DRIVER
        machine = Machine(night, driver, 1.2 if night == NEIGHBOUR_NIGHT else 1.0)
        stage.machine.write_text(json.dumps(asdict(machine)))
        planted = _day(stage, night) or planted
        stage.hub.comment(REPOSITORY, diary, MAINTAINER, f"/kernel nightly {kernels}")
        stage.settle()
        said = [entry for entry in stage.hub.conversation(REPOSITORY, diary) if isinstance(entry, CommentEntry)]
        say(stage.started, f"night {night + 1:2}: {headline(said[-1]).partition(': ')[2]}")
        stage.show()
        if night == PLANTED_NIGHT:
            _search(stage)
    return _leave(stage, out, diary, planted)


def _day(stage: DemoStage, night: int) -> int | None:
    """What people do before a night; gives the number of the pull request that slows a kernel down, in its night."""
    stage.push({NOTES: f"# Notes\n\nDay {night + 1}.\n"}, "Take notes")
    pull = None
    if night == PLANTED_NIGHT:
        stage.push(stage.copying(RMS_NORM), "Keep rms_norm's input as it is", PLANTED_BRANCH)
        pull = stage.hub.open_pull(REPOSITORY, MAINTAINER, PLANTED_BRANCH, "Keep rms_norm's input as it is").number
        stage.hub.merge(REPOSITORY, pull, MAINTAINER)
        stage.push({NOTES: f"# Notes\n\nDay {night + 1}, evening.\n"}, "Take more notes")
    elif night == MENDED_NIGHT:
        stage.push(stage.not_copying(RMS_NORM), "Do not copy rms_norm's input")
    elif night == IMPROVED_NIGHT:
        stage.push(stage.not_copying(SOFTMAX), "Do not copy softmax's input")
    return pull


def _search(stage: DemoStage) -> None:
    """Have the commit searched, on the issue that the night opened."""
    for issue in stage.opened():
        command = RANGE.search(stage.hub.issue(REPOSITORY, issue).body or "")
        if command is not None:
            stage.hub.comment(REPOSITORY, issue, MAINTAINER, command[0])
            stage.settle()
            stage.show()


def _leave(stage: DemoStage, out: Path, diary: int, planted: int | None) -> bool:
    hub = stage.hub
    opened = stage.opened()
    titles = [(f"Issue #{number}", hub.conversation(REPOSITORY, number)) for number in (*opened, diary)]
    (out / "transcript.md").write_text(transcript(titles), encoding="utf-8")
    count = export_pages(out / "pages", REPOSITORY, f"{stage.parts.settings.html_url}/{REPOSITORY}", NIGHTS, NIGHTS - 1)
    issues = {issue.title: issue for issue in (hub.issue(REPOSITORY, number) for number in opened)}
    regressions = [issue for title, issue in issues.items() if "became slower" in title]
    told = transcript(titles)
    checks = [run.title or "" for run in hub.check_runs(REPOSITORY)]
    held = [
        ("one regression was reported, of rms_norm", [one.title.split()[0] for one in regressions] == ["rms_norm"]),
        ("its issue is closed", all(issue.state == "closed" for issue in regressions)),
        ("the search named its pull request", f"pull request #{planted}" in told),
        ("that pull request has a check", len(checks) == 1 and checks[0].startswith("rms_norm ")),
        ("softmax is in a week's digest", any("week by week" in title for title in issues) and "`softmax`" in told),
        ("every job is done", {job.state.value for job in inbox.find_jobs(REPOSITORY)} == {"done"}),
    ]
    for what, is_so in held:
        say(stage.started, f"  {'held' if is_so else 'BROKEN'}: {what}")
    typer.echo(f"\nConversations: {out}/transcript.md   pages ({count} files): {out}/pages/index.html")
    return all(is_so for _, is_so in held)


def _stay(stage: DemoStage) -> None:
    typer.echo(f"\nlocalhub: {stage.parts.settings.html_url}/{REPOSITORY}   pages: {stage.service_url}/kernels")
    typer.echo("Comment `/kernel nightly` on an issue, or `/kernel triaged REASON`. Ctrl+C ends it.")
    try:
        while True:
            if not stage.step():
                time.sleep(0.2)
    except KeyboardInterrupt:
        typer.echo("")
