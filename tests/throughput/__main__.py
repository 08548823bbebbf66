"""Sends webhooks to the service and to a bare echo, by turns, and prints how they compare: ``python -m tests.throughput``.

The service is ``kernelsmith web`` with a fresh SQLite database and threads that handle what comes; the deliveries are comments
without a command. A delivery counts once its answer, 202, has come; in the end the database must hold each of them.
"""

from __future__ import annotations

import argparse
import contextlib
import http.client
import json
import socket
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from service.webhook import sign
from workers.environment import plain_environment

ROOT = Path(__file__).parents[2]
HOST = "127.0.0.1"
SECRET = b"a secret of the throughput command"
BODY_BYTES = 10_000  # about what GitHub sends of a comment
USER = {"login": "octocat", "type": "User"}


@dataclass(frozen=True)
class Server:
    """A process that listens."""

    port: int
    pid: int

    def cpu_s(self) -> float:
        """What its threads have computed so far; unlike a latency it does not depend on who else wants the cores."""
        spent = [path.read_text().split()[0] for path in Path(f"/proc/{self.pid}/task").glob("*/schedstat")]
        return sum(map(int, spent)) * 1e-9


@dataclass
class Measured:
    """The times of the requests to one server, by round."""

    rates: list[float] = field(default_factory=list)  # requests a second
    latencies_s: list[float] = field(default_factory=list)
    cpu_s: float = 0.0  # of the server, all of its threads, during the rounds

    def quantile_ms(self, share: float) -> float:
        return sorted(self.latencies_s)[int(share * (len(self.latencies_s) - 1))] * 1e3


def main(arguments: Sequence[str]) -> int:
    """Measure one at a time and eight at a time; 1 where a delivery that was answered is not in the database."""
    parser = argparse.ArgumentParser(prog="python -m tests.throughput", description=__doc__)
    parser.add_argument("--rounds", type=int, default=10, help="of each server, by turns")
    parser.add_argument("--requests", type=int, default=200, help="in a round")
    parser.add_argument("--at-once", type=int, nargs="*", default=[1, 8], metavar="CONNECTIONS")
    parser.add_argument("--job-every", type=float, metavar="SECONDS", help="run a job that often meanwhile")
    parser.add_argument("--folder", type=Path, help="where the database lies: which disk is measured")
    chosen = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(dir=chosen.folder) as name, contextlib.ExitStack() as stack:
        folder = Path(name)
        running = stack.enter_context(servers(folder))
        if chosen.job_every is not None:
            stack.enter_context(process("tests.throughput.jobs", str(folder), str(chosen.job_every)))
            time.sleep(3.0)
        sent: set[str] = set()
        for connections in chosen.at_once:
            measured = {name: Measured() for name in running}
            for _ in range(chosen.rounds):
                for name, server in running.items():
                    sent |= measure(measured[name], server, chosen.requests, connections, keep=name == "webhook")
            print(report(connections, measured), flush=True)
        lost = sent - kept(folder)
        print(f"{len(sent)} deliveries were answered with 202, {len(lost)} of them are not in the database")
    return int(bool(lost))


@contextlib.contextmanager
def servers(folder: Path) -> Iterator[dict[str, Server]]:
    """Run both servers, by name."""
    ports = {"echo": free_port(), "webhook": free_port()}
    settings = {
        "KERNELSMITH_DATA_DIR": str(folder),
        "KERNELSMITH_WEBHOOK_SECRETS": SECRET.decode(),
        "KERNELSMITH_TOKEN": "none",
        "KERNELSMITH_API_URL": f"http://{HOST}:9",  # nobody listens there, and a comment without a command asks nothing
        "KERNELSMITH_BOT_LOGIN": "smith[bot]",
        "KERNELSMITH_PORT": str(ports["webhook"]),
    }
    with (
        process("tests.throughput.echo", str(ports["echo"])) as echo,
        process("service.cli", "web", **settings) as webhook,
    ):
        for port in ports.values():
            wait_for(port)
        yield {"echo": Server(ports["echo"], echo), "webhook": Server(ports["webhook"], webhook)}


