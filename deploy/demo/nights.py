"""Plays a month of nights on recorded times: a regression is planted, found, traced to its commit, mended, and its issue closed.

Service, engine, stages and pages are the real ones, in this process and stepped by hand, so that a month passes in a minute. In
the GPU host's place stands ``recorded_gpu``.
"""

from __future__ import annotations

import json
import shutil
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

import typer
import uvicorn
from pydantic import SecretStr

from deploy.demo import library, recorded_gpu
from deploy.demo.library import LibraryError
from deploy.demo.play import KEPT_PORTS, headline, say, transcript
from deploy.demo.recorded_gpu import Machine
from deploy.demo.theatre import MAINTAINER, REPOSITORY, DemoError, free_port, register
from deploy.localhub.hub import Hub
from deploy.localhub.server import HOST, HubServer
from service.app import Parts, create_app, make_parts
from service.pages.export import export_pages
from service.settings import Settings
from workers import embedded, inbox, observability, runtime

DAY_S = 86_400.0
NIGHTS = 30
DRIVER, NEW_DRIVER = "580.159.04", "590.44.01"
DRIVER_NIGHT, NEIGHBOUR_NIGHT, PLANTED_NIGHT, MENDED_NIGHT = 8, 13, 18, 23
RMS_NORM = "src/liger_kernel/ops/rms_norm.py"
WITHOUT_COPY = "    X = X.view(-1, dim)\n"
WITH_COPY = f"    X = X.view(-1, dim){recorded_gpu.EXTRA_COPY}\n"
NOTES = "NOTES.md"
LIMIT_S = 300.0


@dataclass
class Stage:
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

    def source(self) -> str:
        """The file of the kernel that is slowed down, as it is on the default branch."""
        return (self.hub.read_file(REPOSITORY, "main", RMS_NORM) or b"").decode()

    def push(self, changes: Mapping[str, str], message: str) -> str:
        """Commit to the default branch."""
        return self.hub.push(REPOSITORY, "main", MAINTAINER, changes, message)

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
        source = archive or library.fetch(out.parent / "library")
        shutil.rmtree(out, ignore_errors=True)
        out.mkdir(parents=True)
        with tempfile.TemporaryDirectory() as scratch:
            untouched = library.unpack(source, Path(scratch))
            with _open(out, untouched, KEPT_PORTS if keep else (0, 0), started) as stage:
                passed = _month(stage, out)
                if keep:
                    _stay(stage)
        return 0 if passed else 1
    except (DemoError, LibraryError) as error:
        typer.echo(f"The demo stopped: {error}", err=True)
        return 1


@contextmanager
def _open(out: Path, untouched: Path, ports: tuple[int, int], started: float) -> Iterator[Stage]:
    hub = Hub(out / "localhub")
    port = ports[1] or free_port()
    service_url = f"http://{HOST}:{port}"
    embedded.configure(out / "state")
    machine = (out / "machine.json").absolute()
    try:
        with HubServer(hub, port=ports[0]) as server:
            bot = register(hub, untouched, service_url)
            settings = Settings(
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
            stage = Stage(hub, parts, machine, service_url, started)
            stage.parts = replace(parts, processor=replace(parts.processor, clock=stage.clock))
            made = runtime.current()
            made.clock, made.runner_command = stage.clock, recorded_gpu.command(machine)
            with _served(settings, stage.parts, port):
                yield stage
    finally:
        embedded.close()


@contextmanager
def _served(settings: Settings, parts: Parts, port: int) -> Iterator[None]:
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


def _month(stage: Stage, out: Path) -> bool:
    say(stage.started, f"{library.PROJECT} {library.VERSION} on {REPOSITORY}; the times are those of an H200, recorded")
    kernels = " ".join(json.loads(recorded_gpu.RECORDED.read_text())["kernels"])
    diary = stage.hub.open_issue(REPOSITORY, MAINTAINER, "Nightly runs", "A night a day.").number
    for night in range(NIGHTS):
        stage.night = night
        driver = NEW_DRIVER if night >= DRIVER_NIGHT else DRIVER
        machine = Machine(night, driver, 1.2 if night == NEIGHBOUR_NIGHT else 1.0)
        stage.machine.write_text(json.dumps(asdict(machine)))
        _day(stage, night)
        stage.hub.comment(REPOSITORY, diary, MAINTAINER, f"/kernel nightly {kernels}")
        stage.settle()
        said = [entry for entry in stage.hub.conversation(REPOSITORY, diary) if entry.by != MAINTAINER]
        say(stage.started, f"night {night + 1:2}: {headline(said[-1]).partition(': ')[2]}")
        stage.show()
    return _leave(stage, out, diary)


def _day(stage: Stage, night: int) -> None:
    """What people do before the night."""
    note = {NOTES: f"# Notes\n\nDay {night + 1}.\n"}
    if night == PLANTED_NIGHT:
        stage.push(note, "Take notes")
        slow = {RMS_NORM: stage.source().replace(WITHOUT_COPY, WITH_COPY)}
        stage.push(slow, "Keep rms_norm's input from being written to")
        stage.push({NOTES: "# Notes\n\nMore.\n"}, "Take more notes")
    elif night == MENDED_NIGHT:
        stage.push({RMS_NORM: stage.source().replace(WITH_COPY, WITHOUT_COPY)}, "Do not copy rms_norm's input")
    else:
        stage.push(note, "Take notes")


def _leave(stage: Stage, out: Path, diary: int) -> bool:
    hub = stage.hub
    opened = stage.opened()
    titles = [(f"Issue #{number}", hub.conversation(REPOSITORY, number)) for number in (*opened, diary)]
    (out / "transcript.md").write_text(transcript(titles), encoding="utf-8")
    count = export_pages(out / "pages", REPOSITORY, f"{stage.parts.settings.html_url}/{REPOSITORY}", NIGHTS, NIGHTS - 1)
    issues = [hub.issue(REPOSITORY, number) for number in opened]
    held = [
        ("one issue was opened, of rms_norm", len(issues) == 1 and issues[0].title.startswith("rms_norm ")),
        ("it is closed", all(issue.state == "closed" for issue in issues)),
        ("every job is done", {job.state.value for job in inbox.find_jobs(REPOSITORY)} == {"done"}),
    ]
    for what, is_so in held:
        say(stage.started, f"  {'held' if is_so else 'BROKEN'}: {what}")
    typer.echo(f"\nConversations: {out}/transcript.md   pages ({count} files): {out}/pages/index.html")
    return all(is_so for _, is_so in held)


def _stay(stage: Stage) -> None:
    typer.echo(f"\nlocalhub: {stage.parts.settings.html_url}/{REPOSITORY}   pages: {stage.service_url}/kernels")
    typer.echo("Comment `/kernel nightly` on an issue, or `/kernel triaged REASON`. Ctrl+C ends it.")
    try:
        while True:
            if not stage.step():
                time.sleep(0.2)
    except KeyboardInterrupt:
        typer.echo("")