@contextlib.contextmanager
def process(module: str, *arguments: str, **settings: str) -> Iterator[int]:
    """Run a module in a process of its own, which ends with the block, and give its id."""
    command = [sys.executable, "-m", module, *arguments]
    child = subprocess.Popen(command, cwd=ROOT, env=plain_environment() | settings, stderr=subprocess.DEVNULL)
    try:
        yield child.pid
    finally:
        child.terminate()
        child.wait()


def measure(measured: Measured, server: Server, count: int, connections: int, *, keep: bool) -> set[str]:
    """Send so many requests over so many connections, each one after the other; give the ids of those that were accepted."""
    share = [[str(uuid.uuid4()) for _ in range(count // connections)] for _ in range(connections)]
    prepared = [[(delivery_id, *prepare(delivery_id)) for delivery_id in ids] for ids in share]

    def send(requests: list[tuple[str, bytes, dict[str, str]]]) -> list[float]:
        connection = http.client.HTTPConnection(HOST, server.port, timeout=60)
        times = []
        for delivery_id, body, headers in requests:
            start_s = time.perf_counter()
            connection.request("POST", "/webhook", body, headers)
            answer = connection.getresponse()
            text = answer.read()
            times.append(time.perf_counter() - start_s)
            if answer.status != 202:
                raise SystemExit(f"{delivery_id} was answered with {answer.status}: {text!r}")
        connection.close()
        return times

    with ThreadPoolExecutor(connections) as pool:
        start_s, cpu_s = time.perf_counter(), server.cpu_s()
        times = [seconds for each in pool.map(send, prepared) for seconds in each]
        measured.rates.append(len(times) / (time.perf_counter() - start_s))
        measured.cpu_s += server.cpu_s() - cpu_s
    measured.latencies_s += times
    return {delivery_id for ids in share for delivery_id in ids} if keep else set()


def prepare(delivery_id: str) -> tuple[bytes, dict[str, str]]:
    """Give the body and the headers of a comment that holds no command."""
    comment = {"id": uuid.UUID(delivery_id).int % 10**9, "user": USER, "html_url": "https://github.com/o/r/issues/7"}
    payload = {
        "action": "created",
        "comment": comment | {"body": "Thanks, this reads well."},
        "issue": {"number": 7, "body": "", "user": USER},
        "repository": {"full_name": "o/r", "addresses": "x" * BODY_BYTES},  # most of a payload says where it happened
        "sender": USER,
    }
    body = json.dumps(payload).encode()
    headers = {
        "Content-Type": "application/json",
        "X-GitHub-Event": "issue_comment",
        "X-GitHub-Delivery": delivery_id,
        "X-Hub-Signature-256": sign(SECRET, body),
    }
    return body, headers


def report(connections: int, measured: dict[str, Measured]) -> str:
    """Give the lines of a table: the median of the rounds, and the ratio of each pair of rounds, which ran in turn."""
    lines = [f"{connections} at a time"]
    for server, found in measured.items():
        times = ", ".join(
            f"p{share:.0%} {found.quantile_ms(share):.1f} ms".replace("%", "") for share in (0.5, 0.9, 0.99)
        )
        cpu_ms = found.cpu_s / len(found.latencies_s) * 1e3
        lines.append(
            f"  {server:8} {statistics.median(found.rates):7.0f} a second, {times}, {cpu_ms:.2f} ms of CPU each"
        )
    ratios = sorted(
        echo / webhook for echo, webhook in zip(measured["echo"].rates, measured["webhook"].rates, strict=True)
    )
    lines.append(f"  ratio    1 : {statistics.median(ratios):.1f} (rounds from {ratios[0]:.1f} to {ratios[-1]:.1f})")
    return "\n".join(lines)


def kept(folder: Path) -> set[str]:
    """Give the ids of the deliveries that the database holds."""
    with contextlib.closing(sqlite3.connect(folder / "kernelsmith.sqlite3", timeout=60)) as database:
        return {row[0] for row in database.execute("SELECT delivery_id FROM deliveries")}


def free_port() -> int:
    with socket.create_server((HOST, 0)) as server:
        port: int = server.getsockname()[1]
        return port


def wait_for(port: int) -> None:
    end_s = time.monotonic() + 60.0
    while time.monotonic() < end_s:
        with contextlib.suppress(OSError), socket.create_connection((HOST, port), timeout=1):
            return
        time.sleep(0.1)
    raise SystemExit(f"nothing listens at port {port}")


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
